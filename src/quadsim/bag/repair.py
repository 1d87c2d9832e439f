"""Making a cut or damaged bag whole: what can be read is stored, the rest is counted and named."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, DataEnd, McapRecord, Message, Metadata, Schema
from mcap.stream_reader import StreamReader, breakup_chunk

from quadsim.bag.mcap_storage import DAMAGED, McapStorage, stored_topic
from quadsim.bag.metadata import FILE_NAME, information, read_metadata, write_metadata
from quadsim.bag.writer import CUSTOM_RECORD, McapFile, lock
from quadsim.base.errors import InputError

MAGIC = b"\x89MCAP0\r\n"
#: Opcode, length, first and last time, size and checksum of the content, length of a name; of a
#: chunk that is not compressed the size of its records follows.
_CHUNK_HEAD = struct.Struct("<BQQQQII")


@dataclass(slots=True)
class Repair:
    """What was done to a bag.

    Attributes:
        path: the file that was written anew, or the folder that got a ``metadata.yaml``.
        messages: how many messages it holds now.
        lost_bytes: bytes of the old file that could not be read.
        damaged_chunks: chunks with a wrong checksum, which were left out.
    """

    path: Path
    messages: int = 0
    lost_bytes: int = 0
    damaged_chunks: int = 0

    def __str__(self) -> str:
        if not self.lost_bytes and not self.damaged_chunks:
            return f"{self.path}: not closed by its recorder; made whole, {self.messages} messages"
        lost = f", {self.lost_bytes} bytes lost" if self.lost_bytes else ""
        damaged = f", {self.damaged_chunks} damaged places left out" if self.damaged_chunks else ""
        what = f"{self.messages} messages recovered{lost}{damaged}"
        return f"{self.path}: cut short; repaired, {what}"


class BeingRecorded(InputError):
    """A bag that has not ended yet."""


def is_whole(path: Path) -> bool:
    """Whether an MCAP file was closed: it ends with the magic bytes.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(MAGIC)))
            return size > 2 * len(MAGIC) and file.read() == MAGIC
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _records(file: BinaryIO, size: int, repair: Repair) -> Iterator[McapRecord]:
    """Records in and outside of chunks, up to where the file is cut.

    The records of an uncompressed chunk that the cut goes through are read one by one.
    """
    whole = file.tell()
    while True:
        reader = StreamReader(file, skip_magic=True, emit_chunks=True, record_size_limit=size)
        try:
            for record in reader.records:
                whole = file.tell()
                if isinstance(record, DataEnd):
                    return  # behind it is only the index
                if not isinstance(record, Chunk):
                    yield record
                    continue
                try:
                    yield from breakup_chunk(record, validate_crc=True)
                except DAMAGED:
                    repair.damaged_chunks += 1
        except DAMAGED:
            file.seek(whole)
            head = file.read(_CHUNK_HEAD.size + 8)
            plain = len(head) == _CHUNK_HEAD.size + 8 and not _CHUNK_HEAD.unpack_from(head)[-1]
            if plain and head[0] == Opcode.CHUNK:
                whole = file.tell()
                continue
            repair.lost_bytes = size - whole
            return


@contextmanager
def _taken(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if not lock(file):
            raise BeingRecorded(f"{path}: is being recorded; wait until its recorder has ended")
        yield file


def repair_file(path: Path, target: Path | None = None) -> Repair:
    """Write a whole MCAP file from what can be read of another one.

    Args:
        path: a file that was cut, or has no index.
        target: where the whole one goes; None replaces ``path`` (by a rename, once it is ready).

    Raises:
        InputError: nothing can be read, it is being recorded, or the folder cannot be written.
    """
    target = target or path
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    done = Repair(target)
    try:
        with _taken(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{path}: not an MCAP file")
            writer = McapFile(temporary, {}, library="quadsim repair")
            writer.facts.name = target.name
            try:
                _copy(_records(file, path.stat().st_size, done), writer)
                writer.close()
            finally:
                writer.abandon()
        temporary.replace(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be repaired ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)
    done.messages = writer.facts.count
    return done


def _copy(records: Iterator[McapRecord], writer: McapFile) -> None:
    """Write records into a new file."""
    schemas: dict[int, Schema] = {}
    topics: dict[int, str] = {}
    for record in records:
        if isinstance(record, Schema):
            schemas[record.id] = record
        elif isinstance(record, Channel) and record.id not in topics:
            topics[record.id] = record.topic
            if record.topic not in writer.topics:
                writer.add_topic(stored_topic(record, schemas.get(record.schema_id)))
        elif isinstance(record, Message) and record.channel_id in topics:
            writer.add(topics[record.channel_id], record.log_time, record.data)
        elif isinstance(record, Metadata) and record.name == CUSTOM_RECORD:
            writer.custom.update(record.metadata)


def repair(bag: Path) -> list[Repair]:
    """Make a bag whole where it is not: cut MCAP files, a missing ``metadata.yaml``.

    Args:
        bag: a rosbag2 folder with MCAP files.

    Returns:
        What was done; nothing for a bag that is whole.

    Raises:
        InputError: the bag is missing, empty, being recorded, or nothing of it can be read.
    """
    if not bag.is_dir():
        raise InputError(f"{bag}: no such bag folder")
    files = sorted(path for path in bag.glob("*.mcap") if path.is_file())
    if not files:
        raise InputError(f"{bag}: holds no .mcap file, so there is nothing to repair")
    done = [repair_file(path) for path in files if not is_whole(path)]
    if not done and (bag / FILE_NAME).is_file():
        return []
    try:
        old = read_metadata(bag)
    except ValueError:
        old = None
    custom = {} if old is None else dict(old.custom)
    facts = []
    for path in files:
        storage = McapStorage(path, [])
        storage.close()
        facts.append(storage.facts)
        custom |= storage.custom
    write_metadata(bag, information(facts, custom, "" if old is None else old.distribution))
    return done or [Repair(bag, sum(file.count for file in facts))]
