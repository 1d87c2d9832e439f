"""The one driver of the filter: live, in a replay, and in the smoother's forward pass.

It takes the filter over events in the order of their stamps. A measurement stamped after the newest
IMU sample waits for it. One stamped between two samples splits the later one.

The filter's innovations go into the ring of its :class:`~.measurement_buffer.Timeline`. For the
smoother's backward pass every state is logged as well, with how it came from the one before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from quadsim.base.compiled import Array, Records, argument, kernel, template
from quadsim.base.parameters import Vec3
from quadsim.estimation.eskf.aiding import (
    fuse_external_attitude,
    fuse_external_position,
    fuse_zero_velocity,
    hold_attitude,
    hold_rest,
)
from quadsim.estimation.eskf.gnss import age_gnss_bias, fuse_gnss_position, fuse_gnss_velocity
from quadsim.estimation.eskf.gnss_heading import fuse_gnss_heading
from quadsim.estimation.eskf.heights import fuse_pressure, fuse_range, walk_ground
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
    Eskf,
)
from quadsim.estimation.eskf.magnetic_field import fuse_magnetic_field, turn_field_errors
from quadsim.estimation.eskf.measurement_buffer import (
    CAPACITY,
    DROP_FROM,
    IMU,
    Buffer,
    Input,
    Step,
    drop_events,
    keep_snapshot,
)
from quadsim.estimation.eskf.mechanisation import (
    SCALE_ERROR_S,
    ImuInput,
    advance_filter,
    first_sample,
    predict_or_align,
)
from quadsim.estimation.eskf.odometry import fuse_external_velocity, fuse_odometry, move_frame
from quadsim.estimation.eskf.optical_flow import fuse_optical_flow
from quadsim.estimation.eskf.paired import admit, shift_mount
from quadsim.estimation.eskf.pairs import first_kind, lever_between
from quadsim.estimation.eskf.parameters import (
    GAP_ACCEL_MPS2,
    GAP_MAX_S,
    GAP_RATE_RADPS,
    EstimatorParams,
)
from quadsim.estimation.eskf.update import Sym3
from quadsim.geometry.rotation import normalize, quat, unrotate
from quadsim.geometry.vector import add, scale, vec3
from quadsim.world.earth.gravity import gravity_at

#: A measurement so little before the first IMU sample lies in that sample's interval.
FIRST_INTERVAL_NS = 10_000_000

#: How a logged state came from the one before: it is the end of the segment before; a start or a
#: recovery, which have nothing to do with it; prediction; what a measurement does with the state
#: before it is fused (terrain walks, a correlated error ages); measurements.
JOIN, BEGIN, PREDICT, AGE, FUSE = map(argument, range(5))


class StepLog(NamedTuple):
    """What the smoother goes back over: (C,) states, and as many steps that led to them."""

    points: Records[Eskf]
    steps: Records[Step]


@kernel
def triple(values: Array, at: int) -> Vec3:
    """Three numbers of an array from an index on."""
    return (values[at], values[at + 1], values[at + 2])


@kernel
def imu_input(state: Eskf, params: EstimatorParams, values: Array) -> ImuInput:
    """An IMU sample of an event's values; what it did not measure is that of a steady hover.

    A multirotor's force lies along its z, and its rate is controlled. How far it may be from there
    is what a gap of the samples may hide, as an error that lasts a while.
    """
    f_S, w_S = triple(values, 0), triple(values, 3)
    f_variance, w_variance = triple(values, 6), triple(values, 9)
    lasting = SCALE_ERROR_S / max(state.period_s, 1e-3)
    if f_variance[0] < 0.0:
        up_S = unrotate(quat(state.q_BS), (0.0, 0.0, 1.0))
        hover_S = scale(gravity_at(params, state.p_W[2]), up_S)
        f_S = add(vec3(state.accel_bias_S), hover_S)
        variance = GAP_ACCEL_MPS2 * GAP_ACCEL_MPS2 * lasting
        f_variance = (variance, variance, variance)
    if w_variance[0] < 0.0:
        w_S = vec3(state.gyro_bias_S)
        variance = GAP_RATE_RADPS * GAP_RATE_RADPS * lasting
        w_variance = (variance, variance, variance)
    return ImuInput(f_S, w_S, f_variance, w_variance)


@kernel
def upper_half(values: Array, at: int) -> Sym3:
    """Six numbers of an array from an index on."""
    return (
        values[at], values[at + 1], values[at + 2], values[at + 3], values[at + 4], values[at + 5]
    )  # fmt: skip


@kernel
def age(state: Eskf, params: EstimatorParams, event: Input) -> float:
    """Let errors that change between two measurements of a sensor change, up to this one.

    Returns:
        The factor by which the correlated error of GNSS positions decayed; 1 where other errors
        changed, 0 where none did.
    """
    kind = first_kind(event.kind)
    if kind == GNSS_POSITION:
        return age_gnss_bias(state, params, upper_half(event.values, 3))
    if kind == MAGNETIC_FIELD:
        return turn_field_errors(state, params)
    if kind == RANGE:
        return walk_ground(state, params, event.values[0])
    if kind == EXTERNAL_ODOMETRY:
        return move_frame(state, params, triple(event.values, 0), event.values[7], event.values[8])
    return 0.0


@kernel
def fuse_event(state: Eskf, params: EstimatorParams, event: Input) -> None:
    """Fuse a measurement at the state's stamp."""
    kind, values = first_kind(event.kind), event.values
    if kind == GNSS_POSITION:
        fuse_gnss_position(state, params, triple(values, 0), upper_half(values, 3))
    elif kind == GNSS_VELOCITY:
        fuse_gnss_velocity(state, params, triple(values, 0), upper_half(values, 3))
    elif kind == MAGNETIC_FIELD:
        fuse_magnetic_field(state, params, triple(values, 0), values[3], values[4])
    elif kind == STATIC_PRESSURE:
        fuse_pressure(state, params, values[0], values[1])
    elif kind == RANGE:
        fuse_range(state, params, values[0], values[1])
    elif kind == OPTICAL_FLOW:
        fuse_optical_flow(state, params, triple(values, 0), values[3])
    elif kind == EXTERNAL_POSITION:
        fuse_external_position(state, params, triple(values, 0), upper_half(values, 3))
    elif kind == EXTERNAL_ATTITUDE:
        q_WB = normalize((values[0], values[1], values[2], values[3]))
        fuse_external_attitude(state, params, q_WB, upper_half(values, 4))
    elif kind == EXTERNAL_ODOMETRY:
        q_FB = normalize((values[3], values[4], values[5], values[6]))
        fuse_odometry(state, params, triple(values, 0), q_FB)
    elif kind == EXTERNAL_VELOCITY:
        fuse_external_velocity(state, params, triple(values, 0), upper_half(values, 3))
    elif kind == GNSS_HEADING:
        fuse_gnss_heading(state, params, values[0], values[1])
    else:
        fuse_zero_velocity(state, params, vec3(state.w_S), vec3(state.w_variance))


