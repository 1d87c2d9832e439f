"""Campaigns: many flights of sampled scenarios, a table of them, and what it shows."""
