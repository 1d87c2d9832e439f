"""ArduPilot's DataFlash log, by pymavlink: sensors, EKF3's estimate, and the truth of SITL.

Messages and units by the log's own formats (ArduPilot, "Onboard Message Log Messages"): IMU in FRD,
rad/s and m/s^2; MAG in milligauss; BARO in Pa; GPS in degrees, m, m/s; XKF1, the first core's, in
NED, m and degrees (NKF1 of EKF2, EKF1 before). The estimate is ``odometry/ardupilot``.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.bag.logs.log_file import LogFile, Stamps
from quadsim.bag.logs.motion import Array, add_odometry, diagonal_matrices, no_attitude, quaternions
from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.geometry.geodesy import Datum
from quadsim.wire.axes import BODY, WORLD, attitude, turned_rows

MILLIGAUSS_T = 1e-7
#: First bytes of a binary and of a text log: the format of formats.
_BINARY, _TEXT = b"\xa3\x95\x80", b"FMT"
#: Message to its columns; of several devices or cores the first.
_WANTED = {
    "IMU": ("GyrX", "GyrY", "GyrZ", "AccX", "AccY", "AccZ"),
    "MAG": ("MagX", "MagY", "MagZ"),
    "BARO": ("Press",),
    "GPS": ("Status", "Lat", "Lng", "Alt", "Spd", "GCrs", "VZ"),
    "GPA": ("HAcc", "VAcc", "SAcc"),
    "RFND": ("Dist",),
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
_3D = 3
#: Columns of a message's time and their unit in us; before 3.3 (2015) ms, of a fix T beside that of
#: the week. What has no time is left out.
_CLOCKS = {"TimeUS": 1, "T": 1000, "TimeMS": 1000}
Table = tuple[Stamps, Array]


#: Why a range is not one to the ground (AP_RangeFinder: ROTATION_PITCH_270 looks down; status 4 is
#: good).
_UNUSED_RANGES = ("that do not look down", "without data")
_PITCH_270, _GOOD_RANGE = 25, 4


def _looks_down(message: Any, known: Collection[str], unused: dict[str, int]) -> bool:
    """Whether a range is one to the ground; else it is counted."""
    if "Orient" in known and message.Orient != _PITCH_270:
        unused[_UNUSED_RANGES[0]] += 1
        return False
    if "Stat" in known and message.Stat != _GOOD_RANGE:
        unused[_UNUSED_RANGES[1]] += 1
        return False
    return True


def _gathered(path: Path, log: LogFile) -> dict[str, Table]:
    """Stamps and columns of what is wanted."""
    readers = need("pymavlink.DFReader", path)
    rows: dict[str, list[Sequence[float]]] = {name: [] for name in _WANTED}
    with path.open("rb") as file:
        head = file.read(len(_BINARY))
    if head not in (_BINARY, _TEXT):
        raise InputError(f"{path}: no DataFlash log: it does not begin with a format")
    reader, unused = None, dict.fromkeys(_UNUSED_RANGES, 0)
    try:
        kind = readers.DFReader_binary if head == _BINARY else readers.DFReader_text
        reader = kind(str(path), zero_time_base=True)
        while (message := reader.recv_match(type=[*_WANTED, "MSG"])) is not None:
            name = message.get_type()
            if name == "MSG":
                log.custom.setdefault("firmware", str(message.Message))
                continue
            known = message.get_fieldnames()
            if any(getattr(message, which) != 0 for which in _WHICH if which in known):
                continue
            if name == "RFND" and not _looks_down(message, known, unused):
                continue
            wanted, clock = _WANTED[name], next((each for each in _CLOCKS if each in known), None)
            if clock is not None and set(wanted) <= set(known):
                stamp_us = getattr(message, clock) * _CLOCKS[clock]
                rows[name].append((stamp_us, *(getattr(message, each) for each in wanted)))
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, struct.error) as error:
        if not any(rows.values()):
            raise InputError(f"{path}: no DataFlash log that can be read ({error})") from None
        log.notes.append(f"{path}: damaged: read as far as it goes ({error})")
    finally:
        if reader is not None:
            reader.close()
    log.notes.extend(f"RFND: {n} ranges {why}: left out" for why, n in unused.items() if n)
    tables = {}
    for name, found in rows.items():
        if found:
            values = np.array(found, float)
            values = values[np.argsort(values[:, 0], kind="stable")]
            tables[name] = (np.rint(values[:, 0] * 1e3).astype(np.int64), values[:, 1:])
    return tables


def _add_fixes(log: LogFile, tables: dict[str, Table]) -> None:
    """Add fixes and their velocities, with the accuracies where they are logged."""
    if "GPS" not in tables:
        return
    stamp_ns, gps = tables["GPS"]
    status, place = gps[:, 0], gps[:, 1:4]
    speed, course = gps[:, 4], np.radians(gps[:, 5])
    v_W = np.stack([speed * np.sin(course), speed * np.cos(course), -gps[:, 6]], axis=1)
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
