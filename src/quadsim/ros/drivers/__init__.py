"""Parts of the node driver."""
