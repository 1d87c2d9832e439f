"""Two IMUs: which one the filter takes, what is wrong with the other, and when that comes back.

One drives the prediction. The filter's state is that of the first one all the time: samples of the
second are moved to its place and axes, and get the running mean of the difference of the two, which
is the difference of their biases. So a change from one to the other steps no state, and the bias
that the filter has learned stays right; its deviation grows by that of the mean.

Both are summed up in windows of :data:`WINDOW_NS`. Of each one alone is judged, as PX4's
``DataValidator`` does it: it repeats one value to the bit (:mod:`.repetition`), it is silent or
late, it loses samples, its noise has grown. Then the two are compared, as in ArduPilot's and PX4's
checks of consistency: a difference beyond :data:`SIGMAS` deviations of what their noise, scale,
axes and timing explain is a fault of one of them. Which one it is, is told

1. by the step: true motion is continuous, and felt by both (:func:`take_step`);
2. by the filter's innovations: had the one that drives it an error of that difference, velocity and
   position would be off in a known way since (:func:`weigh_innovations`).

Both are ratios of likelihoods (Willsky and Jones 1976). With odds of :data:`ODDS` one is named.

The filter then goes back to a copy of itself before the fault, and takes the other's samples.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, Vector, argument, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.layout import (
    EXTERNAL_POSITION,
    GNSS_POSITION,
    GNSS_VELOCITY,
    Eskf,
)
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.repetition import (
    ACCELEROMETER,
    Source,
    forget_source,
    stated_noise,
    watch_source,
)
from quadsim.geometry.rotation import conjugate, from_euler, multiply, quat, rotate, unrotate
from quadsim.geometry.vector import add, cross, scale, store, subtract, vec3

#: Least length of a window, ns, and in samples of the slower one.
WINDOW_NS, WINDOW_SAMPLES = 10_000_000, 3
#: Windows in a ring; that are judged together: for a difference and noise, for lost samples.
WINDOWS, TOGETHER, LOSSES = 64, 10, 20
#: Windows until the two are compared, of the running mean and the usual noise, and of what they
#: usually differ by otherwise.
KNOWN, USUAL, USUAL_OFF = 60, 1000.0, 100.0
#: Propellers start with a flight, and shake one IMU more than another: until so long after the
#: first motion, s, noise must grow further to be a fault.
FLOWN_S = 5.0
#: Beyond so many deviations two IMUs disagree: once in 1e9 windows of a normal distribution; and
#: until a flight has lasted FLOWN_S.
SIGMAS, START_SIGMAS = 6.0, 15.0
#: Errors of scale and axes are drawn once, not anew each window: four deviations of theirs do.
DRAWN_ONCE = 4.0 / SIGMAS
#: They agree again within this for so long, ns.
AGREE_SIGMAS, BACK_NS = 3.0, 2_000_000_000
#: Deviations below which nobody looks: specific force, m/s^2, and rate, rad/s.
LEAST_SIGMA = np.array([0.02, 0.02, 0.02, 1e-3, 1e-3, 1e-3])
#: Of the change from one window to the next, what filters and stamps of two devices may differ by.
TIMING = 0.1
#: Behind the other by more than this, and than so many periods, it is late, or silent.
LATE_NS, LATE_PERIODS = 30_000_000, 3
#: A smaller share of the samples is a loss. Noise is variance that has grown by so much more than
#: the other's, and above twice that; four propellers that beat make four times the usual.
LEAST_SHARE, LARGEST_NOISE, LARGEST_START_NOISE = 0.9, 9.0, 25.0
#: Natural logarithm of the odds that tell whose a difference is, 20 to 1, and what does after so
#: long, 2 to 1: one of the two is to be flown on. How long innovations are weighed together.
ODDS, LATE_ODDS, SOON_NS, INNOVATIONS_NS = 3.0, 0.7, 350_000_000, 3_000_000_000
#: Time constant of the angular acceleration for the lever arm, s.
LEVER_S = 0.005
#: Newest samples in a ring, for going back: half a second at 500 Hz.
SAMPLES = 512
#: How far the filter goes back behind the first sign of a fault, ns.
BEFORE_NS = 20_000_000

#: Why one is left out; the words of ``estimation.voting_words``.
GOOD, REPEATS, SILENT, LOSES, NOISY, DIFFERS = map(argument, range(6))


class OneImu(Record):
    """One of two IMUs, in the axes and at the place of the first."""

    heard: int
    stamp_ns: int
    period_s: float
    rate_S: Vector  # low-passed, for the angular acceleration
    values: Annotated[Array, 6]  # newest sample, and how it changed
    changes: Annotated[Array, 6]
    sources: Annotated[Records[Source], 2]
    window: int  # the present one, and its sums
    count: int
    sums: Annotated[Array, 6]
    squares: Annotated[Array, 6]  # of second differences
    index: Annotated[NDArray[np.int64], WINDOWS]  # windows that are over, a ring
    counts: Annotated[NDArray[np.int64], WINDOWS]
    means: Annotated[Array, WINDOWS, 6]
    noise: Annotated[Array, WINDOWS, 6]  # variance of a sample
    usual_count: float
    usual_noise: Annotated[Array, 6]
    reason: int  # why it is left out
    axis: int  # of a difference or a noise: 0 to 2 force, 3 to 5 rate
    size: float  # of the difference
    since_ns: int  # first sign of it
    bad_ns: int  # newest sign
    named_ns: int  # when it was left out, why, and when it was taken back
    last_reason: int
    back_ns: int
    ring_ns: Annotated[NDArray[np.int64], SAMPLES]  # samples and their variances
    ring: Annotated[Array, SAMPLES, 12]
    ring_count: int


class Vote(Record):
    """Two IMUs, and what is known of their difference, the first less the second."""

    on: int  # whether there are two
    used: int
    imus: Annotated[Records[OneImu], 2]
    window_ns: int
    done: int  # newest window that was judged
    learned: int
    flown_s: float  # since the first motion
    difference: Annotated[Array, 6]  # running mean
    mean_off: Annotated[Array, 6]  # of some windows, less the running one
    excess: Annotated[Array, WINDOWS, 6, 2]  # squares of that and of a window's, unexplained
    usual: Annotated[Array, 6, 2]  # their running means
    spread: Annotated[Array, 6]  # variance of the mean of some windows, when they last agreed
    steady: Annotated[Array, 6]  # running mean of the first one
    off: Annotated[Array, WINDOWS, 6]  # differences less their mean, a ring
    sigma2: Annotated[Array, WINDOWS, 6]  # what is explained: white, and what stays
    stays2: Annotated[Array, WINDOWS, 6]
    disagree_ns: int  # since when they do, and nobody is left out for it; 0: they agree
    changed: int  # how often somebody was left out or taken back
    switches: int
    given: Annotated[Array, 24]  # a sample of the second as the first's, and its covariance
    turn_W: Vector  # errors of attitude, velocity and position that the difference explains
    drift_W: Vector
    way_W: Vector
    odds: float  # logarithm, that the one which is used is wrong
    step: float  # largest of the difference, when, and what it tells: odds that the first one did
    step_ns: int
    step_odds: float
    seen: Annotated[NDArray[np.int64], 3]  # innovations so far


@kernel
def begin_vote(vote: Vote) -> None:
    """Begin with two IMUs of which nothing was heard."""
    for k in range(2):
        imu = vote.imus[k]
        imu.heard = imu.stamp_ns = imu.count = imu.ring_count = imu.reason = 0
        imu.period_s = imu.usual_count = 0.0
        imu.index[:] = imu.window = -1
        imu.sums[:] = 0.0
        imu.squares[:] = 0.0
        imu.usual_noise[:] = 0.0
        for part in range(2):
            forget_source(imu.sources[part])
    vote.used = vote.learned = vote.disagree_ns = 0
    vote.done, vote.flown_s, vote.window_ns = -1, 0.0, WINDOW_NS
    vote.difference[:] = 0.0
    vote.steady[:] = 0.0
    vote.usual[:, :] = 0.0
    vote.excess[:, :, :] = 0.0


def new_vote(vote: Any, params: EstimatorParams) -> None:
    """A vote that has seen nothing yet; of one IMU unless somebody tells of two."""
    vote["on"], vote["window_ns"] = int(params.second.imu), WINDOW_NS
    vote["done"] = vote["imus"]["index"] = vote["imus"]["window"] = -1


@kernel
def second_mount(params: EstimatorParams) -> tuple[tuple[float, float, float, float], Vec3]:
    """Turn from the second IMU's axes into the first one's, and the way from it to there."""
    first, second, degree = params.mount, params.second, math.pi / 180.0
    a, b = first.imu_roll_pitch_yaw_deg, second.imu_roll_pitch_yaw_deg
    q_B0 = from_euler(a[0] * degree, a[1] * degree, a[2] * degree)
    q_B1 = from_euler(b[0] * degree, b[1] * degree, b[2] * degree)
    way_B = subtract(vec3(first.imu_position_B_m), vec3(second.imu_position_B_m))
    return multiply(conjugate(q_B0), q_B1), unrotate(q_B0, way_B)


@kernel
def as_first(
    imu: OneImu, params: EstimatorParams, stamp_ns: int, f_S: Vec3, w_S: Vec3
) -> tuple[Vec3, Vec3]:
    """A sample of the second IMU as the first would give it, but for the difference of biases.

    f_0 = R f_1 + w_dot x r + w x (w x r), r from the second to the first.
    """
    q_01, r = second_mount(params)
    f, w = rotate(q_01, f_S), rotate(q_01, w_S)
    dt_s = (stamp_ns - imu.stamp_ns) * 1e-9
    if imu.heard == 0 or not 0.0 < dt_s < 0.1:
        store(imu.rate_S, w)
        return f, w
    share = dt_s / (LEVER_S + dt_s)
    change = scale(share, subtract(w, vec3(imu.rate_S)))
    store(imu.rate_S, add(vec3(imu.rate_S), change))
    w_dot = scale(1.0 / dt_s, change)
    return add(f, add(cross(w_dot, r), cross(w, cross(w, r)))), w


@kernel
def close_window(imu: OneImu) -> None:
    """Keep the mean of a window that is over, and the noise of its samples.

    A sixth of the mean square of their second differences is the variance of white noise, whatever
    slow motion is beneath (as von Neumann 1941 has it of the first ones).
    """
    if imu.count == 0:
        return
    at = imu.window % WINDOWS
    imu.index[at], imu.counts[at] = imu.window, imu.count
    for i in range(6):
        imu.means[at, i] = imu.sums[i] / imu.count
        imu.noise[at, i] = imu.squares[i] / (6.0 * imu.count)
        imu.sums[i] = imu.squares[i] = 0.0
    imu.count = 0


@kernel
def watch_imu(
    vote: Vote,
    imu: OneImu,
    stamp_ns: int,
    f_S: Vec3,
    w_S: Vec3,
    values: Array,
    covariance: Array,
    rests: bool,
) -> None:
    """Take a sample of one of the two into its sums.

    Args:
        vote: both.
        imu: the one.
        stamp_ns: of the sample, after the one before.
        f_S, w_S: as the first one would give it.
        values: (6,) as it came, for repetitions.
        covariance: (18,) of the sample.
        rests: whether the vehicle has not moved yet.
    """
    dt_s = (stamp_ns - imu.stamp_ns) * 1e-9
    if imu.heard == 1:
        imu.period_s = dt_s
    elif imu.heard > 1 and dt_s < 3.0 * imu.period_s:
        imu.period_s += 0.01 * (dt_s - imu.period_s)
    for part in range(2):
        source, kind = imu.sources[part], ACCELEROMETER + part
        states = stated_noise(covariance[9 * part], imu.sources[1 - part])
        watch_source(source, kind, values, rests, False, states)
    least_ns = round(WINDOW_SAMPLES * 1e9 * imu.period_s)
    if imu.heard == WINDOW_SAMPLES and least_ns > vote.window_ns + 1000:
        vote.window_ns = least_ns  # nothing is over yet
    window = (stamp_ns - 1) // vote.window_ns
    if window != imu.window:
        close_window(imu)
        imu.window = window
    at = imu.ring_count % SAMPLES
    imu.ring_count += 1
    imu.ring_ns[at] = stamp_ns
    for i in range(6):
        new = f_S[i] if i < 3 else w_S[i - 3]
        change = new - imu.values[i] if imu.heard > 0 else 0.0
        bend = change - imu.changes[i] if imu.heard > 1 else 0.0
        imu.sums[i] += new
        imu.squares[i] += bend * bend
        imu.values[i], imu.changes[i] = new, change
        imu.ring[at, i] = new
        imu.ring[at, 6 + i] = covariance[4 * i] if i < 3 else covariance[9 + 4 * (i - 3)]
    imu.count += 1
    imu.heard += 1
    imu.stamp_ns = stamp_ns


@kernel
def has_window(imu: OneImu, window: int) -> bool:
    """Whether a window of an IMU is over and still in the ring."""
    return bool(imu.index[window % WINDOWS] == window)


@kernel
def is_late(imu: OneImu, other: OneImu) -> bool:
    """Whether an IMU lags behind the other."""
    allowed_ns = max(LATE_NS, round(LATE_PERIODS * 1e9 * imu.period_s))
    return bool(other.stamp_ns - imu.stamp_ns > allowed_ns)


@kernel
def leave_out(
    vote: Vote, k: int, reason: int, now_ns: int, since_ns: int, axis: int, size: float
) -> None:
    """Something is wrong with an IMU, since a time."""
    imu = vote.imus[k]
    imu.bad_ns = now_ns
    if imu.reason == GOOD:
        imu.reason, imu.axis, imu.size, imu.since_ns = reason, axis, size, since_ns
        imu.last_reason, imu.named_ns = reason, now_ns
        vote.changed += 1


@kernel
def judge_alone(vote: Vote, now_ns: int) -> None:
    """Find what one IMU's own samples tell of it: silence and repetitions."""
    for k in range(2):
        imu, other = vote.imus[k], vote.imus[1 - k]
        if is_late(imu, other):
            leave_out(
                vote, k, SILENT, now_ns, imu.stamp_ns, 0, (other.stamp_ns - imu.stamp_ns) * 1e-9
            )
        for part in range(2):
            if imu.sources[part].frozen == 1:
                since_ns = now_ns - LATE_NS
                leave_out(vote, k, REPEATS, now_ns, since_ns, 3 * part, 0.0)


