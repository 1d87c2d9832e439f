"""What a vehicle file leaves of a recorded flight: force, torque, and errors of predicted motions.

Motions are predicted from many starts on, under the torque that acts besides what the file states,
as it is seen before a start. A constant goes on: a battery that lies off the centre, a bent
propeller. What differs from it fades, by the file's ``recorder.torque_memory``: an autoregression
of means over short blocks (G. E. P. Box and G. M. Jenkins, *Time series analysis*, 1970), which is
the best linear prediction if the flights it was found in are like this one. An estimator in flight
carries such states, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import companion, solve_toeplitz
from scipy.signal import butter, sosfiltfilt

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.lab.validate.kernels import make_model, predicted, wrenches
from quadsim.lab.validate.recorded import RecordedFlight, turn
from quadsim.vehicle.parameters import TORQUE_STEPS, VehicleParams


@dataclass(frozen=True)
class Wrench:
    """Force and torque on the vehicle, measured and as its file states, at N times.

    Attributes:
        force, torque: (N, 3) measured minus modelled, body axes, N and N m.
        rows: (N,) places on the flight's grid.
    """

    force: Array
    torque: Array
    rows: NDArray[np.intp]


def wrench_of(flight: RecordedFlight, vehicle: VehicleParams, gravity_mps2: float) -> Array:
    """(N, 6) force in N and torque in N m that a vehicle's file states of a whole flight."""
    out = np.zeros((len(flight), 6))
    model = make_model(vehicle, gravity_mps2)
    air_B = np.ascontiguousarray(flight.v_B)
    wrenches(model, flight.speed, flight.speed_dot, air_B, flight.w_B, out)
    return out


def residual_wrench(flight: RecordedFlight, vehicle: VehicleParams, gravity_mps2: float) -> Wrench:
    """What the vehicle's file leaves of the force and the torque of a flight."""
    modelled = wrench_of(flight, vehicle, gravity_mps2)
    inertia = vehicle.inertia_tensor_kg_m2
    w_B = flight.w_B
    torque = flight.w_dot_B @ inertia + np.cross(w_B, w_B @ inertia)
    r_B = np.array(vehicle.recorder.imu_position_B_m)
    lever = np.cross(flight.w_dot_B, r_B) + np.cross(w_B, np.cross(w_B, r_B))
    rope_B = _rope_force(flight, vehicle, gravity_mps2)
    there = modelled[:, :3] + vehicle.mass_kg * lever + rope_B
    force = vehicle.mass_kg * flight.f_B - as_logged(flight, there)
    torque -= np.cross(vehicle.load.attachment_B_m, rope_B)
    good = flight.free & np.isfinite(torque).all(axis=1)
    rows = np.flatnonzero(good)
    return Wrench(force[rows], (torque - modelled[:, 3:])[rows], rows)


def as_logged(flight: RecordedFlight, force_B: Array) -> Array:
    """(N, 3) what the log has of a force in N, body axes.

    Poses that were differentiated twice, in the world's axes and with a low-pass (Butterworth of
    second order, forwards and backwards) each time, show it without its quick part.
    """
    cutoff_hz = flight.recorder.specific_force_cutoff_hz
    if cutoff_hz <= 0.0:
        return force_B
    low_pass = butter(2, cutoff_hz, fs=1.0 / flight.dt_s, output="sos")
    attitude = turn(flight.q_WB)
    force_W = attitude.apply(force_B)
    for _ in range(2):
        force_W = sosfiltfilt(low_pass, force_W, axis=0)
    return np.asarray(attitude.apply(force_W, inverse=True))


def _rope_force(flight: RecordedFlight, vehicle: VehicleParams, gravity_mps2: float) -> Array:
    """(N, 3) force in N of a slung load's rope on the vehicle, by the load's own motion."""
    if vehicle.load.mass_kg <= 0.0 or not np.isfinite(flight.load).all():
        return np.zeros((len(flight), 3))
    a_W = np.gradient(flight.load[:, 3:], flight.dt_s, axis=0)
    pull_W = -vehicle.load.mass_kg * (a_W + np.array([0.0, 0.0, gravity_mps2]))
    return np.asarray(turn(flight.q_WB).apply(pull_W, inverse=True))


Places = NDArray[np.intp]

#: Length of a block over which the torque is averaged, s.
BLOCK_S = 0.02


