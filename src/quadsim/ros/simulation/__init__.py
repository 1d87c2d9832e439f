"""What makes simulated time in ``dynamics`` and ``swarm``, and the services that steer it."""
