"""Measurements in the order of their stamps, whatever the order of their arrival.

IMU samples and measurements of the last half second are kept sorted by stamp, with copies of the
filter from time to time. A measurement stamped after the newest IMU sample waits for it. One
stamped between two samples splits the later one. One stamped before the filter's time takes the
filter back to the last copy before that stamp and runs what followed again, so that late data give
the very result of the same data in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.parameters import Vec3, dtype_of, pack
from quadsim.estimation.eskf.aiding import (
    fuse_external_attitude,
    fuse_external_position,
    fuse_zero_velocity,
)
from quadsim.estimation.eskf.gnss import fuse_gnss_position, fuse_gnss_velocity
from quadsim.estimation.eskf.heights import eskf_pressure, eskf_range
from quadsim.estimation.eskf.kernels import eskf_odometry, mount, new_eskf
from quadsim.estimation.eskf.layout import (
    ESKF,
    EXTERNAL_ATTITUDE,
    EXTERNAL_POSITION,
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    RANGE,
    SENSORS,
    STATIC_PRESSURE,
)
from quadsim.estimation.eskf.magnetic_field import eskf_magnetic_field
from quadsim.estimation.eskf.mechanisation import advance, eskf_imu, first_sample
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.update import Sym3
from quadsim.geometry.rotation import normalize

#: Before every stamp.
NEVER_NS = -(1 << 62)
#: How late a measurement may be.
HORIZON_NS = 500_000_000
#: Time between two copies of the filter. They are at its multiples, where most sensors sample: what
#: is late and comes after all else of its stamp then costs its lateness alone.
SNAPSHOT_NS = 10_000_000
#: As many copies as reach over the horizon.
SNAPSHOTS = 64
CAPACITY = 4096
#: So many processed events are kept before those out of reach are dropped.
DROP_FROM = 1024
#: So many IMU samples in a row with stamps of the past: the clock was set back.
CLOCK_JUMP_SAMPLES = 50

#: A measurement so little before the first IMU sample lies in that sample's interval.
FIRST_INTERVAL_NS = 10_000_000

#: Kind of an event: a sensor of the layout, or this.
IMU = len(SENSORS)
KINDS = (*SENSORS, "imu")

#: What the border says about a message; all but the first are counted, and GAP is not refused.
(
    OK,
    NOT_FINITE,
    BAD_VARIANCE,
    REPEATED,
    BACKWARD,
    TOO_LATE,
    TOO_EARLY,
    OVERFLOW,
    GAP,
    CLOCK_JUMP,
    OUT_OF_RANGE,
) = range(11)
VERDICTS = (
    "ok",
    "not_finite",
    "bad_variance",
    "repeated",
    "backward",
    "too_late",
    "too_early",
    "overflow",
    "gap",
    "clock_jump",
    "out_of_range",
)

#: One message; ``values`` are f, w and their variances of an IMU sample; the vector and the upper
#: half of its covariance of GNSS and external positions; the quaternion and the upper half of its
#: covariance of external attitudes; field, heading and vertical variance; or a number and its
#: variance. Standing still has none.
EVENT = record_dtype([("stamp_ns", np.int64), ("kind", np.int64), ("values", np.float64, (12,))])

TIMELINE = record_dtype(
    [
        ("params", dtype_of(EstimatorParams)),
        ("state", ESKF),
        ("blind", np.int64),  # no measurement after the start
        ("count", np.int64),
        ("done", np.int64),  # events the state holds
        ("newest_imu_ns", np.int64),
        ("backward_in_row", np.int64),
        ("snapshot_first", np.int64),  # a ring
        ("snapshot_count", np.int64),
        ("snapshots", ESKF, (SNAPSHOTS,)),
        ("verdicts", np.int64, (len(KINDS), len(VERDICTS))),
        ("received", np.int64, (len(KINDS),)),
        ("events", EVENT, (CAPACITY,)),
    ]
)


@kernel
def triple(values: Any, at: int) -> Vec3:
    """Three numbers of an array from an index on."""
    return (values[at], values[at + 1], values[at + 2])


@kernel
def upper_half(values: Any, at: int) -> Sym3:
    """Six numbers of an array from an index on."""
    return (
        values[at], values[at + 1], values[at + 2], values[at + 3], values[at + 4], values[at + 5]
    )  # fmt: skip


@kernel
def fuse_event(line: Any, i: int) -> None:
    """Fuse one measurement at the state's stamp."""
    event, state, params = line.events[i], line.state, line.params
    if line.blind == 1 and state.running == 1:
        return
    kind, values = event.kind, event.values
    if kind == GNSS_POSITION:
        fuse_gnss_position(state, params, triple(values, 0), upper_half(values, 3))
    elif kind == GNSS_VELOCITY:
        fuse_gnss_velocity(state, params, triple(values, 0), upper_half(values, 3))
    elif kind == MAGNETIC_FIELD:
        eskf_magnetic_field(state, params, triple(values, 0), values[3], values[4])
    elif kind == STATIC_PRESSURE:
        eskf_pressure(state, params, values[0], values[1])
    elif kind == RANGE:
        eskf_range(state, params, values[0], values[1])
    elif kind == EXTERNAL_POSITION:
        fuse_external_position(state, params, triple(values, 0), upper_half(values, 3))
    elif kind == EXTERNAL_ATTITUDE:
        q_WB = normalize((values[0], values[1], values[2], values[3]))
        fuse_external_attitude(state, params, q_WB, upper_half(values, 4))
    else:
        fuse_zero_velocity(state, params)


