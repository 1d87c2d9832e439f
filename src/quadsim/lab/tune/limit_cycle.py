"""The limit cycle of a loop under a relay: its ultimate gain and period.

Astrom and Hagglund, "Automatic tuning of simple regulators with specifications on phase and
amplitude margins", *Automatica* 20(5), 1984: with a relay of amplitude d and hysteresis h instead
of a controller, a process oscillates at about its ultimate period, and its ultimate gain is
4 d / (pi sqrt(a^2 - h^2)) by the describing function, a the amplitude of its signal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quadsim.sim.log import Array

#: Cycles that a flight has at least, of which the last are judged.
CYCLES, JUDGED = 14, 8
#: Periods of a limit cycle differ by less than this part.
REGULAR = 0.3


@dataclass(frozen=True, slots=True)
class LimitCycle:
    """What a relay experiment tells.

    Attributes:
        gain: ultimate gain, output over signal.
        period_s: ultimate period.
        amplitude: of the signal.
        output: amplitude of the relay's output.
        hysteresis: of the relay.
        axis: of the body or of the world.
    """

    gain: float
    period_s: float
    amplitude: float
    output: float
    hysteresis: float
    axis: int = 0


def limit_cycle(
    signal: Array, output: Array, dt_s: float, hysteresis: float, axis: int = 0
) -> LimitCycle | None:
    """Judge the last cycles of a relay experiment.

    The amplitude is that of the signal's first harmonic, which is what the describing function
    means, and which noise does not widen.

    Args:
        signal: (N,) what the relay looked at.
        output: (N,) what it gave, two values.
        dt_s: time between samples.
        hysteresis: of the relay.
        axis: to be kept.

    Returns:
        None where there are too few cycles, or irregular ones.
    """
    rises = np.flatnonzero((output[1:] > 0.0) & (output[:-1] < 0.0)) + 1
    if len(rises) < CYCLES:
        return None
    rises = rises[-(JUDGED + 1) :]
    periods = np.diff(rises)
    if np.ptp(periods) > max(REGULAR * periods.mean(), 2.0):
        return None
    rows = slice(rises[0], rises[-1])
    count = rises[-1] - rises[0]
    turns = np.exp(-2j * np.pi * JUDGED * np.arange(count) / count)
    amplitude = float(2.0 * abs(np.mean((signal[rows] - signal[rows].mean()) * turns)))
    size = float(np.abs(output[rows]).max())
    if amplitude <= hysteresis:
        return None
    return LimitCycle(
        gain=4.0 * size / (math.pi * math.sqrt(amplitude**2 - hysteresis**2)),
        period_s=float(periods.mean() * dt_s),
        amplitude=amplitude,
        output=size,
        hysteresis=hysteresis,
        axis=axis,
    )


def describe(cycle: LimitCycle) -> dict[str, float]:
    """As JSON has it."""
    return {
        "ultimate_gain": cycle.gain,
        "ultimate_period_s": cycle.period_s,
        "amplitude": cycle.amplitude,
        "relay": cycle.output,
        "hysteresis": cycle.hysteresis,
    }
