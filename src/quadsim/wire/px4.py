"""Messages of PX4 (package px4_msgs, uXRCE-DDS) as standard ones: ENU and FLU, SI, nanoseconds.

Fields and units by the messages' own comments, releases 1.13 to 1.18
(github.com/PX4/px4_msgs, msg/*.msg; docs.px4.io, "uORB Message Reference").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.wire.axes import BODY, WORLD, about, attitude, rotation_matrices, turned_rows

PACKAGE = "px4_msgs/"
_HEAD = "uint64 timestamp\nuint64 timestamp_sample\n"
_GPS = "float32 s_variance_m_s\nfloat32 c_variance_rad\nuint8 fix_type\nfloat32 eph\nfloat32 epv\n"
_GPS_TAIL = (
    "float32 hdop\nfloat32 vdop\nint32 noise_per_ms\nuint16 automatic_gain_control\n"
    "{jamming}float32 vel_m_s\nfloat32 vel_n_m_s\nfloat32 vel_e_m_s\nfloat32 vel_d_m_s\n"
    "float32 cog_rad\nbool vel_ned_valid\n"
)
_OLD_PLACE = "uint32 device_id\nint32 lat\nint32 lon\nint32 alt\nint32 alt_ellipsoid\n"
_PLACE = (
    "uint32 device_id\nfloat64 latitude_deg\nfloat64 longitude_deg\n"
    "float64 altitude_msl_m\nfloat64 altitude_ellipsoid_m\n"
)
_OLD_JAMMING = "int32 jamming_indicator\nuint8 jamming_state\n"
_JAMMING = "uint8 jamming_state\nint32 jamming_indicator\nuint8 spoofing_state\n"

#: The fields that messages begin with, from a number of bytes on, for bags that do not define them
#: (SQLite before Iron).
LEADING: dict[str, dict[int, str]] = {
    "px4_msgs/msg/SensorCombined": {
        0: "uint64 timestamp\nfloat32[3] gyro_rad\nuint32 gyro_integral_dt\n"
        "int32 accelerometer_timestamp_relative\nfloat32[3] accelerometer_m_s2\n"
    },
    "px4_msgs/msg/VehicleOdometry": {
        0: _HEAD + "uint8 pose_frame\nfloat32[3] position\nfloat32[4] q\nuint8 velocity_frame\n"
        "float32[3] velocity\nfloat32[3] angular_velocity\nfloat32[3] position_variance\n"
        "float32[3] orientation_variance\nfloat32[3] velocity_variance\n"
    },
    "px4_msgs/msg/SensorGps": {
        0: "uint64 timestamp\n" + _OLD_PLACE + _GPS + _GPS_TAIL.format(jamming=_OLD_JAMMING),
        140: _HEAD + _OLD_PLACE + _GPS + _GPS_TAIL.format(jamming=_JAMMING),
        160: _HEAD + _PLACE + _GPS + _GPS_TAIL.format(jamming=_JAMMING),
    },
    "px4_msgs/msg/VehicleMagnetometer": {
        0: _HEAD + "uint32 device_id\nfloat32[3] magnetometer_ga\n"
    },
    "px4_msgs/msg/VehicleAirData": {
        0: _HEAD + "uint32 baro_device_id\nfloat32 baro_alt_meter\nfloat32 baro_temp_celcius\n"
        "float32 baro_pressure_pa\n",
        45: _HEAD + "uint32 baro_device_id\nfloat32 baro_alt_meter\nfloat32 baro_pressure_pa\n",
    },
    "px4_msgs/msg/VehicleOpticalFlow": {
        0: _HEAD + "uint32 device_id\nfloat32[2] pixel_flow\nfloat32[3] delta_angle\n"
        "float32 distance_m\nuint32 integration_timespan_us\nuint8 quality\n"
    },
    "px4_msgs/msg/SensorOpticalFlow": {
        0: _HEAD + "uint32 device_id\nfloat32[2] pixel_flow\nfloat32[3] delta_angle\n"
        "bool delta_angle_available\nfloat32 distance_m\nbool distance_available\n"
        "uint32 integration_timespan_us\nuint8 quality\n"
    },
    "px4_msgs/msg/DistanceSensor": {
        0: "uint64 timestamp\nuint32 device_id\nfloat32 min_distance\nfloat32 max_distance\n"
        "float32 current_distance\nfloat32 variance\nint8 signal_quality\nuint8 type\n"
        "float32 h_fov\nfloat32 v_fov\nfloat32[4] q\nuint8 orientation\n"
    },
}
_UNKNOWN, _NED, _FRD, _BODY_FRD = 0, 1, 2, 3  # frames of VehicleOdometry
#: Up to 1.13: LOCAL_FRAME_NED, LOCAL_FRAME_FRD, LOCAL_FRAME_OTHER, BODY_FRAME_FRD; what is above.
_OLD_FRAMES = np.array([_NED, _FRD, _UNKNOWN, _BODY_FRD, _UNKNOWN], np.uint8)
_DOWNWARD = 25  # orientation of DistanceSensor
_FLOW_INTEGRALS = ("pixel_flow_x_integral", "pixel_flow_y_integral")
_TURN_INTEGRALS = tuple(f"gyro_{axis}_rate_integral" for axis in "xyz")
_INVALID = 2**31 - 1  # accelerometer_timestamp_relative
_FIX_3D, _RTK_FLOAT, _RTK_FIXED, _EXTRAPOLATED = 3, 5, 6, 8
_GAUSS_T = 1e-4
_NO_FIX, _FIX, _GROUND_BASED = -1, 0, 2  # NavSatStatus
_DIAGONAL_KNOWN = 2
_LEAST_PA = 1e3  # 30 km up; where the field is another one, it is a temperature
Rows = NDArray[Any]
Fields = dict[str, Any]


def stamps(rows: Rows) -> NDArray[np.int64]:
    """Times of the samples, ns: ``timestamp_sample`` where it is given, else ``timestamp``, µs."""
    stamp_us = rows["timestamp"]
    if "timestamp_sample" in (rows.dtype.names or ()):
        sample_us = rows["timestamp_sample"]
        stamp_us = np.where(sample_us > 0, sample_us, stamp_us)
    return np.asarray(stamp_us.astype(np.int64) * 1000)


def device_stamps(rows: Rows, name: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Times of one device in a SensorCombined before 1.8, ns, and which rows are a new sample.

    Args:
        name: ``magnetometer_timestamp`` or ``baro_timestamp``, us; ``NAME_relative`` is to the
            message's own since 1.5, before it is one for each of three devices.
    """
    names, stamp_us = rows.dtype.names or (), rows["timestamp"].astype(np.int64)
    valid: NDArray[np.bool_] = np.ones(len(rows), bool)
    if f"{name}_relative" in names:
        relative_us = rows[f"{name}_relative"].astype(np.int64)
        valid, stamp_us = relative_us != _INVALID, stamp_us + relative_us
    elif name in names:
        stamp_us = rows[name].astype(np.int64).reshape(len(rows), -1)[:, 0]
        valid = stamp_us > 0
    stamp_us = np.where(valid, stamp_us, -1)
    fresh = valid & (np.diff(np.maximum.accumulate(stamp_us), prepend=-1) > 0)
    return stamp_us[fresh] * 1000, fresh


