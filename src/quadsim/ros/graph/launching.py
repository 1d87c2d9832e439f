"""A described graph as actions of ``launch_ros``: what every ``launch/*.launch.py`` does.

The launch packages are imported when a description is made, as the wheels lack them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.options import from_texts, launch_arguments
from quadsim.ros.executables import LAUNCHER
from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.runtime.domain import chosen_domain, hold_for_good

#: Nodes without which the others have no world.
WORLDS = ("dynamics", "swarm")
#: Exit status of a node that refuses what it is given (``quadsim.ros.runtime.runtime``).
BAD_INPUT = 2


def _launch() -> tuple[Any, Any, Any]:
    """Modules of the launch packages."""
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
    """One node as a launch_ros action; ours end with the process that launches them.

    Args:
        ends_all: everything is stopped when it ends, not only when it refuses what it is given.
    """
    launch, actions, _ = _launch()
    given: dict[str, Any] = {}

    def shut_down(event: Any, _: Any) -> Any:
        if event.returncode == BAD_INPUT:
            return launch.actions.Shutdown(reason=f"{spec.label} refused to start")
        return launch.actions.Shutdown(reason=f"{spec.label} has ended") if ends_all else None

    if spec.package == "quadsim":
        given = {"on_exit": shut_down, "additional_env": {LAUNCHER: str(os.getpid())}}
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
        environment: variables besides those that are there.
    """
    launch, _, _ = _launch()
    return launch.actions.ExecuteProcess(
        cmd=list(command),
        additional_env=dict(environment),
        output="screen",
        on_exit=launch.actions.Shutdown(),
    )


def launch_description(options: type[Any], ends: Collection[str] = WORLDS) -> Any:
    """The LaunchDescription of a graph.

    Args:
        options: class of the launch file's arguments (:mod:`quadsim.base.options`), whose
            ``describe()`` gives the nodes, ``processes()``, if it has one, what runs next to them
            and is started before, and ``notes()``, if it has one, lines to be told.
        ends: executables with whose end everything is stopped.

    Raises:
        InputError: the launch packages are not installed. When it is launched: another graph is on
            the domain, or an argument cannot be used.
    """
    launch, _, _ = _launch()
    arguments = launch_arguments(options)

    def actions(context: Any) -> list[Any]:
        hold_for_good(chosen_domain(None))
        texts = {
            name: launch.substitutions.LaunchConfiguration(name).perform(context)
            for name in arguments
        }
        given = from_texts(options, texts)
        others = given.processes() if hasattr(given, "processes") else []
        notes = given.notes() if hasattr(given, "notes") else []
        return [
            *(launch.actions.LogInfo(msg=line) for line in notes),
            *(process_action(each.command, each.environment) for each in others),
            *(node_action(spec, spec.executable in ends) for spec in given.describe()),
        ]

    declared = [
        launch.actions.DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in arguments.items()
    ]
    return launch.LaunchDescription([*declared, launch.actions.OpaqueFunction(function=actions)])
