"""Writes docs/reference.md: every option, launch argument and key, from its one declaration.

``python docs/make_reference.py``; a test compares the page with the declarations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from quadsim.base.options import launch_arguments
from quadsim.base.parameters import Leaf, leaves
from quadsim.base.spec import Spec
from quadsim.cli.main import main
from quadsim.sensors import KINDS

PAGE = Path(__file__).with_name("reference.md")
#: Launch file: module and class of its arguments.
LAUNCH = {
    "sim": ("quadsim.ros.graph.graph", "SimLaunch"),
    "swarm": ("quadsim.ros.graph.swarm_graph", "SwarmLaunch"),
    "firmware": ("quadsim.ros.graph.swarm_graph", "FirmwareLaunch"),
    "gazebo": ("quadsim.ros.graph.gazebo_graph", "GazeboLaunch"),
    "hil": ("quadsim.ros.graph.hil_graph", "HilLaunch"),
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
    "rehearsals": ("quadsim.hil.rehearsal.parameters", "RehearsalParams"),
    "rehearsals, troubles": ("quadsim.hil.rehearsal.parameters", "TroubleParams"),
    "drivers, topics": ("quadsim.drivers.convert", "DriverTopic"),
    "drivers, commands": ("quadsim.drivers.outward", "DriverCommand"),
    "drivers, services": ("quadsim.drivers.commands", "DriverService"),
    "drivers, parameters": ("quadsim.drivers.commands", "DriverParameter"),
    "logs, entries": ("quadsim.bag.logs.columns", "ColumnEntry"),
}
HEAD = """\
# Reference

Every option of the command, argument of the launch files and key of the parameter files, from their
declarations (`python docs/make_reference.py` writes this page). Scenarios are in
[scenarios.md](scenarios.md) and [mission.md](mission.md), topics and nodes in [nodes.md](nodes.md).
"""
SHARED = 'What several of them have, with one meaning. Each names these in its line "also".\n'
KEYS = "A range is written [0, 30) where 0 is allowed and 30 is not.\n"
DEVICES = "Files of config/sensors, by kind. [sensors.md](sensors.md) has the models.\n"
#: Columns of a table of keys.
HEADS = ("key", "default", "range", "what")
#: Name, and the further cells.
Row = tuple[str, ...]


def named(place: tuple[str, str]) -> Any:
    """A class of a module."""
    return getattr(import_module(place[0]), place[1])


def table(rows: Iterable[Row]) -> str:
    """A table; a bar in a cell would end it, and ``] [`` would be a link."""
    texts = ([cell.replace("|", "\\|").replace("] [", "; ") for cell in cells] for cells in rows)
    head, *rest = ["| " + " | ".join(cells) + " |" for cells in texts]
    return "\n".join([head, "|" + " --- |" * (head.count(" | ") + 1), *rest]) + "\n"


def sections(
    heads: tuple[str, ...], found: dict[str, tuple[str, list[Row]]], one_form: bool = False
) -> Iterator[str]:
    """A table for each section, and first one of the rows that more than one of them has.

    Args:
        heads: of the columns.
        found: section's title to what it is, and its rows.
        one_form: share only the rows of names that are the same in all sections.
    """
    counts = Counter(row for _, rows in found.values() for row in rows)
    forms = Counter(row[0] for row in counts)
    for row in counts:
        if one_form and forms[row[0]] > 1:
            counts[row] = 1
    shared = [row for row, count in counts.items() if count > 1]
    if shared:
        yield "\n".join([SHARED, table([heads, *shared])])
    for title, (about, rows) in found.items():
        yield f"### {title}\n"
        if about:
            yield f"{about}\n"
        own = [row for row in rows if counts[row] == 1]
        if own:
            yield table([heads, *own])
        also = [f"`{row[0].split()[0].strip('`')}`" for row in rows if counts[row] > 1]
        if also:
            yield f"Also {', '.join(also)}.\n"


def commands(name: str, command: click.Command) -> Iterator[tuple[str, tuple[str, list[Row]]]]:
    """Title, text and options of a command, or of its subcommands."""
    context = click.Context(command, info_name=name)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(f"{name} {below}", found)
        return
    arguments = [p.make_metavar(context) for p in command.params if isinstance(p, click.Argument)]
    records = (parameter.get_help_record(context) for parameter in command.params)
    rows = [(f"`{r[0]}`", " ".join(r[1].split())) for r in records if r is not None]
    yield f"quadsim {' '.join([name, *arguments])}", (command.help or "", rows)


def launch_file(place: tuple[str, str]) -> list[Row]:
    """Arguments of a launch file."""
    return [
        (f"`{name}`", f"`{default}`" if default else "", about)
        for name, (default, about) in launch_arguments(named(place)).items()
    ]


def interval(spec: Spec) -> str:
    """What is allowed, in a few signs."""
    if spec.choices:
        return ", ".join(spec.choices)
    least, most = (
        (spec.gt if spec.ge is None else spec.ge),
        (spec.lt if spec.le is None else spec.le),
    )
    if least is None and most is None:
        return ""
    low = "(-∞" if least is None else f"{'(' if spec.ge is None else '['}{least:g}"
    high = "∞)" if most is None else f"{most:g}{')' if spec.le is None else ']'}"
    return f"{low}, {high}"


def key(leaf: Leaf) -> Row:
    """One key of a parameter file."""
    default = "" if leaf.default is None else str(leaf.default)
    if "<dataclasses._MISSING_TYPE" in default:
        default = "must be given"
    return f"`{leaf.name}`", f"{default} {leaf.spec.unit}", interval(leaf.spec), leaf.spec.doc


def page() -> str:
    """The page."""
    found = {}
    context = click.Context(main)
    for name in main.list_commands(context):
        found |= dict(commands(name, main.get_command(context, name)))
    lines = [HEAD, "## Commands\n", *sections(("option", "meaning"), found)]
    found = {f"{name}.launch.py": ("", launch_file(place)) for name, place in LAUNCH.items()}
    lines += ["## Launch files\n", *sections(("argument", "default", "meaning"), found)]
    lines += ["## Parameter files\n", KEYS]
    for folder, place in FILES.items():
        rows = [key(leaf) for leaf in leaves(named(place))]
        lines += [f"### config/{folder}\n", table([HEADS, *rows])]
    found = {f"Device {kind}": ("", list(map(key, leaves(of)))) for kind, of in KINDS.items()}
    lines += ["## Devices\n", DEVICES, *sections(HEADS, found, one_form=True)]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
