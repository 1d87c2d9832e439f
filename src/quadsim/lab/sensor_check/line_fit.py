"""Lines of the rotors in an IMU, by order tracking against the integrated rotor phase.

In a short window each line is a cosine and a sine of a multiple of a rotor's phase, with an
amplitude that is known but for one factor and a phase that is not known. Rotors turn at nearly the
same speed, so all are taken together: the window is normal with the covariance of the floor and of
all lines, and the factors are those of largest likelihood. The phase is that of the samples'
instants, so that a line above half the rate of the samples lies where it folds to, and needs no
special care. The floor about each line is whitened by an autoregressive filter that the lines pass,
too, and found from frequencies beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal

from quadsim.lab.sensor_check.shaken import BlockFit, ShakenStretch, blocks_of, fit_blocks
from quadsim.lab.sensor_check.whitening import Clock, filtered, folded, whitener

Array = NDArray[np.float64]

#: Length of a window, s; where the floor beside a line is taken, over one per window.
WINDOW_S, BESIDE = 0.25, 4.0

#: Axes by which the clock is found, those whose lines are clearest.
CLEAREST = 2

#: Loss without a line by which it is told (chi-square, 95 %).
TOLD = 1.92

#: Scales of the rotor speeds and delays that are tried, and a scale so far off shows no line.
SCALES = np.arange(0.97, 1.0301, 0.003)
DELAYS_S = np.arange(-0.04, 0.0401, 0.01)
ELSEWHERE = 0.05

#: Delays that are tried with all lines together, and steps by which an interval is found first.
FINER, CLOCK_STEPS = 41, (1e-4, 1e-3)


@dataclass(frozen=True)
class LineFigure:
    """Amplitude of a line on one axis: 0 to ``high`` where it is not told."""

    value: float
    low: float
    high: float
    told: bool


def _by_axis(found: Sequence[Array]) -> list[list[Array]]:
    """Of each axis a list of the stretches' (windows,), of (windows, axes) of each stretch."""
    return [[each[:, axis] for each in found] for axis in range(found[0].shape[1])]


