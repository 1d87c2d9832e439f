"""Sensor messages of a bag as blocks that estimators take, by log time; what they tell besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.log_file import RECORDED
from quadsim.bag.logs.motion import columns_at
from quadsim.bag.reading import BLOCK, Bag, Batch
from quadsim.bag.topics import IMU, require, topic
from quadsim.base.errors import InputError
from quadsim.estimation.assumptions import Heard, date_year_of
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
from quadsim.estimation.eskf.measurement_buffer import IMU_1, KINDS
from quadsim.estimation.messages import Column, Messages
from quadsim.geometry.geodesy import Datum
from quadsim.sensors import SECONDS, TABLE, topics_of
from quadsim.wire import standard
from quadsim.wire.damaged import decoded
from quadsim.wire.decode import Block, decode
from quadsim.wire.samples import heading_of

Rows = NDArray[np.float64]

GPS_FIX, GPS_VELOCITY, FIELD, RANGE_DOWN = "gps/fix", "gps/vel", "imu/mag", "range/down"
FLOW = "flow/down"
#: So many messages of a sensor are looked at: two minutes of a receiver at 5 Hz.
MESSAGES = 600
#: Fixes further apart, or fewer, do not tell how much of their error is white.
FURTHEST_S, FEWEST = 1.0, 50
#: No variance is larger, SI; negative ones are as good as unknown.
MOST_VARIANCE = 1e12
#: Variances of a twist's linear part in its row-major (6, 6) covariance.
_DIAGONAL = (0, 7, 14)
#: Median of a chi-square variable of one degree of freedom.
MEDIAN = 0.4549


def heard_of(bag: Bag, namespace: str, datum: Datum | None) -> Heard:
    """What a bag tells.

    Args:
        datum: origin of ``map``, where it is known.
    """
    blocks = {
        name: _block(bag, topic(namespace, name), type_name, 1)
        for name, (type_name, kind, _) in SENSORS.items()
        if kind != EXTERNAL_POSITION
    }
    first = {name: block for name, block in blocks.items() if block is not None}
    fixes = _rows(bag, namespace, GPS_FIX)
    velocities = _rows(bag, namespace, GPS_VELOCITY)
    field = _rows(bag, namespace, FIELD)
    place = datum
    if place is None and fixes is not None:
        place = Datum(*map(float, fixes[1][0]))
    return Heard(
        place=place,
        date_year=_date_year(bag, namespace, first),
        has_field=field is not None,
        field_strength_T=0.0
        if field is None
        else float(np.median(np.linalg.norm(field[1], axis=1))),
        has_range=RANGE_DOWN in first,
        has_pose=any(
            bag.counts.get(topic(namespace, name))
            for name, (_, kind, _) in SENSORS.items()
            if kind == EXTERNAL_POSITION
        ),
        has_flow=FLOW in first,
        has_odometry="odometry/visual" in first,
        fix_sigma_m=None if fixes is None else _sigma_m(fixes[2]),
        correlated_share=_correlated_share(fixes, velocities),
        without_covariance=[
            KINDS[SENSORS[name][1]]
            for name, block in first.items()
            if SENSORS[name][1] < IMU_1 and not np.any(SENSORS[name][2](block)[-1])
        ],
    )


def _block(bag: Bag, full: str, type_name: str, count: int) -> Block | None:
    """The first messages of a topic that make sense; None without any."""
    if not bag.counts.get(full) or bag.types[full] != type_name:
        return None
    payloads = [message.payload for message in islice(bag.messages([full]), count)]
    return decoded(partial(decode, type_name), payloads).good if payloads else None


def _rows(bag: Bag, namespace: str, name: str) -> tuple[NDArray[np.int64], Rows, Rows] | None:
    """Stamps, (N, 3) values and (N, K) covariances of the first messages; None without any."""
    type_name, _, numbers = SENSORS[name]
    block = _block(bag, topic(namespace, name), type_name, MESSAGES)
    if block is None:
        return None
    values, covariance = numbers(block)
    good = np.isfinite(values).all(axis=1)
    if not good.any():
        return None
    known = np.nan_to_num(covariance[good].astype(float)).clip(0.0, MOST_VARIANCE)
    return block.stamp_ns[good], values[good], known


def _date_year(bag: Bag, namespace: str, first: dict[str, Block]) -> float | None:
    """Date of the stamps, else of the recording."""
    for block in first.values():
        year = date_year_of(int(block.stamp_ns[0]))
        if year is not None:
            return year
    with suppress(KeyError, ValueError):
        return date_year_of(int(datetime.fromisoformat(bag.custom[RECORDED]).timestamp() * 1e9))
    recorded = next(bag.messages([topic(namespace, IMU)]), None)
    return None if recorded is None else date_year_of(recorded.log_ns)


def _sigma_m(covariance: Rows) -> float:
    """Horizontal deviation of a fix by its own account, median; infinite: it gives none."""
    sigma = np.sqrt(0.5 * (covariance[:, 0] + covariance[:, 4]))
    return float(np.median(sigma)) or float("inf")


def _correlated_share(
    fixes: tuple[NDArray[np.int64], Rows, Rows] | None,
    velocities: tuple[NDArray[np.int64], Rows, Rows] | None,
) -> float | None:
    """Share of a fix's variance that the next fix still has; None: the messages do not tell.

    From one fix to the next the position changes by the velocity, which the receiver measures too.
    What is left has twice the variance of the white part. By the median of the squares, which does
    not see how a hard turn bends the path between two fixes.
    """
    if fixes is None or velocities is None or len(fixes[0]) < FEWEST:
        return None
    stamp_ns, geodetic, covariance = fixes
    variance = covariance[1:, (0, 4, 8)]
    dt_s = np.diff(stamp_ns) * 1e-9
    good = (dt_s > 0.0) & (dt_s < FURTHEST_S) & (variance > 0.0).all(axis=1)
    if good.sum() < FEWEST:
        return None
    datum = Datum(*map(float, geodetic[0]))
    moved = np.diff([datum.to_enu(*map(float, point)) for point in geodetic], axis=0)
    t_s = (stamp_ns - stamp_ns[0]) * 1e-9
    known_s = (velocities[0] - stamp_ns[0]) * 1e-9
    v_W = columns_at(t_s, known_s, velocities[1])
    left = moved - 0.5 * (v_W[1:] + v_W[:-1]) * dt_s[:, None]
    of_velocity = 0.5 * np.median(velocities[2][:, _DIAGONAL], axis=0) * dt_s[:, None] ** 2
    squares = left[good] ** 2 / MEDIAN
    white = np.median((squares - of_velocity[good]) / (2.0 * variance[good]), axis=0)
    return float(np.clip(1.0 - white.mean(), 0.0, 1.0))


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
