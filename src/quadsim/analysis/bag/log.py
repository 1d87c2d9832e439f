"""A vehicle's flight out of a bag, as reports and metrics take it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from quadsim.analysis.bag import topics
from quadsim.analysis.bag.axes import rotation_matrices
from quadsim.analysis.bag.cdr import STAMP_END, Block, decode
from quadsim.analysis.bag.damaged import decoded
from quadsim.analysis.bag.reading import BLOCK, Bag, BagMessage
from quadsim.analysis.joints import decode_joints
from quadsim.errors import QuadsimError
from quadsim.geometry.geodesy import Datum
from quadsim.sim.log import Event, FlightLog, ImuSamples, Stamps, Track

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


@dataclass(slots=True)
class _Gathered:
    """What one topic held: tracks, blocks, or single messages with their log times."""

    tracks: list[Track] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    speeds: list[tuple[Stamps, np.ndarray[Any, Any]]] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)
    single: list[tuple[int, Any]] = field(default_factory=list)
    log_offset_ns: list[int] = field(default_factory=list)
    topic: str = ""
    bad: list[str] = field(default_factory=list)  # of each message left out, why


def read_log(
    bag: Bag,
    namespace: str,
    datum: Datum | None = None,
    with_imu: bool = False,
    with_estimates: bool = True,
) -> FlightLog:
    """Read one vehicle's flight.

    Args:
        bag: an open bag.
        namespace: the vehicle, as ``/quad``.
        datum: origin of ``map``; None takes the bag's.
        with_imu: whether the samples of the IMU are wanted, which are most of a bag.
        with_estimates: whether the estimates that were recorded are wanted.

    Returns:
        The log; ``notes`` names what was missing or left out. The first estimate is
        ``filtered``. A truth or an estimate that is missing is empty or absent.
    """
    log = FlightLog(notes=list(bag.notes))
    log.scenario = bag.custom.get("scenario", "")
    log.seed = _seed(bag, log.notes)
    log.topics = _relative_counts(bag, namespace)
    estimates = _ESTIMATES | _beside(bag, namespace) if with_estimates else {}
    types = {name: kind for name, kind in _TYPES.items() if name not in _ESTIMATES}
    types |= dict.fromkeys(estimates, ODOMETRY) | ({topics.IMU: IMU} if with_imu else {})
    names = {topics.topic(namespace, name): name for name in types}
    for full, name in list(names.items()):
        if bag.types.get(full, types[name]) != types[name]:
            log.notes.append(f"{full} is {bag.types[full]}, not {types[name]}: left out")
            del names[full]
    gathered = {name: _Gathered() for name in types}
    for message in bag.messages(names):
        _gather(bag, message, gathered[names[message.topic]])
    for name, kept in gathered.items():
        _finish(kept, types[name], log.notes)

    log.truth = _track(gathered[topics.TRUTH].tracks, topics.TRUTH, log.notes, sigma=False)
    for name, label in estimates.items():
        track = _track(gathered[name].tracks, name, log.notes, sigma=True)
        if len(track):
            log.estimates[label] = track
    reference = _track(gathered["reference"].tracks, "reference", log.notes, sigma=False)
    log.reference = reference if len(reference) else None
    log.motor_stamps_ns, log.motor_speed_radps = _motors(gathered[topics.MOTORS].speeds)
    log.command_stamps_ns, log.command_radps = _motors(gathered[topics.COMMANDS].speeds)
    log.events = _events(gathered)
    log.waypoints = _waypoints(gathered["mission"].single)
    _add_fixes(log, gathered["gps/fix"].blocks, datum or topics.datum_of(bag))
    log.imu = _imu(gathered[topics.IMU].blocks) if with_imu else None
    if not len(log.truth):
        log.notes.append(f"no {topics.topic(namespace, topics.TRUTH)}: nothing is scored")
    log.notes += [note for note in bag.notes if note not in log.notes]
    return log


def _beside(bag: Bag, namespace: str) -> dict[str, str]:
    """Topics of estimators that ran beside the vehicle's own, with their names."""
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


def _gather(bag: Bag, message: BagMessage, kept: _Gathered) -> None:
    kept.topic = message.topic
    if message.type_name not in _IN_BLOCKS:
        try:
            kept.single.append((message.log_ns, bag.deserialize(message)))
        except QuadsimError as error:
            kept.bad.append(str(error))
        return
    kept.waiting.append(message.payload)
    if len(kept.waiting) == 1 and len(message.payload) >= STAMP_END:
        seconds, nanoseconds = np.frombuffer(message.payload, "<u4", 2, 4)
        stamp_ns = int(seconds) * 1_000_000_000 + int(nanoseconds)
        kept.log_offset_ns.append(message.log_ns - stamp_ns)
    if len(kept.waiting) == BLOCK:
        _decode(kept, message.type_name)


def _finish(kept: _Gathered, type_name: str, notes: list[str]) -> None:
    """Decode what is left of a topic, and say what was left out."""
    if kept.waiting:
        _decode(kept, type_name)
    if kept.bad:
        notes.append(f"{kept.topic}: {len(kept.bad)} messages left out: {kept.bad[0]}")


