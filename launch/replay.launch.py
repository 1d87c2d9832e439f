"""A bag played on DDS, with live nodes, under ``ros2 launch quadsim replay.launch.py bag:=FOLDER``.

The nodes and their parameters are those of ``ros.graph.replay_graph``. When the bag has been
played, all ends.
"""

from quadsim.ros.graph.launching import launch_description
from quadsim.ros.graph.replay_graph import REPLAY_ARGUMENTS, describe_replay_launch


def generate_launch_description():
    return launch_description(REPLAY_ARGUMENTS, describe_replay_launch, ends=("player",))