@kernel
def judge_window(vote: Vote, params: EstimatorParams, state: Eskf, window: int) -> None:
    """Compare the two in a window, of which the ones before and after are over."""
    a, b = vote.imus[0], vote.imus[1]
    at, now_ns = window % WINDOWS, (window + 1) * vote.window_ns
    explain_window(vote, params, window)
    for i in range(6):
        vote.off[at, i] = a.means[at, i] - b.means[at, i] - vote.difference[i]
    judge_noise(vote, window, now_ns)
    if vote.learned >= KNOWN:
        judge_difference(vote, state, window, now_ns)
    else:
        learn(vote, window, 1.0 / (vote.learned + 1.0))
        vote.learned += 1
        if vote.learned == KNOWN:
            judge_start(vote, params, now_ns)
    good = a.reason == GOOD and b.reason == GOOD and vote.disagree_ns == 0
    old = window - LOSSES
    if good and vote.learned >= KNOWN and has_window(a, old) and has_window(b, old):
        learn(vote, old, 1.0 / USUAL)
    for k in range(2):
        imu = vote.imus[k]
        if imu.reason != GOOD and now_ns - imu.bad_ns > BACK_NS:
            imu.reason, imu.back_ns = GOOD, now_ns
            vote.changed += 1


@kernel
def explain_window(vote: Vote, params: EstimatorParams, window: int) -> None:
    """Variance of the difference that is explained in a window: what is white, and what stays."""
    a, b, noise = vote.imus[0], vote.imus[1], params.noise
    at, before, after = window % WINDOWS, (window - 1) % WINDOWS, (window + 1) % WINDOWS
    _, r = second_mount(params)
    reach_m = abs(r[0]) + abs(r[1]) + abs(r[2])
    swing = 0.0
    for i in range(3, 6):
        step = min(
            abs(a.means[after, i] - a.means[before, i]), abs(b.means[after, i] - b.means[before, i])
        )
        swing = max(swing, step / (2e-9 * vote.window_ns))
    for first in range(0, 6, 3):
        own, axes = (noise.accel_scale, noise.accel_axes) if first == 0 else (
            noise.gyro_scale, noise.gyro_axes
        )  # fmt: skip
        total = 0.0
        for i in range(first, first + 3):
            total += axes * axes * moved_square(vote, at, i)
        for i in range(first, first + 3):
            change = TIMING * min(
                abs(a.means[after, i] - a.means[before, i]),
                abs(b.means[after, i] - b.means[before, i]),
            )
            lever = TIMING * swing * reach_m if first == 0 else 0.0
            stays = total + (own * own - axes * axes) * moved_square(vote, at, i)
            stays *= 2.0 * DRAWN_ONCE * DRAWN_ONCE
            vote.stays2[at, i] = stays + LEAST_SIGMA[i] * LEAST_SIGMA[i]
            # what timing makes has no mean, as rates do not grow for long
            white = a.noise[at, i] + b.noise[at, i]
            vote.sigma2[at, i] = white + change * change + lever * lever


