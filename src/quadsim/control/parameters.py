"""Parameters of the autopilot; files in ``config/autopilots``.

Gains are rates (1/s, 1/s^2): mass and inertia come from the airframe, so that one file flies
every vehicle whose motors are as quick.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Choice, Spec, Vec3
from quadsim.estimation.terrain import GroundParams

GRAVITY_MPS2 = 9.80665
#: Ways to navigate, in ``position.navigation``.
NAVIGATIONS = ("trajectory", "nose_on", "acceleration", "velocity")


@dataclass(frozen=True)
class NavigationParams:
    """Gains of the ways that fly by PD on the position."""

    gain_p: Annotated[
        float, Spec("acceleration wanted per position error", "1/s^2", ge=0.0, le=50.0)
    ] = 0.36
    gain_d: Annotated[
        float, Spec("acceleration against the velocity, per velocity", "1/s", gt=0.0, le=50.0)
    ] = 1.2
    nose_gain: Annotated[
        float, Spec("yaw rate wanted per bearing of the target", "1/s", ge=0.0, le=20.0)
    ] = 1.5
    near_m: Annotated[
        float, Spec("distance nearer than which the nose is not turned", "m", gt=0.0, le=100.0)
    ] = 1.5


@dataclass(frozen=True)
class PositionParams:
    """Position and velocity loops and the limits that the flight keeps."""

    navigation: Annotated[
        Choice, Spec("how places are flown to; see docs/navigation.md", choices=NAVIGATIONS)
    ] = "trajectory"
    rate_hz: Annotated[float, Spec("rate of the position loop", "Hz", ge=50.0, le=100.0)] = 50.0
    position_gain_xy: Annotated[
        float, Spec("velocity wanted per position error", "1/s", ge=0.0, le=20.0)
    ] = 1.8
    position_gain_z: Annotated[float, Spec("the same, vertical", "1/s", ge=0.0, le=20.0)] = 1.8
    braking_mps2: Annotated[
        float, Spec("deceleration with which a far goal is approached", "m/s^2", gt=0.0, le=50.0)
    ] = 4.0
    velocity_gain_xy: Annotated[
        float, Spec("acceleration wanted per velocity error", "1/s", ge=0.0, le=50.0)
    ] = 4.0
    velocity_gain_z: Annotated[float, Spec("the same, vertical", "1/s", ge=0.0, le=50.0)] = 5.0
    velocity_integral_xy: Annotated[
        float, Spec("acceleration per integrated velocity error", "1/s^2", ge=0.0, le=100.0)
    ] = 1.5
    velocity_integral_z: Annotated[
        float, Spec("the same, vertical; carries a wrong mass", "1/s^2", ge=0.0, le=100.0)
    ] = 2.0
    integral_limit_xy_mps2: Annotated[
        float, Spec("most acceleration from the integral", "m/s^2", ge=0.0, le=20.0)
    ] = 3.0
    attitude_lag_s: Annotated[
        float,
        Spec("lag of the attitude loop, led by the feed-forward acceleration", "s", ge=0.0, le=1.0),
    ] = 0.08
    yaw_gain: Annotated[float, Spec("yaw rate wanted per yaw error", "1/s", ge=0.0, le=20.0)] = 2.0
    yaw_rate_max_radps: Annotated[float, Spec("fastest turn", "rad/s", gt=0.0, le=20.0)] = 2.5
    speed_max_mps: Annotated[float, Spec("fastest, horizontal", "m/s", gt=0.0, le=100.0)] = 5.0
    ascent_max_mps: Annotated[float, Spec("fastest upwards", "m/s", gt=0.0, le=50.0)] = 3.0
    descent_max_mps: Annotated[float, Spec("fastest downwards", "m/s", gt=0.0, le=50.0)] = 2.0
    acceleration_max_mps2: Annotated[
        float, Spec("most horizontal acceleration", "m/s^2", gt=0.0, le=50.0)
    ] = 8.0
    tilt_max_rad: Annotated[
        float, Spec("largest angle between body z and the vertical", "rad", gt=0.0, le=1.2)
    ] = 0.7


#: The position loop where nothing else is stated.
DEFAULT_POSITION = PositionParams()


@dataclass(frozen=True)
class AttitudeParams:
    """Attitude and rate loops of the mixer node."""

    tilt_gain: Annotated[
        float, Spec("body rate wanted per attitude error", "1/s", ge=0.0, le=50.0)
    ] = 10.0
    tilt_rate_max_radps: Annotated[
        float, Spec("fastest roll or pitch", "rad/s", gt=0.0, le=50.0)
    ] = 6.0
    rate_gain: Annotated[
        Vec3, Spec("angular acceleration wanted per rate error, body axes", "1/s", ge=0.0, le=200.0)
    ] = (32.0, 32.0, 12.0)
    rate_integral: Annotated[
        Vec3, Spec("the same per integrated error", "1/s^2", ge=0.0, le=2000.0)
    ] = (60.0, 60.0, 12.0)
    rate_lead_s: Annotated[
        float, Spec("derivative time of the rate loop; 0 for none", "s", ge=0.0, le=0.1)
    ] = 0.0125
    motor_lag_s: Annotated[
        float,
        Spec(
            "mean lag of the motors that the rate gains are for; slower ones get more lead, and"
            " gain to match; 0: as they stand",
            "s",
            ge=0.0,
            le=1.0,
        ),
    ] = 0.01875
    gyro_cutoff_hz: Annotated[
        float, Spec("first-order low-pass of the body rates", "Hz", gt=0.0, le=500.0)
    ] = 60.0
    thrust_reserve: Annotated[
        float,
        Spec("share of the thrust range left to roll and pitch at both ends", "1", ge=0.0, le=0.4),
    ] = 0.05


@dataclass(frozen=True)
class WatchdogParams:
    """What the inner loop does when its inputs are missing."""

    command_timeout_s: Annotated[
        float, Spec("age of the attitude command that means it is lost", "s", gt=0.0, le=10.0)
    ] = 0.5


@dataclass(frozen=True)
class ArmingParams:
    """What must hold before the motors may turn."""

    position_sigma_m: Annotated[
        float, Spec("largest horizontal deviation", "m", gt=0.0, le=100.0)
    ] = 3.0
    height_sigma_m: Annotated[
        float, Spec("largest deviation of the height", "m", gt=0.0, le=100.0)
    ] = 5.0
    velocity_sigma_mps: Annotated[
        float, Spec("largest deviation of the velocity, each axis", "m/s", gt=0.0, le=10.0)
    ] = 0.6
    tilt_sigma_rad: Annotated[
        float, Spec("largest deviation of the tilt", "rad", gt=0.0, le=1.0)
    ] = 0.1
    yaw_sigma_rad: Annotated[
        float, Spec("largest deviation of the heading", "rad", gt=0.0, le=3.2)
    ] = 0.3
    tilt_rad: Annotated[float, Spec("largest tilt", "rad", gt=0.0, le=1.0)] = 0.175
    speed_mps: Annotated[float, Spec("largest speed", "m/s", gt=0.0, le=10.0)] = 0.8
    charge: Annotated[
        float, Spec("least charge of the battery, where it is known", "1", ge=0.0, le=1.0)
    ] = 0.3


@dataclass(frozen=True)
class FailsafeParams:
    """Limits whose breach ends the mission in a landing; see docs/mission.md."""

    position_sigma_m: Annotated[
        float, Spec("deviation of the position that means it has diverged", "m", gt=0.0, le=1000.0)
    ] = 10.0
    velocity_sigma_mps: Annotated[
        float, Spec("deviation of the velocity that means the same", "m/s", gt=0.0, le=100.0)
    ] = 3.0
    attitude_sigma_rad: Annotated[
        float, Spec("deviation of the tilt that means the same", "rad", gt=0.0, le=3.2)
    ] = 0.35
    jump_m: Annotated[
        float, Spec("step of the position that no motion explains", "m", gt=0.0, le=1000.0)
    ] = 3.0
    jump_mps: Annotated[
        float, Spec("step of the velocity that no force explains", "m/s", gt=0.0, le=100.0)
    ] = 3.0
    jump_rad: Annotated[
        float, Spec("step of the attitude that no turn explains", "rad", gt=0.0, le=3.2)
    ] = 0.5
    hold_growth_m: Annotated[
        float,
        Spec("growth of the position's deviation at which it is held", "m", gt=0.0, le=1000.0),
    ] = 0.5
    hold_s: Annotated[
        float, Spec("longest hold on inertial navigation", "s", ge=0.0, le=3600.0)
    ] = 6.0
    off_course_m: Annotated[
        float, Spec("distance from the reference that does not shrink", "m", gt=0.0, le=1000.0)
    ] = 6.0
    command_timeout_s: Annotated[
        float, Spec("age of a velocity command at which the vehicle stops", "s", gt=0.0, le=60.0)
    ] = 0.5
    command_land_s: Annotated[
        float, Spec("hover after a lost velocity command before landing", "s", ge=0.0, le=3600.0)
    ] = 10.0
    descent_mps: Annotated[
        float, Spec("descent without a position to hold", "m/s", gt=0.0, le=5.0)
    ] = 0.7
    floor_m: Annotated[
        float, Spec("lowest height above the take-off point en route", "m", ge=-1e4, le=100.0)
    ] = 0.3
    impact_sink_mps: Annotated[
        float, Spec("slowest descent that is pulled up", "m/s", gt=0.0, le=50.0)
    ] = 0.8
    battery_warn: Annotated[float, Spec("charge at which it flies home", "1", ge=0.0, le=1.0)] = (
        0.25
    )
    battery_critical: Annotated[
        float, Spec("charge at which it lands where it is", "1", ge=0.0, le=1.0)
    ] = 0.1
    mission_timeout_s: Annotated[
        float, Spec("longest time from take-off to the landing", "s", gt=0.0, le=86400.0)
    ] = 3600.0

    def __post_init__(self) -> None:
        """Refuse a warning that comes after what it warns of."""
        if self.battery_warn < self.battery_critical:
            raise InputError(
                f"battery_warn: {self.battery_warn:g}; allowed: >= battery_critical,"
                f" {self.battery_critical:g}"
            )


#: Corners of a fence.
MAX_CORNERS = 32


@dataclass(frozen=True)
class FenceParams:
    """Where the vehicle may fly; a bound of 0 is none. Home is where it was armed."""

    radius_m: Annotated[float, Spec("of a cylinder about home; 0: none", "m", ge=0.0, le=1e5)] = 0.0
    polygon_W_m: Annotated[
        tuple[tuple[float, float], ...],
        Spec(
            "corners, east and north; none: no polygon", "m", ge=-1e5, le=1e5, max_items=MAX_CORNERS
        ),
    ] = ()
    ceiling_m: Annotated[float, Spec("above home; 0: none", "m", ge=0.0, le=1e5)] = 0.0
    floor_m: Annotated[float, Spec("above home, en route; 0: none", "m", ge=-1e4, le=1e4)] = 0.0
    action: Annotated[
        str, Spec("what a vehicle does that is about to leave", choices=("hover", "return", "land"))
    ] = "hover"
    margin_m: Annotated[
        float, Spec("that velocity commands keep from it", "m", ge=0.0, le=100.0)
    ] = 0.5

    def __post_init__(self) -> None:
        """Refuse a fence that encloses nothing."""
        count = len(self.polygon_W_m)
        if 0 < count < 3:
            raise InputError(f"polygon_W_m: {count} corners; allowed: none, or 3 to {MAX_CORNERS}")
        if self.ceiling_m and self.floor_m >= self.ceiling_m:
            raise InputError(
                f"floor_m: {self.floor_m:g}; allowed: below ceiling_m, {self.ceiling_m:g}"
            )


@dataclass(frozen=True)
class AssistedParams:
    """What sticks mean in assisted control, and what keeps a novice off the ground."""

    speed_mps: Annotated[
        float, Spec("horizontal speed of a full stick", "m/s", gt=0.0, le=50.0)
    ] = 4.0
    climb_mps: Annotated[
        float, Spec("speed with which a full stick moves the held height", "m/s", gt=0.0, le=10.0)
    ] = 1.0
    yaw_rate_radps: Annotated[float, Spec("turn of a full stick", "rad/s", gt=0.0, le=10.0)] = 1.2
    acceleration_mps2: Annotated[
        float, Spec("most horizontal acceleration", "m/s^2", gt=0.0, le=20.0)
    ] = 3.0
    lowest_m: Annotated[
        float, Spec("lowest height above ground that is held", "m", gt=0.0, le=100.0)
    ] = 1.0
    guard_m: Annotated[
        float, Spec("height above ground at which only climbing is left", "m", gt=0.0, le=100.0)
    ] = 0.5
    slope: Annotated[
        float, Spec("steepest ground that may come, rise over run", "1", ge=0.0, le=5.0)
    ] = 0.7
    reaction_s: Annotated[
        float, Spec("time in which a climb answers to rising ground", "s", gt=0.0, le=5.0)
    ] = 0.8
    follow_mps: Annotated[
        float, Spec("fastest climb and descent along the ground", "m/s", gt=0.0, le=20.0)
    ] = 2.0
    timeout_s: Annotated[
        float, Spec("age of the last stick at which it counts as released", "s", gt=0.0, le=10.0)
    ] = 0.5
    takeoff_m: Annotated[
        float, Spec("height of a take-off without a mission", "m", gt=0.0, le=100.0)
    ] = 2.0

    def __post_init__(self) -> None:
        """Refuse a guard that no held height is above."""
        if self.guard_m >= self.lowest_m:
            raise InputError(
                f"guard_m: {self.guard_m:g} m; allowed: below lowest_m, {self.lowest_m:g} m"
            )


@dataclass(frozen=True)
class ManualParams:
    """What sticks mean in manual flight: roll, pitch, yaw rate and thrust, nothing held."""

    allowed: Annotated[bool, Spec("whether anybody may fly manually")] = False
    tilt_rad: Annotated[float, Spec("roll or pitch of a full stick", "rad", gt=0.0, le=1.0)] = 0.5
    yaw_rate_radps: Annotated[float, Spec("turn of a full stick", "rad/s", gt=0.0, le=20.0)] = 2.0
    thrust_max: Annotated[
        float, Spec("thrust of a full stick over the weight", "1", gt=1.0, le=5.0)
    ] = 1.6
    thrust_min: Annotated[
        float, Spec("thrust of the stick at its bottom over the weight", "1", ge=0.1, lt=1.0)
    ] = 0.4


@dataclass(frozen=True)
class FlightParams:
    """The flight state machine: how it takes off, moves and lands."""

    arming: ArmingParams = field(default_factory=ArmingParams)
    failsafe: FailsafeParams = field(default_factory=FailsafeParams)
    ground: GroundParams = field(default_factory=GroundParams)
    fence: FenceParams = field(default_factory=FenceParams)
    assisted: AssistedParams = field(default_factory=AssistedParams)
    manual: ManualParams = field(default_factory=ManualParams)
    speed_mps: Annotated[float, Spec("fastest on a leg", "m/s", gt=0.0, le=100.0)] = 3.0
    acceleration_mps2: Annotated[
        float, Spec("most acceleration on a leg", "m/s^2", gt=0.0, le=50.0)
    ] = 4.0
    ascent_mps: Annotated[float, Spec("fastest upwards on a leg", "m/s", gt=0.0, le=50.0)] = 1.5
    descent_mps: Annotated[float, Spec("fastest downwards on a leg", "m/s", gt=0.0, le=50.0)] = 1.0
    yaw_rate_radps: Annotated[float, Spec("fastest turn on a leg", "rad/s", gt=0.0, le=20.0)] = 1.5
    preview_s: Annotated[
        float,
        Spec(
            "timed points: how far ahead they are smoothed for velocity and acceleration; 0: they"
            " state none",
            "s",
            ge=0.0,
            le=5.0,
        ),
    ] = 0.0
    arrival_radius_m: Annotated[
        float, Spec("distance at which a waypoint is reached", "m", gt=0.0, le=100.0)
    ] = 0.5
    arrival_timeout_s: Annotated[
        float, Spec("wait for the arrival after a leg's end", "s", ge=0.0, le=600.0)
    ] = 5.0
    home_height_m: Annotated[
        float, Spec("least height of the way home when it is told", "m", ge=0.0, le=1000.0)
    ] = 0.0
    landing_speed_mps: Annotated[
        float, Spec("speed of the descent onto the ground", "m/s", gt=0.0, le=3.0)
    ] = 0.6


@dataclass(frozen=True)
class AutopilotParams:
    """Everything an autopilot file holds."""

    name: Annotated[str, Spec("what the gains are for")] = "default"
    gravity_mps2: Annotated[float, Spec("gravity", "m/s^2", gt=0.0, le=30.0)] = GRAVITY_MPS2
    position: PositionParams = field(default_factory=PositionParams)
    navigation: NavigationParams = field(default_factory=NavigationParams)
    attitude: AttitudeParams = field(default_factory=AttitudeParams)
    watchdog: WatchdogParams = field(default_factory=WatchdogParams)
    flight: FlightParams = field(default_factory=FlightParams)
