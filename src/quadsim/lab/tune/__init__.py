"""Gains for a vehicle: relay experiments, rules and search."""
