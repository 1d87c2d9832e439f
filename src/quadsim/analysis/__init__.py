"""Bags, scores, plots and reports."""
