"""What a replay's log has besides the estimates: how messages came, the truth, the filters' inside.

Rates, gaps and latency of a bag's messages are heard while it is read. Estimates are judged by the
ground truth or by a motion capture system's poses. Innovations and biases are stored while an
estimator runs, and measurements that it refused are counted by reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.log import ODOMETRY, POSE, read_track
from quadsim.bag.reading import Bag, BagMessage, Batch
from quadsim.bag.topics import topic
from quadsim.base.errors import InputError, QuadsimError
from quadsim.estimation.eskf.layout import DRAG, GRAVITY, SENSORS, VECTORS
from quadsim.estimation.eskf.measurement_buffer import INNOVATION, VERDICTS
from quadsim.estimation.interface import NO_DATUM, Estimator
from quadsim.estimation.running import BIAS_STEP_NS, BIASES, Found
from quadsim.sim.disk_arrays import KeptRows, give_back, slices
from quadsim.sim.log import Array, Arrivals, Innovations, Inside, Stamps, Track
from quadsim.wire.axes import rotation_matrices
from quadsim.wire.damaged import decoded
from quadsim.wire.decode import HEADER, STAMP_END, decode
from quadsim.wire.definitions import standard_types
from quadsim.wire.payloads import Payloads

#: A gap is longer than so many median periods.
GAP_PERIODS = 3.0
#: With fewer messages nothing is called a gap: what comes on change has no period.
LEAST_FOR_GAPS = 10


class Listener(Protocol):
    """Who wants messages besides the one that reads."""

    @property
    def names(self) -> Collection[str]:
        """Full names of the topics."""

    def take(self, full: str, log_ns: Stamps, payloads: Payloads) -> None:
        """Take the next messages of one of them."""


class _Topic:
    """Stamps and log times of one topic."""

    def __init__(self, stamped: bool) -> None:
        self._stamped = stamped
        self._log_ns, self._stamp_ns = KeptRows(np.int64), KeptRows(np.int64)

    def note(self, log_ns: Stamps, payloads: Payloads) -> None:
        """Write down the next messages."""
        self._log_ns.append(log_ns)
        if self._stamped:  # the stamp lies behind the four bytes of CDR's header
            stamp_ns = np.zeros(len(payloads), np.int64)
            whole = payloads.length >= STAMP_END
            parts = payloads[whole].heads(STAMP_END - HEADER, HEADER).view("<u4").reshape(-1, 2)
            parts = parts.astype(np.int64)
            stamp_ns[whole] = parts[:, 0] * 1_000_000_000 + parts[:, 1]
            self._stamp_ns.append(stamp_ns)

    def arrivals(self) -> Arrivals:
        """Its figures."""
        return _arrivals(self._log_ns.whole(), self._stamp_ns.whole() if self._stamped else None)


class Overheard:
    """A bag of which every message is read while somebody reads some, to the end, once.

    Else it has what a :class:`~quadsim.bag.reading.Bag` has.

    Args:
        listener: gets its messages at the same time, in blocks.
    """

    def __init__(self, bag: Bag, listener: Listener) -> None:
        self._bag = bag
        self._listener = listener
        self._topics: dict[str, _Topic] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bag, name)

    def batches(self, topics: Collection[str]) -> Iterator[Batch]:
        """Messages of some topics in the order of their log time."""
        for batch in self._bag.batches(self._bag.counts):
            for full, _, rows in batch.by_topic():
                log_ns, payloads = batch.log_ns[rows], batch.payloads[rows]
                heard = self._topics.get(full)
                if heard is None:
                    first = next(iter(batch[rows[:1]]))
                    heard = self._topics[full] = _Topic(_is_stamped(self._bag, first))
                heard.note(log_ns, payloads)
                if full in self._listener.names:
                    self._listener.take(full, log_ns, payloads)
            wanted = np.array([name in topics for name, _ in batch.topics])
            yield batch[wanted[batch.topic]]

    def arrivals(self, namespace: str) -> dict[str, Arrivals]:
        """How each topic's messages came; names within a namespace are relative to it."""
        prefix = topic(namespace, "")
        found = {}
        for full, heard in sorted(self._topics.items()):
            name = full[len(prefix) :] if prefix != "/" and full.startswith(prefix) else full
            found[name] = heard.arrivals()
        return found


def _is_stamped(bag: Bag, message: BagMessage) -> bool:
    """Whether a message begins with a std_msgs/Header."""
    known = standard_types().fielddefs.get(message.type_name)
    if known is not None:
        first = next(iter(known[1]), None)
        return first is not None and first[1][1] == "std_msgs/msg/Header"
    try:
        content: Any = bag.deserialize(message)
    except QuadsimError:
        return False  # a type that nobody knows
    return hasattr(content, "header") and next(iter(vars(content))) == "header"


