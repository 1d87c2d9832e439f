"""SQLite files of a bag and bags of ROS 1 (version 2.0), read by rosbags."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from rosbags import rosbag1, rosbag2
from rosbags.convert.converter import generate_message_converter
from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore

from quadsim.bag.repair import BeingRecorded
from quadsim.bag.storage import BagMessage, Batch, FileFacts, StoredTopic, batched, printable
from quadsim.base.errors import InputError
from quadsim.wire.definitions import standard_types

_ENCODINGS = {MessageDefinitionFormat.MSG: "ros2msg", MessageDefinitionFormat.IDL: "ros2idl"}
#: What SQLite leaves next to a database whose writer was killed.
_JOURNALS = ("-wal", "-journal")
#: What damage makes the library raise; decompressing too.
_UNREADABLE = (rosbag1.ReaderError, SerdeError, TypesysError, ValueError, TypeError, LookupError,
               AssertionError, RuntimeError, EOFError, OSError, MemoryError,
               struct.error)  # fmt: skip


class SqliteStorage:
    """An open database of a bag; see :class:`quadsim.bag.storage.BagFile`.

    Raises:
        InputError: it is no database of rosbag2, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.custom: dict[str, str] = {}
        self._path = path
        self._reader = rosbag2.Reader(path)
        try:
            self._reader.open()
            if any(not (c.topic and c.msgtype) for c in self._reader.connections):
                raise ValueError("a topic without a name or a type")
        except Exception as error:  # whatever readers of SQLite raise
            raise self._damaged(error) from None
        topics = [_stored(connection) for connection in self._reader.connections]
        start_ns = self._reader.start_time
        self.facts = FileFacts(
            path.name, topics, start_ns, max(start_ns, self._reader.end_time - 1)
        )

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        """Messages of some topics from a log time on, in its order.

        Raises:
            InputError: the database is damaged.
        """
        return batched(self._messages(wanted, start_ns))

    def _messages(self, wanted: Collection[str], start_ns: int) -> Iterator[BagMessage]:
        chosen = [c for c in self._reader.connections if c.topic in wanted]
        try:
            for connection, log_ns, payload in self._reader.messages(chosen, start=start_ns):
                if not (isinstance(log_ns, int) and isinstance(payload, bytes)):  # SQLite asks not
                    raise ValueError(f"{connection.topic}: a message without a time or content")
                yield BagMessage(connection.topic, connection.msgtype, log_ns, payload)
        except Exception as error:  # whatever readers of SQLite raise
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> InputError:
        reason = printable(" ".join(str(error).split()))
        return InputError(
            f"{self._path}: not a readable bag ({reason}); sqlite3 recovers a"
            " damaged database with .recover"
        )


def first_words(error: Exception) -> str:
    """The first line of an error; parsers add the whole text."""
    words = (str(error).splitlines() or [""])[0].rstrip(":")
    return printable(words) or type(error).__name__


def _stored(connection: Connection) -> StoredTopic:
    return StoredTopic(
        connection.topic,
        connection.msgtype,
        connection.msgcount,
        _ENCODINGS.get(connection.msgdef.format, ""),
        connection.msgdef.data,
    )


def apply_journal(path: Path, notes: list[str]) -> None:
    """Put into a database what its journal still holds, where its recorder was killed.

    Args:
        notes: gets a line if there was something to do.

    Raises:
        InputError: it is being recorded.
    """
    journals = [path.with_name(path.name + ending) for ending in _JOURNALS]
    if not any(journal.is_file() and journal.stat().st_size for journal in journals):
        return
    if not os.access(path.parent, os.W_OK):
        notes.append(f"{path}: not closed by its recorder; copy it to where it can be written")
        return
    try:
        with closing(sqlite3.connect(path, timeout=0.0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.OperationalError:
        raise BeingRecorded(
            f"{path}: is being recorded; wait until its recorder has ended"
        ) from None
    except sqlite3.DatabaseError:
        return  # opening it states what is wrong
    notes.append(f"{path}: not closed by its recorder; what its journal held was put in")


class Ros1Storage:
    """An open bag of ROS 1, its messages as of ROS 2; see :class:`quadsim.bag.storage.BagFile`.

    Args:
        notes: gets a line for what cannot be read.

    Raises:
        InputError: it is no bag of ROS 1, or damaged.
    """

    def __init__(self, path: Path, notes: list[str]) -> None:
        self.custom: dict[str, str] = {}
        self._path, self._notes = path, notes
        try:
            self._reader = rosbag1.Reader(path)
            self._reader.open()
        except _UNREADABLE as error:
            raise InputError(
                f"{path}: not a readable bag of ROS 1 ({' '.join(str(error).split())});"
                " rosbag reindex recovers one that was cut"
            ) from None
        self._ways: dict[int, Callable[[bytes], Any]] = {}
        self._ours = get_typestore(Stores.EMPTY)
        self._ours.register(dict(standard_types().fielddefs))
        self._theirs = get_typestore(Stores.ROS1_NOETIC)
        start_ns = self._reader.start_time if self._reader.message_count else 0
        self.facts = FileFacts(path.name, [], start_ns, max(start_ns, self._reader.end_time - 1))
        for connection in self._reader.connections:
            self._add(connection)

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def _add(self, connection: Connection) -> None:
        """Make the way from a connection's messages to those of ROS 2."""
        kind = connection.msgtype
        count = len(self._reader.indexes.get(connection.id, ()))
        try:
            types = get_types_from_msg(connection.msgdef.data, kind)
            self._theirs.register(types)
            known = self._ours.fielddefs
            self._ours.register({name: each for name, each in types.items() if name not in known})
            text = ""
            if kind not in standard_types().fielddefs:
                text = self._ours.generate_msgdef(kind, ros_version=2)[0]
            with redirect_stdout(StringIO()):
                self._ways[connection.id] = generate_message_converter(
                    self._theirs, self._ours, kind, kind, {}, src_is2=False, dst_is2=True
                )
        except _UNREADABLE as error:
            self._notes.append(
                f"{self._path}: {printable(connection.topic)}: {count} messages of"
                f" {printable(kind)} left out ({first_words(error)})"
            )
            return
        encoding = "ros2msg" if text else ""
        self.facts.topics.append(StoredTopic(connection.topic, kind, count, encoding, text))

    def batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        """Messages of some topics from a log time on, in its order.

        Raises:
            InputError: the bag is damaged.
        """
        return batched(self._messages(wanted, start_ns))

    def _messages(self, wanted: Collection[str], start_ns: int) -> Iterator[BagMessage]:
        chosen = [c for c in self._reader.connections if c.topic in wanted and c.id in self._ways]
        if not chosen:
            return
        asked = {c.id for c in chosen}
        bad = 0
        try:
            for connection, log_ns, payload in self._reader.messages(chosen, start=start_ns):
                if connection.id not in asked:  # where an index is damaged
                    bad += 1
                    continue
                try:
                    message = bytes(self._ways[connection.id](payload))
                except _UNREADABLE:
                    bad += 1
                    continue
                yield BagMessage(connection.topic, connection.msgtype, log_ns, message)
        except _UNREADABLE as error:
            words = f"damaged; read as far as it goes ({first_words(error)})"
            self._notes.append(f"{self._path}: {words}")
        if bad:
            self._notes.append(f"{self._path}: {bad} messages do not fit their type: left out")
