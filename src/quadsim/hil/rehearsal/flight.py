"""One flight of a rehearsal: stand-ins, links and the sides that fly it, in one simulated time."""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quadsim.hil.rehearsal.hil_side import HilSide, OtherVehicle, virtual_eye
from quadsim.hil.rehearsal.judge import hull_radius_m
from quadsim.hil.rehearsal.rehearsal import Rehearsal
from quadsim.hil.rehearsal.stopping import Stop
from quadsim.hil.rehearsal.vehicle_side import VehicleSide
from quadsim.sim.log import Event
from quadsim.world.scene.vehicle_track import VehicleTrack

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


class FleetFlight:
    """A flight of several vehicles, tick by tick, each with a stand-in, links and guard of its own.

    The guards tell each other their reach, as they do on one computer: it is heard at the next
    step. Lidars see the other vehicles, and planners know them, by the poses that these say.
    Downwash is not flown here, as every stand-in is a simulation of its own.

    Attributes:
        apart_m: least distance between the balls about two vehicles so far.
    """

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.flights = {
            f"quad{k + 1}": RehearsalFlight(member) for k, member in enumerate(rehearsal.members)
        }
        self.apart_m = math.inf
        self._radius_m = hull_radius_m(rehearsal.scenario.vehicle)
        self._ended: dict[str, tuple[float, str]] = {}  # time and reason of each
        self._tracks = {name: VehicleTrack() for name in self.flights}
        for name, flight in self.flights.items():
            others = {
                other: alongside.rehearsal.guard
                for other, alongside in self.flights.items()
                if other != name
            }
            flight.side.guard.expect_neighbours(
                {other: guard.keep_out_m for other, guard in others.items()}
            )
            flight.side.neighbours = [
                OtherVehicle(
                    self._tracks[other], (guard.vehicle.radius_m, 2.0 * guard.vehicle.half_height_m)
                )
                for other, guard in others.items()
            ]

    def tick(self) -> None:
        """Fly all of them on by one tick."""
        for name, flight in self.flights.items():
            flight.tick()
            if name not in self._ended and (reason := flight.ending()):
                self._ended[name] = max(flight.own.t_s, 0.0), reason
        self._exchange()
        places = [flight.own.truth()[0] for flight in self.flights.values()]
        if all(flight.own.begun_ns is not None for flight in self.flights.values()):
            nearest_m = min(math.dist(a, b) for a, b in itertools.combinations(places, 2))
            self.apart_m = min(self.apart_m, nearest_m - 2.0 * self._radius_m)

    def _exchange(self) -> None:
        """Tell each side what the others say."""
        for name, flight in self.flights.items():
            now_ns, pose = flight.vehicle.stamp_ns, flight.side.pose
            if pose is not None and pose.stamp_ns != self._tracks[name].stamp_ns:
                self._tracks[name].take(pose.stamp_ns, pose.p_W, pose.v_W)
            reach_W = flight.side.guard.reach(now_ns)
            for other, alongside in self.flights.items():
                if reach_W is not None and other != name:
                    alongside.side.guard.take_neighbour(name, now_ns, now_ns, reach_W)

    @property
    def over(self) -> bool:
        """Whether all have ended, or two have met, or one has struck something."""
        hit = any(reason.startswith(("collided", "crashed")) for _, reason in self._ended.values())
        return hit or self.apart_m < 0.0 or len(self._ended) == len(self.flights)

    def fly(self) -> Outcome:
        """Fly to the end."""
        try:
            while not self.over:
                self.tick()
        finally:
            for flight in self.flights.values():
                flight.own.close()
        return self._outcome()

    def _outcome(self) -> Outcome:
        """What came of all of them together."""
        names, flights = list(self.flights), list(self.flights.values())
        outcomes = [
            flight.outcome(self._ended.get(name, (0.0, "not ended"))[1])
            for name, flight in self.flights.items()
        ]
        missed = {name: why for name, (_, why) in self._ended.items() if why != "arrived"}
        reason = "; ".join(f"{name}: {why}" for name, why in missed.items()) or "arrived"
        met = self.apart_m < 0.0
        gap = np.full((1, len(TRACK)), np.nan)
        return Outcome(
            seed=flights[0].rehearsal.seed,
            arrived=not missed and not met,
            collided=met or any(outcome.collided for outcome in outcomes),
            landed=any(outcome.landed for outcome in outcomes),
            clearance_m=min(self.apart_m, *(outcome.clearance_m for outcome in outcomes)),
            time_s=max((t_s for t_s, _ in self._ended.values()), default=0.0),
            reason="collided with each other" if met else reason,
            speed_mps=max(outcome.speed_mps for outcome in outcomes),
            way_m=sum(outcome.way_m for outcome in outcomes),
            stops=tuple(stop for outcome in outcomes for stop in outcome.stops),
            events=tuple(
                event._replace(name=f"{name}: {event.name}")
                for name, outcome in zip(names, outcomes, strict=True)
                for event in outcome.events
            ),
            track=np.vstack([row for outcome in outcomes for row in (outcome.track, gap)]),
            digest=hashlib.sha256("".join(o.digest for o in outcomes).encode()).hexdigest(),
        )
