"""Writing rosbag2 folders in MCAP so that a process killed in flight loses less than a second.

Messages go to the file in small chunks, at least every quarter of a second; from there on the
system keeps them, whatever becomes of the process. A file that is closed is synchronised with the
disk. While the writer lives it holds a lock on the file, so that nobody repairs a bag that is being
recorded; the system removes the lock when the process ends, however it ends.

A disk that is full ends the recording, not the process: room for the index is reserved from the
beginning and given back then, so the bag is whole.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, cast

import yaml
from mcap.writer import CompressionType, Writer

from quadsim.bag.metadata import information, write_metadata
from quadsim.bag.storage import FileFacts, StoredTopic
from quadsim.base.errors import InputError, QuadsimError
from quadsim.wire.definitions import definition_of

FLUSH_EVERY_S = 0.25
#: Room on the disk without which no recording begins, bytes.
LEAST_ROOM = 16_000_000
#: Largest chunk as it is, and before it is compressed: a larger one packs better.
CHUNK_BYTES = 64 * 1024
COMPRESSED_CHUNK_BYTES = 512 * 1024
#: Room that is reserved: so much, and what an entry of the index takes, of a chunk and a channel.
RESERVED_BYTES, CHUNK_ENTRY_BYTES, CHANNEL_ENTRY_BYTES = 1 << 20, 128, 32
COMPRESSIONS = {"none": CompressionType.NONE, "zstd": CompressionType.ZSTD}
#: Name of the MCAP metadata record that holds the bag's custom data from the first byte on, so
#: that a bag whose recorder was killed still knows its scenario and seed.
CUSTOM_RECORD = "quadsim"


@dataclass(frozen=True, slots=True)
class Storage:
    """How a bag lies on the disk.

    Attributes:
        split_bytes: a new file when one has grown so large; 0: never.
        split_ns: a new file after so much log time; 0: never.
        compression: ``none``, or ``zstd``, chunk by chunk.
    """

    split_bytes: int = 0
    split_ns: int = 0
    compression: str = "none"

    def __post_init__(self) -> None:
        """Refuse what no bag can be."""
        if self.compression not in COMPRESSIONS:
            raise InputError(
                f"compression {self.compression!r}; allowed: {', '.join(COMPRESSIONS)}"
            )
        if self.split_bytes < 0 or self.split_ns < 0:
            raise InputError("a bag is split by a size and a time above 0, or 0 for never")


def need_room(folder: Path) -> None:
    """Refuse to record where the disk is full.

    Args:
        folder: of the bag, or the first above it that exists.

    Raises:
        InputError: saying how much is free.
    """
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        found = os.statvfs(place)
    except OSError as error:
        raise InputError(f"{folder}: cannot be looked at ({error.strerror})") from None
    free = found.f_bavail * found.f_frsize
    if free < LEAST_ROOM:
        raise InputError(
            f"{folder}: the disk is full: {free / 1e6:.1f} MB are free; a recording needs"
            f" {LEAST_ROOM / 1e6:g} MB to begin with"
        )


def lock(file: BinaryIO) -> bool:
    """Take the file for this process alone; False if another one holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Gathered:
    """A stream for mcap's writer, which must not be interrupted: only :meth:`drain` can fail."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._waiting = bytearray()
        self._end = 0

    @property
    def waiting(self) -> int:
        """Bytes that the system has not got yet."""
        return len(self._waiting)

    def write(self, data: bytes) -> int:
        """Gather."""
        self._waiting += data
        self._end += len(data)
        return len(data)

    def tell(self) -> int:
        """Where the next byte will lie."""
        return self._end

    def flush(self) -> None:
        """Do nothing: mcap's writer asks for it."""

    def drain(self) -> None:
        """Hand all to the system; what it does not take is tried again the next time.

        Raises:
            OSError: the disk takes no more.
        """
        while self._waiting:
            written = self._file.write(self._waiting)
            del self._waiting[:written]


