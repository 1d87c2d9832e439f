"""Bags: read, repaired, written, mended; what their topics mean."""
