"""Swapped, mirrored and rotated sensor axes, found in flight."""
