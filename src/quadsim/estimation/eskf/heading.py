"""Whether the heading is right: by the acceleration that GNSS sees, and by a field that persists.

A heading that is wrong by more than the filter's linear equations reach locks itself in: the field
is rejected, and without horizontal acceleration nothing else speaks of it. So it is watched
outside the filter.

*Acceleration.* Mean horizontal accelerations of 0.4 s, seen by GNSS in the world (z) and by
the IMU in the frame F of :mod:`~quadsim.estimation.eskf.inertial` (s), are complex numbers with
z = exp(i psi) s + d: psi turns F into the world, d is what the tilt of F leans. The phase of their
covariance is psi, whatever the field is; its deviation follows from the correlation found, so
that noise which nobody stated counts too. This is the idea of PX4's EKF-GSF yaw estimator (Muller
et al.), as one regression. What chance would do with the same probability as the correlation found
is asked for first.

*Field.* The pad of a start may turn the field. A field that has been rejected for seconds, and for
longer than it agreed, sets the heading, if it has the reference's strength and inclination and
points one way, unless the heading has been confirmed: by acceleration, by an external attitude, or
by a field that agreed for ten seconds in the air. After that a disturbed field is more likely than
a wrong heading. What it was on the ground does not count in the air. PX4 resets to the field above
1.5 m and by time-outs likewise.

*GNSS.* A heading found on the ground may point anywhere if GNSS is rejected before anything has
confirmed it: a wrong heading makes position and velocity diverge first. This is reported at once
(:func:`heading_doubt`), so that who flies on the estimate can make accelerations that tell. A
gyroscope that fails turns the tilt too, and the field's vertical part mostly contradicts that.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.base.elementary import atan2, cos, power, sin
from quadsim.base.elementary import exp as decay
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.inertial import frame_turn, start_inertial
from quadsim.estimation.eskf.layout import (
    BA,
    GNSS_POSITION,
    GNSS_VELOCITY,
    INCLINATION,
    MAGNETIC_FIELD,
    REASON_ACCELERATION,
    REASON_FIELD,
    THETA,
    Eskf,
    Heading,
    V,
)
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.start_window import scale_errors
from quadsim.estimation.eskf.update import forget_links, rejected_for_s
from quadsim.geometry.rotation import exp, multiply, normalize, quat, rotate, wrap, yaw_of
from quadsim.geometry.vector import norm, scale, store, subtract, vec3

#: Field rejected for so long, the heading not confirmed: the heading is reset, s.
HEADING_RECOVERY_S = 5.0

#: Shortest and longest time over which an acceleration is taken, s.
INTERVAL_S, INTERVAL_MAX_S = 0.38, 2.0
#: How long accelerations count, s: the gyroscope alone holds F for so long.
MEMORY_S = 15.0
#: Tilt of F against the filter's world beyond which it is begun anew, rad.
LEAN_MAX_RAD = 0.15
#: Chance that accelerations which have nothing to do with each other are so well correlated.
CHANCE = 1e-6
#: Least deviation of a heading by acceleration, rad: the tilt of F, the antenna's swing.
LEAST_RAD = 0.05
#: A heading that is off by less is left to the filter, rad.
LEAST_TURN_RAD = 0.2
#: Height above the start at which the ground turns no field, m (as PX4), and how long the field
#: must have agreed there, s.
CLEAR_M, AGREED_S = 1.5, 10.0
#: Least horizontal part of a field that tells a heading, as a share of its strength: near a
#: magnetic pole iron, bias and a little tilt are as large. The model of it warns below 6 uT.
LEAST_LEVEL = 0.1
#: Deviation of a heading that is not known enough to be confirmed, rad.
OPEN_RAD = 0.5
#: Most that the horizontal and vertical part of a field may be off, as a share of its strength.
MISFIT = 0.2
#: What an offset of the measured field and a tilt of two degrees make of a good field, T.
USUAL_MISFIT_T = 2.5e-6
#: How well the innovations of a rejected field must agree with each other: mean resultant length.
STEADY = 0.9
#: Time over which they are averaged, s.
MEAN_S = 1.0
#: Normalised innovation squared up to which a field is taken that was distrusted: two sigma; and
#: for how long, until it is trusted again, s.
DISTRUST_LIMIT, TRUST_S = 4.0, 1.0
#: Variance of a heading that may point anywhere, rad^2: even over the circle.
ANY_RAD2 = math.pi * math.pi / 3.0
#: What a wrong heading leaves in the estimate (sigma): tilt, rad; velocity, m/s.
LEFT_TILT_RAD, LEFT_MPS = 0.05, 0.3


@kernel
def forget_heading(state: Eskf) -> None:
    """Nothing is known of the heading but that of the start."""
    heading = state.heading
    heading.doubt = 0.0
    heading.confirmed = 0
    heading.agreed_s[:] = 0.0
    heading.distrusted = 0
    heading.field[:] = 0.0
    heading.misfit_T[:] = 0.0
    heading.start_m = state.p_W[2]


@kernel
def forget_accelerations(heading: Heading) -> None:
    """Begin the sums anew."""
    heading.stamp_ns = 0
    heading.mean_s = 0.0
    heading.count = 0.0
    heading.age_s = 0.0
    heading.s[:] = 0.0
    heading.z[:] = 0.0
    heading.ss = 0.0
    heading.zz = 0.0
    heading.zs[:] = 0.0


@kernel
def see_velocity(state: Eskf, params: EstimatorParams, v_W: Vec3) -> bool:
    """Count a GNSS velocity, less the antenna's swing, and judge the heading by the accelerations.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        v_W: (3,) m/s.

    Returns:
        Whether the heading was reset.
    """
    heading = state.heading
    if heading.by_position == 1:
        return False
    dt_s = (state.stamp_ns - heading.stamp_ns) * 1e-9
    known = heading.stamp_ns > 0 and dt_s <= INTERVAL_MAX_S
    if known and dt_s < INTERVAL_S:
        return False
    f_integral_F = vec3(state.inertial.f_integral_F)
    if known:
        z = scale(1.0 / dt_s, subtract(v_W, vec3(heading.seen_W)))
        s = scale(1.0 / dt_s, subtract(f_integral_F, vec3(heading.integral_F)))
        add_accelerations(heading, dt_s, s[0], s[1], z[0], z[1])
    heading.stamp_ns = state.stamp_ns
    store(heading.seen_W, v_W)
    store(heading.integral_F, f_integral_F)
    return judge_heading(state, params)


@kernel
def see_position(state: Eskf, params: EstimatorParams, p_W: Vec3, variance: float) -> bool:
    """The same by a GNSS position, where positions tell accelerations better than velocities do.

    The acceleration is that of mean velocities over two intervals, of the IMU too.

    Args:
        state: ESKF record.
        params: packed EstimatorParams.
        p_W: (3,) of the IMU, m.
        variance: of a horizontal axis, m^2.

    Returns:
        Whether the heading was reset.
    """
    heading = state.heading
    # deviation of an acceleration: sqrt(6) sigma_p / T^2, and sqrt(2) sigma_v / T
    better = 3.0 * variance < state.velocity_fix_variance[0] * INTERVAL_S * INTERVAL_S
    if (1 if better or state.velocity_fix_ns == 0 else 0) != heading.by_position:
        forget_accelerations(heading)
        heading.by_position = 1 - heading.by_position
    if heading.by_position == 0:
        return False
    dt_s = (state.stamp_ns - heading.stamp_ns) * 1e-9
    known = heading.stamp_ns > 0 and dt_s <= INTERVAL_MAX_S
    if known and dt_s < INTERVAL_S:
        return False
    way_F = vec3(state.inertial.way_F)
    mean_s = 0.0
    if known:
        mean_W = scale(1.0 / dt_s, subtract(p_W, vec3(heading.seen_W)))
        mean_F = scale(1.0 / dt_s, subtract(way_F, vec3(heading.integral_F)))
        if heading.mean_s > 0.0:
            rate = 2.0 / (dt_s + heading.mean_s)
            z = scale(rate, subtract(mean_W, vec3(heading.mean_W)))
            s = scale(rate, subtract(mean_F, vec3(heading.mean_F)))
            add_accelerations(heading, dt_s, s[0], s[1], z[0], z[1])
        store(heading.mean_W, mean_W)
        store(heading.mean_F, mean_F)
        mean_s = dt_s
    heading.mean_s = mean_s
    heading.stamp_ns = state.stamp_ns
    store(heading.seen_W, p_W)
    store(heading.integral_F, way_F)
    return judge_heading(state, params)


@kernel
def add_accelerations(
    heading: Heading, dt_s: float, sx: float, sy: float, zx: float, zy: float
) -> None:
    """Count a pair of accelerations; the older ones lose weight."""
    keep = decay(-dt_s / MEMORY_S)
    heading.age_s = keep * (heading.age_s + heading.count * dt_s)
    heading.count = keep * heading.count + 1.0
    heading.s[0] = keep * heading.s[0] + sx
    heading.s[1] = keep * heading.s[1] + sy
    heading.z[0] = keep * heading.z[0] + zx
    heading.z[1] = keep * heading.z[1] + zy
    heading.ss = keep * heading.ss + sx * sx + sy * sy
    heading.zz = keep * heading.zz + zx * zx + zy * zy
    heading.zs[0] = keep * heading.zs[0] + zx * sx + zy * sy
    heading.zs[1] = keep * heading.zs[1] + zy * sx - zx * sy


@kernel
def heading_seen(heading: Heading) -> tuple[float, float]:
    """Angle that turns F into the world, by the accelerations, and its variance; below 0: unknown.

    The covariance of z and s has the phase psi. With r^2 the squared coherence of n pairs, the
    variance of a phase is (1 - r^2) / (2 r^2 (n - 2)), and chance gives r^2 or more with
    (1 - r^2)^(n - 2) (Goodman 1963).
    """
    n = heading.count
    if n < 4.0:
        return 0.0, -1.0
    s, z = heading.s, heading.z
    real = heading.zs[0] - (z[0] * s[0] + z[1] * s[1]) / n
    imaginary = heading.zs[1] - (z[1] * s[0] - z[0] * s[1]) / n
    ss = heading.ss - (s[0] * s[0] + s[1] * s[1]) / n
    zz = heading.zz - (z[0] * z[0] + z[1] * z[1]) / n
    if not (ss > 0.0 and zz > 0.0):
        return 0.0, -1.0
    coherence = min((real * real + imaginary * imaginary) / (ss * zz), 1.0)
    if power(1.0 - coherence, n - 2.0) > CHANCE:
        return 0.0, -1.0
    variance = (1.0 - coherence) / (2.0 * coherence * (n - 2.0)) + LEAST_RAD * LEAST_RAD
    return atan2(imaginary, real), variance


@kernel
def judge_heading(state: Eskf, params: EstimatorParams) -> bool:
    """Confirm the heading by the accelerations; or doubt it, and if they say so twice, set it.

    What the gyroscope's scale and axes turn F while the vehicle turns, over the mean age of the
    accelerations, is no error of the heading.

    Returns:
        Whether it was set.
    """
    heading = state.heading
    up_F = rotate(frame_turn(state), (0.0, 0.0, 1.0))
    if up_F[2] < cos(LEAN_MAX_RAD):
        start_inertial(state)
        forget_accelerations(heading)
        return False
    psi, variance = heading_seen(heading)
    doubted, heading.doubt = heading.doubt > 0.0, 0.0
    if variance < 0.0:
        return False
    noise = params.noise
    turning = scale_errors(vec3(state.steady_S), noise.gyro_scale, noise.gyro_axes)
    age_s = heading.age_s / heading.count
    variance += (turning[0] + turning[1] + turning[2]) * age_s * age_s
    off = wrap(psi + yaw_of(frame_turn(state)))
    known = float(state.covariance[THETA + 2, THETA + 2])
    if known < OPEN_RAD * OPEN_RAD and off * off <= 9.0 * (variance + known):
        heading.confirmed = 1
        state.local = 0
    elif abs(off) > LEAST_TURN_RAD and off * off > 16.0 * variance:
        if doubted:
            turn_heading(state, off, variance, REASON_ACCELERATION)
            heading.confirmed = 1
            heading.distrusted = 1
            return True
        # say it first, so that who flies on the estimate expects the step
        heading.doubt = off * off
    return False


@kernel
def turn_heading(state: Eskf, off: float, variance: float, reason: int) -> None:
    """Turn the estimate about the vertical; tilt, velocity and position stay.

    Args:
        state: ESKF record.
        off: by how much, rad.
        variance: of the heading afterwards, rad^2.
        reason: one of the REASONs.
    """
    covariance = state.covariance
    store(state.q_WS, normalize(multiply(exp((0.0, 0.0, off)), quat(state.q_WS))))
    for i in range(3):
        # velocities were fused with a wrong heading, and have leaned tilt and bias
        forget_links(covariance, BA + i)
        covariance[BA + i, BA + i] = state.heading.accel_bias_variance
        covariance[V + i, V + i] += LEFT_MPS * LEFT_MPS
    forget_links(covariance, THETA + 2)
    covariance[THETA + 2, THETA + 2] = variance
    for i in range(2):
        covariance[THETA + i, THETA + i] += LEFT_TILT_RAD * LEFT_TILT_RAD
    state.recoveries += 1
    state.reason = reason
    state.rejected_in_row[:] = 0
    state.realigning = 0
    state.local = 0  # the world's, from now on
    state.heading.agreed_s[:] = 0.0
    state.heading.field[:] = 0.0


@kernel
def tells_heading(m_W: Vec3) -> bool:
    """Whether a field, in T, has a horizontal part that tells where north is; zero has none."""
    level_T = norm((m_W[0], m_W[1], 0.0))
    return bool(level_T > 0.0 and level_T >= LEAST_LEVEL * norm(m_W))


@kernel
def misfit(m_W: Vec3, seen_W: Vec3) -> tuple[float, float]:
    """What a field is off the reference, whatever its heading, in T: level part and upward part."""
    level_T = norm((seen_W[0], seen_W[1], 0.0)) - norm((m_W[0], m_W[1], 0.0))
    return level_T, seen_W[2] - m_W[2]


@kernel
def unusual(level_T: float, up_T: float) -> float:
    """Size of a misfit beyond the usual, in T."""
    return max(math.sqrt(level_T * level_T + up_T * up_T) - USUAL_MISFIT_T, 0.0)


@kernel
def field_limit(state: Eskf, limit: float) -> float:
    """Gate of the field's heading."""
    return DISTRUST_LIMIT if state.heading.distrusted == 1 else limit


