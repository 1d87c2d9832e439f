"""PX4's ULog, by pyulog: sensors, truth of a simulation, and the estimate of its EKF2.

Fields and units are those of px4_msgs (:mod:`quadsim.wire.px4`), which are PX4's own. The estimate
is ``odometry/px4``, so that it is scored like ours.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from contextlib import redirect_stdout
from io import BufferedReader, FileIO, StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.log_file import NOISE, LogFile
from quadsim.bag.logs.motion import add_odometry
from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.wire import px4
from quadsim.wire.axes import BODY, WORLD, attitude, turned_rows

Rows = NDArray[Any]
#: Our topic, the log's topics that give it (the first that fits), and the way. Fields of
#: sensor_combined other than the IMU's are of releases before 1.8.
_SENSORS: tuple[tuple[str, tuple[tuple[str, Callable[[Any], Any]], ...]], ...] = (
    ("imu/data_raw", (("sensor_combined", px4.imu),)),
    ("imu/mag", (("vehicle_magnetometer", px4.magnetic_field),
                 ("sensor_combined", px4.magnetic_field))),
    ("imu/static_pressure", (("vehicle_air_data", px4.pressure),
                             ("sensor_baro", px4.device_pressure),
                             ("sensor_combined", px4.pressure_of_height))),
    ("gps/fix", (("vehicle_gps_position", px4.fix), ("sensor_gps", px4.fix))),
    ("gps/vel", (("vehicle_gps_position", px4.gnss_velocity), ("sensor_gps", px4.gnss_velocity))),
    ("range/down", (("distance_sensor", px4.distance),)),
    ("flow/down", (("vehicle_optical_flow", px4.optical_flow),
                   ("sensor_optical_flow", px4.optical_flow),
                   ("optical_flow", px4.optical_flow))),
)  # fmt: skip
_MEASURING = {name for _, ways in _SENSORS for name, _ in ways}
#: Fields that are no measurements.
_ABOUT = re.compile(
    "^timestamp|_id$|_count$|_timestamp|_dt$|indicator|_state$|^time_utc|^vel_ned_valid|rtcm"
)
#: What of sensor_combined has a time of its own: topic to that time's name.
_OWN_TIMES = {"imu/mag": "magnetometer_timestamp", "imu/static_pressure": "baro_timestamp"}
#: EKF2's period of prediction where the log does not say, us; pressure of a metre of height, Pa.
PREDICT_US, METRE_PA = 10_000.0, 12.0
#: Our parameter to the one of EKF2 (its params_*.yaml), and what that is times; for a process PX4
#: gives the noise of a step, we its density.
_STEP, _LEVEL = (0.0,), (1.0, 1.0, 1.5)
_NOISE: dict[str, tuple[str, tuple[float, ...]]] = {
    "noise.accel_density": ("EKF2_ACC_NOISE", _STEP),
    "noise.gyro_density": ("EKF2_GYR_NOISE", _STEP),
    "noise.accel_bias_walk": ("EKF2_ACC_B_NOISE", _STEP),
    "noise.gyro_bias_walk": ("EKF2_GYR_B_NOISE", _STEP),
    "noise.heading_sigma_rad": ("EKF2_HEAD_NOISE", (1.0,)),
    "noise.gnss_position_sigma_m": ("EKF2_GPS_P_NOISE", _LEVEL),
    "noise.gnss_velocity_sigma_mps": ("EKF2_GPS_V_NOISE", _LEVEL),
    "noise.pressure_sigma_pa": ("EKF2_BARO_NOISE", (METRE_PA,)),
    "noise.range_sigma_m": ("EKF2_RNG_NOISE", (1.0,)),
}
_OPTIONAL = {"accelerometer_timestamp_relative": 0, "vel_ned_valid": True}


def rows_of(data: dict[str, NDArray[Any]]) -> Rows:
    """A topic's columns as structured rows; ``q[0]``, ``q[1]``, ... become one field."""
    parts: dict[str, list[NDArray[Any]]] = {}
    for name, column in data.items():
        parts.setdefault(name.partition("[")[0], []).append(column)
    length = len(data["timestamp"])
    types: list[tuple[Any, ...]] = [
        (name, columns[0].dtype, (len(columns),)) if f"{name}[0]" in data
        else (name, columns[0].dtype)
        for name, columns in parts.items()
    ]  # fmt: skip
    types += [(name, type(value)) for name, value in _OPTIONAL.items() if name not in parts]
    rows = np.zeros(length, types)
    for name, columns in parts.items():
        rows[name] = np.stack(columns, axis=1) if f"{name}[0]" in data else columns[0]
    for name, value in _OPTIONAL.items():
        if name not in parts:
            rows[name] = value
    order = np.argsort(rows["timestamp"], kind="stable")
    return np.asarray(rows[order])


