"""ArduPilot's DataFlash log, by pymavlink: sensors, EKF3's estimate, and the truth of SITL.

Messages and units by the log's own formats (ArduPilot, "Onboard Message Log Messages"): IMU in FRD,
rad/s and m/s^2; MAG in milligauss; BARO in Pa; GPS in degrees, m, m/s; OF in rad/s; XKF1, the first
core's, in NED, m and degrees (NKF1 of EKF2, EKF1 before). The estimate is ``odometry/ardupilot``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.bag.logs.log_file import LogFile, Stamps
from quadsim.bag.logs.motion import (
    UNSENT_VARIANCE,
    Array,
    add_flow,
    add_odometry,
    diagonal_matrices,
    no_attitude,
    quaternions,
    steps_s,
)
from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.geometry.geodesy import Datum
from quadsim.wire.axes import BODY, WORLD, attitude, turned_rows

MILLIGAUSS_T = 1e-7
#: First bytes of a binary log, and a line near the beginning of a text log: the format of formats.
_BINARY, _TEXT = b"\xa3\x95\x80", b"FMT, 128,"
#: Message to its columns; of several devices or cores the first.
_WANTED = {
    "IMU": ("GyrX", "GyrY", "GyrZ", "AccX", "AccY", "AccZ"),
    "MAG": ("MagX", "MagY", "MagZ"),
    "BARO": ("Press",),
    "GPS": ("Status", "Lat", "Lng", "Alt", "Spd", "GCrs", "VZ"),
    "GPA": ("HAcc", "VAcc", "SAcc"),
    "RFND": ("Dist", "Orient", "Stat"),
    "OF": ("Qual", "flowX", "flowY", "bodyX", "bodyY"),
    **dict.fromkeys(
        ("XKF1", "NKF1", "EKF1"), ("PN", "PE", "PD", "VN", "VE", "VD", "Roll", "Pitch", "Yaw")
    ),
    "XKQ": ("Q1", "Q2", "Q3", "Q4"),
    "SIM": ("Q1", "Q2", "Q3", "Q4"),
    "SIM2": ("PN", "PE", "PD", "VN", "VE", "VD"),
    "ORGN": ("Lat", "Lng", "Alt"),
}
#: Names of a message's device or core, which the first has as 0.
_WHICH = ("I", "C", "Instance")
#: AP_RangeFinder: ROTATION_PITCH_270 looks down; status 4 is good.
_3D, _PITCH_270, _GOOD_RANGE = 3, 25, 4
#: What a message need not say, and what that means: no vertical velocity before 3.1 (2013), no
#: orientation of a range finder before 3.5 (2017), which looked down, no status before 3.6.
_OPTIONAL = {("GPS", "VZ"): np.nan, ("RFND", "Orient"): _PITCH_270, ("RFND", "Stat"): _GOOD_RANGE}
#: Columns of a message's time and their unit in us; before 3.3 (2015) ms; a fix had T, with the
#: time of the week, or Time before 3.1. What has no time is left out.
_CLOCKS = {"TimeUS": 1, "T": 1000, "TimeMS": 1000, "Time": 1000}
#: Measurements in messages of the control.
_BESIDE = ("SonAlt", "SAlt", "BarAlt", "BAlt")
#: Of the log, not of the flight.
_BOOKS = ("FMT", "FMTU", "UNIT", "MULT", "PARM", "MSG", "VER", "MAVC", "ISBD")
#: Names of a fix's week, before 3.3 the second.
_WEEKS = ("GWk", "Week")
#: Seconds of the GPS's zero, 1980-01-06, since 1970, and of a week.
_GPS_ZERO_S, _WEEK_S = 315_964_800, 604_800
Table = tuple[Stamps, Array]


class _Formats(dict[int, Any]):
    """Formats of messages with a head; pymavlink's index of shorter ones would never end."""

    def __setitem__(self, number: int, value: Any) -> None:
        if value.len >= len(_BINARY):
            super().__setitem__(number, value)


