"""A vehicle driven by recorded rotor speeds: its forces at an instant, its motion over a window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import new, pack
from quadsim.geometry.vector import cross
from quadsim.vehicle.forces import forces
from quadsim.vehicle.formalisms.formalisms import attitude_matrix, finish_step
from quadsim.vehicle.multirotor import integrate
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import QUATERNION, PhysicsParams
from quadsim.vehicle.propulsion.rotors import rotor_momentum_B
from quadsim.vehicle.ropes.suspension import catch
from quadsim.vehicle.ropes.suspension_rows import has_load
from quadsim.vehicle.state import (
    LOAD_P,
    ROTOR,
    SLUNG,
    STATE_SIZE,
    Model,
    Vehicle,
    W,
    Workspace,
)
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE, Scene

#: Far above any ground.
_BELOW_M = -1e5


def make_model(params: VehicleParams, gravity_mps2: float) -> Model:
    """A vehicle in calm air far above the ground, for the kernels here, as it was recorded."""
    if params.recorder.torque_residual:
        rotor = replace(params.rotor, torque_residual=params.recorder.torque_residual)
        params = replace(params, rotor=rotor)
    vehicle = new(Vehicle)
    held = vehicle.held
    held.mass_kg, held.density_ratio = params.mass_kg, 1.0
    held.battery_V = params.battery.voltage_V
    held.effectiveness[:] = held.thrust_gain[:] = 1.0
    held.ground_m, held.height_m = _BELOW_M, -_BELOW_M
    environment: Any = pack(EnvironmentParams(gravity_mps2=gravity_mps2, ground_height_m=-1000.0))
    packed: Any = pack(params.packed_as())
    physics: Any = pack(PhysicsParams())
    return vehicle, packed, environment, physics, new(Workspace)


@kernel
def wrenches(
    model: Model, speed: Array, speed_dot: Array, v_B: Array, w_B: Array, out: Array
) -> None:
    """Force and torque of air and rotors at N instants.

    Args:
        model: of :func:`make_model`.
        speed: (N, rotors) rad/s.
        speed_dot: (N, rotors) rad/s^2.
        v_B: (N, 3) velocity through the air, body axes, m/s.
        w_B: (N, 3) rad/s.
        out: (N, 6) force in N and torque in N m, body axes; the torque includes what the rotors'
            angular momentum does, so that it is ``J w_dot + w x J w``.
    """
    vehicle, params, _, _, work = model
    level = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    change = work.slopes[0]
    for k in range(len(speed)):
        for i in range(params.rotor_directions_count):
            vehicle.x[ROTOR + i] = speed[k, i]
            change[ROTOR + i] = speed_dot[k, i]
        rates = (w_B[k, 0], w_B[k, 1], w_B[k, 2])
        air_B = (v_B[k, 0], v_B[k, 1], v_B[k, 2])
        force, torque = forces(vehicle.x, level, air_B, rates, vehicle, params)
        gyroscopic = cross(rates, rotor_momentum_B(vehicle.x, params))
        sped_up = rotor_momentum_B(change, params)
        for i in range(3):
            out[k, i] = force[i]
            out[k, 3 + i] = torque[i] - gyroscopic[i] - sped_up[i]


@kernel
def predict(
    model: Model,
    scene: Scene,
    speed: Array,
    dt_s: float,
    first: Any,
    start: Array,
    torque_B: Array,
    block: int,
    every: int,
    out: Array,
) -> None:
    """Motions from K starts on, under recorded rotor speeds, by the vehicle's own equations.

    Args:
        model: of :func:`make_model`.
        scene: without anything, for a load's rope.
        speed: (N, rotors) rad/s on an even grid.
        dt_s: of the grid.
        first: (K,) int64, places of the starts on it.
        start: (K, 19) position, velocity, attitude (w first), rates, and position and velocity of a
            slung load.
        torque_B: (K, blocks, 3) torque in N m that acts besides; the last one goes on.
        block: steps for which each of them acts.
        every: steps between two rows of ``out``.
        out: (K, rows, 16) position, velocity, attitude, and position and velocity of the load.
    """
    vehicle, params, environment, _, work = model
    rotors, loaded = params.rotor_directions_count, has_load(params)
    size = STATE_SIZE if loaded else ROTOR + rotors
    x = vehicle.x
    for k in range(len(first)):
        for i in range(W + 3):
            x[i] = start[k, i]
        if loaded:
            vehicle.suspension.taut[SLUNG] = 1
            for i in range(6):
                x[LOAD_P + i] = start[k, W + 3 + i]
        for row in range(out.shape[1]):
            for i in range(W):
                out[k, row, i] = x[i]
            for i in range(6):
                out[k, row, W + i] = x[LOAD_P + i] if loaded else 0.0
            if row + 1 == out.shape[1]:
                break
            for step in range(every):
                at = first[k] + row * every + step
                acting = min((at - first[k]) // block, torque_B.shape[1] - 1)
                for i in range(3):
                    vehicle.inputs.external_torque_B_Nm[i] = torque_B[k, acting, i]
                for i in range(rotors):
                    change = speed[at + 1, i] - speed[at, i]
                    lag = params.time_constant_up_s if change > 0.0 else params.time_constant_down_s
                    steps = lag / dt_s
                    # 1 / (1 - exp(-1 / steps)): by its lag the rotor ends at the next speed
                    gain = steps + 0.5 + 1.0 / (12.0 * steps)
                    x[ROTOR + i] = speed[at, i]
                    vehicle.inputs.rotor_command_radps[i] = speed[at, i] + gain * change
                integrate(vehicle, size, model, dt_s)
                finish_step(x, vehicle, QUATERNION, dt_s)
                if loaded:
                    R_WB = attitude_matrix(x, vehicle, QUATERNION)
                    catch(vehicle, R_WB, params, environment, scene, work.ropes)
    for i in range(3):
        vehicle.inputs.external_torque_B_Nm[i] = 0.0


def predicted(
    model: Model,
    speed: Array,
    dt_s: float,
    first: Any,
    start: Array,
    torque_B: Array,
    block: int,
    every: int,
    rows: int,
) -> Array:
    """(K, rows, 16) motions of :func:`predict`."""
    out = np.zeros((len(first), rows, 16))
    first = np.ascontiguousarray(first, np.int64)
    predict(model, EMPTY_SCENE, speed, dt_s, first, start, torque_B, block, every, out)
    return out
