"""What the filters share that fuse a message when it arrives: record, border, start, update.

The filters of the source systems know position, velocity and at most the heading; the attitude
comes from beside them. They start where the error-state filter would: its own window finds the
start (``line.state``), which the originals were told. Late data are fused on arrival.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.parameters import Vec3, dtype_of, pack
from quadsim.estimation.eskf.alignment import restart
from quadsim.estimation.eskf.input_validation import judge_imu, judge_measurement, write_values
from quadsim.estimation.eskf.kernels import new_eskf
from quadsim.estimation.eskf.layout import (
    ESKF,
    EXTERNAL_ATTITUDE,
    REASON_IMU_GAP,
    REASON_NONE,
    REASON_NOT_FINITE,
    SENSORS,
)
from quadsim.estimation.eskf.measurement_buffer import (
    CAPACITY,
    CLOCK_JUMP,
    DROP_FROM,
    EVENT,
    GAP,
    HORIZON_NS,
    IMU,
    KINDS,
    NEVER_NS,
    OK,
    VERDICTS,
    forget,
    fuse_event,
    insert,
)
from quadsim.estimation.eskf.mechanisation import eskf_imu, first_sample, learn_period, or_default
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.geometry.rotation import Quat, conjugate, multiply, quat, rotate, to_euler
from quadsim.geometry.vector import store, vec3

#: Layout of the covariance; the heading is one number.
POSITION, VELOCITY, HEADING = 0, 3, 6
SIZE = 7

#: What the filters know; vectors of ``base_link``.
MOTION = record_dtype(
    [
        ("running", np.int64),
        ("starts", np.int64),
        ("stamp_ns", np.int64),
        ("p_W", np.float64, (3,)),
        ("v_W", np.float64, (3,)),
        ("angles", np.float64, (3,)),  # roll, pitch, yaw
        ("q_WB", np.float64, (4,)),
        ("q_WS", np.float64, (4,)),
        ("w_B", np.float64, (3,)),  # newest rate, and its variance
        ("w_variance", np.float64, (3,)),
        ("covariance", np.float64, (SIZE, SIZE)),
        ("tilt_variance", np.float64),  # of roll and pitch, each
        ("field_ns", np.int64),  # newest heading
        ("nis", np.float64, (len(SENSORS),)),
        ("nis_sum", np.float64, (len(SENSORS),)),
        ("accepted", np.int64, (len(SENSORS),)),
        ("row", np.float64, (SIZE,)),  # working memory of an update
        ("product", np.float64, (SIZE,)),
        ("correction", np.float64, (SIZE,)),
    ]
)

#: One filter with its border. ``state`` is an error-state filter that only aligns, and then keeps
#: the IMU's time; ``events`` are the measurements of the last half second, sorted by stamp.
DIRECT = record_dtype(
    [
        ("params", dtype_of(EstimatorParams)),
        ("state", ESKF),
        ("motion", MOTION),
        ("blind", np.int64),  # no fix after the start
        ("count", np.int64),
        ("done", np.int64),
        ("newest_imu_ns", np.int64),
        ("backward_in_row", np.int64),
        ("verdicts", np.int64, (len(KINDS), len(VERDICTS))),
        ("received", np.int64, (len(KINDS),)),
        ("events", EVENT, (CAPACITY,)),
    ]
)


def new_direct(params: EstimatorParams) -> NDArray[np.record]:
    """A (1,) DIRECT that has seen nothing yet."""
    lines: NDArray[np.record] = np.zeros(1, DIRECT)
    line = lines[0]
    line["params"] = pack(params)
    line["state"] = new_eskf(line["params"])
    line["motion"]["q_WB"][0] = line["motion"]["q_WS"][0] = 1.0
    line["newest_imu_ns"] = NEVER_NS
    return lines


@kernel
def begin_anew(line: Any, reason: int) -> None:
    """Stop, and align with the next samples."""
    restart(line.state, reason)
    line.motion.running = 0


@kernel
def admit_imu(
    line: Any, stamp_ns: int, f_S: Any, w_S: Any, f_covariance: Any, w_covariance: Any
) -> int:
    """Border check of an IMU sample; refused are all but OK, GAP and CLOCK_JUMP."""
    verdict = judge_imu(line, stamp_ns, f_S, w_S, f_covariance, w_covariance)
    line.received[IMU] += 1
    line.verdicts[IMU, verdict] += 1
    if verdict == CLOCK_JUMP:
        begin_anew(line, REASON_NONE)
        line.count = 0
        line.backward_in_row = 0
    if verdict == OK or verdict == GAP or verdict == CLOCK_JUMP:
        line.newest_imu_ns = stamp_ns
    return verdict


@kernel
def admit(line: Any, kind: int, stamp_ns: int, values: Any, covariance: Any) -> tuple[int, int]:
    """Border check of a measurement, which is then an event.

    Returns:
        One of the VERDICTS, and the event's index if it is OK.
    """
    width = 1 if covariance.size == 1 else (7 if covariance.size == 36 else 4)
    first = 3 * width if kind == EXTERNAL_ATTITUDE else 0
    diagonal = covariance[first : first + width * min(values.size - 1, 2) + 1 : width]
    if line.count >= DROP_FROM:
        line.done = line.count
        forget(line, line.newest_imu_ns - HORIZON_NS)
        line.done = 0
    verdict = judge_measurement(line, kind, stamp_ns, values, diagonal)
    line.received[kind] += 1
    line.verdicts[kind, verdict] += 1
    if verdict != OK:
        return verdict, -1
    i = insert(line, kind, stamp_ns)
    write_values(line, i, values, covariance)
    if line.motion.running == 0:
        fuse_event(line, i)
    return verdict, i


@kernel
def take_time(line: Any, stamp_ns: int, f_S: Vec3, w_S: Vec3, f_cov: Any, w_cov: Any) -> float:
    """Let the time go on to an IMU sample; before the start, align with it.

    Returns:
        Length of its interval in s, if the filter is to be predicted over it, else 0; -1 where it
        has just been started.
    """
    state, motion = line.state, line.motion
    f_variance = (f_cov[0], f_cov[4], f_cov[8])
    w_variance = (w_cov[0], w_cov[4], w_cov[8])
    if motion.running == 0:
        eskf_imu(state, line.params, stamp_ns, f_S, w_S, f_variance, w_variance)
        if state.running == 0:
            return 0.0
        start(line)
        return -1.0
    interval_s = (stamp_ns - state.imu_stamp_ns) * 1e-9
    if interval_s > line.params.gate.gap_max_s:
        begin_anew(line, REASON_IMU_GAP)
        first_sample(state, stamp_ns)
        return 0.0
    learn_period(state, interval_s)
    state.imu_stamp_ns = stamp_ns
    state.imu_count += 1
    motion.stamp_ns = stamp_ns
    store(motion.w_B, rotate(quat(state.q_BS), w_S))
    store(motion.w_variance, or_default(w_variance, line.params.noise.gyro_density, state.period_s))
    return float(interval_s)


@kernel
def start(line: Any) -> None:
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
def turn_to(motion: Any, q_WB: Quat, q_BS: Quat) -> None:
    """Set the attitude."""
    store(motion.q_WB, q_WB)
    store(motion.q_WS, multiply(q_WB, q_BS))
    store(motion.angles, to_euler(q_WB))


@kernel
def check_finite(line: Any) -> None:
    """Start anew where a number has left the finite."""
    motion = line.motion
    total = motion.covariance[HEADING, HEADING] + motion.q_WB[0]
    for i in range(3):
        total += motion.p_W[i] + motion.v_W[i] + motion.angles[i]
        total += motion.covariance[POSITION + i, POSITION + i]
    if not math.isfinite(total):
        begin_anew(line, REASON_NOT_FINITE)
