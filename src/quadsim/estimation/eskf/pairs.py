"""Two GNSS receivers, or two range finders: what is wrong with one, and which one is fused.

One of the two is fused, the other only judged: what both have in common (atmosphere, ground) makes
two no better than one by the square root of two. PX4 and ArduPilot take one receiver as well, by
fix, accuracy and innovations, where they do not blend (``EKF2``, ``GPS_AUTO_SWITCH``). Here

- each alone is judged: it is silent, it repeats one value to the bit, it sees something right
  before it while the other sees the ground;
- the two are compared, each with its own lever arm: a difference beyond :data:`LIMIT` of what both
  state is a fault of one. The filter's innovations tell which by odds of 20 to 1, as in
  :mod:`.voting`. They speak against the one that is fused at any time, and against the other only
  where the difference is sudden: of a slow drift the filter has followed the one that is fused.

Until it is told, the difference is in the deviation of the estimate (:func:`doubt`).
"""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, Vector, argument, kernel
from quadsim.base.parameters import Vec3, pack
from quadsim.estimation.eskf.heights import (
    beam,
    has_range_offset,
    is_in_limits,
    is_usable_range,
    up_of,
)
from quadsim.estimation.eskf.layout import (
    GNSS_BIAS,
    GNSS_POSITION,
    GNSS_VELOCITY,
    RANGE,
    SENSORS,
    TERRAIN,
    THETA,
    Eskf,
    P,
    V,
)
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.repetition import Source, is_repeated, watch_source
from quadsim.estimation.eskf.update import forget_links
from quadsim.geometry.rotation import quat, rotate, unrotate
from quadsim.geometry.vector import add, cross, dot, scale, store, subtract, vec3

#: What there may be two of, other than IMUs.
GNSS, RANGEFINDER = range(2)
#: Kinds of messages of the second one, behind those of the timeline, and those of the first.
SECONDS_FROM = len(SENSORS) + 2
FIRST_KINDS = np.array([GNSS_POSITION, GNSS_VELOCITY, RANGE])

#: Squares of deviations, summed over the axes, beyond which two disagree (once in 1e7 of three
#: normal numbers), and below which they agree.
LIMIT, AGREE = 36.0, 16.0
#: Natural logarithm of the odds that tell whose a difference is, 20 to 1; most that one fix counts.
ODDS, MOST_ODDS = 3.0, 10.0
#: A difference is sudden that has changed by more (a square, as above) since the older one of two
#: marks, which are set so often, ns, or a little later.
SUDDEN, MARK_NS, OLD_MARK_NS = 25.0, 150_000_000, 700_000_000
#: Silent beyond this, and so many periods, by the clock of the IMU; before the period is known.
LATE_NS, LATE_PERIODS, FIRST_NS = 150_000_000, 2.5, 1_000_000_000
#: A repeated fix is a fault beyond its longest ordinary run and so many.
REPEATS_MORE = 1.5
#: So often in a row a range was too short to be one while the other sees the ground beyond this, m.
NEAR_TIMES, FAR_M = 5, 1.0
#: What was left out is taken back after so long; so long the other states half the deviation
#: before it is fused, and vice versa; stamps that go back by so much begin a new time, ns.
BACK_NS, BETTER_NS, NEW_TIME_NS = 2_000_000_000, 2_000_000_000, 1_000_000_000

#: How many judged ones it remembers; two are compared that are half a period apart or less.
KEPT, APART = 8, 0.55

#: Why one is left out; the words of ``estimation.voting_words``.
GOOD, SILENT, REPEATS, TOO_NEAR, DIFFERS = map(argument, range(5))


