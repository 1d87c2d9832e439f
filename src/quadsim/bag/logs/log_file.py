"""A log of another format as a file of a bag: our topics, types, units and frames, in memory.

A reader turns a log into one of these. Whatever opens bags (replay, report, view, identify,
validate, convert) then reads it too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.bag.metadata import qos_yaml
from quadsim.bag.storage import BLOCK, Batch, FileFacts, StoredTopic
from quadsim.wire.definitions import definition_of
from quadsim.wire.encode import Template, joint_template
from quadsim.wire.payloads import Payloads
from quadsim.wire.standard import ODOMETRY, OURS

Stamps = NDArray[np.int64]

#: Vehicle of a log, which names none.
NAMESPACE = "/quad"
#: Of a log's own words: the noise that its filter assumed, as JSON with keys of our parameters.
NOISE = "estimator_noise"
JOINT_STATE = "sensor_msgs/msg/JointState"
#: Frames of our topics' messages; of those not named here, the body's.
_FRAMES = {
    "imu/data_raw": ("imu_link",),
    "imu/mag": ("imu_link",),
    "gps/fix": ("gps_link",),
    "gps/vel": ("map",),
    "range/down": ("range_link",),
    "flow/down": ("flow_link",),
    "wind": ("map",),
    "ground_truth/load": ("map",),
    "external/pose": ("map",),
    "external/pose_stamped": ("map",),
    "/datum": ("map",),
}
#: Of a log's own words: when it began, where its stamps do not say; ISO 8601.
RECORDED = "recorded"
#: 2000 to 2100: times of a receiver that does not know the time yet lie outside.
FIRST_UNIX_S, LAST_UNIX_S = 946_684_800.0, 4_102_444_800.0
#: Between these a value can be true, SI: accelerometers of 400 g, gyroscopes of 8000 deg/s,
#: magnetometers of 20 gauss, pressures from 30 km up to 300 m under water.
_SENSIBLE = {
    "f": (-4e3, 4e3), "w": (-150.0, 150.0), "m": (-2e-3, 2e-3), "pressure": (1e3, 3e6),
    "latitude_deg": (-90.0, 90.0), "longitude_deg": (-180.0, 180.0), "height_m": (-1e4, 1e5),
    "p": (-1e7, 1e7), "v": (-1e3, 1e3), "range": (0.0, 1e4),
}  # fmt: skip
_RELIABLE = qos_yaml("reliable", "volatile", 10)
_LATCHED = qos_yaml("reliable", "transient_local", 1)


def log_topic(short: str) -> str:
    """Full name of a topic that is relative to the vehicle, or absolute."""
    return short if short.startswith("/") else f"{NAMESPACE}/{short}"


class LogFile:
    """Messages of a log, and what is known of it; a :class:`quadsim.bag.storage.BagFile`.

    Args:
        custom: the log's own header (firmware, vehicle), for the bag's metadata.

    Attributes:
        facts: topics, counts and times.
        notes: what a reader should know: damage, and what makes no sense.
        unread: what no topic takes: messages, or ``message.field``, to numbers of messages.
        units_known: whether the format states its units, so that implausible sizes mean damage.
    """

    def __init__(self, path: Path, custom: dict[str, str] | None = None) -> None:
        self.facts = FileFacts(path.name)
        self.custom = dict(custom or {})
        self.notes: list[str] = []
        self.unread: dict[str, int] = {}
        self.units_known = True
        self._parts: list[Batch] = []
        self._whole: Batch | None = None

    def add(
        self,
        short: str,
        stamp_ns: Stamps,
        type_name: str = "",
        frames: Sequence[str] | None = None,
        **columns: ArrayLike,
    ) -> None:
        """Add the messages of one topic.

        Args:
            short: our topic, relative to the vehicle, or absolute.
            stamp_ns: (N,) of the samples, ns.
            type_name: one of :data:`quadsim.wire.decode.LAYOUTS`; empty: the topic's own.
            frames: of the header, and the child's; None: the topic's own.
            columns: name of the layout to (N, ...) numbers, or one for all; SI, ENU, FLU.
        """
        type_name = type_name or OURS.get(short, ODOMETRY)
        if frames is None:
            default = ("map", "base_link") if type_name == ODOMETRY else ("base_link",)
            frames = _FRAMES.get(short, default)
        if not len(stamp_ns):
            return
        if self.units_known:
            columns = self._sensible(short, columns)
        template = Template.of(type_name, *frames)
        self.add_payloads(short, type_name, stamp_ns, template.payloads(stamp_ns, **columns))

    def leave(self, name: str, count: int, why: str = "") -> None:
        """Count messages, or a field of them, that no topic takes."""
        name = f"{name} ({why})" if why else name
        if count:
            self.unread[name] = self.unread.get(name, 0) + count

    def date(self, unix_s: float) -> None:
        """Say when it was recorded, if that can be a date, where its stamps do not."""
        if RECORDED not in self.custom and FIRST_UNIX_S < unix_s < LAST_UNIX_S:
            at = datetime.fromtimestamp(unix_s, timezone.utc)
            self.custom[RECORDED] = at.isoformat(timespec="seconds")

    def _sensible(self, short: str, columns: dict[str, ArrayLike]) -> dict[str, ArrayLike]:
        """Columns with NaN in place of what cannot be, and fixes without a place as none."""
        columns = dict(columns)
        for name, (least, most) in _SENSIBLE.items():
            values = np.asarray(columns.get(name, ()), float)
            wild = np.isfinite(values) & ((values < least) | (values > most))
            if wild.any():
                columns[name] = np.where(wild, np.nan, values)
                rows = wild.any(axis=tuple(range(1, wild.ndim)))
                self.notes.append(
                    f"{short}: {np.count_nonzero(rows)} messages with {name} beyond sense: NaN"
                )
        if short == "gps/fix":
            place = np.stack([columns["latitude_deg"], columns["longitude_deg"]])
            nowhere = ~np.isfinite(place).all(axis=0) | ~place.any(axis=0)
            status = np.broadcast_to(np.asarray(columns["status"]), nowhere.shape)
            if (lost := nowhere & (status >= 0)).any():
                self.notes.append(
                    f"{short}: {np.count_nonzero(lost)} fixes at 0, 0 or nowhere: none"
                )
            columns["status"] = np.where(nowhere, -1, status)
        return columns

    def add_speeds(self, short: str, stamp_ns: Stamps, speeds: NDArray[np.float64]) -> None:
        """Add JointState messages of (N, rotors) numbers, as ``motor_speed`` has them in rad/s."""
        names = [f"rotor_{i}" for i in range(speeds.shape[1])]
        payloads = joint_template(names).payloads(stamp_ns, speeds=speeds)
        self.add_payloads(short, JOINT_STATE, stamp_ns, payloads)

    def add_payloads(
        self, short: str, type_name: str, log_ns: Stamps, payloads: Sequence[bytes]
    ) -> None:
        """Add serialised messages (CDR) of one topic at their log times, ns."""
        if not len(log_ns):
            return
        name = log_topic(short)
        text, type_hash = definition_of(type_name)
        qos = _LATCHED if short.startswith("/") else _RELIABLE
        encoding = "ros2msg" if text else ""
        self.facts.topics.append(
            StoredTopic(name, type_name, len(log_ns), encoding, text, qos, type_hash)
        )
        log_ns = np.asarray(log_ns, np.int64)
        first, last = int(log_ns.min()), int(log_ns.max())
        self.facts.start_ns = min(self.facts.start_ns, first) if self._parts else first
        self.facts.end_ns = max(self.facts.end_ns, last)
        numbers = np.zeros(len(log_ns), np.int64)
        self._parts.append(Batch(((name, type_name),), numbers, log_ns, Payloads.of(payloads)))
        self._whole = None

    def batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        """Messages of some topics from a log time on, in its order."""
        if self._whole is None and self._parts:
            self._whole = Batch.merged(self._parts)
        if self._whole is None:
            return
        whole = self._whole
        chosen = np.array([name in wanted for name, _ in whole.topics])[whole.topic]
        rows = np.flatnonzero(chosen & (whole.log_ns >= start_ns))
        for begin in range(0, len(rows), BLOCK):
            yield whole[rows[begin : begin + BLOCK]]

    def close(self) -> None:
        """Let go of the messages."""
        self._parts, self._whole = [], None
