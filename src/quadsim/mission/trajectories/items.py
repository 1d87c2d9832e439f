"""Items of a mission that track a trajectory.

In a scenario::

    - circle: {center_W_m: [0.0, 0.0, 3.0], radius_m: 2.0, turns: 3, speed_mps: 2.5, yaw: along}
    - figure_of_eight: {center_W_m: [0.0, 0.0, 3.0], half_length_m: 1.5, half_width_m: 0.6}
    - minimum_snap: {waypoints: [[0.0, 0.0, 2.0], [3.0, 1.0, 2.5], [5.0, -1.0, 2.0]]}

Each begins and ends at rest; a leg leads to its start.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.control.parameters import FlightParams
from quadsim.geometry.linear import lengths
from quadsim.mission.trajectories.course import (
    Along,
    Coil,
    Eight,
    Plan,
    ShapeCourse,
    Turning,
    YawLaw,
    along_table,
    ramp_duration,
)
from quadsim.mission.trajectories.polynomials import Limits, Polynomials, allocate, course
from quadsim.mission.trajectories.timed import TrajectoryPoint, check_points, course_of
from quadsim.mission.waypoint import Acceleration, Place, Speed, Yaw

#: Samples of a turn by which a shape's peaks are found; they are smooth there.
TURN_SAMPLES = 720
#: Samples of a way from whose directions the yaw is taken.
YAW_SAMPLES = 600
#: Points that stand for a trajectory on a map: as many a second, and within these numbers.
MAP_HZ, LEAST_POINTS, MOST_POINTS = 8.0, 60, 600
#: Most waypoints of a minimum-snap item.
MOST_WAYPOINTS = 100
#: Where the nose looks.
YAWS = ("fixed", "along", "rate")
#: Slower than this, in m/s, a course stands still.
STANDING_MPS = 1e-3


class TrackItem(ABC):
    """An item that tracks a trajectory; a frozen dataclass."""

    @abstractmethod
    def plan(self, flight: FlightParams) -> Plan:
        """How it is flown.

        Args:
            flight: limits of legs, which hold where the item states none.
        """


@lru_cache(maxsize=256)
def plan_of(item: TrackItem, flight: FlightParams) -> Plan:
    """The plan of an item, made once."""
    return item.plan(flight)


def map_points(item: TrackItem, flight: FlightParams) -> list[Vec3]:
    """Positions along the trajectory of an item, its start and its end among them."""
    path = plan_of(item, flight).course
    count = min(max(math.ceil(MAP_HZ * path.length_s), LEAST_POINTS), MOST_POINTS)
    return [path.at(float(u_s))[0] for u_s in np.linspace(0.0, path.length_s, count + 1)]


@dataclass(frozen=True, kw_only=True)
class Paced(TrackItem):
    """How fast a trajectory is flown (peaks), and where the nose looks.

    Along the way, ``yaw_deg`` is to the left of it.
    """

    speed_mps: Speed = 0.0
    acceleration_mps2: Acceleration = 0.0
    yaw: Annotated[str, Spec("held, along the way, or turning evenly", choices=YAWS)] = "fixed"
    yaw_deg: Yaw = 0.0
    yaw_rate_degps: Annotated[float, Spec("of yaw: rate", "deg/s", ge=-1e3, le=1e3)] = 0.0

    def limits(self, flight: FlightParams) -> Limits:
        """Peaks that the item states; those of the autopilot's legs if it states none."""
        if self.speed_mps == 0.0 and self.acceleration_mps2 == 0.0:
            return Limits(
                flight.speed_mps, flight.acceleration_mps2, flight.ascent_mps, flight.descent_mps
            )
        return Limits(self.speed_mps or math.inf, self.acceleration_mps2 or math.inf)

    def turning(self) -> Turning:
        """The yaw where it does not go along the way."""
        rate = math.radians(self.yaw_rate_degps) if self.yaw == "rate" else 0.0
        return Turning(math.radians(self.yaw_deg), rate)

    def shape_plan(self, curve: Coil | Eight, turns: float, flight: FlightParams) -> Plan:
        """A closed form flown with a smooth run-in and run-out."""
        angles = np.linspace(0.0, 2.0 * math.pi * turns, math.ceil(TURN_SAMPLES * turns) + 1)
        rows = np.array([curve.at(float(angle))[1:] for angle in angles])
        first, second = rows[:, 0], rows[:, 1]
        speed = float(lengths(first).max())
        acceleration = float(lengths(second).max())
        up, down = max(float(first[:, 2].max()), 0.0), max(float(-first[:, 2].min()), 0.0)
        rate = 1.0 / self.limits(flight).stretch(speed, acceleration, up, down)
        law: YawLaw = Along(math.radians(self.yaw_deg)) if self.yaw == "along" else self.turning()
        most = self.acceleration_mps2 or max(acceleration * rate * rate, flight.acceleration_mps2)
        run_s = ramp_duration(speed * rate, most)
        return Plan(ShapeCourse(curve, rate, turns, law), run_s, run_s)


