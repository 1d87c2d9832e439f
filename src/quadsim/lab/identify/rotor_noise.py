"""What noise of the recorded rotor speeds does to a fit of motions that are predicted from them.

The noise makes a predicted motion drift, and its derivative by the figures with it. Both agree, so
that least squares prefers figures that damp the drift. The same noise once more, with either sign,
changes the gradient of the cost by as much again. :func:`quadsim.lab.identify.shooting.fit_figures`
takes that change off (corrected scores: T. Nakamura, *Corrected score function for
errors-in-variables models*, Biometrika 77, 1990; by simulated noise: S. J. Novick and L. A.
Stefanski, *Corrected score estimation via complex variable simulation extrapolation*, JASA 97,
2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from quadsim.lab.validate.recorded import COMMANDED, RecordedFlight

Array = NDArray[np.float64]

#: Third differences over such steps leave the noise of a rotor's speed, which its motor lets change
#: slowly, s. Shorter steps would see what interpolation onto the grid takes off.
STEP_S = 0.004
#: Deviation of third differences of white noise, and median of the size of normal noise.
GAIN, MEDIAN = 20.0**0.5, 0.6745


def rotor_noise(flight: RecordedFlight) -> Array:
    """(rotors,) deviation in rad/s of the white noise of the rotor speeds, where it flies.

    Commands have none: what is rough in them the motors were asked for.
    """
    known, every = flight.speed[flight.free], max(1, round(STEP_S / flight.dt_s))
    rows = len(known) // every
    if rows < 4 or COMMANDED in flight.notes:
        return np.zeros(known.shape[1])
    left = np.diff(known[: rows * every].reshape(rows, every, -1), 3, axis=0)
    return np.asarray(np.median(np.abs(left), axis=(0, 1)) / (MEDIAN * GAIN))


def with_noise_again(flights: Sequence[RecordedFlight]) -> list[list[RecordedFlight]]:
    """Flights with as much noise once more in the rotor speeds, added and subtracted."""
    rng = np.random.default_rng(0)
    again = [rotor_noise(each) * rng.normal(size=each.speed.shape) for each in flights]
    return [
        [replace(each, speed=each.speed + sign * n) for each, n in zip(flights, again, strict=True)]
        for sign in (1.0, -1.0)
    ]