@kernel
def moved_square(vote: Vote, at: int, i: int) -> float:
    """Square of a rate in a window, or of a force less the one that it has in the mean."""
    steady = vote.steady[i] if i < 3 else 0.0
    a, b = vote.imus[0].means[at, i] - steady, vote.imus[1].means[at, i] - steady
    return float(min(a * a, b * b))


@kernel
def learn(vote: Vote, window: int, share: float) -> None:
    """Let the running means go on by a window in which both were well."""
    at = window % WINDOWS
    a = vote.imus[0]
    for i in range(6):
        vote.difference[i] += share * (
            a.means[at, i] - vote.imus[1].means[at, i] - vote.difference[i]
        )
        vote.steady[i] += share * (a.means[at, i] - vote.steady[i])
        vote.spread[i] = vote.stays2[at, i] + vote.sigma2[at, i] / TOGETHER
    # noise may follow propellers that start
    share = max(share, 1.0 / USUAL if vote.flown_s > FLOWN_S else 0.05)
    for k in range(2):
        imu = vote.imus[k]
        imu.usual_count += share * (imu.counts[at] - imu.usual_count)
        for i in range(6):
            imu.usual_noise[i] += share * (imu.noise[at, i] - imu.usual_noise[i])


@kernel
def judge_start(vote: Vote, params: EstimatorParams, now_ns: int) -> None:
    """A difference at switch-on that no turn-on bias explains; the one farther from rest is wrong.

    At rest a gyroscope reads its bias, and an accelerometer gravity.
    """
    start, g = params.start, params.gravity_mps2
    size = np.inf
    for first in range(0, 6, 3):
        sigma = start.accel_bias_mps2 if first == 0 else start.gyro_bias_radps
        for i in range(first, first + 3):
            if abs(vote.difference[i]) <= SIGMAS * math.sqrt(2.0) * sigma:
                continue
            wrong = 0.0
            for k in range(2):
                total = 0.0
                for n in range(first, first + 3):
                    value = vote.steady[n] - (vote.difference[n] if k == 1 else 0.0)
                    total += value * value
                size = abs(math.sqrt(total) - (g if first == 0 else 0.0))
                wrong += size if k == 0 else -size
            k = 0 if wrong > 0.0 else 1
            leave_out(vote, k, DIFFERS, now_ns, 0, i, vote.difference[i])
            for n in range(6):
                vote.difference[n] = 0.0
            return