class Part(Record):
    """What one of two measures of one quantity: position, velocity, or height above the ground."""

    heard_ns: int  # by the clock of the IMU
    said_ns: int  # its newest stamp
    period_s: float
    near: int  # readings in a row that are too short
    range_m: float
    source: Source
    stamp_ns: int  # of the newest that was judged
    newest: int  # row of it in what follows, rings
    stamps_ns: Annotated[NDArray[np.int64], KEPT]
    x: Annotated[Array, KEPT, 3]  # of the IMU, by it
    y: Annotated[Array, KEPT, 3]  # that less the filter's
    variance: Annotated[Array, KEPT, 3]  # of y, without what is known of lasting errors
    noise: Vector  # stated variance of the newest; 0: no such axis


class Device(Record):
    """One of two, a receiver or a range finder."""

    parts: Annotated[Records[Part], 2]
    reason: int  # why it is left out
    part: int
    axis: int
    size: float  # of the difference, or of the silence in s
    since_ns: int  # first sign of it
    bad_ns: int  # newest sign
    named_ns: int
    last_reason: int
    back_ns: int


class Pair(Record):
    """Two of a kind."""

    on: int  # whether there are two
    used: int
    from_ns: int  # from which stamp that one counts; before it the other did
    changed: int  # how often somebody was left out, taken back or in doubt
    switches: int
    doubted: int  # whether a difference that nobody explained is in the receivers' lasting error
    better_ns: int  # since when the other one states half the deviation, or alone sees the ground
    devices: Annotated[Records[Device], 2]
    off: Annotated[Array, 2, 3]  # of each part the first less the second
    total: Annotated[Array, 2]  # squares of its deviations
    marks: Annotated[Array, 2, 2, 3]  # a while ago, the older one first
    mark_ns: Annotated[NDArray[np.int64], 2, 2]
    disagree_ns: Annotated[NDArray[np.int64], 2]  # since when they do, untold; 0: they agree
    odds: Annotated[Array, 2]  # that the first is wrong, logarithm


@kernel
def first_kind(kind: int) -> int:
    """Kind of the first one's messages, of a kind of the second's; others are as they are."""
    return int(FIRST_KINDS[kind - SECONDS_FROM]) if kind >= SECONDS_FROM else kind


@kernel
def pair_of(kind: int) -> int:
    """Which pair a kind of message of a first one belongs to; -1: none."""
    if kind == RANGE:
        return RANGEFINDER
    return GNSS if kind == GNSS_POSITION or kind == GNSS_VELOCITY else -1


def params_of_second(params: EstimatorParams) -> EstimatorParams:
    """Parameters with those of the second receiver and range finder in the places of the first."""
    second = params.second
    mount = replace(
        params.mount,
        antenna_position_B_m=second.antenna_position_B_m,
        rangefinder_position_B_m=second.rangefinder_position_B_m,
        rangefinder_beam_deg=second.rangefinder_beam_deg,
    )
    own = {each.name for each in fields(params.noise)} & {each.name for each in fields(second)}
    noise = replace(params.noise, **{name: getattr(second, name) for name in own})
    return replace(params, mount=mount, noise=noise)


def tell_pairs(line: Any, params: EstimatorParams) -> None:
    """Tell a timeline which two there are, and where the second ones sit."""
    line["params_1"] = pack(params_of_second(params))
    line["pairs"]["on"] = (params.second.gnss, params.second.rangefinder)
    line["twos"] = int(params.second.gnss or params.second.rangefinder)


@kernel
def begin_pair(pair: Pair) -> None:
    """Begin with two of which nothing was heard."""
    pair.used = pair.from_ns = pair.better_ns = pair.doubted = 0
    pair.disagree_ns[:] = 0
    pair.mark_ns[:, :] = 0
    for k in range(2):
        pair.devices[k].reason = GOOD
        for part in range(2):
            one = pair.devices[k].parts[part]
            one.heard_ns = one.said_ns = one.stamp_ns = one.near = 0
            one.period_s = 0.0
            one.stamps_ns[:] = 0
            one.source.count = one.source.changes = one.source.run = one.source.frozen = 0
            one.source.longest = 0.0


@kernel
def allowed_ns(one: Part) -> int:
    """How long one may be silent."""
    if one.period_s == 0.0:
        return FIRST_NS
    return max(LATE_NS, round(LATE_PERIODS * 1e9 * one.period_s))


