"""Sensor messages of a bag as blocks that estimators take, in the order of their log time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.reading import BLOCK, Bag, Batch
from quadsim.bag.topics import IMU, require, topic
from quadsim.base.errors import InputError
from quadsim.estimation.eskf import measurement_buffer as timeline
from quadsim.estimation.eskf.layout import (
    EXTERNAL_ODOMETRY,
    EXTERNAL_POSITION,
    EXTERNAL_VELOCITY,
    GNSS_HEADING,
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    OPTICAL_FLOW,
    RANGE,
    STATIC_PRESSURE,
)
from quadsim.estimation.messages import Column, Messages
from quadsim.sensors import SECONDS, TABLE, topics_of
from quadsim.wire import standard
from quadsim.wire.damaged import decoded
from quadsim.wire.decode import Block, decode
from quadsim.wire.samples import heading_of

Rows = NDArray[np.float64]


def _row_major(covariance: NDArray[np.float64]) -> Rows:
    return covariance.reshape(len(covariance), -1)


def _imu(block: Block) -> tuple[Rows, ...]:
    covariances = (_row_major(block[name]) for name in ("f_covariance", "w_covariance"))
    return (block["f"], block["w"], *covariances)


def _fix(block: Block) -> tuple[Rows, ...]:
    points = np.stack([block[n] for n in ("latitude_deg", "longitude_deg", "height_m")], axis=1)
    # no fix, or one at 0, 0, which receivers say before they know: the estimator refuses it
    points[(block["status"] < 0) | ~points[:, :2].any(axis=1)] = np.nan
    covariance = block["covariance"]
    covariance[block["covariance_type"] == 0] = 0.0
    return points, _row_major(covariance)


def _range(block: Block) -> tuple[Rows, ...]:
    """Distances; what is outside the sensor's limits is "nothing in range" (REP 117).

    Logs that state no limits have a largest range of 0.
    """
    distance, farthest = block["range"].astype(float), block["max_range"]
    distance[(farthest > 0.0) & (distance > farthest)] = np.inf
    distance[distance < block["min_range"]] = -np.inf
    known = "variance" in block.names
    variance = block["variance"].astype(float) if known else np.zeros(len(block))
    return distance[:, None], variance[:, None]


def _pose(block: Block) -> tuple[Rows, ...]:
    """Position, quaternion w first, covariance; unknown where the type has none."""
    q_WB = np.roll(block["q_xyzw"], 1, axis=1)
    known = "pose_covariance" in block.names
    covariance = _row_major(block["pose_covariance"]) if known else np.zeros((len(block), 36))
    return block["p"], q_WB, covariance


def _flow(block: Block) -> tuple[Rows, ...]:
    """Flows and their interval, and the variance of the first; see ``wire.samples``."""
    return block["v"], block["covariance"][:, :1, 0]


def _heading(block: Block) -> tuple[Rows, ...]:
    """Azimuths of the baseline, and their variances."""
    heading, variance = heading_of(block["q_xyzw"], block["q_covariance"])
    return heading[:, None], variance[:, None]


#: Type of messages: the kind of message that it is to an estimator, and a block's numbers.
_MEASURED: dict[str, tuple[int, Callable[[Block], tuple[Rows, ...]]]] = {
    standard.IMU: (timeline.IMU, _imu),
    standard.FIX: (GNSS_POSITION, _fix),
    standard.TWIST: (GNSS_VELOCITY, lambda block: (block["v"], _row_major(block["covariance"]))),
    standard.MAGNETIC_FIELD: (
        MAGNETIC_FIELD,
        lambda block: (block["m"], _row_major(block["covariance"])),
    ),
    standard.PRESSURE: (
        STATIC_PRESSURE,
        lambda block: (block["pressure"][:, None], block["variance"][:, None]),
    ),
    standard.RANGE: (RANGE, _range),
    standard.POSE_WITH_COVARIANCE: (EXTERNAL_POSITION, _pose),
    standard.POSE: (EXTERNAL_POSITION, _pose),
    standard.ODOMETRY: (EXTERNAL_POSITION, _pose),
}
_TYPES = {
    topic.name: topic.type_name for device in (*TABLE, *SECONDS) for topic in topics_of(device)
} | {
    "external/pose": standard.POSE_WITH_COVARIANCE,
    "external/pose_stamped": standard.POSE,
    "external/odom": standard.ODOMETRY,
    "external/velocity": standard.TWIST,
}
#: Of topics that are something else than others of their type.
_OTHERWISE: dict[str, tuple[int, Callable[[Block], tuple[Rows, ...]]]] = {
    "imu_1/data_raw": (timeline.IMU_1, _imu),
    "gps_1/fix": (timeline.GNSS_POSITION_1, _fix),
    "gps_1/vel": (timeline.GNSS_VELOCITY_1, _MEASURED[standard.TWIST][1]),
    "range_1/down": (timeline.RANGE_1, _range),
    "odometry/visual": (EXTERNAL_ODOMETRY, _pose),
    "flow/down": (OPTICAL_FLOW, _flow),
    "gps/heading": (GNSS_HEADING, _heading),
    "external/velocity": (EXTERNAL_VELOCITY, _MEASURED[standard.TWIST][1]),
}
#: Topic: type, the kind of message it is to an estimator, and a block's numbers.
SENSORS = {
    name: (type_name, *_OTHERWISE.get(name, _MEASURED[type_name]))
    for name, type_name in _TYPES.items()
    if type_name in _MEASURED
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


def measurements(bag: Bag, namespace: str) -> Iterator[Messages]:
    """Sensor measurements of one vehicle in blocks, in the order in which they were recorded.

    The memory is bounded whatever the bag's length.

    Raises:
        InputError: a topic is missing or a message does not fit its type.
    """
    names = sensor_topics(bag, namespace)
    waiting: list[Batch] = []
    for batch in bag.batches(names):
        waiting.append(batch.compact())
        if sum(map(len, waiting)) >= BLOCK:
            yield _decoded(bag, Batch.merged(waiting), names)
            waiting = []
    if waiting:
        yield _decoded(bag, Batch.merged(waiting), names)


def _decoded(bag: Bag, batch: Batch, names: dict[str, str]) -> Messages:
    columns = []
    for full, _, rows in batch.by_topic():
        type_name, kind, numbers = SENSORS[names[full]]
        found = decoded(partial(decode, type_name), batch.payloads[rows])
        if found.good is None:
            raise InputError(f"{bag.path}: {full}: {found.reason}")
        if found.bad:
            bag.notes.append(f"{full}: {len(found.bad)} messages make no sense: left out")
            rows = np.delete(rows, found.bad)
        columns.append(
            Column(kind, rows, found.good.stamp_ns, np.hstack(numbers(found.good)).astype(float))
        )
    return Messages.of(columns)
