"""Many vehicles in one process under ``ros2 launch quadsim swarm.launch.py count:=12``."""

from quadsim.ros.graph.launching import launch_description
from quadsim.ros.graph.swarm_graph import SwarmLaunch


def generate_launch_description():
    return launch_description(SwarmLaunch)
