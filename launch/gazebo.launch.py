"""A scenario with Gazebo under ``ros2 launch quadsim gazebo.launch.py``.

``physics:=gazebo`` lets Gazebo fly the vehicle, ``gazebo:=view`` lets it show what our physics fly.
Gazebo's world, its bridges, our nodes and their parameters are those of
``quadsim.ros.graph.gazebo_graph``.
"""

from quadsim.ros.graph.gazebo_arguments import GAZEBO_ARGUMENTS
from quadsim.ros.graph.gazebo_graph import describe_gazebo, gazebo_processes
from quadsim.ros.graph.launching import launch_description, process_action


def gazebo(values):
    return [
        process_action(process.command, process.environment) for process in gazebo_processes(values)
    ]


def generate_launch_description():
    return launch_description(
        GAZEBO_ARGUMENTS, lambda values: describe_gazebo(values).nodes, also=gazebo
    )
