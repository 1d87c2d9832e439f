"""Betaflight's blackbox: its gyroscope, accelerometer, rotors, battery and receiver of GNSS.

The frames by Betaflight's src/main/blackbox (blackbox.c, blackbox_encoding.c,
blackbox_fielddefs.h): a header of text lists the fields of each kind of frame, how each is encoded
and predicted. Axes are forward, left, up; deg/s; acc_1G a standard gravity.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quadsim.bag.logs.columns import add_battery
from quadsim.bag.logs.log_file import LogFile
from quadsim.bag.logs.motion import Array, diagonal_matrices, no_attitude
from quadsim.base.errors import InputError
from quadsim.wire.axes import WORLD, turned_rows

BEGIN = b"H Product:Blackbox"
GRAVITY_MPS2 = 9.80665
#: Main frames in which the whole state is, and those that say what has changed.
INTRA, INTER = "I", "P"
MARKERS = b"IPSGHE"
#: A frame is no longer than this; times do not jump farther, us.
LONGEST, JUMP_US = 256, 10_000_000
(SIGNED, UNSIGNED, NEGATIVE_14, TAG8_8, TAG2_3, TAG8_4, NOTHING) = (0, 1, 3, 6, 7, 8, 9)
#: How many fields a tag is for.
GROUPS = {TAG8_8: 8, TAG2_3: 3, TAG8_4: 4}
(PREVIOUS, STRAIGHT, AVERAGE, MINTHROTTLE, MOTOR_0, NEXT, HOME, MIDDLE, VBATREF, MAIN_TIME,
 MINMOTOR) = range(1, 12)  # fmt: skip
#: Events by number: sizes of what follows in bytes; negative: so many numbers of variable length.
EVENTS = {0: -1, 14: -2, 15: -1, 30: -2}
ADJUSTMENT, LOG_END, END = 13, 255, b"End of log\0"

Frame = list[int]


class _Damage(Exception):
    """What cannot be a frame."""


class _Bytes:
    """The frames' encodings, read from some bytes on."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def byte(self) -> int:
        """The next one."""
        self.at += 1
        return self.content[self.at - 1]

    def unsigned(self) -> int:
        """Seven bits in each byte, the lowest first; the eighth: more follow."""
        content, at = self.content, self.at
        value = content[at]
        at += 1
        if value > 127:
            value, shift = value & 127, 7
            while True:
                part = content[at]
                at += 1
                value |= (part & 127) << shift
                shift += 7
                if part < 128:
                    break
                if shift > 28:
                    raise _Damage
        self.at = at
        return value

    def signed(self) -> int:
        """The same, with the sign in the lowest bit."""
        value = self.unsigned()
        return (value >> 1) ^ -(value & 1)

    def whole(self, size: int) -> int:
        """A signed number of whole bytes, the lowest first."""
        self.at += size
        return int.from_bytes(self.content[self.at - size : self.at], "little", signed=True)

    def group(self, encoding: int, count: int) -> Frame:
        """Numbers that are encoded together."""
        if encoding == SIGNED:
            return [self.signed() for _ in range(count)]
        if encoding == UNSIGNED:
            return [self.unsigned() for _ in range(count)]
        if encoding == NEGATIVE_14:
            return [-_extended(self.unsigned(), 14) for _ in range(count)]
        if encoding == TAG8_8:
            tag = self.byte() if count > 1 else 1
            return [self.signed() if tag >> k & 1 else 0 for k in range(count)]
        if encoding == TAG2_3:
            return self._tag2_3()
        return self._tag8_4() if encoding == TAG8_4 else [0] * count

    def _tag2_3(self) -> Frame:
        tag = self.byte()
        if tag < 0x40:
            return [_extended(tag >> 4, 2), _extended(tag >> 2, 2), _extended(tag, 2)]
        if tag < 0x80:
            both = self.byte()
            return [_extended(tag, 4), _extended(both >> 4, 4), _extended(both, 4)]
        if tag < 0xC0:
            return [_extended(each, 6) for each in (tag, self.byte(), self.byte())]
        return [self.whole(1 + (tag >> 2 * k & 3)) for k in range(3)]

    def _tag8_4(self) -> Frame:
        """Two bits say for each of four its size, 0, 4, 8 or 16 bits, the highest first."""
        tag, left, bits, values = self.byte(), 0, 0, []
        for k in range(4):
            size = (0, 4, 8, 16)[tag >> 2 * k & 3]
            while bits < size:
                left, bits = left << 8 | self.byte(), bits + 8
            bits -= size
            values.append(_extended(left >> bits, size) if size else 0)
            left &= (1 << bits) - 1
        return values


