"""A vehicle's flight out of a bag, as reports and metrics take it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag import topics
from quadsim.bag.reading import BLOCK, Bag, BagMessage
from quadsim.base.errors import QuadsimError
from quadsim.geometry.geodesy import Datum
from quadsim.sim.disk_arrays import KeptRows, KeptTrack
from quadsim.sim.log import Array, Event, FlightLog, ImuSamples, Stamps, Track
from quadsim.wire.axes import rotation_matrices
from quadsim.wire.damaged import decoded
from quadsim.wire.decode import STAMP_END, Block, decode
from quadsim.wire.joint_states import decode_joints
from quadsim.wire.payloads import Payloads

_BEGINNING_NS = -(2**63)


class Rising:
    """Finds the rows that are later than everything before them, block by block."""

    def __init__(self) -> None:
        self._newest_ns = _BEGINNING_NS

    def good(self, stamp_ns: Stamps) -> NDArray[np.bool_]:
        """(N,) which rows of the next block rise."""
        newest_ns = np.maximum.accumulate(np.concatenate([[self._newest_ns], stamp_ns]))
        self._newest_ns = int(newest_ns[-1])
        return np.asarray(stamp_ns > newest_ns[:-1])


class GrowingTrack:
    """The track of a topic of odometry or of poses.

    Args:
        sigma: whether the deviations that it states are wanted.
    """

    def __init__(self, sigma: bool) -> None:
        self._sigma = sigma
        self._kept = KeptTrack(sigma)
        self._rising = Rising()
        self._stated = False
        self.left_out = 0

    def append(self, block: Block) -> None:
        """Keep a block's rows, but for those with NaN or with a stamp that does not rise."""
        part = track_of_block(block, self._sigma)
        good = self._rising.good(part.stamp_ns)
        good &= np.isfinite(part.p_W).all(axis=1) & np.isfinite(part.q_WB).all(axis=1)
        if part.sigma is not None:
            self._stated = self._stated or bool(part.sigma.any())
        self.left_out += int((~good).sum())
        self._kept.append(part if good.all() else part[good])

    def track(self, name: str, notes: list[str]) -> Track:
        """All of it; ``notes`` gets how many rows of ``name`` were left out."""
        if self.left_out:
            notes.append(f"{name}: {self.left_out} messages left out (NaN, or stamps not rising)")
        found = self._kept.track()
        if self._stated:
            return found
        return Track(found.stamp_ns, found.p_W, found.v_W, found.q_WB, found.w_B)  # all zero


class GrowingSpeeds:
    """Rotor speeds of a topic: of as many rotors as its first block has."""

    def __init__(self) -> None:
        self._width = -1
        self._rising = Rising()
        self._stamps = KeptRows(np.int64)
        self._rows = KeptRows(float)

    def append(self, stamp_ns: Stamps, speeds: Array) -> None:
        """Keep (N,) stamps and (N, rotors) speeds, but for stamps that do not rise."""
        if self._width < 0:
            self._width = speeds.shape[1]
        if speeds.shape[1] != self._width:
            return
        good = self._rising.good(stamp_ns)
        self._stamps.append(stamp_ns[good])
        self._rows.append(speeds[good].ravel())

    def speeds(self) -> tuple[Stamps, Array]:
        """(N,) stamps that rise, and (N, rotors) speeds; of four rotors where there is none."""
        width = self._width if self._width >= 0 else 4
        stamp_ns = self._stamps.whole()
        return stamp_ns, self._rows.whole().reshape(len(stamp_ns), width)


