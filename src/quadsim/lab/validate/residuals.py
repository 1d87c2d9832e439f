"""Force and torque of a recorded flight besides those of a vehicle file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

from quadsim.base.compiled import Array
from quadsim.lab.validate.kernels import make_model, wrenches
from quadsim.lab.validate.recorded import RecordedFlight, turn
from quadsim.vehicle.parameters import VehicleParams


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
