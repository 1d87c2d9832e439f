"""Parts of the planner: a map of what was seen, a search in it, and the speed along a way."""