class _Bounded(BufferedReader):
    """A file that ends when far more was read than it holds: pyulog turns in circles in damage."""

    def __init__(self, path: Path) -> None:
        super().__init__(FileIO(path))
        self._left = 20 * path.stat().st_size + (1 << 20)

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or none."""
        data = super().read(size) if self._left > 0 else b""
        self._left -= len(data) + 1
        return data


class _Topic:
    """Rows of one topic, and which of their fields are read."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.dtype, self.used = rows, rows.dtype, {"timestamp"}

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> NDArray[Any]:
        self.used.add(name)
        return np.asarray(self.rows[name])


def _add_sensors(log: LogFile, topics: dict[str, _Topic]) -> None:
    for ours, ways in _SENSORS:
        for name, convert in ways:
            rows = topics.get(name)
            if rows is None or not len(rows):
                continue
            try:
                stamp_ns, fields = px4.stamps(cast(Rows, rows)), convert(rows)
            except (ValueError, KeyError) as error:
                if name != "sensor_combined" or ours == "imu/data_raw":
                    log.leave(name, len(rows), f"{error}: of a release that is not known")
                continue
            if isinstance(fields, tuple):
                fields, down = fields
                log.leave(name, int((~down).sum()), "does not look down")
                stamp_ns, fields = stamp_ns[down], {k: v[down] for k, v in fields.items()}
            elif name == "sensor_combined" and ours in _OWN_TIMES:
                stamp_ns, fresh = px4.device_stamps(cast(Rows, rows), _OWN_TIMES[ours])
                fields = {k: v[fresh] for k, v in fields.items()}
            if convert is px4.pressure_of_height:
                log.notes.append(f"{ours}: of {name}'s height, by the standard atmosphere")
            log.add(ours, stamp_ns, **fields)
            break


def _add_motion(log: LogFile, topics: dict[str, _Topic], ours: str, suffix: str) -> None:
    """Add the odometry of a local position and an attitude, where both are valid."""
    place = topics.get(f"vehicle_local_position{suffix}")
    turn = topics.get(f"vehicle_attitude{suffix}")
    if place is None or turn is None or not len(place) or not len(turn):
        return
    stack = {
        kind: turned_rows(WORLD["ned"], np.stack([place[n] for n in names], axis=1))
        for kind, names in (("p", ("x", "y", "z")), ("v", ("vx", "vy", "vz")))
    }
    for kind, flags in (("p", ("xy_valid", "z_valid")), ("v", ("v_xy_valid", "v_z_valid"))):
        known = [place[flag].astype(bool) for flag in flags if flag in (place.dtype.names or ())]
        if known:
            valid = np.logical_and.reduce(known)
            stack[kind][~valid] = np.nan
            if kind == "p":
                log.leave(f"vehicle_local_position{suffix}", int((~valid).sum()), "not valid")
    rates = topics.get(f"vehicle_angular_velocity{suffix}")
    rate = None
    if rates is not None and len(rates) and "xyz" in (rates.dtype.names or ()):
        rate = (px4.stamps(cast(Rows, rates)), turned_rows(BODY["frd"], rates["xyz"]))
    q_WB = attitude("ned", "frd", turn["q"].astype(float))
    at_place = (px4.stamps(cast(Rows, place)), stack["p"], stack["v"])
    add_odometry(log, ours, (px4.stamps(cast(Rows, turn)), q_WB), at_place, rate)