def imu(rows: Rows) -> Fields:
    """SensorCombined as Imu: averages over the last sampling period, FRD.

    Of three devices, which it had before 1.5, the first.
    """
    f_S = turned_rows(BODY["frd"], rows["accelerometer_m_s2"][:, :3])
    f_S[rows["accelerometer_timestamp_relative"] == _INVALID] = np.nan
    q_covariance = np.zeros((3, 3))
    q_covariance[0, 0] = -1.0
    return {
        "q_xyzw": (0.0, 0.0, 0.0, 1.0),
        "q_covariance": q_covariance,
        "f": f_S,
        "w": turned_rows(BODY["frd"], rows["gyro_rad"][:, :3]),
    }


def fix(rows: Rows) -> Fields:
    """SensorGps as NavSatFix, height above the ellipsoid."""
    if "latitude_deg" in (rows.dtype.names or ()):
        place = [rows[n] for n in ("latitude_deg", "longitude_deg", "altitude_ellipsoid_m")]
    else:  # up to 1.14
        place = [rows["lat"] * 1e-7, rows["lon"] * 1e-7, rows["alt_ellipsoid"] * 1e-3]
    kind = rows["fix_type"]
    status = np.where((kind >= _FIX_3D) & (kind != _EXTRAPOLATED), _FIX, _NO_FIX)
    status[(kind == _RTK_FLOAT) | (kind == _RTK_FIXED)] = _GROUND_BASED
    sigma = np.stack([rows["eph"], rows["eph"], rows["epv"]], axis=1).astype(float)
    known = np.isfinite(sigma).all(axis=1) & (sigma > 0).all(axis=1)
    sigma[~known] = 0.0
    return {
        "status": status,
        "service": 1,
        "latitude_deg": place[0],
        "longitude_deg": place[1],
        "height_m": place[2],
        "covariance": np.eye(3) * (sigma**2)[:, None, :],
        "covariance_type": np.where(known, _DIAGONAL_KNOWN, 0),
    }


