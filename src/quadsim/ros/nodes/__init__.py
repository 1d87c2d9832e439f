"""One module per executable."""
