"""Lidar: planar and 3-D, spinning or all rays at once.

A scan's size depends on the parameters, so a lidar is no :class:`SensorModel` and the closed loop
has none; :class:`SimulatedLidar` is fed with the truth like any other sensor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import cos, each, sin
from quadsim.base.noise import stream
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import dtype_of, pack
from quadsim.base.records import KINEMATICS
from quadsim.sensors.echo import EchoState, start_echo
from quadsim.sensors.faults import (
    BIAS,
    FAULT_LIST,
    FROZEN,
    STUCK,
    FaultParams,
    acts,
    add_fault,
)
from quadsim.sensors.lidar_pattern import LidarParams
from quadsim.sensors.lidar_scan import cast_columns, prepare_scan, read_scan
from quadsim.sensors.mount import set_mount
from quadsim.sensors.timing import due
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene

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
        scene: what rays meet beside the flat ground.
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
        self._elevations, self._azimuths = _sines(params.elevations()), _sines(params.azimuths())
        self._offsets_ns = np.round(1e9 * params.offsets_s()).astype(np.int64)
        shape = (params.channels, params.columns)
        self._distances, self._cosines = np.zeros(shape), np.zeros(shape)
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
                self._params,
                self._states,
                self._scene,
                self._ground_height_m,
                self._previous,
                self._now,
                stamps_ns,
                (self._next_column, stop),
                self._elevations,
                self._azimuths,
                self._distances,
                self._cosines,
            )
            self._next_column = stop
            if stop < self.params.columns:
                return
            self._end_scan()
            self._begin_ns += self.period_ns
            self._next_column = 0

    def _end_scan(self) -> None:
        """Read the echoes, let faults act, lose the scan or put it on its way."""
        begin_ns, count = self._begin_ns, self._distances.size
        white, chances = draw_normals(self._stream, count), self._stream.random(count)
        stamp_ns, lost, late_s = prepare_scan(
            self._params,
            self._faults,
            begin_ns,
            self.period_ns,
            white,
            draw_normals(self._stream, 2),
        )
        ranges = np.empty(self._distances.shape, np.float32)
        intensities = np.empty_like(ranges)
        read_scan(
            self._params,
            self._states,
            self._distances,
            self._cosines,
            white,
            chances,
            ranges,
            intensities,
        )
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
