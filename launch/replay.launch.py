"""A bag played on DDS, with live nodes, under ``ros2 launch quadsim replay.launch.py bag:=FOLDER``.

When the bag has been played, all ends.
"""

from quadsim.ros.graph.launching import launch_description
from quadsim.ros.graph.replay_graph import ReplayLaunch


def generate_launch_description():
    return launch_description(ReplayLaunch, ends=("player",))