def _decode(kept: _Gathered, type_name: str) -> None:
    waiting, kept.waiting = kept.waiting, []
    if type_name == JOINTS:
        joints = decoded(decode_joints, waiting)
        if joints.good is not None:
            kept.speeds.append(joints.good[:2])
        kept.bad += [joints.reason] * len(joints.bad)
        return
    block = decoded(partial(decode, type_name), waiting)
    kept.bad += [block.reason] * len(block.bad)
    if block.good is None:
        return
    if type_name in (topics.FIX, IMU):
        kept.blocks.append(block.good)
    else:
        kept.tracks.append(_part(block.good))


def _part(block: Block) -> Track:
    """A block of odometry or poses as a track, every row kept; the rest of it is let go."""
    p_W = block["p"]
    q_WB = np.roll(block["q_xyzw"], 1, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):  # bad rows are left out later
        q_WB /= np.linalg.norm(q_WB, axis=1, keepdims=True)
    v_B = w_B = np.zeros_like(p_W)
    R_WB = rotation_matrices(q_WB)
    sigma = np.zeros((len(p_W), 9))
    if "v" in block.names:
        v_B, w_B = block["v"], block["w"]  # NaN where a driver knows none
        sigma = _sigma(R_WB, block["pose_covariance"], block["twist_covariance"])
    v_W = np.einsum("nij,nj->ni", R_WB, v_B)
    return Track(block.stamp_ns, p_W, v_W, q_WB, w_B, sigma)


def _track(parts: list[Track], name: str, notes: list[str], sigma: bool) -> Track:
    """Track of an odometry or a pose topic; bad rows are left out and counted."""
    if not parts:
        return Track.empty()
    stated = np.concatenate([part.sigma for part in parts if part.sigma is not None])
    whole = Track(
        np.concatenate([part.stamp_ns for part in parts]),
        np.concatenate([part.p_W for part in parts]),
        np.concatenate([part.v_W for part in parts]),
        np.concatenate([part.q_WB for part in parts]),
        np.concatenate([part.w_B for part in parts]),
        stated if sigma and stated.any() else None,  # all zero means unknown
    )
    good = _rising(whole.stamp_ns)
    good &= np.isfinite(whole.p_W).all(axis=1) & np.isfinite(whole.q_WB).all(axis=1)
    if not good.all():
        notes.append(f"{name}: {int((~good).sum())} messages left out (NaN, or stamps not rising)")
    return whole[good]


def read_track(bag: Bag, full: str, notes: list[str]) -> Track:
    """Track of one odometry topic, whatever its name.

    Args:
        bag: an open bag.
        full: name of a topic of odometry.
        notes: gets what was left out.
    """
    kept = _Gathered()
    for message in bag.messages([full]):
        _gather(bag, message, kept)
    _finish(kept, ODOMETRY, notes)
    return _track(kept.tracks, full, notes, sigma=True)


def _sigma(
    R_WB: np.ndarray[Any, Any], pose: np.ndarray[Any, Any], twist: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """(N, 9) deviations of position, velocity and attitude about the world axes.

    REP-103 and nav_msgs: the pose's covariance is in the parent frame, rotation about its fixed
    axes; the twist's in the child frame, so its velocity part is turned into the world.
    """
    velocity = R_WB @ twist[:, :3, :3] @ np.swapaxes(R_WB, 1, 2)
    diagonal = np.concatenate(
        [
            np.einsum("nii->ni", pose[:, :3, :3]),
            np.einsum("nii->ni", velocity),
            np.einsum("nii->ni", pose[:, 3:, 3:]),
        ],
        axis=1,
    )
    return np.asarray(np.sqrt(np.maximum(diagonal, 0.0)))


def _rising(stamp_ns: Stamps) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Rows later than everything before them."""
    good = np.ones(len(stamp_ns), bool)
    good[1:] = stamp_ns[1:] > np.maximum.accumulate(stamp_ns)[:-1]
    return good


def _motors(
    blocks: list[tuple[Stamps, np.ndarray[Any, Any]]],
) -> tuple[Stamps, np.ndarray[Any, Any]]:
    """Stamps that rise, and speeds of as many rotors as the first block has."""
    width = next((speeds.shape[1] for _, speeds in blocks), 4)
    blocks = [block for block in blocks if block[1].shape[1] == width]
    stamp_ns = np.concatenate([np.zeros(0, np.int64), *(stamps for stamps, _ in blocks)])
    speeds = np.concatenate([np.zeros((0, width)), *(speeds for _, speeds in blocks)])
    good = _rising(stamp_ns)
    return stamp_ns[good], speeds[good]


def _events(gathered: dict[str, _Gathered]) -> list[Event]:
    """Events in order; they carry no stamp, so the log time is set back to the stamps' clock."""
    offsets = [offset for kept in gathered.values() for offset in kept.log_offset_ns]
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
    good = _rising(stamp_ns)
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
    log.gnss = track[_rising(track.stamp_ns)] if len(track) else None