@dataclass(frozen=True, kw_only=True)
class Round(Paced):
    """What goes round an axis; ``start_deg`` leads from its middle to the start."""

    center_W_m: Place
    radius_m: Annotated[float, Spec("at the start", "m", ge=0.0, le=1e4)]
    turns: Annotated[float, Spec("how often it goes round", "1", gt=0.0, le=1000.0)] = 1.0
    start_deg: Yaw = 0.0
    clockwise: Annotated[bool, Spec("seen from above")] = False

    def __post_init__(self) -> None:
        """Refuse to go round on the spot."""
        if self.radius_m <= 0.0 and getattr(self, "end_radius_m", 0.0) <= 0.0:
            raise InputError("radius_m: 0; allowed: above 0")

    def plan(self, flight: FlightParams) -> Plan:
        """How it is flown."""
        end_radius_m, climb_m = (
            getattr(self, "end_radius_m", self.radius_m),
            getattr(self, "climb_m", 0.0),
        )
        angle = 2.0 * math.pi * self.turns
        curve = Coil(
            self.center_W_m,
            self.radius_m,
            (end_radius_m - self.radius_m) / angle,
            climb_m / angle,
            math.radians(self.start_deg),
            -1.0 if self.clockwise else 1.0,
        )
        return self.shape_plan(curve, self.turns, flight)


@dataclass(frozen=True, kw_only=True)
class Circle(Round):
    """Go round at a height."""


@dataclass(frozen=True, kw_only=True)
class Helix(Round):
    """Go round and climb."""

    climb_m: Annotated[float, Spec("from start to end; below 0, sink", "m", ge=-1e4, le=1e4)]


@dataclass(frozen=True, kw_only=True)
class Spiral(Round):
    """Go round with a radius that changes evenly."""

    end_radius_m: Annotated[float, Spec("at the end", "m", ge=0.0, le=1e4)]
    climb_m: Annotated[float, Spec("from start to end; below 0, sink", "m", ge=-1e4, le=1e4)] = 0.0


@dataclass(frozen=True, kw_only=True)
class FigureOfEight(Paced):
    """A lemniscate, begun at its crossing; it may rise at one tip and sink at the other.

    ``heading_deg`` is that of the first tip.
    """

    center_W_m: Place
    half_length_m: Annotated[float, Spec("from the crossing to a tip", "m", gt=0.0, le=1e4)]
    half_width_m: Annotated[float, Spec("of each loop", "m", gt=0.0, le=1e4)]
    half_height_m: Annotated[float, Spec("of the first tip", "m", ge=-1e4, le=1e4)] = 0.0
    heading_deg: Yaw = 0.0
    laps: Annotated[float, Spec("how often it is flown", "1", gt=0.0, le=1000.0)] = 1.0

    def plan(self, flight: FlightParams) -> Plan:
        """How it is flown."""
        curve = Eight(
            self.center_W_m,
            self.half_length_m,
            self.half_width_m,
            self.half_height_m,
            math.radians(self.heading_deg),
        )
        return self.shape_plan(curve, self.laps, flight)


@dataclass(frozen=True, kw_only=True)
class MinimumSnap(Paced):
    """Through waypoints with the least snap, from rest at the first to rest at the last."""

    waypoints: Annotated[
        tuple[Vec3, ...], Spec("in the map frame", "m", ge=-1e5, le=1e5, max_items=MOST_WAYPOINTS)
    ]
    optimise: Annotated[bool, Spec("look for the segments' shortest times")] = False

    def __post_init__(self) -> None:
        """Refuse waypoints between which there is no way."""
        if len(self.waypoints) < 2:
            raise InputError(f"waypoints: {len(self.waypoints)}; give at least two")
        for i, (before, after) in enumerate(pairwise(self.waypoints)):
            if math.dist(before, after) < 1e-3:
                raise InputError(f"waypoints[{i + 1}]: repeats the one before")

    def plan(self, flight: FlightParams) -> Plan:
        """How it is flown."""
        durations = allocate(self.waypoints, self.limits(flight), self.optimise)
        path = course(np.array(self.waypoints, dtype=float), durations)
        times = np.linspace(0.0, path.length_s, YAW_SAMPLES + 1)
        law: YawLaw = self.turning()
        if self.yaw == "along":
            velocity = np.array([path.at(float(u_s))[1] for u_s in times])
            most, offset = flight.yaw_rate_radps, math.radians(self.yaw_deg)
            law = along_table(path.length_s, velocity, most, offset)
        return Plan(Polynomials(path.knots_s, path.coefficients, law))


@dataclass(frozen=True, kw_only=True)
class TimedFollow(TrackItem):
    """Timed points joined smoothly, with the velocities and accelerations that they state."""

    points: tuple[TrajectoryPoint, ...]

    def __post_init__(self) -> None:
        """Refuse points between which no motion can be."""
        check_points(self.points)

    def plan(self, flight: FlightParams) -> Plan:
        """How it is flown: at its times, with a run-in and a run-out where it moves at its ends."""
        path = course_of(self.points)
        run_in_s, run_out_s = (
            ramp_duration(speed, flight.acceleration_mps2) if speed > STANDING_MPS else 0.0
            for speed in (math.hypot(*path.at(u_s)[1]) for u_s in (0.0, path.length_s))
        )
        return Plan(path, run_in_s, run_out_s)
