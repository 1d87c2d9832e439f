"""A scenario's graph under ``ros2 launch quadsim sim.launch.py``.

The nodes, their parameters and remappings are those of ``quadsim.nodes.graph``; this file only
turns the description into actions.
"""

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchDescription
from quadsim.nodes.graph import LAUNCH_ARGUMENTS, describe_launch


def ros_parameters(spec):
    """Parameters as launch_ros takes them; texts stay texts, even those that look like numbers."""
    return {
        name: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for name, value in spec.parameters.items()
    }


def actions(context):
    values = {name: LaunchConfiguration(name).perform(context) for name in LAUNCH_ARGUMENTS}
    return [
        Node(
            package="quadsim",
            executable=spec.executable,
            name=spec.name or spec.executable,
            namespace=spec.namespace,
            parameters=[ros_parameters(spec)],
            remappings=list(spec.remappings),
            output="screen",
        )
        for spec in describe_launch(values)
    ]


def generate_launch_description():
    arguments = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in LAUNCH_ARGUMENTS.items()
    ]
    return LaunchDescription([*arguments, OpaqueFunction(function=actions)])