@kernel
def judge_noise(vote: Vote, window: int, now_ns: int) -> None:
    """Find an IMU that loses samples, or whose noise has grown while the other's has not."""
    if vote.learned < KNOWN:
        return
    for k in range(2):
        imu, other = vote.imus[k], vote.imus[1 - k]
        got = 0
        for n in range(LOSSES):
            if has_window(imu, window - n):
                got += imu.counts[(window - n) % WINDOWS]
        if got < LEAST_SHARE * LOSSES * imu.usual_count:
            share = got / (LOSSES * imu.usual_count)
            leave_out(vote, k, LOSES, now_ns, now_ns, 0, share)
        if other.reason != GOOD:
            continue  # it is no measure
        for i in range(6):
            own = reference = highest = second = 0.0
            for n in range(TOGETHER):
                noise = imu.noise[(window - n) % WINDOWS, i]
                own += noise
                if noise > highest:
                    highest, second = noise, highest
                else:
                    second = max(second, noise)
                reference += other.noise[(window - n) % WINDOWS, i]
            own -= highest + second  # those of a step
            least = LEAST_SIGMA[i] * LEAST_SIGMA[i]
            usual = TOGETHER * max(imu.usual_noise[i], least)
            grown = own > LARGEST_START_NOISE * max(usual, reference)
            if vote.flown_s > FLOWN_S:
                others = TOGETHER * max(other.usual_noise[i], least)
                ratio = max(1.0, reference / others)
                grown = own > max(LARGEST_NOISE * usual * ratio, 2.0 * reference)
            if grown:
                since_ns = now_ns - TOGETHER * vote.window_ns
                leave_out(vote, k, NOISY, now_ns, since_ns, i, math.sqrt(own / TOGETHER))


