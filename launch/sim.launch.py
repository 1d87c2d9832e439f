"""A scenario's graph under ``ros2 launch quadsim sim.launch.py``; see docs/graph.md."""

from quadsim.ros.graph.graph import SimLaunch
from quadsim.ros.graph.launching import launch_description


def generate_launch_description():
    return launch_description(SimLaunch)
