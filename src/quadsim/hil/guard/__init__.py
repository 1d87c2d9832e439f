"""The guard: the last check of a velocity command before a real vehicle."""