@kernel
def judge_difference(vote: Vote, state: Eskf, window: int, now_ns: int) -> None:
    """Find a difference that nothing explains, and whose it is."""
    worst, axis, size, close, at = 0.0, 0, 0.0, True, window % WINDOWS
    for i in range(6):
        mean = white = stays = 0.0
        for n in range(TOGETHER):
            back = (window - n) % WINDOWS
            mean += vote.off[back, i] / TOGETHER
            white += vote.sigma2[back, i] / TOGETHER
            stays += vote.stays2[back, i] / TOGETHER
        vote.mean_off[i] = mean
        off, mean2, off2 = vote.off[at, i], stays + white / TOGETHER, vote.stays2[at, i]
        off2 += vote.sigma2[at, i]
        vote.excess[at, i, 0] = max(mean * mean - mean2, 0.0)
        vote.excess[at, i, 1] = max(off * off - off2, 0.0)
        long = abs(mean) / math.sqrt(mean2 + vote.usual[i, 0])
        short = abs(off) / math.sqrt(off2 + vote.usual[i, 1])
        close = close and long < AGREE_SIGMAS
        if max(long, short) > worst:
            worst, axis = max(long, short), i
            size = mean if long > short else off
    if vote.imus[0].reason != GOOD or vote.imus[1].reason != GOOD:
        vote.disagree_ns = 0
        for k in range(2):
            imu = vote.imus[k]
            lasts = imu.reason == DIFFERS and abs(vote.mean_off[imu.axis]) > 0.5 * abs(imu.size)
            if imu.reason != GOOD and (lasts or not close):  # what differs is not taken back
                imu.bad_ns = now_ns
        return
    if worst <= (SIGMAS if vote.flown_s > FLOWN_S else START_SIGMAS):
        old = (window - LOSSES) % WINDOWS  # before a difference that has just begun
        for i in range(6):
            for n in range(2):
                vote.usual[i, n] += (vote.excess[old, i, n] - vote.usual[i, n]) / USUAL_OFF
        if close and vote.disagree_ns > 0:
            vote.disagree_ns = 0
            vote.changed += 1
        if vote.disagree_ns == 0:
            return
    if vote.disagree_ns == 0:
        vote.disagree_ns = now_ns
        vote.step = vote.step_odds = 0.0
        begin_innovations(vote, state)
    else:
        weigh_innovations(vote, state, window)
    if now_ns - vote.disagree_ns < TOGETHER * vote.window_ns:  # else it has left the windows
        take_step(vote, window, axis)
    odds = vote.step_odds + (vote.odds if vote.used == 0 else -vote.odds)
    soon = now_ns - vote.disagree_ns < SOON_NS
    if abs(odds) > (ODDS if soon else LATE_ODDS):
        since_ns = min(vote.step_ns, vote.disagree_ns)
        leave_out(vote, 0 if odds > 0.0 else 1, DIFFERS, now_ns, since_ns, axis, size)
        vote.disagree_ns = 0
    elif now_ns - vote.disagree_ns > INNOVATIONS_NS:
        begin_innovations(vote, state)


