"""Rotations, frames and geodesy."""
