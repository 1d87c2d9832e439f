"""Input validation: what a message must be to get in, and its way onto the timeline."""

from __future__ import annotations

import math

import numpy as np

from quadsim.base.compiled import Array, Records, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.driver import run_events
from quadsim.estimation.eskf.layout import (
    EXTERNAL_ATTITUDE,
    EXTERNAL_ODOMETRY,
    EXTERNAL_POSITION,
    EXTERNAL_VELOCITY,
    GNSS_HEADING,
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    OPTICAL_FLOW,
    RANGE,
    STATIC_PRESSURE,
    ZERO_VELOCITY,
)
from quadsim.estimation.eskf.measurement_buffer import (
    BACKWARD,
    BAD_VARIANCE,
    CAPACITY,
    CLOCK_JUMP,
    GAP,
    HORIZON_NS,
    IMU,
    IMU_1,
    NEVER_NS,
    NOT_FINITE,
    OK,
    OUT_OF_RANGE,
    OVERFLOW,
    REPEATED,
    TOO_EARLY,
    TOO_LATE,
    UNCHANGED,
    Buffer,
    clear_timeline,
    follows,
    go_back,
    insert,
)
from quadsim.estimation.eskf.paired import change_devices, hear_one
from quadsim.estimation.eskf.pairs import first_kind, pair_of
from quadsim.estimation.eskf.parameters import GAP_MAX_S, DelayParams
from quadsim.estimation.eskf.repetition import (
    ACCELEROMETER,
    GYROSCOPE,
    is_repeated,
    stated_noise,
    watch_source,
)
from quadsim.estimation.eskf.standing import STILL_FORCE_MPS2, STILL_RATE_RADPS
from quadsim.estimation.eskf.voted_imu import change_imu, sample_to_take, take_voter
from quadsim.geometry.rotation import quat, unrotate
from quadsim.geometry.vector import add, norm, scale, vec3

#: So many IMU samples in a row with stamps of the past: the clock was set back.
CLOCK_JUMP_SAMPLES = 50
#: So many IMU samples in a row with stamps too far ahead: it was silent, and is back.
AHEAD_SAMPLES = 5
#: Beyond these no sensor measures: specific force, m/s^2, and rate, rad/s, of an IMU; then of each
#: kind of the layout. Squares of what is larger would leave the numbers' range.
LARGEST_FORCE, LARGEST_RATE = 1e4, 1e3
LARGEST = np.array(
    [1e8, 1e5, 1.0, 1e7, 1e7, 1e8, 2.0, 1e3, 1e4, 1e4, 1e4, 10.0, 1e8, 1e3, 1e5, 7.0]
)
#: A vehicle that moves slower than this may see the ground at one range for long.
SLOW_MPS = 0.2
#: What somebody reports of a vehicle that stands counts for so long.
STOOD_NS = 500_000_000
#: A gyroscope is noisy whose noise is so many times what it states, and more than a density that
#: turns the attitude by 3 degrees in a second, rad/s/sqrt(Hz); until it is half of that.
NOISIER, LOUD_DENSITY = 3.0, 0.05
#: No optical flow is taken over a longer time, s.
LONGEST_FLOW_S = 0.5
#: Variances that no message means, in the units of any sensor.
LEAST_VARIANCE, LARGEST_VARIANCE = 1e-30, 1e12
#: How far the norm of an attitude's quaternion may be from one.
UNIT_TOLERANCE = 0.01


@kernel
def all_finite(values: Array) -> bool:
    """Whether no number is NaN or infinite."""
    bad = 0
    for i in range(values.size):
        if not math.isfinite(values[i]):
            bad += 1
    return bad == 0


@kernel
def within(values: Array, largest: float) -> bool:
    """Whether no number is larger than a limit, whatever its sign."""
    far = 0
    for i in range(values.size):
        if abs(values[i]) > largest:
            far += 1
    return far == 0


@kernel
def length(values: Array) -> float:
    """Euclidean norm."""
    total = 0.0
    for i in range(values.size):
        total += values[i] * values[i]
    return math.sqrt(total)