@kernel
def take_step(vote: Vote, window: int, axis: int) -> None:
    """Take the odds that the first one stepped, where the difference stepped most.

    With the step J of the difference, the two step by c + J and c, or by c and c - J; c is that of
    the true motion. Of a normal c the logarithm of the odds is s J / (2 var c), s the sum of both.
    The c of the windows before give its variance; of plain steps, and of those less the step
    before, that counts which tells more.
    """
    a, b = vote.imus[0], vote.imus[1]
    step, at = 0.0, window
    for n in range(2 * TOGETHER):
        k = window - n
        if not (has_window(a, k - 1) and has_window(b, k - 1)):
            break
        new = vote_off(vote, k + 1, axis) - vote_off(vote, k - 1, axis)
        if abs(new) > abs(step):
            step, at = new, k
    if abs(step) <= abs(vote.step):
        return
    vote.step, vote.step_ns, vote.step_odds = step, (at - 1) * vote.window_ns, 0.0
    for order in range(2):
        square, count = 0.0, 0
        for k in range(at - 2 - 2 * TOGETHER, at - 2):
            if has_window(a, k - 3) and has_window(b, k - 3) and has_window(a, k + 1):
                c = 0.5 * both_step(vote, k, axis, order)
                square += c * c
                count += 1
        if count < TOGETHER:
            continue
        # twice that: a manoeuvre begins in a moment
        variance = 2.0 * square / count + LEAST_SIGMA[axis] * LEAST_SIGMA[axis]
        new = both_step(vote, at, axis, order) * step / (2.0 * variance)
        if abs(new) > abs(vote.step_odds):
            vote.step_odds = new


