"""The graph of a replay, as data: the player, the nodes that run live, the recorder.

``launch/replay.launch.py`` turns it into launch actions, ``quadsim replay --publish`` into
processes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from quadsim.analysis.replay import changed, estimator_params, known_keys
from quadsim.bag.origin import DIGEST, SCENARIO_YAML, estimator_of, surroundings
from quadsim.bag.reading import Bag, open_bag
from quadsim.bag.topics import field_of, namespaces
from quadsim.base.errors import InputError
from quadsim.base.options import option
from quadsim.base.parameters import flatten
from quadsim.ros.graph.driver_choice import REPLACEABLE
from quadsim.ros.graph.graph import NodeSpec, describe, prefixed
from quadsim.ros.graph.options import Record, ReplayOptions, bag_of
from quadsim.ros.runtime.runtime import in_order_of_arrival
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.sim.scenario_text import scenario_from_text

#: Messages of a topic between two questions whether nodes of ours have taken them: less than the
#: queue of a slow topic.
OUR_WINDOW = 8
#: What may run live next to a player.
LIVE = ("estimator", "autopilot", "mixer")


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
    with open_bag(path, options.driver) as bag:
        if options.live and options.namespace not in namespaces(bag):
            there = ", ".join(namespaces(bag)) or "none"
            raise InputError(
                f"{path}: no vehicle {options.namespace} for live nodes; vehicles in this bag:"
                f" {there} (choose with --namespace)"
            )
        specs = [*_live_nodes(bag, options), *_recorder(bag, options)]
    player: dict[str, Any] = {
        "bag": str(path),
        **flatten(options.play),
        "driver": options.driver or "",
        # what is offered reliable reaches every listener, and is asked after
        "reliable": bool(specs),
        # others' nodes may take one message of each topic in turn
        "window": OUR_WINDOW if in_order_of_arrival() and not options.wait_for else 1,
    }
    lists = {
        "topics": options.topics,
        "exclude": options.exclude,
        "without": (*options.without, *options.live),
        "wait_for": (*options.wait_for, *(spec.full_name for spec in specs)),
    }
    player |= {name: list(values) for name, values in lists.items() if values}
    return [NodeSpec("player", "/", player), *specs]


def _live_nodes(bag: Bag, options: ReplayOptions) -> list[NodeSpec]:
    nodes, namespace = [], options.namespace
    if "estimator" in options.live:
        nodes.append(NodeSpec("estimator", namespace, _estimator(bag, options)))
    others = [name for name in options.live if name != "estimator"]
    if others:
        flown = describe(_scenario(bag, options.scenario, others[0]))
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


def _recorder(bag: Bag, options: ReplayOptions) -> list[NodeSpec]:
    if options.bag is None:
        return []
    # what was flown is still what was flown; the closed loop's digest is not in here
    origin = {key: text for key, text in bag.custom.items() if key != DIGEST}
    parameters: dict[str, Any] = {
        "output": options.bag,
        "metadata": json.dumps(origin | surroundings()),
        "nodes": " ".join(sorted({*options.live, "recorder"})),
    }
    if vehicles := namespaces(bag):
        parameters["namespaces"] = vehicles
    return [NodeSpec("recorder", "/", parameters)]


@dataclass(frozen=True)
class ReplayLaunch:
    """Arguments of ``replay.launch.py``."""

    replay: ReplayOptions = field(default_factory=ReplayOptions)
    bag: str = option("", "rosbag2 folder or file; must be given")
    namespace: str = option("/quad", "the vehicle in the bag, for live nodes")
    driver: str | None = option(
        None, "who published the bag, if not quadsim: a file of config/drivers, or a path"
    )
    config: str | None = option(
        None, "parameters of a live estimator: a file of config/estimators, or a path"
    )
    record: Record = "false"

    def describe(self) -> list[NodeSpec]:
        """The nodes.

        Raises:
            InputError: the bag cannot be read, or what is asked for cannot be done with it.
        """
        if not self.bag:
            raise InputError("launch argument bag: must be given, bag:=FOLDER")
        options = replace(
            self.replay,
            namespace=self.namespace,
            driver=self.driver,
            config=self.config,
            bag=bag_of(self.record),
        )
        return describe_replay(Path(self.bag), options)
