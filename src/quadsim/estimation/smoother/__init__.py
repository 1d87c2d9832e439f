"""The fixed-interval smoother."""
