"""The smoother's backward pass: the adjoint of the filter's steps, after Bryson and Frazier.

With the filter's estimate x, P at some time and the adjoint variables l (N,) and L (N, N) there,
which hold what all later measurements say, the smoothed estimate is x - P l with the covariance
P - P L P. Back over a prediction with transition F they go as F^T l and F^T L F, free of an inverse
(Bierman, *Fixed interval smoothing with discrete measurements*, Int. J. Control 18, 1973). Over
measurements the smoothed estimate is the same before and after, which gives l and L before them
from that estimate and the filter's covariance there.

What the smoother gives out, and how it follows a start back to the flight's first sample.

The smoother's forward pass: the filter over a whole flight in the order of the stamps.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Records, Vector, kernel
from quadsim.base.parameters import Vec3, dtype_of
from quadsim.base.records import Odometry
from quadsim.estimation.eskf.covariance import (
    crossed,
    less,
    scaled,
    shear,
    shear_scalar,
    skew,
    turn_errors,
    turn_fixed_errors,
)
from quadsim.estimation.eskf.driver import (
    AGE,
    BEGIN,
    FUSE,
    JOIN,
    PREDICT,
    StepLog,
    imu_input,
    log_state,
    process,
    triple,
)
from quadsim.estimation.eskf.layout import (
    ANTENNA,
    BA,
    BG,
    FIELD,
    FIELD_BIAS,
    FLOW_SCALE,
    FRAME,
    FRAME_SCALE,
    FRAME_YAW,
    GNSS_BIAS,
    GNSS_TIME,
    PRESSURE,
    PRESSURE_SCALE,
    TERRAIN,
    THETA,
    WIND,
    ErrorState,
    Eskf,
    N,
    P,
    V,
)
from quadsim.estimation.eskf.measurement_buffer import IMU, NEVER_NS, Buffer, Input
from quadsim.estimation.eskf.mechanisation import ImuInput, known_noise, mechanise
from quadsim.estimation.eskf.outputs import eskf_odometry, transpose
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.eskf.propagation import propagate
from quadsim.estimation.eskf.update import move_state
from quadsim.geometry.rotation import Mat3, apply, conjugate, log, multiply, quat, rotate, to_matrix
from quadsim.geometry.vector import cross, dot, scale, store, subtract, vec3
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


class SmoothedFlight(NamedTuple):
    """A flight's events, and its smoothed states, one for each IMU sample.

    Attributes:
        events: (K,) EVENT in the order of their stamps.
        rows: (K,) of each event that is an IMU sample its place among those.
        out: (M,) SMOOTHED.
        covariances: (M, 15, 15) of the error state at the IMU, or (0, 15, 15): not wanted.
    """

    events: Records[Input]
    rows: NDArray[np.int64]
    out: Records[SmoothedState]
    covariances: Array


@kernel
def give_out(state: Eskf, params: EstimatorParams, event: int, flight: SmoothedFlight) -> None:
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
def run_back(state: Eskf, params: EstimatorParams, i: int, flight: SmoothedFlight) -> None:
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
        imu = imu_input(state, params, events[i].values)
        f_variance, w_variance = known_noise(state, params, imu.f_variance, imu.w_variance)
        f_S = subtract(imu.f_S, vec3(state.accel_bias_S))
        w_S = subtract(imu.w_S, vec3(state.gyro_bias_S))
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


@kernel
def drain(lines: Records[Buffer], store: Records[Input], at: int) -> int:
    """Move what a line has accepted into a store, and leave the line without a past.

    Returns:
        How many events there were.
    """
    line = lines[0]
    count = line.count
    for i in range(count):
        store[at + i] = line.events[i]
    line.count = 0
    line.newest_imu_ns = NEVER_NS
    return count


@kernel
def forward(
    lines: Records[Buffer],
    events: Records[Input],
    first: int,
    last: int,
    log: StepLog,
    logs_steps: int,
) -> int:
    """Run the filter over a part of the flight that ends with an IMU sample, or with the flight.

    Args:
        lines: (1,) TIMELINE.
        events: (K,) EVENT in the order of their stamps, of equal ones the IMU first.
        first: index of the part's first event.
        last: index behind its last one.
        log: see :func:`~quadsim.estimation.eskf.driver.process`.
        logs_steps: 1: they are written.

    Returns:
        How many states were logged.
    """
    line = lines[0]
    line.logs_steps, line.step_count = logs_steps, 0
    if line.state.running == 1:
        log_state(line, JOIN, -1, 0.0, log)
    process(line, events, first, last, log)
    line.logs_steps = 0
    return line.step_count


#: A pivot of a correlation matrix so small is nothing but rounding.
SINGULAR = 1e-13

Square = Annotated[Array, N, N]


class Adjoint(Record):
    """The adjoint, and the working memory of the backward pass."""

    vector: ErrorState
    matrix: Square
    state: Eskf  # smoothed
    error: ErrorState
    scaling: ErrorState
    inverse: Square
    product: Square
    work: Square


ADJOINT = dtype_of(Adjoint)


@kernel
def product_of(A: Array, B: Array, rows: int, n: int, out: Array) -> None:
    """First rows of the product of two (n, n) matrices."""
    for i in range(rows):
        for k in range(n):
            out[i, k] = 0.0
        for j in range(n):
            a = A[i, j]
            if a != 0.0:
                for k in range(n):
                    out[i, k] += a * B[j, k]


@kernel
def difference(a: Eskf, b: Eskf, out: Array) -> None:
    """Error state of b whose truth is a: what ``move_state`` would add to b to make a of it."""
    store(out[THETA : THETA + 3], log(multiply(quat(a.q_WS), conjugate(quat(b.q_WS)))))
    for i in range(3):
        out[V + i] = a.v_W[i] - b.v_W[i]
        out[P + i] = a.p_W[i] - b.p_W[i]
        out[BG + i] = a.gyro_bias_S[i] - b.gyro_bias_S[i]
        out[BA + i] = a.accel_bias_S[i] - b.accel_bias_S[i]
        out[GNSS_BIAS + i] = a.gnss_bias_W[i] - b.gnss_bias_W[i]
        out[FIELD_BIAS + i] = a.field_bias_S_T[i] - b.field_bias_S_T[i]
        out[ANTENNA + i] = a.antenna_S[i] - b.antenna_S[i]
        out[FIELD + i] = a.field_W_T[i] - b.field_W_T[i]
    out[PRESSURE] = a.pressure_offset_m - b.pressure_offset_m
    out[PRESSURE_SCALE] = a.pressure_scale - b.pressure_scale
    out[GNSS_TIME] = a.gnss_time_s - b.gnss_time_s
    out[TERRAIN] = a.terrain_height_m - b.terrain_height_m
    for i in range(2):
        out[WIND + i] = a.wind_W_mps[i] - b.wind_W_mps[i]
    out[FLOW_SCALE] = a.flow_scale - b.flow_scale
    for i in range(3):
        out[FRAME + i] = a.frame_p_W[i] - b.frame_p_W[i]
    out[FRAME_YAW] = a.frame_yaw - b.frame_yaw
    out[FRAME_SCALE] = a.frame_scale - b.frame_scale


@kernel
def shear_vector(vector: Array, to: int, source: int, A: Mat3) -> None:
    """x[to:to+3] += A x[source:source+3]."""
    more = apply(A, triple(vector, source))
    for i in range(3):
        vector[to + i] += more[i]


@kernel
def back_over_shear(adjoint: Adjoint, n: int, to: int, source: int, A: Mat3) -> None:
    """Adjoint before x[to:to+3] += A x[source:source+3]."""
    shear_vector(adjoint.vector, source, to, transpose(A))
    shear(adjoint.matrix, n, source, to, transpose(A))


@kernel
def back_over_shear_scalar(adjoint: Adjoint, n: int, to: int, source: int, factor: float) -> None:
    """Adjoint before x[to:to+3] += factor x[source:source+3]."""
    for i in range(3):
        adjoint.vector[source + i] += factor * adjoint.vector[to + i]
    shear_scalar(adjoint.matrix, n, source, to, factor)


@kernel
def back_over_transition(
    adjoint: Adjoint, n: int, R_WS: Mat3, f_W: Vec3, turn_W: Vec3, dt_s: float
) -> None:
    """Adjoint before a prediction: the shears of ``propagate``, transposed, the last one first.

    Args:
        adjoint: ADJOINT record.
        n: size of the part of the error state that is carried.
        R_WS: attitude in the middle of the step.
        f_W: specific force in the world, m/s^2.
        turn_W: rotation of the step, rad.
        dt_s: its length.
    """
    half_s = 0.5 * dt_s
    step = scaled(-half_s, R_WS)
    quarter = crossed((0.25 * turn_W[0], 0.25 * turn_W[1], 0.25 * turn_W[2]), step)
    back_over_shear_scalar(adjoint, n, P, V, half_s)
    back_over_shear(adjoint, n, THETA, BG, less(step, scaled(-1.0, quarter)))
    back_over_shear(adjoint, n, V, BA, scaled(-dt_s, R_WS))
    back_over_shear(adjoint, n, V, THETA, skew((-dt_s * f_W[0], -dt_s * f_W[1], -dt_s * f_W[2])))
    back_over_shear(adjoint, n, THETA, BG, less(step, quarter))
    back_over_shear_scalar(adjoint, n, P, V, half_s)


@kernel
def back_over_prediction(adjoint: Adjoint, before: Eskf, imu: ImuInput, dt_s: float) -> None:
    """Adjoint before the step that an IMU sample took from the state ``before``."""
    f_S = subtract(imu.f_S, vec3(before.accel_bias_S))
    w_S = subtract(imu.w_S, vec3(before.gyro_bias_S))
    _, _, _, q_mid, f_W = mechanise(
        vec3(before.p_W), vec3(before.v_W), quat(before.q_WS), f_S, w_S, 0.0, dt_s
    )
    turn_W = rotate(q_mid, scale(dt_s, w_S))
    back_over_transition(adjoint, before.n, to_matrix(q_mid), f_W, turn_W, dt_s)


@kernel
def invert(adjoint: Adjoint, covariance: Array, n: int, set_anew: NDArray[np.int64]) -> None:
    """Inverse of a covariance into ``adjoint.inverse``, by Cholesky's factor of the correlations.

    States that are known exactly or about to be set anew are left out: their rows and columns are
    zero, as are those that depend wholly on others.
    """
    size, L, inverse = adjoint.scaling, adjoint.product, adjoint.inverse
    for i in range(n):
        variance = covariance[i, i]
        size[i] = 1.0 / math.sqrt(variance) if variance > 0.0 and set_anew[i] == 0 else 0.0
    for i in range(n):
        for k in range(i + 1):
            total = size[i] * covariance[i, k] * size[k]
            for j in range(k):
                total -= L[i, j] * L[k, j]
            if i != k:
                L[i, k] = total * L[k, k]
            else:  # the diagonal holds its inverse
                L[i, i] = 1.0 / math.sqrt(total) if total > SINGULAR else 0.0
    # inverse of L, row by row, into work; then L^-T L^-1
    work = adjoint.work
    for i in range(n):
        for k in range(n):
            work[i, k] = 0.0
        for j in range(i):
            a = L[i, j]
            if a != 0.0:
                for k in range(j + 1):
                    work[i, k] -= a * work[j, k]
        for k in range(i):
            work[i, k] *= L[i, i]
        work[i, i] = L[i, i]
    for i in range(n):
        for k in range(n):
            inverse[i, k] = 0.0
    for j in range(n):
        for i in range(j + 1):
            a = work[j, i] * size[i]
            if a != 0.0:
                for k in range(j + 1):
                    inverse[i, k] += a * work[j, k] * size[k]


@kernel
def inverse_of(A: Mat3) -> Mat3:
    """Inverse of a matrix that is near a rotation."""
    a, b, c = A
    x, y, z = cross(b, c), cross(c, a), cross(a, b)
    factor = 1.0 / dot(a, x)
    return scaled(factor, ((x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])))


@kernel
def back_over_measurements(adjoint: Adjoint, before: Eskf, after: Eskf) -> None:
    """Adjoint before measurements from that after them.

    The nominal state is composed on the rotations. Where the filter has rotated the covariance with
    its corrections (:func:`~quadsim.estimation.eskf.update.correct_state`), it is rotated back.
    """
    n = after.n
    smooth_state(adjoint, after)
    difference(adjoint.state, before, adjoint.error)
    invert(adjoint, before.covariance, n, after.set_anew)
    inverse, work = adjoint.inverse, adjoint.work
    product_of(after.covariance, adjoint.matrix, n, n, adjoint.product)
    product_of(adjoint.product, after.covariance, n, n, work)
    for i in range(n):
        for k in range(n):
            work[i, k] -= after.covariance[i, k]
    if n > FIELD:
        shear(work, n, FIELD, THETA, skew(vec3(after.followed_T)))
    rotated, back_S = after.turned, after.turned_S.T
    back = inverse_of((vec3(rotated[0]), vec3(rotated[1]), vec3(rotated[2])))
    turn_errors(work, n, THETA, back)
    turn_fixed_errors(work, n, (vec3(back_S[0]), vec3(back_S[1]), vec3(back_S[2])))
    for i in range(n):
        for k in range(n):
            work[i, k] += before.covariance[i, k]
    product_of(inverse, work, n, n, adjoint.product)
    product_of(adjoint.product, inverse, n, n, adjoint.matrix)
    for i in range(n):
        total = 0.0
        for k in range(n):
            total -= inverse[i, k] * adjoint.error[k]
        adjoint.vector[i] = total
        for k in range(i):
            mean = 0.5 * (adjoint.matrix[i, k] + adjoint.matrix[k, i])
            adjoint.matrix[i, k] = mean
            adjoint.matrix[k, i] = mean


@kernel
def back_over_ageing(adjoint: Adjoint, n: int, decay: float) -> None:
    """Adjoint before the correlated error of GNSS positions decayed."""
    if decay == 1.0:
        return
    for i in range(GNSS_BIAS, GNSS_BIAS + 3):
        adjoint.vector[i] *= decay
        for k in range(n):
            adjoint.matrix[i, k] *= decay
        for k in range(n):
            adjoint.matrix[k, i] *= decay


@kernel
def back_over_way(adjoint: Adjoint, before: Eskf, after: Eskf) -> None:
    """Adjoint before the place that an odometry knows moved: ``move_frame``, transposed."""
    n, vector, matrix = after.n, adjoint.vector, adjoint.matrix
    dt_s = (after.odometry_ns - before.odometry_ns) * 1e-9
    way_W = scale(dt_s, vec3(after.v_W))
    for at, a in ((FRAME_SCALE, way_W), (FRAME_YAW, (-way_W[1], way_W[0], 0.0))):
        vector[at] += dot(a, triple(vector, FRAME))
        for k in range(n):
            for i in range(3):
                matrix[at, k] += a[i] * matrix[FRAME + i, k]
        for k in range(n):
            for i in range(3):
                matrix[k, at] += a[i] * matrix[k, FRAME + i]


@kernel
def smooth_state(adjoint: Adjoint, point: Eskf) -> None:
    """Smoothed nominal state into ``adjoint.state``; its covariance is still the filter's."""
    state = adjoint.state
    adjoint.state = point
    state.correction[:] = 0.0
    for i in range(point.n):
        total = 0.0
        for k in range(point.n):
            total -= point.covariance[i, k] * adjoint.vector[k]
        state.correction[i] = total
    move_state(state)