def gnss_velocity(rows: Rows) -> Fields:
    """SensorGps as TwistWithCovariance, ENU; ``s_variance_m_s`` is a deviation, in spite of it."""
    names = ("vel_n_m_s", "vel_e_m_s", "vel_d_m_s")
    v_W = turned_rows(WORLD["ned"], np.stack([rows[name] for name in names], axis=1))
    v_W[~rows["vel_ned_valid"] | (rows["fix_type"] == _EXTRAPOLATED)] = np.nan
    sigma = rows["s_variance_m_s"].astype(float)
    sigma[~(np.isfinite(sigma) & (sigma > 0))] = 0.0
    covariance = np.zeros((len(rows), 6, 6))
    covariance[:, (0, 1, 2), (0, 1, 2)] = (sigma**2)[:, None]
    return {"v": v_W, "covariance": covariance}


def magnetic_field(rows: Rows) -> Fields:
    """VehicleMagnetometer, or SensorCombined before 1.8, gauss in FRD."""
    return {"m": _GAUSS_T * turned_rows(BODY["frd"], rows["magnetometer_ga"][:, :3])}


def pressure(rows: Rows) -> Fields:
    """VehicleAirData."""
    values = rows["baro_pressure_pa"].astype(float)
    values[values < _LEAST_PA] = np.nan
    return {"pressure": values}


def device_pressure(rows: Rows) -> Fields:
    """SensorBaro: hPa before 1.14, then Pa."""
    values = rows["pressure"].astype(float)
    return {"pressure": np.where(values < _LEAST_PA * 1.2, 100.0 * values, values)}


def pressure_of_height(rows: Rows) -> Fields:
    """SensorCombined before 1.8, which has a height that its driver made of the pressure.

    By PX4's drivers of barometers: ICAO's standard atmosphere of 288.15 K and 101 325 Pa.
    """
    height_m = rows["baro_alt_meter"].astype(float).reshape(len(rows), -1)[:, 0]
    ratio = np.maximum(1.0 - 0.0065 * height_m / 288.15, 0.0)
    return {"pressure": 101_325.0 * ratio ** (9.80665 / (0.0065 * 287.05))}


def distance(rows: Rows) -> tuple[Fields, NDArray[np.bool_]]:
    """DistanceSensor as Range, and which of them look down."""
    fields = {
        "radiation_type": np.where(rows["type"] == 1, 0, 1),
        "field_of_view": rows["h_fov"],
        "min_range": rows["min_distance"],
        "max_range": rows["max_distance"],
        "range": np.where(rows["signal_quality"] == 0, np.nan, rows["current_distance"]),
        "variance": rows["variance"],
    }
    return fields, rows["orientation"] == _DOWNWARD