class McapFile:
    """One MCAP file with rosbag2's conventions: profile ``ros2``, ``cdr``, ``ros2msg`` schemas.

    Args:
        path: of the file, which must not exist.
        custom: the recorder's own data; what is added to it later is written at the end.
        library: who writes.
        compression: of the chunks.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(
        self,
        path: Path,
        custom: Mapping[str, str],
        library: str = "quadsim",
        compression: str = "none",
    ) -> None:
        self.path = path
        self.facts = FileFacts(path.name)
        self.custom = dict(custom)
        self.topics: dict[str, StoredTopic] = {}
        self._written_custom = dict(custom)
        self._channels: dict[str, int] = {}
        self._schemas: dict[str, int] = {}
        self._finished = False
        self._file = path.open("x+b", buffering=0)
        lock(self._file)
        chunk_bytes = CHUNK_BYTES if compression == "none" else COMPRESSED_CHUNK_BYTES
        self._stream = _Gathered(self._file)
        self._writer: Any = Writer(
            cast(IO[Any], self._stream), chunk_bytes, COMPRESSIONS[compression]
        )
        self._writer.start("ros2", library)
        if self.custom:
            self._writer.add_metadata(CUSTOM_RECORD, self.custom)
        try:
            self._stream.drain()
        except OSError:
            self.discard()
            raise

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._stream.tell()

    def add_topic(self, topic: StoredTopic) -> None:
        """Make a topic known, with no message yet, and the standard definition if it has none."""
        text, type_hash = definition_of(topic.type_name)
        known = StoredTopic(
            topic.name,
            topic.type_name,
            0,
            topic.encoding or ("ros2msg" if text else ""),
            topic.definition if topic.encoding else text,
            topic.qos_yaml,
            topic.type_hash or type_hash,
        )
        if known.type_name not in self._schemas:
            self._schemas[known.type_name] = self._writer.register_schema(
                known.type_name, known.encoding, known.definition.encode()
            )
        about = {"offered_qos_profiles": known.qos_yaml, "topic_type_hash": known.type_hash}
        self._channels[known.name] = self._writer.register_channel(
            known.name, "cdr", self._schemas[known.type_name], about
        )
        self.topics[known.name] = known
        self.facts.topics.append(known)

    def add(self, topic: str, stamp_ns: int, payload: bytes) -> None:
        """Append one serialised message of a known topic at its log time.

        Raises:
            OSError: the disk takes no more; the message is stored for :meth:`close`.
        """
        facts, known = self.facts, self.topics[topic]
        first = not facts.end_ns and not facts.count
        facts.start_ns = stamp_ns if first else min(facts.start_ns, stamp_ns)
        facts.end_ns = max(facts.end_ns, stamp_ns)
        self._writer.add_message(
            self._channels[topic], stamp_ns, payload, stamp_ns, known.count & 0xFFFFFFFF
        )
        known.count += 1
        if self._stream.waiting >= CHUNK_BYTES:
            self._stream.drain()

    def flush(self) -> None:
        """Hand everything to the operating system: from here a kill loses none of it."""
        self._writer.flush()
        self._stream.drain()

    def close(self) -> None:
        """Write index and summary, and synchronise; can be tried again.

        Raises:
            OSError: the disk takes no more.
        """
        if not self._finished:
            self._writer.flush()
            if self.custom != self._written_custom:
                self._writer.add_metadata(CUSTOM_RECORD, self.custom)
            own = yaml.safe_dump(information([self.facts], self.custom), sort_keys=False)
            self._writer.add_metadata("rosbag2", {"serialized_metadata": own})
            self._writer.finish()
            self._finished = True
        self._stream.drain()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Close without index."""
        self._file.close()

    def discard(self) -> None:
        """Close and remove: nothing is lost with it."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class _Reserve:
    """Room on the disk, given back when the disk is full; it is nobody's when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._size = 0

    def grow(self, size: int) -> None:
        """Hold so many bytes.

        Raises:
            OSError: there are not so many.
        """
        if size > self._size:
            self._size = size + RESERVED_BYTES
            os.posix_fallocate(self._file.fileno(), 0, self._size)

    def release(self) -> None:
        """Give them back."""
        self._file.close()


