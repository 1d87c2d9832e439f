"""Formats of logs that are read as bags: how each is recognised, and the module that reads it.

Another format is one line of :data:`FORMATS` and one module with

    def read(path: Path, columns: str) -> LogFile

It raises :class:`~quadsim.base.errors.InputError` where the log makes no sense. ``columns`` is the
column map that the user named (``config/logs/NAME.yaml`` or a path, or empty), which formats with
topics of their own ignore.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from quadsim.bag.logs.log_file import LogFile
from quadsim.base.errors import InputError, QuadsimError

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
    """Whether a file says so, or begins with a stamp of 2006 to 2032 in us, and a message."""
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
