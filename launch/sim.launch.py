"""A scenario's graph under ``ros2 launch quadsim sim.launch.py``.

The nodes, their parameters and remappings are those of ``quadsim.ros.graph.graph``.
"""

from quadsim.ros.graph.graph import LAUNCH_ARGUMENTS, describe_launch
from quadsim.ros.graph.launching import launch_description


def generate_launch_description():
    return launch_description(LAUNCH_ARGUMENTS, describe_launch)