def track_of_block(block: Block, sigma: bool) -> Track:
    """A block of odometry or poses as a track, every row stored.

    Args:
        sigma: whether the deviations that odometry states are wanted.
    """
    p_W = block["p"]
    q_WB = np.roll(block["q_xyzw"], 1, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # bad rows are left out later
        q_WB /= np.linalg.norm(q_WB, axis=1, keepdims=True)
    v_B = w_B = np.zeros_like(p_W)
    R_WB = rotation_matrices(q_WB)
    stated: Array | None = np.zeros((len(p_W), 9)) if sigma else None
    if "v" in block.names:
        v_B, w_B = block["v"], block["w"]  # NaN where a driver knows none
        if sigma:
            stated = _sigma(R_WB, block["pose_covariance"], block["twist_covariance"])
    v_W = np.einsum("nij,nj->ni", R_WB, v_B)
    return Track(block.stamp_ns, p_W, v_W, q_WB, w_B, stated)


def _sigma(R_WB: Array, pose: Array, twist: Array) -> Array:
    """(N, 9) deviations of position, velocity and attitude about the world axes.

    REP-103 and nav_msgs: the pose's covariance is in the parent frame, rotation about its fixed
    axes; the twist's in the child frame, so its velocity part is rotated into the world.
    """
    velocity = R_WB @ twist[:, :3, :3] @ np.swapaxes(R_WB, 1, 2)
    diagonal: NDArray[Any] = np.concatenate(
        [
            np.einsum("nii->ni", pose[:, :3, :3]),
            np.einsum("nii->ni", velocity),
            np.einsum("nii->ni", pose[:, 3:, 3:]),
        ],
        axis=1,
    )
    return np.asarray(np.sqrt(np.maximum(diagonal, 0.0)))


ODOMETRY = "nav_msgs/msg/Odometry"
POSE = "geometry_msgs/msg/PoseStamped"
JOINTS = "sensor_msgs/msg/JointState"
STATUS = "diagnostic_msgs/msg/DiagnosticStatus"
PATH = "nav_msgs/msg/Path"
IMU = "sensor_msgs/msg/Imu"

#: Topics of a vehicle that a log is made of, with the type each must have.
_TYPES = {
    topics.TRUTH: ODOMETRY,
    topics.FILTERED: ODOMETRY,
    topics.BLIND: ODOMETRY,
    "reference": POSE,
    "gps/fix": topics.FIX,
    topics.MOTORS: JOINTS,
    topics.COMMANDS: JOINTS,
    "events": STATUS,
    "mission/status": STATUS,
    "mission": PATH,
}
_IN_BLOCKS = (ODOMETRY, POSE, topics.FIX, IMU, JOINTS)
_ESTIMATES = {topics.FILTERED: "filtered", topics.BLIND: "blind"}


class _Topic:
    """What one topic holds: blocks on their way into what grows, or single messages."""

    def __init__(self, full: str, type_name: str, sigma: bool) -> None:
        self.full, self.type_name = full, type_name
        self.growing = GrowingTrack(sigma)
        self.speeds = GrowingSpeeds()
        self.blocks: list[Block] = []
        self.single: list[tuple[int, Any]] = []
        self.log_offset_ns: list[int] = []  # log time minus stamp, of a message of each block
        self._waiting: list[Payloads] = []
        self._count = 0
        self._bad: list[str] = []  # of each message left out, why

    def take(self, bag: Bag, log_ns: Stamps, payloads: Payloads) -> None:
        """Take the next messages: their log times and what is in them."""
        if self.type_name not in _IN_BLOCKS:
            for at_ns, payload in zip(log_ns.tolist(), payloads, strict=True):
                self._take_one(bag, BagMessage(self.full, self.type_name, at_ns, payload))
            return
        for k in range(-self._count % BLOCK, len(payloads), BLOCK):
            if payloads.length[k] >= STAMP_END:
                seconds, nanoseconds = np.frombuffer(payloads[k], "<u4", 2, 4)
                stamp_ns = int(seconds) * 1_000_000_000 + int(nanoseconds)
                self.log_offset_ns.append(int(log_ns[k]) - stamp_ns)
        self._count += len(payloads)
        self._waiting.append(payloads.compact())
        if sum(map(len, self._waiting)) >= BLOCK:
            whole = Payloads.joined(self._waiting)
            last = len(whole) // BLOCK * BLOCK
            self._waiting = [whole[last:].compact()]
            for begin in range(0, last, BLOCK):
                self._decode(whole[begin : begin + BLOCK])

    def _take_one(self, bag: Bag, message: BagMessage) -> None:
        try:
            self.single.append((message.log_ns, bag.deserialize(message)))
        except QuadsimError as error:
            self._bad.append(str(error))

    def finish(self, notes: list[str]) -> None:
        """Decode what is left, and say what was left out."""
        if sum(map(len, self._waiting)):
            self._decode(Payloads.joined(self._waiting))
        if self._bad:
            notes.append(f"{self.full}: {len(self._bad)} messages left out: {self._bad[0]}")

    def _decode(self, payloads: Payloads) -> None:
        if self.type_name == JOINTS:
            joints = decoded(decode_joints, payloads)
            if joints.good is not None:
                self.speeds.append(*joints.good[:2])
            self._bad += [joints.reason] * len(joints.bad)
            return
        block = decoded(partial(decode, self.type_name), payloads)
        self._bad += [block.reason] * len(block.bad)
        if block.good is None:
            return
        if self.type_name in (topics.FIX, IMU):
            self.blocks.append(block.good)
        else:
            self.growing.append(block.good)


class LogReader:
    """Makes one vehicle's flight out of messages that somebody else reads.

    Args:
        namespace: the vehicle, as ``/quad``.
        with_imu: whether the samples of the IMU are wanted, which are most of a bag.
        with_estimates: whether the estimates that were recorded are wanted.

    Attributes:
        names: full names of the topics whose messages are wanted.
    """

    def __init__(
        self, bag: Bag, namespace: str, with_imu: bool = False, with_estimates: bool = True
    ) -> None:
        self._bag, self._namespace, self._with_imu = bag, namespace, with_imu
        self._estimates = _ESTIMATES | _extra_estimates(bag, namespace) if with_estimates else {}
        types = {name: kind for name, kind in _TYPES.items() if name not in _ESTIMATES}
        types |= dict.fromkeys(self._estimates, ODOMETRY)
        types |= {topics.IMU: IMU} if with_imu else {}
        self._topics: dict[str, _Topic] = {}
        self._by_name: dict[str, _Topic] = {}
        self._notes: list[str] = []
        for name, kind in types.items():
            full = topics.topic(namespace, name)
            stored = self._topics[name] = _Topic(full, kind, sigma=name in self._estimates)
            if bag.types.get(full, kind) == kind:
                self._by_name[full] = stored
            else:
                self._notes.append(f"{full} is {bag.types[full]}, not {kind}: left out")
        self.names = frozenset(self._by_name)

    def take(self, full: str, log_ns: Stamps, payloads: Payloads) -> None:
        """Take the next messages of one of :attr:`names`: log times and what is in them."""
        self._by_name[full].take(self._bag, log_ns, payloads)

    def finish(self, datum: Datum | None = None) -> FlightLog:
        """The flight, when all messages have been taken.

        Args:
            datum: origin of ``map``; None takes the bag's.
        """
        bag, namespace = self._bag, self._namespace
        log = FlightLog(notes=list(bag.notes))
        log.scenario = bag.custom.get("scenario", "")
        log.seed = _seed(bag, log.notes)
        log.topics = _relative_counts(bag, namespace)
        log.notes += self._notes
        for stored in self._topics.values():
            stored.finish(log.notes)
        log.truth = self._track(topics.TRUTH, log.notes)
        for name, label in self._estimates.items():
            track = self._track(name, log.notes)
            if len(track):
                log.estimates[label] = track
        reference = self._track("reference", log.notes)
        log.reference = reference if len(reference) else None
        log.motor_stamps_ns, log.motor_speed_radps = self._topics[topics.MOTORS].speeds.speeds()
        commands = self._topics[topics.COMMANDS].speeds
        log.command_stamps_ns, log.command_radps = commands.speeds()
        log.events = _events(self._topics)
        log.waypoints = _waypoints(self._topics["mission"].single)
        _add_fixes(log, self._topics["gps/fix"].blocks, datum or topics.datum_of(bag))
        log.imu = _imu(self._topics[topics.IMU].blocks) if self._with_imu else None
        if not len(log.truth):
            log.notes.append(f"no {topics.topic(namespace, topics.TRUTH)}: nothing is scored")
        log.notes += [note for note in bag.notes if note not in log.notes]
        return log

    def _track(self, name: str, notes: list[str]) -> Track:
        return self._topics[name].growing.track(name, notes)


def read_log(bag: Bag, namespace: str, with_imu: bool = False) -> FlightLog:
    """Read one vehicle's flight.

    Args:
        namespace: the vehicle, as ``/quad``.
        with_imu: whether the samples of the IMU are wanted, which are most of a bag.

    Returns:
        The log; ``notes`` names what was missing or left out. The first estimate is
        ``filtered``. A truth or an estimate that is missing is empty or absent. Of a long flight
        the tracks lie on the disk (:mod:`quadsim.sim.disk_arrays`) and are read-only.
    """
    return read_logs(bag, [namespace], with_imu)[namespace]


def read_logs(bag: Bag, namespaces: Sequence[str], with_imu: bool = False) -> dict[str, FlightLog]:
    """Read the flights of several vehicles at once: namespace to log, as of :func:`read_log`."""
    readers = {namespace: LogReader(bag, namespace, with_imu) for namespace in namespaces}
    of_topic = {name: reader for reader in readers.values() for name in reader.names}
    for batch in bag.batches(frozenset(of_topic)):
        for full, _, rows in batch.by_topic():
            of_topic[full].take(full, batch.log_ns[rows], batch.payloads[rows])
    return {namespace: reader.finish() for namespace, reader in readers.items()}


def read_track(bag: Bag, full: str, notes: list[str], sigma: bool = True) -> Track:
    """Track of one odometry topic, whatever its name.

    Args:
        full: name of a topic of odometry.
        notes: gets what was left out.
        sigma: whether the deviations that it states are wanted.
    """
    stored = _Topic(full, ODOMETRY, sigma)
    for batch in bag.batches([full]):
        stored.take(bag, batch.log_ns, batch.payloads)
    stored.finish(notes)
    return stored.growing.track(full, notes)


def _extra_estimates(bag: Bag, namespace: str) -> dict[str, str]:
    """Topics of estimators that ran next to the vehicle's own, with their names."""
    begin = topics.topic(namespace, topics.ESTIMATES)
    return {
        topics.ESTIMATES + name: name
        for name in sorted(
            full[len(begin) :]
            for full, count in bag.counts.items()
            if full.startswith(begin) and count and bag.types[full] == ODOMETRY
        )
        if topics.ESTIMATES + name not in _ESTIMATES and "/" not in name
    }


def _relative_counts(bag: Bag, namespace: str) -> dict[str, int]:
    prefix = topics.topic(namespace, "")
    return {
        name[len(prefix) :] if prefix != "/" and name.startswith(prefix) else name: count
        for name, count in sorted(bag.counts.items())
    }


def _seed(bag: Bag, notes: list[str]) -> int:
    text = bag.custom.get("seed", "") or "0"
    try:
        return int(text)
    except ValueError:
        notes.append(f"{bag.path}: seed {text!r} in its metadata is no whole number: left out")
        return 0


def _events(gathered: dict[str, _Topic]) -> list[Event]:
    """Events in order; they carry no stamp, so the log time is set back to the stamps' clock."""
    offsets = [offset for stored in gathered.values() for offset in stored.log_offset_ns]
    offset_ns = int(np.median(offsets)) if offsets else 0
    events = [
        Event(log_ns - offset_ns, _level(message.level), str(message.name), str(message.message))
        for name in ("events", "mission/status")
        for log_ns, message in gathered[name].single
    ]
    return sorted(events)


def _level(level: Any) -> int:
    return level[0] if isinstance(level, bytes) else int(level)


def _waypoints(messages: list[tuple[int, Any]]) -> np.ndarray[Any, Any]:
    poses = messages[-1][1].poses if messages else []
    points = [(p.pose.position.x, p.pose.position.y, p.pose.position.z) for p in poses]
    return np.array(points, float).reshape(-1, 3)


def _imu(blocks: list[Block]) -> ImuSamples | None:
    if not blocks:
        return None
    stamp_ns = np.concatenate([block.stamp_ns for block in blocks])
    variance = np.concatenate([np.einsum("nii->ni", block["f_covariance"]) for block in blocks])
    good = Rising().good(stamp_ns)
    return ImuSamples(
        stamp_ns[good],
        np.concatenate([block["f"] for block in blocks])[good],
        np.concatenate([block["w"] for block in blocks])[good],
        np.sqrt(np.maximum(variance, 0.0))[good],
    )


def _fixes(
    blocks: list[Block], datum: Datum
) -> Iterator[tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Stamp, place in the world and its stated deviations of every fix."""
    for block in blocks:
        columns = (block["latitude_deg"], block["longitude_deg"], block["height_m"])
        status = block["status"]
        sigma = np.sqrt(np.maximum(np.einsum("nii->ni", block["covariance"]), 0.0))
        for i, stamp_ns in enumerate(block.stamp_ns):
            point = [float(column[i]) for column in columns]
            if status[i] >= 0 and np.isfinite(point).all():
                yield int(stamp_ns), datum.to_enu(*point), sigma[i]


def _add_fixes(log: FlightLog, blocks: list[Block], datum: Datum | None) -> None:
    if not blocks:
        return
    if datum is None:
        log.notes.append("no /datum: the GPS fixes are not drawn (give --datum LAT,LON,H)")
        return
    fixes = list(_fixes(blocks, datum))
    track = Track.empty(len(fixes), with_sigma=True)
    assert track.sigma is not None
    for i, (stamp_ns, p_W, sigma) in enumerate(fixes):
        track.stamp_ns[i], track.p_W[i], track.sigma[i, :3] = stamp_ns, p_W, sigma
    log.gnss = track[Rising().good(track.stamp_ns)] if len(track) else None
