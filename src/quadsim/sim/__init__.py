"""The deterministic closed loop, scenarios and seeds."""