@template
def take_measurement(line: Buffer, event: Input, sample: int, log: StepLog) -> None:
    """Fuse a measurement, and log it.

    Args:
        line: TIMELINE record, its filter at the measurement's stamp or later.
        event: the measurement.
        sample: the IMU sample in whose interval it lies.
        log: see :func:`process`.
    """
    state, params = line.state, line.params
    was_running, begins = state.running, state.starts + state.recoveries
    if line.twos == 1 and not admit(line, event):
        return
    kind, lever_S = first_kind(event.kind), (0.0, 0.0, 0.0)
    if kind != event.kind:
        params, lever_S = line.params_1, lever_between(state, params, line.params_1, kind)
    if was_running == 1:
        if line.blind == 1:
            return
        decay = age(state, params, event)
        if decay > 0.0:
            log_state(line, AGE, -1, 0.0, log)
            if line.logs_steps == 1:
                log.steps[line.step_count - 1].decay = decay
    if kind != event.kind:
        shift_mount(state, kind, lever_S)
    fuse_event(state, params, event)
    if kind != event.kind:
        shift_mount(state, kind, scale(-1.0, lever_S))
    log_innovations(line, event.stamp_ns)
    if state.starts + state.recoveries != begins:
        log_state(line, BEGIN, sample if was_running == 0 else -1, 0.0, log)
    elif state.running == 1:
        log_fused(line, log)


@template
def take_sample(line: Buffer, event: Input, at: int, log: StepLog) -> None:
    """Predict with an IMU sample, or align with it; hold the attitude if it is time.

    Args:
        line: TIMELINE record.
        event: the sample.
        at: its index.
        log: see :func:`process`.
    """
    state, params, values = line.state, line.params, event.values
    was_running, starts, before_ns = state.running, state.starts, state.stamp_ns
    state.turns_unseen = int(values[9] < 0.0)
    if not predict_or_align(state, params, event.stamp_ns, imu_input(state, params, values)):
        return
    if state.starts == starts:
        dt_s = (event.stamp_ns - before_ns) * 1e-9
        log_state(line, PREDICT, at, dt_s, log)
    else:  # or from the window that was filled next to the estimate
        log_state(line, BEGIN, at if was_running == 0 else -1, 0.0, log)
    hold_attitude(state, params)
    if state.local == 1 and state.started_standing == 1 and line.moved == 0:
        hold_rest(state, params)
    log_innovations(line, event.stamp_ns)
    log_fused(line, log)
    if line.logs_steps == 1:
        log.steps[line.step_count - 1].given = at


