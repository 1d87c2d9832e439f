"""Very many vehicles of one kind, stepped side by side."""