@kernel
def is_variance(variance: float) -> bool:
    """Whether a number is a variance, or zero, which means unknown."""
    return variance == 0.0 or LEAST_VARIANCE <= variance <= LARGEST_VARIANCE


@kernel
def judge_imu(line: Buffer, stamp_ns: int, values: Array, covariance: Array) -> int:
    """Validation of an IMU sample."""
    if not (all_finite(values) and all_finite(covariance)):
        return NOT_FINITE
    if not (within(values[:3], LARGEST_FORCE) and within(values[3:], LARGEST_RATE)):
        return OUT_OF_RANGE
    for i in range(3):
        if not (is_variance(covariance[4 * i]) and is_variance(covariance[9 + 4 * i])):
            return BAD_VARIANCE
    if stamp_ns == line.newest_imu_ns:
        return REPEATED
    if stamp_ns < line.newest_imu_ns:
        line.backward_in_row += 1
        return CLOCK_JUMP if line.backward_in_row >= CLOCK_JUMP_SAMPLES else BACKWARD
    ahead_ns = stamp_ns - line.newest_imu_ns
    if line.newest_imu_ns != NEVER_NS and ahead_ns * 1e-9 > GAP_MAX_S:
        # one stamp of the future must not end the flight; a silence that is over comes with more
        line.backward_in_row += 1
        if line.backward_in_row < AHEAD_SAMPLES:
            return TOO_EARLY
    line.backward_in_row = 0
    period_s = line.state.period_s
    if line.state.imu_count > 2 and (stamp_ns - line.newest_imu_ns) * 1e-9 > 3.0 * period_s:
        return GAP
    return OK


@kernel
def watch_repetition(
    line: Buffer, kind: int, stamp_ns: int, values: Array, variance: float
) -> bool:
    """Take note of a sensor's value; whether it is one that repeats, and so states nothing.

    Args:
        line: TIMELINE record.
        kind: index of ``eskf.repetition.SOURCES``.
        stamp_ns: of the message.
        values: its numbers.
        variance: of a part of the IMU, as it states it.
    """
    source, state = line.sources[kind], line.state
    if state.running == 1 and line.moved == 0:
        gravity_mps2 = line.params.gravity_mps2
        hover_S = scale(gravity_mps2, unrotate(quat(state.q_BS), (0.0, 0.0, 1.0)))
        force = norm(add(vec3(state.pushing_S), hover_S)) - gravity_mps2
        turns = norm(vec3(state.turning_S)) > STILL_RATE_RADPS
        line.moved = int(turns or abs(force) > STILL_FORCE_MPS2)
    stands = is_standing(line, kind, stamp_ns)
    other = line.sources[GYROSCOPE if kind == ACCELEROMETER else ACCELEROMETER]
    states = stated_noise(variance, other)
    watch_source(source, kind, values, line.moved == 0, stands, states)
    line.frozen = line.frozen & ~(1 << kind) | source.frozen << kind
    return is_repeated(kind, source)


@kernel
def is_standing(line: Buffer, kind: int, stamp_ns: int) -> bool:
    """Whether the vehicle is known to stand, so that a sensor may repeat one value."""
    stands = stamp_ns - line.stood_ns < STOOD_NS
    if kind == RANGE:  # after a landing its step may be larger than all that it sees
        stands |= norm(vec3(line.state.v_W)) < SLOW_MPS
    return bool(stands)


@kernel
def loud_variance(line: Buffer, covariance: Array) -> Vec3:
    """Variances of the gyroscope's noise where that is far beyond what it states; else zeros.

    Args:
        line: TIMELINE record; whether it is noisy is kept there.
        covariance: (18,) of the sample.
    """
    period_s, noise = line.state.period_s, line.sources[GYROSCOPE].noise
    if period_s <= 0.0:
        return (0.0, 0.0, 0.0)
    loud, share = 0, 0.5 if line.noisy & 1 else 1.0
    density2 = line.params.noise.gyro_density * line.params.noise.gyro_density
    for i in range(3):
        stated = covariance[9 + 4 * i]
        stated = stated if stated > 0.0 else density2 / period_s
        limit = max(NOISIER * NOISIER * stated, LOUD_DENSITY * LOUD_DENSITY / period_s)
        loud += int(noise[i] > share * share * limit)
    fixes = line.state.scatter
    line.noisy = int(loud > 0) | fixes[0].noisy << 1 | fixes[1].noisy << 2
    return vec3(noise) if loud > 0 else (0.0, 0.0, 0.0)


