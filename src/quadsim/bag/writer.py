"""Writing rosbag2 folders in MCAP so that a process killed in flight loses less than a second.

Messages go to the file in small chunks, at least every quarter of a second; from there on the
system keeps them, whatever becomes of the process. A file that is closed is synchronised with the
disk. While the writer lives it holds a lock on the file, so that nobody repairs a bag that is being
recorded; the system takes the lock away when the process ends, however it ends.

A disk that is full ends the recording, not the process: the last chunks make room for the index,
and the bag is whole (:mod:`quadsim.bag.ending`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from quadsim.bag.mcap_writing import COMPRESSIONS, CUSTOM_RECORD, McapFile, lock
from quadsim.bag.metadata import BagFacts, combined
from quadsim.base.errors import InputError, QuadsimError

__all__ = ["CUSTOM_RECORD", "BagWriter", "McapFile", "Storage", "lock", "need_room"]

FLUSH_EVERY_S = 0.25

#: Room on the disk without which no recording begins, bytes.
LEAST_ROOM = 16_000_000


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
        self._closed: list[BagFacts] = []
        need_room(self.path)
        try:
            self.path.mkdir(parents=True)
            self._file = self._new_file(0)
        except FileExistsError:
            raise InputError(
                f"{self.path}: exists already; a bag never overwrites, name a new folder"
            ) from None
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made ({error.strerror})") from None
        self._clock = clock
        self._flushed_s = clock()
        self._open = True

    def _new_file(self, number: int) -> McapFile:
        name = f"{self.path.name}_{number}.mcap"
        return McapFile(self.path / name, self._custom, compression=self._storage.compression)

    @property
    def counts(self) -> dict[str, int]:
        """Messages written so far, by topic."""
        return {topic.name: topic.count for topic in self._facts().topics}

    def _facts(self) -> BagFacts:
        """What ``metadata.yaml`` would say now."""
        parts = [*self._closed, *([self._file.bag()] if self._open else [])]
        return combined(parts, self._custom)

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
            self._file.add_topic(topic, type_name, qos_yaml or "")
        elif known.type_name != type_name:
            raise QuadsimError(
                f"{self.path}: topic {topic} has type {known.type_name}, not {type_name}"
            )

    def add(
        self, topic: str, type_name: str, qos_yaml: str | None, stamp_ns: int, payload: bytes
    ) -> None:
        """Append one message; nothing happens when the recording has :attr:`stopped`.

        Args:
            topic: full name.
            type_name: ``package/msg/Type``.
            qos_yaml: offered quality of service (:func:`bag_metadata.qos_yaml`), or None.
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
        """Go on in a new file, with the topics of the last, when that one is full."""
        split, facts = self._storage, self._file.facts
        large = 0 < split.split_bytes <= self._file.size
        old = 0 < split.split_ns <= stamp_ns - facts.start_ns
        if not facts.count or not (large or old):
            return
        before = self._file
        after = self._new_file(len(self._closed) + 1)  # first: a full disk leaves one to end
        try:
            closed = before.close()
        except OSError:
            after.discard()
            raise
        self._closed.append(closed)
        self._file = after
        for topic in before.topics.values():
            self._file.add_topic(topic.name, topic.type_name, topic.qos_yaml)

    def _stop(self, error: OSError) -> None:
        """Make the bag whole on a disk that takes no more."""
        reason = error.strerror or str(error)
        self._open = False
        facts = self._file.facts
        heard = facts.count, facts.end_ns
        try:
            self._closed.append(self._file.end())
            self._facts().write(self.path)
        except (OSError, InputError):
            self._file.abandon()
            self.stopped = f"{reason}; recording has stopped, and the bag has to be repaired"
            return
        lost = (
            f"its last {heard[0] - facts.count} messages,"
            f" {(heard[1] - facts.end_ns) * 1e-9:.2f} s, made room for the index"
        )
        self.stopped = f"{reason}; recording has stopped, the bag is whole: {lost}"

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
        try:
            self._file.flush()
        except OSError as error:
            self._stop(error)

    def close(self) -> None:
        """Write index, summary and ``metadata.yaml``; a second call changes nothing."""
        if not self._open:
            return
        try:
            facts = self._file.close()
        except OSError as error:
            self._stop(error)
            return
        self._open = False
        self._closed.append(facts)
        self._facts().write(self.path)

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
