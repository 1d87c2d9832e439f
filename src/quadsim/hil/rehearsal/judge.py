"""How near the true vehicle came to the true obstacles, which it cannot see."""

from __future__ import annotations

import math

import numpy as np

from quadsim.base.parameters import Vec3
from quadsim.vehicle.contact.hull import hull_points
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.scene.distance import obstacle_distance
from quadsim.world.scene.movers import Movers
from quadsim.world.scene.moving_scene import scene_with
from quadsim.world.scene.scene import Scene

#: Obstacles farther than this are not looked for, m.
REACH_M = 50.0


def hull_radius_m(vehicle: VehicleParams) -> float:
    """Radius of the ball about ``base_link`` that holds the rotors' discs, m."""
    points = hull_points(vehicle.rotor_positions_B_m, vehicle.rotor.radius_m)
    return max((math.hypot(*point) for point in points), default=0.0)


class Judge:
    """Keeps how near a vehicle came to what is there.

    Args:
        scene: obstacles that stand; the ground does not count.
        radius_m: of the ball about the vehicle.

    Attributes:
        clearance_m: smallest distance between ball and obstacle so far; negative: it collided.
        at_W: where that was.
    """

    def __init__(self, scene: Scene, radius_m: float) -> None:
        self._scene, self._radius_m = scene, radius_m
        self.clearance_m = REACH_M
        self.at_W: Vec3 = (math.nan, math.nan, math.nan)

    @property
    def collided(self) -> bool:
        """Whether the ball was ever in an obstacle."""
        return self.clearance_m < 0.0

    def look(self, p_W: Vec3, movers: Movers) -> float:
        """Take the vehicle's true position and the movers at one time; the distance there, m."""
        scene = scene_with(self._scene, movers.obstacles())
        distance_m = float(obstacle_distance(scene, p_W, REACH_M)[0]) - self._radius_m
        gap_m = min(distance_m, REACH_M) if not np.isnan(distance_m) else -math.inf
        if gap_m < self.clearance_m:
            self.clearance_m, self.at_W = gap_m, p_W
        return gap_m
