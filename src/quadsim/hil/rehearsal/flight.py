"""One flight of a rehearsal: stand-in, links and the side that flies it, in one simulated time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quadsim.base.noise import stream
from quadsim.base.parameters import Vec3
from quadsim.hil.rehearsal.hil_side import NAME, HilSide, VirtualLidar
from quadsim.hil.rehearsal.judge import Judge, hull_radius_m
from quadsim.hil.rehearsal.link import Link
from quadsim.hil.rehearsal.parameters import Y_UP, TroubleParams
from quadsim.hil.rehearsal.rehearsal import TAKEOFF_S, Rehearsal
from quadsim.hil.rehearsal.stand_in import StandIn, Telemetry, VelocityCommand
from quadsim.hil.rehearsal.stopping import Stop, StopWatch
from quadsim.sim.log import Event
from quadsim.world.scene.movers import Movers

#: A vehicle that is slower has arrived, m/s.
ARRIVED_MPS = 0.5
#: What each row of a flight's track holds.
TRACK = (
    "t_s",
    "x_m",
    "y_m",
    "z_m",
    "speed_mps",
    "wish_mps",
    "command_mps",
    "clearance_m",
    "margin_m",
)


@dataclass(frozen=True)
class Outcome:
    """What came of a flight.

    Attributes:
        seed: of it.
        arrived: the true vehicle came to rest at the goal.
        collided: its hull met an obstacle, or it crashed.
        landed: a landing was begun.
        clearance_m: smallest distance between hull and obstacle from the enabling on.
        time_s: from the enabling to the end of the flight.
        reason: how it ended.
        speed_mps: largest true speed.
        way_m: flown.
        stops: what each trouble led to.
        events: what vehicle and guard said, by the time since the enabling.
        track: (N, len(TRACK)) what was flown, 50 times a second.
        digest: of every state of the vehicle.
    """

    seed: int
    arrived: bool
    collided: bool
    landed: bool
    clearance_m: float
    time_s: float
    reason: str
    speed_mps: float
    way_m: float
    stops: tuple[Stop, ...]
    events: tuple[Event, ...]
    track: NDArray[np.float64] = field(repr=False)
    digest: str = ""

    def row(self) -> dict[str, object]:
        """The outcome as plain values, for tables."""
        names = (
            "seed", "arrived", "collided", "landed", "clearance_m", "time_s", "speed_mps", "way_m",
            "reason",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names} | {
            "stops": [stop.row() for stop in self.stops],
            "digest": self.digest,
        }


class Flight:
    """A flight, tick by tick.

    Args:
        rehearsal: what is flown.
    """

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        params, seed = rehearsal.params, rehearsal.seed
        self.vehicle = StandIn(rehearsal.scenario, params.motion_capture, params.dead_reckoning_s)
        self.poses: Link[Telemetry] = Link(params.pose_link, stream(seed, NAME, "pose_link"))
        self.commands: Link[VelocityCommand] = Link(
            params.command_link, stream(seed, NAME, "command_link")
        )
        lidar = VirtualLidar(rehearsal.lidar, rehearsal.scene, seed, params.level_lidar)
        self.side = HilSide(rehearsal.guard, rehearsal.planner, lidar, rehearsal.field.goal_W)
        self.movers = Movers(rehearsal.field.movers)
        self.judge = Judge(rehearsal.scene, hull_radius_m(rehearsal.scenario.vehicle))
        self.stopping = StopWatch(rehearsal.guard)
        self.vehicle.is_y_up = any(trouble.what == Y_UP for trouble in params.troubles)
        self.enabled_ns: int | None = None
        self.landing = ""
        self.events: list[Event] = []
        self._troubles: tuple[TroubleParams, ...] = ()
        self._pose_ns, self._step_ns = (
            round(1e9 / rate) for rate in (params.pose_rate_hz, params.guard_rate_hz)
        )
        self._track: list[tuple[float, ...]] = []
        self._way_m = 0.0
        self._gap_m = math.inf
        self._ready = False
        self._before_W: Vec3 | None = None

    @property
    def t_s(self) -> float:
        """Time since the guard was enabled; below 0 before."""
        return -1.0 if self.enabled_ns is None else (self.vehicle.stamp_ns - self.enabled_ns) * 1e-9

    def truth(self) -> tuple[Vec3, Vec3]:
        """True position and velocity of the vehicle in W, the frame of the poses."""
        true = self.vehicle.state["truth"][0]
        said_W = self.vehicle.said_W
        return said_W(tuple(true["p_W"].tolist())), said_W(tuple(true["v_W"].tolist()))

    def tick(self) -> None:
        """Fly on by one tick of the vehicle."""
        vehicle, side = self.vehicle, self.side
        before_ns = vehicle.stamp_ns
        vehicle.tick()
        now_ns = vehicle.stamp_ns
        p_W, v_W = self.truth()
        if self.enabled_ns is not None:
            self._look(p_W, v_W)
        if now_ns // self._pose_ns > before_ns // self._pose_ns:
            said = vehicle.telemetry()
            if said is not None:
                self.poses.send(now_ns, said)
        for pose in self.poses.receive(now_ns):
            side.take_pose(now_ns, pose, self.movers)
            self._ready = pose.state == "hover"
        if now_ns // self._step_ns > before_ns // self._step_ns:
            self._step(now_ns, p_W, v_W)
        for command in self.commands.receive(now_ns):
            vehicle.obey(command)

    def _step(self, now_ns: int, p_W: Vec3, v_W: Vec3) -> None:
        """One step of planner and guard."""
        side = self.side
        command = side.step(now_ns, self.movers, self._ready)
        if command is not None:
            self.commands.send(now_ns, command)
        if side.enabled and self.enabled_ns is None:
            self.enabled_ns = now_ns
            self._troubles = self.rehearsal.params.troubles
            self._look(p_W, v_W)
        said = side.guarded
        if said is None:
            return
        for event in said.events:
            self.events.append(Event(now_ns, event.level, event.name, event.words))
        if said.land and not self.landing:
            self.landing = f"guard: {said.reason}"
            self.stopping.landing_began(self.t_s)
        if self.enabled_ns is not None:
            wish = math.hypot(*np.asarray(side.planned.v_W).tolist()) if side.planned else 0.0
            self._track.append(
                (
                    self.t_s, *p_W, math.hypot(*v_W), wish, math.hypot(*said.v_W.tolist()),
                    self._gap_m, said.margin_m,
                )
            )  # fmt: skip

    def _look(self, p_W: Vec3, v_W: Vec3) -> None:
        """What the true motion comes to: movers, troubles, clearance, way."""
        t_s = self.t_s
        for name in self.movers.update(t_s, p_W, v_W):
            self.events.append(Event(self.vehicle.stamp_ns, 0, "appeared", name))
        self._gap_m = self.judge.look(t_s, p_W, self.movers)
        if self._before_W is not None:
            self._way_m += math.dist(p_W, self._before_W)
        self._before_W = p_W
        self._make_trouble(t_s, p_W, v_W)
        self.stopping.look(t_s, p_W, v_W)
        if "landing" in self.vehicle.manager.state and not self.landing:
            self.landing = f"vehicle: {self.vehicle.manager.reason or self.vehicle.manager.state}"
            self.stopping.landing_began(t_s)

    def _make_trouble(self, t_s: float, p_W: Vec3, v_W: Vec3) -> None:
        """Take away what is to be missing now."""
        for trouble in self._troubles:
            self.stopping.begin(trouble, t_s, p_W, v_W)
        missing = self.vehicle.make_trouble(self._troubles, t_s)
        self.poses.cut = bool(missing & {"pose", "link"})
        self.commands.cut = bool(missing & {"commands", "link"})
        self.side.silent = frozenset(missing & {"scan", "planner", "dead_man"})

    def ending(self) -> str:
        """Why the flight is over; empty while it is not."""
        vehicle, params = self.vehicle, self.rehearsal.params
        if vehicle.manager.finished:
            return f"landed: {self.landing}"
        if vehicle.over and vehicle.stamp_ns < vehicle.end_ns:
            return "crashed: " + vehicle.events[-1].message
        if self.enabled_ns is None:
            refused = self.side.refused or vehicle.refused or vehicle.manager.state
            return f"not enabled: {refused}" if vehicle.stamp_ns * 1e-9 > TAKEOFF_S else ""
        if self.judge.collided:
            x, y, _ = self.judge.at_W
            return f"collided at ({x:.1f}, {y:.1f}) m"
        p_W, v_W = self.truth()
        near = math.dist(p_W, self.rehearsal.field.goal_W) < params.arrival_radius_m
        calm = all(trouble.over(self.t_s) for trouble in params.troubles)
        if near and math.hypot(*v_W) < ARRIVED_MPS and calm:
            return "arrived"
        if self.t_s >= params.duration_s:
            said, planned = self.side.guarded, self.side.planned
            guard = f"{said.state} {said.reason}".strip() if said else "silent"
            return f"out of time: planner {planned.state if planned else 'silent'}, guard {guard}"
        return ""

    def fly(self) -> Outcome:
        """Fly to the end."""
        reason = ""
        while not reason:
            self.tick()
            reason = self.ending()
        said = self.vehicle.events
        begin_ns = self.enabled_ns or 0
        events = sorted([*said, *self.events], key=lambda event: event.stamp_ns)
        track = np.array(self._track).reshape(-1, len(TRACK))
        digest = hashlib.sha256(self.vehicle.digest().encode() + track.tobytes())
        return Outcome(
            seed=self.rehearsal.seed,
            arrived=reason == "arrived",
            collided=self.judge.collided or reason.startswith("crashed"),
            landed=bool(self.landing),
            clearance_m=self.judge.clearance_m,
            time_s=max(self.t_s, 0.0),
            reason=reason,
            speed_mps=float(track[:, 4].max(initial=0.0)),
            way_m=self._way_m,
            stops=tuple(self.stopping.stops),
            events=tuple(
                Event(event.stamp_ns - begin_ns, event.level, event.name, event.message)
                for event in events
            ),
            track=track,
            digest=digest.hexdigest(),
        )


def in_words(events: Sequence[Event]) -> list[str]:
    """Events as lines: time since the enabling in s, and what happened."""
    return [f"{event.stamp_ns * 1e-9:8.2f} s  {event.name}: {event.message}" for event in events]
