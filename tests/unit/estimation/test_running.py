"""Estimators that take messages in blocks: their innovations, whatever the order of arrival."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.estimation import ESTIMATORS, EstimatorParams
from quadsim.estimation.eskf.layout import (
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    STATIC_PRESSURE,
)
from quadsim.estimation.eskf.measurement_buffer import IMU
from quadsim.estimation.messages import Column, Messages
from quadsim.estimation.running import Running
from quadsim.geometry.geodesy import Datum
from quadsim.world.air.atmosphere import pressure_at

START_NS, PERIOD_NS, COUNT = 1_000_000_000, 10_000_000, 500
PARAMS = EstimatorParams()


def at_rest(late_s: float) -> Messages:
    """A vehicle at rest, its measurements with noise, a third of them late by up to a time."""
    rng, delays = np.random.default_rng(1), np.random.default_rng(2)
    stamps_ns = START_NS + PERIOD_NS * np.arange(COUNT)
    identity, wide = np.eye(3).ravel(), np.eye(6).ravel()
    rest = np.concatenate([[0.0, 0.0, PARAMS.gravity_mps2], np.zeros(3), 1e-4 * identity])
    columns = [Column(IMU, stamps_ns, stamps_ns, np.tile([*rest, *(1e-6 * identity)], (COUNT, 1)))]
    fix = Datum().to_geodetic((0.0, 0.0, 0.0))
    for kind, every, mean, sigma, covariance in (
        (GNSS_POSITION, 20, fix, (1e-6, 1e-6, 0.5), identity),
        (GNSS_VELOCITY, 20, np.zeros(3), np.full(3, 0.1), 0.01 * wide),
        (MAGNETIC_FIELD, 5, PARAMS.magnetic_field_W_T, np.full(3, 1e-7), 1e-14 * identity),
        (STATIC_PRESSURE, 7, [pressure_at(500.0)], [6.0], [36.0]),
    ):
        of_it = stamps_ns[every::every] - 3_000_000
        values = mean + rng.normal(size=(len(of_it), len(sigma))) * sigma
        numbers = np.hstack([values, np.tile(covariance, (len(of_it), 1))])
        late = delays.random(len(of_it)) < 0.3
        place = of_it + late * delays.uniform(0.0, late_s * 1e9, len(of_it))
        columns.append(Column(kind, place, of_it, numbers))
    return Messages.of(columns)


def innovations(messages: Messages, blocks: int) -> NDArray[Any]:
    """All innovations, by sensor and stamp."""
    running = Running(ESTIMATORS["eskf"](PARAMS, Datum()))
    found = [
        running.take(messages[rows]).innovations
        for rows in np.array_split(np.arange(len(messages)), blocks)
    ]
    rows = np.concatenate([*found, running.newest()])
    return rows[np.lexsort((rows["stamp_ns"], rows["sensor"]))]


def test_late_messages_give_the_innovations_of_the_same_in_order() -> None:
    """To the bit, and each one once: what the filter judged before it went back is not kept."""
    ordered = innovations(at_rest(0.0), 1)
    assert np.bincount(ordered["sensor"])[STATIC_PRESSURE] > 40
    assert (np.diff(ordered["stamp_ns"])[np.diff(ordered["sensor"]) == 0] > 0).all()
    np.testing.assert_array_equal(innovations(at_rest(0.3), 7), ordered)
