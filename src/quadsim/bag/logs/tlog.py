"""A ground station's telemetry log (``.tlog``), by pymavlink: MAVLink as it arrived.

Stamps are those of the arrival, ns since 1970. Fields and units by MAVLink's common.xml: SCALED_IMU
in mG and mrad/s, HIGHRES_IMU in SI, GPS_RAW_INT in degrees times 1e7, mm and cm/s. The autopilot's
own estimate is ``odometry/autopilot``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.bag.logs.log_file import LogFile, Stamps
from quadsim.bag.logs.motion import Array, add_odometry, diagonal_matrices, no_attitude, quaternions
from quadsim.base.extras import need
from quadsim.wire.axes import BODY, WORLD, attitude, turned_rows

STANDARD_GRAVITY_MPS2 = 9.80665
_XYZ = ("x", "y", "z")
_IMU = tuple(f"{a}acc" for a in _XYZ) + tuple(f"{a}gyro" for a in _XYZ)
_WANTED = {
    "HIGHRES_IMU": _IMU,
    "SCALED_IMU": _IMU,
    "SCALED_PRESSURE": ("press_abs",),
    "GPS_RAW_INT": ("fix_type", "lat", "lon", "alt", "vel", "cog", "h_acc", "v_acc"),
    "LOCAL_POSITION_NED": ("x", "y", "z", "vx", "vy", "vz"),
    "ATTITUDE": ("roll", "pitch", "yaw", "rollspeed", "pitchspeed", "yawspeed"),
}
_3D = 3
#: Of course and accuracy: not known.
_UNKNOWN_COURSE = 65535
Table = tuple[Stamps, Array]

#: A stamp of 8 bytes and a message of MAVLink 1 without payload.
SHORTEST = 16
#: What lies beyond is no stamp: ns would not fit into 64 bits.
LAST_US = (2**63 - 1) // 1000


def _messages(path: Path, notes: list[str]) -> Iterator[tuple[int, Any]]:
    """Arrival in us and message, one after the other; what cannot be read is left out."""
    ardupilotmega = need("pymavlink.dialects.v20.ardupilotmega", path)
    parser, content, at, damaged = ardupilotmega.MAVLink(None), path.read_bytes(), 0, 0
    heads = {0xFE: 8, 0xFD: 12}  # bytes around a payload, MAVLink 1 and 2
    while at + SHORTEST <= len(content):
        size = heads.get(content[at + 8])
        if size is None:
            at, damaged = at + 1, damaged + 1
            continue
        signed = 13 if size == heads[0xFD] and content[at + 10] & 1 else 0
        end = at + 8 + size + content[at + 9] + signed
        try:
            message = parser.decode(bytearray(content[at + 8 : end]))
        except (ardupilotmega.MAVError, struct.error, IndexError):
            at, damaged = at + 1, damaged + 1
            continue
        (stamp_us,) = struct.unpack_from(">Q", content, at)
        if stamp_us > LAST_US:
            at, damaged = at + 1, damaged + 1
            continue
        yield int(stamp_us), message
        at = end
    if damaged:
        notes.append(f"{path}: {damaged} bytes are no message that is known: left out")


def read(path: Path, columns: str) -> LogFile:
    """Read a telemetry log; of several autopilots the one that is heard first.

    Raises:
        InputError: pymavlink is not installed.
    """
    log, system = LogFile(path, {"log": "MAVLink telemetry"}), 0
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in _WANTED}
    stamps: dict[str, list[int]] = {name: [] for name in _WANTED}
    for stamp_us, message in _messages(path, log.notes):
        name = message.get_type()
        if name not in _WANTED:
            continue
        system = system or message.get_srcSystem()
        if message.get_srcSystem() == system:
            stamps[name].append(stamp_us * 1000)
            rows[name].append(tuple(getattr(message, each) for each in _WANTED[name]))
    tables: dict[str, Table] = {
        name: (np.array(stamps[name], np.int64), np.array(found, float))
        for name, found in rows.items()
        if found
    }
    _add(log, tables)
    return log


def _add(log: LogFile, tables: dict[str, Table]) -> None:
    for name, f_unit, w_unit in (
        ("HIGHRES_IMU", 1.0, 1.0),
        ("SCALED_IMU", 1e-3 * STANDARD_GRAVITY_MPS2, 1e-3),
    ):
        if name in tables:
            stamp_ns, imu = tables[name]
            f_S, w_S = (turned_rows(BODY["frd"], imu[:, k : k + 3]) for k in (0, 3))
            covariance = no_attitude()
            log.add(
                "imu/data_raw", stamp_ns, f=f_unit * f_S, w=w_unit * w_S, q_covariance=covariance
            )
            break
    if "SCALED_PRESSURE" in tables:
        stamp_ns, pressure = tables["SCALED_PRESSURE"]
        log.add("imu/static_pressure", stamp_ns, pressure=100.0 * pressure[:, 0])
    if "GPS_RAW_INT" in tables:
        _add_fixes(log, *tables["GPS_RAW_INT"])
    if "LOCAL_POSITION_NED" in tables and "ATTITUDE" in tables:
        place_ns, place = tables["LOCAL_POSITION_NED"]
        turn_ns, turn = tables["ATTITUDE"]
        p_W, v_W = (turned_rows(WORLD["ned"], place[:, k : k + 3]) for k in (0, 3))
        q_WB = attitude("ned", "frd", quaternions(turn[:, :3]))
        rate = (turn_ns, turned_rows(BODY["frd"], turn[:, 3:6]))
        add_odometry(log, "odometry/autopilot", (turn_ns, q_WB), (place_ns, p_W, v_W), rate)


def _add_fixes(log: LogFile, stamp_ns: Stamps, gps: Array) -> None:
    """Add fixes, and their level velocity; MAVLink 1 has no accuracy."""
    fixed, sigma = gps[:, 0] >= _3D, 1e-3 * gps[:, [6, 6, 7]]
    log.add(
        "gps/fix", stamp_ns, status=np.where(fixed, 0, -1), service=1,
        latitude_deg=1e-7 * gps[:, 1], longitude_deg=1e-7 * gps[:, 2], height_m=1e-3 * gps[:, 3],
        covariance=diagonal_matrices(sigma), covariance_type=np.where(sigma[:, 0] > 0.0, 2, 0),
    )  # fmt: skip
    speed, course = 1e-2 * gps[:, 4], np.radians(1e-2 * gps[:, 5])
    v_W = np.stack([speed * np.sin(course), speed * np.cos(course), np.zeros(len(gps))], axis=1)
    v_W[~fixed | (gps[:, 5] == _UNKNOWN_COURSE)] = np.nan
    covariance = np.zeros((len(gps), 6, 6))
    covariance[:, 2, 2] = 1e6  # the vertical velocity is not sent
    log.add("gps/vel", stamp_ns, v=v_W, covariance=covariance)