def observed_torque(
    flight: RecordedFlight, wrench: Wrench, first: Places, before_s: float
) -> Array:
    """(K, 3) mean torque in N m that the file left unexplained in the time before each start.

    It is what an observer in flight knows at the start. Nothing behind the start counts.
    """
    if before_s <= 0.0:
        return np.zeros((len(first), 3))
    seen = np.zeros((len(flight) + 1, 4))
    seen[1 + wrench.rows, :3], seen[1 + wrench.rows, 3] = wrench.torque, 1.0
    sums = np.cumsum(seen, axis=0)
    begin = np.maximum(first - round(before_s / flight.dt_s), 0)
    found = sums[first] - sums[begin]
    least = 0.3 * before_s / flight.dt_s
    return np.where(found[:, 3:] > least, found[:, :3] / np.maximum(found[:, 3:], 1.0), 0.0)


def block_of(flight: RecordedFlight) -> int:
    """Steps of a flight's grid in a block."""
    return max(1, round(BLOCK_S / flight.dt_s))


def _means_before(
    flight: RecordedFlight, vehicle: VehicleParams, wrench: Wrench, first: Places, count: int
) -> Array:
    """(K, count, 3) mean torques in N m of the blocks before each start, the last one first.

    Angular accelerations are differences of the rates, of which the last are those at the start, so
    that nothing behind it counts. NaN where the flight is not free.
    """
    inertia, block = vehicle.inertia_tensor_kg_m2, block_of(flight)
    rest = np.full((len(flight), 3), np.nan)
    rest[wrench.rows] = wrench.torque - flight.w_dot_B[wrench.rows] @ inertia
    bad = np.isnan(rest).any(axis=1)
    sums = np.cumsum(np.vstack([np.zeros(3), np.nan_to_num(rest)]), axis=0)
    gaps = np.cumsum(np.r_[0, bad])
    end = first[:, None] - block * np.arange(count)
    begin, end = np.maximum(end - block, 0), np.maximum(end, block)
    rotated = (flight.w_B[end] - flight.w_B[begin]) @ inertia / flight.dt_s
    means = (sums[end] - sums[begin] + rotated) / block
    known = (first[:, None] >= block * np.arange(1, count + 1)) & (gaps[end] == gaps[begin])
    return np.where(known[..., None], means, np.nan)


