"""Parameters of a lidar, and the pattern of its rays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import cos, each, sin
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.sensors.echo import EchoParams
from quadsim.sensors.error_terms import Delay, Rate
from quadsim.sensors.mount import Position, Rotation
from quadsim.sensors.timing import LossProbability, StampJitter


def _angles(count: int, first_deg: float, last_deg: float) -> NDArray[np.float64]:
    """Evenly spaced angles, both ends included, (count,) rad."""
    return np.asarray(np.radians(np.linspace(first_deg, last_deg, count)))


@dataclass(frozen=True)
class LidarParams(EchoParams):
    """One lidar; x is ahead, z up, azimuths turn from x to y."""

    range_max_m: Annotated[float, Spec("beyond it the reading is +inf", "m", gt=0.0)] = 30.0
    rate_hz: Annotated[float, Rate("scans a second", "Hz", ge=0.1, le=100.0)] = 10.0
    latency_s: Annotated[
        float, Delay("from a scan's last ray to its publication", "s", ge=0.0, le=0.5)
    ] = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
    position_B_m: Position = (0.0, 0.0, 0.0)
    rotation_deg: Rotation = (0.0, 0.0, 0.0)
    channels: Annotated[int, Spec("rays above each other", ge=1, le=256)] = 1
    elevation_min_deg: Annotated[
        float, Spec("lowest channel above the x-y plane", "deg", ge=-90.0, le=90.0)
    ] = 0.0
    elevation_max_deg: Annotated[float, Spec("highest channel", "deg", ge=-90.0, le=90.0)] = 0.0
    columns: Annotated[int, Spec("rays beside each other", ge=1, le=8192)] = 360
    azimuth_min_deg: Annotated[float, Spec("first column", "deg", ge=-360.0, le=360.0)] = -180.0
    azimuth_max_deg: Annotated[float, Spec("last column", "deg", ge=-360.0, le=360.0)] = 179.0
    spinning: Annotated[
        bool, Spec("columns one after the other, a turn in a scan's time; else all at once")
    ] = False
    intensity: Annotated[bool, Spec("whether echoes have an intensity")] = False
    reflectivity: Annotated[float, Spec("of every surface, diffuse", ge=0.0, le=1.0)] = 0.5

    def __post_init__(self) -> None:
        """Refuse patterns that are none.

        Raises:
            InputError: no range, or angles that do not fit the numbers of channels and columns.
        """
        EchoParams.__post_init__(self)
        if self.channels == 1 and (self.elevation_min_deg, self.elevation_max_deg) != (0.0, 0.0):
            raise InputError(
                "elevation_min_deg, elevation_max_deg: a lidar of 1 channel scans its x-y plane;"
                " allowed: 0 (rotation_deg tilts it)"
            )
        if self.channels > 1 and self.elevation_min_deg >= self.elevation_max_deg:
            raise InputError(
                f"elevation_min_deg: {self.elevation_min_deg!r} is not below elevation_max_deg"
                f" {self.elevation_max_deg!r}"
            )
        span_deg = self.azimuth_max_deg - self.azimuth_min_deg
        if self.columns == 1 and span_deg != 0.0:
            raise InputError("azimuth_max_deg: 1 column; allowed: azimuth_min_deg")
        if self.columns > 1 and not 0.0 < span_deg <= 360.0:
            raise InputError(
                f"azimuth_max_deg: {self.azimuth_max_deg!r}; allowed: above azimuth_min_deg"
                f" {self.azimuth_min_deg!r} by at most 360"
            )

    def elevations(self) -> NDArray[np.float64]:
        """Elevation of each channel, (channels,) rad, lowest first."""
        return _angles(self.channels, self.elevation_min_deg, self.elevation_max_deg)

    def azimuths(self) -> NDArray[np.float64]:
        """Azimuth of each column, (columns,) rad."""
        return _angles(self.columns, self.azimuth_min_deg, self.azimuth_max_deg)

    def offsets_s(self) -> NDArray[np.float64]:
        """Time of each column after the first, (columns,) s: 360 degrees take 1 / rate_hz."""
        if not self.spinning:
            return np.zeros(self.columns)
        azimuth_rad = self.azimuths()
        return np.asarray((azimuth_rad - azimuth_rad[0]) / (2.0 * np.pi * self.rate_hz))

    def directions(self) -> NDArray[np.float64]:
        """Unit vectors of all rays in the lidar's axes, (channels, columns, 3)."""
        up, around = self.elevations(), self.azimuths()
        rows = [
            each(cos, up)[:, None],
            each(sin, up)[:, None],
            each(cos, around),
            each(sin, around),
        ]
        cos_up, sin_up, cos_round, sin_round = np.broadcast_arrays(*rows)
        return np.stack(
            [
                cos_up * cos_round,
                cos_up * sin_round,
                sin_up,
            ],
            axis=2,
        )
