"""Options of graphs, for ``quadsim fly``, ``quadsim replay`` and the launch files.

Nothing here imports ROS or anything heavy: ``--help`` reads it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from quadsim.bag.profiles import Recording
from quadsim.base.errors import InputError
from quadsim.base.options import Option, option

if TYPE_CHECKING:
    from quadsim.firmware.fly import FirmwareChoice
    from quadsim.sim.scenario import Scenario

SCENARIO_SAYS = "as in the scenario"
#: Who flies and senses where nobody states otherwise: our own simulation.
SIM = "sim"

Record = Annotated[str, Option("true, false, or the folder of the bag")]
Arm = Annotated[bool, Option("arm and fly the mission as soon as the checks pass")]
Joystick = Annotated[
    str | None,
    Option(
        "fly by the topic joy through a mapping of config/joysticks, or a path; arm by its button",
        metavar="NAME",
        unset="nobody steers",
    ),
]
Auto = Annotated[
    bool,
    Option("ArduPilot flies the mission itself: uploaded, in mode AUTO, without our setpoints"),
]
FirmwareRate = Annotated[
    float, Option("simulated over wall time, of Betaflight and of boards", gt=0.0, le=1.0)
]
LaunchSeed = Annotated[int | None, Option("seed of all randomness", ge=0, unset=SCENARIO_SAYS)]


def bag_of(record: str) -> str | None:
    """The recorder's folder of an argument ``record``; None: nothing is recorded; empty: any."""
    return {"true": "", "false": None}.get(record.lower(), record)


@dataclass(frozen=True)
class PartOptions:
    """Own parts of the user in the place of ours: docs/parts.md."""

    controller: str | None = option(
        None, "own controller, module:Class or policy.onnx", metavar="NAME", unset=SCENARIO_SAYS
    )
    estimator: str | None = option(
        None,
        "own estimator, module:Class, or a file of config/estimators",
        metavar="NAME",
        unset=SCENARIO_SAYS,
    )
    sensor: tuple[str, ...] = option(
        (), "own sensor, module:Class; may be repeated", metavar="NAME"
    )
    planner: str | None = option(
        None, "own planner, module:Class or policy.onnx", metavar="NAME", unset=SCENARIO_SAYS
    )
    wind: str | None = option(None, "own wind, module:Class", metavar="NAME", unset=SCENARIO_SAYS)

    def split(self) -> tuple[dict[str, Any], str | None]:
        """Changes of a scenario, and the file of the estimator's parameters if one is named."""
        from quadsim.base.parts import is_part

        given = {"controller": self.controller, "planner": self.planner, "wind": self.wind}
        file = self.estimator
        if is_part("estimator", file):
            given["estimator"], file = file, None
        changes: dict[str, Any] = {f"parts.{kind}": name for kind, name in given.items() if name}
        return changes | ({"parts.sensor": list(self.sensor)} if self.sensor else {}), file


@dataclass(frozen=True)
class ScenarioOptions:
    """What flies: a scenario, and what is otherwise than its file states."""

    scenario: str = option("square", "a scenario of config/scenarios, or a file")
    vehicle: str | None = option(
        None, "a vehicle of config/vehicles, or a file", unset=SCENARIO_SAYS
    )
    sensors: str | None = option(
        None, "a sensor suite of config/sensors/suites, or a file", unset=SCENARIO_SAYS
    )
    autopilot: str | None = option(
        None, "gains of config/autopilots, or a file", unset=SCENARIO_SAYS
    )
    seed: LaunchSeed = None
    parts: PartOptions = field(default_factory=PartOptions)

    def load(self, changes: Mapping[str, Any] | None = None, **others: Any) -> Scenario:
        """The scenario; what it takes from its world is reported.

        Args:
            changes: as of :func:`quadsim.sim.scenario.load_scenario`.
            others: further keys of its file to set.

        Raises:
            InputError: naming file, key and what is allowed.
        """
        from quadsim.sim.scenario import load_scenario

        own, estimator = self.parts.split()
        loaded = load_scenario(
            self.scenario,
            {**(changes or {}), **own},
            estimator=estimator,
            vehicle=self.vehicle,
            sensors=self.sensors,
            autopilot=self.autopilot,
            seed=self.seed,
            **others,
        )
        for note in loaded.notes:
            print(f"quadsim: {note}", file=sys.stderr, flush=True)
        return loaded