class _Gathering:
    """Rows of what is wanted, and what of the log is not."""

    def __init__(self, log: LogFile) -> None:
        self.log = log
        self.rows: dict[str, list[Sequence[float]]] = {name: [] for name in _WANTED}
        self.fields: dict[str, tuple[str, ...]] = {}

    def take(self, message: Any) -> None:
        """Take a message, or count why not."""
        name, known = message.get_type(), message.get_fieldnames()
        if name == "MSG":
            self.log.custom.setdefault("firmware", str(message.Message))
            return
        if name not in _WANTED:
            return
        which = next((getattr(message, each) for each in _WHICH if each in known), 0)
        if which:
            self.log.leave(f"{name}[{which}]", 1)
            return
        if name == "RFND" and "Dist1" in known:  # two in one message before 4.0
            ours = {each: f"{each}1" for each in _WANTED[name]}
            self.log.leave("RFND.Dist2", int("Dist2" in known))
        else:
            ours = {each: each for each in _WANTED[name]}
        there = {each for each, column in ours.items() if column in known}
        clock = next((each for each in _CLOCKS if each in known), None)
        absent = {each for each in ours.keys() - there if (name, each) not in _OPTIONAL}
        if clock is None or absent:
            why = "without a time" if clock is None else f"without {', '.join(sorted(absent))}"
            self.log.leave(name, 1, why)
            return
        try:
            stamp_us = getattr(message, clock) * _CLOCKS[clock]
            row = [
                float(getattr(message, ours[each]) if each in there else _OPTIONAL[name, each])
                for each in _WANTED[name]
            ]
        except (TypeError, ValueError):
            self.log.leave(name, 1, "damaged")
            return
        if name == "RFND" and row[1] != _PITCH_270:
            self.log.leave(name, 1, "does not look down")
        elif name == "RFND" and row[2] != _GOOD_RANGE:
            self.log.leave(name, 1, "without data")
        else:
            self.rows[name].append((stamp_us, *row))
            self.fields.setdefault(name, (*ours.values(), *_CLOCKS, *_WHICH, *_WEEKS, "GMS"))
        if name == "GPS" and row[0] >= _3D:
            self._date(message, known)

    def _date(self, message: Any, known: Collection[str]) -> None:
        """Take the date of a fix, by its week."""
        week = next((getattr(message, each) for each in _WEEKS if each in known), 0)
        ms = next((getattr(message, each) for each in ("GMS", "TimeMS") if each in known), 0)
        if week:
            self.log.date(_GPS_ZERO_S + week * _WEEK_S + 1e-3 * ms)

    def leave_others(self, reader: Any) -> None:
        """Count the messages that nobody wanted, and the fields of those that were."""
        formats = {each.name: each for each in reader.formats.values()}
        for name, each in formats.items():
            key = each.type if isinstance(reader.counts, list) else name
            count = (
                reader.counts.get(key, 0) if isinstance(reader.counts, dict) else reader.counts[key]
            )
            if name not in _WANTED and name not in _BOOKS:
                measured = [f"{name}.{field}" for field in each.columns if field in _BESIDE]
                for key in measured or [name]:
                    self.log.leave(key, count)
            for field in each.columns if name in self.fields else ():
                if field not in self.fields[name]:
                    self.log.leave(f"{name}.{field}", len(self.rows[name]))

    def tables(self) -> dict[str, Table]:
        """Stamps and columns of each message, in order."""
        tables = {}
        for name, found in self.rows.items():
            if found:
                values = np.array(found, float)
                values = values[np.argsort(values[:, 0], kind="stable")]
                tables[name] = (np.rint(values[:, 0] * 1e3).astype(np.int64), values[:, 1:])
        return tables


def _gathered(path: Path, log: LogFile) -> dict[str, Table]:
    """Stamps and columns of what is wanted."""
    readers = need("pymavlink.DFReader", path)
    gathering = _Gathering(log)
    with path.open("rb") as file:
        head = file.read(4096)
    if not head.startswith(_BINARY) and _TEXT not in head:
        raise InputError(f"{path}: no DataFlash log: it does not begin with a format")
    reader, output = None, StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            binary = head.startswith(_BINARY)
            kind = readers.DFReader_binary if binary else readers.DFReader_text
            # the messages' own times are taken: those that pymavlink makes need weeks and dates;
            # its index in C complains to the terminal itself

            def index(self: Any, **_: Any) -> None:
                self.formats = _Formats(self.formats)
                kind.init_arrays(self)

            instead = {"init_clock": lambda self: None, "init_arrays_fast": index}
            reader = type("Reader", (kind,), instead)(str(path))
            while (message := reader.recv_match(type=[*_WANTED, "MSG"])) is not None:
                gathering.take(message)
        except (ValueError, TypeError, LookupError, AttributeError, struct.error) as error:
            if not any(gathering.rows.values()):
                raise InputError(f"{path}: no DataFlash log that can be read ({error})") from None
            log.notes.append(f"{path}: damaged: read as far as it goes ({error})")
        finally:
            if reader is not None:
                gathering.leave_others(reader)
                reader.close()
    if lines := output.getvalue().count("\n"):
        log.notes.append(f"{path}: {lines} places that are no message: left out")
    return gathering.tables()