def acting_torque(
    flight: RecordedFlight,
    vehicle: VehicleParams,
    wrench: Wrench,
    first: Places,
    before_s: float,
    steps: int,
) -> Array:
    """(K, n, 3) torque in N m that acts besides in each block from the starts on.

    Args:
        vehicle: for its inertia and its memory; without one there is one block, which goes on.
        wrench: what the vehicle left of the flight.
        first: (K,) places of the starts.
        before_s: time before a start over which the constant part is observed.
        steps: of the grid for which it is asked.

    Raises:
        InputError: the memory grows.
    """
    constant = observed_torque(flight, wrench, first, before_s)[:, None]
    memory = vehicle.recorder.torque_memory
    if not memory:
        return constant
    if not fades(memory):
        raise InputError("recorder.torque_memory: it grows; allowed: autoregressions that fade")
    count, order = -(-steps // block_of(flight)), len(memory) // 2
    seen = _means_before(flight, vehicle, wrench, first, order) - constant
    fading = np.empty((len(first), count, 3))
    for axis, numbers in enumerate((memory[:order], memory[:order], memory[order:])):
        fading[..., axis] = np.nan_to_num(seen[..., axis]) @ _continued(numbers, count).T
    return constant + fading


def _continued(numbers: Sequence[float], count: int) -> Array:
    """(count, n) what each of n past blocks, the last one first, adds to each of those to come."""
    step = companion(np.r_[1.0, -np.array(numbers)])
    gains = [step[0]]
    for _ in range(count - 1):
        gains.append(gains[-1] @ step)
    return np.array(gains)


def fades(memory: Sequence[float]) -> bool:
    """Whether both autoregressions of a memory are stable."""
    steps = [companion(np.r_[1.0, -row]) for row in np.reshape(memory, (2, -1))]
    return all(bool(np.abs(np.linalg.eigvals(step)).max() < 1.0) for step in steps)


def torque_memory(
    flights: Sequence[RecordedFlight], vehicle: VehicleParams, gravity_mps2: float
) -> tuple[float, ...]:
    """Numbers of ``recorder.torque_memory``, by the autocovariance of the torque that is left.

    Roll and pitch count alike. Of flights too short for it, or whose torque grows, there are none.
    """
    products = np.zeros((3, TORQUE_STEPS + 1))
    for flight in flights:
        wrench = residual_wrench(flight, vehicle, gravity_mps2)
        first = np.arange(0, len(flight), block_of(flight))
        seen = _means_before(flight, vehicle, wrench, first, TORQUE_STEPS + 1)
        seen = seen[np.isfinite(seen).all(axis=(1, 2))]
        if len(seen):
            seen = (seen - seen.mean(axis=(0, 1))) / np.array(vehicle.inertia_kg_m2)
            products += np.einsum("ka,kla->al", seen[:, 0], seen)
    if not (products[:, 0] > 0.0).all():
        return ()
    level, yaw = products[:2].sum(axis=0), products[2]
    found = [solve_toeplitz(each[:-1], each[1:]) for each in (level, yaw)]
    memory = tuple(np.concatenate(found).tolist())
    return memory if fades(memory) else ()


#: Horizons of the prediction, s.
HORIZONS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
#: From one window's start to the next, s.
APART_S = 0.1


@dataclass(frozen=True)
class Prediction:
    """Errors of motions predicted from K starts on, at the horizons; NaN where the flight ended.

    Attributes:
        horizon_s: (H,).
        first: (K,) places of the starts on the flight's grid.
        position_m, velocity_mps, attitude_rad, load_m: (K, H).
    """

    horizon_s: Array
    first: NDArray[np.intp]
    position_m: Array
    velocity_mps: Array
    attitude_rad: Array
    load_m: Array


def starts_of(flight: RecordedFlight, span: int, apart: int) -> NDArray[np.intp]:
    """Places from which on a flight is free for ``span`` steps, ``apart`` steps from each other."""
    bad = np.cumsum(~flight.free)
    places = np.arange(1, len(flight) - span - 1, apart)
    return np.asarray(places[bad[places + span] == bad[places - 1]], np.intp)


def state_at(flight: RecordedFlight, first: NDArray[np.intp]) -> Array:
    """(K, 19) states of a flight as :func:`quadsim.lab.validate.kernels.predict` takes them."""
    parts = (flight.p_W, flight.v_W, flight.q_WB, flight.w_B, np.nan_to_num(flight.load))
    return np.ascontiguousarray(np.hstack([part[first] for part in parts]))


def predict_flight(
    flight: RecordedFlight,
    vehicle: VehicleParams,
    gravity_mps2: float,
    trim_s: float,
    horizons_s: tuple[float, ...] = HORIZONS_S,
) -> Prediction:
    """Predict a flight's motion from many starts on, from its rotor speeds alone.

    Starts and what acts besides are found from what was logged by then.
    """
    begun = flight.known or flight
    every = max(1, round(min(horizons_s) / flight.dt_s))
    steps = [every * max(1, round(horizon / (every * flight.dt_s))) for horizon in horizons_s]
    first = starts_of(flight, steps[0], max(1, round(APART_S / flight.dt_s)))
    first = first[begun.free[first]]
    wrench = residual_wrench(begun, vehicle, gravity_mps2)
    out = predicted(
        make_model(vehicle, gravity_mps2),
        np.pad(flight.speed, ((0, max(steps) + 1), (0, 0)), mode="edge"),
        flight.dt_s, first, state_at(begun, first),
        acting_torque(begun, vehicle, wrench, first, trim_s, max(steps)), block_of(flight),
        every, max(steps) // every + 1,
    )  # fmt: skip
    errors = np.full((4, len(first), len(steps)), np.nan)
    for h, step in enumerate(steps):
        reach = np.isin(first, starts_of(flight, step, 1))
        errors[:, reach, h] = _errors(flight, first[reach] + step, out[reach, step // every])
    return Prediction(np.array(steps) * flight.dt_s, first, *errors)


def _errors(flight: RecordedFlight, at: NDArray[np.intp], found: Array) -> Array:
    """(4, K) errors of position, velocity, attitude and load of (K, 16) predicted states."""
    apart = turn(found[:, 6:10]) * turn(flight.q_WB[at]).inv()
    return np.stack(
        [
            np.linalg.norm(found[:, :3] - flight.p_W[at], axis=1),
            np.linalg.norm(found[:, 3:6] - flight.v_W[at], axis=1),
            apart.magnitude(),
            np.linalg.norm(found[:, 10:13] - flight.load[at, :3], axis=1),
        ]
    )
