"""A ground station's telemetry log (``.tlog``), by pymavlink: MAVLink as it arrived.

Stamps are those of the arrival, ns since 1970. Fields and units by MAVLink's common.xml: SCALED_IMU
in mG, mrad/s and mgauss, HIGHRES_IMU in SI, gauss and hPa, GPS_RAW_INT in degrees times 1e7, mm and
cm/s. RAW_IMU's units are whatever the autopilot has: ArduPilot's are those of SCALED_IMU
(GCS_MAVLINK::send_raw_imu). PX4 sends HIGHRES_IMU's pressure in Pa up to 1.14. The autopilot's own
estimate is ``odometry/autopilot``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
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
from quadsim.base.extras import need
from quadsim.wire.axes import BODY, WORLD, attitude, turned_rows

STANDARD_GRAVITY_MPS2 = 9.80665
_XYZ = ("x", "y", "z")
_IMU = tuple(f"{axis}{kind}" for kind in ("acc", "gyro", "mag") for axis in _XYZ)
_WANTED = {
    "HIGHRES_IMU": (*_IMU, "abs_pressure", "fields_updated"),
    "SCALED_IMU": _IMU,
    "RAW_IMU": _IMU,
    "OPTICAL_FLOW_RAD": (
        "quality",
        "integration_time_us",
        "integrated_x",
        "integrated_y",
        "integrated_xgyro",
        "integrated_ygyro",
        "integrated_zgyro",
    ),
    "OPTICAL_FLOW": ("quality", "flow_rate_x", "flow_rate_y"),
    "DISTANCE_SENSOR": ("current_distance", "min_distance", "max_distance", "orientation"),
    "RANGEFINDER": ("distance",),
    "SCALED_PRESSURE": ("press_abs",),
    "GPS_RAW_INT": ("fix_type", "lat", "lon", "alt", "vel", "cog", "h_acc", "v_acc"),
    "LOCAL_POSITION_NED": ("x", "y", "z", "vx", "vy", "vz"),
    "ATTITUDE": ("roll", "pitch", "yaw", "rollspeed", "pitchspeed", "yawspeed"),
}
#: The first of these that is there is the IMU: units of force, rate and field.
_SCALED = (1e-3 * STANDARD_GRAVITY_MPS2, 1e-3, 1e-7)
_IMUS = {"HIGHRES_IMU": (1.0, 1.0, 1e-4), "SCALED_IMU": _SCALED, "RAW_IMU": _SCALED}
#: HIGHRES_IMU's fields_updated: bits of its field and its pressure.
_MAG_UPDATED, _PRESSURE_UPDATED = 0b111 << 6, 1 << 9
#: A HIGHRES_IMU's pressure above it is in Pa, hPa: 10 hPa is 30 km up, 1200 hPa below every ground.
_HIGHEST_HPA = 1200.0
#: MAV_AUTOPILOT_ARDUPILOTMEGA, MAV_AUTOPILOT_INVALID; MAV_SENSOR_ROTATION_PITCH_270.
_ARDUPILOT, _NO_AUTOPILOT, _PITCH_270 = 3, 8, 25
#: Messages that neither measure nor come from a vehicle's devices.
_BOOKS = ("HEARTBEAT", "PARAM_VALUE", "STATUSTEXT", "BAD_DATA")
_ABOUT = ("time_usec", "time_boot_ms", "id", "sensor_id")
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
    log, system, autopilot = LogFile(path, {"log": "MAVLink telemetry"}), 0, _NO_AUTOPILOT
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in _WANTED}
    stamps: dict[str, list[int]] = {name: [] for name in _WANTED}
    others: dict[tuple[int, str], int] = {}
    fields: dict[str, list[str]] = {}
    for stamp_us, message in _messages(path, log.notes):
        name, source = message.get_type(), message.get_srcSystem()
        if name == "HEARTBEAT" and source == (system or source):
            autopilot = autopilot if message.autopilot == _NO_AUTOPILOT else message.autopilot
        system = system or (source if name in _WANTED else 0)
        known = message.get_fieldnames()
        first = "id" not in known or message.id == 0
        if name in _WANTED and source == system and first:
            stamps[name].append(stamp_us * 1000)
            rows[name].append(tuple(getattr(message, each) for each in _WANTED[name]))
            fields[name] = known
        elif name not in _BOOKS:
            others[source, name] = others.get((source, name), 0) + 1
    tables: dict[str, Table] = {
        name: (np.array(stamps[name], np.int64), np.array(found, float))
        for name, found in rows.items()
        if found
    }
    _leave(log, tables, fields, autopilot)
    for (source, name), count in others.items():
        log.leave(name if source == system else f"{name} from system {source}", count)
    _add(log, tables)
    return log


def _leave(
    log: LogFile, tables: dict[str, Table], fields: dict[str, list[str]], autopilot: int
) -> None:
    """Take from the tables those that tell nothing or the same again, and count them."""
    if "RAW_IMU" in tables and autopilot != _ARDUPILOT:
        log.leave("RAW_IMU", len(tables.pop("RAW_IMU")[0]), "units only this autopilot knows")
    for name in [each for each in _IMUS if each in tables][1:]:
        log.leave(name, len(tables.pop(name)[0]))
    if "DISTANCE_SENSOR" in tables:
        stamp_ns, ranges = tables["DISTANCE_SENSOR"]
        down = ranges[:, 3] == _PITCH_270
        log.leave("DISTANCE_SENSOR", int((~down).sum()), "does not look down")
        tables["DISTANCE_SENSOR"] = (stamp_ns[down], ranges[down])
        if down.any() and "RANGEFINDER" in tables:
            log.leave("RANGEFINDER", len(tables.pop("RANGEFINDER")[0]))
    if "OPTICAL_FLOW" in tables:
        stamp_ns, flow = tables["OPTICAL_FLOW"]
        rated, count = flow[:, 1:].any(), len(flow)
        why = "" if rated else "without rates: pixels of a lens that nobody knows"
        if not rated or "OPTICAL_FLOW_RAD" in tables:
            tables.pop("OPTICAL_FLOW")
            log.leave("OPTICAL_FLOW", count, why)
    for name, (stamp_ns, _) in tables.items():
        for field in fields[name]:
            if field not in _WANTED[name] and field not in _ABOUT:
                log.leave(f"{name}.{field}", len(stamp_ns))


def _add(log: LogFile, tables: dict[str, Table]) -> None:
    name = next((each for each in _IMUS if each in tables), "")
    if name:
        stamp_ns, imu = tables[name]
        f_S, w_S, m_S = (
            unit * turned_rows(BODY["frd"], imu[:, k : k + 3])
            for unit, k in zip(_IMUS[name], (0, 3, 6), strict=True)
        )
        log.add("imu/data_raw", stamp_ns, f=f_S, w=w_S, q_covariance=no_attitude())
        new = m_S.any(axis=1)  # who has no magnetometer sends zeros
        if name == "HIGHRES_IMU":
            updated = imu[:, 10].astype(int)
            new &= (updated == 0) | (updated & _MAG_UPDATED != 0)
            heard = (imu[:, 9] > 0.0) & ((updated == 0) | (updated & _PRESSURE_UPDATED != 0))
            if "SCALED_PRESSURE" not in tables:
                unit = np.where(imu[heard, 9] > _HIGHEST_HPA, 1.0, 100.0)
                log.add("imu/static_pressure", stamp_ns[heard], pressure=unit * imu[heard, 9])
        log.add("imu/mag", stamp_ns[new], m=m_S[new])
    if "DISTANCE_SENSOR" in tables:
        stamp_ns, ranges = tables["DISTANCE_SENSOR"]
        metres, least, most = (1e-2 * ranges[:, k] for k in range(3))
        log.add("range/down", stamp_ns, range=metres, min_range=least, max_range=most)
    if "OPTICAL_FLOW_RAD" in tables:
        stamp_ns, flow = tables["OPTICAL_FLOW_RAD"]
        interval_s, level = 1e-6 * flow[:, 1:2], np.zeros((len(flow), 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            angles = np.hstack([flow[:, 2:4], level]) / interval_s
            add_flow(log, stamp_ns, flow[:, 0], interval_s[:, 0], angles, flow[:, 4:7] / interval_s)
    elif "OPTICAL_FLOW" in tables:
        stamp_ns, flow = tables["OPTICAL_FLOW"]
        rates = np.hstack([flow[:, 1:3], np.zeros((len(flow), 1))])
        unknown = np.full((len(flow), 3), np.nan)
        add_flow(log, stamp_ns, flow[:, 0], steps_s(stamp_ns), rates, unknown)
    if "RANGEFINDER" in tables:
        log.add("range/down", tables["RANGEFINDER"][0], range=tables["RANGEFINDER"][1][:, 0])
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
    covariance[:, 2, 2] = UNSENT_VARIANCE
    log.add("gps/vel", stamp_ns, v=v_W, covariance=covariance)
