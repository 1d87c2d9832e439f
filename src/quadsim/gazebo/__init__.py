"""Vehicles and worlds for other programs: SDF for Gazebo, URDF for RViz, from the same files."""
