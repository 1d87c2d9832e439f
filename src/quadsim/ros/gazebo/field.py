"""Whether Gazebo's magnetic field is the one that the estimator believes in.

Harmonic and later look it up in coarse tables by the place, in gauss and in north-east-down axes
unless told otherwise; a field that is turned turns the vehicle's heading with it.
"""

from __future__ import annotations

import math

import numpy as np

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, from_euler, multiply, rotate

#: So many samples of the field are needed before it is judged.
ENOUGH = 50
#: Error of the heading that is spoken of; that of Gazebo's tables is 1 to 2 degrees.
LARGE_DEG = 5.0


class FieldCheck:
    """Mean of the field in the world, by the truth's attitude, against the expected one.

    Args:
        expected_W_T: what the estimator believes, east, north, up; zero: not known.
        rotation_deg: roll, pitch, yaw of the sensor's axes in ``base_link``.
    """

    def __init__(self, expected_W_T: Vec3, rotation_deg: Vec3) -> None:
        self._expected_W_T = expected_W_T
        roll, pitch, yaw = map(math.radians, rotation_deg)
        self._q_BS = from_euler(roll, pitch, yaw)
        self._sum_W_T = np.zeros(3)
        self._count = 0

    def take(self, m_S_T: Vec3, q_WB: Quat) -> None:
        """Take a sample, with the attitude that the vehicle had about then."""
        self._sum_W_T += rotate(multiply(q_WB, self._q_BS), m_S_T)
        self._count += 1

    @property
    def field_W_T(self) -> Vec3 | None:
        """Mean field in the world, east, north, up; None before there is enough."""
        if self._count < ENOUGH:
            return None
        east, north, up = self._sum_W_T / self._count
        return float(east), float(north), float(up)

    @property
    def heading_error_deg(self) -> float:
        """Angle by which a heading from this field is wrong, positive to the left; 0: not known."""
        field_W_T = self.field_W_T
        if field_W_T is None or not any(self._expected_W_T[:2]):
            return 0.0
        found = math.atan2(field_W_T[1], field_W_T[0])
        expected = math.atan2(self._expected_W_T[1], self._expected_W_T[0])
        # a field that is turned to the left looks as if the vehicle were turned to the right
        return math.degrees(math.remainder(expected - found, math.tau))

    @property
    def words(self) -> str:
        """What is wrong and what to do; empty: nothing."""
        error_deg, field_W_T = self.heading_error_deg, self.field_W_T
        if field_W_T is None or abs(error_deg) < LARGE_DEG:
            return ""
        numbers = ", ".join(f"{value:.3g}" for value in field_W_T)
        return (
            f"Gazebo's magnetic field is [{numbers}] T, which turns the heading by"
            f" {error_deg:.0f} degrees: <use_earth_frame_ned>false</use_earth_frame_ned> in its"
            " Magnetometer plugin, or this field as magnetic_field_W_T of the estimator"
        )
