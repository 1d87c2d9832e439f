"""Lines of the rotors in an IMU, by order tracking against the integrated rotor phase.

In a short window each line is a cosine and a sine of a multiple of a rotor's phase, with an
amplitude that is known but for one factor and a phase that is not known. Rotors turn at nearly the
same speed, so all are taken together: the window is normal with the covariance of the floor and of
all lines, and factors, scale and delay of the phase are those of largest likelihood. The phase is
that of the samples' instants, so that a line above half the rate of the samples lies where it folds
to, and needs no special care. The floor is whitened by an autoregressive filter that the lines
pass, too. Only bands about the lines count, whose level is found next to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, signal

from quadsim.lab.sensor_check.floor_fit import low_passed
from quadsim.lab.sensor_check.shaken import BlockFit, ShakenStretch, blocks_of, fit_blocks
from quadsim.lab.sensor_check.whitening import Clock, filtered, folded, orthonormal, whitener

Array = NDArray[np.float64]

#: Length of a window, s; how far about the lines the bands reach, over one per window; what a wave
#: of a band shows at least that the others do not.
WINDOW_S, BESIDE, OWN = 0.25, 4.0, 0.1

#: Logarithm of a squared amplitude that states nothing.
FREE = 20.0

#: A small change of the logarithm of a squared amplitude, half of an interval that states nothing,
#: and by how much the loss is worse at an interval's ends then (chi-square, 95 %).
NEAR, UNSURE, TOLD = 0.3, 4.0, 1.92

#: Scales of the rotor speeds and delays that are tried, and a scale so far off shows no line.
SCALES = np.arange(0.97, 1.0301, 0.003)
DELAYS_S = np.arange(-0.04, 0.0401, 0.01)
ELSEWHERE = 0.05

#: Axes of the accelerometer and of the gyroscope.
TRIADS = ([0, 1, 2], [3, 4, 5])

#: Delays that are tried with all lines together, and steps by which an interval is found first.
FINER, CLOCK_STEPS = 41, (1e-4, 1e-3)


@dataclass(frozen=True)
class LineFigure:
    """Amplitude of a line on one axis: 0 to ``high`` where it is not told."""

    value: float
    low: float
    high: float
    told: bool


class LineFit:
    """Lines of some flights.

    Args:
        stretches: of all flights.
        orders: multiples of a rotor's phase.
        reference: rotor speed at which amplitudes hold, rad/s.

    Attributes:
        corner_hz: (6, 3) of each axis the corner of the low-pass that its lines pass, and the ends
            of its interval; 0 for none. To be set where it is known.
        clearest: axes of the sensor that tells the clock best.
    """

    def __init__(
        self, stretches: list[ShakenStretch], orders: Sequence[int], reference: float
    ) -> None:
        self.stretches, self.orders, self.reference = stretches, tuple(orders), reference
        self.blocks = blocks_of(stretches, WINDOW_S)
        self.corner_hz, self.clearest = np.zeros((6, 3)), [0]
        self._whiten(None)

    def _whiten(self, clock: Clock | None) -> None:
        """Take filters and bands anew."""
        self.filters = [whitener(each, clock, self.orders) for each in self.stretches]
        # what the filters make of each frequency, squared
        self.weights = [np.abs(np.fft.rfft(each, 4096, axis=1)).T ** 2 for each in self.filters]
        self.white = [
            filtered(h, signal.detrend(each.values, axis=0))
            for each, h in zip(self.stretches, self.filters, strict=True)
        ]
        if clock is not None:
            self.spaces = self._spaces(clock)

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
            rotated = self._windows(k, scale * stretch.phases(delay_s))
            speed = self._windows(k, scale * stretch.speeds(delay_s)).mean(axis=1)
            parts = []
            for order in self.orders:
                size = np.abs(np.swapaxes(np.exp(-1j * order * rotated), 1, 2) @ seen) ** 2
                line_hz = folded(order * speed / (2.0 * np.pi), stretch.rate_hz)
                place = line_hz / (0.5 * stretch.rate_hz) * (len(self.weights[k]) - 1)
                parts.append(size / self.weights[k][place.astype(int)])
            found.append(np.sum(parts, axis=(0, 2)))
        by_axis = (self._by_block([each[:, axis] for each in found]) for axis in range(6))
        return np.stack(list(by_axis), axis=1)

    def _spaces(self, clock: Clock) -> list[Array]:
        """Of each stretch (windows, samples, M), orthonormal: what lies within bands of the orders.

        Beyond them a line has skirts, by how fast its speed wanders. They would tell the delay, but
        recorded speeds instability by their noise, and the floor is lower there behind a low-pass.
        """
        apart = [each.speed - each.speed.mean(axis=1, keepdims=True) for each in self.stretches]
        apart_hz = np.quantile(np.abs(np.concatenate(apart)), 0.99) * clock.scale / (2.0 * np.pi)
        reach = [int(BESIDE + order * apart_hz * WINDOW_S) for order in self.orders]
        self.rows = np.repeat(np.arange(len(reach)), [4 * each + 2 for each in reach])
        found = []
        for k, stretch in enumerate(self.stretches):
            rotated = clock.scale * stretch.phases(clock.delay_s).mean(axis=1, keepdims=True)
            circle = 2.0 * np.pi / WINDOW_S * (stretch.time_s - stretch.time_s[0])[:, None]
            waves = []
            for order, each in zip(self.orders, reach, strict=True):
                phase = order * rotated + np.arange(-each, each + 1) * circle
                waves += [np.cos(phase), np.sin(phase)]
            found.append(orthonormal(self._windows(k, np.hstack(waves)), OWN))
        return found

    def _likelihood(self, reduced: list[tuple[Array, Array]], logs: Array) -> Array:
        """Minus log likelihood of each block.

        Args:
            reduced: of each stretch, in the order of the spaces.
            logs: of the orders' squared amplitudes and floors.
        """
        lines, floors = np.exp(0.5 * logs).reshape(2, -1)
        floor, parts = floors[self.rows], []
        for (values, columns), space in zip(reduced, self.spaces, strict=True):
            line = np.repeat(lines, columns.shape[2] // len(lines)) * np.sqrt(0.5)
            seen, mixed = values / floor, columns * line / floor[:, None]
            across = np.swapaxes(mixed, 1, 2)
            root = np.linalg.cholesky(np.eye(len(line)) + across @ mixed)
            left = np.linalg.solve(root, across @ seen[..., None])
            size = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
            size += space.any(axis=1) @ np.log(floor)
            parts.append(size + 0.5 * (seen**2).sum(axis=1) - 0.5 * (left**2).sum(axis=(1, 2)))
        return self._by_block(parts)

    def _by_clock(self, levels: Mapping[int, Array], figures: Array) -> Array:
        """Minus log likelihood of each block by scale and delay, the levels of axes being given."""
        clock = Clock(float(figures[0]), float(figures[1]), np.zeros(2), True)
        each = [self._likelihood(self._reduced(clock, axis), logs) for axis, logs in levels.items()]
        return np.asarray(np.sum(each, axis=0))

    def _by_block(self, losses: Sequence[Array]) -> Array:
        """(blocks,) sums over windows."""
        sums = np.bincount(np.concatenate(self.blocks), np.concatenate(losses))
        return np.asarray(sums, float)

    def clock(self) -> Clock:
        """Scale and delay of the rotor speeds by which the lines stand out most.

        Lines that are in the filters weaken them: so all that comes after a first guess is found
        with filters of the floor without them.
        """
        # forth and back, so that no phase is changed: what a matched filter takes
        pairs = zip(self.white, self.filters, strict=True)
        matched = [filtered(h, white[::-1])[::-1] for white, h in pairs]
        grid = [np.array([a, b]) for a in SCALES.tolist() for b in DELAYS_S.tolist()]
        start = max(grid, key=lambda each: float(self._coherence(matched, each).sum()))
        elsewhere = start + np.array([ELSEWHERE, 0.0])
        better = self._coherence(matched, start) - self._coherence(matched, elsewhere)
        better = better.reshape(len(better), 2, 3).sum(axis=2)
        sure = better.mean(axis=0) / better.std(axis=0) * np.sqrt(len(better))
        self.clearest = TRIADS[int(np.argmax(sure))]
        self.spaces = self._spaces(Clock(float(start[0]), 0.0, np.zeros(2), True))
        # lines of any size, next to a floor of 1
        free = np.repeat([FREE, 0.0], len(self.orders))
        losses = partial(self._by_clock, dict.fromkeys(self.clearest, free))
        finer_s = np.linspace(DELAYS_S[0], DELAYS_S[-1], FINER).tolist()
        tries = [np.array([start[0], delay_s]) for delay_s in finer_s]
        start = min(tries, key=lambda each: float(losses(each).sum()))
        clock = Clock(float(start[0]), float(start[1]), np.zeros(2), bool(sure.max() > 5.0))
        found: list[tuple[float, list[int], Clock]] = []
        # of one sensor alone, since low-passes delay the lines, too
        for self.clearest in (TRIADS[k] for k in np.flatnonzero(sure > 0.5 * sure.max())):
            self._whiten(clock)
            refined = self.refined(clock)
            found.append((float(refined.half[1]), self.clearest, refined))
        _, self.clearest, clock = min(found, key=lambda each: each[0])
        self._whiten(clock)
        return clock

    def refined(self, clock: Clock) -> Clock:
        """The clock once more, by the filters and corners as they are; the filters follow."""
        start = np.array([clock.scale, clock.delay_s])
        levels = {axis: self._levels(axis, clock)[1].value for axis in self.clearest}
        losses = partial(self._by_clock, levels)
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

    def _reduced(self, clock: Clock, axis: int) -> list[tuple[Array, Array]]:
        """Of each stretch, within the bands: values (windows, M), and lines of amplitude 1.

        The lines are (windows, M, cosines and sines of the rotors of each order).
        """
        found = []
        for k, stretch in enumerate(self.stretches):
            rotated, speed = stretch.phases(clock.delay_s), stretch.speeds(clock.delay_s)
            parts = []
            for order in self.orders:
                line_hz = order * clock.scale * speed / (2.0 * np.pi)
                gain = (speed / self.reference) ** 2
                gain = gain * low_passed(line_hz, float(self.corner_hz[axis, 0]))
                phase = order * clock.scale * rotated
                parts += [gain * np.cos(phase), gain * np.sin(phase)]
            white = signal.lfilter(self.filters[k][axis], 1.0, np.hstack(parts), axis=0)
            across = np.swapaxes(self.spaces[k], 1, 2)
            values = across @ self._windows(k, self.white[k])[..., axis, None]
            found.append((values[..., 0], across @ self._windows(k, white)))
        return found

    def _levels(self, axis: int, clock: Clock) -> tuple[Callable[[Array], Array], BlockFit, Array]:
        """Losses by logs of the orders' squared amplitudes and floors, fit, and bounds."""
        reduced = self._reduced(clock, axis)
        losses = partial(self._likelihood, reduced)
        sizes = np.mean([(columns**2).sum(axis=1).mean(axis=0) for _, columns in reduced], axis=0)
        per_order = sizes.reshape(len(self.orders), -1).mean(axis=1)
        start = np.concatenate([-np.log(per_order), np.zeros(len(self.orders))])
        bounds = start[:, None] + np.array([-12.0, 16.0])
        return losses, fit_blocks(losses, start, np.full(len(start), 0.1), bounds), bounds

    def amplitudes(self, axis: int, clock: Clock) -> list[LineFigure]:
        """Amplitude of each order on an axis, one for all rotors.

        Args:
            axis: 0 to 2 of the accelerometer, 3 to 5 of the gyroscope.
            clock: of the rotor speeds.
        """
        losses, found, bounds = self._levels(axis, clock)
        count = len(self.orders)
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
    """Amplitude and interval of an order, or how large it may be where it is not told.

    The loss is worse by as much at both ends: as much as ``found`` says of a small change. A weak
    line's interval is longer below than above.
    """
    best = losses(found.value).sum()

    def worse(log: float) -> float:
        at = found.value.copy()
        at[j] = log
        return float(losses(at).sum() - best)

    value, half = found.value[j], found.half[j]
    near = float(np.clip(half, 1e-3, NEAR))
    level = 0.5 * (worse(value - near) + worse(value + near)) * (half / near) ** 2
    sure = half < UNSURE and value - bounds[0] > 1.0
    level = level if sure else TOLD
    ends = []
    for bound in bounds:
        if worse(bound) > level:
            bound = optimize.brentq(lambda log: worse(log) - level, *sorted([value, bound]))
        ends.append(np.exp(0.5 * bound))
    told = worse(bounds[0]) > level
    value, low = (np.exp(0.5 * value), ends[0]) if told else (0.0, 0.0)
    return LineFigure(float(value), float(low), float(ends[1]), bool(told))