def _extended(value: int, bits: int) -> int:
    """The lowest bits of a number, as a signed one."""
    half = 1 << (bits - 1)
    return ((value & (2 * half - 1)) ^ half) - half


class _Kind(NamedTuple):
    """One kind of frame: names, predictors, and (encoding, count) of what is read together."""

    names: list[str]
    predictors: Frame
    groups: list[tuple[int, int]]

    @classmethod
    def of(cls, names: list[str], predictors: Frame, encodings: Frame) -> _Kind:
        """A kind by the lines of a header."""
        groups: list[tuple[int, int]] = []
        for encoding in encodings:
            size = GROUPS.get(encoding, len(encodings))
            if groups and groups[-1][0] == encoding and groups[-1][1] < size:
                groups[-1] = (encoding, groups[-1][1] + 1)
            else:
                groups.append((encoding, 1))
        return cls(names, predictors, groups)


class Blackbox:
    """One log: its header, and its frames as columns.

    Args:
        content: bytes of it.

    Attributes:
        header: name to value.
        damaged: how often something was no frame; what follows it is left out up to the next
            frame with the whole state.
        main, gnss: names and (N, ...) values of the main frames, and of those of the receiver.
        slow: how many frames give modes and states.
    """

    def __init__(self, content: bytes) -> None:
        self.header: dict[str, str] = {}
        self._bytes = _Bytes(content)
        self._read_header()
        self._kinds = {marker: kind for marker in "IPSGH" if (kind := self._kind(marker))}
        if INTRA not in self._kinds or INTER not in self._kinds:
            raise InputError("its header does not say its fields")
        self.damaged = 0
        self._state: tuple[Frame, Frame] | None = None  # the last frame, and the one before it
        self._time_us: int | None = None
        self._home = [0, 0]
        self._rows: dict[str, list[Frame]] = {"main": [], "gnss": []}
        self.slow = 0
        self._fixed = {
            MINTHROTTLE: self.number("minthrottle", 1150), MIDDLE: 1500,
            VBATREF: self.number("vbatref", 4095), MINMOTOR: self.number("motorOutput", 0),
        }  # fmt: skip
        self._read_frames()
        self.main = self._columns(INTRA, "main")
        self.gnss = self._columns("G", "gnss")

    def number(self, name: str, default: int) -> int:
        """First number of a line of the header."""
        found = re.match(r"-?\d+", self.header.get(name, ""))
        return int(found[0]) if found else default

    def _read_header(self) -> None:
        content, source = self._bytes.content, self._bytes
        while content[source.at : source.at + 2] == b"H ":
            end = content.find(b"\n", source.at)
            end = len(content) if end < 0 else end
            name, _, value = content[source.at + 2 : end].decode("latin-1").partition(":")
            self.header[name.strip()] = value.strip()
            source.at = end + 1

    def _kind(self, marker: str) -> _Kind | None:
        """Fields of one kind of frame; names and signs of changes are those of the whole."""
        named = INTRA if marker == INTER else marker
        lines = [
            self.header.get(f"Field {of} {what}", "")
            for of, what in ((named, "name"), (marker, "predictor"), (marker, "encoding"))
        ]
        if not all(lines):
            return None
        names, predictors, encodings = (line.split(",") for line in lines)
        if not len(names) == len(predictors) == len(encodings):
            raise InputError(f"its header has other numbers of names and of fields of {marker}")
        kind = _Kind.of(names, list(map(int, predictors)), list(map(int, encodings)))
        known = {SIGNED, UNSIGNED, NEGATIVE_14, NOTHING, *GROUPS}
        wrong = sorted({encoding for encoding, _ in kind.groups} - known)
        if wrong or (TAG8_4 in dict(kind.groups) and self.number("Data version", 0) < 2):
            raise InputError(f"its fields of {marker} have encodings that are not known: {wrong}")
        for encoding, count in kind.groups:
            if count != GROUPS.get(encoding, count) and encoding != TAG8_8:
                raise InputError(f"its fields of {marker} have half a group")
        return kind

    def _read_frames(self) -> None:
        """Read all frames; behind what is none search for the next."""
        source, content = self._bytes, self._bytes.content
        readers: dict[int, Callable[[], bool]] = {
            ord(marker): reader
            for marker, reader in (
                (INTRA, self._intra), (INTER, self._inter), ("S", self._slow), ("G", self._fix),
                ("H", self._set_home), ("E", self._event),
            )
            if marker in self._kinds or marker == "E"
        }  # fmt: skip
        lost = False
        while source.at < len(content):
            begin = source.at
            source.at += 1
            before = self._state, self._time_us, {k: len(v) for k, v in self._rows.items()}
            try:
                if readers[content[begin]]():
                    return
                ends = source.at == len(content) or content[source.at] in MARKERS
                if not ends or source.at - begin > LONGEST:
                    raise _Damage
                lost = False
            except (_Damage, KeyError, IndexError):
                self._state, self._time_us, counts = before
                for name, count in counts.items():
                    del self._rows[name][count:]
                self._state = None
                self.damaged += not lost
                lost, source.at = True, begin + 1

    def _values(self, kind: _Kind) -> Frame:
        """Numbers of a frame, without what was predicted."""
        values: Frame = []
        for encoding, count in kind.groups:
            values += self._bytes.group(encoding, count)
        return values

    def _whole(self, marker: str) -> Frame:
        """A frame that needs no other."""
        kind = self._kinds[marker]
        frame = self._values(kind)
        home = iter(self._home)
        for k, predictor in enumerate(kind.predictors):
            if predictor == MOTOR_0:
                frame[k] += frame[kind.names.index("motor[0]")]
            elif predictor == HOME:
                frame[k] += next(home)
            elif predictor == MAIN_TIME:
                frame[k] += self._time_us or 0
            else:
                frame[k] += self._fixed.get(predictor, 0)
        return frame

    def _take(self, frame: Frame, before: Frame) -> None:
        """Keep a main frame, if its time can be."""
        now_us = frame[1] & 0xFFFFFFFF
        if self._time_us is not None and (now_us - self._time_us) & 0xFFFFFFFF > JUMP_US:
            raise _Damage
        self._time_us = now_us
        self._state = (frame, before)
        self._rows["main"].append(frame)

    def _intra(self) -> bool:
        frame = self._whole(INTRA)
        self._take(frame, frame)
        return False

    def _inter(self) -> bool:
        kind = self._kinds[INTER]
        values = self._values(kind)
        if self._state is None:
            return False  # nothing is known that it could change
        last, before = self._state
        frame = [
            value if predictor == 0
            else value + a if predictor == PREVIOUS
            else value + int((a + b) / 2) if predictor == AVERAGE
            else value + 2 * a - b if predictor == STRAIGHT
            else a + 1 if predictor == NEXT
            else value + self._fixed.get(predictor, 0)
            for value, predictor, a, b in zip(values, kind.predictors, last, before, strict=True)
        ]  # fmt: skip
        self._take(frame, last)
        return False

    def _slow(self) -> bool:
        self._values(self._kinds["S"])
        self.slow += 1
        return False

    def _fix(self) -> bool:
        frame = self._whole("G")
        if "time" not in self._kinds["G"].names:
            frame = [self._time_us or 0, *frame]
        self._rows["gnss"].append(frame)
        return False

    def _set_home(self) -> bool:
        self._home = self._values(self._kinds["H"])[:2]
        return False

    def _event(self) -> bool:
        """Read over an event; whether it is the log's end."""
        source = self._bytes
        number = source.byte()
        if number == LOG_END:
            source.at += len(END)
            return source.content[source.at - len(END) : source.at] == END
        if number == ADJUSTMENT:
            if source.byte() > 127:
                source.at += 4
            else:
                source.signed()
        elif number in EVENTS:
            values = [source.unsigned() for _ in range(-EVENTS[number])]
            if number == 14:  # it was switched off for a while
                self._time_us = values[1]
        else:
            raise _Damage
        return False

    def _columns(self, marker: str, name: str) -> dict[str, Array]:
        """Fields of frames by their names without an index; times in ns from any zero."""
        rows, kind = self._rows[name], self._kinds.get(marker)
        if kind is None or not rows:
            return {}
        names = kind.names if "time" in kind.names else ["time", *kind.names]
        values, columns = np.array(rows, np.int64), {}
        for each in dict.fromkeys(name.partition("[")[0] for name in names):
            at = [k for k, name in enumerate(names) if name.partition("[")[0] == each]
            columns[each] = values[:, at] if "[" in names[at[0]] else values[:, at[0]]
        steps = np.diff(columns["time"] & 0xFFFFFFFF, prepend=columns["time"][:1] & 0xFFFFFFFF)
        steps = (steps + 0x80000000) % 0x100000000 - 0x80000000  # its clock has 32 bits
        columns["time"] = 1000 * ((columns["time"][0] & 0xFFFFFFFF) + np.cumsum(steps))
        return columns


