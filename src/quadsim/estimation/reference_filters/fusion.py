"""What the filters share that fuse a message when it arrives: start, time, and their driver.

The filters of the source systems know position, velocity and at most the heading; the attitude
comes from elsewhere. They start where the error-state filter would: its own window finds the start
(``line.state``), which the originals were told. Late data are fused on arrival.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from quadsim.base.compiled import Array, Records, inlined_kernel, kernel
from quadsim.estimation.eskf.alignment import restart
from quadsim.estimation.eskf.driver import fuse, log_innovations, triple
from quadsim.estimation.eskf.input_validation import accept, accept_imu
from quadsim.estimation.eskf.layout import (
    POSITION,
    REASON_IMU_GAP,
    REASON_NONE,
    REASON_NOT_FINITE,
    YAW,
    Motion,
)
from quadsim.estimation.eskf.measurement_buffer import (
    CLOCK_JUMP,
    DROP_FROM,
    GAP,
    HORIZON_NS,
    OK,
    Event,
    Timeline,
    forget,
)
from quadsim.estimation.eskf.mechanisation import (
    first_sample,
    learn_period,
    or_default,
    predict_or_align,
)
from quadsim.geometry.rotation import Quat, conjugate, multiply, quat, rotate, to_euler
from quadsim.geometry.vector import store, vec3


@kernel
def begin_anew(line: Timeline, reason: int) -> None:
    """Stop, and align with the next samples."""
    restart(line.state, reason)
    line.motion.running = 0


@kernel
def reach(line: Timeline, sample: Event) -> float:
    """Let the time go on to an IMU sample; before the start, align with it.

    Returns:
        Length of its interval in s, if the filter is to be predicted over it, else 0; -1 where it
        has just been started.
    """
    state, motion, values = line.state, line.motion, sample.values
    w_S, w_variance = triple(values, 3), triple(values, 9)
    if motion.running == 0:
        if predict_or_align(
            state, line.params, sample.stamp_ns,
            triple(values, 0), w_S, triple(values, 6), w_variance,
        ):  # fmt: skip
            start(line)
            return -1.0
        return 0.0
    interval_s = (sample.stamp_ns - state.imu_stamp_ns) * 1e-9
    if interval_s > line.params.gate.gap_max_s:
        begin_anew(line, REASON_IMU_GAP)
        first_sample(state, sample.stamp_ns)
        return 0.0
    learn_period(state, interval_s)
    state.imu_stamp_ns = sample.stamp_ns
    state.imu_count += 1
    motion.stamp_ns = sample.stamp_ns
    store(motion.w_B, rotate(quat(state.q_BS), w_S))
    store(motion.w_variance, or_default(w_variance, line.params.noise.gyro_density, state.period_s))
    return interval_s


@kernel
def start(line: Timeline) -> None:
    """Take over what the alignment found; each filter says how far it trusts that."""
    state, motion = line.state, line.motion
    motion.running = 1
    motion.starts = state.starts
    motion.stamp_ns = state.stamp_ns
    motion.field_ns = state.stamp_ns
    q_BS = quat(state.q_BS)
    store(motion.p_W, vec3(state.p_W))
    store(motion.v_W, vec3(state.v_W))
    turn_to(motion, multiply(quat(state.q_WS), conjugate(q_BS)), q_BS)
    store(motion.w_B, rotate(q_BS, vec3(state.w_S)))
    store(motion.w_variance, vec3(state.w_variance))
    motion.covariance[:, :] = 0.0


@kernel
def turn_to(motion: Motion, q_WB: Quat, q_BS: Quat) -> None:
    """Set the attitude."""
    store(motion.q_WB, q_WB)
    store(motion.q_WS, multiply(q_WB, q_BS))
    store(motion.angles, to_euler(q_WB))


@kernel
def check_finite(line: Timeline) -> None:
    """Start anew where a number has left the finite."""
    motion = line.motion
    total = motion.covariance[YAW, YAW] + motion.q_WB[0]
    for i in range(3):
        total += motion.p_W[i] + motion.v_W[i] + motion.angles[i]
        total += motion.covariance[POSITION + i, POSITION + i]
    if not math.isfinite(total):
        begin_anew(line, REASON_NOT_FINITE)


@kernel
def make_room(line: Timeline) -> None:
    """Drop events that no other can repeat any more."""
    if line.count >= DROP_FROM:
        line.done = line.count
        forget(line, line.newest_imu_ns - HORIZON_NS)
        line.done = 0


@inlined_kernel
def predict_on_arrival(
    begin: Callable[[Timeline], None],
    predict: Callable[[Timeline, Event, float], None],
    lines: Records[Timeline],
    stamp_ns: int,
    f_S: Array,
    w_S: Array,
    f_covariance: Array,
    w_covariance: Array,
) -> int:
    """Take an IMU sample; see :func:`~quadsim.estimation.eskf.input_validation.accept_imu`.

    Args:
        begin: sets the filter's first covariance.
        predict: takes it over a sample's interval, of so many seconds.
        lines, stamp_ns, f_S, w_S, f_covariance, w_covariance: as of that.
    """
    line = lines[0]
    verdict = accept_imu(lines, stamp_ns, f_S, w_S, f_covariance, w_covariance)
    if verdict == OK or verdict == GAP or verdict == CLOCK_JUMP:
        if verdict == CLOCK_JUMP:
            begin_anew(line, REASON_NONE)
        sample = line.events[line.newest]
        dt_s = reach(line, sample)
        if dt_s > 0.0:
            predict(line, sample, dt_s)
            check_finite(line)
        elif dt_s < 0.0:
            begin(line)
        make_room(line)
    return verdict


@inlined_kernel
def fuse_on_arrival(
    fuse_event: Callable[[Timeline, Event], None],
    lines: Records[Timeline],
    kind: int,
    stamp_ns: int,
    values: Array,
    covariance: Array,
) -> int:
    """Take a measurement and fuse it; see ``estimation.eskf.input_validation.accept``.

    Args:
        fuse_event: fuses one with the filter, which runs.
        lines, kind, stamp_ns, values, covariance: as of that.
    """
    line = lines[0]
    line.newest = -1
    verdict = accept(lines, kind, stamp_ns, values, covariance)
    if line.newest >= 0:
        if line.motion.running == 1:
            fuse_event(line, line.events[line.newest])
            log_innovations(line, line.events[line.newest].stamp_ns)
        else:
            fuse(line.state, line.params, line.events[line.newest])
        make_room(line)
    return verdict