@kernel
def accept_imu(line: Buffer, stamp_ns: int, values: Array, covariance: Array) -> int:
    """Put an IMU sample onto the timeline; see :func:`accept`."""
    verdict = judge_imu(line, stamp_ns, values, covariance)
    if line.count >= CAPACITY:
        verdict = OVERFLOW
    taken = verdict in (OK, GAP, CLOCK_JUMP)
    still = taken and watch_repetition(line, ACCELEROMETER, stamp_ns, values, covariance[0])
    steady = taken and watch_repetition(line, GYROSCOPE, stamp_ns, values, covariance[9])
    if verdict == OK and (still or steady):
        verdict = UNCHANGED
    line.received[IMU] += 1
    line.verdicts[IMU, verdict] += 1
    if not taken:
        return verdict
    if verdict == CLOCK_JUMP:
        clear_timeline(line)
        line.state.imu_count = 0
        line.state.running = 0
    line.newest_imu_ns = stamp_ns
    line.newest = insert(line, IMU, stamp_ns)
    event, loud = line.events[line.newest], loud_variance(line, covariance)
    for i in range(6):
        event.values[i] = values[i]
    for i in range(3):
        event.values[6 + i] = -1.0 if still else covariance[4 * i]
        event.values[9 + i] = -1.0 if steady else max(covariance[9 + 4 * i], loud[i])
    return verdict


@kernel
def accept_voted(line: Buffer, kind: int, stamp_ns: int, values: Array, covariance: Array) -> int:
    """Take a sample of one of two IMUs; that of the one which is used goes onto the timeline."""
    vote, k = line.vote, kind - IMU
    line.received[IMU_1] += k
    sound = all_finite(values) and all_finite(covariance)
    if sound and within(values[:3], LARGEST_FORCE) and within(values[3:], LARGEST_RATE):
        take_voter(line, k, stamp_ns, values, covariance)
        change_imu(line)
    elif k == 1:
        line.verdicts[IMU_1, OUT_OF_RANGE if sound else NOT_FINITE] += 1
        return OUT_OF_RANGE if sound else NOT_FINITE
    if k != vote.used:
        return OK
    if k == 1:
        if stamp_ns <= line.newest_imu_ns:  # the filter has it from the other, or from before
            return OK
        sample_to_take(vote)
        return accept_imu(line, stamp_ns, vote.given[:6], vote.given[6:])
    return accept_imu(line, stamp_ns, values, covariance)


@kernel
def judge_measurement(
    line: Buffer, kind: int, stamp_ns: int, values: Array, variance: Array
) -> int:
    """Validation of a measurement; ``variance`` is its diagonal."""
    own, kind = kind, first_kind(kind)
    if not (all_finite(values) and all_finite(variance)):
        return NOT_FINITE
    if not within(values, LARGEST[kind]):
        return OUT_OF_RANGE
    if kind == MAGNETIC_FIELD and values[0] == 0.0 and values[1] == 0.0 and values[2] == 0.0:
        return OUT_OF_RANGE  # there is a field everywhere
    if kind == OPTICAL_FLOW and not 0.0 < values[2] <= LONGEST_FLOW_S:
        return OUT_OF_RANGE
    if kind == STATIC_PRESSURE and values[0] <= 0.0:
        return NOT_FINITE
    has_attitude = kind == EXTERNAL_ATTITUDE or kind == EXTERNAL_ODOMETRY
    if has_attitude and abs(length(values[values.size - 4 :]) - 1.0) > UNIT_TOLERANCE:
        return NOT_FINITE
    zeros = 0
    for i in range(variance.size):
        if not is_variance(variance[i]):
            return BAD_VARIANCE
        if variance[i] == 0.0:
            zeros += 1
    if 0 < zeros < variance.size:
        return BAD_VARIANCE  # known in part only
    if line.count >= CAPACITY:
        return OVERFLOW
    if line.newest_imu_ns - stamp_ns > HORIZON_NS:
        return TOO_LATE
    if line.newest_imu_ns != NEVER_NS and stamp_ns - line.newest_imu_ns > HORIZON_NS:
        return TOO_EARLY
    i = line.count - 1
    while i >= 0 and line.events[i].stamp_ns >= stamp_ns:
        if line.events[i].stamp_ns == stamp_ns and line.events[i].kind == own:
            return REPEATED
        i -= 1
    return OK


