"""Parts of the node swarm."""
