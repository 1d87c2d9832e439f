"""Explicit Runge-Kutta methods for x' = f(x), written once for every model that fits the signature.

``derivative(x, model, x_dot)`` writes the derivative; ``model`` is whatever it needs. The stages
are a loop, so that the derivative is compiled into a step once and not once a stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import template

Array = NDArray[np.float64]
Derivative = Callable[[Array, Any, Array], None]


#: Stages of the classical method of fourth order (W. Kutta, Z. Math. Phys. 46, 1901; Hairer,
#: Norsett and Wanner, *Solving ODEs I*, II.1) and of Euler's: the weight of each slope in the mean,
#: and the share of the step at which the next one is taken.
KUTTA = ((1.0 / 6.0, 0.5), (1.0 / 3.0, 0.5), (1.0 / 3.0, 1.0), (1.0 / 6.0, 0.0))
EULER = ((1.0, 0.0),)


@template
def mean_derivative(
    derivative: Derivative, x: Array, model: Any, dt_s: float, stages: int, scratch: Array
) -> Array:
    """What an explicit method takes for the mean derivative over one step from x.

    Args:
        derivative: see above.
        x: (n,) state at the start of the step.
        model: see above.
        dt_s: length of the step.
        stages: 4 by :data:`KUTTA`, 1 by :data:`EULER`.
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
        weight, ahead = KUTTA[stage] if stages == 4 else EULER[0]
        derivative(probe, model, slope)
        for i in range(n):
            mean[i] += weight * slope[i]
        if ahead > 0.0:
            for i in range(n):
                probe[i] = x[i] + ahead * dt_s * slope[i]
    return mean
