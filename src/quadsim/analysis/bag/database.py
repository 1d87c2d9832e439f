"""SQLite files of a bag: read by rosbags, and what is left of a damaged one by rows."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import apsw
from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import Reader, ReaderError

from quadsim.analysis.bag.repair import BeingRecorded, Repair
from quadsim.analysis.bag.storage import BagMessage, Storage, StoredTopic
from quadsim.analysis.bag.writer import McapFile
from quadsim.errors import InputError

_UNREADABLE = (apsw.Error, ReaderError, ValueError, TypeError, KeyError, AssertionError)
_ENCODINGS = {MessageDefinitionFormat.MSG: "ros2msg", MessageDefinitionFormat.IDL: "ros2idl"}
#: What SQLite leaves beside a database whose writer was killed.
_JOURNALS = ("-wal", "-journal")
_ROWS = "SELECT id, topic_id, timestamp, data FROM messages WHERE id > ? ORDER BY id"
#: Rows are numbered from one; no bag has more.
_MOST_ROWS = 1 << 40


class SqliteStorage:
    """An open database of a bag; see :class:`quadsim.analysis.bag.storage.Storage`.

    Messages come by the index of their log times. Where that or a page of theirs is damaged, what
    is left is read by rows instead.

    Args:
        path: the file.
        salvage: makes another file of what is left, and opens it.

    Raises:
        InputError: it is no database of rosbag2, or damaged where its topics stand.
    """

    def __init__(self, path: Path, salvage: Callable[[], Storage]) -> None:
        self.custom: dict[str, str] = {}
        self._salvage = salvage
        self._left: Storage | None = None
        self._reader = Reader(path)
        try:
            self._reader.open()
        except _UNREADABLE as error:
            reason = " ".join(str(error).split())
            raise InputError(f"{path}: not a readable bag ({reason})") from None
        self.start_ns = self._reader.start_time
        self.end_ns = max(self.start_ns, self._reader.end_time - 1)
        self.topics = [_topic(connection) for connection in self._reader.connections]

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()

    def messages(self, wanted: Collection[str], start_ns: int) -> Iterator[BagMessage]:
        """Messages of some topics from a log time on, in its order."""
        last_ns = start_ns - 1
        chosen = [c for c in self._reader.connections if c.topic in wanted]
        if self._left is None and chosen:
            try:
                for connection, log_ns, payload in self._reader.messages(chosen, start=start_ns):
                    yield BagMessage(connection.topic, connection.msgtype, log_ns, payload)
                    last_ns = log_ns
            except _UNREADABLE:
                self._left = self._salvage()
        if self._left is not None:
            yield from self._left.messages(wanted, last_ns + 1)


def _topic(connection: Connection) -> StoredTopic:
    return StoredTopic(
        connection.topic,
        connection.msgtype,
        connection.msgcount,
        _ENCODINGS.get(connection.msgdef.format, ""),
        connection.msgdef.data,
    )


def settled(path: Path, scratch: Callable[[], Path], notes: list[str]) -> Path:
    """A database whose recorder was killed, with what its journal still holds put in.

    Args:
        path: the file.
        scratch: gives a folder for a copy, where its own cannot be written.
        notes: gets a line if there was something to do.

    Raises:
        InputError: it is being recorded.
    """
    beside = [path.with_name(path.name + ending) for ending in _JOURNALS]
    left = [journal for journal in beside if journal.is_file() and journal.stat().st_size]
    if not left:
        return path
    if not os.access(path.parent, os.W_OK):
        folder = scratch()
        for file in (path, *left):
            shutil.copyfile(file, folder / file.name)
        path = folder / path.name
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
        return path  # opening it says what is wrong
    notes.append(f"{path}: not closed by its recorder; what its journal held was put in")
    return path


def salvage_database(path: Path, target: Path) -> Repair:
    """Write an MCAP file from the rows of a damaged database that can still be read.

    Raises:
        InputError: nothing can be read of it.
    """
    writer = McapFile(target, {}, library="quadsim repair")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as database:
            database.execute("PRAGMA writable_schema=ON")  # allows a file that was cut
            known = _known_topics(database, writer)
            gaps = _copy_rows(database, writer, known)
        writer.close()
    except sqlite3.DatabaseError as error:
        writer.abandon()
        raise InputError(f"{path}: not a readable bag ({error})") from None
    except BaseException:
        writer.abandon()
        raise
    return Repair(path, writer.facts.count, 0, gaps)


def _known_topics(database: sqlite3.Connection, writer: McapFile) -> dict[int, str]:
    """Number to name of the topics; the writer gets to know them."""
    definitions: dict[str, tuple[str, str]] = {}
    with suppress(sqlite3.DatabaseError):  # since Iron
        rows = database.execute(
            "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        )
        definitions = {kind: (encoding, text) for kind, encoding, text in rows}
    known = {}
    for number, name, kind in database.execute("SELECT id, name, type FROM topics ORDER BY id"):
        known[number] = name
        if name not in writer.topics:
            writer.add_topic(name, kind, "", definitions.get(kind, ("", "")))
    return known


def _copy_rows(database: sqlite3.Connection, writer: McapFile, known: dict[int, str]) -> int:
    """Copy every row that can be read; give the number of places where there was none."""
    gaps = 0
    last = _copy_run(database, writer, known, 0)
    while last is not None:
        gaps += 1
        beyond = _beyond(database, last)
        last = None if beyond is None else _copy_run(database, writer, known, beyond)
    return gaps


def _copy_run(
    database: sqlite3.Connection, writer: McapFile, known: dict[int, str], last: int
) -> int | None:
    """Copy the rows behind one; give the last before the damage, None at the table's end."""
    try:
        for row, topic, stamp_ns, data in database.execute(_ROWS, (last,)):
            last = row
            if topic in known and isinstance(data, bytes) and stamp_ns >= 0:
                writer.add(known[topic], stamp_ns, data)
    except sqlite3.DatabaseError:
        return last
    return None


def _beyond(database: sqlite3.Connection, last: int) -> int | None:
    """Row before the first one that can be read again, by doubling steps, then by halving."""

    def is_good(after: int) -> bool:
        try:
            return database.execute(_ROWS, (after,)).fetchone() is not None
        except sqlite3.DatabaseError:
            return False

    step = 1
    while not is_good(last + step):
        step *= 2
        if step > _MOST_ROWS:
            return None
    low, high = last + step // 2, last + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_good(middle) else (middle, high)
    return high
