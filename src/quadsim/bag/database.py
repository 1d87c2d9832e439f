"""SQLite files of a bag, read by rosbags."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import Reader

from quadsim.bag.repair import BeingRecorded
from quadsim.bag.storage import BagMessage, Batch, FileFacts, StoredTopic, batched
from quadsim.base.errors import InputError

_ENCODINGS = {MessageDefinitionFormat.MSG: "ros2msg", MessageDefinitionFormat.IDL: "ros2idl"}
#: What SQLite leaves next to a database whose writer was killed.
_JOURNALS = ("-wal", "-journal")


class SqliteStorage:
    """An open database of a bag; see :class:`quadsim.bag.storage.BagFile`.

    Raises:
        InputError: it is no database of rosbag2, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.custom: dict[str, str] = {}
        self._path = path
        self._reader = Reader(path)
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
                yield BagMessage(connection.topic, connection.msgtype, log_ns, payload)
        except Exception as error:  # whatever readers of SQLite raise
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> InputError:
        reason = " ".join(str(error).split())
        return InputError(
            f"{self._path}: not a readable bag ({reason}); sqlite3 recovers a"
            " damaged database with .recover"
        )


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
