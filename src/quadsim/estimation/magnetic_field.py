"""The magnetic field in 3-D: its direction about the vertical (heading), and its inclination.

Two scalars say all that a field says of an attitude (its strength says nothing). They are kept
apart for their errors differ: what disturbs the horizontal direction of a magnetometer on a
vehicle (declination, currents, what is called heading noise) leaves the vertical part alone.
"""

from __future__ import annotations

import math
from typing import Any

from quadsim.compiled import kernel
from quadsim.estimation.layout import (
    ACCEPTED,
    FIELD,
    FIELD_BIAS,
    IGNORED,
    INCLINATION,
    MAGNETIC_FIELD,
    THETA,
)
from quadsim.estimation.measurements import repetition
from quadsim.estimation.update import update_scalar
from quadsim.estimation.window import add_field
from quadsim.geometry.rotation import quat, rotate, to_matrix, wrap
from quadsim.geometry.vector import norm, subtract, vec3
from quadsim.parameters import Vec3

#: Time over which the field's strength is averaged, and how long a disturbance of it lasts.
DISTURBANCE_S = 10.0
#: How many headings the default of an unknown noise counts for, and the least that is believed.
HEADING_PRIOR = 10
LEAST_HEADING_RAD = 0.03


@kernel
def disturbance(state: Any, m_S: Vec3) -> float:
    """Variance that a disturbed field adds to its vertical part, T^2.

    A field that is too strong or too weak on average carries iron or a current: its error on
    another axis is taken to be as large, and to stay as it is.
    """
    dt_s = (state.stamp_ns - state.field_ns) * 1e-9
    before_ns, state.field_ns = state.field_ns, state.stamp_ns
    state.field_count += 1
    error_T = norm(m_S) - norm(vec3(state.field_W_T))
    part = max(1.0 / state.field_count, min(dt_s / DISTURBANCE_S, 1.0))
    state.strength_error_T += part * (error_T - state.strength_error_T)
    mean_T = state.strength_error_T
    return float(mean_T * mean_T * repetition(state.stamp_ns, before_ns, DISTURBANCE_S))


@kernel
def eskf_magnetic_field(
    state: Any, params: Any, m_S: Vec3, heading_variance: float, vertical_variance: float
) -> int:
    """Fuse a magnetic field, less its bias, as heading and as vertical part.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        m_S: (3,) T.
        heading_variance: rad^2; zero: unknown.
        vertical_variance: of the part along the vertical, T^2; zero: unknown.

    Returns:
        What became of the heading.
    """
    noise = params.noise
    default = noise.heading_sigma_rad * noise.heading_sigma_rad
    if vertical_variance == 0.0:
        vertical_variance = noise.field_sigma_T * noise.field_sigma_T
    if state.running == 0 and state.imu_count == 0:
        return IGNORED
    if state.running == 0 or state.realigning == 1:
        add_field(state.alignment, m_S, heading_variance if heading_variance > 0.0 else default)
    if state.running == 0:
        return ACCEPTED
    result = fuse_heading(state, params, m_S, heading_variance)
    if params.fusion.magnetic_inclination == 1:
        if params.start.field_bias_T == 0.0:  # no state for it
            vertical_variance += disturbance(state, m_S)
        fuse_inclination(state, params, m_S, vertical_variance)
    return result


@kernel
def learn_heading(state: Any, params: Any, innovation: float) -> float:
    """Variance of a heading whose message states none, from the innovations of those before.

    Their mean square over ten seconds, from the default on. It holds the estimate's own error too,
    and a disturbance that stays: it claims too little, never too much.
    """
    default = params.noise.heading_sigma_rad * params.noise.heading_sigma_rad
    if state.heading_count == 0:
        state.heading_variance = default
        state.heading_ns = state.stamp_ns
    dt_s = (state.stamp_ns - state.heading_ns) * 1e-9
    variance = max(float(state.heading_variance), LEAST_HEADING_RAD * LEAST_HEADING_RAD)
    state.heading_ns = state.stamp_ns
    state.heading_count += 1
    part = max(1.0 / (HEADING_PRIOR + state.heading_count), min(dt_s / DISTURBANCE_S, 1.0))
    state.heading_variance += part * (innovation * innovation - state.heading_variance)
    return variance


@kernel
def fuse_heading(state: Any, params: Any, m_S: Vec3, variance: float) -> int:
    """Fuse the field's horizontal direction, levelled by the estimated tilt.

    The heading so levelled depends on the tilt too; both columns are kept, else a tilt error
    becomes a heading error the filter knows nothing of. They are taken at the reference field, not
    at the measured one: a row of H that carries the same noise as the innovation gives the tilt a
    bias of the noise's variance.
    """
    q_WS = quat(state.q_WS)
    x, y, z = rotate(q_WS, subtract(m_S, vec3(state.field_bias_S_T)))
    if x * x + y * y < 0.01 * (x * x + y * y + z * z):
        return IGNORED  # nearly vertical: no heading in it
    east, north, up = vec3(state.field_W_T)
    innovation = wrap(math.atan2(north, east) - math.atan2(y, x))
    if variance == 0.0:
        variance = learn_heading(state, params, innovation)
    horizontal2 = east * east + north * north
    row = state.row
    row[:] = 0.0
    row[THETA] = -up * east / horizontal2
    row[THETA + 1] = -up * north / horizontal2
    row[THETA + 2] = 1.0
    # a change of the field by d turns its direction by (east dy - north dx) / h^2
    R = to_matrix(q_WS)
    for k in range(3):
        row[FIELD_BIAS + k] = (north * R[0][k] - east * R[1][k]) / horizontal2
    row[FIELD] = north / horizontal2
    row[FIELD + 1] = -east / horizontal2
    return update_scalar(state, MAGNETIC_FIELD, innovation, variance, params.gate.chi2_1)


@kernel
def fuse_inclination(state: Any, params: Any, m_S: Vec3, variance: float) -> int:
    """Fuse the field's vertical part: it tells the tilt about the field's horizontal direction.

    The row is taken at the measured field, whose horizontal direction is the true one of this
    sample; its noise is that of other axes than the vertical, so it leaves no bias in the tilt.
    """
    q_WS = quat(state.q_WS)
    x, y, z = rotate(q_WS, subtract(m_S, vec3(state.field_bias_S_T)))
    row = state.row
    row[:] = 0.0
    row[THETA] = y
    row[THETA + 1] = -x
    up_S = to_matrix(q_WS)[2]
    for k in range(3):
        row[FIELD_BIAS + k] = -up_S[k]
    row[FIELD + 2] = -1.0
    innovation = state.field_W_T[2] - z
    return update_scalar(state, INCLINATION, innovation, variance, params.gate.chi2_1)
