"""Parts that several nodes share."""