def optical_flow(rows: Rows) -> Fields:
    """An optical flow as :func:`quadsim.wire.samples.flow_messages`; NaN where the quality is 0.

    VehicleOpticalFlow and SensorOpticalFlow since 1.14, OpticalFlow before; of the body, FRD.
    """
    names = rows.dtype.names or ()
    if "pixel_flow" in names:
        flow, turn = rows["pixel_flow"].astype(float), rows["delta_angle"].astype(float)
        interval_us = rows["integration_timespan_us"]
        if "delta_angle_available" in names:
            turn[~rows["delta_angle_available"].astype(bool)] = np.nan
    else:
        flow, turn = (
            np.stack([rows[name] for name in each], axis=1).astype(float)
            for each in (_FLOW_INTEGRALS, _TURN_INTEGRALS)
        )
        interval_us = rows["integration_timespan"]
    seen = np.column_stack([flow, np.zeros(len(rows))])
    v = turned_rows(BODY["frd"], seen)
    v[:, 2] = 1e-6 * interval_us
    v[rows["quality"] == 0, :2] = np.nan
    covariance = np.zeros((len(rows), 6, 6))
    covariance[:, 2, 2] = rows["quality"] / 255.0
    return {"v": v, "w": turned_rows(BODY["frd"], turn), "covariance": covariance}


def resets(rows: Rows) -> NDArray[np.int64] | None:
    """(N,) how often the estimator of a VehicleOdometry has reset; None: the release does not say.

    It counts to 255 and begins anew; position, velocity and heading count alike.
    """
    if "reset_counter" not in (rows.dtype.names or ()):
        return None
    return np.asarray(rows["reset_counter"].astype(np.int64))


def odometry(rows: Rows) -> tuple[Fields, NDArray[np.bool_]]:
    """VehicleOdometry: pose in NED, or level FRD whose heading is the driver's; twist in FLU.

    And which of them count: a quality below 0 means that the estimate has failed.
    """
    named = "position" in (rows.dtype.names or ())  # since 1.14
    if not named:
        columns = (("x", "y", "z"), ("vx", "vy", "vz"), ("rollspeed", "pitchspeed", "yawspeed"))
        p, v, w = (np.stack([rows[n] for n in c], axis=1).astype(float) for c in columns)
        pose_frame = _OLD_FRAMES[np.minimum(rows["local_frame"], len(_OLD_FRAMES) - 1)]
        velocity_frame = _OLD_FRAMES[np.minimum(rows["velocity_frame"], len(_OLD_FRAMES) - 1)]
    else:
        p, v, w = (rows[n].astype(float) for n in ("position", "velocity", "angular_velocity"))
        pose_frame, velocity_frame = rows["pose_frame"], rows["velocity_frame"]
    q_WB = attitude("ned", "frd", rows["q"].astype(float))
    R_WB = rotation_matrices(q_WB)
    p_W = turned_rows(WORLD["ned"], p)
    p_W[(pose_frame != _NED) & (pose_frame != _FRD)] = np.nan
    in_body = (velocity_frame == _BODY_FRD)[:, None]
    v_B = np.einsum("nji,nj->ni", R_WB, turned_rows(WORLD["ned"], v))
    v_B = np.where(in_body, turned_rows(BODY["frd"], v), v_B)
    v_B[~np.isin(velocity_frame, (_NED, _FRD, _BODY_FRD))] = np.nan
    fields: Fields = {
        "p": p_W,
        "q_xyzw": np.roll(q_WB, -1, axis=1),
        "v": v_B,
        "w": turned_rows(BODY["frd"], w),
    }
    if named:
        pose, twist = np.zeros((len(rows), 6, 6)), np.zeros((len(rows), 6, 6))
        diagonal = {
            n: np.nan_to_num(np.eye(3) * rows[f"{n}_variance"].astype(float)[:, None, :])
            for n in ("position", "orientation", "velocity")
        }
        pose[:, :3, :3] = about(WORLD["ned"], diagonal["position"])
        pose[:, 3:, 3:] = about(R_WB, about(BODY["frd"], diagonal["orientation"]))
        in_world = about(np.swapaxes(R_WB, 1, 2), about(WORLD["ned"], diagonal["velocity"]))
        in_vehicle = about(BODY["frd"], diagonal["velocity"])
        twist[:, :3, :3] = np.where(in_body[:, :, None], in_vehicle, in_world)
        fields |= {"pose_covariance": pose, "twist_covariance": twist}
    if "quality" in (rows.dtype.names or ()):
        return fields, np.asarray(rows["quality"] >= 0)
    return fields, np.ones(len(rows), bool)
