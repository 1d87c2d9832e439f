"""World files in SDF."""
