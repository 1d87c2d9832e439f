"""Logs that are not bags, read as bags: one reader for each format, one interface for all."""
