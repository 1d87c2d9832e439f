"""Explicit integrators of x' = f(x), written once for every model that fits the signature.

``f(x, inputs, params, environment, x_dot)`` writes the derivative; ``scratch`` is (5, n) working
memory. They are inlined, so that each model gets its own compiled step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import inlined_kernel, kernel

Array = NDArray[np.float64]
Derivative = Callable[[Array, Any, Any, Any, Array], None]


@kernel
def steps_within(interval_ns: int, longest_ns: int) -> int:
    """How many equal steps, none longer than the longest, fill an interval."""
    return int(-(-interval_ns // longest_ns))


@inlined_kernel
def rk4_step(
    derivative: Derivative,
    x: Array,
    inputs: Any,
    params: Any,
    environment: Any,
    dt_s: float,
    scratch: Array,
) -> None:
    """Advance x by one step of the classical Runge-Kutta method of fourth order, in place.

    Source: W. Kutta, Z. Math. Phys. 46, 1901; Hairer, Norsett and Wanner, *Solving ODEs I*, II.1.
    """
    k1, k2, k3, k4, probe = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    n = x.shape[0]
    derivative(x, inputs, params, environment, k1)
    for i in range(n):
        probe[i] = x[i] + 0.5 * dt_s * k1[i]
    derivative(probe, inputs, params, environment, k2)
    for i in range(n):
        probe[i] = x[i] + 0.5 * dt_s * k2[i]
    derivative(probe, inputs, params, environment, k3)
    for i in range(n):
        probe[i] = x[i] + dt_s * k3[i]
    derivative(probe, inputs, params, environment, k4)
    for i in range(n):
        x[i] += dt_s / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i])