def _add_fixes(log: LogFile, tables: dict[str, Table]) -> None:
    """Add fixes and their velocities, with the accuracies where they are logged."""
    if "GPS" not in tables:
        return
    stamp_ns, gps = tables["GPS"]
    status, place = gps[:, 0], gps[:, 1:4]
    speed, course = gps[:, 4], np.radians(gps[:, 5])
    unknown = np.isnan(gps[:, 6])
    v_W = np.stack([speed * np.sin(course), speed * np.cos(course), -gps[:, 6]], axis=1)
    v_W[unknown, 2] = 0.0
    sigma = np.zeros((len(gps), 3))
    if "GPA" in tables:
        rows = np.searchsorted(tables["GPA"][0], stamp_ns).clip(0, len(tables["GPA"][0]) - 1)
        sigma = tables["GPA"][1][rows]
    fixed = status >= _3D
    covariance = diagonal_matrices(sigma[:, [0, 0, 1]])
    log.add(
        "gps/fix", stamp_ns, status=np.where(fixed, 0, -1), service=1, latitude_deg=place[:, 0],
        longitude_deg=place[:, 1], height_m=place[:, 2], covariance=covariance,
        covariance_type=np.where(sigma[:, 0] > 0.0, 2, 0),
    )  # fmt: skip
    both = np.zeros((len(gps), 6, 6))
    both[:, :3, :3] = diagonal_matrices(sigma[:, [2, 2, 2]])
    both[unknown, 2, 2] = UNSENT_VARIANCE
    v_W[~fixed] = np.nan
    log.add("gps/vel", stamp_ns, v=v_W, covariance=both)


def _add_motion(log: LogFile, ours: str, place: Table, turn: Table) -> None:
    """Add an odometry of north, east, down and their rates, and quaternions FRD to NED."""
    stamp_ns, values = place
    p_W, v_W = (turned_rows(WORLD["ned"], values[:, k : k + 3]) for k in (0, 3))
    q_WB = attitude("ned", "frd", turn[1])
    add_odometry(log, ours, (turn[0], q_WB), (stamp_ns, p_W, v_W))


def read(path: Path, columns: str) -> LogFile:
    """Read a DataFlash log, binary (``.bin``) or text (``.log``).

    Raises:
        InputError: pymavlink is not installed, or this is no such log.
    """
    log = LogFile(path, {"log": "ArduPilot DataFlash"})
    tables = _gathered(path, log)
    if "IMU" in tables:
        stamp_ns, imu = tables["IMU"]
        w_S, f_S = (turned_rows(BODY["frd"], imu[:, k : k + 3]) for k in (0, 3))
        covariance = no_attitude()
        log.add("imu/data_raw", stamp_ns, f=f_S, w=w_S, q_covariance=covariance)
    if "MAG" in tables:
        stamp_ns, field = tables["MAG"]
        log.add("imu/mag", stamp_ns, m=MILLIGAUSS_T * turned_rows(BODY["frd"], field))
    if "BARO" in tables:
        log.add("imu/static_pressure", tables["BARO"][0], pressure=tables["BARO"][1][:, 0])
    if "OF" in tables:
        stamp_ns, flow = tables["OF"]
        level = np.zeros((len(flow), 1))
        rates = (np.hstack([flow[:, k : k + 2], level]) for k in (1, 3))
        add_flow(log, stamp_ns, flow[:, 0], steps_s(stamp_ns), *rates)
    if "RFND" in tables:
        log.add("range/down", tables["RFND"][0], range=tables["RFND"][1][:, 0])
    _add_fixes(log, tables)
    filters = [tables[name] for name in ("XKF1", "NKF1", "EKF1") if name in tables]  # EKF3, 2, 1
    if filters:
        stamp_ns, ekf = filters[0]
        turn = tables.get("XKQ", (stamp_ns, quaternions(np.radians(ekf[:, 6:9]))))
        _add_motion(log, "odometry/ardupilot", (stamp_ns, ekf), turn)
    if "SIM2" in tables and "SIM" in tables:
        _add_motion(log, "ground_truth/odom", tables["SIM2"], tables["SIM"])
    if "ORGN" in tables:
        stamp_ns, origin = tables["ORGN"]
        datum = Datum(*origin[0].tolist())
        log.add(
            "/datum", stamp_ns[:1], latitude_deg=datum.latitude_deg,
            longitude_deg=datum.longitude_deg, height_m=datum.height_m,
        )  # fmt: skip
    return log
