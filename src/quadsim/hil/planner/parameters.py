"""What the planner is told, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3

#: Speed back to the way per distance from it, 1/s.
CROSS_GAIN_PER_S = 1.0
#: At least this long from an obstacle next to the way, if it went there, s.
BESIDE_S = 0.25
#: Slowest speed in narrow places, m/s.
LEAST_MPS = 0.5
#: So near any goal but the last it flies to the next, m.
PASSING_RADIUS_M = 1.0


@dataclass(frozen=True)
class MapParams:
    """The map of what the lidar has seen, at the height of the vehicle."""

    cell_m: Annotated[float, Spec("side of a cell", "m", ge=0.05, le=2.0)] = 0.25
    around_m: Annotated[
        float, Spec("how far beyond vehicle and goal ways are looked for", "m", ge=2.0, le=200.0)
    ] = 12.0
    cells_max: Annotated[
        int, Spec("most cells of the map; goals that need more are refused", ge=100, le=2_000_000)
    ] = 150_000


@dataclass(frozen=True)
class SpeedParams:
    """How fast it may fly, and turn."""

    speed_mps: Annotated[float, Spec("top speed", "m/s", gt=0.0, le=20.0)] = 4.0
    climb_mps: Annotated[float, Spec("climbing and sinking", "m/s", gt=0.0, le=10.0)] = 1.0
    acceleration_mps2: Annotated[
        float, Spec("how fast commands change, and go round bends", "m/s^2", gt=0.0, le=20.0)
    ] = 2.5
    braking_mps2: Annotated[
        float, Spec("deceleration with which it can stop", "m/s^2", gt=0.0, le=20.0)
    ] = 2.5
    reaction_s: Annotated[
        float, Spec("from an echo to the deceleration: scan, link, autopilot", "s", ge=0.0, le=5.0)
    ] = 0.4
    lag_s: Annotated[
        float, Spec("by which the vehicle's velocity follows commands", "s", ge=0.0, le=5.0)
    ] = 0.3
    yaw_gain: Annotated[
        float, Spec("turns to where it flies, 0: not at all", "1/s", ge=0.0, le=10.0)
    ] = 1.5
    yaw_rate_radps: Annotated[float, Spec("fastest turn", "rad/s", gt=0.0, le=10.0)] = 1.5
    look_rad: Annotated[
        float,
        Spec(
            "it turns before it flies farther aside of its heading than this, and slows down from"
            " the half of it on, as a camera looks; 0: it flies to any side",
            "rad",
            ge=0.0,
            le=3.1,
        ),
    ] = 0.0


@dataclass(frozen=True)
class PlannerParams:
    """The planner: ways from where the vehicle is to its goals, around what it sees."""

    rate_hz: Annotated[float, Spec("how often a way is looked for", "Hz", gt=0.0, le=50.0)] = 4.0
    vehicle_radius_m: Annotated[
        float, Spec("of the vehicle with its rotors", "m", gt=0.0, le=10.0)
    ] = 0.4
    margin_m: Annotated[
        float, Spec("added to the radius: errors of pose, scan and flight", "m", ge=0.0, le=10.0)
    ] = 0.25
    arrival_radius_m: Annotated[
        float, Spec("so near the last goal it has arrived", "m", gt=0.0, le=10.0)
    ] = 0.3
    scan_timeout_s: Annotated[
        float, Spec("it stops when the newest scan is older", "s", gt=0.0, le=10.0)
    ] = 0.5
    area_min_W_m: Annotated[
        tuple[float, float], Spec("it flies east and north of this", "m", ge=-1e5, le=1e5)
    ] = (-1e5, -1e5)
    area_max_W_m: Annotated[
        tuple[float, float], Spec("it flies west and south of this", "m", ge=-1e5, le=1e5)
    ] = (1e5, 1e5)
    map: MapParams = MapParams()
    speed: SpeedParams = SpeedParams()

    def __post_init__(self) -> None:
        """Refuse an area without inside, and cells too coarse for the vehicle."""
        for low, high in zip(self.area_min_W_m, self.area_max_W_m, strict=True):
            if not low < high:
                raise InputError(
                    f"area_min_W_m: {low:g} is not below area_max_W_m {high:g}; give a rectangle"
                )
        if self.map.cell_m > self.keep_m:
            raise InputError(
                f"map.cell_m: {self.map.cell_m:g} is too coarse;"
                f" allowed: <= vehicle_radius_m + margin_m = {self.keep_m:g}"
            )

    @property
    def keep_m(self) -> float:
        """Ways keep this far from every obstacle that is known."""
        return self.vehicle_radius_m + self.margin_m


#: What :attr:`PlannerOutput.state` reports.
STATES = ("idle", "flying", "blocked", "arrived")


@dataclass(frozen=True)
class PlannerOutput:
    """What the planner wants now.

    Attributes:
        v_W: (3,) velocity in m/s.
        yaw_rate_radps: about the vertical.
        path_W: (K, 3) the way from here to the goal that is flown to, m; (0, 3) for none.
        state: ``idle`` without goals, ``flying``, ``blocked``, or ``arrived``.
        reason: why it is blocked or slow, in words; else empty.
    """

    v_W: Vec3
    yaw_rate_radps: float
    path_W: NDArray[np.float64]
    state: str
    reason: str = ""
