"""Whether the filter is to hear that the vehicle stands: it is said so, and the IMU is still."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import vec3

STAND_PERIOD_NS = 100_000_000
#: A vehicle that stands still turns and is accelerated less than this in the mean of that time.
STILL_RATE_RADPS, STILL_FORCE_MPS2 = 0.1, 0.5

#: ``said``: 1 while somebody says that it stands; sums of the IMU since ``begin_ns``.
STANDING = record_dtype(
    [
        ("said", np.int64),
        ("begin_ns", np.int64),
        ("count", np.int64),
        ("f_sum_S", np.float64, (3,)),
        ("w_sum_S", np.float64, (3,)),
    ]
)


@kernel
def begin_standing(standing: Any, stamp_ns: int) -> None:
    """Begin a new mean."""
    standing.begin_ns = stamp_ns
    standing.count = 0
    standing.f_sum_S[:] = 0.0
    standing.w_sum_S[:] = 0.0


@kernel
def say_standing(standing: Any, said: int) -> None:
    """Take what somebody says of it: 1, it stands."""
    if said != standing.said:
        standing.said = said
        begin_standing(standing, 0)


@kernel
def mean_size(total: Any, count: int) -> float:
    """Length of a mean vector."""
    x, y, z = total[0] / count, total[1] / count, total[2] / count
    return math.sqrt(x * x + y * y + z * z)


@kernel
def stands(standing: Any, gravity_mps2: float, stamp_ns: int, f_S: Vec3, w_S: Vec3) -> bool:
    """Take an IMU sample; true ten times a second while the vehicle stands.

    Args:
        standing: STANDING record.
        gravity_mps2: as the filter has it.
        stamp_ns: of the sample.
        f_S: m/s^2.
        w_S: rad/s.
    """
    if standing.said == 0:
        return False
    if not 0 <= stamp_ns - standing.begin_ns < 10 * STAND_PERIOD_NS:
        begin_standing(standing, stamp_ns)
    for i in range(3):
        standing.f_sum_S[i] += f_S[i]
        standing.w_sum_S[i] += w_S[i]
    standing.count += 1
    if stamp_ns - standing.begin_ns < STAND_PERIOD_NS:
        return False
    rate = mean_size(standing.w_sum_S, standing.count)
    force = mean_size(standing.f_sum_S, standing.count)
    begin_standing(standing, stamp_ns)
    return rate < STILL_RATE_RADPS and abs(force - gravity_mps2) < STILL_FORCE_MPS2


@kernel
def node_stands(standings: Any, gravity_mps2: float, stamp_ns: int, f_S: Any, w_S: Any) -> bool:
    """The same from Python: of a (1,) array, which goes into compiled code faster than a record."""
    return stands(standings[0], gravity_mps2, stamp_ns, vec3(f_S), vec3(w_S))
