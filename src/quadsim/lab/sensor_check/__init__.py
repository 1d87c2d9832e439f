"""Devices proved by measurement, and made from recordings."""