def _release(header: dict[str, str]) -> tuple[int, ...]:
    """Betaflight's version; empty of another firmware."""
    found = re.match(r"Betaflight (\d+)\.(\d+)", header.get("Firmware revision", ""))
    return tuple(map(int, found.groups())) if found else ()


def _add_fixes(log: LogFile, found: Blackbox) -> None:
    """Add fixes and their velocities; heights were cm before 4.0, then dm."""
    fixes = found.gnss
    if not fixes:
        return
    stamp_ns, coordinates = fixes["time"], fixes["GPS_coord"]
    height_m = fixes["GPS_altitude"] * (0.1 if _release(found.header) >= (4, 0) else 0.01)
    is_fix = np.any(coordinates != 0, axis=1)
    log.add(
        "gps/fix", stamp_ns, status=np.where(is_fix, 0, -1), service=1,
        latitude_deg=coordinates[:, 0] * 1e-7, longitude_deg=coordinates[:, 1] * 1e-7,
        height_m=height_m.astype(float), covariance=np.zeros((3, 3)), covariance_type=0,
    )  # fmt: skip
    if "GPS_velned" in fixes:
        v_W = turned_rows(WORLD["ned"], 0.01 * fixes["GPS_velned"])
    else:
        speed, course = 0.01 * fixes["GPS_speed"], np.radians(0.1 * fixes["GPS_ground_course"])
        v_W = np.stack([speed * np.sin(course), speed * np.cos(course), 0.0 * speed], axis=1)
    v_W[~is_fix] = np.nan
    both = np.zeros((len(v_W), 6, 6))
    both[:, :3, :3] = diagonal_matrices(np.zeros((len(v_W), 3)))
    log.add("gps/vel", stamp_ns, v=v_W, covariance=both)


