"""Opening bags of ROS 2 (MCAP, SQLite; any distribution) and ROS 1, of whatever driver."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import zstandard

from quadsim.bag.contents import Bag, Opened
from quadsim.bag.logs.log_file import LogFile
from quadsim.bag.mcap_storage import McapStorage, NoIndexError
from quadsim.bag.metadata import FILE_NAME, read_metadata
from quadsim.bag.repair import BeingRecorded, is_whole, repair, repair_file
from quadsim.bag.storage import BLOCK, BagFile, BagMessage, Batch
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.files import BAGS, missing_bag
from quadsim.drivers.convert import Converter, StrangeDefinition
from quadsim.drivers.driver import Driver, Route, load_drivers, routes
from quadsim.wire.payloads import Payloads

#: So many bytes of a file are looked at.
HEAD_BYTES = 4096


@dataclass(frozen=True)
class LogFormat:
    """One format.

    Attributes:
        name: of the format, and of its module in this package.
        about: what writes it, for messages and documents.
        matches: whether a path and the first bytes of the file (none of a folder) are of it.
    """

    name: str
    about: str
    matches: Callable[[Path, bytes], bool]

    def read(self, path: Path, columns: str = "") -> LogFile:
        """Read a log of this format.

        Raises:
            InputError: it cannot be read. Other people's readers, and ours behind them, meet damage
                in many ways, so any other failure is one of the log.
        """
        module = import_module(f"quadsim.bag.logs.{self.name}")
        try:
            log: LogFile = module.read(path, columns)
        except (ImportError, OSError, MemoryError):
            raise
        except QuadsimError as error:
            raise type(error)(_printable(str(error))) from error
        except Exception as error:
            words = f"damaged, or of a form that is not read ({type(error).__name__}: {error})"
            raise InputError(_printable(f"{path}: this {self.about} is {words}")) from error
        log.unread = {_printable(name): count for name, count in log.unread.items()}
        if not log.facts.count:
            unread = ", ".join(f"{name} {count}" for name, count in log.unread.items())
            there = f" that a topic takes; it has {unread}" if unread else ""
            raise InputError(f"{path}: no message in this {self.about}{there}")
        return log


def _printable(text: str) -> str:
    """A text with names from a damaged file, in one line and without what moves a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _is_tum(path: Path, head: bytes) -> bool:
    """Whether a text begins with a comment or a stamp, as TUM's trajectories do."""
    return path.suffix in (".tum", ".txt") and head[:1] in b"#0123456789" and b"," not in head[:64]


def _is_tlog(path: Path, head: bytes) -> bool:
    """Whether a file is named so, or begins with a stamp of 2006 to 2032 in us, and a message."""
    begins = head[:1] == b"\0" and head[1:2] in b"\4\5\6" and head[8:9] in (b"\xfd", b"\xfe")
    return path.suffix == ".tlog" or begins


FORMATS = (
    LogFormat("ulog", "PX4 ULog", lambda _, head: head.startswith(b"ULog\x01\x12\x35")),
    LogFormat(
        "dataflash",
        "ArduPilot DataFlash log",
        lambda path, head: (
            head.startswith(b"\xa3\x95\x80")
            or re.search(rb"^FMT, ?128,", head, re.MULTILINE) is not None
            or path.suffix.lower() == ".bin"
        ),
    ),
    LogFormat("blackbox", "Betaflight blackbox log", lambda _, head: b"H Product:Blackbox" in head),
    LogFormat("tlog", "MAVLink telemetry log", _is_tlog),
    LogFormat("tum", "TUM trajectory", _is_tum),
    LogFormat(
        "euroc",
        "EuRoC sequence",
        lambda path, _: any((path / each / "imu0/data.csv").is_file() for each in ("", "mav0")),
    ),
    LogFormat("crazyflie_usd", "Crazyflie uSD log", lambda _, head: head[:1] == b"\xbc"),
    LogFormat("matlab", "MATLAB file", lambda path, _: path.suffix == ".mat"),
    LogFormat("csv", "CSV file", lambda path, _: path.suffix in (".csv", ".tsv")),
)


def format_of(path: Path) -> LogFormat | None:
    """Format of a log; None of a bag, and of what is no log."""
    head = b""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    return next((known for known in FORMATS if known.matches(path, head)), None)


__all__ = ["BLOCK", "Bag", "BagMessage", "Batch", "open_bag"]

_PACKED = (".zstd", ".zst")
#: A compressed file may become so many bytes, or so many times its size, whichever is more.
_LEAST_BYTES, _MOST_RATIO = 1 << 26, 200
_PIECE_BYTES = 1 << 20
_FORMATS = (".mcap", ".db3", ".bag")