def _arrivals(log_ns: Stamps, stamp_ns: Stamps | None) -> Arrivals:
    """Figures of one topic; without stamps the log times stand for them.

    Args:
        log_ns: (N,) when each was recorded.
        stamp_ns: (N,) of each; None where the type has none.
    """
    latency_median_s = latency_p99_s = None
    if stamp_ns is not None:
        latency_s = np.zeros(len(log_ns))
        for rows in slices(len(log_ns)):
            latency_s[rows] = (log_ns[rows] - stamp_ns[rows]) * 1e-9
            give_back(log_ns, stamp_ns)
        latency_median_s = float(np.median(latency_s, overwrite_input=True))
        latency_p99_s = float(np.percentile(latency_s, 99.0, overwrite_input=True))
        del latency_s
    clock_ns = log_ns if stamp_ns is None else stamp_ns
    steps_ns = np.zeros(max(len(clock_ns) - 1, 0), np.int64)
    for rows in slices(len(steps_ns)):
        steps_ns[rows] = np.diff(clock_ns[rows.start : rows.stop + 1])
        give_back(clock_ns)
    rising = steps_ns > 0
    median_ns = None
    if rising.any():
        median_ns = float(np.median(steps_ns[rising], overwrite_input=True))
    gaps_ns: Stamps = np.zeros((0, 2), np.int64)
    if median_ns is not None and len(clock_ns) >= LEAST_FOR_GAPS:
        before = np.flatnonzero(steps_ns > GAP_PERIODS * median_ns)
        gaps_ns = np.stack([clock_ns[before], clock_ns[before + 1]], axis=1)
    return Arrivals(
        count=len(log_ns),
        rate_hz=None if median_ns is None else 1e9 / median_ns,
        gaps_ns=gaps_ns,
        repeated=0 if stamp_ns is None else int((~rising).sum()),
        latency_median_s=latency_median_s,
        latency_p99_s=latency_p99_s,
    )


POSE_WITH_COVARIANCE = "geometry_msgs/msg/PoseWithCovarianceStamped"
TYPES = (ODOMETRY, POSE, POSE_WITH_COVARIANCE)


def truth_topic(bag: Bag, namespace: str, name: str) -> str:
    """Full name of the topic that the truth is taken from.

    Args:
        namespace: the vehicle, which a name without a leading slash is relative to.

    Raises:
        InputError: the bag does not have it, or it is no pose.
    """
    full = topic(namespace, name)
    if not bag.counts.get(full):
        there = sorted(t for t, kind in bag.types.items() if kind in TYPES and bag.counts[t])
        raise InputError(
            f"{bag.path}: no message on {full} (--truth); poses in this bag:"
            f" {', '.join(there) or 'none'}"
        )
    if bag.types[full] not in TYPES:
        raise InputError(
            f"{bag.path}: {full} (--truth) is {bag.types[full]}; allowed: {', '.join(TYPES)}"
        )
    return full


def read_truth(bag: Bag, full: str, notes: list[str]) -> Track:
    """Motion on a topic of odometry or of poses; of poses the velocity is NaN: it is not known.

    Args:
        notes: gets what was left out.
    """
    if bag.types[full] == ODOMETRY:
        return read_track(bag, full, notes, sigma=False)
    blocks = []
    for batch in bag.batches([full]):
        block = decoded(partial(decode, bag.types[full]), batch.payloads)
        if block.bad:
            notes.append(f"{full}: {len(block.bad)} messages left out: {block.reason}")
        blocks += [] if block.good is None else [block.good]
    if not blocks:
        return Track.empty()
    stamp_ns = np.concatenate([block.stamp_ns for block in blocks])
    p_W = np.concatenate([block["p"] for block in blocks])
    q_WB = np.roll(np.concatenate([block["q_xyzw"] for block in blocks]), 1, axis=1)
    length = np.linalg.norm(q_WB, axis=1)
    good = np.isfinite(p_W).all(axis=1) & (np.abs(length - 1.0) < 0.01)
    good[1:] &= stamp_ns[1:] > np.maximum.accumulate(stamp_ns)[:-1]
    if not good.all():
        notes.append(
            f"{full}: {int((~good).sum())} messages left out (NaN, no unit quaternion, or stamps"
            " not rising)"
        )
    unknown = np.full((int(good.sum()), 3), np.nan)
    q_WB = q_WB[good] / length[good, None]
    return Track(stamp_ns[good], p_W[good], unknown, q_WB, unknown)


def repeats_truth(bag: Bag, full: str, truth: Track) -> bool:
    """Whether the poses on a topic, its first messages, are those of the truth.

    They are where nine of ten have the position of the truth of their stamp, to the last bit.
    """
    if bag.types[full] not in TYPES or not len(truth.stamp_ns):
        return False
    batch = next(iter(bag.batches([full])), None)
    block = (
        None if batch is None else decoded(partial(decode, bag.types[full]), batch.payloads).good
    )
    if block is None:
        return False
    at = np.searchsorted(truth.stamp_ns, block.stamp_ns).clip(max=len(truth.stamp_ns) - 1)
    same = (truth.stamp_ns[at] == block.stamp_ns) & (truth.p_W[at] == block["p"]).all(axis=1)
    return len(same) >= 10 and bool(np.mean(same) > 0.9)