@kernel
def stated_delay_s(delay: DelayParams, kind: int) -> float:
    """How much later than its measurement a message of a kind is stamped."""
    if kind == GNSS_POSITION or kind == GNSS_VELOCITY or kind == GNSS_HEADING:
        result = delay.gnss_s
    elif kind == MAGNETIC_FIELD:
        result = delay.magnetic_field_s
    elif kind == STATIC_PRESSURE:
        result = delay.pressure_s
    elif kind == RANGE:
        result = delay.range_s
    elif kind == OPTICAL_FLOW:
        result = delay.flow_s
    elif kind == EXTERNAL_POSITION or kind == EXTERNAL_ATTITUDE:
        result = delay.external_pose_s
    elif kind == EXTERNAL_ODOMETRY or kind == EXTERNAL_VELOCITY:
        result = delay.odometry_s
    else:
        result = delay.imu_s if kind >= IMU else 0.0
    return float(result)


@kernel
def write_covariance(out: Array, at: int, covariance: Array, first: int, sigma: Vec3) -> None:
    """Upper half of a (3, 3) block of a row-major (9,) or (36,); of sigma^2 where it is unknown.

    Args:
        out: values of an event.
        at: where to write six of them.
        covariance: (9,) or (36,).
        first: row and column at which the block begins.
        sigma: deviations.
    """
    width = 6 if covariance.size == 36 else 3
    begin = (width + 1) * first
    if covariance[begin] == 0.0:
        out[at], out[at + 3], out[at + 5] = sigma[0] ** 2, sigma[1] ** 2, sigma[2] ** 2
        out[at + 1], out[at + 2], out[at + 4] = 0.0, 0.0, 0.0
        return
    for r in range(3):
        for c in range(r, 3):
            out[at] = covariance[begin + width * r + c]
            at += 1


@kernel
def write_values(line: Buffer, i: int, values: Array, covariance: Array) -> None:
    """Fill an event of a measurement; what is unknown takes the parameters' default."""
    event, params = line.events[i], line.params
    out = event.values
    for k in range(values.size):
        out[k] = values[k]
    kind, noise = first_kind(event.kind), params.noise
    if kind == GNSS_POSITION:
        write_covariance(out, 3, covariance, 0, vec3(noise.gnss_position_sigma_m))
    elif kind == GNSS_VELOCITY:
        write_covariance(out, 3, covariance, 0, vec3(noise.gnss_velocity_sigma_mps))
    elif kind == EXTERNAL_POSITION:
        sigma = noise.external_position_sigma_m
        write_covariance(out, 3, covariance, 0, (sigma, sigma, sigma))
    elif kind == EXTERNAL_ATTITUDE:
        sigma = noise.external_attitude_sigma_rad
        write_covariance(out, 4, covariance, 3, (sigma, sigma, sigma))
    elif kind == EXTERNAL_ODOMETRY:
        # of the axis that drifts least: yaw and scale, which are states, add to the others
        out[7] = min(covariance[0], covariance[7], covariance[14])
        out[8] = covariance[35] if is_variance(covariance[35]) else 0.0
    elif kind == EXTERNAL_VELOCITY:
        sigma = noise.external_velocity_sigma_mps
        write_covariance(out, 3, covariance, 0, (sigma, sigma, sigma))
    elif kind == MAGNETIC_FIELD:
        reference = params.magnetic_field_W_T
        horizontal2 = reference[0] * reference[0] + reference[1] * reference[1]
        mean = (covariance[0] + covariance[4] + covariance[8]) / 3.0
        white = (1.0 - noise.field_lasting_share) * mean
        vertical = white - noise.field_turned_share * mean
        out[3] = white / horizontal2
        out[4] = vertical if vertical > 1e-6 * mean else 0.0  # rounding; unknown
    elif kind == OPTICAL_FLOW:
        out[3] = covariance[0]
    elif kind != ZERO_VELOCITY:
        out[1] = covariance[0]


