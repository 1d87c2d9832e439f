"""The graph of a swarm: one node that flies all vehicles, and the recorder.

``launch/swarm.launch.py`` and ``quadsim fly --swarm`` start it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.ros.graph.driver_choice import SIM
from quadsim.ros.graph.graph import (
    GraphOptions,
    NodeSpec,
    as_flag,
    as_number,
    recorder_parameters,
    source_of,
)
from quadsim.ros.swarm.levels import LEVELS
from quadsim.sim.scenario import Scenario, load_scenario

#: More vehicles than these fly as a swarm: each would be nine processes else.
MOST_APART = 4

#: Why an option of graphs in which each vehicle has nodes of its own is refused.
NOT_WITH_A_SWARM = (
    "not with a swarm, whose vehicles have no nodes of their own: up to"
    f" {MOST_APART} vehicles fly with --no-swarm"
)

#: Arguments of ``swarm.launch.py``: default and meaning. Empty means: as the scenario says.
SWARM_ARGUMENTS = {
    "scenario": ("formation", "a file of config/scenarios, or a path"),
    "vehicle": ("", "a file of config/vehicles, or a path"),
    "sensors": ("", "a file of config/sensors/suites, or a path"),
    "seed": ("", "of all randomness"),
    "count": ("", "vehicles"),
    "rate": ("1.0", "simulated over wall time; 0 is as fast as possible"),
    "publish": ("imu", f"what is published of each: {', '.join(LEVELS)}"),
    "motion_rate_hz": ("50.0", "of truth and estimates"),
    "steered": ("true", "true: each takes commands, by topics and services"),
    "record": ("false", "true, false, or the folder of the bag"),
    "record_profile": ("swarm", "a file of config/recording, or a path: topics of the bag"),
    "arm": ("false", "true: arm and fly the mission as soon as the checks pass"),
}


def flies_as_swarm(scenario: Scenario, count: int, wanted: bool | None) -> bool:
    """Whether vehicles fly in one process.

    Args:
        scenario: what flies.
        count: how many.
        wanted: what somebody asked for; None: by their number, and by what they do together.
    """
    if wanted is not None:
        return wanted
    return count > MOST_APART or (count > 1 and scenario.is_flown_together)


def describe_swarm(
    scenario: Scenario, options: GraphOptions, how: Mapping[str, Any] | None = None
) -> list[NodeSpec]:
    """Nodes of a swarm's graph: the swarm, and the recorder if there is a bag.

    Args:
        scenario: what flies.
        options: how; ``rate`` 0 is as fast as possible.
        how: further parameters of the node ``swarm``.

    Raises:
        InputError: an option of graphs in which each vehicle has nodes of its own.
    """
    for name, given in (
        ("drivers", options.drivers != SIM),
        ("beside", bool(options.beside)),
        ("joystick", bool(options.joystick)),
    ):
        if given:
            raise InputError(f"{name}: {NOT_WITH_A_SWARM}")
    parameters = {
        **source_of(scenario),
        "count": options.count,
        "rate": options.rate,
        "paused": options.paused,
        "auto_start": options.arm,
        **(how or {}),
    }
    nodes = [NodeSpec("swarm", "/", parameters)]
    if options.bag is not None:
        recorded = recorder_parameters(scenario, options, nodes)
        nodes.append(NodeSpec("recorder", "/", recorded))
    return nodes


def describe_swarm_launch(values: Mapping[str, str]) -> list[NodeSpec]:
    """Nodes for the texts that launch gives its arguments.

    Args:
        values: every name of :data:`SWARM_ARGUMENTS`.

    Raises:
        InputError: naming the argument and what is allowed.
    """
    from quadsim.bag.profiles import Recording

    if values["publish"] not in LEVELS:
        raise InputError(
            f"launch argument publish: {values['publish']!r}; allowed: {', '.join(LEVELS)}"
        )
    scenario = load_scenario(
        values["scenario"],
        vehicle=values["vehicle"] or None,
        sensors=values["sensors"] or None,
        seed=as_number("seed", values["seed"], int) if values["seed"] else None,
        vehicles=as_number("count", values["count"], int) if values["count"] else None,
    )
    profile = {"record_profile": values["record_profile"]}
    options = GraphOptions(
        count=scenario.file.vehicles,
        rate=as_number("rate", values["rate"], float),
        arm=as_flag("arm", values["arm"]),
        bag={"true": "", "false": None}.get(values["record"].lower(), values["record"]),
        recording=from_mapping(Recording, profile, "launch argument"),
    )
    how = {
        "publish": values["publish"],
        "motion_rate_hz": as_number("motion_rate_hz", values["motion_rate_hz"], float),
        "steered": as_flag("steered", values["steered"]),
    }
    return describe_swarm(scenario, options, how)