@kernel
def hear(
    pair: Pair, params: EstimatorParams, k: int, kind: int, stamp_ns: int, values: Array,
    now_ns: int, rests: bool, stands: bool,
) -> bool:  # fmt: skip
    """Take note of a message that is sound; whether it repeats, and so states nothing.

    Args:
        pair: of the device.
        params: packed EstimatorParams.
        k: which of the two.
        kind: of the first one's message.
        stamp_ns: of it.
        values: its numbers; an infinite range is heard, and states nothing.
        now_ns: the IMU's newest stamp.
        rests, stands: as of :func:`~quadsim.estimation.eskf.repetition.watch_source`.
    """
    part = 1 if kind == GNSS_VELOCITY else 0
    if stamp_ns < pair.devices[k].parts[part].said_ns - NEW_TIME_NS:
        begin_pair(pair)
    one, other = pair.devices[k].parts[part], pair.devices[1 - k].parts[part]
    both = now_ns - one.heard_ns > allowed_ns(one) and now_ns - other.heard_ns > allowed_ns(other)
    if other.heard_ns == 0 or both:
        other.heard_ns = now_ns  # its silence counts from here
    dt_s = (stamp_ns - one.said_ns) * 1e-9
    if one.said_ns > 0 and dt_s > 0.0:
        if one.period_s == 0.0:
            one.period_s = dt_s
        elif dt_s < 3.0 * one.period_s:
            one.period_s += 0.1 * (dt_s - one.period_s)
    one.said_ns, one.heard_ns = stamp_ns, now_ns
    if kind == RANGE:
        one.range_m = values[0]
        one.near = one.near + 1 if one.range_m < params.gate.range_min_m else 0
    if math.isinf(values[0]):
        return False
    watch_source(one.source, kind, values, rests, stands, 0)
    return is_repeated(kind, one.source)


@kernel
def leave_out(
    pair: Pair, k: int, reason: int, now_ns: int, since_ns: int, part: int, axis: int, size: float
) -> None:
    """Something is wrong with one of the two, since a time."""
    device = pair.devices[k]
    device.bad_ns = now_ns
    if device.reason == GOOD:
        device.reason = device.last_reason = reason
        device.part, device.axis, device.size = part, axis, size
        device.since_ns, device.named_ns = since_ns, now_ns
        pair.changed += 1


@kernel
def judge_alone(pair: Pair, g: int, params: EstimatorParams, now_ns: int) -> None:
    """Find what one's own messages tell of it, and take back what is well again."""
    for k in range(2):
        device = pair.devices[k]
        for part in range(2):
            one, other = device.parts[part], pair.devices[1 - k].parts[part]
            if one.heard_ns == 0 or (part == 1 and one.period_s == 0.0):
                continue
            silent_ns = now_ns - one.heard_ns
            if silent_ns > allowed_ns(one) and other.heard_ns > one.heard_ns:
                leave_out(pair, k, SILENT, now_ns, one.said_ns + 1, part, 0, silent_ns * 1e-9)
            source, far_m = one.source, other.range_m
            runs = source.frozen == 1 or (g == GNSS and source.run > source.longest + REPEATS_MORE)
            if runs:
                since_ns = one.said_ns - round(1e9 * source.run * one.period_s)
                leave_out(pair, k, REPEATS, now_ns, since_ns + 1, part, 0, 0.0)
            if one.near >= NEAR_TIMES and is_in_limits(params, far_m) and far_m > FAR_M:
                leave_out(pair, k, TOO_NEAR, now_ns, now_ns, part, 0, far_m)
        if device.reason != GOOD and now_ns - device.bad_ns > BACK_NS:
            device.reason, device.back_ns = GOOD, now_ns
            pair.changed += 1
    used, other = pair.devices[pair.used].parts[0], pair.devices[1 - pair.used].parts[0]
    if g == RANGEFINDER and used.range_m == math.inf and is_in_limits(params, other.range_m):
        pair.better_ns = now_ns if pair.better_ns == 0 else pair.better_ns
    elif g == RANGEFINDER:
        pair.better_ns = 0


