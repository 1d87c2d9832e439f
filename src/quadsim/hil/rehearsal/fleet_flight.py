"""One flight of several vehicles, each with a stand-in, links and a guard of its own.

The guards tell each other their reach, as they do on one computer: it is heard at the next step.
Lidars see the other vehicles, and planners know them, by the poses that these say.
Downwash is not flown here, as every stand-in is a simulation of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np

from quadsim.hil.rehearsal.flight import TRACK, Outcome, RehearsalFlight
from quadsim.hil.rehearsal.hil_side import OtherVehicle
from quadsim.hil.rehearsal.judge import hull_radius_m
from quadsim.hil.rehearsal.rehearsal import Rehearsal
from quadsim.world.scene.vehicle_track import VehicleTrack


class FleetFlight:
    """A flight of a fleet, tick by tick.

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
            flight.side.beside = [
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
