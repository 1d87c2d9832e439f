"""Geodesy on the WGS 84 ellipsoid, by pymap3d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pymap3d
from numpy.typing import ArrayLike, NDArray

from quadsim.base.parameters import Spec


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
        return np.array(
            pymap3d.geodetic2enu(
                latitude_deg,
                longitude_deg,
                height_m,
                self.latitude_deg,
                self.longitude_deg,
                self.height_m,
            ),
            dtype=float,
        )

    def to_geodetic(self, p_W: ArrayLike) -> tuple[float, float, float]:
        """Latitude and longitude in degrees and ellipsoid height in m of a position p_W (3,)."""
        east, north, up = np.asarray(p_W, dtype=float)
        latitude_deg, longitude_deg, height_m = pymap3d.enu2geodetic(
            east, north, up, self.latitude_deg, self.longitude_deg, self.height_m
        )
        return float(latitude_deg), float(longitude_deg), float(height_m)
