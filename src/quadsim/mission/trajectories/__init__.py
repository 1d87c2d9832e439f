"""Trajectories to track: minimum snap, shapes, files and commands, with their derivatives."""