class BagWriter:
    """A rosbag2 folder of one or several MCAP files, written as messages come.

    Args:
        path: the bag's folder; it is made, with its parents, and must not exist.
        custom: what to keep in the bag's metadata (scenario, seed, versions, ...).
        clock: seconds, steady; when to flush.
        storage: how it lies on the disk.

    Attributes:
        stopped: why nothing is recorded any more, in words; empty while all is well.

    Raises:
        InputError: the folder exists, cannot be made, or the disk is full.
    """

    def __init__(
        self,
        path: Path,
        custom: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        storage: Storage | None = None,
    ) -> None:
        self.path = Path(path)
        self.stopped = ""
        self._storage = storage or Storage()
        self._custom = dict(custom or {})
        self._closed: list[FileFacts] = []
        self._flushes = 0
        need_room(self.path)
        try:
            self.path.mkdir(parents=True)
            self._reserve = _Reserve(self.path)
            self._file = self._new_file()
        except FileExistsError:
            raise InputError(
                f"{self.path}: exists already; a bag never overwrites, name a new folder"
            ) from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror})") from None
        self._clock = clock
        self._flushed_s = clock()
        self._open = True

    def _new_file(self) -> McapFile:
        self._reserve.grow(RESERVED_BYTES)
        name = f"{self.path.name}_{len(self._closed)}.mcap"
        return McapFile(self.path / name, self._custom, compression=self._storage.compression)

    @property
    def counts(self) -> dict[str, int]:
        """Messages written so far, by topic."""
        files = [*self._closed, *([self._file.facts] if self._open else [])]
        counts: dict[str, int] = {}
        for topic in (topic for file in files for topic in file.topics):
            counts[topic.name] = counts.get(topic.name, 0) + topic.count
        return counts

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(file.stat().st_size for file in self.path.glob("*.mcap"))

    def tell(self, key: str, value: str) -> None:
        """Keep one thing more in the bag's metadata, known only now."""
        self._custom[key] = self._file.custom[key] = value

    def add_topic(self, topic: str, type_name: str, qos_yaml: str | None = None) -> None:
        """Make a topic known before its first message; a second call changes nothing.

        Raises:
            QuadsimError: the topic is known with another type.
        """
        known = self._file.topics.get(topic)
        if known is None:
            self._file.add_topic(StoredTopic(topic, type_name, qos_yaml=qos_yaml or ""))
        elif known.type_name != type_name:
            raise QuadsimError(
                f"{self.path}: topic {topic} has type {known.type_name}, not {type_name}"
            )

    def add(
        self, topic: str, type_name: str, qos_yaml: str | None, stamp_ns: int, payload: bytes
    ) -> None:
        """Append one message; nothing happens when the recording has :attr:`stopped`.

        Args:
            type_name: ``package/msg/Type``.
            qos_yaml: offered quality of service (:func:`quadsim.bag.metadata.qos_yaml`), or None.
            stamp_ns: log time, ns; rosbag2 orders messages by it.
            payload: the message as CDR, with its four bytes of header.
        """
        if self.stopped:
            return
        try:
            self._split_when_due(stamp_ns)
            if topic not in self._file.topics:
                self.add_topic(topic, type_name, qos_yaml)
            self._file.add(topic, stamp_ns, payload)
        except OSError as error:
            self._stop(error)
            return
        self.flush_when_due()

    def _split_when_due(self, stamp_ns: int) -> None:
        """Continue in a new file, with the topics of the last, when that one is full."""
        split, facts = self._storage, self._file.facts
        large = 0 < split.split_bytes <= self._file.size
        old = 0 < split.split_ns <= stamp_ns - facts.start_ns
        if not (large or old) or not facts.count:
            return
        before = self._file
        before.close()
        self._closed.append(before.facts)
        self._open = False
        self._file = self._new_file()
        self._open = True
        for topic in before.topics.values():
            self._file.add_topic(topic)

    def _stop(self, error: OSError) -> None:
        """Make the bag whole on a disk that takes no more, in the room that was reserved."""
        self._reserve.release()
        self.stopped = f"{error.strerror or error}; recording has stopped, the bag "
        try:
            self._finish()
            self.stopped += "is whole"
        except (OSError, InputError):
            self._file.abandon()
            self._open = False
            self.stopped += "has to be repaired"

    def _finish(self) -> None:
        if self._open:
            self._file.close()
            self._open = False
            self._closed.append(self._file.facts)
        write_metadata(self.path, information(self._closed, self._custom))

    def flush_when_due(self) -> None:
        """Flush if a quarter of a second has passed; call it also when no message comes."""
        now_s = self._clock()
        if now_s - self._flushed_s >= FLUSH_EVERY_S:
            self._flushed_s = now_s
            self.flush()

    def flush(self) -> None:
        """Hand everything to the operating system now."""
        if self.stopped:
            return
        self._flushes += 1
        entry_bytes = CHUNK_ENTRY_BYTES + CHANNEL_ENTRY_BYTES * len(self._file.topics)
        chunks = self._flushes + self._file.size // CHUNK_BYTES
        try:
            self._file.flush()
            self._reserve.grow(chunks * entry_bytes)
        except OSError as error:
            self._stop(error)

    def close(self) -> None:
        """Write index, summary and ``metadata.yaml``; a second call changes nothing."""
        if not self._open:
            return
        try:
            self._finish()
            self._reserve.release()
        except OSError as error:
            self._stop(error)

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
