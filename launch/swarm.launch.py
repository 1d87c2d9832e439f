"""Many vehicles in one process under ``ros2 launch quadsim swarm.launch.py count:=12``.

The nodes and their parameters are those of ``quadsim.ros.graph.swarm_graph``.
"""

from quadsim.ros.graph.launching import launch_description
from quadsim.ros.graph.swarm_graph import SWARM_ARGUMENTS, describe_swarm_launch


def generate_launch_description():
    return launch_description(SWARM_ARGUMENTS, describe_swarm_launch)
