"""Events by chance, from the same normal numbers that make the noise."""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, exp


@kernel
def uniform(a: float, b: float) -> float:
    """Uniform number in [0, 1) from two standard normal ones: the angle that they make.

    A common factor changes nothing: a fault that makes the noise louder makes no event likelier.
    """
    if a == 0.0 and b == 0.0:
        return 0.5  # silenced noise: no direction, and no event
    return (atan2(a, b) / (2.0 * math.pi)) % 1.0


@kernel
def share(rate_hz: float, mean_s: float) -> float:
    """Share of the time that a state lasts which begins at a rate and ends after a mean time."""
    return rate_hz * mean_s / (1.0 + rate_hz * mean_s)


@kernel
def next_state(on: int, rate_hz: float, mean_s: float, dt_s: float, chance: float) -> int:
    """Go on in a two-state Markov process: exact for any interval.

    Ross, *Stochastic Processes*, 2nd ed., 1996, example 5.4(A).

    Args:
        on: 1 in the state, 0 outside of it.
        rate_hz: at which it begins, outside of it; 0: never.
        mean_s: how long it lasts, in the mean.
        dt_s: time that passes.
        chance: a uniform number.
    """
    if rate_hz <= 0.0 or mean_s <= 0.0:
        return 0
    stationary = share(rate_hz, mean_s)
    kept = exp(-(rate_hz + 1.0 / mean_s) * dt_s)
    return 1 if chance < stationary + (on - stationary) * kept else 0
