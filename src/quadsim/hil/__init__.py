"""Real vehicles among virtual obstacles: guard, planner, rehearsal."""
