"""Rest-to-rest legs as polynomials of time, and the setpoints they give.

A leg is one polynomial of degree 7 in each of x, y, z and yaw over tau = t / duration. From rest
to rest, acceleration and jerk zero at both ends, it is 35 tau^4 - 84 tau^5 + 70 tau^6 - 20 tau^7:
the minimum-snap trajectory of that duration (Mellinger and Kumar, *Minimum snap trajectory
generation and control for quadrotors*, 2011); a leg may also begin in motion.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, kernel
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.base.records import MODE_POSITION, Setpoint
from quadsim.geometry.rotation import wrap
from quadsim.geometry.vector import store

#: Peak speed of a rest-to-rest leg times duration over distance: 35/16, at the middle.
PEAK_SPEED = 2.1875
#: Peak acceleration times squared duration over distance: 84 sqrt(5) / 25, at (1 -+ 1/sqrt(5)) / 2.
PEAK_ACCELERATION = 84.0 * math.sqrt(5.0) / 25.0
#: Peak deceleration of a leg that only brakes, times duration over its first speed: 15/8.
PEAK_BRAKING = 1.875


class Leg(Record):
    """Coefficients of x, y, z and yaw in ascending powers of tau."""

    coefficients: Annotated[Array, 4, 8]
    duration_s: float


LEG = dtype_of(Leg)

#: Position, velocity and acceleration in W, yaw and yaw rate.
Motion = tuple[Vec3, Vec3, Vec3, float, float]


def rest_duration(distance: float, speed: float, acceleration: float) -> float:
    """Shortest time in s of a rest-to-rest leg within a speed and an acceleration.

    Args:
        distance: length of the way (m, or rad for a turn).
        speed: limit, per second.
        acceleration: limit, per second squared.
    """
    by_speed = PEAK_SPEED * distance / speed
    return max(by_speed, math.sqrt(PEAK_ACCELERATION * distance / acceleration))


def brake_duration(speed: float, acceleration: float) -> float:
    """Shortest time in s to come to rest from a speed, within an acceleration."""
    return PEAK_BRAKING * speed / acceleration


@kernel
def _plan_axis(
    coefficients: Array, start: float, v: float, a: float, goal: float, duration_s: float
) -> None:
    """Coefficients from (start, v, a, jerk 0) to (goal, 0, 0, 0): the eight conditions solved."""
    distance = goal - start
    first, second = v * duration_s, a * duration_s * duration_s
    coefficients[0] = start
    coefficients[1] = first
    coefficients[2] = 0.5 * second
    coefficients[3] = 0.0
    coefficients[4] = 35.0 * distance - 20.0 * first - 5.0 * second
    coefficients[5] = -84.0 * distance + 45.0 * first + 10.0 * second
    coefficients[6] = 70.0 * distance - 36.0 * first - 7.5 * second
    coefficients[7] = -20.0 * distance + 10.0 * first + 2.0 * second


@kernel
def plan_leg(
    legs: Records[Leg], start: Motion, goal_W: Vec3, goal_yaw: float, duration_s: float
) -> None:
    """Fill a leg from a motion to rest at a pose; the yaw goes the shortest way.

    Args:
        legs: (1,) LEG, the result.
        goal_W: position at the end in m.
        goal_yaw: yaw at the end in rad.
        duration_s: positive, or 0 to be at the goal at once.
    """
    leg = legs[0]
    p, v, a, yaw, yaw_rate = start
    leg.duration_s = duration_s
    for i in range(3):
        _plan_axis(leg.coefficients[i], p[i], v[i], a[i], goal_W[i], duration_s)
    rotated = yaw + wrap(goal_yaw - yaw)
    _plan_axis(leg.coefficients[3], yaw, yaw_rate, 0.0, rotated, duration_s)


@kernel
def evaluate(coefficients: Array, duration_s: float, t_s: float) -> Vec3:
    """Value, first and second derivative by time of one axis at a time within the leg."""
    tau = min(max(t_s / duration_s, 0.0), 1.0) if duration_s > 0.0 else 1.0
    value, first, second = 0.0, 0.0, 0.0
    for k in range(7, -1, -1):  # Horner, with its derivatives
        second = second * tau + 2.0 * first
        first = first * tau + value
        value = value * tau + coefficients[k]
    if tau >= 1.0 or duration_s <= 0.0:
        return (value, 0.0, 0.0)
    return (value, first / duration_s, second / (duration_s * duration_s))


@kernel
def write_setpoint(
    setpoints: Records[Setpoint], mode: int, p: Vec3, v: Vec3, a: Vec3, yaw: float, yaw_rate: float
) -> None:
    """Write every field of a (1,) SETPOINT array; its speed is the autopilot's own limit.

    An array of one goes from Python into compiled code thirty times faster than a record.
    """
    setpoint = setpoints[0]
    setpoint.mode = mode
    store(setpoint.p_W, p)
    store(setpoint.v_W, v)
    store(setpoint.a_W, a)
    setpoint.yaw = wrap(yaw)
    setpoint.yaw_rate = yaw_rate
    setpoint.speed_mps = 0.0


@kernel
def leg_setpoint(
    legs: Records[Leg],
    t_s: float,
    pace: float,
    level_m: float,
    climb_mps: float,
    setpoints: Records[Setpoint],
) -> None:
    """Write the setpoint of a leg at a time since its start; after its end, its goal at rest.

    Args:
        legs: (1,) LEG.
        t_s: in the leg's own time.
        pace: the leg's own time over time.
        level_m: what its heights count from, in W.
        climb_mps: rate of change of that.
        setpoints: (1,) SETPOINT, the result.
    """
    leg = legs[0]
    x = evaluate(leg.coefficients[0], leg.duration_s, t_s)
    y = evaluate(leg.coefficients[1], leg.duration_s, t_s)
    z = evaluate(leg.coefficients[2], leg.duration_s, t_s)
    yaw = evaluate(leg.coefficients[3], leg.duration_s, t_s)
    p = (x[0], y[0], z[0] + level_m)
    v = (pace * x[1], pace * y[1], pace * z[1] + climb_mps)
    square = pace * pace
    a = (square * x[2], square * y[2], square * z[2])
    write_setpoint(setpoints, MODE_POSITION, p, v, a, yaw[0], yaw[1])


@kernel
def leg_course(legs: Records[Leg], t_s: float) -> Vec3:
    """Velocity east and north, and height, of a leg at a time since its start."""
    leg = legs[0]
    x = evaluate(leg.coefficients[0], leg.duration_s, t_s)
    y = evaluate(leg.coefficients[1], leg.duration_s, t_s)
    z = evaluate(leg.coefficients[2], leg.duration_s, t_s)
    return (x[1], y[1], z[0])


def new_leg() -> NDArray[np.record]:
    """A leg that stands at the origin, as an array of one."""
    return np.zeros(1, LEG)
