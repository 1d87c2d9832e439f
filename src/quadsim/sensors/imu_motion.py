"""Steps 1 and 2 of an IMU: the motion of the body, moved to the sensor's place."""

from __future__ import annotations

from typing import Any

from quadsim.compiled import kernel
from quadsim.geometry.rotation import conjugate, log, multiply, normalize, quat, rotate, unrotate
from quadsim.geometry.vector import add, cross, scale, subtract, vec3
from quadsim.parameters import Vec3
from quadsim.world.gravity import gravity_at


@kernel
def gravity_there(now: Any, environment: Any, r_B: Vec3) -> float:
    """Gravity at a point of the body in m/s^2.

    Args:
        now: KINEMATICS record.
        environment: packed EnvironmentParams.
        r_B: the point in base_link, m.
    """
    return gravity_at(environment, now.p_W[2] + rotate(quat(now.q_WB), r_B)[2])


@kernel
def point_sample(now: Any, gravity_mps2: float, r_B: Vec3) -> tuple[Vec3, Vec3]:
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


@kernel
def average_sample(previous: Any, now: Any, gravity_mps2: float, r_B: Vec3) -> tuple[Vec3, Vec3]:
    """Mean specific force and rate at a point of the body over an interval, body axes.

    The change of the point's velocity, seen from the attitude in the middle of the interval, and
    the rotation vector between its ends: an integrator that uses the same mean attitude gets the
    velocity and the attitude at the interval's end exactly.

    Args:
        previous, now: KINEMATICS records at the interval's ends.
        gravity_mps2: gravity, downwards.
        r_B: the point in base_link, m.
    """
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
    return f_B, scale(rate_hz, turn)
