"""Kinds of errors that a sensor's parameters are the sizes of, declared with each parameter.

``quadsim sensors check`` measures a parameter by its kind
(:data:`quadsim.lab.sensor_check.experiments.TERMS`).

How warm a sensor is: the air's temperature and its own heating after switch-on.

Where a sensor sits on the vehicle: its frame S in ``base_link``.

When a sample is taken, what its stamp states, and when (and whether) it is published.

Events by chance, from the same normal numbers that make the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, kernel
from quadsim.base.elementary import atan2, exp
from quadsim.base.parameters import IsDataclass, Spec, Vec3
from quadsim.geometry.linear import applied
from quadsim.geometry.rotation import from_euler, to_matrix

#: Always the same, once what it acts on is shown: bias, scale, misalignment, limit.
Constant = partial(Spec, term="constant")
#: Drawn anew for each unit or at each switch-on.
TurnOn = partial(Spec, term="turn-on")
#: Deviation of white noise, of a sample.
White = partial(Spec, term="white")
#: Density of white noise.
WhiteDensity = partial(Spec, term="white density")
#: Density of a random walk.
RandomWalk = partial(Spec, term="random walk")
#: Deviation of a Gauss-Markov process; its correlation time is ``<name>_time_s``.
GaussMarkov = partial(Spec, term="Gauss-Markov")
#: Distance of the counts.
Quantisation = partial(Spec, term="quantisation")
#: Probability that a reading is missed.
Dropout = partial(Spec, term="dropout")
#: Time constant of a first-order lag.
Lag = partial(Spec, term="lag")
#: How far a sensor warms itself.
WarmingUp = partial(Spec, term="warm-up")
#: Attitude of the sensor on the vehicle.
Turn = partial(Spec, term="rotation")
#: Samples a second.
Rate = partial(Spec, term="rate")
#: From the sample to its publication.
Delay = partial(Spec, term="latency")
#: Deviation of the stamp.
Jitter = partial(Spec, term="jitter")
#: Probability that a sample is lost.
Loss = partial(Spec, term="loss")


@kernel
def warmth_K(ambient_offset_K: float, warm_up_K: float, warm_up_s: float, age_s: float) -> float:
    """Temperature of a sensor over that of its calibration, ``age_s`` after switch-on."""
    if warm_up_K == 0.0:
        return ambient_offset_K
    return ambient_offset_K + warm_up_K * (1.0 - exp(-age_s / warm_up_s))


Position = Annotated[Vec3, Constant("origin of the sensor in base_link", "m", ge=-10.0, le=10.0)]
Rotation = Annotated[
    Vec3, Turn("roll, pitch, yaw of the sensor in base_link", "deg", ge=-360.0, le=360.0)
]


class Mounted(Protocol):
    """State of a sensor that may sit at any attitude."""

    q_BS: Array


def set_mount(state: Mounted, rotation_deg: Vec3) -> None:
    """Write the attitude of the sensor, q_BS, into its state."""
    roll, pitch, yaw = (math.radians(angle) for angle in rotation_deg)
    state.q_BS[:] = from_euler(roll, pitch, yaw)


def deviation_S(rotation_deg: Vec3, deviation_B: Vec3) -> NDArray[np.float64]:
    """Deviation on each sensor axis, (3,), of noise that is independent on the body's axes."""
    roll, pitch, yaw = (math.radians(angle) for angle in rotation_deg)
    R_BS = np.array(to_matrix(from_euler(roll, pitch, yaw)))
    variance_S: NDArray[np.float64] = applied(np.square(R_BS).T, np.square(deviation_B))
    return np.sqrt(variance_S)


@dataclass(frozen=True)
class DeliveredParams:
    """How the samples of any sensor are stamped and delivered."""

    latency_s: Annotated[
        float, Delay("from the sample's stamp to its publication", "s", ge=0.0, le=0.5)
    ] = 0.0
    stamp_jitter_s: Annotated[
        float,
        Jitter("deviation of the stamp from the true time of the sample", "s", ge=0.0, le=0.01),
    ] = 0.0
    loss_probability: Annotated[
        float, Loss("that a sample never reaches anybody", "1", ge=0.0, le=1.0)
    ] = 0.0


@dataclass(frozen=True)
class WarmedParams(DeliveredParams):
    """A sensor whose error depends on its temperature, too."""

    ambient_offset_K: Annotated[
        float, Constant("air, over the temperature of the calibration", "K", ge=-100.0, le=100.0)
    ] = 0.0
    warm_up_K: Annotated[
        float, WarmingUp("how far the sensor warms itself after switch-on", "K", ge=0.0, le=100.0)
    ] = 0.0
    warm_up_s: Annotated[float, Spec("time constant of that", "s", gt=0.0, le=1e5)] = 300.0


#: Standard normal numbers that timing takes, after the model's own: stamp and loss.
TIMING_WHITE = 2

#: A stamp is off by less than half a period, so that stamps always rise.
LARGEST_JITTER = 0.45


class SensorParams(IsDataclass, Protocol):
    """Parameters that every sensor has."""

    @property
    def rate_hz(self) -> float:
        """Samples a second."""
        ...

    @property
    def latency_s(self) -> float:
        """From a sample's stamp to its publication."""
        ...

    @property
    def stamp_jitter_s(self) -> float:
        """Deviation of the stamp."""
        ...

    @property
    def loss_probability(self) -> float:
        """That a sample is lost."""
        ...


@kernel
def due(period_ns: int, previous_ns: int, now_ns: int) -> bool:
    """Whether a multiple of the period lies in (previous, now]."""
    return now_ns % period_ns < now_ns - previous_ns


@kernel
def stamp_of_sample(jitter_s: float, now_ns: int, period_ns: int, white: float) -> int:
    """What the stamp of a sample taken now reports: normal jitter, cut below half a period."""
    bound_ns = LARGEST_JITTER * period_ns
    error_ns = jitter_s * 1e9 * white
    return int(now_ns + round(min(max(error_ns, -bound_ns), bound_ns)))


@kernel
def is_lost(probability: float, white: float) -> bool:
    """Whether a sample is lost: the normal number lies in its lowest part of that probability."""
    return probability > 0.0 and 0.5 * math.erfc(-white / math.sqrt(2.0)) < probability


@kernel
def uniform(a: float, b: float) -> float:
    """Uniform number in [0, 1) from two standard normal ones: the angle that they make.

    A common factor changes nothing: a fault that makes the noise louder makes no event likelier.
    """
    if a == 0.0 and b == 0.0:
        return 0.5  # silenced noise: no direction, and no event
    return (atan2(a, b) / (2.0 * math.pi)) % 1.0


@kernel
def share_of_time(rate_hz: float, mean_s: float) -> float:
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
    stationary = share_of_time(rate_hz, mean_s)
    decay = exp(-(rate_hz + 1.0 / mean_s) * dt_s)
    return 1 if chance < stationary + (on - stationary) * decay else 0