@kernel
def reach_stamp(
    line: Buffer, stamp_ns: int, sample: Input, at: int, log: StepLog
) -> bool:  # fmt: skip
    """Bring the filter to a stamp in the interval of an IMU sample; False: there is a gap."""
    state, params, values = line.state, line.params, sample.values
    if state.imu_count == 0 and sample.stamp_ns - stamp_ns <= FIRST_INTERVAL_NS:
        first_sample(state, stamp_ns)
    gap_s = (sample.stamp_ns - state.imu_stamp_ns) * 1e-9
    if state.imu_count == 0 or gap_s > GAP_MAX_S:
        return False
    dt_s = (stamp_ns - state.stamp_ns) * 1e-9
    imu = imu_input(state, params, values)
    advance_filter(state, params, stamp_ns, sample.stamp_ns, imu)
    if state.running == 1 and dt_s > 0.0:
        log_state(line, PREDICT, at, dt_s, log)
    return True


@kernel
def process(line: Buffer, events: Records[Input], first: int, last: int, log: StepLog) -> int:
    """Take the filter over events, as far as IMU samples reach.

    Args:
        line: TIMELINE record.
        events: in the order of their stamps, of equal ones the IMU first.
        first: index of the first one.
        last: index behind the last one.
        log: gets each state, if the line reports it, and how it came from the one before.

    Returns:
        Index of the first event that waits for an IMU sample; ``last`` if none does.
    """
    sample = first
    for i in range(first, last):
        event, sample = events[i], max(sample, i)
        while sample < last and events[sample].kind != IMU:
            sample += 1
        if sample == i:
            keep_snapshot(line)
            take_sample(line, event, i, log)
            continue
        if event.stamp_ns > line.state.stamp_ns:
            if sample == last:
                return i
            if not reach_stamp(line, event.stamp_ns, events[sample], sample, log):
                continue
        take_measurement(line, event, sample if sample < last else -1, log)
    return last


@template
def run_events(line: Buffer) -> None:
    """Process the events of a timeline whose time has come."""
    log = StepLog(line.snapshots, line.steps)
    line.done = process(line, line.events, line.done, line.count, log)
    if line.done >= DROP_FROM and line.snapshot_count > 0:
        drop_events(line, line.snapshots[line.snapshot_first].stamp_ns)


# ---- the log ------------------------------------------------------------------------------------


@kernel
def log_innovations(line: Buffer, stamp_ns: int) -> None:
    """Write into the ring what a measurement's kernel has gated."""
    state = line.state
    for sensor in range(state.judged.size):
        if state.judged[sensor] == 0:
            continue
        row = line.innovations[state.innovation_count % CAPACITY]
        state.innovation_count += 1
        accepted, nis = state.judged[sensor] - 1, state.nis[sensor]
        state.judged[sensor] = 0
        row.sensor, row.stamp_ns, row.accepted = sensor, stamp_ns, accepted
        # zero of a rejected one: the filter has begun again since
        row.nis = nis if accepted == 1 or nis > 0.0 else math.nan
        for i in range(3):
            row.value[i] = state.innovation[sensor, i]
            row.variance[i] = state.innovation_variance[sensor, i]


@kernel
def forget_changes(state: Eskf) -> None:
    """What corrections turn and set anew is counted from here on."""
    state.set_anew[:] = 0
    state.followed_T[:] = 0.0
    for i in range(3):
        for k in range(3):
            state.turned[i, k] = state.turned_S[i, k] = 1.0 if i == k else 0.0


@kernel
def log_state(line: Buffer, kind: int, event: int, dt_s: float, log: StepLog) -> None:
    """Log the state, where that is wanted."""
    if line.logs_steps == 0:
        return
    if kind != FUSE:
        forget_changes(line.state)
    log.points[line.step_count] = line.state
    step = log.steps[line.step_count]
    step.kind, step.event, step.given, step.dt_s, step.decay = kind, event, -1, dt_s, 1.0
    line.step_count += 1


@kernel
def log_fused(line: Buffer, log: StepLog) -> None:
    """Log the state after measurements; those without a prediction between share one place."""
    if line.logs_steps == 0:
        return
    last = line.step_count - 1
    if is_same(line.state.covariance, log.points[last].covariance, line.state.n):
        return  # it was rejected or ignored
    if log.steps[last].kind == FUSE:
        log.points[last] = line.state
    else:
        log_state(line, FUSE, -1, 0.0, log)


@kernel
def is_same(A: Array, B: Array, n: int) -> bool:
    """Whether two covariances agree to the bit."""
    for i in range(n):
        for k in range(i, n):
            if A[i, k] != B[i, k]:
                return False
    return True
