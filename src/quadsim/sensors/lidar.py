"""Lidar: planar and 3-D, spinning or all rays at once.

A scan's size depends on the parameters, so a lidar is no :class:`SensorModel` and the closed loop
has none; :class:`SimulatedLidar` is fed with the truth like any other sensor.

Parameters of a lidar, and the pattern of its rays.

A lidar's rays: where they start while the vehicle moves, and what is read off their echoes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Records, kernel
from quadsim.base.elementary import cos, each, sin
from quadsim.base.errors import InputError
from quadsim.base.noise import stream
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Spec, Vec3, dtype_of, pack
from quadsim.base.records import KINEMATICS, Kinematics
from quadsim.geometry.rotation import Quat, conjugate, exp, log, multiply, quat, rotate, to_matrix
from quadsim.geometry.vector import add, scale, vec3
from quadsim.sensors.error_terms import (
    Delay,
    Position,
    Rate,
    Rotation,
    due,
    is_lost,
    set_mount,
    stamp_of_sample,
)
from quadsim.sensors.faults import (
    BIAS,
    FAULT_LIST,
    FROZEN,
    STUCK,
    FaultList,
    FaultParams,
    acts,
    add_fault,
    amplify,
    fault_delay_s,
    loss_probability,
)
from quadsim.sensors.rangefinder import EchoParams, EchoState, is_missed, read_echo, start_echo
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene, cast_ray


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
def pose_between(previous: Kinematics, now: Kinematics, stamp_ns: int) -> tuple[Vec3, Quat]:
    """Position and attitude at a time between two KINEMATICS records.

    Constant velocity and constant angular velocity: wrong by at most dt^2 / 8 times the
    acceleration.
    """
    part = (stamp_ns - previous.stamp_ns) / (now.stamp_ns - previous.stamp_ns)
    p_W = add(scale(1.0 - part, vec3(previous.p_W)), scale(part, vec3(now.p_W)))
    q_WB = quat(previous.q_WB)
    turn = log(multiply(conjugate(q_WB), quat(now.q_WB)))
    return p_W, multiply(q_WB, exp(scale(part, turn)))


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


@kernel
def prepare_scan(
    lidars: Records[LidarParams],
    faults: Records[FaultList],
    begin_ns: int,
    period_ns: int,
    white: NDArray[np.float64],
    timing_white: NDArray[np.float64],
) -> tuple[int, bool, float]:
    """What timing and faults make of a scan: noise is made louder in place.

    Args:
        lidars: (1,) parameters.
        faults: (1,) FAULT_LIST.
        begin_ns: when its first ray was cast.
        period_ns: of the scans.
        white: standard normal numbers of its noise.
        timing_white: (2,) standard normal, of stamp and loss.

    Returns:
        Its stamp, whether it is lost, and its latency in s.
    """
    lidar = lidars[0]
    amplify(faults[0], begin_ns, white, white.size)
    probability = loss_probability(faults[0], begin_ns, lidar.loss_probability)
    return (
        stamp_of_sample(lidar.stamp_jitter_s, begin_ns, period_ns, timing_white[0]),
        is_lost(probability, timing_white[1]),
        lidar.latency_s + fault_delay_s(faults[0], begin_ns),
    )


KIND = "lidar"
NEEDS = frozenset({"scene"})

#: Between two truths that a lidar reads; in between the vehicle's motion is taken as uniform. At
#: 20 m/s^2 and 20 rad/s^2 that is wrong by 0.1 mm and 0.1 mrad.
POSE_PERIOD_NS = 5_000_000

#: Scans that can be on their way at once; a delay is refused beyond it.
MAX_SCANS = 64

#: Parts of a scan that faults can act on: all ranges alike.
CHANNELS = {"": (0, 1)}


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


def fault_list(params: LidarParams, faults: Sequence[FaultParams]) -> NDArray[np.record]:
    """Faults as the (1,) FAULT_LIST that acts.

    Raises:
        InputError: a fault that does not fit a lidar, by its place in the list.
    """
    records: NDArray[np.record] = np.zeros(1, FAULT_LIST)
    longest_s = max(0.0, (MAX_SCANS - 1) / params.rate_hz - params.latency_s)
    for k, fault in enumerate(faults):
        add_fault(records[0], fault, KIND, CHANNELS, longest_s, f"faults[{k}]: ")
    return records


class SimulatedLidar:
    """One lidar on one vehicle, fed with the truth as it comes.

    Scans begin at multiples of the period. The rays of each column start from where the lidar is
    at the column's own time, between the truths before and after it.

    Args:
        params: its parameters.
        environment: the world it measures.
        seed: the scenario's.
        vehicle: the vehicle's name.
        scene: what rays meet besides the flat ground.
        faults: what goes wrong, and when.

    Raises:
        InputError: a fault does not fit the lidar.
    """

    def __init__(
        self,
        params: LidarParams,
        environment: EnvironmentParams,
        seed: int,
        vehicle: str,
        scene: Scene = EMPTY_SCENE,
        faults: Sequence[FaultParams] = (),
    ) -> None:
        self.params = params
        self.period_ns = round(1e9 / params.rate_hz)
        self.gaps = 0
        self.refused = 0
        self._ground_height_m = environment.ground_height_m
        self._scene = scene
        self._seed, self._vehicle = seed, vehicle
        self._params: NDArray[np.record] = np.zeros(1, pack(params).dtype)
        self._params[0] = pack(params)
        self._offsets_ns = np.round(1e9 * params.offsets_s()).astype(np.int64)
        shape = (params.channels, params.columns)
        elevations, azimuths = _sines(params.elevations()), _sines(params.azimuths())
        self._rays = Rays(elevations, azimuths, np.zeros(shape), np.zeros(shape))
        self._previous: NDArray[np.record] = np.zeros(1, KINEMATICS)
        self._now: NDArray[np.record] = np.zeros(1, KINEMATICS)
        self._held: dict[int, tuple[Any, Any]] = {}  # frozen: fault to what repeats
        self.set_faults(faults)
        self.reset()

    def reset(self) -> None:
        """Switch the device off and on again, at the start of its stream."""
        self._stream = stream(self._seed, self._vehicle, KIND)
        self._states: NDArray[np.record] = np.zeros(1, dtype_of(EchoState))
        set_mount(self._states[0], self.params.rotation_deg)
        start_echo(self._states[0], self.params, self._stream)
        self._newest_ns = -1
        self._begin_ns = 0
        self._next_column = 0
        self._on_the_way: deque[tuple[int, Scan]] = deque()
        self._held = {}

    def set_faults(self, faults: Sequence[FaultParams]) -> None:
        """Let these faults act instead of those that were set.

        Raises:
            InputError: a fault does not fit the lidar; then all stays as it was.
        """
        self._faults = fault_list(self.params, faults)
        self.faults = tuple(faults)
        self._held = {}

    def see(self, scene: Scene) -> None:
        """Cast rays into this scene from now on: something in it has moved."""
        self._scene = scene

    def wants(self, stamp_ns: int) -> bool:
        """Whether :meth:`measure` needs the truth of this stamp."""
        newest_ns = self._newest_ns
        return (
            newest_ns < 0
            or due(POSE_PERIOD_NS, newest_ns, stamp_ns)
            or stamp_ns >= self._begin_ns + self._offsets_ns[-1]
        )

    def measure(self, truth: np.record) -> Scan | None:
        """Take one truth; give a scan when one is published at its stamp.

        A stamp that repeats or jumps back is refused. A scan in which the truth is missing for a
        period or longer is counted in ``gaps`` and given up.

        Args:
            truth: KINEMATICS record.

        Returns:
            A scan, or None. Where latency ends for several at once, :meth:`published` gives the
            others.
        """
        stamp_ns = int(truth.stamp_ns)
        if self._newest_ns >= 0 and stamp_ns <= self._newest_ns:
            self.refused += 1
            return None
        if self.wants(stamp_ns):
            self._now[0] = truth
            if self._newest_ns < 0 or stamp_ns - self._newest_ns > self.period_ns:
                self.gaps += self._newest_ns >= 0
                self._begin_ns = (stamp_ns // self.period_ns + 1) * self.period_ns
                self._next_column = 0
            self._turn_to(stamp_ns)
            self._previous[:] = self._now
            self._newest_ns = stamp_ns
        return self.published(stamp_ns)

    def published(self, stamp_ns: int) -> Scan | None:
        """Give the next scan that is published by this time, in order, or None."""
        if self._on_the_way and self._on_the_way[0][0] <= stamp_ns:
            return self._on_the_way.popleft()[1]
        return None

    def _turn_to(self, now_ns: int) -> None:
        """Cast every column that is due by now, and end the scans that are complete."""
        while self._begin_ns <= now_ns:
            stamps_ns = self._begin_ns + self._offsets_ns
            stop = int(np.searchsorted(stamps_ns, now_ns, side="right"))
            cast_columns(
                self._params, self._states, self._scene, self._ground_height_m, self._previous,
                self._now, stamps_ns, (self._next_column, stop), self._rays,
            )  # fmt: skip
            self._next_column = stop
            if stop < self.params.columns:
                return
            self._end_scan()
            self._begin_ns += self.period_ns
            self._next_column = 0

    def _end_scan(self) -> None:
        """Read the echoes, let faults act, lose the scan or put it on its way."""
        begin_ns, count = self._begin_ns, self._rays.distances.size
        white, chances = draw_normals(self._stream, count), self._stream.random(count)
        timing = draw_normals(self._stream, 2)
        stamp_ns, lost, late_s = prepare_scan(
            self._params, self._faults, begin_ns, self.period_ns, white, timing
        )
        ranges = np.empty(self._rays.distances.shape, np.float32)
        intensities = np.empty_like(ranges)
        read_scan(self._params, self._states, self._rays, white, chances, ranges, intensities)
        self._disturb(ranges, intensities, begin_ns)
        if lost:
            return
        arrival_ns = begin_ns + int(self._offsets_ns[-1]) + round(late_s * 1e9)
        self._on_the_way.append((arrival_ns, Scan(stamp_ns, ranges, intensities)))

    def _disturb(self, ranges: Any, intensities: Any, now_ns: int) -> None:
        """Change a scan as the faults that act on it do."""
        for k in range(len(self.faults)):
            fault = self._faults["items"][0, k]
            if not acts(fault, now_ns):
                continue
            if fault.kind == STUCK:
                ranges[:] = fault.value[0]
            elif fault.kind == BIAS:
                ranges += np.float32(fault.value[0])
            elif fault.kind == FROZEN:
                held = self._held.setdefault(k, (ranges.copy(), intensities.copy()))
                ranges[:], intensities[:] = held