class FilterStates:
    """Innovations and biases of an estimator."""

    def __init__(self, estimator: Estimator) -> None:
        self._q_BS = estimator.lines["state"]["q_BS"]
        self._innovations = [KeptRows(INNOVATION) for _ in SENSORS]
        self._biases = KeptRows(BIASES)

    def take(self, found: Found) -> None:
        """Keep what was seen."""
        self._biases.append(found.biases.copy())  # it shows memory for many more
        self.take_innovations(found.innovations)

    def take_innovations(self, rows: NDArray[Any]) -> None:
        """Keep innovations."""
        for sensor in np.flatnonzero(np.bincount(rows["sensor"], minlength=1)).tolist():
            of_it = rows[rows["sensor"] == sensor]
            of_it["variance"] = np.sqrt(np.maximum(of_it["variance"], 0.0))
            self._innovations[sensor].append(of_it)

    def inside(self) -> Inside:
        """What was stored; biases along the axes of ``base_link``; nothing more can be taken."""
        stored = {sensor: rows.whole() for sensor, rows in enumerate(self._innovations)}
        innovations = {
            SENSORS[sensor]: _innovations(rows, 3 if sensor in VECTORS else 1)
            for sensor, rows in stored.items()
            if len(rows) and sensor not in (GRAVITY, DRAG)  # which are no messages
        }
        rows = self._biases.whole()
        covariances = rows["gyro_covariance_S"], rows["accel_covariance_S"]
        found = _turned(rows["stamp_ns"], rows, self._q_BS, covariances, innovations)
        give_back(rows)
        return found


def _innovations(rows: NDArray[Any], width: int) -> Innovations:
    """Of one sensor; deviations are where the variances were."""
    accepted = rows["accepted"].astype(bool)
    give_back(rows)
    value, sigma = rows["value"][:, :width], rows["variance"][:, :width]
    return Innovations(rows["stamp_ns"], value, sigma, rows["nis"], accepted)


def _turned(
    stamp_ns: NDArray[np.int64],
    rows: NDArray[Any],
    q_BS: Array,
    covariances_S: Sequence[Array],
    innovations: dict[str, Innovations],
) -> Inside:
    """Biases of rows and their (N, 3, 3) covariances, rotated from the IMU's axes."""
    R_BS = rotation_matrices(q_BS)[0]
    variances = [np.einsum("ij,njk,ik->ni", R_BS, each, R_BS) for each in covariances_S]
    return Inside(
        stamp_ns,
        rows["gyro_bias_S"] @ R_BS.T,
        rows["accel_bias_S"] @ R_BS.T,
        np.sqrt(np.maximum(np.concatenate(variances, axis=1), 0.0)),
        innovations,
    )


def inside_of_smoothed(rows: NDArray[Any], q_BS: Array) -> Inside:
    """Biases of a smoothed flight; there is no innovation in it.

    Args:
        rows: (N,) SMOOTHED.
        q_BS: (4,) attitude of the IMU; axes' errors are taken as independent when it turns them.
    """
    stamp_ns = rows["odometry"]["stamp_ns"]
    slots = stamp_ns // BIAS_STEP_NS
    rows = rows[np.concatenate([[True], slots[1:] > slots[:-1]])[: len(rows)]]
    variances = rows["gyro_bias_variance"], rows["accel_bias_variance"]
    covariances = [variance[:, :, None] * np.eye(3) for variance in variances]
    return _turned(rows["odometry"]["stamp_ns"], rows, q_BS[None], covariances, {})


#: Reasons that count as refused; after a gap or a jump of the clock a sample is used.
REASONS = (*(word for word in VERDICTS[1:] if word not in ("gap", "clock_jump")), NO_DATUM)
#: Of what a flight rests on, in words.
_FIXES = {
    "gnss_position": "fixes", "gnss_velocity": "velocities", "external_position": "poses",
    "external_attitude": "attitudes",
}  # fmt: skip


def refusals(counts: Mapping[str, int], kind: str) -> dict[str, int]:
    """Reason to number of the messages of a kind that were not taken."""
    found = {reason: counts.get(f"{kind}_{reason}", 0) for reason in REASONS}
    return {reason: number for reason, number in found.items() if number}


def mostly_refused(name: str, figures: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """Measurements that a flight rests on of which more than half were refused, in words.

    Args:
        figures: its summary, with the innovations in ``nis``.
    """
    found = []
    for kind, words in _FIXES.items():
        gated = figures.get("nis", {}).get(kind, {})
        unfit = sum(refusals(counts, kind).values())
        all_ = gated.get("count", 0) + gated.get("refused", 0) + unfit
        share = (gated.get("refused", 0) + unfit) / all_ if all_ else 0.0
        if share > 0.5:
            found.append(f"{100.0 * share:.0f} % of the {words} refused ({name})")
    return found
