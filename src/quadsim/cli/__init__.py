"""The command quadsim."""
