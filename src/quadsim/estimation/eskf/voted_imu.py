"""The one of two IMUs that is used, on the filter's timeline; see :mod:`.voting`."""

from __future__ import annotations

from quadsim.base.compiled import Array, kernel
from quadsim.estimation.eskf.layout import BA, BG
from quadsim.estimation.eskf.measurement_buffer import (
    CAPACITY,
    HORIZON_NS,
    IMU,
    NEVER_NS,
    Buffer,
    go_back,
    insert,
)
from quadsim.estimation.eskf.repetition import ACCELEROMETER, GYROSCOPE, forget_run
from quadsim.estimation.eskf.voting import (
    BEFORE_NS,
    SAMPLES,
    SILENT,
    OneImu,
    Vote,
    as_first,
    begin_vote,
    judge_imus,
    wanted_imu,
    watch_imu,
)
from quadsim.geometry.vector import vec3

#: Stamps that go back by more begin a new time, ns.
NEW_TIME_NS = 1_000_000_000


@kernel
def take_voter(line: Buffer, k: int, stamp_ns: int, values: Array, covariance: Array) -> None:
    """Let an IMU's sample count in the vote, as one that the first would have given."""
    vote = line.vote
    if stamp_ns < vote.imus[k].stamp_ns - NEW_TIME_NS:
        begin_vote(vote)
    imu = vote.imus[k]
    if imu.heard > 0 and stamp_ns <= imu.stamp_ns:
        return
    f_S, w_S = vec3(values[:3]), vec3(values[3:])
    if k == 1:
        f_S, w_S = as_first(imu, line.params, stamp_ns, f_S, w_S)
    if vote.imus[1 - k].stamp_ns == 0:  # silence counts from here
        vote.imus[1 - k].stamp_ns = stamp_ns
    watch_imu(vote, imu, stamp_ns, f_S, w_S, values, covariance, line.moved == 0)
    judge_imus(vote, line.params, line.state, line.moved == 1)


@kernel
def sample_to_take(vote: Vote) -> None:
    """Write the newest sample of the second IMU as the first's, and its covariance."""
    imu = vote.imus[1]
    row = imu.ring[(imu.ring_count - 1) % SAMPLES]
    vote.given[:] = 0.0
    for i in range(6):
        vote.given[i] = row[i] + vote.difference[i]
        vote.given[(6 if i < 3 else 15) + 4 * (i % 3)] = row[6 + i]


@kernel
def write_sample(line: Buffer, at: int, imu: OneImu, n: int, with_difference: bool) -> None:
    """Write a recorded sample into an event."""
    values, row = line.events[at].values, imu.ring[n % SAMPLES]
    for i in range(12):
        values[i] = row[i]
        if with_difference and i < 6:
            values[i] += line.vote.difference[i]


@kernel
def change_imu(line: Buffer) -> None:
    """Use the other IMU where the vote wants it, from before the fault on.

    The filter goes back as far as its horizon lets it. The first one's later samples
    are replaced by those of the other nearest in time, and missing ones are added.
    """
    vote, used = line.vote, wanted_imu(line.vote)
    if used == vote.used:
        return
    lost, imu = vote.imus[vote.used], vote.imus[used]
    vote.used = used
    vote.switches += 1
    for part in (ACCELEROMETER, GYROSCOPE):
        forget_run(line.sources[part])
        line.frozen = line.frozen & ~(1 << part)
    second = used == 1
    since_ns = lost.since_ns - BEFORE_NS
    if line.newest_imu_ns != NEVER_NS:
        since_ns = max(since_ns, line.newest_imu_ns - HORIZON_NS + BEFORE_NS)
    if lost.reason != SILENT and go_back(line, IMU, since_ns):
        n = max(0, imu.ring_count - SAMPLES)
        for i in range(line.done, line.count):
            if line.events[i].kind != IMU:
                continue
            stamp_ns = line.events[i].stamp_ns
            while n + 1 < imu.ring_count and imu.ring_ns[n % SAMPLES] < stamp_ns:
                n += 1
            if n < imu.ring_count and stamp_ns >= since_ns:
                write_sample(line, i, imu, n, second)
    for i in range(3):  # the running mean of the difference is not exact
        line.state.covariance[BG + i, BG + i] += vote.spread[3 + i]
        line.state.covariance[BA + i, BA + i] += vote.spread[i]
    for n in range(max(0, imu.ring_count - SAMPLES), imu.ring_count - 1):
        stamp_ns = imu.ring_ns[n % SAMPLES]
        if stamp_ns > line.newest_imu_ns and line.count < CAPACITY:
            line.newest_imu_ns = stamp_ns
            line.newest = insert(line, IMU, stamp_ns)
            write_sample(line, line.newest, imu, n, second)
