"""The one of two receivers or range finders that is fused, on the timeline; see :mod:`.pairs`."""

from __future__ import annotations

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.heights import is_usable_range
from quadsim.estimation.eskf.layout import GNSS_POSITION, GNSS_VELOCITY, RANGE, Eskf
from quadsim.estimation.eskf.measurement_buffer import (
    HORIZON_NS,
    NEVER_NS,
    SNAPSHOT_NS,
    Buffer,
    Input,
    go_back,
)
from quadsim.estimation.eskf.pairs import (
    DIFFERS,
    GOOD,
    REPEATS,
    SECONDS_FROM,
    TOO_NEAR,
    compare,
    doubt,
    first_kind,
    hear,
    judge_alone,
    lever_between,
    measure,
    pair_of,
    take_over,
    wanted_device,
    watch_accuracy,
)
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, store, vec3


@kernel
def hear_one(line: Buffer, k: int, kind: int, stamp_ns: int, values: Array, stands: bool) -> bool:
    """Take note of a sound message of one of two; whether it repeats, and so states nothing."""
    g = pair_of(kind)
    pair, now_ns = line.pairs[g], max(line.newest_imu_ns, 1)
    rests = line.moved == 0
    repeats = hear(pair, line.params, k, kind, stamp_ns, values, now_ns, rests, stands)
    judge_alone(pair, g, line.params, now_ns)
    return repeats


@kernel
def change_devices(line: Buffer) -> None:
    """Fuse the other one where that is wanted, from before the fault on.

    The filter goes back as far as its horizon lets it, and takes what the other measured since.
    """
    now_ns = line.newest_imu_ns
    for g in range(2):
        pair = line.pairs[g]
        if pair.on == 0 or now_ns == NEVER_NS:
            continue
        used = wanted_device(pair, now_ns)
        if used == pair.used:
            continue
        lost, from_ns = pair.devices[pair.used], now_ns
        if lost.reason != GOOD:
            from_ns = max(lost.since_ns, now_ns - HORIZON_NS + 2 * SNAPSHOT_NS)
        pair.used, pair.from_ns, pair.better_ns = used, from_ns, 0
        pair.switches += 1
        go_back(line, GNSS_POSITION, from_ns)


@kernel
def shift_mount(state: Eskf, kind: int, lever_S: Vec3) -> None:
    """Move the place of the antenna, or of the range finder."""
    if kind == RANGE:
        store(state.rangefinder_S, add(vec3(state.rangefinder_S), lever_S))
    else:
        store(state.antenna_S, add(vec3(state.antenna_S), lever_S))


@kernel
def admit(line: Buffer, event: Input) -> bool:
    """Judge a measurement of one of two at the state's stamp; whether it is to be fused."""
    kind, k = first_kind(event.kind), 1 if event.kind >= SECONDS_FROM else 0
    g = pair_of(kind)
    if g < 0 or line.pairs[g].on == 0:
        return True
    pair, state, stamp_ns = line.pairs[g], line.state, event.stamp_ns
    part = 1 if kind == GNSS_VELOCITY else 0
    params, others = line.params, line.params_1
    if k == 1:
        params, others = others, params
    one = pair.devices[k].parts[part]
    if state.running == 1 and stamp_ns > one.stamp_ns:
        place_S = vec3(state.rangefinder_S) if kind == RANGE else vec3(state.antenna_S)
        between_S = lever_between(state, line.params, line.params_1, kind)
        if k == 1:
            place_S = add(place_S, between_S)
        if measure(one, state, params, kind, event.values, place_S):
            one.stamp_ns = one.stamps_ns[one.newest] = stamp_ns
            between_W = rotate(quat(state.q_WS), between_S)
            compare(pair, k, state, line.params, kind, between_W, stamp_ns)
            if part == 0 and kind != RANGE:
                watch_accuracy(pair, stamp_ns)
    if k != (pair.used if stamp_ns >= pair.from_ns else 1 - pair.used):
        return False
    reason = pair.devices[k].reason
    if reason == DIFFERS or reason == REPEATS or reason == TOO_NEAR:
        return False
    usable = kind != RANGE or is_usable_range(state, params, event.values[0])
    if state.running == 0 or not usable:
        return True
    last_ns = state.range_ns if kind == RANGE else state.fix_ns
    changes = stamp_ns >= pair.from_ns and 0 < last_ns < pair.from_ns
    told = pair.doubted == 1 and pair.disagree_ns[0] == 0
    if part == 0 and (changes or told):
        take_over(state, pair, params, others)
        pair.doubted = 0
    return pair.disagree_ns[part] == 0 or doubt(pair, state, params, kind)
