"""Geodesy on the WGS 84 ellipsoid."""

from __future__ import annotations

from dataclasses import dataclass
from math import atan2, cos, degrees, hypot, radians, sin, sqrt
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.parameters import Spec
from quadsim.geometry.linear import applied

#: Semi-axes of WGS 84 (NIMA TR8350.2) and its first and second eccentricity, squared.
SEMIMAJOR_M = 6378137.0
FLATTENING = 1.0 / 298.257223563
SEMIMINOR_M = SEMIMAJOR_M * (1.0 - FLATTENING)
E2 = FLATTENING * (2.0 - FLATTENING)
SECOND_E2 = E2 / (1.0 - E2)


def meridian_radius_m(latitude_deg: float) -> float:
    """Radius of curvature of the ellipsoid towards the north."""
    reduced = _reduced(radians(latitude_deg))
    return SEMIMAJOR_M * (1.0 - E2) / (reduced * sqrt(reduced))


def transverse_radius_m(latitude_deg: float) -> float:
    """Radius of curvature of the ellipsoid towards the east."""
    return SEMIMAJOR_M / sqrt(_reduced(radians(latitude_deg)))


def _reduced(latitude: float) -> float:
    """What both radii are divided by the root of."""
    sine = sin(latitude)
    return 1.0 - E2 * sine * sine


@dataclass(frozen=True)
class Datum:
    """Origin of ``map``: the point where p_W is zero, its axes east, north and up."""

    latitude_deg: Annotated[float, Spec("geodetic latitude", "deg", ge=-90.0, le=90.0)] = 47.397742
    longitude_deg: Annotated[float, Spec("longitude", "deg", ge=-180.0, le=180.0)] = 8.545594
    height_m: Annotated[float, Spec("height above the ellipsoid", "m", ge=-1000.0, le=20000.0)] = (
        488.0
    )

    def to_enu(
        self, latitude_deg: float, longitude_deg: float, height_m: float
    ) -> NDArray[np.float64]:
        """Position p_W of a geodetic point.

        Returns:
            (3,) metres, ENU about this datum.
        """
        off = _earth_fixed(latitude_deg, longitude_deg, height_m) - self._origin()
        return applied(self._axes(), off)

    def to_geodetic(self, p_W: ArrayLike) -> tuple[float, float, float]:
        """Latitude and longitude in degrees and ellipsoid height in m of a position p_W (3,)."""
        x, y, z = (self._origin() + applied(self._axes().T, np.asarray(p_W, dtype=float))).tolist()
        off_axis = hypot(x, y)
        # Bowring, Survey Review 23 (1976), twice: to rounding within 100 km of the ellipsoid
        parametric = atan2(z * SEMIMAJOR_M, off_axis * SEMIMINOR_M)
        for _ in range(2):
            sine, cosine = sin(parametric), cos(parametric)
            latitude = atan2(
                z + SECOND_E2 * SEMIMINOR_M * sine * sine * sine,
                off_axis - E2 * SEMIMAJOR_M * cosine * cosine * cosine,
            )
            parametric = atan2(SEMIMINOR_M * sin(latitude), SEMIMAJOR_M * cos(latitude))
        height_m = (
            off_axis * cos(latitude) + z * sin(latitude) - SEMIMAJOR_M * sqrt(_reduced(latitude))
        )
        return degrees(latitude), degrees(atan2(y, x)), height_m

    def _origin(self) -> NDArray[np.float64]:
        return _earth_fixed(self.latitude_deg, self.longitude_deg, self.height_m)

    def _axes(self) -> NDArray[np.float64]:
        """East, north and up as rows (3, 3), in the earth-fixed frame."""
        s, c = sin(radians(self.latitude_deg)), cos(radians(self.latitude_deg))
        s_east, c_east = sin(radians(self.longitude_deg)), cos(radians(self.longitude_deg))
        return np.array(
            [
                [-s_east, c_east, 0.0],
                [-s * c_east, -s * s_east, c],
                [c * c_east, c * s_east, s],
            ]
        )


def _earth_fixed(latitude_deg: float, longitude_deg: float, height_m: float) -> NDArray[np.float64]:
    """Earth-centred, earth-fixed position (3,) of a geodetic point, m."""
    radius_m = transverse_radius_m(latitude_deg)
    latitude, longitude = radians(latitude_deg), radians(longitude_deg)
    off_axis = (radius_m + height_m) * cos(latitude)
    return np.array(
        [
            off_axis * cos(longitude),
            off_axis * sin(longitude),
            (radius_m * (1.0 - E2) + height_m) * sin(latitude),
        ]
    )
