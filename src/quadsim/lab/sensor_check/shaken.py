"""Flights for ``quadsim sensors fit``: an IMU in the air next to the speeds of its rotors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicHermiteSpline

from quadsim.bag import topics
from quadsim.bag.log import read_log
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.sim.log import FlightLog, Stamps

Array = NDArray[np.float64]

#: A stretch is at least so long, s, and its rotors turn at this share of their usual speed.
LEAST_S, TURNING = 2.0, 0.5

#: From so many flights on each is one observation; fewer are cut into so many parts.
FLIGHTS, PARTS = 10, 24

#: Level of the intervals.
LEVEL = 0.95


@dataclass(frozen=True)
class ShakenStretch:
    """A stretch of a flight in which no sample is missing and all rotors turn.

    Attributes:
        flight: number of the flight it is of.
        time_s: (N,) of the IMU's samples.
        values: (N, 6) specific force in m/s^2 and angular rate in rad/s, sensor axes.
        rotor_s: (M,) of the rotor speeds.
        speed: (M, rotors) rad/s.
    """

    flight: int
    time_s: Array
    values: Array
    rotor_s: Array
    speed: Array

    @property
    def rate_hz(self) -> float:
        """Mean rate of the samples."""
        return float((len(self.time_s) - 1) / (self.time_s[-1] - self.time_s[0]))

    def speeds(self, delay_s: float) -> Array:
        """(N, rotors) true speeds at the samples, if the recorded ones are so late."""
        return _columns(self.time_s + delay_s, self.rotor_s, self.speed)

    def phases(self, delay_s: float) -> Array:
        """(N, rotors) integrals of the speeds, rad."""
        inside = np.clip(self.time_s + delay_s, self.rotor_s[0], self.rotor_s[-1])
        return np.asarray(self._turned(inside), float)

    @cached_property
    def _turned(self) -> CubicHermiteSpline:
        whole = cumulative_trapezoid(self.speed, self.rotor_s, axis=0, initial=0.0)
        return CubicHermiteSpline(self.rotor_s, whole, self.speed)


def _columns(at_s: Array, known_s: Array, values: Array) -> Array:
    return np.stack([np.interp(at_s, known_s, column) for column in values.T], axis=1)


def read_shaken(bag: Bag, namespace: str, flight: int) -> list[ShakenStretch]:
    """Stretches of one flight.

    Raises:
        InputError: it has no IMU, no rotor speeds nor their commands, or is too short.
    """
    log = read_log(bag, namespace, with_imu=True)
    motor_ns, speed = _rotors(log, bag, namespace)
    if log.imu is None or len(log.imu.stamp_ns) < 2:
        raise InputError(f"{bag.path}: no {topics.topic(namespace, topics.IMU)}")
    start_ns = int(motor_ns[0])
    time_s = np.asarray((log.imu.stamp_ns - start_ns) * 1e-9, float)
    rotor_s = np.asarray((motor_ns - start_ns) * 1e-9, float)
    values = np.hstack([log.imu.f_S, log.imu.w_S])
    slowest = np.interp(time_s, rotor_s, speed.min(axis=1), left=0.0, right=0.0)
    flying = slowest > TURNING * float(np.median(speed))
    apart = np.diff(time_s)
    broken = (apart > 2.5 * np.median(apart)) | (flying[1:] != flying[:-1])
    edges = np.concatenate([[0], np.flatnonzero(broken) + 1, [len(time_s)]])
    parts = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    stretches = [
        ShakenStretch(flight, time_s[part], values[part], rotor_s, speed)
        for part in parts
        if flying[part][0] and time_s[part][-1] - time_s[part][0] > LEAST_S
    ]
    if not stretches:
        raise InputError(f"{bag.path}: no {LEAST_S:g} s with all rotors turning and no gap")
    return stretches


def _rotors(log: FlightLog, bag: Bag, namespace: str) -> tuple[Stamps, Array]:
    """Stamps and speeds, or the speeds that were commanded."""
    for stamp_ns, speed in (
        (log.motor_stamps_ns, log.motor_speed_radps),
        (log.command_stamps_ns, log.command_radps),
    ):
        if len(stamp_ns) > 1 and np.abs(speed).max() > 0.0:
            return stamp_ns, np.abs(speed)
    names = (topics.topic(namespace, name) for name in (topics.MOTORS, topics.COMMANDS))
    raise InputError(f"{bag.path}: neither {' nor '.join(names)}")


def blocks_of(stretches: list[ShakenStretch], span_s: float) -> list[NDArray[np.int64]]:
    """Of each stretch the block of each of its windows of ``span_s``.

    A block is an observation by itself: a flight where there are enough, else a part of one.
    """
    counts = [int((each.time_s[-1] - each.time_s[0]) / span_s) for each in stretches]
    if len({each.flight for each in stretches}) >= FLIGHTS:
        return [np.full(n, each.flight) for n, each in zip(counts, stretches, strict=True)]
    length = max(1, sum(counts) // PARTS)
    places = np.split(np.arange(sum(counts)) // length, np.cumsum(counts)[:-1])
    return [np.asarray(each, np.int64) for each in places]


@dataclass(frozen=True)
class BlockFit:
    """Figures that minimise a loss, with half of their 95 % intervals."""

    value: Array
    half: Array


def fit_blocks(
    losses: Callable[[Array], Array],
    start: Array,
    step: Array,
    bounds: Array,
    polish: bool = True,
) -> BlockFit:
    """Minimise a sum of losses of independent blocks.

    The interval is the sandwich of M-estimation (Huber 1967): the scatter of the blocks' gradients
    between inverse second derivatives. So it also holds where the loss is no true likelihood.

    Args:
        losses: takes (K,) figures, gives (blocks,).
        start, step: (K,) first guess, and a change that matters little.
        bounds: (K, 2).
        polish: whether the start is not the minimum yet.
    """
    best = start
    if polish:
        best = start + step * optimize.minimize(
            lambda x: losses(start + step * x).sum(), np.zeros(len(start)), method="L-BFGS-B",
            bounds=(bounds - start[:, None]) / step[:, None],
            options={"eps": 1e-3, "maxiter": 300},
        ).x  # fmt: skip
    slopes, bend = _derivatives(losses, best, step)
    inverse = np.linalg.pinv(bend, rcond=1e-10)
    count = slopes.shape[1]
    covariance = inverse @ (slopes @ slopes.T) @ inverse * count / max(count - 1, 1)
    spread = np.sqrt(np.maximum(np.diag(covariance), 0.0)) * step
    return BlockFit(best, float(stats.t.ppf(0.5 + 0.5 * LEVEL, max(count - 1, 1))) * spread)


def _derivatives(losses: Callable[[Array], Array], at: Array, step: Array) -> tuple[Array, Array]:
    """(K, blocks) gradients and (K, K) second derivatives of the sum, in units of the steps."""
    moves = np.diag(step)
    ahead, behind = ([losses(at + sign * move) for move in moves] for sign in (1.0, -1.0))
    slopes = 0.5 * (np.array(ahead) - np.array(behind))
    middle = losses(at).sum()
    bend = np.zeros((len(at), len(at)))
    for i, j in _pairs(len(at)):
        both = losses(at + moves[i] + moves[j]).sum() + losses(at - moves[i] - moves[j]).sum()
        single = sum(ahead[k].sum() + behind[k].sum() for k in (i, j))
        if i == j:
            bend[i, i] = ahead[i].sum() + behind[i].sum() - 2.0 * middle
        else:
            bend[i, j] = bend[j, i] = 0.5 * (both - single + 2.0 * middle)
    return slopes, bend


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(count) for j in range(i + 1))
