"""Motions of a recorded flight besides those that a vehicle file predicts from many starts on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.lab.validate.disturbance import acting_torque, block_of
from quadsim.lab.validate.kernels import make_model, predicted
from quadsim.lab.validate.recorded import RecordedFlight, turn
from quadsim.lab.validate.residuals import residual_wrench
from quadsim.vehicle.parameters import VehicleParams

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