@kernel
def see_accepted_field(state: Eskf, dt_s: float) -> None:
    """The field agrees with the heading, for another moment."""
    heading = state.heading
    heading.field[:] = 0.0
    clear = is_off_the_pad(state)
    heading.agreed_s[clear] += dt_s
    if heading.distrusted == 1 and heading.agreed_s[clear] > TRUST_S:
        heading.distrusted = 0
    if heading.agreed_s[1] > AGREED_S:
        heading.confirmed = 1


@kernel
def is_off_the_pad(state: Eskf) -> int:
    """1 in the air, where the ground turns no field; else 0."""
    clear = state.started_standing == 0 or state.p_W[2] - state.heading.start_m > CLEAR_M
    return 1 if clear else 0


@kernel
def see_rejected_field(state: Eskf, params: EstimatorParams, variance: float, dt_s: float) -> None:
    """The field contradicts the heading; if it does so for long and fits, it sets the heading.

    Args:
        state: ESKF record, with the innovation of the heading.
        params: packed EstimatorParams.
        variance: of a sample's heading, rad^2.
        dt_s: time since the last field.
    """
    heading, innovation = state.heading, state.innovation[MAGNETIC_FIELD, 0]
    east, north, up = vec3(state.field_W_T)
    part = min(dt_s / MEAN_S, 1.0)
    heading.field[0] += part * (cos(innovation) - heading.field[0])
    heading.field[1] += part * (sin(innovation) - heading.field[1])
    if heading.confirmed == 1:
        return
    rejected_s = rejected_for_s(state, MAGNETIC_FIELD)
    if rejected_s <= max(HEADING_RECOVERY_S, heading.agreed_s[is_off_the_pad(state)]):
        return
    strength_T = math.sqrt(east * east + north * north + up * up)
    steady = norm((heading.field[0], heading.field[1], 0.0)) > STEADY
    off_T = unusual(heading.misfit_T[0], heading.misfit_T[1])
    if steady and off_T < MISFIT * strength_T:
        off = atan2(heading.field[1], heading.field[0])
        turn_heading(state, off, variance + LEAST_RAD * LEAST_RAD, REASON_FIELD)


@kernel
def may_point_anywhere(state: Eskf) -> bool:
    """Whether GNSS is rejected, and a heading found on the ground that nothing has confirmed."""
    in_row = state.rejected_in_row
    led_away = in_row[GNSS_POSITION] >= 3 or in_row[GNSS_VELOCITY] >= 3
    open_heading = state.started_standing == 1 and state.heading.confirmed == 0
    return bool(led_away and open_heading and in_row[INCLINATION] < 3)


@kernel
def heading_doubt(state: Eskf) -> float:
    """Variance of a heading that is contradicted, beyond the filter's own, rad^2.

    By the accelerations; or by GNSS or the field, as long as nothing confirms the heading. Over a
    magnetic pole no field does.
    """
    heading = state.heading
    doubt = float(heading.doubt)
    steep = heading.confirmed == 0 and not tells_heading(vec3(state.field_W_T))
    if steep or may_point_anywhere(state):
        doubt = max(doubt, ANY_RAD2)
    if heading.confirmed == 1 or state.rejected_in_row[MAGNETIC_FIELD] < 3:
        return doubt
    off = state.innovation[MAGNETIC_FIELD, 0]
    return float(max(doubt, off * off))
