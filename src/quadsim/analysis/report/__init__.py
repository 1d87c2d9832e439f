"""Figures, and the pages that show them."""
