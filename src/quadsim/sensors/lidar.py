"""Lidar: planar and 3-D, spinning or all rays at once.

Parameters of a lidar, and the pattern of its rays.

A lidar's rays: where they start while the vehicle moves, and what is read off their echoes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Records, kernel
from quadsim.base.elementary import cos, each, sin
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import multiply, quat, rotate, to_matrix
from quadsim.geometry.vector import add, scale, vec3
from quadsim.sensors.error_terms import (
    Delay,
    Position,
    Rate,
    Rotation,
)
from quadsim.sensors.rangefinder import EchoParams, EchoState, is_missed, read_echo
from quadsim.sensors.scanner import Scanner, pose_between
from quadsim.world.scene.scene import Scene, cast_ray


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
    position_B_m: Position = (0.0, 0.0, 0.0)
    rotation_deg: Rotation = (0.0, 0.0, 0.0)
    channels: Annotated[int, Spec("rays above each other", ge=1, le=256)] = 1
    elevation_min_deg: Annotated[
        float, Spec("lowest channel above the x-y plane", "deg", ge=-90.0, le=90.0)
    ] = 0.0
    elevation_max_deg: Annotated[float, Spec("highest channel", "deg", ge=-90.0, le=90.0)] = 0.0
    columns: Annotated[int, Spec("rays of a channel", ge=1, le=8192)] = 360
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
        return np.stack([cos_up * cos_round, cos_up * sin_round, sin_up], axis=2)


#: A white diffuse surface, hit along its normal, has this intensity.
WHITE_INTENSITY = 100.0


class Rays(NamedTuple):
    """A lidar's rays.

    Attributes:
        elevations: (channels, 2) cosine and sine.
        azimuths: (columns, 2) cosine and sine.
        distances: (channels, columns) m; inf for nothing in range.
        cosines: (channels, columns) of the incidence.
    """

    elevations: NDArray[np.float64]
    azimuths: NDArray[np.float64]
    distances: NDArray[np.float64]
    cosines: NDArray[np.float64]


@kernel
def cast_columns(
    lidars: Records[LidarParams],
    states: Records[EchoState],
    scene: Scene,
    ground_height_m: float,
    previous: Records[Kinematics],
    now: Records[Kinematics],
    stamps_ns: NDArray[np.int64],
    columns: tuple[int, int],
    rays: Rays,
) -> None:
    """Cast the rays of some columns, each from where the lidar is at the column's time.

    Args:
        lidars: (1,) parameters.
        states: (1,) LIDAR_STATE.
        scene: what is there.
        ground_height_m: of the flat ground.
        previous, now: (1,) KINEMATICS between which the columns' times lie.
        stamps_ns: (columns,) time of each column.
        columns: first, and behind the last.
        rays: their distances and cosines are filled.
    """
    lidar, state = lidars[0], states[0]
    elevations, azimuths, distances, cosines = rays
    position_B, q_BS = vec3(lidar.position_B_m), quat(state.q_BS)
    for column in range(columns[0], columns[1]):
        p_W, q_WB = pose_between(previous[0], now[0], stamps_ns[column])
        origin_W = add(p_W, rotate(q_WB, position_B))
        x, y, z = to_matrix(multiply(q_WB, q_BS))
        east, north = azimuths[column, 0], azimuths[column, 1]
        level_W = (
            x[0] * east + x[1] * north,
            y[0] * east + y[1] * north,
            z[0] * east + z[1] * north,
        )
        up_W = (x[2], y[2], z[2])
        for channel in range(elevations.shape[0]):
            ray_W = add(scale(elevations[channel, 0], level_W), scale(elevations[channel, 1], up_W))
            distances[channel, column], cosines[channel, column] = cast_ray(
                scene, ground_height_m, origin_W, ray_W, lidar.range_max_m
            )


@kernel
def read_scan(
    lidars: Records[LidarParams],
    states: Records[EchoState],
    rays: Rays,
    white: NDArray[np.float64],
    chances: NDArray[np.float64],
    ranges: NDArray[np.float32],
    intensities: NDArray[np.float32],
) -> None:
    """What a lidar reads off its echoes.

    Args:
        lidars: (1,) parameters.
        states: (1,) LIDAR_STATE.
        rays: as :func:`cast_columns` left them.
        white: (channels * columns,) standard normal.
        chances: (channels * columns,) uniform in [0, 1).
        ranges: (channels, columns) is filled: m, and +-inf by REP-117.
        intensities: (channels, columns) is filled: 100 times the reflectivity times the cosine of
            the incidence (Lambert), as a device gives it that makes up for the distance; 0 without
            an echo, and everywhere where it is switched off.
    """
    lidar, state, distances, cosines = lidars[0], states[0], rays.distances, rays.cosines
    for channel in range(distances.shape[0]):
        for column in range(distances.shape[1]):
            ray = channel * distances.shape[1] + column
            distance, cosine = distances[channel, column], cosines[channel, column]
            if distance < math.inf and (
                cosine < state.cos_incidence_max or is_missed(lidar, state, cosine, chances[ray])
            ):
                distance = math.inf
            reading = read_echo(lidar, state, distance, white[ray])
            ranges[channel, column] = reading
            intensities[channel, column] = 0.0
            if lidar.intensity != 0 and not math.isinf(reading):
                intensities[channel, column] = WHITE_INTENSITY * lidar.reflectivity * cosine


KIND = "lidar"


@dataclass(frozen=True)
class Scan:
    """What one turn of a lidar gives.

    Attributes:
        stamp_ns: time of its first ray.
        ranges: (channels, columns) m; -inf too near, +inf too far or no echo; never NaN.
        intensities: (channels, columns); 100 is a white diffuse surface hit along its normal.
    """

    stamp_ns: int
    ranges: NDArray[np.float32]
    intensities: NDArray[np.float32]


def _sines(angle_rad: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine and sine side by side, (count, 2)."""
    return np.stack([each(cos, angle_rad), each(sin, angle_rad)], axis=1)


class SimulatedLidar(Scanner):
    """One lidar on one vehicle; arguments as of :class:`Scanner`. Its lines are columns."""

    KIND, params_type, sample_type = KIND, LidarParams, Scan

    def __init__(self, params: LidarParams, *args: Any, **kwargs: Any) -> None:
        shape = (params.channels, params.columns)
        elevations, azimuths = _sines(params.elevations()), _sines(params.azimuths())
        self._rays = Rays(elevations, azimuths, np.zeros(shape), np.zeros(shape))
        count = params.channels * params.columns
        super().__init__(params, params.offsets_s(), (count, count), *args, **kwargs)

    def cast(self, stamps_ns: NDArray[np.int64], lines: tuple[int, int]) -> None:
        """Cast the rays of some columns."""
        cast_columns(
            self._params, self._states, self._scene, self._ground_height_m, self._previous,
            self._now, stamps_ns, lines, self._rays,
        )  # fmt: skip

    def read(
        self, white: NDArray[np.float64], chances: NDArray[np.float64]
    ) -> tuple[NDArray[Any], ...]:
        """Ranges and intensities."""
        ranges = np.empty(self._rays.distances.shape, np.float32)
        intensities = np.empty_like(ranges)
        read_scan(self._params, self._states, self._rays, white, chances, ranges, intensities)
        return ranges, intensities


SCANNER = SimulatedLidar
