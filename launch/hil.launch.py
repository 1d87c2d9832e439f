"""A real vehicle among virtual obstacles, under ``ros2 launch quadsim hil.launch.py``.

The nodes, their parameters and remappings are those of ``quadsim.ros.graph.hil_graph``. Before a
flight: docs/hil.md.
"""

from quadsim.ros.graph.hil_graph import HIL_ARGUMENTS, describe_hil_launch
from quadsim.ros.graph.launching import launch_description


def generate_launch_description():
    return launch_description(HIL_ARGUMENTS, describe_hil_launch)
