"""Measurements in the order of their stamps, whatever the order of their arrival.

IMU samples and measurements of the last half second stay sorted by stamp, with copies of the
filter from time to time. A measurement stamped before the filter's time takes the filter back to
the last copy before that stamp. :func:`~quadsim.estimation.eskf.driver.run` then runs what followed
again, so that late data give the very result of the same data in order.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, Vector, argument, kernel
from quadsim.base.parameters import dtype_of, pack
from quadsim.estimation.eskf.alignment import new_eskf
from quadsim.estimation.eskf.layout import SENSORS, DirectState, Eskf
from quadsim.estimation.eskf.pairs import SECONDS_FROM, Pair, tell_pairs
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.repetition import SOURCES, Source
from quadsim.estimation.eskf.voting import Vote, new_vote

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
#: So many processed events are stored before those out of reach are dropped.
DROP_FROM = 1024

#: Kind of an event: a sensor of the layout, this, or one of a second receiver or range finder; kind
#: of a message of the second IMU of two.
IMU, IMU_1 = map(argument, range(len(SENSORS), len(SENSORS) + 2))
GNSS_POSITION_1, GNSS_VELOCITY_1, RANGE_1 = map(argument, range(SECONDS_FROM, SECONDS_FROM + 3))
KINDS = (*SENSORS, "imu", "imu_1", "gnss_position_1", "gnss_velocity_1", "range_1")

#: What input validation reports about a message; all but the first are counted. GAP is not refused,
#: nor is the time of an IMU sample of which a part is UNCHANGED.
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
    UNCHANGED,
) = range(12)
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
    "unchanged",
)


class Input(Record):
    """One message.

    ``values`` are f, w and their variances of an IMU sample (below zero: it is not measured); the
    vector and the upper half of its covariance of GNSS and external positions; the quaternion and
    the upper half of its covariance of external attitudes; position, quaternion, and variances of
    position and yaw of an odometry; field, heading and vertical variance; flow about two axes, its
    interval and variance; or a number and its variance. Standing still has none.
    """

    stamp_ns: int
    kind: int
    values: Annotated[Array, 12]


class Innovation(Record):
    """What one measurement stated; of one number only the first are meant."""

    sensor: int
    stamp_ns: int
    accepted: int
    nis: float  # NaN: rejected, and the filter has begun again since
    value: Vector
    variance: Vector


class Step(Record):
    """How a state of the smoother's log came from the one before; see ``eskf.driver``."""

    kind: int
    event: int  # the IMU sample in whose interval the step lies; -1: none
    given: int  # whether the state is at that sample's stamp, and given out
    dt_s: float  # of a prediction
    decay: float  # of the correlated error of GNSS positions


class Buffer(Record):
    """A filter, its messages, and its log.

    ``innovations`` is a ring: the newest is at ``state.innovation_count`` - 1. As that count goes
    back with the filter, late data overwrite what they judge anew.
    """

    params: EstimatorParams
    state: Eskf
    motion: DirectState  # of a reference filter
    blind: int  # no measurement after the start
    count: int
    done: int  # events the state holds
    newest: int  # event, by arrival
    newest_imu_ns: int
    backward_in_row: int
    sources: Annotated[Records[Source], len(SOURCES)]
    frozen: int  # of them, as bits
    noisy: int  # whose noise is far beyond what is stated, as bits: gyroscope, fix, its velocity
    moved: int  # whether the IMU has felt a motion
    stood_ns: int  # when somebody last stated that the vehicle stands
    vote: Vote  # of two IMUs
    twos: int  # whether there are two receivers, or range finders
    pairs: Annotated[Records[Pair], 2]
    params_1: EstimatorParams  # of the second ones
    snapshot_first: int  # a ring
    snapshot_count: int
    snapshots: Annotated[Records[Eskf], SNAPSHOTS]
    innovations: Annotated[Records[Innovation], CAPACITY]
    logs_steps: int  # for the smoother, into arrays of its own; else they are left alone
    step_count: int
    steps: Annotated[Records[Step], 1]
    verdicts: Annotated[NDArray[np.int64], len(KINDS), len(VERDICTS)]
    received: Annotated[NDArray[np.int64], len(KINDS)]
    events: Annotated[Records[Input], CAPACITY]


EVENT, INNOVATION, STEP = dtype_of(Input), dtype_of(Innovation), dtype_of(Step)
TIMELINE = dtype_of(Buffer)


@kernel
def snapshot_at(line: Buffer, k: int) -> int:
    """Place of the k-th copy of the filter in the ring, the oldest first."""
    return int((line.snapshot_first + k) % SNAPSHOTS)


@kernel
def keep_snapshot(line: Buffer) -> None:
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


@kernel
def drop_events(line: Buffer, until_ns: int) -> None:
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
def follows(event: Input, kind: int, stamp_ns: int) -> bool:
    """Whether an event comes after one of this kind and stamp: of equal stamps the IMU is first."""
    if event.stamp_ns != stamp_ns:
        return bool(event.stamp_ns > stamp_ns)
    return bool(event.kind != IMU and (kind == IMU or event.kind > kind))


@kernel
def insert(line: Buffer, kind: int, stamp_ns: int) -> int:
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
def go_back(line: Buffer, kind: int, stamp_ns: int) -> bool:
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
def clear_timeline(line: Buffer) -> None:
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
    new_vote(line["vote"], params)
    tell_pairs(line, params)
    line["motion"]["q_WB"][0] = line["motion"]["q_WS"][0] = 1.0
    line["newest_imu_ns"] = line["stood_ns"] = NEVER_NS
    return lines
