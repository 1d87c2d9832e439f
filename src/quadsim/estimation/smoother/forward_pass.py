"""The smoother's forward pass: the filter over a whole flight in the order of the stamps.

The filter's kernels run as they do in ``eskf.measurement_buffer``. Where a tape is given,
every state is written onto it, with how it came from the one before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.elementary import exp
from quadsim.estimation.eskf.gnss import age_gnss_bias
from quadsim.estimation.eskf.heights import walk_range_offset
from quadsim.estimation.eskf.layout import (
    DRAG,
    FIELD_BIAS,
    GNSS_BIAS,
    GNSS_POSITION,
    GRAVITY,
    MAGNETIC_FIELD,
    PRESSURE,
    RANGE,
    TERRAIN,
    N,
    P,
)
from quadsim.estimation.eskf.magnetic_field import turn_field_errors
from quadsim.estimation.eskf.measurement_buffer import (
    FIRST_INTERVAL_NS,
    GAP,
    IMU,
    NEVER_NS,
    OK,
    fuse_event,
    triple,
    upper_half,
)
from quadsim.estimation.eskf.mechanisation import advance, eskf_imu, first_sample
from quadsim.geometry.length import hypot

#: How a state of the tape came from the one before: it is the same as the end of the segment
#: before; a start or a recovery, which have nothing to do with it; prediction; what a measurement
#: does with the state before it is fused (terrain walks, a correlated error ages); measurements.
JOIN, BEGIN, PREDICT, AGE, FUSE = range(5)

STEP = record_dtype(
    [
        ("kind", np.int64),
        ("event", np.int64),  # the IMU sample in whose interval the step lies; -1: none
        ("row", np.int64),  # of that sample, counted from the first
        ("given", np.int64),  # whether the state is at that sample's stamp, and given out
        ("dt_s", np.float64),  # of a prediction
        ("decay", np.float64),  # of the correlated error of GNSS positions
        ("fresh", np.int64, (N,)),  # states that a measurement set anew
    ]
)


@kernel
def drain(lines: Any, store: Any, at: int) -> int:
    """Move what a line has accepted into a store, and leave the line without a past.

    Returns:
        How many events there were.
    """
    line = lines[0]
    count = line.count
    for i in range(count):
        store[at + i] = line.events[i]
    line.count = 0
    line.done = 0
    line.snapshot_count = 0
    line.newest_imu_ns = NEVER_NS
    line.state.imu_count = 0
    return int(count)


@kernel
def begin_turn(state: Any) -> None:
    """What corrections turn is counted from here on."""
    for i in range(3):
        for k in range(3):
            state.turned[i, k] = 1.0 if i == k else 0.0


@kernel
def note(
    points: Any, steps: Any, count: int, state: Any, kind: int, event: int, row: int, dt_s: float
) -> int:
    """Write a state onto the tape; returns how many it holds now."""
    if points.size == 0:
        return 0
    points[count] = state
    if kind != FUSE:
        begin_turn(points[count])
    step = steps[count]
    step.kind = kind
    step.event = event
    step.row = row
    step.given = 0
    step.dt_s = dt_s
    step.decay = 1.0
    step.fresh[:] = 0
    return int(count + 1)


@kernel
def is_same(A: Any, B: Any, n: int) -> bool:
    """Whether two covariances agree to the bit."""
    for i in range(n):
        for k in range(i, n):
            if A[i, k] != B[i, k]:
                return False
    return True


@kernel
def is_set_from_height(covariance: Any, n: int, at: int, sign: float) -> bool:
    """Whether a state has just been set from the height: its error is that of the height."""
    others = 0
    for k in range(n):
        if k != at and covariance[at, k] != sign * covariance[P + 2, k]:
            others += 1
    return others == 0


@kernel
def note_fresh(step: Any, before: Any, after: Any, n: int, at: int, sign: float) -> None:
    """Write down whether measurements have set a state from the height."""
    now = is_set_from_height(after.covariance, n, at, sign)
    if now and not is_set_from_height(before.covariance, n, at, sign):
        step.fresh[at] = 1


@kernel
def note_ageing(points: Any, steps: Any, count: int, state: Any, params: Any, event: Any) -> int:
    """Write the state as a measurement's kernel finds it, where that changes it before it fuses."""
    noise = params.noise
    if points.size == 0:
        return 0
    if event.kind == GNSS_POSITION:
        share = noise.gnss_correlated_share
        if share == 0.0 or state.n <= GNSS_BIAS:
            return count
        count = note(points, steps, count, state, AGE, -1, -1, 0.0)
        aged = points[count - 1]
        if state.fix_ns > 0:
            elapsed_s = (state.stamp_ns - state.fix_ns) * 1e-9
            steps[count - 1].decay = exp(-elapsed_s / max(noise.gnss_correlation_s, 1e-3))
        age_gnss_bias(aged, noise.gnss_correlation_s, share, upper_half(event.values, 3))
    elif event.kind == MAGNETIC_FIELD:
        if state.n > FIELD_BIAS and (noise.field_scale > 0.0 or noise.field_axes > 0.0):
            count = note(points, steps, count, state, AGE, -1, -1, 0.0)
            turn_field_errors(points[count - 1], noise)
    elif event.kind == RANGE:
        if params.flat_ground == 1 or state.n <= TERRAIN:
            range_m, gate = event.values[0], params.gate
            if noise.range_scale > 0.0 and gate.range_min_m <= range_m <= gate.range_max_m:
                count = note(points, steps, count, state, AGE, -1, -1, 0.0)
                walk_range_offset(points[count - 1], params, range_m)
            return count
        if state.terrain_started == 0:
            return count
        count = note(points, steps, count, state, AGE, -1, -1, 0.0)
        walked_m = hypot(state.v_W[0], state.v_W[1]) * (state.stamp_ns - state.range_ns) * 1e-9
        walk = noise.terrain_walk
        points[count - 1].covariance[TERRAIN, TERRAIN] += walk * walk * walked_m
    return count