@kernel
def lever_between(state: Eskf, params: EstimatorParams, second: EstimatorParams, kind: int) -> Vec3:
    """Way from the first one's place to the second's, in the axes of the IMU."""
    if kind == RANGE:
        a, b = params.mount.rangefinder_position_B_m, second.mount.rangefinder_position_B_m
    else:
        a, b = params.mount.antenna_position_B_m, second.mount.antenna_position_B_m
    return unrotate(quat(state.q_BS), subtract(vec3(b), vec3(a)))


@kernel
def turned_variance(state: Eskf, lever_W: Vec3, i: int) -> float:
    """Variance of an axis of a lever arm, by the attitude's; its covariances are left out."""
    j, k = (i + 1) % 3, (i + 2) % 3
    y, z = lever_W[j], lever_W[k]
    C = state.covariance
    return float(C[THETA + j, THETA + j] * z * z + C[THETA + k, THETA + k] * y * y)


@kernel
def measure(
    one: Part, state: Eskf, params: EstimatorParams, kind: int, values: Array, lever_S: Vec3
) -> bool:
    """What a message gives for the IMU, and what is off; whether it can be judged.

    Args:
        one: its part.
        state: ESKF record, at its stamp.
        params: of the one that gave it.
        kind: of the first one's message.
        values: of the event.
        lever_S: from the IMU to the one that gave it.
    """
    C, q_WS = state.covariance, quat(state.q_WS)
    lever_W = rotate(q_WS, lever_S)
    at, n = P, (one.newest + 1) % KEPT
    if kind == RANGE:
        varies = params.flat_ground == 0 and state.n > TERRAIN
        if not is_usable_range(state, params, values[0]) or (varies and not state.terrain_started):
            return False
        down = -beam(up_of(state), params.mount.rangefinder_beam_deg)[2]
        above_m = values[0] * down - lever_W[2]
        ground_m = state.terrain_height_m if varies else params.ground_height_m
        variance = values[1] if values[1] > 0.0 else params.noise.range_sigma_m**2
        variance *= down * down
        store(one.x[n], (0.0, 0.0, above_m))
        store(one.y[n], (0.0, 0.0, above_m - (state.p_W[2] - ground_m)))
        store(one.noise, (0.0, 0.0, variance))
        S = C[P + 2, P + 2] + variance
        if varies:
            S += C[TERRAIN, TERRAIN] - 2.0 * C[P + 2, TERRAIN]
        one.variance[n, 2], one.newest = S, n
        return True
    x = vec3(values[:3])
    if kind == GNSS_POSITION:
        x = subtract(x, lever_W)
        late_W = scale(state.gnss_time_s, vec3(state.v_W))
        store(one.y[n], add(subtract(x, vec3(state.p_W)), late_W))
    else:
        at = V
        w_S = subtract(vec3(state.w_S), vec3(state.gyro_bias_S))
        x = subtract(x, rotate(q_WS, cross(w_S, lever_S)))
        store(one.y[n], subtract(x, vec3(state.v_W)))
    store(one.x[n], x)
    store(one.noise, (values[3], values[6], values[8]))
    for i in range(3):
        S = C[at + i, at + i] + one.noise[i]
        if kind == GNSS_POSITION:
            S += turned_variance(state, lever_W, i)
        one.variance[n, i] = S
    one.newest = n
    return True


@kernel
def nis_of(one: Part, n: int, i: int) -> float:
    """Square of what is off along an axis in a row, over its variance."""
    y, S = one.y[n, i], one.variance[n, i]
    return float(y * y / S) if S > 0.0 else 0.0


@kernel
def nearest(one: Part, stamp_ns: int) -> int:
    """Row of the one that was measured nearest to a stamp."""
    found = 0
    for n in range(1, KEPT):
        if abs(one.stamps_ns[n] - stamp_ns) < abs(one.stamps_ns[found] - stamp_ns):
            found = n
    return found


