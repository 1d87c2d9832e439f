"""How a signal goes from one value to another: rise, overshoot, settling, what is left.

Definitions as in Ogata, *Modern Control Engineering* (5th ed., 2010), section 5-3, but for the rise
time, which is from 10 to 90 % there for overdamped systems alone and here for all.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from quadsim.base.errors import InputError
from quadsim.sim.log import Array

#: Settled is what stays within this part of the step.
SETTLED = 0.02

#: Last part of the response, over which the steady-state error is taken.
STEADY_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class StepFigures:
    """Figures of a step response; None where the response never gets there.

    Attributes:
        rise_s: from 10 to 90 % of the step, first crossings.
        overshoot: beyond the goal at most, over the step; 0 for none.
        settling_s: from the step until it stays within the band for good.
        steady_error: goal minus mean of the last tenth of the response, in the signal's unit.
        itae: integral of time times the size of the error over the step, s^2.
    """

    rise_s: float | None
    overshoot: float
    settling_s: float | None
    steady_error: float
    itae: float

    def figures(self) -> dict[str, float | None]:
        """As JSON has them."""
        return asdict(self)


def _crossing(time_s: Array, share: Array, level: float) -> float | None:
    """When a signal first reaches a level, between samples by a straight line."""
    above = np.flatnonzero(share >= level)
    if not len(above):
        return None
    k = int(above[0])
    if k == 0:
        return float(time_s[0])
    part = (level - share[k - 1]) / (share[k] - share[k - 1])
    return float(time_s[k - 1] + part * (time_s[k] - time_s[k - 1]))


def _settling(time_s: Array, off: Array, band: float) -> float | None:
    """When a signal enters a band about its goal for the last time."""
    outside = np.flatnonzero(np.abs(off) > band)
    if not len(outside):
        return 0.0
    k = int(outside[-1])
    if k == len(off) - 1:
        return None
    part = (abs(off[k]) - band) / (abs(off[k]) - abs(off[k + 1]))
    return float(time_s[k] + part * (time_s[k + 1] - time_s[k]) - time_s[0])


def step_figures(time_s: Array, values: Array, start: float, goal: float) -> StepFigures:
    """Figures of one response.

    Args:
        time_s: (N,) rising; the step is at the first.
        values: (N,) of the signal.
        start: where it was.
        goal: where it is told to go; not ``start``.

    Raises:
        InputError: no step, too few samples, or a sample that is not finite.
    """
    if len(time_s) < 10 or len(time_s) != len(values):
        raise InputError(f"a step response of {len(values)} samples; it takes 10 or more")
    if goal == start or not np.all(np.isfinite(values)):
        raise InputError("a step response needs a goal that is not the start, and finite samples")
    share = (values - start) / (goal - start)
    low, high = _crossing(time_s, share, 0.1), _crossing(time_s, share, 0.9)
    last = values[-max(1, round(STEADY_SHARE * len(values))) :]
    error = np.abs(1.0 - share) * (time_s - time_s[0])
    return StepFigures(
        rise_s=None if low is None or high is None else high - low,
        overshoot=max(0.0, float(share.max()) - 1.0),
        settling_s=_settling(time_s, 1.0 - share, SETTLED),
        steady_error=float(goal - last.mean()),
        itae=float(np.sum(0.5 * (error[1:] + error[:-1]) * np.diff(time_s))),
    )
