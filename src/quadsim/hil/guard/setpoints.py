"""Attitudes and body rates that pass the guard, where braking would still be in time.

Nobody knows where an attitude leads. What is known is how much it can accelerate the vehicle, so
all that may come of it until the guard has taken over and the vehicle stands is within a box about
the way that it would brake on: a ball of A T in velocity, with A the largest acceleration and T the
time for which the setpoint may be in force. See docs/guard.md for what that does not promise.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.control.turning import TurningHeading
from quadsim.geometry.rotation import Quat, from_euler, rotate, to_euler, yaw_of
from quadsim.hil.guard.faults import BEYOND_RAD
from quadsim.hil.guard.law import Moment, room_about
from quadsim.hil.guard.parameters import GRAVITY_MPS2, GuardParams, LimitParams
from quadsim.hil.guard.pose import AcceptedPose
from quadsim.hil.guard.sight import Sight

Array = NDArray[np.float64]

#: What can be asked for besides velocities.
KINDS = POSITION, ATTITUDE, RATES = "position", "attitude", "rates"
#: Corners of a box.
_CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
#: Slower, a vehicle that was taken over stands, m/s.
STANDING_MPS = 0.2
#: What rounding adds at a limit.
ROUNDING = 1e-3


@dataclass(frozen=True)
class ThrustSetpoint:
    """An attitude or body rates with a thrust.

    Attributes:
        kind: ``attitude`` or ``rates``.
        q_WB: of an attitude; of rates that the guard lets pass the present one.
        w_B: body rates in FLU, rad/s; of an attitude (0, 0, yaw rate).
        thrust_mps2: collective thrust over mass, along body z.
    """

    kind: str
    q_WB: Quat
    w_B: Vec3
    thrust_mps2: float


def tilt_of(q_WB: Quat) -> float:
    """Angle between body z and the vertical, rad."""
    return math.acos(min(max(rotate(q_WB, (0.0, 0.0, 1.0))[2], -1.0), 1.0))


def refused_setpoint(setpoint: ThrustSetpoint, limits: LimitParams) -> str:
    """Why a setpoint cannot be passed on, in words; empty: it can."""
    if not all(map(math.isfinite, (*setpoint.q_WB, *setpoint.w_B, setpoint.thrust_mps2))):
        return "a number in it is not finite"
    x, y, z = setpoint.w_B
    tilt = tilt_of(setpoint.q_WB) if setpoint.kind == ATTITUDE else 0.0
    for what, value, most, unit in (
        ("tilt", tilt, limits.tilt_max_rad, "rad"),
        ("body rate", math.hypot(x, y), limits.rate_max_radps, "rad/s"),
        ("yaw rate", abs(z), limits.yaw_rate_max_radps, "rad/s"),
        ("thrust", setpoint.thrust_mps2, limits.thrust_max_mps2, "m/s^2"),
        ("thrust", -setpoint.thrust_mps2, -limits.thrust_min_mps2, "m/s^2"),
    ):
        if value > most + ROUNDING:
            return f"{what} {abs(value):.3g} {unit}; the guard's file allows: {abs(most):g}"
    return ""


def setpoint_reach(params: GuardParams, v_W: Array, force_s: float) -> tuple[Array, float]:
    """All that the vehicle reaches if a setpoint is in force for a time, and then zero velocity.

    Args:
        v_W: (3,) its velocity, m/s.
        force_s: time for which the setpoint, or one before it, may act.

    Returns:
        (17, 3) points whose hull holds it, 0 first, m; and the greatest speed, m/s.
    """
    limits, brake = params.limits, params.vehicle.brake_mps2
    level = max(limits.thrust_max_mps2 * math.sin(limits.tilt_max_rad), brake)
    rises = limits.thrust_max_mps2 - GRAVITY_MPS2
    sinks = GRAVITY_MPS2 - limits.thrust_min_mps2 * math.cos(limits.tilt_max_rad)
    upright = max(rises, sinks)
    fastest = math.sqrt(v_W @ v_W) + math.hypot(level, upright) * force_s
    braking_s = fastest / (2.0 * brake)
    way = np.array((level, level, upright)) * force_s * (0.5 * force_s + braking_s)
    points = np.zeros((17, 3))
    points[1:9] = way * _CORNERS
    points[9:] = points[1:9] + v_W * (force_s + braking_s)
    return points, fastest


class SetpointWatch:
    """Which setpoints may pass; see the module.

    Attributes:
        taken_over: whether the last one did not pass: until the vehicle stands, none does.
        reach_W: (17, 3) points whose hull holds where the last one that passed may lead.
    """

    def __init__(self, params: GuardParams) -> None:
        self._params = params
        self.taken_over = False
        self.reach_W: Array = np.zeros((0, 3))
        self._passed_ns: int | None = None
        self._heading = TurningHeading()

    def _force_s(self, age_s: float) -> float:
        """For how long a setpoint of now may act, if the next one is none."""
        return age_s + self._params.vehicle.latency_s + self._params.watch.late_s

    def in_force(self, now_ns: int, age_s: float) -> bool:
        """Whether one that passed may act still."""
        if self._passed_ns is None:
            return False
        return (now_ns - self._passed_ns) * 1e-9 < self._force_s(age_s)

    def take(
        self, now_ns: int, sight: Sight, pose: AcceptedPose, age_s: float, setpoint: ThrustSetpoint
    ) -> tuple[ThrustSetpoint | None, float]:
        """What may pass, None: nothing; and the room about all that it may lead to, m."""
        params, force_s = self._params, self._force_s(age_s)
        reach_W, fastest_mps = setpoint_reach(params, pose.v_W, force_s)
        moment = Moment(now_ns, pose.p_W, age_s, pose.v_W[None], 0.0, fastest_mps=fastest_mps)
        room_m = room_about(params, sight, moment, reach_W)
        x, y, _ = setpoint.w_B
        turned_rad = math.hypot(x, y) * force_s if setpoint.kind == RATES else 0.0
        safe = (
            room_m >= (params.vehicle.margin_m if self.taken_over else 0.0)
            and pose.speed_mps <= params.limits.speed_max_mps
            and pose.tilt_rad + turned_rad <= params.limits.tilt_max_rad + BEYOND_RAD
            and sight.sees_all_round(now_ns)
            and (pose.speed_mps < STANDING_MPS or not self.taken_over)
        )
        self.taken_over = not safe
        if not safe:
            return None, room_m
        self._passed_ns, self.reach_W = now_ns, pose.p_W + reach_W
        if setpoint.kind == ATTITUDE:  # of its heading the rate alone counts
            roll, pitch, _ = to_euler(setpoint.q_WB)
            yaw = self._heading.advance(now_ns, yaw_of(pose.q_WB), setpoint.w_B[2])
            return replace(setpoint, q_WB=from_euler(roll, pitch, yaw)), room_m
        return replace(setpoint, q_WB=pose.q_WB), room_m