class LineFit:
    """Lines of some flights.

    Args:
        stretches: of all flights.
        orders: multiples of a rotor's phase.

    Attributes:
        corner_hz: (6, 3) of each axis the corner of the low-pass that its lines pass, and the ends
            of its interval; 0 for none. To be set where it is known.
        clearest: axes by which the clock is found.
    """

    def __init__(self, stretches: list[ShakenStretch], orders: Sequence[int]) -> None:
        self.stretches, self.orders = stretches, tuple(orders)
        self.blocks = blocks_of(stretches, WINDOW_S)
        self.corner_hz, self.clearest = np.zeros((6, 3)), [0]
        self._whiten(None)

    def _whiten(self, clock: Clock | None) -> None:
        """Take the filters anew."""
        self.filters = [whitener(each, clock, self.orders) for each in self.stretches]
        # what the filters make of each frequency, squared
        self.weights = [np.abs(np.fft.rfft(each, 4096, axis=1)).T ** 2 for each in self.filters]
        self.white = [
            filtered(h, signal.detrend(each.values, axis=0))
            for each, h in zip(self.stretches, self.filters, strict=True)
        ]

    def _windows(self, k: int, rows: Array) -> Array:
        """Values of a stretch as (windows, samples, ...)."""
        count = len(self.blocks[k])
        length = len(rows) // count
        return rows[: count * length].reshape(count, length, *rows.shape[1:])

    def _coherence(self, matched: list[Array], figures: Array) -> Array:
        """What each line alone explains in each block and axis, (blocks, 6), over chance.

        Quick, but lines that are close draw each other: good for a first guess.
        """
        scale, delay_s = figures.tolist()
        found = []
        for k, stretch in enumerate(self.stretches):
            seen = self._windows(k, matched[k])
            taper = signal.windows.hann(seen.shape[1])
            seen = seen * (taper / np.sqrt(taper @ taper))[:, None]
            turned = self._windows(k, scale * stretch.phases(delay_s))
            speed = self._windows(k, scale * stretch.speeds(delay_s)).mean(axis=1)
            parts = []
            for order in self.orders:
                size = np.abs(np.swapaxes(np.exp(-1j * order * turned), 1, 2) @ seen) ** 2
                line_hz = folded(order * speed / (2.0 * np.pi), stretch.rate_hz)
                place = line_hz / (0.5 * stretch.rate_hz) * (len(self.weights[k]) - 1)
                parts.append(size / self.weights[k][place.astype(int)])
            found.append(np.sum(parts, axis=(0, 2)))
        return np.stack([self._by_block(list(axis)) for axis in _by_axis(found)], axis=1)

    def _unexplained(self, axes: Sequence[int], figures: Array) -> Array:
        """Half of what all lines together explain in each block, negative: minus log likelihood."""
        clock = Clock(float(figures[0]), float(figures[1]), np.zeros(2), True)
        losses = [np.zeros(len(each)) for each in self.blocks]
        for k, axis in product(range(len(self.stretches)), axes):
            columns = np.moveaxis(self._columns(k, clock, 1.0, axis, (0.0,))[:, 0], 0, 2)
            space, _ = np.linalg.qr(columns.reshape(*columns.shape[:2], -1))
            seen = self._windows(k, self.white[k])[..., axis, None]
            losses[k] -= 0.5 * ((np.swapaxes(space, 1, 2) @ seen) ** 2).sum(axis=(1, 2))
        return self._by_block(losses)

    def _by_block(self, losses: Sequence[Array]) -> Array:
        """(blocks,) sums over windows."""
        sums = np.bincount(np.concatenate(self.blocks), np.concatenate(losses))
        return np.asarray(sums, float)

    def clock(self) -> Clock:
        """Scale and delay of the rotor speeds by which the lines stand out most.

        Lines that are in the filters weaken them: so it is found twice, the second time, and all
        that comes later, with filters of the floor without them.
        """
        # forth and back, so that no phase is changed: what a matched filter takes
        pairs = zip(self.white, self.filters, strict=True)
        matched = [filtered(h, white[::-1])[::-1] for white, h in pairs]
        grid = [np.array([a, b]) for a in SCALES.tolist() for b in DELAYS_S.tolist()]
        start = max(grid, key=lambda each: float(self._coherence(matched, each).sum()))
        better = self._coherence(matched, start)
        better -= self._coherence(matched, start + np.array([ELSEWHERE, 0.0]))
        sure = better.mean(axis=0) / better.std(axis=0) * np.sqrt(len(better))
        self.clearest = np.argsort(-sure)[:CLEAREST].tolist()
        losses = partial(self._unexplained, self.clearest)
        finer = np.linspace(DELAYS_S[0], DELAYS_S[-1], FINER)
        tries = [np.array([start[0], delay_s]) for delay_s in finer.tolist()]
        start = min(tries, key=lambda each: float(losses(each).sum()))
        clock = Clock(float(start[0]), float(start[1]), np.zeros(2), bool(sure.max() > 5.0))
        return self.refined(self.refined(clock))

    def refined(self, clock: Clock) -> Clock:
        """The clock once more, by the filters and corners as they are; the filters follow."""
        start = np.array([clock.scale, clock.delay_s])
        losses = partial(self._unexplained, self.clearest)
        bounds = np.array([SCALES[[0, -1]], DELAYS_S[[0, -1]]])
        near = optimize.minimize(
            lambda x: losses(x).sum(), start, method="Nelder-Mead", bounds=bounds,
            options={"initial_simplex": start + np.array([[0, 0], [1e-3, 0], [0, 5e-3]]),
                     "xatol": 1e-6, "fatol": 0.01},
        ).x  # fmt: skip
        half = np.array(CLOCK_STEPS)
        for _ in range(2):  # a delay may be told so well that the first step is too wide
            step = np.clip(half, 1e-6, CLOCK_STEPS)
            half = fit_blocks(losses, near, step, bounds, polish=False).half
        clock = Clock(float(near[0]), float(near[1]), half, clock.told)
        self._whiten(clock)
        return clock

    def _columns(
        self, k: int, clock: Clock, reference: float, axis: int,
        shifts: tuple[float, ...] = (0.0, BESIDE, -BESIDE),
    ) -> Array:  # fmt: skip
        """(orders, shifts, windows, samples, 2 rotors) lines of amplitude 1, and beside them."""
        stretch = self.stretches[k]
        turned, speed = stretch.phases(clock.delay_s), stretch.speeds(clock.delay_s)
        circle = 2.0 * np.pi / WINDOW_S * (stretch.time_s - stretch.time_s[0])[:, None]
        parts = []
        for order in self.orders:
            line_hz = order * clock.scale * speed / (2.0 * np.pi)
            gain = (speed / reference) ** 2
            if self.corner_hz[axis, 0] > 0.0:
                gain = gain / np.sqrt(1.0 + (line_hz / self.corner_hz[axis, 0]) ** 4)
            for shift in shifts:
                phase = order * clock.scale * turned + shift * circle
                both = np.hstack([gain * np.cos(phase), gain * np.sin(phase)])
                white = signal.lfilter(self.filters[k][axis], 1.0, both, axis=0)
                parts.append(self._windows(k, white))
        return np.array(parts).reshape(len(self.orders), len(shifts), *parts[0].shape)

    def _reduced(self, clock: Clock, reference: float, axis: int) -> list[tuple[Array, Array]]:
        """Of each stretch, in the space of lines and floor: values, covariances of the orders."""
        found = []
        for k in range(len(self.stretches)):
            columns = self._columns(k, clock, reference, axis)
            all_of = np.moveaxis(columns, (2, 3), (0, 1))
            space, _ = np.linalg.qr(all_of.reshape(*all_of.shape[:2], -1))
            across = np.swapaxes(space, 1, 2)
            values = (across @ self._windows(k, self.white[k])[..., axis, None])[..., 0]
            lines = [across @ columns[j, 0] for j in range(len(self.orders))]
            found.append((values, np.array([0.5 * x @ np.swapaxes(x, 1, 2) for x in lines])))
        return found

    def amplitudes(self, axis: int, clock: Clock, reference: float) -> list[LineFigure]:
        """Amplitude of each order on an axis, one for all rotors.

        Args:
            axis: 0 to 2 of the accelerometer, 3 to 5 of the gyroscope.
            clock: of the rotor speeds.
            reference: speed at which the figures hold, rad/s.
        """
        reduced = self._reduced(clock, reference, axis)
        count = len(self.orders)

        def losses(logs: Array) -> Array:
            """Minus log likelihood, by logs of the orders' squared amplitudes and floors."""
            parts = []
            for values, covariances in reduced:
                whole = np.tensordot(np.exp(logs[:count]), covariances, 1)
                whole += np.diag(np.repeat(np.exp(logs[count:]), whole.shape[-1] // count))
                root = np.linalg.cholesky(whole)
                left = np.linalg.solve(root, values[..., None])[..., 0]
                size = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
                parts.append(size + 0.5 * (left**2).sum(axis=1))
            return self._by_block(parts)

        size = np.mean([np.trace(c, axis1=2, axis2=3).mean(axis=1) for _, c in reduced], axis=0)
        start = np.append(-np.log(size), np.zeros(count))
        bounds = start[:, None] + np.array([-12.0, 16.0])
        found = fit_blocks(losses, start, np.full(len(start), 0.1), bounds)
        half = np.hypot(found.half[:count], 2.0 * self._by_corner(clock, self.corner_hz[axis]))
        found = BlockFit(found.value, np.append(half, found.half[count:]))
        return [_figure(losses, found, j, bounds[j]) for j in range(count)]

    def _by_corner(self, clock: Clock, corner_hz: Array) -> Array:
        """(orders,) half of the interval of a logarithmic amplitude by that of the corner."""
        if corner_hz[0] == 0.0:
            return np.zeros(len(self.orders))
        speed = clock.scale * np.concatenate([each.speed.ravel() for each in self.stretches])
        line = np.outer(self.orders, speed) / (2.0 * np.pi * corner_hz[0])
        bend = (2.0 * line**4 / (1.0 + line**4)).mean(axis=1)
        return np.asarray(0.5 * bend * np.log(corner_hz[2] / corner_hz[1]), float)


def _figure(losses: Callable[[Array], Array], found: BlockFit, j: int, bounds: Array) -> LineFigure:
    """Amplitude and interval of an order, or how large it may be where it is not told."""

    def worse(log: float) -> float:
        at = found.value.copy()
        at[j] = log
        return float(losses(at).sum() - losses(found.value).sum())

    value, half = found.value[j], found.half[j]
    told = worse(bounds[0]) > TOLD and half < 4.0
    if told:
        middle, low, high = np.exp(0.5 * np.array([value, value - half, value + half])).tolist()
        return LineFigure(middle, low, high, True)
    high = bounds[1]
    if worse(high) > TOLD:
        high = optimize.brentq(lambda log: worse(log) - TOLD, value, high)
    return LineFigure(0.0, 0.0, float(np.exp(0.5 * high)), False)
