"""Whether a mission stays within its fence and above the ground that the scenario knows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.control.parameters import FlightParams
from quadsim.mission.flight.fence import item_places, mission_fault
from quadsim.mission.items import Item, Takeoff, name_of
from quadsim.mission.waypoint import ReturnHome
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.start import standing_height_m
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import Scene

#: Between two places of a leg that are looked at, m.
LOOK_M = 1.0
#: No leg is looked at in more places.
MOST_LOOKS = 500


def _legs(
    items: Sequence[Item], home_W_m: Vec3, flight: FlightParams
) -> Iterator[tuple[int, Item, Vec3, Vec3]]:
    """Index, item, start and end of each straight way whose height does not count from ground."""
    at = home_W_m
    for i, item in enumerate(items):
        follows_ground = getattr(item, "height", "") == "above_ground"
        for goal in item_places(item, at, home_W_m, flight):
            if not follows_ground and not isinstance(item, Takeoff | ReturnHome):
                yield i, item, at, goal
            at = goal


def check_mission(
    items: Sequence[Item],
    flight: FlightParams,
    vehicle: VehicleParams,
    environment: EnvironmentParams,
    scene: Scene,
    pose: tuple[float, float, float],
    where: str,
) -> None:
    """Refuse a mission that leaves the fence or goes below the ground.

    Args:
        items: the mission.
        flight: its fence and its floor.
        vehicle: for how high it stands.
        environment: for the flat ground.
        scene: for the terrain.
        pose: where it starts: x, y in m and yaw in rad.
        where: the file that errors name.

    Raises:
        InputError: naming the item and what is allowed.
    """
    if not items:
        return
    home = (pose[0], pose[1], standing_height_m(vehicle, environment, scene, pose))
    fault = mission_fault(items, flight, home)
    if fault is not None:
        raise InputError(f"{where}: {fault}")
    if scene.is_flat and home[2] + flight.failsafe.floor_m >= environment.ground_height_m:
        return
    for i, item, start, goal in _legs(items, home, flight):
        count = min(math.ceil(math.dist(start[:2], goal[:2]) / LOOK_M), MOST_LOOKS) or 1
        for k in range(1, count + 1):
            share = k / count
            x, y, z = (a + share * (b - a) for a, b in zip(start, goal, strict=True))
            ground_m = float(terrain_height(scene.terrain, environment.ground_height_m, x, y))
            if z < ground_m:
                raise InputError(
                    f"{where}: mission[{i}]: {name_of(item)}: z = {z:.2f} m at ({x:.1f}, {y:.1f});"
                    f" allowed: above the ground, {ground_m:.2f} m"
                )
