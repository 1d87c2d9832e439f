"""Rotors, motors and battery."""
