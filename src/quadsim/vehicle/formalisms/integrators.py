"""Explicit Runge-Kutta methods for x' = f(x), written once for every model that fits the signature.

``derivative(x, model, x_dot)`` writes the derivative; ``model`` is whatever it needs. The stages
are a loop, so that the derivative is compiled into a step once and not once a stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, template

Array = NDArray[np.float64]
Derivative = Callable[[Array, Any, Array], None]


@kernel
def steps_within(interval_ns: int, longest_ns: int) -> int:
    """How many equal steps, none longer than the longest, fill an interval."""
    return int(-(-interval_ns // longest_ns))


@template
def mean_derivative(
    derivative: Derivative, x: Array, model: Any, dt_s: float, stages: int, scratch: Array
) -> Array:
    """What an explicit method takes for the mean derivative over one step from x.

    One stage is Euler's method, of first order. Four are the classical method of fourth order (W.
    Kutta, Z. Math. Phys. 46, 1901; Hairer, Norsett and Wanner, *Solving ODEs I*, II.1).

    Args:
        derivative: see above.
        x: (n,) state at the start of the step.
        model: see above.
        dt_s: length of the step.
        stages: 1 or 4.
        scratch: (3, at least n) working memory.

    Returns:
        The mean, in ``scratch[0]``.
    """
    mean: Array = scratch[0]
    slope, probe = scratch[1], scratch[2]
    n = x.shape[0]
    for i in range(n):
        mean[i] = 0.0
        slope[i] = 0.0
        probe[i] = x[i]
    for stage in range(stages):
        inner = stages == 4 and (stage == 1 or stage == 2)
        weight = 1.0 if stages == 1 else (1.0 / 3.0 if inner else 1.0 / 6.0)
        next_s = dt_s if stage == 2 else 0.5 * dt_s
        derivative(probe, model, slope)
        for i in range(n):
            mean[i] += weight * slope[i]
            probe[i] = x[i] + next_s * slope[i]
    return mean