def _degrees(header: dict[str, str]) -> float:
    """deg/s of a unit of the gyroscope; Baseflight states rad/us, Cleanflight ``gyro.scale``."""
    text = header.get("gyro_scale", header.get("gyro.scale", "0x3f800000"))
    (scale,) = struct.unpack(">f", bytes.fromhex(text[2:].zfill(8)))
    of_baseflight = header.get("Firmware type", "") == "Baseflight"
    return float(np.degrees(scale * 1e6)) if of_baseflight else float(scale)


#: Fields of main frames that are read, and those of the control and of the log.
_READ = ("accSmooth", "eRPM", "surfaceRaw", "loopIteration", "time")
_CONTROL = re.compile("^(axis|rcCommand|setpoint|motor|servo|mc|nav|fwAlt|fwPos|debug|gyro)")


def _leave_others(log: LogFile, found: Blackbox) -> None:
    """Count the fields of frames that no topic takes; of gyroscopes the second or filtered one."""
    main, battery = found.main, _release(found.header) >= (4, 3)
    gyros = [name for name in ("gyroUnfilt", "gyroADC", "gyroData") if name in main]
    taken = (*_READ, *gyros[:1], *(("vbatLatest", "amperageLatest") if battery else ()))
    for name, column in main.items():
        if name not in taken:
            log.leave(f"control.{name}" if _CONTROL.match(name) else f"main.{name}", len(column))
    velocity = ("GPS_velned",) if "GPS_velned" in found.gnss else ("GPS_speed", "GPS_ground_course")
    for name, column in found.gnss.items():
        if name not in ("time", "GPS_coord", "GPS_altitude", *velocity):
            log.leave(f"GPS.{name}", len(column))
    log.leave("slow frames", found.slow)


