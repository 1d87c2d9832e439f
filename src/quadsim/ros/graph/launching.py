"""A described graph as actions of ``launch_ros``: what every ``launch/*.launch.py`` does.

The launch packages are imported when a description is made, as the wheels lack them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from quadsim.base.errors import InputError
from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.runtime.domain import chosen_domain, hold_for_good

#: Arguments of a launch file: name to default and meaning.
Arguments = Mapping[str, tuple[str, str]]
#: The nodes for the texts that launch gives the arguments.
Describe = Callable[[Mapping[str, str]], Sequence[NodeSpec]]


def _launch() -> tuple[Any, Any, Any]:
    """Modules of the launch packages.

    Raises:
        InputError: they are not installed.
    """
    try:
        import launch.actions
        import launch.substitutions
        import launch_ros.actions
        import launch_ros.parameter_descriptions

        import launch
    except ImportError as error:
        raise InputError(
            f"launch files need the ROS packages launch and launch_ros ({error}); without them:"
            " quadsim fly"
        ) from None
    return launch, launch_ros.actions, launch_ros.parameter_descriptions


def ros_parameters(spec: NodeSpec) -> dict[str, Any]:
    """Parameters as launch_ros takes them; texts stay texts, even those that look like numbers."""
    _, _, descriptions = _launch()
    return {
        name: descriptions.ParameterValue(value, value_type=str)
        if isinstance(value, str)
        else value
        for name, value in spec.parameters.items()
    }


def node_action(spec: NodeSpec, ends_all: bool = False) -> Any:
    """One node as a launch_ros action.

    Args:
        spec: the node.
        ends_all: everything is stopped when it ends.
    """
    launch, actions, _ = _launch()
    given: dict[str, Any] = {"on_exit": launch.actions.Shutdown()} if ends_all else {}
    if spec.arguments:
        given["arguments"] = list(spec.arguments)
    return actions.Node(
        package=spec.package,
        executable=spec.executable,
        name=spec.name or spec.executable,
        namespace=spec.namespace,
        parameters=[ros_parameters(spec)],
        remappings=list(spec.remappings),
        output="screen",
        **given,
    )


def process_action(command: Sequence[str], environment: Mapping[str, str]) -> Any:
    """A program that is no node, as a launch action; everything is stopped when it ends.

    Args:
        command: program and arguments.
        environment: variables beside those that are there.
    """
    launch, _, _ = _launch()
    return launch.actions.ExecuteProcess(
        cmd=list(command),
        additional_env=dict(environment),
        output="screen",
        on_exit=launch.actions.Shutdown(),
    )


def launch_description(
    arguments: Arguments,
    describe: Describe,
    ends: Collection[str] = (),
    also: Callable[[Mapping[str, str]], Sequence[Any]] | None = None,
) -> Any:
    """The LaunchDescription of a graph.

    Args:
        arguments: of the launch file.
        describe: makes the nodes for the arguments' values.
        ends: executables with whose end everything is stopped.
        also: makes other actions for the arguments' values, which come before the nodes.

    Raises:
        InputError: the launch packages are not installed. When it is launched: another graph is on
            the domain.
    """
    launch, _, _ = _launch()

    def actions(context: Any) -> list[Any]:
        hold_for_good(chosen_domain(None))
        values = {
            name: launch.substitutions.LaunchConfiguration(name).perform(context)
            for name in arguments
        }
        others = list(also(values)) if also is not None else []
        return others + [node_action(spec, spec.executable in ends) for spec in describe(values)]

    declared = [
        launch.actions.DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in arguments.items()
    ]
    return launch.LaunchDescription([*declared, launch.actions.OpaqueFunction(function=actions)])
