"""Writes docs/reference.md: every option, launch argument and key, from its one declaration.

``python docs/make_reference.py``; a test compares the page with the declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from quadsim.base.options import launch_arguments
from quadsim.base.parameters import Leaf, leaves
from quadsim.cli.main import COMMANDS

PAGE = Path(__file__).with_name("reference.md")
#: Launch file: module and class of its arguments.
LAUNCH = {
    "sim": ("quadsim.ros.graph.graph", "SimLaunch"),
    "swarm": ("quadsim.ros.graph.swarm_graph", "SwarmLaunch"),
    "firmware": ("quadsim.ros.graph.swarm_graph", "FirmwareLaunch"),
    "gazebo": ("quadsim.ros.graph.gazebo_graph", "GazeboLaunch"),
    "hil": ("quadsim.ros.graph.hil_graph", "HilOptions"),
    "replay": ("quadsim.ros.graph.replay_graph", "ReplayLaunch"),
}
#: Folder of config/: module and class of its files' keys.
FILES = {
    "vehicles": ("quadsim.vehicle.parameters", "VehicleParams"),
    "estimators": ("quadsim.estimation.eskf.parameters", "EstimatorParams"),
    "autopilots": ("quadsim.control.parameters", "AutopilotParams"),
    "guards": ("quadsim.hil.guard.parameters", "GuardParams"),
    "planners": ("quadsim.hil.planner.planner", "PlannerParams"),
    "recording": ("quadsim.bag.profiles", "RecordProfile"),
}
HEAD = """\
# Reference

Every option of the command, argument of the launch files and key of the parameter files, from their
declarations (`python docs/make_reference.py` writes this page). Scenarios are in
[experiments.md](experiments.md) and [mission.md](mission.md), devices in [sensors.md](sensors.md),
topics and nodes in [nodes.md](nodes.md).
"""


def named(place: tuple[str, str]) -> Any:
    """A class of a module."""
    return getattr(import_module(place[0]), place[1])


def row(*cells: str) -> str:
    """One row of a table; a bar in a cell would end it, and ``] [`` would be a link."""
    texts = (cell.replace("|", "\\|").replace("] [", "; ") for cell in cells)
    return "| " + " | ".join(texts) + " |"


def commands(name: str, command: click.Command) -> Iterator[str]:
    """A command's options, and those of its subcommands."""
    context = click.Context(command, info_name=name)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(f"{name} {below}", found)
        return
    arguments = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    yield "\n".join(["", f"### quadsim {' '.join([name, *arguments])}", "", command.help or ""])
    yield "\n".join(["", row("option", "meaning"), row("---", "---")])
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield row(f"`{record[0]}`", " ".join(record[1].split()))


def key(leaf: Leaf) -> str:
    """One key of a parameter file."""
    default = "" if leaf.default is None else str(leaf.default)
    if "<dataclasses._MISSING_TYPE" in default:
        default = "must be given"
    allowed = leaf.spec.allowed().replace("any finite value", "")
    return row(f"`{leaf.name}`", default, leaf.spec.unit, allowed, leaf.spec.doc)


def page() -> str:
    """The page."""
    lines = [HEAD, "## Commands"]
    for name, (module, attribute, _) in COMMANDS.items():
        lines += commands(name, named((module, attribute)))
    lines += ["", "## Launch files"]
    for name, place in LAUNCH.items():
        lines += ["", f"### {name}.launch.py", "", row("argument", "default", "meaning")]
        lines.append(row("---", "---", "---"))
        for argument, (default, about) in launch_arguments(named(place)).items():
            lines.append(row(f"`{argument}`", f"`{default}`" if default else "", about))
    lines += ["", "## Parameter files"]
    for folder, place in FILES.items():
        lines += ["", f"### config/{folder}", "", row("key", "default", "unit", "allowed", "what")]
        lines.append(row("---", "---", "---", "---", "---"))
        lines += [key(leaf) for leaf in leaves(named(place))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
