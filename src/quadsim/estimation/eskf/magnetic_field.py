"""The magnetic field in 3-D: its direction about the vertical (heading), and its inclination.

Two scalars hold all that a field tells of an attitude (its strength tells nothing). They are
separate for their errors differ: what disturbs the horizontal direction of a field sensor on a
vehicle (declination, currents, what is called heading noise) leaves the vertical part alone.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.covariance import times_row
from quadsim.estimation.eskf.gnss import repetition
from quadsim.estimation.eskf.heading import (
    field_limit,
    misfit,
    see_accepted_field,
    see_rejected_field,
    tells_heading,
    unusual,
)
from quadsim.estimation.eskf.layout import (
    ACCEPTED,
    FIELD,
    FIELD_BIAS,
    IGNORED,
    INCLINATION,
    MAGNETIC_FIELD,
    REJECTED,
    THETA,
    Eskf,
)
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.start_window import add_field, scale_errors
from quadsim.estimation.eskf.update import update_scalar
from quadsim.geometry.rotation import (
    conjugate,
    log,
    multiply,
    quat,
    rotate,
    to_matrix,
    unrotate,
    wrap,
)
from quadsim.geometry.vector import cross, norm, scale, store, subtract, vec3

#: Time over which the field's strength is averaged, and how long a disturbance of it lasts.
DISTURBANCE_S = 10.0
#: A turn that counts as one for the errors of scale and axes: less is unrest.
FIELD_TURN_RAD = 0.1
#: Time over which what is off in strength and inclination is averaged, s.
MISFIT_MEAN_S = 1.0
#: How many headings the default of an unknown noise counts for, and the least that is assumed.
HEADING_PRIOR = 10
LEAST_HEADING_RAD = 0.03


@kernel
def has_bias(params: EstimatorParams) -> bool:
    """Whether the measured field's bias is a state that is not known."""
    offset_T, noise = params.start.field_bias_T, params.noise
    return bool(offset_T > 0.0 or noise.field_scale > 0.0 or noise.field_axes > 0.0)


@kernel
def disturbance(state: Eskf, m_S: Vec3, before_ns: int) -> float:
    """Variance that a disturbed field adds to its vertical part, T^2.

    A field that is too strong or too weak on average carries iron or a current: its error on
    another axis is taken to be as large, and to stay as it is.
    """
    dt_s = (state.stamp_ns - before_ns) * 1e-9
    state.field_count += 1
    error_T = norm(m_S) - norm(vec3(state.field_W_T))
    part = max(1.0 / state.field_count, min(dt_s / DISTURBANCE_S, 1.0))
    state.strength_error_T += part * (error_T - state.strength_error_T)
    mean_T = state.strength_error_T
    return float(mean_T * mean_T * repetition(state.stamp_ns, before_ns, DISTURBANCE_S))


@kernel
def turn_field_errors(state: Eskf, params: EstimatorParams) -> float:
    """Errors of the field sensor's scale and axes, as the field turns in its axes.

    They are a constant matrix times the field, so at one attitude an offset, which the bias's
    state knows. Turned by an angle t about any axis, the field moves by a chord, 2 m sin(t/2) with
    m its part across the axis, and the offset by the errors of that. A random walk of 4/pi of the
    errors of m a radian has the same variance at a quarter and at half a turn.

    Returns:
        1 where they changed, else 0.
    """
    noise = params.noise
    q_WS, before = quat(state.q_WS), quat(state.field_q_WS)
    if before == (0.0, 0.0, 0.0, 0.0):
        store(state.field_q_WS, q_WS)
        return 0.0
    turn = log(multiply(conjugate(before), q_WS))
    angle = norm(turn)
    if state.n <= FIELD_BIAS or angle < FIELD_TURN_RAD:
        return 0.0
    store(state.field_q_WS, q_WS)
    across_S = scale(1.0 / angle, cross(turn, unrotate(q_WS, vec3(state.field_W_T))))
    variance = scale_errors(across_S, noise.field_scale, noise.field_axes)
    for i in range(3):
        state.covariance[FIELD_BIAS + i, FIELD_BIAS + i] += 4.0 / math.pi * angle * variance[i]
    return 1.0


@kernel
def misfit_variance(state: Eskf, field_W: Vec3, before_ns: int) -> float:
    """Variance that a field of another strength or inclination adds to its heading, rad^2.

    It carries iron or a current: as much of it turns the field, and stays as it is. The misfit is
    averaged before its size is taken, so that white noise is none.
    """
    heading, m_W = state.heading, vec3(state.field_W_T)
    part = min((state.stamp_ns - before_ns) * 1e-9 / MISFIT_MEAN_S, 1.0)
    off_T = misfit(m_W, field_W)
    for i in range(2):
        heading.misfit_T[i] += part * (off_T[i] - heading.misfit_T[i])
    mean_T = unusual(heading.misfit_T[0], heading.misfit_T[1])
    turn_rad = mean_T / norm((m_W[0], m_W[1], 0.0))
    return float(turn_rad * turn_rad * repetition(state.stamp_ns, before_ns, DISTURBANCE_S))


