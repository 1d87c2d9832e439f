"""Identification of a vehicle from recorded flights."""