@kernel
def explained(state: Eskf, params: EstimatorParams, kind: int, lever_W: Vec3, i: int) -> float:
    """Variance of an axis of the difference of two, beyond what they state."""
    if kind == GNSS_VELOCITY:
        return float(
            dot(lever_W, lever_W)
            * max(state.w_variance[0], state.w_variance[1], state.w_variance[2])
        )
    found = turned_variance(state, lever_W, i)
    if kind == RANGE and params.flat_ground == 0:
        apart_m = math.sqrt(lever_W[0] * lever_W[0] + lever_W[1] * lever_W[1])
        found += 2.0 * params.noise.terrain_walk * params.noise.terrain_walk * apart_m
    return found


@kernel
def compare(
    pair: Pair, k: int, state: Eskf, params: EstimatorParams, kind: int, lever_W: Vec3, now_ns: int
) -> None:
    """Compare the newest of one with the other's of that time: name what is wrong, or disagrees."""
    part = 1 if kind == GNSS_VELOCITY else 0
    a, b = pair.devices[0].parts[part], pair.devices[1].parts[part]
    own, m, n = pair.devices[k], a.newest, b.newest
    if k == 0:
        n = nearest(b, now_ns)
    else:
        m = nearest(a, now_ns)
    apart_ns = abs(a.stamps_ns[m] - b.stamps_ns[n])
    if apart_ns > round(APART * 1e9 * max(a.period_s, b.period_s)):
        # alone, it is judged by the filter
        if own.reason == DIFFERS and nis_of(own.parts[part], m if k == 0 else n, own.axis) > AGREE:
            own.bad_ns = now_ns
        if pair.devices[1 - k].reason != GOOD:
            pair.disagree_ns[part] = 0
        return
    worst, axis, total, unit, off = 0.0, 0, 0.0, 1.0, pair.off[part]
    for i in range(3):
        variance = a.noise[i] + b.noise[i]
        if variance == 0.0:
            continue
        off[i] = a.x[m, i] - b.x[n, i] if apart_ns == 0 else a.y[m, i] - b.y[n, i]
        variance += explained(state, params, kind, lever_W, i)
        square = off[i] * off[i] / variance
        total += square
        if square > worst:
            worst, axis, unit = square, i, variance
    pair.total[part] = total
    old, old_ns = pair.marks[part, 0, axis], pair.mark_ns[part, 0]
    sudden = old_ns > 0 and now_ns - old_ns < OLD_MARK_NS
    sudden = sudden and (off[axis] - old) * (off[axis] - old) > SUDDEN * unit
    if now_ns - pair.mark_ns[part, 1] >= MARK_NS:
        pair.mark_ns[part, 0], pair.mark_ns[part, 1] = pair.mark_ns[part, 1], now_ns
        for i in range(3):
            pair.marks[part, 0, i], pair.marks[part, 1, i] = pair.marks[part, 1, i], off[i]
    first, second = pair.devices[0], pair.devices[1]
    if first.reason != GOOD or second.reason != GOOD:
        pair.disagree_ns[part] = 0
        for one in range(2):
            if pair.devices[one].reason != GOOD and total > AGREE:
                pair.devices[one].bad_ns = now_ns
        return
    if total < AGREE or (total <= LIMIT and pair.disagree_ns[part] == 0):
        pair.changed += int(pair.disagree_ns[part] > 0)
        pair.disagree_ns[part] = 0
        return
    if pair.disagree_ns[part] == 0:
        pair.disagree_ns[part], pair.odds[part] = now_ns, 0.0
        pair.changed += 1
    if total <= LIMIT:
        return
    more = 0.5 * (nis_of(a, m, axis) - nis_of(b, n, axis))
    odds = pair.odds[part] + min(max(more, -MOST_ODDS), MOST_ODDS)
    if not sudden:  # see the head of this module
        odds = max(odds, 0.0) if pair.used == 0 else min(odds, 0.0)
    pair.odds[part] = odds
    if abs(pair.odds[part]) > ODDS:
        k = 0 if pair.odds[part] > 0.0 else 1
        since_ns = old_ns if sudden else pair.disagree_ns[part]
        leave_out(pair, k, DIFFERS, now_ns, since_ns + 1, part, axis, abs(off[axis]))
        pair.disagree_ns[part] = 0


