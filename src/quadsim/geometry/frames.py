"""Conversions between ROS axes (ENU world, FLU body) and aerospace axes (NED, FRD)."""

from __future__ import annotations

from quadsim.base.compiled import kernel
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, multiply

_HALF_SQRT2 = 0.7071067811865476
#: Turns NED axes into ENU axes (its own inverse up to sign).
Q_ENU_NED: Quat = (0.0, _HALF_SQRT2, _HALF_SQRT2, 0.0)
#: Turns FRD axes into FLU axes.
Q_FLU_FRD: Quat = (0.0, 1.0, 0.0, 0.0)


@kernel
def swap_world(v: Vec3) -> Vec3:
    """ENU to NED, or NED to ENU."""
    return (v[1], v[0], -v[2])


@kernel
def swap_body(v: Vec3) -> Vec3:
    """FLU to FRD, or FRD to FLU."""
    return (v[0], -v[1], -v[2])


@kernel
def attitude_from_ned(q_ned_frd: Quat) -> Quat:
    """q_WB (ENU, FLU) of an attitude given as FRD in NED."""
    return multiply(multiply(Q_ENU_NED, q_ned_frd), Q_FLU_FRD)
