"""A vehicle before its flight: at rest on the ground, everything healthy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from quadsim.base.elementary import cos_sin
from quadsim.geometry.rotation import from_euler
from quadsim.vehicle.formalisms.formalisms import set_attitude
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import FORMALISMS, PhysicsParams
from quadsim.vehicle.ropes.suspension import hang
from quadsim.vehicle.state import P
from quadsim.world.air.wind import wind_start
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import Scene

if TYPE_CHECKING:
    from quadsim.vehicle.multirotor import Vehicle


def standing_height_m(
    params: VehicleParams, environment: EnvironmentParams, scene: Scene, pose: Sequence[float]
) -> float:
    """Height of the centre of mass over which no foot of a level vehicle is below the ground.

    The feet sink in by their sag, as under the weight.

    Args:
        params: the vehicle.
        environment: for the flat ground.
        scene: for the terrain.
        pose: x, y in m and yaw in rad.
    """
    c, s = cos_sin(float(pose[2]))
    heights = [
        _ground_m(
            environment,
            scene,
            float(pose[0] + c * foot[0] - s * foot[1]),
            float(pose[1] + s * foot[0] + c * foot[1]),
        )
        - foot[2]
        for foot in params.contact.points_B_m or ((0.0, 0.0, 0.0),)
    ]
    return max(heights) - params.contact.sag_m


def _ground_m(environment: EnvironmentParams, scene: Scene, x: float, y: float) -> float:
    """Height of the ground; where it is flat, without a kernel, which would have to be loaded."""
    if not len(scene.terrain.heights):
        return environment.ground_height_m
    return terrain_height(scene.terrain, environment.ground_height_m, x, y)


def stand(
    vehicle: Vehicle,
    params: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    physics: PhysicsParams,
    pose: Sequence[float],
    charge: float = 1.0,
) -> None:
    """Set a vehicle on the ground, at rest, motors off.

    Args:
        vehicle: VEHICLE record.
        params: its parameters.
        environment: the world.
        scene: its terrain.
        physics: how its attitude is kept.
        pose: x, y in m and yaw in rad.
        charge: of its battery, 0 to 1.
    """
    zero = np.zeros(1, vehicle.dtype)[0]
    for name in vehicle.dtype.names or ():
        vehicle[name] = zero[name]
    height_m = standing_height_m(params, environment, scene, pose)
    vehicle.x[P : P + 3] = pose[0], pose[1], height_m
    attitude = from_euler(0.0, 0.0, float(pose[2]))
    formalism = FORMALISMS.index(physics.formalism)
    set_attitude(vehicle.x, vehicle, formalism, attitude, (0.0, 0.0, 0.0))
    vehicle.last_x[:] = vehicle.x
    vehicle.charge_C = charge * params.battery.capacity_Ah * 3600.0
    held = vehicle.held
    held.mass_kg = params.mass_kg
    held.density_ratio = 1.0
    held.battery_V = params.battery.voltage_V
    held.effectiveness[:] = 1.0
    held.thrust_gain[:] = 1.0
    wind_start(vehicle.wind)
    vehicle.wind_from_W_mps[:] = vehicle.wind_to_W_mps[:] = environment.wind_W_mps
    hang(vehicle, params, environment, scene, float(pose[2]))
