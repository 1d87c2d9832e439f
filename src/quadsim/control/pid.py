"""Parts of PID loops: the integral that does not wind up, the low-pass, the derivative."""

from __future__ import annotations

import math

from quadsim.base.compiled import inline, kernel
from quadsim.base.elementary import exp

#: Steps that a loop takes for what they are; a first step of zero or one after a gap are not.
LEAST_STEP_S, MOST_STEP_S = 1e-4, 0.1


@inline
def clamp(value: float, lowest: float, highest: float) -> float:
    """The value, or the bound it passes."""
    return min(max(value, lowest), highest)


@inline
def integral_step(
    integral: float, error: float, gain: float, cut: float, limit: float, dt_s: float
) -> float:
    """Advance the integral part by one step, unless the actuator is already short of it.

    Conditional integration (Astrom and Hagglund, *Advanced PID Control*, 2006, section 3.5): while
    the real actuator gives less than what was asked, an error that asks for still more is not
    integrated; one that leads out of the saturation is.

    Args:
        integral: integral part of the output, in the output's unit.
        error: wanted minus actual.
        gain: integral gain, output per error and second.
        cut: output asked for minus output that the actuator gave, in the last step.
        limit: largest size of the integral part.
        dt_s: length of the step.
    """
    if cut * error > 0.0:
        return clamp(integral, -limit, limit)
    return clamp(integral + gain * error * dt_s, -limit, limit)


@kernel
def low_pass_weight(cutoff_hz: float, dt_s: float) -> float:
    """Weight of a new sample in a first-order low-pass, exact for a signal held over the step."""
    return 1.0 - exp(-2.0 * math.pi * cutoff_hz * dt_s)


@inline
def low_pass(filtered: float, sample: float, weight: float) -> float:
    """One step of a first-order low-pass; ``weight`` from :func:`low_pass_weight`."""
    return filtered + weight * (sample - filtered)


@inline
def rate_of_change(filtered_before: float, filtered: float, dt_s: float) -> float:
    """Derivative of a low-passed signal by its last difference."""
    return (filtered - filtered_before) / dt_s


@kernel
def limit_horizontal(x: float, y: float, limit: float) -> tuple[float, float]:
    """Shorten a horizontal vector to a length in the same direction."""
    size = math.sqrt(x * x + y * y)
    if size <= limit:
        return (x, y)
    return (x * limit / size, y * limit / size)
