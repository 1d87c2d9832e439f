"""Conversions between ROS axes (ENU world, FLU body) and aerospace axes (NED, FRD)."""

from __future__ import annotations

from quadsim.geometry.rotation import Quat

_HALF_SQRT2 = 0.7071067811865476
#: Turns NED axes into ENU axes (its own inverse up to sign).
Q_ENU_NED: Quat = (0.0, _HALF_SQRT2, _HALF_SQRT2, 0.0)
#: Turns FRD axes into FLU axes.
Q_FLU_FRD: Quat = (0.0, 1.0, 0.0, 0.0)
