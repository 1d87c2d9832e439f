"""Real flights predicted: what a vehicle file says of flights that were flown."""
