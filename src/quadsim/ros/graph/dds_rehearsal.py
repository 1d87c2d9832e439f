"""A rehearsal on DDS: the graph of a real flight, a stand-in for the vehicle, and an operator.

The operator does what somebody at the field does: looks whether all is there, lets the vehicle
take off, holds the dead-man button, enables the guard, hands the vehicle over, gives the goal, and
has it land. Every wait is for a condition, with a deadline that states what was missing.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.context import Context
from std_msgs.msg import Bool
from std_srvs.srv import SetBool, Trigger

from quadsim.base.errors import FlightError
from quadsim.gazebo.worlds import world_sdf
from quadsim.hil.rehearsal.flight import TRACK, Outcome
from quadsim.hil.rehearsal.rehearsal import Rehearsal
from quadsim.hil.rehearsal.stopping import Stop
from quadsim.ros.graph.graph import NodeSpec
from quadsim.ros.graph.graph_events import Report, Watcher
from quadsim.ros.graph.hil_graph import describe_hil
from quadsim.ros.graph.hil_options import STAND_IN, VEHICLE, HilOptions
from quadsim.ros.graph.options import FirmwareSource
from quadsim.ros.graph.supervisor import RunningGraph
from quadsim.ros.messages.cdr import stamp_ns_of, xyz
from quadsim.ros.messages.commands import make_path
from quadsim.ros.runtime import topics
from quadsim.sensors.depth_camera import DepthCameraParams
from quadsim.sim.log import Event

#: Wall time for the landing.
LANDING_S = 30.0
#: How often the dead-man button is published as held.
HOLD_S = 0.05


def world_of(rehearsal: Rehearsal, folder: Path) -> Path:
    """The virtual world of a rehearsal, written as ``world.sdf`` into a folder."""
    field = rehearsal.field
    name, path = Path(field.kind).stem, folder / "world.sdf"
    words = f"The field {name} of seed {field.seed}"
    path.write_text(world_sdf(name, field.obstacles, comment=words), encoding="utf-8")
    return path


def options_for(rehearsal: Rehearsal, folder: Path, bag: Path | None) -> HilOptions:
    """How a rehearsal's vehicle is flown by the graph of a real one.

    Guard, planner and lidar have files of their own in the folder, as the world has.

    Args:
        bag: folder of the bag; None records nothing.
    """
    movers = sorted(rehearsal.field.movers, key=lambda mover: mover.ahead_s > 0.0)
    topics_of = {mover.name: f"/others/{mover.name}/odom" for mover in movers}

    def written(name: str, params: Any, **keys: str) -> str:
        """A file of parameters: JSON is YAML."""
        path = folder / f"{name}.yaml"
        path.write_text(json.dumps(keys | asdict(params), indent=1), encoding="utf-8")
        return str(path)

    kind = "depth_camera" if isinstance(rehearsal.eye, DepthCameraParams) else "lidar"
    device = written(kind, rehearsal.eye, sensor=kind)
    return HilOptions(
        structure="sil",
        world=str(world_of(rehearsal, folder)),
        lidar=device if kind == "lidar" else "",
        depth_camera=device if kind == "depth_camera" else "",
        level=True,
        guard=written("guard", rehearsal.guard),
        planner=written("planner", rehearsal.planner),
        others=tuple(topics_of[mover.name] for mover in movers if mover.ahead_s == 0.0),
        apparitions=tuple(topics_of[mover.name] for mover in movers if mover.ahead_s > 0.0),
        others_radius=tuple(mover.radius_m for mover in movers) or (0.4,),
        others_height=tuple(2.0 * mover.half_height_m for mover in movers) or (0.4,),
        rehearsal=str(rehearsal.path),
        seed=rehearsal.seed,
        firmware=FirmwareSource(*astuple(rehearsal.firmware)[:4] if rehearsal.firmware else ()),
        record="false" if bag is None else str(bag.absolute()),
    )


class FlightTime:
    """How long the flight has lasted: as the stand-in last stated, and what has passed since."""

    def __init__(self) -> None:
        self._begun_s: float | None = None  # on the steady clock

    def take(self, report: Report, now_s: float) -> None:
        """Take a report of the stand-in as it comes."""
        t_s = report.number("t_s")
        flying = report.values.get("flying") == "true" and t_s is not None
        self._begun_s = now_s - t_s if flying and t_s is not None else None

    def at(self, now_s: float) -> float:
        """Time flown, s; below 0 where it does not fly."""
        return -1.0 if self._begun_s is None else now_s - self._begun_s


def stops_of(report: Report) -> tuple[Stop, ...]:
    """What each trouble led to, by the stand-in's report."""
    keys = ("at_s", "speed_mps", "stop_m", "stop_s", "allowed_m", "landing_s")
    found: list[Stop] = []
    while (what := report.values.get(f"stop {len(found)} what")) is not None:
        numbers = (report.number(f"stop {len(found)} {key}") for key in keys)
        found.append(Stop(what, *(math.nan if x is None else x for x in numbers)))
    return tuple(found)