@kernel
def fuse_magnetic_field(
    state: Eskf,
    params: EstimatorParams,
    m_S: Vec3,
    heading_variance: float,
    vertical_variance: float,
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
    known_variance = heading_variance
    if heading_variance == 0.0:
        known_variance = noise.heading_sigma_rad * noise.heading_sigma_rad
    if vertical_variance == 0.0:
        vertical_variance = noise.field_sigma_T * noise.field_sigma_T
    if state.running == 0 and state.imu_count == 0:
        return IGNORED
    if state.running == 0 or state.realigning == 1:
        add_field(state.alignment, m_S, known_variance)
    if state.running == 0:
        return ACCEPTED
    before_ns, state.field_ns = state.field_ns, state.stamp_ns
    field_W = rotate(quat(state.q_WS), subtract(m_S, vec3(state.field_bias_S_T)))
    points = tells_heading(vec3(params.magnetic_field_W_T))
    misfit2 = 0.0
    if points:
        misfit2 = misfit_variance(state, field_W, before_ns)
    result = fuse_magnetic_heading(state, params, m_S, heading_variance, misfit2)
    dt_s = min((state.stamp_ns - before_ns) * 1e-9, 1.0)
    if result == ACCEPTED:
        see_accepted_field(state, dt_s)
    elif result == REJECTED:
        see_rejected_field(state, params, known_variance, dt_s)
    if params.fusion.magnetic_inclination == 1 and points:
        if not has_bias(params):
            vertical_variance += disturbance(state, m_S, before_ns)
        fuse_inclination(state, params, m_S, known_variance, vertical_variance)
    return result


@kernel
def learn_heading(state: Eskf, params: EstimatorParams, innovation: float) -> float:
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
def fuse_magnetic_heading(
    state: Eskf, params: EstimatorParams, m_S: Vec3, variance: float, misfit2: float = 0.0
) -> int:
    """Fuse the field's horizontal direction, levelled by the estimated tilt.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        m_S: (3,) T.
        variance: rad^2; zero: unknown, and learned.
        misfit2: what is added to it, rad^2; see :func:`misfit_variance`.

    The heading so levelled depends on the tilt too; H has both columns, else a tilt error
    becomes a heading error the filter knows nothing of. They are taken at the reference field, not
    at the measured one: a row of H that carries the same noise as the innovation gives the tilt a
    bias of the noise's variance.
    """
    q_WS = quat(state.q_WS)
    x, y, z = rotate(q_WS, subtract(m_S, vec3(state.field_bias_S_T)))
    if not (tells_heading(vec3(params.magnetic_field_W_T)) and tells_heading((x, y, z))):
        return IGNORED
    east, north, up = vec3(state.field_W_T)
    innovation = wrap(atan2(north, east) - atan2(y, x))
    if variance == 0.0:
        variance = learn_heading(state, params, innovation)
    horizontal2 = east * east + north * north
    h = state.h
    h[:] = 0.0
    h[THETA] = -up * east / horizontal2
    h[THETA + 1] = -up * north / horizontal2
    h[THETA + 2] = 1.0
    # a change of the field by d turns its direction by (east dy - north dx) / h^2
    R = to_matrix(q_WS)
    for k in range(3):
        h[FIELD_BIAS + k] = (north * R[0][k] - east * R[1][k]) / horizontal2
    h[FIELD] = north / horizontal2
    h[FIELD + 1] = -east / horizontal2
    limit = field_limit(state, params.gate.chi2_1)
    if misfit2 > 0.0:  # what a misfit makes unsure of a heading does not make it agree
        S = times_row(state.covariance, state.n, h, state.ph) + variance
        limit *= S / (S + misfit2)
    return update_scalar(state, MAGNETIC_FIELD, innovation, variance + misfit2, limit)


@kernel
def fuse_inclination(
    state: Eskf, params: EstimatorParams, m_S: Vec3, heading_variance: float, variance: float
) -> int:
    """Fuse the field's vertical part: it tells the tilt about the field's horizontal direction.

    The row is taken at the horizontal direction of this sample, as far as that is known. What
    turns the field is in the measured direction, white noise of the axes is not: a row that
    follows white noise sees the vertical from sides from which it was never seen, and claims to
    know the rotation about the field, which no field tells. So the reference's direction is
    rotated towards the measured one by the share that turns have in the heading's variance.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        m_S: (3,) T.
        heading_variance: of its horizontal direction, rad^2.
        variance: of its vertical part, T^2, which white noise has on every axis.
    """
    q_WS = quat(state.q_WS)
    x, y, z = rotate(q_WS, subtract(m_S, vec3(state.field_bias_S_T)))
    east, north, up = vec3(state.field_W_T)
    of_turns = heading_variance * (east * east + north * north)
    noise = variance / of_turns if of_turns > variance else 1.0
    if state.heading.distrusted == 1:  # it is rotated, far beyond its noise
        noise = 0.0
    back = noise * wrap(atan2(north, east) - atan2(y, x))
    cosine, sine = cos(back), sin(back)
    x, y = cosine * x - sine * y, sine * x + cosine * y
    # as long as the reference's: it is not observed, and a length that moves with the tilt tells it
    if tells_heading((x, y, z)):
        level = math.sqrt((east * east + north * north) / (x * x + y * y))
        x, y = level * x, level * y
    else:  # it has no horizontal direction, a field of zero for one
        x, y = east, north
    h = state.h
    h[:] = 0.0
    h[THETA] = y
    h[THETA + 1] = -x
    up_S = to_matrix(q_WS)[2]
    for k in range(3):
        h[FIELD_BIAS + k] = -up_S[k]
    h[FIELD + 2] = -1.0
    innovation = up - z
    return update_scalar(state, INCLINATION, innovation, variance, params.gate.chi2_1)
