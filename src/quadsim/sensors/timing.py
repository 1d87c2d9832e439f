"""When a sample is taken, what its stamp says, and when (and whether) it is published."""

from __future__ import annotations

import math
from typing import Annotated, Protocol

from quadsim.base.compiled import kernel
from quadsim.base.parameters import IsDataclass, Spec

Latency = Annotated[float, Spec("from the sample's stamp to its publication", "s", ge=0.0, le=0.5)]
StampJitter = Annotated[
    float, Spec("deviation of the stamp from the true time of the sample", "s", ge=0.0, le=0.01)
]
LossProbability = Annotated[float, Spec("that a sample never reaches anybody", "1", ge=0.0, le=1.0)]

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
    return now_ns // period_ns > previous_ns // period_ns


@kernel
def stamp_of_sample(params: SensorParams, now_ns: int, period_ns: int, white: float) -> int:
    """What the stamp of a sample taken now says: normal jitter, cut below half a period."""
    bound_ns = LARGEST_JITTER * period_ns
    error_ns = params.stamp_jitter_s * 1e9 * white
    return int(now_ns + round(min(max(error_ns, -bound_ns), bound_ns)))


@kernel
def is_lost(probability: float, white: float) -> bool:
    """Whether a sample is lost: the normal number lies in its lowest part of that probability."""
    return probability > 0.0 and 0.5 * math.erfc(-white / math.sqrt(2.0)) < probability
