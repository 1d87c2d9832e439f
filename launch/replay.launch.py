"""A bag played on DDS, with live nodes, under ``ros2 launch quadsim replay.launch.py bag:=FOLDER``.

The nodes and their parameters are those of ``quadsim.nodes.replay_graph``; this file only turns the
description into actions. When the bag has been played, all ends.
"""

from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchDescription
from quadsim.nodes.replay_graph import REPLAY_ARGUMENTS, describe_replay_launch


def ros_parameters(spec):
    """Parameters as launch_ros takes them; texts stay texts, even those that look like numbers."""
    return {
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in spec.parameters.items()
    }


def actions(context):
    values = {name: LaunchConfiguration(name).perform(context) for name in REPLAY_ARGUMENTS}
    return [
        Node(
            package="quadsim",
            executable=spec.executable,
            name=spec.name or spec.executable,
            namespace=spec.namespace,
            parameters=[ros_parameters(spec)],
            remappings=list(spec.remappings),
            output="screen",
            on_exit=Shutdown() if spec.executable == "player" else None,
        )
        for spec in describe_replay_launch(values)
    ]


def generate_launch_description():
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in REPLAY_ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=actions)])