@kernel
def smooth_covariance(adjoint: Adjoint, point: Eskf) -> None:
    """Smoothed covariance of attitude, velocity, position and biases into ``adjoint.state``."""
    covariance, product = point.covariance, adjoint.product
    smoothed = adjoint.state.covariance
    product_of(covariance, adjoint.matrix, CORE, point.n, product)
    for i in range(CORE):
        for j in range(point.n):
            a = product[i, j]
            for k in range(i + 1):
                smoothed[i, k] -= a * covariance[j, k]
        for k in range(i):
            smoothed[k, i] = smoothed[i, k]


@kernel
def backward(
    adjoints: Records[Adjoint],
    lines: Records[Buffer],
    flight: SmoothedFlight,
    log: StepLog,
    count: int,
) -> None:
    """Smooth one part of the flight.

    Args:
        adjoints: (1,) ADJOINT at the part's end; afterwards at its beginning.
        lines: (1,) TIMELINE, for its parameters.
        flight: its events, and where the smoothed states go.
        log: the states and steps.
        count: how many there are.
    """
    adjoint, params = adjoints[0], lines[0].params
    for k in range(count - 1, -1, -1):
        point, step = log.points[k], log.steps[k]
        if step.given >= 0 or step.kind == BEGIN:
            smooth_state(adjoint, point)
            smooth_covariance(adjoint, point)
        if step.given >= 0:
            give_out(adjoint.state, params, step.given, flight)
        if step.kind == BEGIN:
            if step.event >= 0:
                run_back(adjoint.state, params, step.event, flight)
            adjoint.vector[:] = 0.0
            adjoint.matrix[:, :] = 0.0
        elif step.kind == PREDICT:
            before = log.points[k - 1]
            imu = imu_input(before, params, flight.events[step.event].values)
            back_over_prediction(adjoint, before, imu, step.dt_s)
        elif step.kind == AGE:
            back_over_ageing(adjoint, point.n, step.decay)
            if point.odometry_ns > log.points[k - 1].odometry_ns > 0:
                back_over_way(adjoint, log.points[k - 1], point)
        elif step.kind == FUSE:
            back_over_measurements(adjoint, log.points[k - 1], point)
