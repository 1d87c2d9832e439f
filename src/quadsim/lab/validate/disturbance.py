"""Torque that acts on a recorded vehicle besides what its file states, seen before a start.

A constant goes on: a battery that lies off the centre, a bent propeller. What differs from it
fades, by the file's ``recorder.torque_memory``: an autoregression of means over short blocks
(G. E. P. Box and G. M. Jenkins, *Time series analysis*, 1970), which is the best linear prediction
if the flights it was found in are like this one. An estimator in flight carries such states, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import companion, solve_toeplitz

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.lab.validate.recorded import RecordedFlight
from quadsim.lab.validate.residuals import Wrench, residual_wrench
from quadsim.vehicle.parameters import TORQUE_STEPS, VehicleParams

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