@contextmanager
def open_bag(path: Path | str, driver: str | None = None, columns: str = "") -> Iterator[Bag]:
    """Open a rosbag2 folder, a single ``.mcap``, ``.db3`` or ``.bag`` (ROS 1) file, or a log.

    A cut MCAP is repaired first: in its place, or, where that cannot be written, in a scratch
    folder. Compressed files are unpacked onto the disk. ``Bag.notes`` names it.

    Args:
        driver: who published it, if not quadsim: a name of ``config/drivers``, a file, or several
            with commas between. The bag then shows our topics, types and frames.
        columns: column map of a log without topics of its own (:mod:`quadsim.bag.logs`).

    Raises:
        InputError: missing, not a bag, empty, or damaged beyond reading; one line with the remedy.
    """
    path = Path(path)
    with ExitStack() as stack:
        drivers = load_drivers(driver) if driver is not None else ()
        opened = _opened_log(path, columns) or _Opening(path, stack).open()
        bag = DrivenBag(path, opened, drivers) if drivers else Bag(path, opened)
        if not sum(bag.counts.values()):
            raise InputError(f"{path}: the bag is empty; record again")
        yield bag


def _opened_log(path: Path, columns: str) -> Opened | None:
    """A log of another format (:mod:`quadsim.bag.logs`); None if it is none."""
    try:
        kind = format_of(path)
        if kind is None:
            return None
        log = kind.read(path, columns)
    except OSError as error:
        raise _unreadable(path, error) from None
    return Opened([log], log.notes, log.custom, log.unread)