@kernel
def note_measurement(points: Any, steps: Any, count: int, state: Any) -> int:
    """Write the state after a measurement; those without a prediction between share one place."""
    if points.size == 0:
        return 0
    before = points[count - 1]
    if is_same(state.covariance, before.covariance, state.n):
        return count  # it was rejected or ignored
    if steps[count - 1].kind == FUSE:
        before = points[count - 2]
    else:
        count = note(points, steps, count, state, FUSE, -1, -1, 0.0)
    step = steps[count - 1]
    note_fresh(step, before, state, state.n, PRESSURE, -1.0)
    note_fresh(step, before, state, state.n, TERRAIN, 1.0)
    points[count - 1] = state
    return count


@kernel
def measure(
    line: Any, events: Any, i: int, sample_at: int, row: int, points: Any, steps: Any, count: int
) -> int:
    """Bring the filter to a measurement and fuse it; see ``eskf.measurement_buffer.run``.

    Args:
        line: TIMELINE record.
        events: of the flight.
        i: of the measurement.
        sample_at: of the IMU sample that follows; -1: none does.
        row: number of that sample.
        points: the tape's states.
        steps: the tape's steps.
        count: how many the tape holds.

    Returns:
        How many it holds now.
    """
    state = line.state
    stamp_ns = events[i].stamp_ns
    if stamp_ns > state.stamp_ns:
        if sample_at < 0:
            return count
        sample = events[sample_at]
        if state.imu_count == 0 and sample.stamp_ns - stamp_ns <= FIRST_INTERVAL_NS:
            first_sample(state, stamp_ns)
        gap_s = (sample.stamp_ns - state.imu_stamp_ns) * 1e-9
        if state.imu_count == 0 or gap_s > line.params.gate.gap_max_s:
            return count
        dt_s = (stamp_ns - state.stamp_ns) * 1e-9
        values = sample.values
        advance(
            state, line.params, stamp_ns, sample.stamp_ns,
            triple(values, 0), triple(values, 3), triple(values, 6), triple(values, 9),
        )  # fmt: skip
        if state.running == 1 and dt_s > 0.0:
            count = note(points, steps, count, state, PREDICT, sample_at, row, dt_s)
            begin_turn(state)
    was_running, begins, range_ns = state.running, state.starts + state.recoveries, state.range_ns
    unaged = count
    if was_running == 1:
        count = note_ageing(points, steps, count, state, line.params, events[i])
        if count != unaged:
            begin_turn(state)
    line.events[0] = events[i]
    fuse_event(line, 0)
    if state.running == 0:
        return count
    if state.starts + state.recoveries != begins:
        begin_turn(state)
        return note(
            points, steps, count, state, BEGIN, sample_at if was_running == 0 else -1, row, 0.0
        )
    if events[i].kind == RANGE and state.range_ns == range_ns:
        if count != unaged:
            state.turned = points[unaged - 1].turned
        return unaged  # it was ignored
    return note_measurement(points, steps, count, state)


