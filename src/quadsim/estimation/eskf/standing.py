"""Whether the filter is to hear that the vehicle stands: it is stated, and the IMU is still."""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, Record, Records, Vector, kernel
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.geometry.vector import vec3

STAND_PERIOD_NS = 100_000_000
#: A vehicle that stands still turns and is accelerated less than this in the mean of that time.
STILL_RATE_RADPS, STILL_FORCE_MPS2 = 0.1, 0.5


class StandingSums(Record):
    """``stated``: 1 while somebody reports that it stands; sums of the IMU since ``begin_ns``."""

    stated: int
    begin_ns: int
    count: int
    f_sum_S: Vector
    w_sum_S: Vector


STANDING = dtype_of(StandingSums)


@kernel
def begin_standing(standing: StandingSums, stamp_ns: int) -> None:
    """Begin a new mean."""
    standing.begin_ns = stamp_ns
    standing.count = 0
    standing.f_sum_S[:] = 0.0
    standing.w_sum_S[:] = 0.0


@kernel
def say_standing(standing: StandingSums, stated: int) -> None:
    """Take what somebody reports of it: 1, it stands."""
    if stated != standing.stated:
        standing.stated = stated
        begin_standing(standing, 0)


@kernel
def mean_size(total: Array, count: int) -> float:
    """Length of a mean vector."""
    x, y, z = total[0] / count, total[1] / count, total[2] / count
    return math.sqrt(x * x + y * y + z * z)


@kernel
def stands(
    standing: StandingSums, gravity_mps2: float, stamp_ns: int, f_S: Vec3, w_S: Vec3
) -> bool:
    """Take an IMU sample; true ten times a second while the vehicle stands.

    Args:
        standing: STANDING record.
        gravity_mps2: as the filter has it.
        stamp_ns: of the sample.
        f_S: m/s^2.
        w_S: rad/s.
    """
    if standing.stated == 0:
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
def node_stands(
    standings: Records[StandingSums], gravity_mps2: float, stamp_ns: int, f_S: Array, w_S: Array
) -> bool:
    """The same from Python: of a (1,) array, which goes into compiled code faster than a record."""
    return stands(standings[0], gravity_mps2, stamp_ns, vec3(f_S), vec3(w_S))