@kernel
def both_step(vote: Vote, window: int, axis: int, order: int) -> float:
    """Step of the sum of both over a window, less ``order`` times the step before it."""
    after, here, before = (window + 1) % WINDOWS, (window - 1) % WINDOWS, (window - 3) % WINDOWS
    total = 0.0
    for k in range(2):
        means = vote.imus[k].means
        total += means[after, axis] - means[here, axis]
        total -= order * (means[here, axis] - means[before, axis])
    return float(total)


@kernel
def vote_off(vote: Vote, window: int, axis: int) -> float:
    """Difference of the two in a window, less its running mean."""
    at = window % WINDOWS
    return float(
        vote.imus[0].means[at, axis] - vote.imus[1].means[at, axis] - vote.difference[axis]
    )


@kernel
def begin_innovations(vote: Vote, state: Eskf) -> None:
    """Weigh the innovations from here on."""
    vote.odds = 0.0
    for i in range(3):
        vote.turn_W[i] = vote.drift_W[i] = vote.way_W[i] = 0.0
    vote.seen[0] = state.accepted[GNSS_VELOCITY] + state.rejected[GNSS_VELOCITY]
    vote.seen[1] = state.accepted[GNSS_POSITION] + state.rejected[GNSS_POSITION]
    vote.seen[2] = state.accepted[EXTERNAL_POSITION] + state.rejected[EXTERNAL_POSITION]