@kernel
def predict(line: Any, events: Any, i: int, row: int, points: Any, steps: Any, count: int) -> int:
    """Take the filter over an IMU sample; arguments and result as of :func:`measure`."""
    state, stamp_ns, values = line.state, events[i].stamp_ns, events[i].values
    f_S, w_S = triple(values, 0), triple(values, 3)
    f_variance, w_variance = triple(values, 6), triple(values, 9)
    was_running, starts, before_ns = state.running, state.starts, state.stamp_ns
    held = state.accepted[GRAVITY] + state.accepted[DRAG]
    begin_turn(state)
    eskf_imu(state, line.params, stamp_ns, f_S, w_S, f_variance, w_variance)
    if state.running == 0 or points.size == 0:
        return count
    dt_s = (stamp_ns - before_ns) * 1e-9
    if was_running == 0:
        count = note(points, steps, count, state, BEGIN, i, row, 0.0)
    elif state.starts != starts:  # from the window beside
        count = note(points, steps, count, state, BEGIN, -1, row, 0.0)
    elif state.accepted[GRAVITY] + state.accepted[DRAG] == held:
        count = note(points, steps, count, state, PREDICT, i, row, dt_s)
    else:  # the prediction alone, again; what holds the attitude comes with its time, or not
        count = note(points, steps, count, points[count - 1], PREDICT, i, row, dt_s)
        alone = points[count - 1]
        alone.mean_ns = stamp_ns
        eskf_imu(alone, line.params, stamp_ns, f_S, w_S, f_variance, w_variance)
        count = note(points, steps, count, state, FUSE, i, row, 0.0)
    steps[count - 1].given = 1
    return count


@kernel
def forward(
    lines: Any, events: Any, first: int, last: int, row: int, points: Any, steps: Any
) -> int:
    """Run the filter over a part of the flight that ends with an IMU sample, or with the flight.

    Args:
        lines: (1,) TIMELINE; of it the parameters, the filter and the count of gaps.
        events: (K,) EVENT in the order of their stamps, of equal ones the IMU first.
        first: index of the part's first event.
        last: index behind its last one.
        row: number of IMU samples before it.
        points: (C,) ESKF, C at least three times the events and one; or (0,): nothing is written.
        steps: (C,) STEP.

    Returns:
        How many states the tape holds.
    """
    line = lines[0]
    state = line.state
    count = 0
    if state.running == 1:
        begin_turn(state)
        count = note(points, steps, count, state, JOIN, -1, -1, 0.0)
    i = first
    while i < last:
        j = i
        while j < last and events[j].kind != IMU:
            j += 1
        for m in range(i, j):
            count = measure(line, events, m, j if j < last else -1, row, points, steps, count)
        if j < last:
            gap_s = (events[j].stamp_ns - state.imu_stamp_ns) * 1e-9
            if points.size == 0 and state.imu_count > 2 and gap_s > 3.0 * state.period_s:
                line.verdicts[IMU, GAP] += 1
                line.verdicts[IMU, OK] -= 1
            count = predict(line, events, j, row, points, steps, count)
            row += 1
        i = j + 1
    return count
