"""What the messages of a bag tell of the sensors, apart from their measurements."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.logs.log_file import RECORDED
from quadsim.bag.measurements import SENSORS
from quadsim.bag.reading import Bag
from quadsim.bag.topics import IMU, topic
from quadsim.estimation.assumptions import Heard, date_year_of
from quadsim.estimation.eskf.layout import EXTERNAL_POSITION
from quadsim.estimation.eskf.measurement_buffer import IMU_1, KINDS
from quadsim.geometry.geodesy import Datum
from quadsim.wire.damaged import decoded
from quadsim.wire.decode import Block, decode

GPS_FIX, GPS_VELOCITY, FIELD, RANGE = "gps/fix", "gps/vel", "imu/mag", "range/down"
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

Rows = NDArray[np.float64]


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
        field_strength_T=0.0 if field is None else _strength_T(field[1]),
        has_range=RANGE in first,
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


def _strength_T(m_S: Rows) -> float:
    """Strength of a field, median."""
    return float(np.median(np.linalg.norm(m_S, axis=1)))


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
    v_W = np.stack([np.interp(t_s, known_s, column) for column in velocities[1].T], axis=1)
    left = moved - 0.5 * (v_W[1:] + v_W[:-1]) * dt_s[:, None]
    of_velocity = 0.5 * np.median(velocities[2][:, _DIAGONAL], axis=0) * dt_s[:, None] ** 2
    squares = left[good] ** 2 / MEDIAN
    white = np.median((squares - of_velocity[good]) / (2.0 * variance[good]), axis=0)
    return float(np.clip(1.0 - white.mean(), 0.0, 1.0))
