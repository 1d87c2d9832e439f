"""A log of another format as a file of a bag: our topics, types, units and frames, in memory.

A reader turns a log into one of these. Whatever opens bags (replay, report, view, identify,
validate, convert) then reads it too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
#: Of a log's own words: what its filter believed of noise, as JSON with keys of our parameters.
NOISE = "estimator_noise"
JOINT_STATE = "sensor_msgs/msg/JointState"
#: Frames of our topics' messages; of those not named here, the body's.
_FRAMES = {
    "imu/data_raw": ("imu_link",),
    "imu/mag": ("imu_link",),
    "gps/fix": ("gps_link",),
    "gps/vel": ("map",),
    "range/down": ("range_link",),
    "wind": ("map",),
    "ground_truth/load": ("map",),
    "external/pose": ("map",),
    "external/pose_stamped": ("map",),
    "/datum": ("map",),
}
_RELIABLE = qos_yaml("reliable", "volatile", 10)
_LATCHED = qos_yaml("reliable", "transient_local", 1)


def log_topic(short: str) -> str:
    """Full name of a topic that is relative to the vehicle, or absolute."""
    return short if short.startswith("/") else f"{NAMESPACE}/{short}"


class LogFile:
    """Messages of a log, and what is known of it; a :class:`quadsim.bag.storage.BagFile`.

    Args:
        path: of the log.
        custom: what the log says of itself (firmware, vehicle), for the bag's metadata.

    Attributes:
        facts: topics, counts and times.
        notes: what a reader should know: damage, columns that no topic has.
    """

    def __init__(self, path: Path, custom: dict[str, str] | None = None) -> None:
        self.facts = FileFacts(path.name)
        self.custom = dict(custom or {})
        self.notes: list[str] = []
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
        template = Template.of(type_name, *frames)
        self.add_payloads(short, type_name, stamp_ns, template.payloads(stamp_ns, **columns))

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