def _add_main(log: LogFile, found: Blackbox) -> None:
    """Add what is in the main frames."""
    main, header = found.main, found.header
    stamp_ns = main["time"]
    fine = 10.0 if found.number("blackbox_high_resolution", 0) else 1.0
    gyro = next(
        (main[name] for name in ("gyroUnfilt", "gyroADC", "gyroData") if name in main), None
    )
    if gyro is not None:
        w_S = np.radians(gyro * (_degrees(header) / fine))
        f_S = np.full(w_S.shape, np.nan)
        unit = found.number("acc_1G", 1)
        if "accSmooth" in main and unit and main["accSmooth"].any():
            f_S = main["accSmooth"] * (GRAVITY_MPS2 / unit)
        elif "accSmooth" in main:
            log.leave("accSmooth", len(stamp_ns), "acc_1G or all of it is 0: switched off")
        log.add("imu/data_raw", stamp_ns, f=f_S, w=w_S, q_covariance=no_attitude())
    if "eRPM" in main:  # hundreds of electrical turns a minute
        turns_rps = main["eRPM"] * (100.0 / 60.0 / (found.number("motor_poles", 14) / 2.0))
        log.add_speeds("motor_speed", stamp_ns, 2.0 * np.pi * turns_rps)
    if "surfaceRaw" in main:
        seen = main["surfaceRaw"] >= 0
        log.add("range/down", stamp_ns[seen], range=0.01 * main["surfaceRaw"][seen])
    if "vbatLatest" in main and _release(header) >= (4, 3):  # hundredths; before, by the board
        drawn = {"voltage": "vbatLatest", "current": "amperageLatest"}
        figures = {ours: 0.01 * main[name][:, None] for ours, name in drawn.items() if name in main}
        add_battery(log, "battery_state", stamp_ns, figures)


def read(path: Path, columns: str) -> LogFile:
    """Read a blackbox log; of several in a file the longest.

    Raises:
        InputError: its fields make no sense, or it has no frame.
    """
    content = path.read_bytes()
    begins = [found.start() for found in re.finditer(re.escape(BEGIN), content)]
    parts = [content[a:b] for a, b in zip(begins, [*begins[1:], len(content)], strict=True)]
    try:
        found = Blackbox(max(parts, key=len))
    except (InputError, ValueError) as error:
        raise InputError(f"{path}: no blackbox log that can be read: {error}") from None
    if not found.main:
        raise InputError(f"{path}: no whole frame in this blackbox log")
    header = found.header
    log = LogFile(path, {
        "log": "Betaflight blackbox", "firmware": header.get("Firmware revision", ""),
        "craft": header.get("Craft name", ""),
    })  # fmt: skip
    if len(parts) > 1:
        log.notes.append(f"{path}: {len(parts)} logs; the longest is read")
    if found.damaged:
        log.notes.append(f"{path}: damaged at {found.damaged} places; frames there are left out")
    _add_main(log, found)
    _add_fixes(log, found)
    _leave_others(log, found)
    with suppress(ValueError):
        log.date(datetime.fromisoformat(header.get("Log start datetime", "")).timestamp())
    return log