@dataclass(frozen=True)
class GraphOptions:
    """How a scenario is flown.

    Attributes:
        count: vehicles.
        rate: simulated over wall time; in lockstep 0 is as fast as the graph goes.
        paused: physics waits for ``/sim/pause`` with false.
        arm: autopilots arm and start their mission as soon as they can.
        bag: folder of the bag; None records nothing, an empty text lets the recorder name it.
        sim_time: whether watchdogs run on simulated time; None: where somebody gives ``/clock``.
        remappings: executable to pairs of names.
    """

    pacing: str = option(
        "realtime",
        "by the wall clock, or in step with the motor commands",
        choices=("realtime", "lockstep"),
    )
    drivers: str = option(
        SIM,
        "who gives what, files of config/drivers or paths with commas: vectornav:imu,sim."
        " See docs/drivers.md",
        metavar="NAMES",
    )
    driver_namespace: str = option(
        "", "what stands before the drivers' topics, /uav1", metavar="NAME", unset="found"
    )
    beside: tuple[str, ...] = option(
        (),
        "other estimators to run, and to score, too: odometry/<name> (several with commas)",
        metavar="NAMES",
        commas=True,
    )
    joystick: Joystick = None
    recording: Recording = field(default_factory=Recording)
    count: int = 1
    rate: float = 1.0
    paused: bool = False
    arm: bool = False
    bag: str | None = None
    sim_time: bool | None = None
    remappings: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SwarmOptions:
    """What the node ``swarm`` publishes and takes."""

    publish: Annotated[
        str,
        Option(
            "of each vehicle of a swarm: truth and estimates; with each IMU; with every sensor",
            choices=("estimates", "imu", "all"),
        ),
    ] = "imu"
    motion_rate_hz: Annotated[
        float, Option("of truth and estimates, at most the IMU's", "Hz", gt=0.0, le=2000.0)
    ] = 50.0
    steered: Annotated[bool, Option("each takes commands, by topics and services")] = True


@dataclass(frozen=True)
class CrazyswarmOptions:
    """What else a swarm's vehicles are steered by; docs/crazyswarm2.md."""

    offer: Annotated[
        str,
        Option(
            "services and topics of others that are offered, too", choices=("none", "crazyswarm2")
        ),
    ] = "none"
    crazyflies: Annotated[
        str, Option("a crazyflies.yaml: which vehicles, their names and places; empty: cf1, ...")
    ] = ""


@dataclass(frozen=True)
class FirmwareSource:
    """Other people's firmware that flies the vehicles of a node; docs/firmware.md."""

    firmware: Annotated[
        str, Option("that flies the vehicles: betaflight, ardupilot or px4; empty: ours")
    ] = ""
    executable: Annotated[
        str, Option("the firmware's own program for simulation; empty: it runs already")
    ] = ""
    firmware_parameters: Annotated[
        str, Option("a file of them; empty: that of config/firmware, if there is one")
    ] = ""
    port: Annotated[str, Option("of a board with PX4: a serial port, or udp:[ADDRESS:]PORT")] = ""

    @property
    def choice(self) -> FirmwareChoice | None:
        """What is chosen; None: ours.

        Raises:
            InputError: an unknown name, or a path or port without one.
        """
        from quadsim.firmware.fly import FirmwareChoice

        others = self.executable, self.firmware_parameters, self.port
        if self.firmware:
            return FirmwareChoice(self.firmware, *others)
        if any(others):
            raise InputError("executable, firmware_parameters, port: only with firmware")
        return None


@dataclass(frozen=True)
class FirmwareFlight(FirmwareSource):
    """A firmware that flies a scenario, and who leads it through the mission."""

    auto: Auto = False


@dataclass(frozen=True)
class PlayOptions:
    """How a bag is played; parameters of the node ``player``, too."""

    rate: Annotated[
        float,
        Option("bag time over wall time; 0 is as fast as the listeners go", ge=0.0, le=1000.0),
    ] = 1.0
    paused: Annotated[bool, Option("begin paused; /player/pause with false lets it go")] = False
    start_s: Annotated[
        float,
        Option("begin so long after the bag's first message", "s", ge=0.0, le=1e9, name="start"),
    ] = 0.0
    duration_s: Annotated[
        float,
        Option("play so much of the bag; 0: to the end", "s", ge=0.0, le=1e9, name="duration"),
    ] = 0.0


@dataclass(frozen=True)
class ReplayOptions:
    """How a bag is played, and what runs next to it.

    Attributes:
        namespace: the vehicle in the bag.
        driver: who published the bag, if not quadsim.
        config: parameters of a live estimator, a name or a path; None: as flown, where the bag has
            them, else the usual ones.
        changes: of those, as of :func:`quadsim.analysis.replay.changed`.
        datum: origin of ``map`` (a Datum) for a live estimator; None takes the bag's.
        bag: folder of the new bag; None records nothing, an empty text lets the recorder name it.
    """

    play: PlayOptions = field(default_factory=PlayOptions)
    topics: tuple[str, ...] = option(
        (), "play these alone: * and ? (several with commas)", metavar="PATTERNS", commas=True
    )
    exclude: tuple[str, ...] = option(
        (),
        "leave these topics out (several with commas); /clock: no clock at all",
        metavar="PATTERNS",
        commas=True,
    )
    without: tuple[str, ...] = option(
        (),
        "leave out what these nodes publish: you run them yourself (several with commas)",
        metavar="NODES",
        commas=True,
    )
    live: tuple[str, ...] = option(
        (),
        "start these nodes of ours in their place, with commas: estimator, autopilot, mixer",
        metavar="NODES",
        commas=True,
    )
    wait_for: tuple[str, ...] = option(
        (),
        "begin when these nodes are there; at rate 0 go in step with them (several with commas)",
        metavar="NODES",
        commas=True,
    )
    scenario: str | None = option(None, "of live autopilots and mixers", unset="as in the bag")
    namespace: str = "/quad"
    driver: str | None = None
    config: str | None = None
    changes: tuple[str, ...] = ()
    datum: Any = None
    bag: str | None = None