class _Opening:
    """Opens the files of one bag; scratch folders go with ``stack``."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path = path
        self.stack = stack
        self.result = Opened()

    @property
    def notes(self) -> list[str]:
        return self.result.notes

    def _scratch(self) -> Path:
        """A new folder for copies that are gone when the bag is closed."""
        return Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="quadsim-bag-")))

    def open(self) -> Opened:
        """Open every file that can be read."""
        refused: list[InputError] = []
        for file in self._files():
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
                raise missing_bag(self.path)
            if not single:
                content = sorted(file for file in self.path.iterdir() if file.is_file())
        except OSError as error:
            raise _unreadable(self.path, error) from None
        if single:
            if _format(self.path) not in _FORMATS:
                raise InputError(f"{self.path}: not a bag; give {BAGS}")
            return [self.path]
        there = [file for file in content if _format(file) in _FORMATS]
        plain = {file.name for file in there}
        there = [f for f in there if f.suffix not in _PACKED or f.stem not in plain]
        if not there:
            log = f"; of a folder of logs name one: {content[-1]}" if content else ""
            raise InputError(
                f"{self.path}: not a bag; a rosbag2 folder holds .mcap or .db3 files,"
                f" {FILE_NAME}{log}"
            )
        if not self._repaired_as_a_whole(there):
            self._compare_with_metadata({file.name for file in there})
        return there

    def _repaired_as_a_whole(self, files: list[Path]) -> bool:
        """Repair a folder of MCAP files in its place; whether it has a new ``metadata.yaml``."""
        if any(file.suffix != ".mcap" for file in files) or not os.access(self.path, os.W_OK):
            return False
        listed = (self.path / FILE_NAME).is_file()
        try:
            self.notes.extend(str(done) for done in repair(self.path))
        except BeingRecorded:
            raise
        except InputError:
            return False  # its files are read one by one
        return not listed

    def _compare_with_metadata(self, there: set[str]) -> None:
        """Take the content of ``metadata.yaml``, and note files that are missing or more."""
        try:
            known = read_metadata(self.path)
        except ValueError as error:
            self.notes.append(f"{error}; read without it")
            return
        if known is None:
            self.notes.append(f"{self.path}: has no {FILE_NAME}; read without it")
            return
        self.result.custom.update(known.custom)
        self.notes.extend(f"{self.path}: {n} is missing" for n in known.names if n not in there)
        if there & set(known.names):
            extra = sorted(there - set(known.names))
            self.notes.extend(f"{self.path}: {n} is not in {FILE_NAME}; read too" for n in extra)

    def _storage(self, file: Path) -> BagFile:
        if file.suffix in _PACKED:
            file = self._unpacked(file)
        if file.suffix == ".mcap":
            return self._mcap_storage(file)
        # here, as few bags are of ROS 1 or databases
        if file.suffix == ".bag":
            from quadsim.bag.database import Ros1Storage

            return Ros1Storage(file, self.notes)
        from quadsim.bag.database import SqliteStorage, apply_journal

        apply_journal(file, self.notes)
        return SqliteStorage(file)

    def _mcap_storage(self, file: Path) -> McapStorage:
        """An MCAP file; one that was cut is repaired, of one without an index a copy is made."""
        if not is_whole(file):
            target = None if os.access(file.parent, os.W_OK) else self._scratch() / file.name
            done = repair_file(file, target)
            self.notes.append(str(done))
            file = done.path
        try:
            return McapStorage(file, self.notes)
        except NoIndexError as error:
            copy = repair_file(file, self._scratch() / file.name)
            self.notes.append(f"{error}; read without it, {copy.messages} messages")
            return McapStorage(copy.path, self.notes)

    def _unpacked(self, file: Path) -> Path:
        """Unpack a compressed file onto the disk, piece by piece.

        Raises:
            InputError: it is none, it becomes far more than bags do, or the disk has no room.
        """
        target = self._scratch() / file.stem
        try:
            most = max(_LEAST_BYTES, _MOST_RATIO * file.stat().st_size)
            with file.open("rb") as packed, target.open("wb") as plain:
                reader = zstandard.ZstdDecompressor().stream_reader(packed)
                try:
                    while piece := reader.read(_PIECE_BYTES):
                        plain.write(piece)
                        if plain.tell() > most:
                            raise InputError(
                                f"{file}: becomes more than {most / 1e6:.0f} MB, which is too much"
                                f" for {file.stat().st_size / 1e6:g} MB of a recording; if it is"
                                " one, unpack it with zstd -d"
                            )
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


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"{path}: cannot be read ({error.strerror})")


def _format(file: Path) -> str:
    return PurePath(file.stem).suffix if file.suffix in _PACKED else file.suffix


class DrivenBag(Bag):
    """A bag that shows a driver's topics by our names, with our types, axes and units.

    What no driver claims is shown as it is.

    Args:
        drivers: names and drivers, the first that has a topic gives it.

    Raises:
        InputError: the bag has no topic of any of them.
    """

    def __init__(self, path: Path, opened: Opened, drivers: tuple[tuple[str, Driver], ...]) -> None:
        super().__init__(path, opened)
        found = routes(drivers, super().types, self.notes)
        if not found:
            name, driver = drivers[0]
            raise InputError(
                f"{path}: no topic of driver {name}, such as"
                f" {driver.full_name(driver.topics[0].names[0])}; the bag has"
                f" {', '.join(sorted(super().types)) or 'none'}"
            )
        self._routes: dict[str, list[Route]] = {}
        for route in found:
            self._routes.setdefault(route.source, []).append(route)
        self._targets = {route.target: route for route in found}
        self._converters = {
            route.target: Converter(
                route.topic, lambda: self.typestore, vehicle=route.target.split("/")[1]
            )
            for route in found
            if not route.topic.as_it_is
        }
        self._bad: dict[str, int] = {}

    @property
    def types(self) -> dict[str, str]:
        """Topic to type name."""
        return self._shown(super().types) | {
            target: route.topic.our_type for target, route in self._targets.items()
        }

    @property
    def counts(self) -> dict[str, int]:
        """Topic to number of messages."""
        counts = super().counts
        return self._shown(counts) | {t: counts[r.source] for t, r in self._targets.items()}

    @property
    def qos(self) -> dict[str, str]:
        """Topic to offered quality of service, YAML; empty where the bag does not say."""
        profiles = super().qos
        return self._shown(profiles) | {t: profiles[r.source] for t, r in self._targets.items()}

    def _shown(self, topics: dict[str, str] | dict[str, int]) -> dict[str, Any]:
        return {name: value for name, value in topics.items() if name not in self._routes}

    def batches(self, topics: Collection[str], start_ns: int = 0) -> Iterator[Batch]:
        """Messages of some topics in the order of their log time, in bounded memory."""
        chosen = frozenset(topics)
        passed = chosen - self._routes.keys() - self._targets.keys()
        ways: dict[str, list[Route]] = {}
        for target, route in self._targets.items():
            if target in chosen:
                ways.setdefault(route.source, []).append(route)
        for batch in super().batches(passed | ways.keys(), start_ns):
            parts, places = [], []  # of the messages that come out, their places in the batch
            for name, _, rows in batch.by_topic():
                if name in passed:
                    parts.append(batch[rows].compact())
                    places.append(rows)
                for route in ways.get(name, ()):
                    payloads = self._converted(route, list(batch.payloads[rows]))
                    good = np.flatnonzero([payload is not None for payload in payloads])
                    parts.append(
                        Batch(
                            ((route.target, route.topic.our_type),),
                            np.zeros(len(good), np.int64),
                            batch.log_ns[rows[good]],
                            Payloads.of([payload for payload in payloads if payload is not None]),
                        )
                    )
                    places.append(rows[good])
            if parts:
                yield Batch.joined(parts)[np.argsort(np.concatenate(places), kind="stable")]
        for target, count in self._bad.items():
            self.notes.append(f"{target}: {count} messages make no sense: left out")
        self._bad = {}

    def _converted(self, route: Route, payloads: list[bytes]) -> list[bytes | None]:
        converter = self._converters.get(route.target)
        if converter is None or not payloads:
            return list(payloads)
        try:
            return converter.convert(payloads)
        except StrangeDefinition as error:
            note = f"{route.target}: {error}: left out"
            if note not in self.notes:
                self.notes.append(note)
            return [None] * len(payloads)
        except QuadsimError:
            if len(payloads) == 1:
                self._bad[route.target] = self._bad.get(route.target, 0) + 1
                return [None]
        half = len(payloads) // 2  # find the bad ones
        return self._converted(route, payloads[:half]) + self._converted(route, payloads[half:])
