"""What scans its surroundings line by line, such as a lidar or a depth camera.

The size of a scan depends on the parameters, so a scanner is no ``SensorModel`` and the closed loop
has none; :class:`Scanner` is fed with the truth like any other sensor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Records, kernel
from quadsim.base.noise import stream
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Vec3, dtype_of, pack
from quadsim.base.records import KINEMATICS, Kinematics
from quadsim.geometry.rotation import Quat, conjugate, exp, log, multiply, quat
from quadsim.geometry.vector import add, scale, vec3
from quadsim.sensors.error_terms import due, is_lost, set_mount, stamp_of_sample
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
from quadsim.sensors.rangefinder import EchoState, start_echo
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene

NEEDS = frozenset({"scene"})

#: Between two truths that a scanner reads; in between the vehicle's motion is taken as uniform. At
#: 20 m/s^2 and 20 rad/s^2 that is wrong by 0.1 mm and 0.1 mrad.
POSE_PERIOD_NS = 5_000_000

#: Scans that can be on their way at once; a delay is refused beyond it.
MAX_SCANS = 64

#: Parts of a scan that faults can act on: all ranges alike.
CHANNELS = {"": (0, 1)}


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
def prepare_scan(
    scanners: Records[Any],
    faults: Records[FaultList],
    begin_ns: int,
    period_ns: int,
    white: NDArray[np.float64],
    timing_white: NDArray[np.float64],
) -> tuple[int, bool, float]:
    """What timing and faults make of a scan: noise is made louder in place.

    Args:
        scanners: (1,) parameters.
        faults: (1,) FAULT_LIST.
        begin_ns: when its first ray was cast.
        period_ns: of the scans.
        white: standard normal numbers of its noise.
        timing_white: (2,) standard normal, of stamp and loss.

    Returns:
        Its stamp, whether it is lost, and its latency in s.
    """
    scanner = scanners[0]
    amplify(faults[0], begin_ns, white, white.size)
    probability = loss_probability(faults[0], begin_ns, scanner.loss_probability)
    return (
        stamp_of_sample(scanner.stamp_jitter_s, begin_ns, period_ns, timing_white[0]),
        is_lost(probability, timing_white[1]),
        scanner.latency_s + fault_delay_s(faults[0], begin_ns),
    )


def fault_list(kind: str, params: Any, faults: Sequence[FaultParams]) -> NDArray[np.record]:
    """Faults as the (1,) FAULT_LIST that acts.

    Raises:
        InputError: a fault that does not fit the kind of scanner, by its place in the list.
    """
    records: NDArray[np.record] = np.zeros(1, FAULT_LIST)
    longest_s = max(0.0, (MAX_SCANS - 1) / params.rate_hz - params.latency_s)
    for k, fault in enumerate(faults):
        add_fault(records[0], fault, kind, CHANNELS, longest_s, f"faults[{k}]: ")
    return records


class Scanner(ABC):
    """One scanner on one vehicle, fed with the truth as it comes.

    Scans begin at multiples of the period. The rays of each line start from where the scanner is
    at the line's own time, between the truths before and after it. A class of it has ``KIND``
    and the types of its parameters and samples, and defines how rays are cast and read.

    Args:
        params: its parameters.
        offsets_s: time of each line after the first, (lines,) s.
        numbers: how many normal and how many uniform numbers a scan takes.
        environment: the world it measures.
        seed: the scenario's.
        vehicle: the vehicle's name.
        scene: what rays meet besides the flat ground.
        faults: what goes wrong, and when.

    Raises:
        InputError: a fault does not fit the scanner.
    """

    KIND: ClassVar[str]
    params_type: ClassVar[Any]
    sample_type: ClassVar[Any]

    def __init__(
        self,
        params: Any,
        offsets_s: NDArray[np.float64],
        numbers: tuple[int, int],
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
        self._offsets_ns = np.round(1e9 * offsets_s).astype(np.int64)
        self._numbers = numbers
        self._previous: NDArray[np.record] = np.zeros(1, KINEMATICS)
        self._now: NDArray[np.record] = np.zeros(1, KINEMATICS)
        self._held: dict[int, tuple[Any, ...]] = {}  # frozen: fault to what repeats
        self.set_faults(faults)
        self.reset()

    def reset(self) -> None:
        """Switch the device off and on again, at the start of its stream."""
        self._stream = stream(self._seed, self._vehicle, self.KIND)
        self._states: NDArray[np.record] = np.zeros(1, dtype_of(EchoState))
        set_mount(self._states[0], self.params.rotation_deg)
        start_echo(self._states[0], self.params, self._stream)
        self._newest_ns = -1
        self._begin_ns = 0
        self._next_line = 0
        self._on_the_way: deque[tuple[int, Any]] = deque()
        self._held = {}

    def set_faults(self, faults: Sequence[FaultParams]) -> None:
        """Let these faults act instead of those that were set.

        Raises:
            InputError: a fault does not fit the scanner; then all stays as it was.
        """
        self._faults = fault_list(self.KIND, self.params, faults)
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

    def measure(self, truth: np.record) -> Any:
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
                self._next_line = 0
            self._turn_to(stamp_ns)
            self._previous[:] = self._now
            self._newest_ns = stamp_ns
        return self.published(stamp_ns)

    def published(self, stamp_ns: int) -> Any:
        """Give the next scan that is published by this time, in order, or None."""
        if self._on_the_way and self._on_the_way[0][0] <= stamp_ns:
            return self._on_the_way.popleft()[1]
        return None

    @abstractmethod
    def cast(self, stamps_ns: NDArray[np.int64], lines: tuple[int, int]) -> None:
        """Cast the rays of some lines, the first to the one before the second, at their times."""

    @abstractmethod
    def read(
        self, white: NDArray[np.float64], chances: NDArray[np.float64]
    ) -> tuple[NDArray[Any], ...]:
        """What is read off the echoes of a complete scan; the first array is what faults act on."""

    def _turn_to(self, now_ns: int) -> None:
        """Cast every line that is due by now, and end the scans that are complete."""
        while self._begin_ns <= now_ns:
            stamps_ns = self._begin_ns + self._offsets_ns
            stop = int(np.searchsorted(stamps_ns, now_ns, side="right"))
            self.cast(stamps_ns, (self._next_line, stop))
            self._next_line = stop
            if stop < len(stamps_ns):
                return
            self._end_scan()
            self._begin_ns += self.period_ns
            self._next_line = 0

    def _end_scan(self) -> None:
        """Read the echoes, let faults act, lose the scan or put it on its way."""
        begin_ns, (normal, uniform) = self._begin_ns, self._numbers
        white, chances = draw_normals(self._stream, normal), self._stream.random(uniform)
        timing = draw_normals(self._stream, 2)
        stamp_ns, lost, late_s = prepare_scan(
            self._params, self._faults, begin_ns, self.period_ns, white, timing
        )
        arrays = self.read(white, chances)
        self._disturb(arrays, begin_ns)
        if lost:
            return
        arrival_ns = begin_ns + int(self._offsets_ns[-1]) + round(late_s * 1e9)
        self._on_the_way.append((arrival_ns, self.sample_type(stamp_ns, *arrays)))

    def _disturb(self, arrays: tuple[NDArray[Any], ...], now_ns: int) -> None:
        """Change a scan as the faults that act on it do."""
        for k in range(len(self.faults)):
            fault = self._faults["items"][0, k]
            if not acts(fault, now_ns):
                continue
            if fault.kind == STUCK:
                arrays[0][:] = fault.value[0]
            elif fault.kind == BIAS:
                arrays[0][:] += np.float32(fault.value[0])
            elif fault.kind == FROZEN:
                held = self._held.setdefault(k, tuple(array.copy() for array in arrays))
                for array, before in zip(arrays, held, strict=True):
                    array[:] = before