def _add_datum(log: LogFile, topics: dict[str, _Topic]) -> None:
    """Add the origin of the local position, where it is known."""
    place = topics.get("vehicle_local_position")
    if place is None or "ref_lat" not in (place.dtype.names or ()):
        return
    known = place.rows[np.isfinite(place["ref_lat"]) & (place["ref_lat"] != 0.0)]
    if not len(known):
        return
    last = known[-1:]
    log.add(
        "/datum", px4.stamps(known[:1]), latitude_deg=last["ref_lat"],
        longitude_deg=last["ref_lon"], height_m=last["ref_alt"].astype(float),
    )  # fmt: skip


def noise_of(parameters: dict[str, float]) -> dict[str, float | list[float]]:
    """What EKF2 believes of noise, as keys of our estimators' parameters."""
    step = (1e-6 * parameters.get("EKF2_PREDICT_US", PREDICT_US)) ** 0.5
    found: dict[str, float | list[float]] = {}
    for ours, (name, times) in _NOISE.items():
        if name in parameters:
            factors = (step,) if times is _STEP else times
            values = [float(f"{parameters[name] * factor:.6g}") for factor in factors]
            found[ours] = values if len(values) > 1 else values[0]
    return found


def read(path: Path, columns: str) -> LogFile:
    """Read a ULog.

    Raises:
        InputError: pyulog is not installed, or this is no ULog.
    """
    pyulog, output = need("pyulog", path), StringIO()
    try:
        with redirect_stdout(output), _Bounded(path) as file:
            found = pyulog.ULog(file)
    except (TypeError, ValueError, KeyError, IndexError, struct.error) as error:
        raise InputError(f"{path}: no ULog that can be read ({error})") from None
    told = {key: str(value) for key, value in found.msg_info_dict.items()}
    noise = noise_of(found.initial_parameters)
    log = LogFile(path, {"log": "PX4 ULog", **told, NOISE: json.dumps(noise)})
    if lines := output.getvalue().count("\n"):
        log.notes.append(f"{path}: pyulog complains {lines} times of what is no message of a ULog")
    if found.file_corruption:
        log.notes.append(f"{path}: damaged: read as far as it goes")
    if found.dropouts:
        lost_ms = sum(gap.duration for gap in found.dropouts)
        log.notes.append(f"{path}: {len(found.dropouts)} gaps of {lost_ms} ms were not logged")
    for name in ("vehicle_gps_position", "sensor_gps"):
        for each in found.data_list:
            height = each.data.get("alt_ellipsoid")
            if each.name == name and height is not None and not height.any() and "alt" in each.data:
                each.data["alt_ellipsoid"] = each.data["alt"]
                log.notes.append(f"{name}: alt_ellipsoid is always 0: alt, above sea, is taken")
    first: dict[str, Any] = {}
    for each in sorted(found.data_list, key=lambda each: int(each.multi_id)):
        if first.setdefault(each.name, each) is not each:
            log.leave(f"{each.name}[{each.multi_id}]", len(each.data["timestamp"]))
    topics = {name: _Topic(rows_of(each.data)) for name, each in first.items()}
    _add_sensors(log, topics)
    _add_motion(log, topics, "odometry/px4", "")
    _add_motion(log, topics, "ground_truth/odom", "_groundtruth")
    _add_datum(log, topics)
    for name in ("vehicle_gps_position", "sensor_gps"):
        if name in topics and "time_utc_usec" in (topics[name].dtype.names or ()):
            for utc_us in topics[name].rows["time_utc_usec"].tolist():
                log.date(1e-6 * utc_us)
    for name, rows in topics.items():
        if rows.used == {"timestamp"}:
            log.leave(name, len(rows))
            continue
        for field in (rows.dtype.names or ()) if name in _MEASURING else ():
            if field not in rows.used and not _ABOUT.search(field):
                log.leave(f"{name}.{field}", len(rows))
    return log
