"""A real vehicle among virtual obstacles, under ``ros2 launch quadsim hil.launch.py``.

Before a flight: docs/hil.md.
"""

from quadsim.ros.graph.hil_graph import HilLaunch
from quadsim.ros.graph.launching import launch_description


def generate_launch_description():
    return launch_description(HilLaunch)
