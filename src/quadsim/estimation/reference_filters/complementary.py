"""Attitude from gyroscope and accelerometer by a complementary filter, as FCND's.

The angles integrated from the rates, pulled towards those of the
accelerometer with the weight dt / (tau + dt). The rates are integrated as a quaternion, which is
the Euler-rate matrix' integral without its pole at 90 degrees of pitch.
"""

from __future__ import annotations

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, exp, multiply, normalize, to_euler, wrap
from quadsim.geometry.vector import scale


@kernel
def integrate_angles(
    q_WB: Quat, f_B: Vec3, w_B: Vec3, dt_s: float, tau_s: float, gravity_mps2: float
) -> Vec3:
    """Roll, pitch and yaw after one IMU sample.

    The accelerometer's angles are those of a vehicle that does not accelerate:
    roll = atan2(f_y, f_z), pitch = atan2(-f_x, g).

    Args:
        q_WB: attitude before.
        f_B: (3,) specific force, m/s^2.
        w_B: (3,) angular velocity, rad/s.
        dt_s: length of the sample's interval.
        tau_s: time constant of the accelerometer's pull.
        gravity_mps2: g.

    Returns:
        rad; yaw has no accelerometer in it.
    """
    roll, pitch, yaw = to_euler(normalize(multiply(q_WB, exp(scale(dt_s, w_B)))))
    weight = dt_s / (tau_s + dt_s)
    roll += weight * wrap(atan2(f_B[1], f_B[2]) - roll)
    pitch += weight * (atan2(-f_B[0], gravity_mps2) - pitch)
    return (wrap(roll), pitch, yaw)


@kernel
def magnetic_yaw(m_B: Vec3, roll: float, pitch: float, reference_W: Vec3) -> tuple[float, bool]:
    """Yaw from the magnetic field, levelled by roll and pitch.

    Args:
        m_B: (3,) field, T.
        roll: rad.
        pitch: rad.
        reference_W: (3,) field in the world, T.

    Returns:
        Yaw in rad, and whether there is one: not where the field stands nearly upright.
    """
    level_x, level_y, level_z = rotate_level(m_B, roll, pitch)
    horizontal2 = level_x * level_x + level_y * level_y
    known = horizontal2 >= 0.01 * (horizontal2 + level_z * level_z) and horizontal2 > 0.0
    north = atan2(reference_W[1], reference_W[0])
    return wrap(north - atan2(level_y, level_x)), known


@kernel
def rotate_level(a_B: Vec3, roll: float, pitch: float) -> Vec3:
    """A vector in the level frame of the vehicle's own heading: Ry(pitch) Rx(roll) a."""
    cr, sr = cos(roll), sin(roll)
    cp, sp = cos(pitch), sin(pitch)
    y, across = cr * a_B[1] - sr * a_B[2], sr * a_B[1] + cr * a_B[2]
    return (cp * a_B[0] + sp * across, y, cp * across - sp * a_B[0])
