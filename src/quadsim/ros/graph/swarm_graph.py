"""The graph of a swarm: one node that flies all vehicles, and the recorder.

``launch/swarm.launch.py`` and ``quadsim fly --swarm`` start it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from quadsim.bag.profiles import Recording
from quadsim.base.errors import InputError
from quadsim.base.options import option
from quadsim.drivers.crazyflies import robots_of
from quadsim.ros.graph.graph import NodeSpec, recorder_parameters, source_of
from quadsim.ros.graph.options import (
    SCENARIO_SAYS,
    SIM,
    Arm,
    CrazyswarmOptions,
    FirmwareFlight,
    GraphOptions,
    Record,
    ScenarioOptions,
    SwarmOptions,
    bag_of,
)
from quadsim.sim.scenario import Scenario

#: More vehicles than these fly as a swarm: each would be nine processes else.
MOST_APART = 4

#: Why an option of graphs in which each vehicle has nodes of its own is refused.
NOT_WITH_A_SWARM = (
    "not with a swarm, whose vehicles have no nodes of their own: up to"
    f" {MOST_APART} vehicles fly with --no-swarm"
)


def flies_as_swarm(scenario: Scenario, count: int, wanted: bool | None) -> bool:
    """Whether vehicles fly in one process.

    Args:
        count: how many.
        wanted: what somebody asked for; None: by their number, by what they do together, by their
            own parts, and by a start that is not on level ground.
    """
    if wanted is not None:
        return wanted
    together = bool(scenario.parts_of_the_loop) or (count > 1 and scenario.is_flown_together)
    return count > MOST_APART or together or not scenario.file.start.is_plain


def describe_swarm(
    scenario: Scenario,
    options: GraphOptions,
    how: SwarmOptions | None = None,
    source: FirmwareFlight | None = None,
    offered: CrazyswarmOptions | None = None,
) -> list[NodeSpec]:
    """Nodes of a swarm's graph: the swarm, and the recorder if there is a bag.

    Args:
        options: how; ``rate`` 0 is as fast as possible.
        how: what the swarm publishes and takes.
        source: the firmware that flies, if it is not ours.
        offered: what else the vehicles are steered by.

    Raises:
        InputError: an option of graphs in which each vehicle has nodes of its own.
    """
    for name, given in (
        ("drivers", options.drivers != SIM),
        ("beside", options.beside),
        ("joystick", options.joystick),
    ):
        if given:
            raise InputError(f"{name}: {NOT_WITH_A_SWARM}")
    parameters = {
        **source_of(scenario),
        "count": options.count,
        "rate": options.rate,
        "paused": options.paused,
        "auto_start": options.arm,
        **asdict(how or SwarmOptions()),
        **asdict(source or FirmwareFlight()),
        **asdict(offered or CrazyswarmOptions()),
    }
    nodes = [NodeSpec("swarm", "/", parameters)]
    if options.bag is not None:
        recorded = recorder_parameters(scenario, options, nodes)
        nodes.append(NodeSpec("recorder", "/", recorded))
    return nodes


@dataclass(frozen=True)
class SwarmLaunch:
    """Arguments of ``swarm.launch.py``."""

    scenario: ScenarioOptions = field(default_factory=lambda: ScenarioOptions("formation"))
    count: int | None = option(None, "vehicles", ge=1, le=1000, unset=SCENARIO_SAYS)
    rate: float = option(1.0, "simulated over wall time; 0 is as fast as possible", ge=0.0)
    swarm: SwarmOptions = field(default_factory=SwarmOptions)
    crazyswarm: CrazyswarmOptions = field(default_factory=CrazyswarmOptions)
    record: Record = "false"
    recording: Recording = field(default_factory=lambda: Recording("swarm"))
    arm: Arm = False

    def describe(self) -> list[NodeSpec]:
        """The nodes.

        Raises:
            InputError: of the scenario.
        """
        path = self.crazyswarm.crazyflies
        robots = robots_of(Path(path)) if path else ()
        flown = _flown(self, len(robots) or self.count)
        return describe_swarm(*flown, self.swarm, offered=self.crazyswarm)


@dataclass(frozen=True)
class FirmwareLaunch:
    """Arguments of ``firmware.launch.py``."""

    source: FirmwareFlight = field(default_factory=lambda: FirmwareFlight("ardupilot"))
    scenario: ScenarioOptions = field(default_factory=ScenarioOptions)
    count: int | None = option(None, "vehicles", ge=1, le=100, unset=SCENARIO_SAYS)
    rate: float = option(1.0, "simulated over wall time; 0 is as fast as possible", ge=0.0)
    swarm: SwarmOptions = field(default_factory=lambda: SwarmOptions(publish="all"))
    record: Record = "false"
    recording: Recording = field(default_factory=Recording)
    arm: Arm = False

    def describe(self) -> list[NodeSpec]:
        """The nodes.

        Raises:
            InputError: of the scenario.
        """
        return describe_swarm(*_flown(self, self.count), self.swarm, self.source)


def _flown(
    launch: SwarmLaunch | FirmwareLaunch, count: int | None
) -> tuple[Scenario, GraphOptions]:
    scenario = launch.scenario.load(vehicles=count)
    options = GraphOptions(
        count=scenario.file.vehicles,
        rate=launch.rate,
        arm=launch.arm,
        bag=bag_of(launch.record),
        recording=launch.recording,
    )
    return scenario, options
