"""Steps 1 and 2 of an IMU: the motion of the body, moved to the sensor's place."""

from __future__ import annotations

from typing import NamedTuple

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import (
    Quat,
    conjugate,
    log,
    multiply,
    normalize,
    quat,
    rotate,
    unrotate,
)
from quadsim.geometry.vector import add, cross, scale, subtract, vec3
from quadsim.world.earth.gravity import gravity_at
from quadsim.world.environment import EnvironmentParams


@kernel
def gravity_there(now: Kinematics, environment: EnvironmentParams, r_B: Vec3) -> float:
    """Gravity at a point of the body in m/s^2.

    Args:
        now: KINEMATICS record.
        environment: packed EnvironmentParams.
        r_B: the point in base_link, m.
    """
    return gravity_at(environment, now.p_W[2] + rotate(quat(now.q_WB), r_B)[2])


@kernel
def point_sample(now: Kinematics, gravity_mps2: float, r_B: Vec3) -> tuple[Vec3, Vec3]:
    """Specific force and rate at a point of the body, body axes, at one instant (step 2).

    Args:
        now: KINEMATICS record.
        gravity_mps2: gravity, downwards.
        r_B: the point in base_link, m.

    Returns:
        f_B in m/s^2 ((0, 0, +9.81) level and at rest) and w_B in rad/s.
    """
    w_B = vec3(now.w_B)
    a_W = vec3(now.a_W)
    f_B = unrotate(quat(now.q_WB), (a_W[0], a_W[1], a_W[2] + gravity_mps2))
    f_B = add(f_B, add(cross(w_B, cross(w_B, r_B)), cross(vec3(now.w_dot_B), r_B)))
    return f_B, w_B


class Interval(NamedTuple):
    """How a point of the body moves over an interval, from the motion at its ends."""

    rate_hz: float
    q_mid: Quat  # half-way on the shortest turn between the ends
    turn: Vec3  # rotation vector between the ends, rad
    v0_W: Vec3  # velocity of the point at the ends, m/s
    v1_W: Vec3
    f_B: Vec3  # change of velocity less gravity, over the time, seen from q_mid, m/s^2


@kernel
def interval_of(previous: Kinematics, now: Kinematics, gravity_mps2: float, r_B: Vec3) -> Interval:
    """The motion between two truths; see :func:`average_sample` for the arguments."""
    rate_hz = 1e9 / (now.stamp_ns - previous.stamp_ns)
    q0, q1 = quat(previous.q_WB), quat(now.q_WB)
    relative = multiply(conjugate(q0), q1)
    turn = log(relative)
    v0 = add(vec3(previous.v_W), rotate(q0, cross(vec3(previous.w_B), r_B)))
    v1 = add(vec3(now.v_W), rotate(q1, cross(vec3(now.w_B), r_B)))
    a_W = scale(rate_hz, subtract(v1, v0))
    side = -1.0 if relative[0] < 0.0 else 1.0  # q and -q are one attitude
    q_mid = normalize(
        (q0[0] + side * q1[0], q0[1] + side * q1[1], q0[2] + side * q1[2], q0[3] + side * q1[3])
    )
    f_B = unrotate(q_mid, (a_W[0], a_W[1], a_W[2] + gravity_mps2))
    return Interval(rate_hz, q_mid, turn, v0, v1, f_B)


@kernel
def compensated_sample(
    previous: Kinematics, now: Kinematics, gravity_mps2: float, r_B: Vec3
) -> tuple[Vec3, Vec3]:
    """Delta velocity and delta angle over the interval's length, body axes.

    What a device gives that integrates inside at a high rate and corrects for coning and sculling:
    the change of the point's velocity, seen from the attitude half-way, and the rotation vector
    between the ends. An integrator that uses the same attitude gets velocity and attitude at the
    interval's end exactly. See :func:`average_sample` for the arguments.
    """
    motion = interval_of(previous, now, gravity_mps2, r_B)
    return motion.f_B, scale(motion.rate_hz, motion.turn)


@kernel
def average_sample(
    previous: Kinematics, now: Kinematics, gravity_mps2: float, r_B: Vec3
) -> tuple[Vec3, Vec3]:
    """Time average of specific force and rate at a point of the body, in the turning body axes.

    What a MEMS part gives that filters or sums its axes one by one; coning and sculling are in it.
    Between the ends the rate is a parabola with the ends' rates and the turn between them, and the
    point's acceleration in W a line with the ends' velocities and positions. The rotation vector p
    obeys ``p_dot = w + p x w / 2 + ...`` (Bortz, IEEE Trans. AES 7, 1971); to second order
    in the turn

        mean w = turn / dt - dt (w0 x w1 / 12 - (w1 - w0) x c / 10),
        mean f = f + dt/12 (w1 - w0) x f + dt^2/24 w x (w x f) - dt (w/6 + c/30) x d,

    c the mean rate less that of the ends, f as :func:`compensated_sample` has it, and d half of the
    change of the acceleration. A cone of 80 Hz is off by 0.4, 1.7 and 7 % of its drift at 1000, 500
    and 250 Hz; a vehicle moves slower.

    Args:
        previous, now: KINEMATICS records at the interval's ends.
        gravity_mps2: gravity, downwards.
        r_B: the point in base_link, m.
    """
    motion = interval_of(previous, now, gravity_mps2, r_B)
    w0, w1, rate_hz = vec3(previous.w_B), vec3(now.w_B), motion.rate_hz
    dt_s = 1.0 / rate_hz
    change, middle = subtract(w1, w0), scale(0.5, add(w0, w1))
    w_B = subtract(scale(rate_hz, motion.turn), scale(dt_s / 12.0, cross(w0, w1)))
    bend = subtract(w_B, middle)
    w_B = add(w_B, scale(0.1 * dt_s, cross(change, bend)))

    r0_W, r1_W = rotate(quat(previous.q_WB), r_B), rotate(quat(now.q_WB), r_B)
    way = add(subtract(vec3(now.p_W), vec3(previous.p_W)), subtract(r1_W, r0_W))
    short = subtract(scale(0.5 * dt_s, add(motion.v0_W, motion.v1_W)), way)
    half_B = unrotate(motion.q_mid, scale(6.0 * rate_hz * rate_hz, short))
    f_B = motion.f_B
    turning = cross(w_B, cross(w_B, f_B))
    mean_B = add(f_B, scale(dt_s / 12.0, cross(change, f_B)))
    mean_B = add(mean_B, scale(dt_s * dt_s / 24.0, turning))
    sculling = cross(add(scale(1.0 / 6.0, w_B), scale(1.0 / 30.0, bend)), half_B)
    return subtract(mean_B, scale(dt_s, sculling)), w_B
