"""Means and derivatives of signals over short windows, without differentiating noise.

A smooth weight that is zero with its slope at both ends (Hann's) moves derivatives from the signal
to itself: ``int phi x' dt = -int phi' x dt``, ``int phi x'' dt = int phi'' x dt`` (modulating
functions; M. Shinbrot, *On the analysis of linear and nonlinear systems*, Trans. ASME 79, 1957).
Each window is thus an equation that holds exactly, and vibration above the window's band is out.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Windows:
    """Windows of one length, each overlapping half of the next, on an even grid of times.

    Args:
        good: (N,) grid times whose signals are known; a window holds no other.
        step_s: of the grid.
        length_s: of a window.
    """

    def __init__(self, good: NDArray[np.bool_], step_s: float, length_s: float) -> None:
        half = max(4, round(0.5 * length_s / step_s))
        self._half, count = half, 2 * half
        phase = math.pi * np.arange(count + 1) / count
        time_s = step_s * (np.arange(count + 1) - half)
        self._mean = np.sin(phase) ** 2
        self._mean /= self._mean.sum()
        self._slope = np.sin(2.0 * phase)  # -phi', but for a factor: a ramp has its slope
        self._slope /= self._slope @ time_s
        bend = np.cos(2.0 * phase)
        bend[[0, -1]] *= 0.5
        self._bend = bend * 2.0 / (bend @ time_s**2)
        #: Time from one window to the next.
        self.apart_s = half * step_s
        whole = sliding_window_view(good, count + 1)[::half].all(axis=1)
        self.rows: NDArray[np.intp] = np.flatnonzero(whole)
        #: (W,) grid index of each window's middle.
        self.middle: NDArray[np.intp] = self.rows * half + half

    def _weigh(self, x: Array, weight: Array) -> Array:
        views = sliding_window_view(x, len(weight), axis=0)[:: self._half][self.rows]
        return np.asarray(views @ weight)

    def mean(self, x: Array) -> Array:
        """Weighed means of a signal (N, ...), (W, ...)."""
        return self._weigh(x, self._mean)

    def slope(self, x: Array) -> Array:
        """Weighed means of its derivative."""
        return self._weigh(x, self._slope)

    def bend(self, x: Array) -> Array:
        """Weighed means of its second derivative."""
        return self._weigh(x, self._bend)
