"""Contact with ground, obstacles and other vehicles."""