@kernel
def watch_accuracy(pair: Pair, now_ns: int) -> None:
    """Since when the one that is not fused states half the deviation of the other."""
    used, other = pair.devices[pair.used].parts[0], pair.devices[1 - pair.used].parts[0]
    own = used.noise[0] + used.noise[1] + used.noise[2]
    others = other.noise[0] + other.noise[1] + other.noise[2]
    if others == 0.0 or 4.0 * others >= own:
        pair.better_ns = 0
    elif pair.better_ns == 0:
        pair.better_ns = now_ns


@kernel
def wanted_device(pair: Pair, now_ns: int) -> int:
    """Which of the two is to be fused."""
    used = pair.used
    own, other = pair.devices[used], pair.devices[1 - used]
    better = pair.better_ns > 0 and now_ns - pair.better_ns > BETTER_NS
    if other.reason == GOOD and other.parts[0].said_ns > 0 and (own.reason != GOOD or better):
        used = 1 - used
    return int(used)


@kernel
def take_over(state: Eskf, pair: Pair, own: EstimatorParams, others: EstimatorParams) -> None:
    """Let a state of the filter stand for the lasting error of the one that is fused from now on.

    It stays what it is, and its deviation grows by that of the difference of the two. So nothing
    steps, and an error that both have in common is not averaged. Only a receiver that states half
    the deviation of the one before, or follows a doubt, begins anew: it tells the position better.
    """
    C = state.covariance
    a, b = pair.devices[pair.used].parts[0], pair.devices[1 - pair.used].parts[0]
    if a.noise[0] == 0.0:  # ranges
        more = own.noise.range_offset_m**2 + others.noise.range_offset_m**2
        scales2 = own.noise.range_scale**2 + others.noise.range_scale**2
        if state.n > TERRAIN:
            C[TERRAIN, TERRAIN] += more + scales2 * a.range_m * a.range_m
        return
    if state.n <= GNSS_BIAS:
        return
    for i in range(3):
        at, share = GNSS_BIAS + i, own.noise.gnss_correlated_share
        if pair.doubted == 1 or 4.0 * a.noise[i] < b.noise[i]:
            forget_links(C, at)
            state.gnss_bias_W[i] = 0.0
            C[at, at] = share * a.noise[i]
        else:
            C[at, at] += share * a.noise[i] + others.noise.gnss_correlated_share * b.noise[i]


@kernel
def doubt(pair: Pair, state: Eskf, params: EstimatorParams, kind: int) -> bool:
    """Let the deviation be no smaller than a difference that nobody explains; whether to fuse.

    The doubt goes into the state of the lasting error and, as the estimate has followed that error,
    into the estimate. Without such a state neither of the two is fused.
    """
    C, off = state.covariance, pair.off[0]
    if kind == GNSS_POSITION and state.n > GNSS_BIAS and params.noise.gnss_correlated_share > 0.0:
        begin, at, sign = 0, GNSS_BIAS, -1.0
        pair.doubted, state.fix_ns = 1, state.stamp_ns  # nothing is known of how it decays
    elif kind == RANGE and state.n > TERRAIN and (
        params.flat_ground == 0 or has_range_offset(params)
    ):  # fmt: skip
        begin, at, sign = 2, TERRAIN - 2, 1.0
    else:
        return False
    for i in range(begin, 3):
        more = max(off[i] * off[i] - C[P + i, P + i], 0.0)
        C[P + i, P + i] += more
        C[at + i, at + i] += more
        C[P + i, at + i] += sign * more
        C[at + i, P + i] += sign * more
    return True
