"""SQLite files of a bag: read by rosbags, and what is left of a damaged one by rows."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import apsw
from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import Reader, ReaderError

from quadsim.bag.database_rows import rows
from quadsim.bag.repair import BeingRecorded
from quadsim.bag.storage import BagMessage, Batch, Storage, StoredTopic, batched
from quadsim.bag.writer import McapFile
from quadsim.base.errors import InputError

_UNREADABLE = (apsw.Error, ReaderError, ValueError, TypeError, KeyError, AssertionError)
_ENCODINGS = {MessageDefinitionFormat.MSG: "ros2msg", MessageDefinitionFormat.IDL: "ros2idl"}
#: What SQLite leaves beside a database whose writer was killed.
_JOURNALS = ("-wal", "-journal")


class SqliteStorage:
    """An open database of a bag; see :class:`quadsim.bag.storage.Storage`.

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

    def batches(self, wanted: Collection[str], start_ns: int) -> Iterator[Batch]:
        """Messages of some topics from a log time on, in its order."""
        return batched(self._messages(wanted, start_ns))

    def _messages(self, wanted: Collection[str], start_ns: int) -> Iterator[BagMessage]:
        last_ns, given = start_ns, list[BagMessage]()  # all that was given of the last time
        chosen = [c for c in self._reader.connections if c.topic in wanted]
        if self._left is None and chosen:
            try:
                for connection, log_ns, payload in self._reader.messages(chosen, start=start_ns):
                    if log_ns != last_ns:
                        last_ns, given = log_ns, []
                    given.append(BagMessage(connection.topic, connection.msgtype, log_ns, payload))
                    yield given[-1]
            except _UNREADABLE:
                self._left = self._salvage()
        if self._left is not None:
            for message in chain.from_iterable(self._left.batches(wanted, last_ns)):
                if message in given:
                    given.remove(message)
                else:
                    yield message


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


def salvage_database(path: Path, target: Path) -> str:
    """Write an MCAP file from the rows of a damaged database that can still be read.

    Returns:
        What was found.

    Raises:
        InputError: nothing can be read of it.
    """
    writer = McapFile(target, {}, library="quadsim repair")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as database:
            database.execute("PRAGMA writable_schema=ON")  # allows a file that was cut
            known = _known_topics(database, writer)
        bad: list[int] = []
        for topic, stamp_ns, data in rows(path, set(known), bad):
            writer.add(known[topic], stamp_ns, data)
        writer.close()
    except (sqlite3.DatabaseError, ValueError) as error:
        writer.abandon()
        raise InputError(f"{path}: not a readable bag ({error})") from None
    except BaseException:
        writer.abandon()
        raise
    more = f", {sum(bad)} more are not whole" if sum(bad) else ""
    return f"{path}: cut or damaged; {writer.facts.count} messages found row by row{more}"


def _known_topics(database: sqlite3.Connection, writer: McapFile) -> dict[int, str]:
    """Number to name of the topics; the writer gets to know them."""
    definitions: dict[str, tuple[str, str]] = {}
    with suppress(sqlite3.DatabaseError):  # since Iron
        stated = database.execute(
            "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        )
        definitions = {kind: (encoding, text) for kind, encoding, text in stated}
    known = {}
    for number, name, kind in database.execute("SELECT id, name, type FROM topics ORDER BY id"):
        known[number] = name
        if name not in writer.topics:
            writer.add_topic(name, kind, "", definitions.get(kind, ("", "")))
    return known