@kernel
def run(line: Any) -> None:
    """Process all events whose time has come."""
    state = line.state
    i = line.done
    while i < line.count:
        event = line.events[i]
        values = event.values
        if event.kind == IMU:
            keep_snapshot(line)
            i = line.done
            event = line.events[i]
            values = event.values
            eskf_imu(
                state, line.params, event.stamp_ns,
                triple(values, 0), triple(values, 3), triple(values, 6), triple(values, 9),
            )  # fmt: skip
        elif event.stamp_ns <= state.stamp_ns:
            fuse_event(line, i)
        else:
            j = i + 1
            while j < line.count and line.events[j].kind != IMU:
                j += 1
            if j == line.count:
                return
            sample = line.events[j]
            if state.imu_count == 0 and sample.stamp_ns - event.stamp_ns <= FIRST_INTERVAL_NS:
                first_sample(state, event.stamp_ns)
            gap_s = (sample.stamp_ns - state.imu_stamp_ns) * 1e-9
            if state.imu_count > 0 and gap_s <= line.params.gate.gap_max_s:
                values = sample.values
                advance(
                    state, line.params, event.stamp_ns, sample.stamp_ns,
                    triple(values, 0), triple(values, 3), triple(values, 6), triple(values, 9),
                )  # fmt: skip
                fuse_event(line, i)
        i += 1
        line.done = i


@kernel
def snapshot_at(line: Any, k: int) -> int:
    """Place of the k-th copy of the filter in the ring, the oldest first."""
    return int((line.snapshot_first + k) % SNAPSHOTS)


@kernel
def keep_snapshot(line: Any) -> None:
    """Copy the filter before it moves on, if a copy is due; forget the oldest."""
    last = snapshot_at(line, line.snapshot_count - 1)
    before_ns = line.snapshots[last].stamp_ns
    if line.snapshot_count > 0 and line.state.stamp_ns // SNAPSHOT_NS == before_ns // SNAPSHOT_NS:
        return
    if line.snapshot_count == SNAPSHOTS:
        line.snapshot_first = (line.snapshot_first + 1) % SNAPSHOTS
        line.snapshot_count -= 1
    line.snapshots[snapshot_at(line, line.snapshot_count)] = line.state
    line.snapshot_count += 1
    if line.done >= DROP_FROM:
        forget(line, line.snapshots[line.snapshot_first].stamp_ns)


@kernel
def forget(line: Any, until_ns: int) -> None:
    """Drop the processed events up to a stamp."""
    drop = 0
    while drop < line.done and line.events[drop].stamp_ns <= until_ns:
        drop += 1
    if drop == 0:
        return
    for i in range(drop, line.count):
        line.events[i - drop] = line.events[i]
    line.count -= drop
    line.done -= drop


@kernel
def follows(event: Any, kind: int, stamp_ns: int) -> bool:
    """Whether an event comes after one of this kind and stamp: of equal stamps the IMU is first."""
    if event.stamp_ns != stamp_ns:
        return bool(event.stamp_ns > stamp_ns)
    return bool(event.kind != IMU and (kind == IMU or event.kind > kind))


@kernel
def insert(line: Any, kind: int, stamp_ns: int) -> int:
    """Make room for an event in its place among those that wait.

    Returns:
        Its index.
    """
    i = line.count
    while i > line.done and follows(line.events[i - 1], kind, stamp_ns):
        line.events[i] = line.events[i - 1]
        i -= 1
    line.count += 1
    line.events[i].stamp_ns = stamp_ns
    line.events[i].kind = kind
    return int(i)


@kernel
def go_back(line: Any, kind: int, stamp_ns: int) -> bool:
    """Take the filter back to the last copy before a measurement; False: there is none."""
    done = line.done
    while done > 0 and line.events[done - 1].stamp_ns > stamp_ns:
        done -= 1
    # a copy at the very stamp holds all of that stamp, so none of it may follow
    newest_ns = stamp_ns
    if done > 0 and follows(line.events[done - 1], kind, stamp_ns):
        newest_ns -= 1
    k = line.snapshot_count - 1
    while k >= 0 and line.snapshots[snapshot_at(line, k)].stamp_ns > newest_ns:
        k -= 1
    if k < 0:
        return False
    line.state = line.snapshots[snapshot_at(line, k)]
    # one at the very stamp lacks the measurement, and is made anew
    line.snapshot_count = k if line.state.stamp_ns == stamp_ns else k + 1
    while done > 0 and line.events[done - 1].stamp_ns > line.state.stamp_ns:
        done -= 1
    line.done = done
    return True


@kernel
def clear_timeline(line: Any) -> None:
    """Forget the past, not the counters."""
    line.count = 0
    line.done = 0
    line.snapshot_first = 0
    line.snapshot_count = 0
    line.newest_imu_ns = NEVER_NS
    line.backward_in_row = 0


def new_timeline(params: EstimatorParams, blind: bool = False) -> NDArray[np.record]:
    """A (1,) TIMELINE that has seen nothing yet.

    Args:
        params: of the filter.
        blind: whether measurements are left out once the filter runs.
    """
    lines: NDArray[np.record] = np.zeros(1, TIMELINE)
    line = lines[0]
    line["params"] = pack(params)
    line["state"] = new_eskf(line["params"])
    line["blind"] = int(blind)
    line["newest_imu_ns"] = NEVER_NS
    return lines


@kernel
def remount(lines: Any) -> None:
    """Take the mounting of the sensors over from changed parameters."""
    mount(lines[0].state, lines[0].params)


@kernel
def line_odometry(lines: Any, odometry: Any) -> None:
    """The filter's output, from and into arrays of one record."""
    eskf_odometry(lines[0].state, lines[0].params, odometry[0])
