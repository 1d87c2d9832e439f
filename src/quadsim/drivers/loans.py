"""What the virtual world lends a real vehicle, as its software takes it: flow, range, odometry.

Topics, types and axes: mavros' plugins optical_flow, px4flow, distance_sensor, odometry and
vision_pose (ENU and FLU; they turn them), and PX4's dds_topics.yaml (NED and FRD).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec
from quadsim.drivers.outward import Fields, Outgoing
from quadsim.wire.axes import BODY, WORLD, about, attitude_out
from quadsim.wire.standard import FLOW, ODOMETRY, POSE_WITH_COVARIANCE, RANGE

FLOWS, RANGES, POSES = "flow/down", "range/down", "odometry/visual"
#: What can be lent, and its type.
LENT = {FLOWS: FLOW, RANGES: RANGE, POSES: ODOMETRY}
_PX4, _NAN = "px4_msgs/msg/", float("nan")
_DOWNWARD = 25
Numbers = Any


def _header(target: DriverLoan, stamp_ns: int, frame: str) -> Fields:
    return {"header.stamp": stamp_ns, "header.frame_id": target.frame or frame}


def _stamps(stamp_ns: int, sent_ns: int) -> Fields:
    return {"timestamp": sent_ns // 1000, "timestamp_sample": stamp_ns // 1000}


def _quality(numbers: Numbers) -> int:
    """From 0 to 255; 0 where nothing was seen."""
    seen = math.isfinite(float(numbers["v"][:2].sum()))
    return max(1, round(255.0 * float(numbers["covariance"][2, 2]))) if seen else 0


def _mavros_flow(numbers: Numbers, target: DriverLoan, stamp_ns: int, sent_ns: int) -> Fields:
    """OpticalFlow: rates in rad/s of FLU; no pixels, no distance."""
    x, y = np.nan_to_num(numbers["v"][:2] / numbers["v"][2]).tolist()
    flow = {"flow_rate_x": x, "flow_rate_y": y, "ground_distance": -1.0}
    return _header(target, stamp_ns, "base_link") | flow | {"quality": _quality(numbers)}


def _mavros_flow_rad(numbers: Numbers, target: DriverLoan, stamp_ns: int, sent_ns: int) -> Fields:
    """OpticalFlowRad: angles of FLU over the interval, NaN without a gyroscope."""
    x, y, interval_s = np.nan_to_num(numbers["v"]).tolist()
    turn = {f"integrated_{axis}gyro": float(w) for axis, w in zip("xyz", numbers["w"], strict=True)}
    flow = {"integration_time_us": round(1e6 * interval_s), "integrated_x": x, "integrated_y": y}
    rest = {"quality": _quality(numbers), "distance": -1.0}
    return _header(target, stamp_ns, "base_link") | flow | turn | rest


def _px4_flow(numbers: Numbers, target: DriverLoan, stamp_ns: int, sent_ns: int) -> Fields:
    """SensorOpticalFlow: angles in FRD."""
    x, y, interval_s = numbers["v"].tolist()
    turn = BODY["frd"].T @ numbers["w"]
    there = bool(np.isfinite(turn).all())
    return _stamps(stamp_ns, sent_ns) | {
        "device_id": 1,
        "pixel_flow": np.nan_to_num([x, -y]).tolist(),
        "delta_angle": turn.tolist() if there else [0.0] * 3,
        "delta_angle_available": there,
        "distance_m": _NAN,
        "integration_timespan_us": round(1e6 * interval_s),
        "quality": _quality(numbers),
        "max_flow_rate": _NAN,
        "min_ground_distance": _NAN,
        "max_ground_distance": _NAN,
    }


def _range(numbers: Numbers, target: DriverLoan, stamp_ns: int, sent_ns: int) -> Fields:
    names = ("radiation_type", "field_of_view", "min_range", "max_range", "range")
    return _header(target, stamp_ns, "range_link") | {n: numbers[n].item() for n in names}


def _px4_distance(numbers: Numbers, target: DriverLoan, stamp_ns: int, sent_ns: int) -> Fields:
    """DistanceSensor; where nothing is in reach its quality is 0, and the distance beyond it."""
    range_m, most = numbers["range"].item(), numbers["max_range"].item()
    seen = math.isfinite(range_m)
    return {
        "timestamp": stamp_ns // 1000,
        "device_id": 1,
        "min_distance": numbers["min_range"].item(),
        "max_distance": most,
        "current_distance": range_m if seen else 0.0 if range_m < 0.0 else most + 0.01,
        "signal_quality": 100 if seen else 0,
        "type": 1 if numbers["radiation_type"] == 0 else 0,
        "h_fov": numbers["field_of_view"].item(),
        "v_fov": numbers["field_of_view"].item(),
        "orientation": _DOWNWARD,
    }


def _pose(numbers: Numbers, target: DriverLoan, stamp_ns: int, sent_ns: int) -> Fields:
    """Pose of an Odometry or a PoseWithCovarianceStamped, as it came; no velocity is measured."""
    pose = {
        "pose.pose.position": numbers["p"].tolist(),
        "pose.pose.orientation": numbers["q_xyzw"].tolist(),
        "pose.covariance": numbers["pose_covariance"].ravel().tolist(),
    }
    head = _header(target, stamp_ns, "odom")
    if target.type != ODOMETRY:
        return head | pose
    unknown = {"twist.twist.linear": [_NAN] * 3, "twist.twist.angular": [_NAN] * 3}
    return head | {"child_frame_id": "base_link"} | pose | unknown


def _px4_odometry(numbers: Numbers, target: DriverLoan, stamp_ns: int, sent_ns: int) -> Fields:
    """VehicleOdometry in FRD of a heading of its own; all variances 0 are unknown."""
    q_FB = np.roll(numbers["q_xyzw"], 1)
    covariance = numbers["pose_covariance"]
    place = np.diag(about(WORLD["ned"].T, covariance[:3, :3]))
    turn = np.diag(about(WORLD["ned"].T, covariance[3:, 3:]))
    stated, unknown = bool(covariance.any()), [_NAN] * 3
    return _stamps(stamp_ns, sent_ns) | {
        "pose_frame": 2,  # POSE_FRAME_FRD
        "position": (WORLD["ned"].T @ numbers["p"]).tolist(),
        "q": attitude_out("ned", "frd", tuple(q_FB.tolist())).tolist(),
        "velocity": unknown,
        "angular_velocity": unknown,
        "position_variance": place.tolist() if stated else unknown,
        "orientation_variance": turn.tolist() if stated else unknown,
        "velocity_variance": unknown,
    }


#: (what is lent, driver's type): fields of the driver's message.
_OUT: dict[tuple[str, str], Callable[[Numbers, DriverLoan, int, int], Fields]] = {
    (FLOWS, "mavros_msgs/msg/OpticalFlow"): _mavros_flow,
    (FLOWS, "mavros_msgs/msg/OpticalFlowRad"): _mavros_flow_rad,
    (FLOWS, f"{_PX4}SensorOpticalFlow"): _px4_flow,
    (RANGES, RANGE): _range,
    (RANGES, f"{_PX4}DistanceSensor"): _px4_distance,
    (POSES, ODOMETRY): _pose,
    (POSES, POSE_WITH_COVARIANCE): _pose,
    (POSES, f"{_PX4}VehicleOdometry"): _px4_odometry,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverLoan(Outgoing):
    """One topic on which a vehicle takes what a virtual device measures."""

    ours: Annotated[str, Spec("our topic, relative to the vehicle", choices=tuple(LENT))]
    type: Annotated[str, Spec("the driver's, package/msg/Type")]

    def __post_init__(self) -> None:
        if (self.ours, self.type) not in _OUT:
            known = ", ".join(theirs for ours, theirs in _OUT if ours == self.ours)
            raise InputError(f"{self.ours} cannot become {self.type}; allowed: {known}")
        self.check(self.type)


def lent_as(target: DriverLoan, numbers: Numbers, stamp_ns: int, sent_ns: int) -> Fields:
    """Fields of the driver's message by their dotted names; what is not named stays zero.

    Args:
        numbers: of our message, as :mod:`quadsim.wire.decode` names them.
        stamp_ns: of it.
        sent_ns: now, by the computer's clock.
    """
    return _OUT[target.ours, target.type](numbers, target, stamp_ns, sent_ns)
