"""The mission: items, trajectories, and the flight state machine with its failsafes."""
