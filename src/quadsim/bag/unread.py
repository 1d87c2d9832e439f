"""What a log or a bag holds that nothing here takes, for the notes of whoever reads it."""

from __future__ import annotations

import re

from quadsim.bag.logs.log_file import NAMESPACE
from quadsim.bag.measurements import SENSORS
from quadsim.bag.reading import Bag
from quadsim.bag.topics import ESTIMATES, namespaces, topic
from quadsim.wire.definitions import standard_types
from quadsim.wire.standard import OURS

#: What is in the names of measurements: topics of PX4 and of ROS, messages of ArduPilot and
#: MAVLink, fields of a blackbox and of a Crazyflie, columns; or a reason, in parentheses.
_MEASURES = re.compile(
    r"^(?!estimator|mission|.*setpoint).*(\(|acc|airspeed|alt\b|amper|arsp|att|\bba?t\d?\b|batt|baro|\bbar\d?\b|beacon|\bbcn|compass|curr"
    r"|dist|\besc|flow|gnss|gps|gyr|imu|lidar|mag|mocap|motion|\bof\b|odom|optitrack|pitot|pose|powr|press|prox"
    r"|quat|range|rfnd|rpm|sensor|sonar|surface|temp|tof|ubx|\bvi[bs]|vicon|vision|visual|volt)",
    re.IGNORECASE,
)
#: Types of ROS that measure, and those that do so by the name of their topic.
_MEASURING = re.compile(r"^sensor_msgs/msg/(?!Joy|CameraInfo)|WithCovariance|/Odometry$")
_STATED = re.compile(r"/(Pose|Point|Vector3|Transform|Quaternion|Accel|Float\d\d)\w*$")
_WISHED = re.compile(r"set_?point|command|cmd|goal|reference|target|status", re.IGNORECASE)
#: Our topics that reports and views take, apart from estimates and sensors.
_SEEN = ("motor_speed", "command_motor_speed", "motor_pwm", "battery_state", "reference", "wind",
         "scan", "points", "goal_pose", "command_pose", "camera/image_raw")  # fmt: skip
#: Names that measure nothing which are written.
MOST_NAMED = 20


def unread_notes(bag: Bag, taken: str | None = None) -> list[str]:
    """A line of the measurements that nothing here takes, and one of what else a log holds.

    Args:
        bag: an open bag, or a log as one.
        taken: a topic that is taken for once, such as the truth.
    """
    unread = bag.unread | {
        f"{name} ({bag.types[name]})": count
        for name, count in bag.counts.items()
        if count and name != taken and _is_unread(bag, name)
    }
    grouped: dict[tuple[str, int], list[str]] = {}
    for name, count in unread.items():
        message, _, field = name.partition(".")
        grouped.setdefault((message, count), []).append(field)
    found = {
        f"{message}.{'/'.join(fields)}" if all(fields) else message: count
        for (message, count), fields in grouped.items()
    }
    told = [f"{name} {count}" for name, count in found.items() if _MEASURES.search(name)]
    others = [f"{name} {count}" for name, count in found.items() if not _MEASURES.search(name)]
    notes = [f"in the file but not read: {', '.join(told)}"] if told else []
    if others:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        named = ", ".join(others[:MOST_NAMED])
        notes.append(f"not read, and no measurement by its name: {named}{more}")
    return notes


def _is_unread(bag: Bag, name: str) -> bool:
    """Whether a topic has measurements that no estimator, report or view takes."""
    for vehicle in (*namespaces(bag), NAMESPACE):
        own = name.removeprefix(topic(vehicle, ""))
        if own in (*OURS, *SENSORS, *_SEEN) or own.startswith((ESTIMATES, "ground_truth/")):
            return False
    type_name = bag.types[name]
    if name in OURS or _WISHED.search(name) or _WISHED.search(type_name):
        return False
    known = type_name in standard_types().fielddefs
    by_name = (_STATED.search(type_name) or not known) and _MEASURES.search(name + type_name)
    return bool(_MEASURING.search(type_name) or by_name)