@kernel
def accept(
    lines: Records[Buffer], kind: int, stamp_ns: int, values: Array, covariance: Array
) -> int:
    """Put a message onto the timeline, and go back to it if it is late; run nothing yet.

    What arrives together is accepted first, and run once.

    Args:
        lines: (1,) TIMELINE; an array, for Numba takes a record from Python twenty times slower.
        kind: one of the timeline's ``KINDS``.
        stamp_ns: what its stamp states; the parameters' delay is taken off. The end of an IMU
            sample's interval.
        values: (6,) of the IMU, m/s^2 and rad/s; (3,), of an optical flow rad, rad, s; or (1,) of
            pressure, range and standing still; (4,) of an attitude, (7,) of an odometry's pose. An
            infinite range means "nothing in range" (REP 117): it is OK and does nothing.
        covariance: (18,) of the IMU, two matrices; (9,), of a twist or a pose (36,), or (1,); all
            zero: unknown.

    Returns:
        One of the VERDICTS; all but OK, GAP and CLOCK_JUMP, and UNCHANGED of an IMU, are refused.
    """
    line, first = lines[0], first_kind(kind)
    stamp_ns -= round(1e9 * stated_delay_s(line.params.delay, first))
    if line.twos == 1:
        change_devices(line)
    if kind == IMU or kind == IMU_1:
        if line.vote.on == 1:
            return accept_voted(line, kind, stamp_ns, values, covariance)
        return accept_imu(line, stamp_ns, values, covariance) if kind == IMU else OK
    is_one = line.twos == 1 and pair_of(first) >= 0 and line.pairs[pair_of(first)].on == 1
    if kind != first and not is_one:
        return OK
    k = int(kind != first)
    if first == RANGE and math.isinf(values[0]):
        if is_one:
            hear_one(line, k, first, stamp_ns, values, False)
        return OK
    width = 1 if covariance.size == 1 else (7 if covariance.size == 36 else 4)
    begin = 3 * width if kind == EXTERNAL_ATTITUDE else 0
    diagonal = covariance[begin : begin + width * min(values.size - 1, 2) + 1 : width]
    verdict = judge_measurement(line, kind, stamp_ns, values, diagonal)
    repeats = False
    if is_one and verdict == OK:
        stands = is_standing(line, first, stamp_ns)
        repeats = hear_one(line, k, first, stamp_ns, values, stands)
    if kind == ZERO_VELOCITY:
        line.stood_ns = stamp_ns
    elif verdict == OK and kind == first:
        repeats = watch_repetition(line, kind, stamp_ns, values, 0.0)
    if verdict == OK and repeats:
        verdict = UNCHANGED
    late = line.done > 0 and follows(line.events[line.done - 1], kind, stamp_ns)
    if verdict == OK and late and not go_back(line, kind, stamp_ns):
        verdict = TOO_LATE
    line.received[kind] += 1
    line.verdicts[kind, verdict] += 1
    if verdict != OK:
        return verdict
    line.newest = insert(line, kind, stamp_ns)
    write_values(line, line.newest, values, covariance)
    return verdict


@kernel
def offer(
    lines: Records[Buffer], kind: int, stamp_ns: int, values: Array, covariance: Array
) -> int:
    """Take a message, and run the filter as far as it goes; see :func:`accept`.

    A measurement is fused now, stored for the IMU sample it waits for, or gone back to.
    """
    verdict = accept(lines, kind, stamp_ns, values, covariance)
    run_events(lines[0])
    return verdict
