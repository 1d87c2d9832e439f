"""How late GNSS stamps are: a state of the filter, and whether the estimate given out rests on it.

A receiver without a time pulse stamps a fix when it arrives, 0.05 to 0.2 s late; others are exact.
The offset is estimated all along. What is given out is the estimate for exact stamps until the data
contradict them: the mean and covariance under the condition that the offset is zero, which the
joint estimate holds, x - P_xt t / P_tt and P - P_xt P_tx / P_tt. So a receiver with exact stamps
costs nothing, and small offsets of an IMU's own clock do not move the position.
"""

from __future__ import annotations

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.layout import GNSS_TIME, Eskf

#: A stamp that is later than its fix counts beyond so many deviations (one chance in four thousand)
#: and this time, and no more below the half.
COUNTS_SIGMAS, COUNTS_S = 3.5, 0.03


@kernel
def judge_time(state: Eskf) -> None:
    """Decide whether the offset counts."""
    off, variance = state.gnss_time_s, state.covariance[GNSS_TIME, GNSS_TIME]
    part = 0.5 if state.gnss_time_counts == 1 else 1.0
    decided = off * off > part * part * COUNTS_SIGMAS * COUNTS_SIGMAS * variance
    state.gnss_time_counts = 1 if decided and off > part * COUNTS_S else 0


@kernel
def column(covariance: Array, at: int) -> Vec3:
    """Covariance of three numbers of the error state with the time offset."""
    return (
        covariance[at, GNSS_TIME], covariance[at + 1, GNSS_TIME], covariance[at + 2, GNSS_TIME]
    )  # fmt: skip


@kernel
def without_time(state: Eskf) -> tuple[float, float]:
    """Factors of the covariance with the offset, for the estimate that is given out.

    Returns:
        That which the mean moves by, and that which its product is taken off the covariance by; 0
        where the offset counts or is no state.
    """
    variance = state.covariance[GNSS_TIME, GNSS_TIME]
    if state.gnss_time_counts == 1 or variance <= 0.0:
        return 0.0, 0.0
    return -state.gnss_time_s / variance, 1.0 / variance
