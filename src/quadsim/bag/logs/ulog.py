"""PX4's ULog, by pyulog: sensors, truth of a simulation, and the estimate of its EKF2.

Fields and units are those of px4_msgs (:mod:`quadsim.wire.px4`), which are PX4's own. The estimate
is ``odometry/px4``, so that it is scored beside ours.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.log_file import NOISE, LogFile
from quadsim.bag.logs.motion import add_odometry
from quadsim.base.errors import InputError
from quadsim.base.extras import need
from quadsim.wire import px4
from quadsim.wire.axes import BODY, WORLD, attitude, turned_rows

Rows = NDArray[Any]
#: Our topic, the log's topics that give it (the first that is there), and the way.
_SENSORS = (
    ("imu/data_raw", ("sensor_combined",), px4.imu),
    ("imu/mag", ("vehicle_magnetometer",), px4.magnetic_field),
    ("imu/static_pressure", ("vehicle_air_data",), px4.pressure),
    ("gps/fix", ("vehicle_gps_position", "sensor_gps"), px4.fix),
    ("gps/vel", ("vehicle_gps_position", "sensor_gps"), px4.gnss_velocity),
)
#: EKF2's period of prediction where the log does not say, us; pressure of a metre of height, Pa.
PREDICT_US, METRE_PA = 10_000.0, 12.0
#: Our parameter to the one of EKF2 (its params_*.yaml), and what that is times; of a process PX4
#: says the noise of a step, we its density.
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


def _add_sensors(log: LogFile, topics: dict[str, Rows]) -> None:
    for ours, names, convert in _SENSORS:
        rows = next((topics[name] for name in names if name in topics), None)
        if rows is None:
            continue
        try:
            log.add(ours, px4.stamps(rows), **convert(rows))
        except (ValueError, KeyError) as error:
            log.notes.append(f"{names[0]}: left out ({error}): a release that is not known")
    if "distance_sensor" in topics:
        rows = topics["distance_sensor"]
        try:
            fields, down = px4.distance(rows)
        except (ValueError, KeyError) as error:
            log.notes.append(f"distance_sensor: left out ({error})")
            return
        log.add("range/down", px4.stamps(rows)[down], **{k: v[down] for k, v in fields.items()})


def _add_motion(log: LogFile, topics: dict[str, Rows], ours: str, suffix: str) -> None:
    """Add the odometry of a local position and an attitude, if both are there."""
    place = topics.get(f"vehicle_local_position{suffix}")
    turn = topics.get(f"vehicle_attitude{suffix}")
    if place is None or turn is None or not len(place) or not len(turn):
        return
    stack = {
        kind: turned_rows(WORLD["ned"], np.stack([place[n] for n in names], axis=1))
        for kind, names in (("p", ("x", "y", "z")), ("v", ("vx", "vy", "vz")))
    }
    rates = topics.get(f"vehicle_angular_velocity{suffix}")
    rate = None
    if rates is not None and len(rates) and "xyz" in (rates.dtype.names or ()):
        rate = (px4.stamps(rates), turned_rows(BODY["frd"], rates["xyz"]))
    q_WB = attitude("ned", "frd", turn["q"].astype(float))
    at_place = (px4.stamps(place), stack["p"], stack["v"])
    add_odometry(log, ours, (px4.stamps(turn), q_WB), at_place, rate)


def _add_datum(log: LogFile, topics: dict[str, Rows]) -> None:
    """Add the origin of the local position, where it is known."""
    place = topics.get("vehicle_local_position")
    if place is None or "ref_lat" not in (place.dtype.names or ()):
        return
    known = place[np.isfinite(place["ref_lat"]) & (place["ref_lat"] != 0.0)]
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
    pyulog = need("pyulog", path)
    try:
        found = pyulog.ULog(str(path))
    except (TypeError, ValueError, KeyError, IndexError, struct.error) as error:
        raise InputError(f"{path}: no ULog that can be read ({error})") from None
    told = {key: str(value) for key, value in found.msg_info_dict.items()}
    noise = noise_of(found.initial_parameters)
    log = LogFile(path, {"log": "PX4 ULog", **told, NOISE: json.dumps(noise)})
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
    topics = {each.name: rows_of(each.data) for each in found.data_list if each.multi_id == 0}
    _add_sensors(log, topics)
    _add_motion(log, topics, "odometry/px4", "")
    _add_motion(log, topics, "ground_truth/odom", "_groundtruth")
    _add_datum(log, topics)
    return log
