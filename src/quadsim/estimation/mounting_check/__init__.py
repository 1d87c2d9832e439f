"""Swapped, mirrored and turned sensor axes, found in flight."""
