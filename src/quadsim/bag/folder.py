"""What a bag consists of: its files, made readable, and what ``metadata.yaml`` says of them."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import zstandard

from quadsim.bag.mcap_storage import McapStorage
from quadsim.bag.metadata import FILE_NAME, stated
from quadsim.bag.repair import BeingRecorded, is_whole, repair, repair_file
from quadsim.bag.storage import Storage
from quadsim.base.errors import InputError

_PACKED = (".zstd", ".zst")
#: A compressed file may become so many bytes, or so many times its size, whichever is more.
_LEAST_BYTES, _MOST_RATIO = 1 << 26, 200
_FORMATS = (".mcap", ".db3")
_KINDS = "a rosbag2 folder, or a .mcap or .db3 file (compressed: .mcap.zstd, .db3.zstd)"


@dataclass(slots=True)
class Opened:
    """The files of a bag, open, and what is known of them.

    Attributes:
        storages: at least one.
        notes: what was done, and what cannot be read.
        custom: the recorder's own data.
        distribution: the ROS 2 distribution that recorded it; empty where nobody says.
    """

    storages: list[Storage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    custom: dict[str, str] = field(default_factory=dict)
    distribution: str = ""


class _Opening:
    """Opens the files of one bag; scratch folders go with ``stack``."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self.stack = stack
        self.result = Opened()

    @property
    def notes(self) -> list[str]:
        return self.result.notes

    def scratch(self) -> Path:
        """A new folder for copies that are gone when the bag is closed."""
        return Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-bag-")))

    def open(self) -> Opened:
        """Open every file that can be read."""
        files = self._files()
        refused: list[InputError] = []
        for file in files:
            try:
                storage = self._storage(file)
            except BeingRecorded:
                raise
            except InputError as error:
                refused.append(error)
                continue
            except OSError as error:
                refused.append(_unreadable(file, error))
                continue
            self.stack.callback(storage.close)
            self.result.storages.append(storage)
            self.result.custom.update(storage.custom)
        if not self.result.storages:
            raise refused[0]
        self.notes.extend(f"{error}: left out" for error in refused)
        return self.result

    def _files(self) -> list[Path]:
        try:
            single, content = self.path.is_file(), []
            if not self.path.exists():
                raise InputError(f"{self.path}: no such bag; give {_KINDS}")
            if not single:
                content = sorted(file for file in self.path.iterdir() if file.is_file())
        except OSError as error:
            raise _unreadable(self.path, error) from None
        if single:
            if _format(self.path) not in _FORMATS:
                raise InputError(f"{self.path}: not a bag; give {_KINDS}")
            return [self.path]
        there = [file for file in content if _format(file) in _FORMATS]
        plain = {file.name for file in there}
        there = [f for f in there if f.suffix not in _PACKED or f.stem not in plain]
        if not there:
            raise InputError(
                f"{self.path}: not a bag; a rosbag2 folder holds .mcap or .db3 files, {FILE_NAME}"
            )
        if self._repaired_as_a_whole(there):
            return there
        listed = self._listed()
        if listed is None:
            return there
        names = {file.name for file in there}
        self.notes.extend(f"{self.path}: {n} is missing" for n in listed if n not in names)
        extra = [name for name in names if name not in listed]
        if len(extra) < len(names):
            self.notes.extend(
                f"{self.path}: {name} is not in {FILE_NAME}; read too" for name in sorted(extra)
            )
        return there

    def _repaired_as_a_whole(self, files: list[Path]) -> bool:
        """Repair a folder of MCAP files in its place, if it needs it and can be written."""
        if any(file.suffix != ".mcap" for file in files) or not os.access(self.path, os.W_OK):
            return False
        unlisted = not (self.path / FILE_NAME).is_file()
        try:
            if not unlisted and all(is_whole(file) for file in files):
                return False
            self.notes.extend(str(done) for done in repair(self.path))
        except BeingRecorded:
            raise
        except InputError:
            if len(files) == 1:
                raise
            return False  # the others are read one by one
        return unlisted

    def _listed(self) -> list[str] | None:
        """Names of the files by ``metadata.yaml``; None where it does not say."""
        try:
            known = stated(self.path)
        except ValueError as error:
            self.notes.append(f"{error}; read without it")
            return None
        if known is None:
            self.notes.append(f"{self.path}: has no {FILE_NAME}; read without it")
            return None
        self.result.custom.update(known.custom)
        self.result.distribution = known.distribution
        return known.names

    def _storage(self, file: Path) -> Storage:
        if file.suffix in _PACKED:
            file = self._unpacked(file)
        if file.suffix == ".mcap":
            return McapStorage(self._whole_mcap(file), self.notes)
        # here, as few bags are databases
        from quadsim.bag.database import SqliteStorage, settled

        file = settled(file, self.scratch, self.notes)
        salvage = partial(self._salvaged, file)
        try:
            return SqliteStorage(file, salvage)
        except InputError:
            return salvage()

    def _whole_mcap(self, file: Path) -> Path:
        if is_whole(file):
            return file
        target = None if os.access(file.parent, os.W_OK) else self.scratch() / file.name
        done = repair_file(file, target)
        self.notes.append(str(done))
        return done.path

    def _salvaged(self, file: Path) -> Storage:
        """What is left of a damaged database, as an MCAP file of its own."""
        from quadsim.bag.database import salvage_database

        target = self.scratch() / f"{file.stem}.mcap"
        self.notes.append(salvage_database(file, target))
        storage = McapStorage(target, self.notes)
        self.stack.callback(storage.close)
        return storage

    def _unpacked(self, file: Path) -> Path:
        """Unpack a compressed file onto the disk, piece by piece.

        Raises:
            InputError: it is none, it becomes far more than bags do, or the disk has no room.
        """
        target = self.scratch() / file.stem
        try:
            most = max(_LEAST_BYTES, _MOST_RATIO * file.stat().st_size)
            with file.open("rb") as packed, target.open("wb") as plain:
                try:
                    bounded: Any = _Bounded(plain, most)
                    zstandard.ZstdDecompressor().copy_stream(packed, bounded)
                except _TooLarge:
                    raise InputError(
                        f"{file}: becomes more than {most / 1e6:.0f} MB, which is too much for"
                        f" {file.stat().st_size / 1e6:g} MB of a recording; if it is one, unpack it"
                        " with zstd -d"
                    ) from None
                except zstandard.ZstdError as error:
                    if not plain.tell():
                        raise InputError(f"{file}: not a compressed file ({error})") from None
                    self.notes.append(f"{file}: its compression is damaged; read as far as it goes")
        except OSError as error:
            raise InputError(
                f"{file}: cannot be unpacked in {target.parent.parent} ({error.strerror});"
                " TMPDIR chooses another folder"
            ) from None
        return target


class _TooLarge(Exception):
    """More would be written than is allowed."""


class _Bounded:
    """A file of which only so many bytes are written.

    Args:
        file: open for writing.
        most: bytes.
    """

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._left = file, most

    def write(self, piece: bytes) -> int:
        """Write a piece, or raise :class:`_TooLarge`."""
        self._left -= len(piece)
        if self._left < 0:
            raise _TooLarge
        return self._file.write(piece)


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be read ({error.strerror})")


def _format(file: Path) -> str:
    return PurePath(file.stem).suffix if file.suffix in _PACKED else file.suffix


def open_files(path: Path, stack: ExitStack) -> Opened:
    """Open a bag's files, repaired where they must be.

    Args:
        path: a folder or a file.
        stack: closes them.

    Raises:
        InputError: missing, no bag, being recorded, or nothing of it can be read.
    """
    return _Opening(path, stack).open()
