"""Parameters of the guard; files in ``config/guards``. What they promise: docs/guard.md."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec

#: Between two steps of the guard, while nothing is wrong, s.
PERIOD_S = 0.02
#: So far outside height band or fence the flight ends, m.
BEYOND_M = 0.5

GRAVITY_MPS2 = 9.80665
#: Whose brakes and latency the defaults are.
STAND_IN = "the rehearsals' stand-in"
#: No place or speed beyond these is taken: what is computed of them stays a number.
FARTHEST_M, FASTEST_MPS = 1e6, 1e3


@dataclass(frozen=True)
class LimitParams:
    """What no command goes beyond, whoever asks for it."""

    speed_max_mps: Annotated[float, Spec("fastest, horizontal", "m/s", gt=0.0, le=30.0)] = 4.0
    climb_max_mps: Annotated[float, Spec("fastest upwards", "m/s", gt=0.0, le=10.0)] = 1.5
    sink_max_mps: Annotated[float, Spec("fastest downwards", "m/s", gt=0.0, le=10.0)] = 1.0
    yaw_rate_max_radps: Annotated[float, Spec("fastest turn", "rad/s", gt=0.0, le=10.0)] = 1.5
    tilt_max_rad: Annotated[
        float,
        Spec(
            "commands ask for no more acceleration than this tilt gives; braking is not held back",
            "rad",
            gt=0.05,
            le=1.0,
        ),
    ] = 0.5
    rate_max_radps: Annotated[
        float, Spec("of setpoints: fastest roll and pitch", "rad/s", gt=0.0, le=20.0)
    ] = 2.0
    thrust_min_mps2: Annotated[
        float, Spec("of setpoints: thrust over mass", "m/s^2", ge=0.0, le=9.8)
    ] = 7.0
    thrust_max_mps2: Annotated[float, Spec("the same", "m/s^2", ge=9.9, le=100.0)] = 13.0
    height_min_m: Annotated[
        float, Spec("lowest p_W z of the vehicle's centre in flight", "m", ge=-1e4, le=1e4)
    ] = 0.5
    height_max_m: Annotated[float, Spec("highest", "m", ge=-1e4, le=1e4)] = 3.0
    fence_min_W_m: Annotated[
        tuple[float, float], Spec("south-west corner of the fence, map x y", "m", ge=-1e5, le=1e5)
    ] = (-50.0, -50.0)
    fence_max_W_m: Annotated[
        tuple[float, float], Spec("north-east corner of the fence, map x y", "m", ge=-1e5, le=1e5)
    ] = (50.0, 50.0)
    evade_speed_mps: Annotated[
        float,
        Spec(
            "fastest that the guard adds by itself: out of a keep-out, back into band and fence",
            "m/s",
            ge=0.0,
            le=5.0,
        ),
    ] = 0.3
    give_way_speed_mps: Annotated[
        float,
        Spec("fastest that it adds by itself to give way to a known shape", "m/s", ge=0.0, le=30.0),
    ] = 2.0

    def __post_init__(self) -> None:
        """Refuse bounds that leave no room."""
        if self.height_max_m - self.height_min_m < 0.2:
            raise InputError(
                f"height_max_m: {self.height_max_m:g}; allowed: at least 0.2 m above height_min_m"
                f" ({self.height_min_m:g})"
            )
        for axis, low, high in zip("xy", self.fence_min_W_m, self.fence_max_W_m, strict=True):
            if high - low < 1.0:
                raise InputError(
                    f"fence_max_W_m: {high:g} on {axis}; allowed: at least 1 m beyond"
                    f" fence_min_W_m ({low:g})"
                )

    @property
    def acceleration_max_mps2(self) -> float:
        """What the tilt gives, level."""
        return GRAVITY_MPS2 * math.tan(self.tilt_max_rad)


@dataclass(frozen=True)
class VehicleAssumptions:
    """What the guarantee counts on; measure it on the real vehicle (docs/guard.md)."""

    radius_m: Annotated[
        float, Spec("of the vehicle with its propellers, horizontal", "m", gt=0.0, le=5.0)
    ] = 0.4
    half_height_m: Annotated[
        float, Spec("from its centre to its top or bottom", "m", gt=0.0, le=5.0)
    ] = 0.2
    brake_mps2: Annotated[
        float,
        Spec("deceleration when zero velocity is commanded, at least", "m/s^2", gt=0.1, le=20.0),
    ] = 3.5
    latency_s: Annotated[
        float,
        Spec(
            "from a pose's measurement to the vehicle's answer to the command made of it, at most:"
            " driver, link and tilting; the pose's age at the guard is added by measurement",
            "s",
            ge=0.0,
            le=2.0,
        ),
    ] = 0.35
    measured_on: Annotated[
        str, Spec("how brake_mps2 and latency_s are known; hil and target ask for a vehicle's own")
    ] = STAND_IN
    pose_uncertainty_m: Annotated[
        float, Spec("error of the pose and of the ranges together", "m", ge=0.0, le=2.0)
    ] = 0.1
    margin_m: Annotated[
        float, Spec("added to that while nothing is wrong", "m", ge=0.0, le=5.0)
    ] = 0.1


@dataclass(frozen=True)
class SightParams:
    """What the scan sees, and what is taken to stand where it saw something."""

    scan: Annotated[
        str,
        Spec(
            "column: what a planar lidar hits is there at every height; point: a hit is a point",
            choices=("column", "point"),
        ),
    ] = "column"
    required: Annotated[bool, Spec("no flight without a scan")] = True
    timeout_s: Annotated[
        float, Spec("age at which the last scan counts as none", "s", gt=0.0, le=10.0)
    ] = 0.35
    memory_s: Annotated[
        float, Spec("a hit stays for so long: a ray that fails is no hole", "s", ge=0.0, le=5.0)
    ] = 0.25
    range_m: Annotated[
        float, Spec("nothing is known beyond; no stop is longer", "m", gt=0.5, le=500.0)
    ] = 10.0
    ignore_below_m: Annotated[
        float, Spec("hits with a lower p_W z are the floor", "m", ge=-1e4, le=1e4)
    ] = 0.15
    obstacle_speed_mps: Annotated[
        float, Spec("of what the scan sees, at most; 0: it stands", "m/s", ge=0.0, le=10.0)
    ] = 0.0
    beside_rad: Annotated[
        float,
        Spec(
            "a level direction is open if rays have looked into it, and so far to either side",
            "rad",
            ge=0.0,
            le=3.1,
        ),
    ] = 0.5


@dataclass(frozen=True)
class WatchParams:
    """When input counts as lost, and what follows."""

    pose_stale_s: Annotated[
        float, Spec("without a pose for so long, zero velocity", "s", gt=0.0, le=1.0)
    ] = 0.1
    pose_lost_s: Annotated[
        float, Spec("without a pose for so long, and standing, land", "s", gt=0.0, le=2.0)
    ] = 0.5
    pose_rate_min_hz: Annotated[
        float,
        Spec(
            "with fewer poses a second no flight begins: between two of them there must be time"
            " for a lost one before pose_stale_s is over",
            "Hz",
            gt=0.0,
            le=1000.0,
        ),
    ] = 25.0
    pose_jump_m: Annotated[
        float, Spec("farther than motion explains, a pose is not taken", "m", gt=0.0, le=10.0)
    ] = 0.3
    velocity_mismatch_mps: Annotated[
        float, Spec("most that a velocity and the poses may disagree", "m/s", gt=0.0, le=20.0)
    ] = 1.0
    disobey_mps: Annotated[
        float, Spec("most difference between velocity and commands", "m/s", gt=0.0, le=20.0)
    ] = 1.5
    wish_timeout_s: Annotated[
        float, Spec("age at which a command counts as none", "s", gt=0.0, le=5.0)
    ] = 0.3
    command_age_s: Annotated[
        float,
        Spec("an older command does not go out to the vehicle (node driver)", "s", gt=0.0, le=2.0),
    ] = 0.15
    dead_man: Annotated[bool, Spec("no flight unless the dead-man button is held")] = True
    dead_man_timeout_s: Annotated[
        float, Spec("age at which the button's last word counts as released", "s", gt=0.0, le=5.0)
    ] = 0.3
    late_s: Annotated[
        float, Spec("a longer time between two steps is a late loop", "s", ge=PERIOD_S, le=1.0)
    ] = 0.06
    hold_s: Annotated[
        float, Spec("holding for so long with something wrong, land", "s", gt=0.0, le=600.0)
    ] = 10.0

    def __post_init__(self) -> None:
        """Refuse times in the wrong order."""
        if self.pose_lost_s < self.pose_stale_s:
            raise InputError(
                f"pose_lost_s: {self.pose_lost_s:g}; allowed: >= pose_stale_s"
                f" ({self.pose_stale_s:g})"
            )


@dataclass(frozen=True)
class NeighbourParams:
    """How vehicles with guards of their own keep apart."""

    timeout_s: Annotated[
        float, Spec("a silent one grows for so long, then brake", "s", gt=0.0, le=5.0)
    ] = 0.5


@dataclass(frozen=True)
class GuardParams:
    """A file of ``config/guards``."""

    description: Annotated[str, Spec("for which vehicle and place")] = ""
    limits: LimitParams = field(default_factory=LimitParams)
    vehicle: VehicleAssumptions = field(default_factory=VehicleAssumptions)
    sight: SightParams = field(default_factory=SightParams)
    watch: WatchParams = field(default_factory=WatchParams)
    neighbours: NeighbourParams = field(default_factory=NeighbourParams)

    @property
    def keep_out_m(self) -> float:
        """Nearest that the vehicle's centre may come to what was seen."""
        return self.vehicle.radius_m + self.vehicle.pose_uncertainty_m
