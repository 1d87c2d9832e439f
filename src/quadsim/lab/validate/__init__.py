"""Real flights predicted: what a vehicle file states of flights that were flown."""
