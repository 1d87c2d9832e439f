"""Which nodes a graph consists of, and how they are started and ended."""
