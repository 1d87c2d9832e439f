"""The public Python API, which ``import quadsim`` gives: simulate, replay, load, plot."""