class Operator(Watcher):
    """What the operator hears and reports."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, [VEHICLE])
        self.flown = FlightTime()
        self._holds = False
        self.events: list[tuple[float, Event]] = []
        self.truth: list[tuple[float, ...]] = []
        self._dead_man = self.create_publisher(Bool, f"{VEHICLE}/dead_man", 10)
        path = topics.MISSION
        self._goals = self.create_publisher(path.message, f"{VEHICLE}/goals", path.offered)
        self._clients_by_name: dict[str, Any] = {}
        self.create_timer(HOLD_S, self._hold)
        self.hear(topics.TRUTH, self._on_truth, STAND_IN)
        for namespace in (VEHICLE, STAND_IN):
            self.hear(topics.EVENTS, self._on_what_happened, namespace)

    def hold(self, held: bool) -> None:
        """Hold the dead-man button, or let it go: that is reported at once, and again and again."""
        changed, self._holds = held != self._holds, held
        if changed:
            self._hold()

    def _hold(self) -> None:
        self._dead_man.publish(Bool(data=self._holds))

    def _on_reports(self, message: Any) -> None:
        """Take reports; note how long the flight has lasted when the stand-in states it."""
        super()._on_reports(message)
        if any(status.name == f"{STAND_IN}/stand_in" for status in message.status):
            self.flown.take(self.stand_in, time.monotonic())

    def _on_truth(self, message: Any) -> None:
        speed_mps = math.hypot(*xyz(message.twist.twist.linear))
        stamp_s = stamp_ns_of(message.header.stamp) * 1e-9
        self.truth.append((stamp_s, *xyz(message.pose.pose.position), speed_mps))

    def _on_what_happened(self, message: Any) -> None:
        level = int.from_bytes(message.level, "little")
        self.events.append((time.time(), Event(0, level, message.name, message.message)))

    @property
    def stand_in(self) -> Report:
        """The last report of the stand-in."""
        return self.report(f"{STAND_IN}/stand_in")

    def fly_to(self, goal_W: Any) -> None:
        """Give the planner its goal."""
        self._goals.publish(make_path([goal_W]))

    def client(self, kind: Any, name: str) -> Any:
        """Client of a service of the vehicle."""
        if name not in self._clients_by_name:
            self._clients_by_name[name] = self.create_client(kind, f"{VEHICLE}/{name}")
        return self._clients_by_name[name]


class DdsRehearsal:
    """One flight of a rehearsal on DDS.

    Args:
        specs: the graph; see :func:`quadsim.ros.graph.hil_graph.describe_hil`.
        bag: folder that the recorder writes; None: there is no recorder.
        composed: all nodes but the stand-in in one process.
    """

    def __init__(
        self,
        rehearsal: Rehearsal,
        specs: Sequence[NodeSpec],
        domain: int,
        bag: Path | None,
        composed: bool = False,
    ) -> None:
        self.rehearsal = rehearsal
        self._graph: RunningGraph[Operator] = RunningGraph(specs, domain, bag, composed, STAND_IN)
        #: Last report of each node.
        self.reports: dict[str, Report] = {}

    def fly(self) -> Outcome:
        """Fly it.

        Raises:
            FlightError: a node ended, or somebody was not there or did not answer.
            Interrupted: by a signal. The bag is whole in every case.
        """
        with self._graph.watched_by(Operator) as operator:
            self._operator = operator
            self.reports = operator.reports
            self._graph.start()
            self._take_off()
            self._hand_over()
            over = self._follow()
            if over == "arrived":
                self._land()
            self._graph.collect()
        return self._outcome(over)

    def _ask(self, kind: Any, name: str, *data: bool) -> None:
        """Ask a service of the vehicle until it agrees."""
        client = self._operator.client(kind, name)
        self._graph.ask(client, kind.Request(data=data[0]) if data else kind.Request())

    def _state(self) -> str:
        return self._operator.stand_in.values.get("state", "")

    def _take_off(self) -> None:
        self._ask(SetBool, "vehicle/arm", True)
        if not self._graph.wait(lambda: self._state() == "hover", 2.0 * self.rehearsal.takeoff_s):
            raise FlightError(f"the stand-in does not hover: it is {self._state()}")

    def _hand_over(self) -> None:
        self._operator.hold(True)
        self._ask(SetBool, "enable", True)
        self._ask(Trigger, "vehicle/offboard")
        self._operator.fly_to(self.rehearsal.field.goal_W)

    def _follow(self) -> str:
        """Until the judge reports that it is over, and why."""
        operator, longest_s = self._operator, self.rehearsal.params.duration_s

        def over() -> bool:
            self._release(operator)
            return bool(operator.stand_in.values.get("over"))

        if not self._graph.wait(over, longest_s + LANDING_S):
            raise FlightError(f"the stand-in has not come to an end after {longest_s:g} s")
        return operator.stand_in.values["over"]

    def _release(self, operator: Operator) -> None:
        """Let go of the dead-man button when the rehearsal wants it."""
        t_s = operator.flown.at(time.monotonic())
        operator.hold(
            not any(
                trouble.what == "dead_man" and trouble.lasts(t_s)
                for trouble in self.rehearsal.params.troubles
            )
        )

    def _land(self) -> None:
        self._ask(SetBool, "enable", False)
        self._ask(Trigger, "vehicle/land")
        if not self._graph.wait(lambda: self._state() == "disarmed", LANDING_S):
            raise FlightError(f"the stand-in does not land: it is {self._state()}")

    # ---- what came of it -----------------------------------------------------------------------

    def _outcome(self, over: str) -> Outcome:
        report = self.reports[f"{STAND_IN}/stand_in"]

        def number(key: str) -> float:
            value = report.number(key)
            return math.nan if value is None else value

        track, begin_s = self._track(number("t_s"))
        events = [
            event._replace(stamp_ns=round((heard_s - begin_s) * 1e9))
            for heard_s, event in self._operator.events
        ]
        return Outcome(
            seed=self.rehearsal.seed,
            arrived=over == "arrived",
            collided=over.startswith(("collided", "crashed")),
            landed=bool(report.values.get("landing")),
            time_s=number("t_s"),
            reason=over,
            clearance_m=number("clearance_m"),
            speed_mps=number("speed_mps"),
            way_m=number("way_m"),
            stops=stops_of(report),
            events=tuple(events),
            track=track,
        )

    def _track(self, flown_s: float) -> tuple[NDArray[np.float64], float]:
        """What was truly flown; what the stand-in does not know is NaN. And when it began."""
        truth = np.array(self._operator.truth).reshape(-1, 5)
        begin_s = float(truth[-1, 0]) - flown_s if len(truth) else 0.0
        track = np.full((len(truth), len(TRACK)), math.nan)
        track[:, 0] = truth[:, 0] - begin_s
        track[:, 1:5] = truth[:, 1:]
        return track[track[:, 0] >= 0.0], begin_s


def latencies(reports: dict[str, Report]) -> dict[str, float]:
    """From a driver's topic to the setpoint, as the stand-in and the monitor have measured it."""
    found = {}
    for name, key, prefix in (
        (f"{STAND_IN}/stand_in", "setpoint_latency", "driver"),
        (f"{VEHICLE}/monitor", "latency", "monitor"),
    ):
        report = reports.get(name, Report())
        for suffix in ("_ms", "_99_ms", "_max_ms", "_count", "_missed"):
            value = report.number(key + suffix)
            if value is not None:
                found[prefix + suffix] = value
    return found


def rehearse_on_dds(
    rehearsal: Rehearsal, folder: Path, domain: int, composed: bool = False
) -> tuple[Outcome, dict[str, float]]:
    """Fly one seed of a rehearsal on DDS.

    Args:
        folder: gets the world and the bag; it is made.
        composed: all nodes but the stand-in in one process.

    Returns:
        What came of it, and how long commands took, ms.

    Raises:
        FlightError, Interrupted: as of :meth:`DdsRehearsal.fly`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bag = folder / "bag"
    specs = describe_hil(options_for(rehearsal, folder, bag))
    flight = DdsRehearsal(rehearsal, specs, domain, bag, composed)
    return flight.fly(), latencies(flight.reports)
