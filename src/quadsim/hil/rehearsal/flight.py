"""One flight of a rehearsal: stand-in, links and the side that flies it, in one simulated time."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quadsim.hil.rehearsal.hil_side import HilSide, virtual_eye
from quadsim.hil.rehearsal.rehearsal import Rehearsal
from quadsim.hil.rehearsal.stopping import Stop
from quadsim.hil.rehearsal.vehicle_side import VehicleSide
from quadsim.sim.log import Event

#: Of planner and guard, Hz.
GUARD_RATE_HZ = 50.0
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
        events: what vehicle and guard stated, by the time since the enabling.
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


class RehearsalFlight:
    """A flight, tick by tick."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.own = VehicleSide(rehearsal, rehearsal.scenario, rehearsal.scene)
        self.vehicle = self.own.vehicle
        guard = rehearsal.guard
        eye = virtual_eye(rehearsal.eye, rehearsal.scene, rehearsal.seed, guard.sight.range_m)
        self.side = HilSide(guard, rehearsal.make_planner(), eye, rehearsal.field.goal_W)
        self.events: list[Event] = []
        self._step_ns = round(1e9 / GUARD_RATE_HZ)
        self._track: list[tuple[float, ...]] = []
        self._ready = False

    def tick(self) -> None:
        """Fly on by one tick of the vehicle."""
        own, side = self.own, self.side
        before_ns = self.vehicle.stamp_ns
        own.tick()
        self._note_trouble()
        now_ns = self.vehicle.stamp_ns
        for pose in own.poses.receive(now_ns):
            side.take_pose(now_ns, pose, own.movers)
            self._ready = pose.state == "hover"
        if now_ns // self._step_ns > before_ns // self._step_ns:
            self._step(now_ns)
        for command in own.commands.receive(now_ns):
            self.vehicle.obey(command)

    def _note_trouble(self) -> None:
        """Silence what is to be missing on the side that flies; name what has appeared."""
        own = self.own
        self.side.silent = frozenset(own.missing & {"scan", "planner", "dead_man"})
        for name in own.appeared:
            self.events.append(Event(self.vehicle.stamp_ns, 0, "appeared", name))
        own.appeared.clear()

    def _step(self, now_ns: int) -> None:
        """One step of planner and guard."""
        own, side = self.own, self.side
        command = side.step(now_ns, own.movers, self._ready)
        if command is not None:
            own.commands.send(now_ns, command)
        if side.enabled and own.begun_ns is None:
            own.begin()
            own.look()
            self._note_trouble()
        stated = side.guarded
        if stated is None:
            return
        for event in stated.events:
            self.events.append(Event(now_ns, event.level, event.name, event.words))
        if stated.land:
            own.landing_began(f"guard: {stated.reason}")
        if own.begun_ns is not None:
            p_W, v_W = own.truth()
            request = math.hypot(*np.asarray(side.planned.v_W).tolist()) if side.planned else 0.0
            self._track.append(
                (
                    own.t_s, *p_W, math.hypot(*v_W), request, math.hypot(*stated.v_W.tolist()),
                    own.gap_m, stated.margin_m,
                )
            )  # fmt: skip

    def ending(self) -> str:
        """Why the flight is over; empty while it is not."""
        own, vehicle = self.own, self.vehicle
        reason = own.ending()
        if (
            own.begun_ns is None
            and not reason
            and vehicle.stamp_ns * 1e-9 > self.rehearsal.takeoff_s
        ):
            refused = self.side.refused or vehicle.refused or vehicle.manager.state
            return f"not enabled: {refused}"
        if reason == "out of time":
            stated, planned = self.side.guarded, self.side.planned
            guard = f"{stated.state} {stated.reason}".strip() if stated else "silent"
            return f"{reason}: planner {planned.state if planned else 'silent'}, guard {guard}"
        return reason

    def fly(self) -> Outcome:
        """Fly to the end."""
        reason = ""
        try:
            while not reason:
                self.tick()
                reason = self.ending()
        finally:
            self.own.close()
        return self.outcome(reason)

    def outcome(self, reason: str) -> Outcome:
        """What came of it, that has ended so."""
        own, stated = self.own, self.vehicle.events
        begin_ns = own.begun_ns or 0
        events = sorted([*stated, *self.events], key=lambda event: event.stamp_ns)
        track = np.array(self._track).reshape(-1, len(TRACK))
        digest = hashlib.sha256(self.vehicle.digest().encode() + track.tobytes())
        return Outcome(
            seed=self.rehearsal.seed,
            arrived=reason == "arrived",
            collided=own.judge.collided or reason.startswith("crashed"),
            landed=bool(own.landing),
            clearance_m=own.judge.clearance_m,
            time_s=max(own.t_s, 0.0),
            reason=reason,
            speed_mps=float(track[:, 4].max(initial=0.0)),
            way_m=own.way_m,
            stops=tuple(own.stopping.stops),
            events=tuple(
                Event(event.stamp_ns - begin_ns, event.level, event.name, event.message)
                for event in events
            ),
            track=track,
            digest=digest.hexdigest(),
        )
