"""ROS messages as bytes and arrays, without ROS."""
