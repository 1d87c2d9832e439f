"""Parts of the nodes that speak with Gazebo."""
