"""A scenario with Gazebo under ``ros2 launch quadsim gazebo.launch.py``.

``physics:=gazebo`` lets Gazebo fly the vehicle, ``gazebo:=view`` lets it show what our physics fly.
"""

from quadsim.ros.graph.gazebo_graph import GazeboLaunch
from quadsim.ros.graph.launching import launch_description


def generate_launch_description():
    return launch_description(GazeboLaunch)
