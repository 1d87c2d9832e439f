"""Opening rosbag2 folders and files (MCAP, SQLite; any ROS 2 distribution), and streaming them."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rosbags.highlevel import AnyReaderError
from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import Reader, ReaderError
from rosbags.serde import SerdeError
from rosbags.typesys import (
    Stores,
    TypesysError,
    get_types_from_idl,
    get_types_from_msg,
    get_typestore,
)
from rosbags.typesys.store import Typestore

from quadsim.analysis.bag.definitions import standard_types
from quadsim.analysis.bag.metadata import FILE_NAME
from quadsim.analysis.bag.repair import is_whole, repair, repair_file
from quadsim.errors import InputError, QuadsimError

#: What a damaged bag makes the reading libraries raise.
_UNREADABLE = (
    ReaderError,
    AnyReaderError,
    SerdeError,
    TypesysError,
    struct.error,
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AssertionError,
    EOFError,
    RuntimeError,
)
BLOCK = 4096  # messages held at once


class BagMessage(NamedTuple):
    """One message as it lies in a bag: topic, type, log time (ns), CDR bytes."""

    topic: str
    type_name: str
    log_ns: int
    payload: bytes


class Bag:
    """An open bag; see :func:`open_bag`.

    Attributes:
        path: what was asked for.
        notes: what was done to it when it was opened (repairs).
    """

    def __init__(self, path: Path, reader: Reader, notes: list[str]) -> None:
        self.path = path
        self.notes = notes
        self._reader = reader
        self._types: Typestore | None = None
        metadata: Any = reader.storage.metadata
        self.custom: dict[str, str] = dict(metadata.custom or {})

    @property
    def types(self) -> dict[str, str]:
        """Topic to type name."""
        return {connection.topic: connection.msgtype for connection in self._reader.connections}

    @property
    def counts(self) -> dict[str, int]:
        """Topic to number of messages."""
        counts: dict[str, int] = {}
        for connection in self._reader.connections:
            counts[connection.topic] = counts.get(connection.topic, 0) + connection.msgcount
        return counts

    @property
    def duration_s(self) -> float:
        """Time between the first and the last message, by log time, s."""
        return max(0.0, (self._reader.duration - 1) * 1e-9)

    def messages(self, topics: Collection[str]) -> Iterator[BagMessage]:
        """Messages of some topics in the order of their log time, in bounded memory.

        Raises:
            InputError: the bag is damaged.
        """
        chosen = [c for c in self._reader.connections if c.topic in topics]
        if not chosen:
            return
        messages = self._reader.messages(connections=chosen)
        while True:
            try:
                item = next(messages, None)
            except _UNREADABLE as error:
                raise InputError(f"{self.path}: damaged ({_reason(error)})") from error
            if item is None:
                return
            connection, log_ns, payload = item
            yield BagMessage(connection.topic, connection.msgtype, log_ns, bytes(payload))

    def deserialize(self, message: BagMessage) -> Any:
        """Turn one message into an object, by the definitions the bag carries.

        Raises:
            QuadsimError: the bag does not say what the type is, or the message does not fit it.
        """
        if self._types is None:
            self._types = self._collect_types()
        try:
            return self._types.deserialize_cdr(message.payload, message.type_name)
        except _UNREADABLE as error:
            raise QuadsimError(
                f"{self.path}: {message.topic}: not a {message.type_name} ({_reason(error)})"
            ) from error

    def first(self, topic: str) -> Any:
        """First message of a topic, deserialised; None if there is none."""
        for message in self.messages([topic]):
            return self.deserialize(message)
        return None

    def _collect_types(self) -> Typestore:
        types = get_typestore(Stores.EMPTY)
        found: dict[str, Any] = dict(standard_types().fielddefs)
        for connection in self._reader.connections:
            found.update(_definitions(connection))
        types.register(found)
        return types


def _definitions(connection: Connection) -> dict[str, Any]:
    definition = connection.msgdef
    try:
        if definition.format == MessageDefinitionFormat.MSG:
            return dict(get_types_from_msg(definition.data, connection.msgtype))
        if definition.format == MessageDefinitionFormat.IDL:
            return dict(get_types_from_idl(definition.data))
    except _UNREADABLE:
        return {}  # reading the topic then says that its type is not known
    return {}


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__


@contextmanager
def open_bag(path: Path | str) -> Iterator[Bag]:
    """Open a rosbag2 folder, or a single ``.mcap`` or ``.db3`` file.

    A cut MCAP is repaired first: in its place, or, where that cannot be written, in a scratch
    folder. ``Bag.notes`` then says so.

    Raises:
        InputError: missing, not a bag, empty, or damaged beyond reading; one line with the remedy.
    """
    path = Path(path)
    with ExitStack() as stack:
        source, notes = _make_readable(path, stack)
        reader = Reader(source)
        try:
            reader.open()
        except _UNREADABLE as error:
            raise InputError(f"{path}: not a readable bag ({_reason(error)})") from error
        stack.callback(reader.close)
        bag = Bag(path, reader, notes)
        if not sum(bag.counts.values()):
            raise InputError(f"{path}: the bag is empty; record again")
        yield bag


def _make_readable(path: Path, stack: ExitStack) -> tuple[Path, list[str]]:
    """What the reader can open, and what was done for it."""
    if not path.exists():
        raise InputError(f"{path}: no such bag; give a rosbag2 folder or a .mcap or .db3 file")
    if path.is_file():
        return _readable_file(path, stack)
    files = sorted(path.glob("*.mcap"))
    if not files:
        databases = sorted(path.glob("*.db3"))
        if (path / FILE_NAME).is_file():
            return path, []
        if len(databases) == 1:
            return databases[0], [f"{path}: has no {FILE_NAME}; read {databases[0].name} alone"]
        raise InputError(f"{path}: not a bag; a rosbag2 folder holds {FILE_NAME} and .mcap files")
    if (path / FILE_NAME).is_file() and all(is_whole(file) for file in files):
        return path, []
    if os.access(path, os.W_OK):
        return path, [str(done) for done in repair(path)]
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-bag-")))
    notes = []
    for file in files:
        if is_whole(file):
            (scratch / file.name).symlink_to(file.resolve())
        else:
            notes.append(str(repair_file(file, scratch / file.name)))
    repair(scratch)
    return scratch, notes or [f"{path}: has no {FILE_NAME}; read without it"]


def _readable_file(path: Path, stack: ExitStack) -> tuple[Path, list[str]]:
    if path.suffix == ".db3":
        return path, []
    if path.suffix != ".mcap":
        raise InputError(f"{path}: not a bag; give a rosbag2 folder or a .mcap or .db3 file")
    if is_whole(path):
        return path, []
    if os.access(path.parent, os.W_OK):
        return path, [str(repair_file(path))]
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-bag-")))
    done = repair_file(path, scratch / path.name)
    return done.path, [str(done)]
