"""Parts of the node player."""
