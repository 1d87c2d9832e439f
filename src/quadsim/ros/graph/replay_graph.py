"""The graph of a replay, as data: the player, the nodes that run live, the recorder.

``launch/replay.launch.py`` turns it into launch actions, ``quadsim replay --publish`` into
processes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quadsim.analysis.replay import changed, estimator_params, known_keys
from quadsim.bag.origin import DIGEST, SCENARIO_YAML, estimator_of, surroundings
from quadsim.bag.reading import Bag, open_bag
from quadsim.bag.topics import field_of, namespaces
from quadsim.base.errors import InputError
from quadsim.geometry.geodesy import Datum
from quadsim.ros.graph.driver_choice import REPLACEABLE
from quadsim.ros.graph.graph import (
    GraphOptions,
    NodeSpec,
    as_flag,
    as_names,
    as_number,
    describe,
    prefixed,
)
from quadsim.ros.graph.vehicles import namespaces as namespaces_of
from quadsim.ros.player.playback import Selection, parse_remap
from quadsim.ros.runtime.runtime import in_order_of_arrival
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.sim.scenario_text import scenario_from_text

#: Arguments of ``replay.launch.py``: default and meaning.
REPLAY_ARGUMENTS = {
    "bag": ("", "rosbag2 folder or file; must be given"),
    "rate": ("1.0", "bag time over wall time; 0 is as fast as the listeners go"),
    "paused": ("false", "begin paused; /player/pause with false lets it go"),
    "start": ("0.0", "begin so long after the bag's first message, s"),
    "duration": ("0.0", "play so much of the bag, s; 0: to the end"),
    "loop": ("false", "begin again at the end"),
    "topics": ("", "patterns of the topics that are played, with commas; empty: all"),
    "exclude": ("", "patterns of the topics that are left out, with commas"),
    "remap": ("", "a:=b of topics or namespaces, with commas"),
    "clock": ("auto", "/clock: auto (the bag's, or else from log times), log, none"),
    "reliable": ("false", "offer every topic reliable, whatever was recorded"),
    "namespace": ("/quad", "the vehicle in the bag, for live nodes"),
    "without": ("", "nodes whose topics are left out, with commas: you run them"),
    "live": ("", "nodes of ours that run in their place: estimator, autopilot, mixer"),
    "wait_for": ("", "nodes that must be there before, with commas; at rate 0 in step with them"),
    "driver": ("", "who published the bag, if not quadsim: a file of config/drivers, or a path"),
    "config": ("", "parameters of a live estimator: a file of config/estimators, or a path"),
    "scenario": ("", "of live autopilots and mixers; empty: as the bag says"),
    "record": ("false", "true, false, or the folder of the new bag"),
}

#: Messages of a topic between two questions whether nodes of ours have taken them: less than the
#: queue of a slow topic.
OUR_WINDOW = 8
#: What may run live beside a player.
LIVE = ("estimator", "autopilot", "mixer")


@dataclass(frozen=True)
class ReplayOptions:
    """How a bag is played, and what runs beside; the player's parameters have the same names.

    Attributes:
        namespace: the vehicle in the bag.
        live: executables that run.
        wait_for: full names of others' nodes that are waited for.
        driver: who published the bag, if not quadsim, as of :func:`open_bag`.
        config: parameters of a live estimator, a name or a path; None: as flown, where the bag says
            so, else the usual ones.
        changes: of those, as of :func:`quadsim.analysis.replay.changed`.
        datum: origin of ``map`` for a live estimator; None takes the bag's.
        scenario: of live autopilots and mixers; None takes the bag's.
        record: folder of the new bag; None records nothing, an empty text lets the recorder
            name it.
    """

    rate: float = 1.0
    paused: bool = False
    start_s: float = 0.0
    duration_s: float = 0.0
    loop: bool = False
    topics: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    remap: tuple[str, ...] = ()
    clock: str = "auto"
    reliable: bool = False
    without: tuple[str, ...] = ()
    namespace: str = "/quad"
    live: tuple[str, ...] = ()
    wait_for: tuple[str, ...] = ()
    driver: str | None = None
    config: str | None = None
    changes: tuple[str, ...] = ()
    datum: Datum | None = None
    scenario: str | None = None
    record: str | None = None

    def renamed(self, name: str) -> str:
        """What a name of the bag is called when it is played."""
        return Selection(remap=parse_remap(self.remap)).renamed(name)


def describe_replay(path: Path, options: ReplayOptions) -> list[NodeSpec]:
    """Nodes of a replay: the player first, the recorder last.

    Raises:
        InputError: the bag cannot be read, or what is asked for cannot be done with it.
    """
    for name in options.without:
        if name not in REPLACEABLE:
            raise InputError(f"without {name!r}; nodes: {', '.join(REPLACEABLE)}")
    for name in options.live:
        if name not in LIVE:
            raise InputError(f"live {name!r}; nodes that can run live: {', '.join(LIVE)}")
    if options.loop and options.record is not None:
        raise InputError("record: not together with loop, as its time goes back")
    with open_bag(path, options.driver) as bag:
        if options.live and options.namespace not in namespaces(bag):
            there = ", ".join(namespaces(bag)) or "none"
            raise InputError(
                f"{path}: no vehicle {options.namespace} for live nodes; vehicles in this bag:"
                f" {there} (choose with --namespace)"
            )
        renamed = options.renamed
        live = _live_nodes(bag, renamed(options.namespace), options)
        recorder = _recorder(bag, sorted(map(renamed, namespaces(bag))), options)
    specs = [*live, *recorder]
    player: dict[str, Any] = {
        "bag": str(path),
        "rate": options.rate,
        "paused": options.paused,
        "start_s": options.start_s,
        "duration_s": options.duration_s,
        "loop": options.loop,
        "clock": options.clock,
        "driver": options.driver or "",
        # what is offered reliable reaches every listener, and is asked after
        "reliable": options.reliable or bool(specs),
        # others' nodes may take one message of each topic in turn
        "window": OUR_WINDOW if in_order_of_arrival() and not options.wait_for else 1,
    }
    lists = {
        "topics": options.topics,
        "exclude": options.exclude,
        "remap": options.remap,
        "without": (*options.without, *options.live),
        "wait_for": (*options.wait_for, *(spec.full_name for spec in specs)),
    }
    player |= {name: list(values) for name, values in lists.items() if values}
    return [NodeSpec("player", "/", player), *specs]


def _live_nodes(bag: Bag, namespace: str, options: ReplayOptions) -> list[NodeSpec]:
    nodes = []
    if "estimator" in options.live:
        nodes.append(NodeSpec("estimator", namespace, _estimator(bag, options)))
    others = [name for name in options.live if name != "estimator"]
    if others:
        flown = describe(_scenario(bag, options.scenario, others[0]), GraphOptions())
        nodes += [
            NodeSpec(spec.executable, namespace, spec.parameters)
            for spec in flown
            if spec.executable in others
        ]
    return nodes


def _estimator(bag: Bag, options: ReplayOptions) -> dict[str, Any]:
    """Parameters with which the core replays the bag, too."""
    flown = estimator_of(bag) if options.config is None else None
    if flown is None:
        params = estimator_params(options.config, options.changes)
    else:
        params = changed(flown, options.changes)
    field_W_T = field_of(bag)
    known = known_keys(options.config, options.changes)
    if field_W_T is not None and flown is None and "magnetic_field_W_T" not in known:
        params = replace(params, magnetic_field_W_T=field_W_T)
    parameters = {"config": options.config or "eskf", "use_sim_time": True, **prefixed(params)}
    if options.datum is not None:
        parameters |= {"datum_source": "parameter", **prefixed(options.datum, "datum.")}
    return parameters


def _scenario(bag: Bag, asked: str | None, needed_by: str) -> Scenario:
    """The scenario that was flown, as the bag keeps it, or the one that is asked for."""
    text = bag.custom.get(SCENARIO_YAML)
    if asked is None and text is not None:
        return scenario_from_text(text, f"{bag.path}: {SCENARIO_YAML}")[0]
    name = asked or bag.custom.get("scenario")
    if not name:
        raise InputError(
            f"{bag.path}: does not say its scenario, which a live {needed_by} needs; give"
            " --scenario"
        )
    return load_scenario(name)


def _recorder(bag: Bag, vehicles: list[str], options: ReplayOptions) -> list[NodeSpec]:
    if options.record is None:
        return []
    known = namespaces_of(len(vehicles))
    if vehicles != sorted(known):
        raise InputError(
            f"record: of vehicles {', '.join(vehicles) or 'none'}; the recorder knows"
            f" {', '.join(known) or '/quad'}: name them so with --remap"
        )
    # what was flown is still what was flown; what the closed loop's digest says is not in here
    origin = {key: text for key, text in bag.custom.items() if key != DIGEST}
    parameters = {
        "output": options.record,
        "metadata": json.dumps(origin | surroundings()),
        "count": len(vehicles),
        "nodes": " ".join(sorted({*options.live, "recorder"})),
    }
    return [NodeSpec("recorder", "/", parameters)]


def describe_replay_launch(values: Mapping[str, str]) -> list[NodeSpec]:
    """Nodes for the texts that launch gives its arguments.

    Args:
        values: every name of :data:`REPLAY_ARGUMENTS`.

    Raises:
        InputError: naming the argument and what is allowed.
    """
    if not values["bag"]:
        raise InputError("launch argument bag: must be given, bag:=FOLDER")
    record = {"true": "", "false": None}.get(values["record"].lower(), values["record"])
    return describe_replay(
        Path(values["bag"]),
        ReplayOptions(
            rate=as_number("rate", values["rate"], float),
            paused=as_flag("paused", values["paused"]),
            start_s=as_number("start", values["start"], float),
            duration_s=as_number("duration", values["duration"], float),
            loop=as_flag("loop", values["loop"]),
            topics=as_names(values["topics"]),
            exclude=as_names(values["exclude"]),
            remap=as_names(values["remap"]),
            clock=values["clock"],
            reliable=as_flag("reliable", values["reliable"]),
            without=as_names(values["without"]),
            namespace=values["namespace"],
            live=as_names(values["live"]),
            wait_for=as_names(values["wait_for"]),
            driver=values["driver"] or None,
            config=values["config"] or None,
            scenario=values["scenario"] or None,
            record=record,
        ),
    )
