"""Sensor messages of a bag as a stream of calls of an estimator, in the order of their log time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from quadsim.analysis.bag.cdr import Block, decode
from quadsim.analysis.bag.damaged import decoded
from quadsim.analysis.bag.reading import BLOCK, Bag
from quadsim.analysis.bag.topics import IMU, require, topic
from quadsim.errors import InputError


class Measurement(NamedTuple):
    """One call: the estimator's method ``kind``, with the stamp and then the values."""

    kind: str
    stamp_ns: int
    values: tuple[Any, ...]


def _rows(block: Block, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(block[name] for name in names), strict=True)


def _floats(block: Block, *names: str) -> Iterator[tuple[float, ...]]:
    return zip(*(block[name].tolist() for name in names), strict=True)


def _imu(block: Block) -> Iterator[tuple[Any, ...]]:
    return _rows(block, "f", "w", "f_covariance", "w_covariance")


def _fix(block: Block) -> Iterator[tuple[Any, ...]]:
    points = np.stack([block[n] for n in ("latitude_deg", "longitude_deg", "height_m")], axis=1)
    points[block["status"] < 0] = np.nan  # no fix: the estimator refuses and counts it
    covariance = block["covariance"]
    covariance[block["covariance_type"] == 0] = 0.0
    return zip(points, covariance, strict=True)


def _range(block: Block) -> Iterator[tuple[Any, ...]]:
    """Distances; what is outside the sensor's limits is "nothing in range" (REP 117)."""
    distance = block["range"].astype(float)
    distance[distance > block["max_range"]] = np.inf
    distance[distance < block["min_range"]] = -np.inf
    variance = block["variance"].tolist() if "variance" in block.names else [0.0] * len(block)
    return zip(distance.tolist(), variance, strict=True)


def _pose(block: Block) -> Iterator[tuple[Any, ...]]:
    """Position, quaternion w first, covariance; unknown where the type has none."""
    q_WB = np.roll(block["q_xyzw"], 1, axis=1)
    if "pose_covariance" not in block.names:
        return zip(block["p"], q_WB, strict=True)
    return zip(block["p"], q_WB, block["pose_covariance"], strict=True)


#: Topic: type, the estimator's method, and how a block of messages becomes its values.
SENSORS: dict[str, tuple[str, str, Callable[[Block], Iterator[tuple[Any, ...]]]]] = {
    IMU: ("sensor_msgs/msg/Imu", "imu", _imu),
    "gps/fix": ("sensor_msgs/msg/NavSatFix", "gnss_position", _fix),
    "gps/vel": (
        "geometry_msgs/msg/TwistWithCovarianceStamped",
        "gnss_velocity",
        lambda block: _rows(block, "v", "covariance"),
    ),
    "imu/mag": (
        "sensor_msgs/msg/MagneticField",
        "magnetic_field",
        lambda block: _rows(block, "m", "covariance"),
    ),
    "imu/static_pressure": (
        "sensor_msgs/msg/FluidPressure",
        "pressure",
        lambda block: _floats(block, "pressure", "variance"),
    ),
    "range/down": ("sensor_msgs/msg/Range", "range", _range),
    "external/pose": ("geometry_msgs/msg/PoseWithCovarianceStamped", "external_pose", _pose),
    "external/pose_stamped": ("geometry_msgs/msg/PoseStamped", "external_pose", _pose),
    "external/odom": ("nav_msgs/msg/Odometry", "external_pose", _pose),
}


def sensor_topics(bag: Bag, namespace: str) -> dict[str, str]:
    """Full topic to relative name, of the sensors that a bag has for a vehicle.

    Raises:
        InputError: there is no IMU, or a sensor's topic has another type.
    """
    require(bag, namespace, IMU, SENSORS[IMU][0])
    found = {}
    for name, (type_name, _, _) in SENSORS.items():
        full = topic(namespace, name)
        if bag.counts.get(full):
            found[require(bag, namespace, name, type_name)] = name
    return found


def measurements(bag: Bag, namespace: str) -> Iterator[Measurement]:
    """Sensor measurements of one vehicle, in the order in which they were recorded.

    Messages are decoded in blocks, so the memory is bounded whatever the bag's length.

    Raises:
        InputError: a topic is missing or a message is not what its type says.
    """
    names = sensor_topics(bag, namespace)
    topics: list[str] = []  # of each message; as of tuples, the collection of garbage takes longer
    payloads: dict[str, list[bytes]] = {full: [] for full in names}
    for message in bag.messages(names):
        topics.append(message[0])
        payloads[message[0]].append(message[3])
        if len(topics) == BLOCK:
            yield from _decoded(bag, topics, payloads, names)
            topics, payloads = [], {full: [] for full in names}
    yield from _decoded(bag, topics, payloads, names)


def _with_holes(
    good: Iterator[Measurement | None], bad: list[int], count: int
) -> Iterator[Measurement | None]:
    """What is good among ``count`` messages, and None in the places of the bad ones."""
    without = frozenset(bad)
    return (None if i in without else next(good) for i in range(count))


def _decoded(
    bag: Bag, topics: list[str], payloads: dict[str, list[bytes]], names: dict[str, str]
) -> Iterator[Measurement]:
    """A block: the topic of each message, and the messages of each topic."""
    streams: dict[str, Iterator[Measurement | None]] = {}
    for full in Counter(topics):
        type_name, kind, values = SENSORS[names[full]]
        found = decoded(partial(decode, type_name), payloads[full])
        if found.good is None:
            raise InputError(f"{bag.path}: {full}: {found.reason}")
        stamp_ns = found.good.stamp_ns.tolist()
        streams[full] = map(Measurement, repeat(kind), stamp_ns, values(found.good))
        if found.bad:
            bag.notes.append(f"{full}: {len(found.bad)} messages make no sense: left out")
            streams[full] = _with_holes(streams[full], found.bad, len(payloads[full]))
    for full in topics:
        measurement = next(streams[full])
        if measurement is not None:
            yield measurement