@kernel
def weigh_innovations(vote: Vote, state: Eskf, window: int) -> None:
    """Odds that the IMU in use is wrong by the difference, by the newest innovations.

    With an error e of rate and force the estimate is off by the turn -R e_w t, and by what that
    and R e_f make of the velocity. Innovations y of the variance S have that mean m, or zero: the
    logarithm of the ratio of likelihoods is the sum of (2 y - m) m / (2 S).
    """
    at, dt_s = window % WINDOWS, 1e-9 * vote.window_ns
    sign = 1.0 if vote.used == 0 else -1.0
    q_WS = quat(state.q_WS)
    off = vote.off[at]
    e_f, e_w = scale(sign, (off[0], off[1], off[2])), scale(sign, (off[3], off[4], off[5]))
    f_W = rotate(q_WS, subtract(vec3(state.f_S), vec3(state.accel_bias_S)))
    turn_W = subtract(vec3(vote.turn_W), scale(dt_s, rotate(q_WS, e_w)))
    push_W = subtract(cross(turn_W, f_W), rotate(q_WS, e_f))
    drift_W = add(vec3(vote.drift_W), scale(dt_s, push_W))
    store(vote.turn_W, turn_W)
    store(vote.drift_W, drift_W)
    store(vote.way_W, add(vec3(vote.way_W), scale(dt_s, drift_W)))
    for n in range(3):
        sensor = GNSS_VELOCITY if n == 0 else (GNSS_POSITION if n == 1 else EXTERNAL_POSITION)
        count = state.accepted[sensor] + state.rejected[sensor]
        if count == vote.seen[n]:
            continue
        vote.seen[n] = count
        for i in range(3):
            m = vote.drift_W[i] if n == 0 else vote.way_W[i]
            y, S = state.innovation[sensor, i], state.innovation_variance[sensor, i]
            if S > 0.0:
                vote.odds += (2.0 * y - m) * m / (2.0 * S)


@kernel
def judge_imus(vote: Vote, params: EstimatorParams, state: Eskf, moved: bool) -> None:
    """Judge what is new of the two, and choose which one is used."""
    a, b = vote.imus[0], vote.imus[1]
    now_ns = max(a.stamp_ns, b.stamp_ns)
    judge_alone(vote, now_ns)
    last = min(a.window, b.window) - 2
    vote.done = max(vote.done, last - WINDOWS // 4)
    while vote.done < last:
        vote.done += 1
        window, there = vote.done, True
        for n in range(-1, 2):
            there = there and has_window(a, window + n) and has_window(b, window + n)
        if moved:
            vote.flown_s += 1e-9 * vote.window_ns
        if there:
            judge_window(vote, params, state, window)


@kernel
def wanted_imu(vote: Vote) -> int:
    """Which of the two is to be used: the one that is, while it is well or the other is not."""
    used = vote.used
    if vote.imus[used].reason != GOOD and vote.imus[1 - used].reason == GOOD:
        used = 1 - used
    return int(used)
