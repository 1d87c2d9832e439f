"""Other people's firmware flies our vehicles: Betaflight, ArduPilot and PX4."""
