"""What the smoother gives out, and how it follows a start back to the flight's first sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, Vector, kernel
from quadsim.base.parameters import dtype_of
from quadsim.base.records import Odometry
from quadsim.estimation.eskf.driver import triple
from quadsim.estimation.eskf.layout import BA, BG, Eskf
from quadsim.estimation.eskf.measurement_buffer import IMU, Event
from quadsim.estimation.eskf.mechanisation import known_noise, mechanise
from quadsim.estimation.eskf.outputs import eskf_odometry
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.propagation import propagate
from quadsim.geometry.rotation import quat, rotate, to_matrix
from quadsim.geometry.vector import scale, store, subtract, vec3
from quadsim.world.earth.gravity import gravity_at

#: Size of the part of the error state that is given out: attitude, velocity, position, both biases.
CORE = 15
#: How far a start is followed back with the IMU alone.
BACK_S = 5.0


class SmoothedState(Record):
    """Smoothed estimate at one IMU sample.

    ``odometry`` is that of ``base_link``, with variances; the biases are along the IMU's axes;
    ``piece`` rises with each start and recovery of the filter.
    """

    odometry: Odometry
    gyro_bias_S: Vector
    accel_bias_S: Vector
    gyro_bias_variance: Vector
    accel_bias_variance: Vector
    piece: int


SMOOTHED = dtype_of(SmoothedState)


class Flight(NamedTuple):
    """A flight's events, and its smoothed states, one for each IMU sample.

    Attributes:
        events: (K,) EVENT in the order of their stamps.
        rows: (K,) of each event that is an IMU sample its place among those.
        out: (M,) SMOOTHED.
        covariances: (M, 15, 15) of the error state at the IMU, or (0, 15, 15): not wanted.
    """

    events: Records[Event]
    rows: NDArray[np.int64]
    out: Records[SmoothedState]
    covariances: Array


@kernel
def give_out(state: Eskf, params: EstimatorParams, event: int, flight: Flight) -> None:
    """Write a smoothed state down, at an IMU sample.

    Whether the time offset of GNSS counts is decided once for the whole flight. Here it is a state
    like others, or none.
    """
    row, covariances = flight.rows[event], flight.covariances
    smoothed = flight.out[row]
    state.gnss_time_counts = 1
    eskf_odometry(state, params, smoothed.odometry)
    for i in range(3):
        smoothed.gyro_bias_S[i] = state.gyro_bias_S[i]
        smoothed.accel_bias_S[i] = state.accel_bias_S[i]
        smoothed.gyro_bias_variance[i] = state.covariance[BG + i, BG + i]
        smoothed.accel_bias_variance[i] = state.covariance[BA + i, BA + i]
    smoothed.piece = state.starts + state.recoveries
    if covariances.shape[0] > 0:
        for i in range(CORE):
            for k in range(CORE):
                covariances[row, i, k] = state.covariance[i, k]


@kernel
def run_back(state: Eskf, params: EstimatorParams, i: int, flight: Flight) -> None:
    """Follow a smoothed start back with the IMU alone, as far as its samples have no gap.

    The mechanisation and its covariance's shears are undone by a step of -dt; noise adds up.

    Args:
        state: smoothed, in the interval of the IMU sample ``i`` or at its end; changed.
        params: packed EstimatorParams.
        i: the IMU sample with which, or before which, the filter started.
        flight: the flight.
    """
    covariance, events = state.covariance, flight.events
    start_ns = state.stamp_ns
    j = i - 1
    while True:
        while j >= 0 and events[j].kind != IMU:
            j -= 1
        if j < 0:
            return
        dt_s = (state.stamp_ns - events[j].stamp_ns) * 1e-9
        if dt_s > 1.5 * state.period_s or (start_ns - events[j].stamp_ns) * 1e-9 > BACK_S:
            return
        values = events[i].values
        f_variance, w_variance = known_noise(state, params, triple(values, 6), triple(values, 9))
        f_S = subtract(triple(values, 0), vec3(state.accel_bias_S))
        w_S = subtract(triple(values, 3), vec3(state.gyro_bias_S))
        gravity_mps2 = gravity_at(params, state.p_W[2] - 0.5 * dt_s * state.v_W[2])
        p_W, v_W, q_WS, q_mid, f_W = mechanise(
            vec3(state.p_W), vec3(state.v_W), quat(state.q_WS), f_S, w_S, gravity_mps2, -dt_s
        )
        for k in range(BG, state.n):
            state.correction[k] = covariance[k, k]
        propagate(
            covariance, state.n, to_matrix(q_mid), f_W, rotate(q_mid, scale(-dt_s, w_S)), -dt_s,
            scale(dt_s * dt_s, w_variance), scale(dt_s * dt_s, f_variance), params.noise,
        )  # fmt: skip
        for k in range(BG, state.n):  # a walk adds its variance whichever way the time goes
            covariance[k, k] = 2.0 * state.correction[k] - covariance[k, k]
        store(state.p_W, p_W)
        store(state.v_W, v_W)
        store(state.q_WS, q_WS)
        store(state.w_S, triple(events[j].values, 3))
        state.stamp_ns = events[j].stamp_ns
        i = j
        j -= 1
        give_out(state, params, i, flight)
