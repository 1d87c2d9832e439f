"""The reference that the vehicle follows now: legs, trajectories, terrain."""
