"""Gravity by latitude and height: the normal gravity of the ellipsoid WGS 84.

NIMA TR8350.2, *Department of Defense World Geodetic System 1984*, 3rd edition (2000), chapter 4:
Somigliana's closed formula on the ellipsoid (eq. 4-1), a series in the height above it (eq. 4-3).
Normal gravity leaves out what the masses in the ground do (anomalies: 0.001 m/s^2 at most in most
places) and stands along the vertical to 1e-6 of itself.
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.base.compiled import inline
from quadsim.base.elementary import sin
from quadsim.geometry.geodesy import Datum

SEMI_MAJOR_AXIS_M = 6378137.0
FLATTENING = 1.0 / 298.257223563
FIRST_ECCENTRICITY_SQUARED = 6.69437999014e-3
EQUATOR_MPS2 = 9.7803253359
#: Somigliana's constant k.
FORMULA_CONSTANT = 1.931852652410e-3
#: m = w^2 a^2 b / GM, centrifugal over gravitational acceleration at the equator.
CENTRIFUGAL_RATIO = 3.449786506840e-3


def normal_gravity(latitude_deg: float, height_m: float) -> tuple[float, float]:
    """Magnitude of normal gravity, and how much it loses with each metre of height.

    Args:
        latitude_deg: geodetic latitude.
        height_m: above the ellipsoid.

    Returns:
        Gravity in m/s^2 and its gradient -dg/dh in 1/s^2 (3.09e-6 at the ellipsoid).
    """
    sine = sin(math.radians(latitude_deg))
    sin2 = sine * sine
    surface = EQUATOR_MPS2 * (1.0 + FORMULA_CONSTANT * sin2)
    surface /= math.sqrt(1.0 - FIRST_ECCENTRICITY_SQUARED * sin2)
    linear = 2.0 / SEMI_MAJOR_AXIS_M
    linear *= 1.0 + FLATTENING + CENTRIFUGAL_RATIO - 2.0 * FLATTENING * sin2
    square = 3.0 / (SEMI_MAJOR_AXIS_M * SEMI_MAJOR_AXIS_M)
    gravity = surface * (1.0 - linear * height_m + square * height_m * height_m)
    return gravity, surface * (linear - 2.0 * square * height_m)


def datum_gravity(datum: Datum) -> tuple[float, float]:
    """Gravity in m/s^2 and its gradient in 1/s^2 at the origin of ``map``."""
    return normal_gravity(datum.latitude_deg, datum.height_m)


@inline
def gravity_at(environment: Any, z_m: float) -> float:
    """Gravity at a height, downwards, in m/s^2.

    Linear in the height: 7e-7 m/s^2 off the series 1 km from the datum's height.

    Args:
        environment: a record that holds ``gravity_mps2`` at z = 0 and ``gravity_gradient_per_s2``:
            packed EnvironmentParams, or what an estimator is told of them.
        z_m: height in ``map``.
    """
    return float(environment.gravity_mps2 - environment.gravity_gradient_per_s2 * z_m)
