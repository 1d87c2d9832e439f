"""Writing rosbag2 folders in MCAP so that a process killed in flight loses less than a second.

Messages go to the file in small uncompressed chunks, at least every quarter of a second. While
the writer lives it holds a lock on the file, so that nobody repairs a bag that is being recorded;
the system takes the lock away when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import yaml
from mcap.writer import CompressionType, Writer

from quadsim.analysis.bag.definitions import definition_of
from quadsim.analysis.bag.metadata import BagFacts, FileFacts, TopicFacts
from quadsim.errors import InputError, QuadsimError

CHUNK_BYTES = 64 * 1024
FLUSH_EVERY_S = 0.25

#: Name of the MCAP metadata record that holds the bag's custom data from the first byte on, so
#: that a bag whose recorder was killed still knows its scenario and seed.
CUSTOM_RECORD = "quadsim"


def lock(file: BinaryIO) -> bool:
    """Take the file for this process alone; False if another one holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class McapFile:
    """One MCAP file with rosbag2's conventions: profile ``ros2``, ``cdr``, ``ros2msg`` schemas."""

    def __init__(self, path: Path, custom: Mapping[str, str], library: str = "quadsim") -> None:
        self.path = path
        self.topics: dict[str, TopicFacts] = {}
        self.facts = FileFacts(path.name)
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {}
        self._custom = dict(custom)
        self._file = path.open("xb")
        lock(self._file)
        # mcap declares some of its methods without types
        self._writer: Any = Writer(self._file, CHUNK_BYTES, CompressionType.NONE)
        self._writer.start("ros2", library)
        if self._custom:
            self._writer.add_metadata(CUSTOM_RECORD, self._custom)

    def add_topic(
        self, topic: str, type_name: str, qos: str, schema: tuple[str, str] | None = None
    ) -> None:
        """Make a topic known, with no message yet.

        Args:
            topic: full name.
            type_name: ``package/msg/Type``.
            qos: ``offered_qos_profiles`` as YAML; may be empty.
            schema: (encoding, text) of the type; None takes the standard definition.
        """
        text, type_hash = definition_of(type_name)
        encoding, text = schema if schema is not None else ("ros2msg" if text else "", text)
        if type_name not in self._schemas:
            self._schemas[type_name] = self._writer.register_schema(
                type_name, encoding, text.encode()
            )
        self._channels[topic] = self._writer.register_channel(
            topic,
            "cdr",
            self._schemas[type_name],
            {"offered_qos_profiles": qos, "topic_type_hash": type_hash},
        )
        self.topics[topic] = TopicFacts(topic, type_name, qos, type_hash)

    def add(self, topic: str, stamp_ns: int, payload: bytes) -> None:
        """Append one serialised message of a known topic at its log time."""
        facts = self.topics[topic]
        self._writer.add_message(
            self._channels[topic], stamp_ns, payload, stamp_ns, facts.count & 0xFFFFFFFF
        )
        facts.count += 1
        file = self.facts
        file.start_ns = stamp_ns if not file.count else min(file.start_ns, stamp_ns)
        file.end_ns = max(file.end_ns, stamp_ns)
        file.count += 1

    def flush(self) -> None:
        """Hand everything to the operating system: from here a kill loses none of it."""
        self._writer.flush()

    def close(self) -> BagFacts:
        """Write index and summary; give what ``metadata.yaml`` says."""
        bag = BagFacts([self.facts], list(self.topics.values()), self._custom)
        self._writer.flush()
        self._writer.add_metadata(
            "rosbag2",
            {"serialized_metadata": yaml.safe_dump(bag.information(), sort_keys=False)},
        )
        self._writer.finish()
        self._file.close()
        return bag

    def abandon(self) -> None:
        """Close without index."""
        self._file.close()


class BagWriter:
    """A rosbag2 folder with one MCAP file, written as messages come.

    Args:
        path: the bag's folder; it is made, with its parents, and must not exist.
        custom: what to keep in the bag's metadata (scenario, seed, versions, ...).
        clock: seconds, steady; when to flush.

    Raises:
        InputError: the folder exists or cannot be made.
    """

    def __init__(
        self,
        path: Path,
        custom: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            raise InputError(
                f"{self.path}: exists already; a bag never overwrites, name a new folder"
            ) from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror})") from None
        self._clock = clock
        self._flushed_s = clock()
        self._file = McapFile(self.path / f"{self.path.name}_0.mcap", custom or {})
        self._open = True

    @property
    def counts(self) -> dict[str, int]:
        """Messages written so far, by topic."""
        return {name: topic.count for name, topic in self._file.topics.items()}

    def add_topic(self, topic: str, type_name: str, qos_yaml: str | None = None) -> None:
        """Make a topic known before its first message; a second call changes nothing.

        Raises:
            QuadsimError: the topic is known with another type.
        """
        known = self._file.topics.get(topic)
        if known is None:
            self._file.add_topic(topic, type_name, qos_yaml or "")
        elif known.type_name != type_name:
            raise QuadsimError(
                f"{self.path}: topic {topic} has type {known.type_name}, not {type_name}"
            )

    def add(
        self, topic: str, type_name: str, qos_yaml: str | None, stamp_ns: int, payload: bytes
    ) -> None:
        """Append one message.

        Args:
            topic: full name.
            type_name: ``package/msg/Type``.
            qos_yaml: offered quality of service (:func:`bag_metadata.qos_yaml`), or None.
            stamp_ns: log time, ns; rosbag2 orders messages by it.
            payload: the message as CDR, with its four bytes of header.
        """
        if topic not in self._file.topics:
            self.add_topic(topic, type_name, qos_yaml)
        self._file.add(topic, stamp_ns, payload)
        self.flush_when_due()

    def flush_when_due(self) -> None:
        """Flush if a quarter of a second has passed; call it also when no message comes."""
        now_s = self._clock()
        if now_s - self._flushed_s >= FLUSH_EVERY_S:
            self._flushed_s = now_s
            self._file.flush()

    def flush(self) -> None:
        """Hand everything to the operating system now."""
        self._file.flush()

    def close(self) -> None:
        """Write index, summary and ``metadata.yaml``; a second call changes nothing."""
        if self._open:
            self._open = False
            self._file.close().write(self.path)

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
