"""A point mass that obeys the planner, and a level lidar in closed form."""

import math
from dataclasses import dataclass, field

import numpy as np

from quadsim.geometry.rotation import yaw_of
from quadsim.hil.planner.parameters import PlannerOutput
from quadsim.hil.planner.planner import Planner
from quadsim.world.scene.movers import Movers
from quadsim.world.scene.obstacles import Cylinder

BEGIN_NS = 1_000_000_000
STEP_S = 0.04


def level_ranges(obstacles, p_W, azimuth_rad, range_max_m):
    """Where level rays meet upright cylinders and boxes: circles and slabs by their equations."""
    rays = np.stack([np.cos(azimuth_rad), np.sin(azimuth_rad)], axis=1)
    best = np.full(len(rays), np.inf)
    for obstacle in obstacles:
        to = np.array(obstacle.pose_W.p_A[:2]) - p_W[:2]
        if isinstance(obstacle.shape, Cylinder):
            middle = rays @ to
            square = obstacle.shape.radius_m**2 - (to @ to - middle**2)
            near = middle - np.sqrt(np.maximum(square, 0.0))
            hit = (square > 0.0) & (near > 0.0)
        else:
            yaw = yaw_of(obstacle.pose_W.q_AB)
            turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
            half = 0.5 * np.array(obstacle.shape.size_m[:2])
            along = rays @ turn
            along = np.where(np.abs(along) < 1e-12, 1e-12, along)
            borders = np.sort(np.stack([-half + to @ turn, half + to @ turn])[:, None] / along, 0)
            near, far = borders[0].max(axis=1), borders[1].min(axis=1)
            hit = (near < far) & (near > 0.0)
        best = np.where(hit, np.minimum(best, near), best)
    return np.where(best <= range_max_m, best, np.inf)


def scan(obstacles, p_W, range_max_m, rays=360, noise_m=0.0, rng=None):
    """Echoes and ends of the rays that have none, (N, 3) and (M, 3) in W."""
    azimuth_rad = 2.0 * math.pi * np.arange(rays) / rays
    ranges = level_ranges(obstacles, p_W, azimuth_rad, range_max_m)
    level = np.stack([np.cos(azimuth_rad), np.sin(azimuth_rad), np.zeros(rays)], axis=1)
    hit = np.isfinite(ranges)
    if rng is not None:
        ranges = ranges + rng.normal(0.0, noise_m, rays)
    return p_W + ranges[hit, None] * level[hit], p_W + range_max_m * level[~hit]


@dataclass
class PlannedFlight:
    """A point mass whose velocity follows commands: a lag, and a largest acceleration.

    Attributes:
        planner: what is obeyed.
        obstacles: what stands; a test may change it on the way.
        p_W, v_W: the truth.
        movers: what moves.
        known: whether the planner is told of that.
    """

    planner: Planner
    obstacles: list
    p_W: np.ndarray
    movers: Movers = field(default_factory=lambda: Movers(()))
    known: bool = False
    range_max_m: float = 20.0
    scan_every: int = 3
    lag_s: float = 0.3
    v_W: np.ndarray = field(default_factory=lambda: np.zeros(3))
    steps: int = 0
    said: PlannerOutput | None = None

    @property
    def stamp_ns(self) -> int:
        return BEGIN_NS + round(self.steps * STEP_S * 1e9)

    @property
    def t_s(self) -> float:
        return self.steps * STEP_S

    def there(self) -> list:
        return [*self.obstacles, *self.movers.obstacles()]

    def step(self) -> PlannerOutput:
        self.movers.update(self.t_s, tuple(self.p_W), tuple(self.v_W))
        if self.steps % self.scan_every == 0 and self.range_max_m > 0.0:
            points_W, ends_W = scan(self.there(), self.p_W, self.range_max_m)
            self.planner.take_scan(self.stamp_ns, tuple(self.p_W), points_W, ends_W)
        if self.known:
            self.planner.take_shapes(self.stamp_ns, self.movers.shapes())
        self.said = self.planner.step(self.stamp_ns, tuple(self.p_W), tuple(self.v_W), 0.0)
        a_W = (np.array(self.said.v_W) - self.v_W) / self.lag_s
        a_W *= min(1.0, 5.0 / max(float(np.linalg.norm(a_W)), 1e-9))
        self.v_W = self.v_W + STEP_S * a_W
        self.p_W = self.p_W + STEP_S * self.v_W
        self.steps += 1
        return self.said
