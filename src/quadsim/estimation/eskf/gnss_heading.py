"""Heading by two antennas: the azimuth of their baseline in the world.

As in :mod:`~quadsim.estimation.eskf.gnss`, the kernel fuses at the state's own stamp and
returns REJECTED, ACCEPTED or IGNORED. A heading of which nothing is known is set by it.
"""

from __future__ import annotations

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.gnss import repetition
from quadsim.estimation.eskf.heading import HEADING_RECOVERY_S, turn_heading
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    GNSS_HEADING,
    IGNORED,
    REASON_BASELINE,
    THETA,
    Eskf,
)
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.update import rejected_for_s, update_scalar
from quadsim.geometry.rotation import quat, rotate, unrotate, wrap
from quadsim.geometry.vector import dot, store, vec3

#: A heading of a larger variance is not known, rad^2: even over the circle it is pi^2 / 3.
UNKNOWN_RAD2 = 1.0
#: Least square of the share of the baseline that is across the vertical.
LEAST_LEVEL2 = 0.01


@kernel
def baseline_S(state: Eskf, params: EstimatorParams) -> Vec3:
    """The baseline in the IMU's axes, m."""
    return unrotate(quat(state.q_BS), vec3(params.mount.baseline_B_m))


@kernel
def fuse_gnss_heading(
    state: Eskf, params: EstimatorParams, heading_rad: float, variance: float
) -> int:
    """Fuse the azimuth of the baseline from the first antenna to the second.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        heading_rad: from east, counter-clockwise.
        variance: rad^2; 0: unknown.
    """
    noise, heading = params.noise, state.heading
    if variance <= 0.0:
        variance = noise.gnss_heading_sigma_rad * noise.gnss_heading_sigma_rad
    if state.running == 0:
        window = state.alignment
        store(window.baseline_0, rotate(quat(window.q_0S), baseline_S(state, params)))
        window.baseline_rad, window.baseline_variance = heading_rad, variance
        state.baseline_ns = state.stamp_ns
        return ACCEPTED if state.imu_count > 0 else IGNORED
    b_W = rotate(quat(state.q_WS), baseline_S(state, params))
    level2 = b_W[0] * b_W[0] + b_W[1] * b_W[1]
    if level2 < LEAST_LEVEL2 * dot(b_W, b_W):
        return IGNORED
    off = wrap(heading_rad - atan2(b_W[1], b_W[0]))
    repeated = repetition(state.stamp_ns, state.baseline_ns, noise.gnss_heading_correlation_s)
    state.baseline_ns = state.stamp_ns
    if state.covariance[THETA + 2, THETA + 2] > UNKNOWN_RAD2 or state.local == 1:
        turn_heading(state, off, variance, REASON_BASELINE)
        return ACCEPTED
    h = state.h
    h[:] = 0.0
    h[THETA] = -b_W[2] * b_W[0] / level2
    h[THETA + 1] = -b_W[2] * b_W[1] / level2
    h[THETA + 2] = 1.0
    result = update_scalar(state, GNSS_HEADING, off, repeated * variance, params.gate.chi2_1)
    if result == ACCEPTED:
        heading.confirmed = 1
    elif heading.confirmed == 0 and rejected_for_s(state, GNSS_HEADING) > HEADING_RECOVERY_S:
        turn_heading(state, off, variance, REASON_BASELINE)
    return result
