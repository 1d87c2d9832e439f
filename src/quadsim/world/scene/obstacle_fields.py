"""Obstacle fields for rehearsals: drawn from a seed, and always with a way through.

A field lies on flat ground between a start and a goal at one height. Whether there is a way is
checked, not assumed: on a grid that errs to the safe side, start and goal are in one piece of
the space :data:`ROOM_M` from every obstacle; a field without is drawn again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from quadsim.base.errors import InputError
from quadsim.base.noise import stream
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import from_euler, yaw_of
from quadsim.world.scene.movers import Mover
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose

#: From the start, at x = 0, to the goal; and to either side of the straight way, m.
LENGTH_M, HALF_WIDTH_M = 40.0, 12.0
#: Of start and goal.
HEIGHT_M = 2.0
#: Of pillars and walls, which stand on the ground.
PILLAR_M = 6.0
#: Thickness of walls.
WALL_M = 0.4
#: Free around start and goal.
CLEAR_M = 2.5
#: Half the width of the way that there is at least, to the surfaces of the obstacles.
ROOM_M = 1.0
#: How much time ahead of the vehicle an obstacle appears, s.
AHEAD_S = 2.0
#: Of the grid on which the way is looked for, and how far that goes beyond the field.
CELL_M = 0.25
BEYOND_M = 4.0
#: Draws until one must have a way.
DRAWS = 100

Things = tuple[list[Obstacle], list[Mover]]


@dataclass(frozen=True)
class Field:
    """One field of obstacles.

    Attributes:
        kind: a key of :data:`FIELDS`.
        seed: it was drawn from.
        obstacles: what stands.
        start_W, goal_W: m.
        movers: what moves or appears.
    """

    kind: str
    seed: int
    obstacles: tuple[Obstacle, ...]
    start_W: Vec3
    goal_W: Vec3
    movers: tuple[Mover, ...] = ()


def _pillar(name: str, x: float, y: float, radius_m: float) -> Obstacle:
    """An upright cylinder on the ground."""
    return Obstacle(name, Cylinder(radius_m, PILLAR_M), Pose((x, y, 0.5 * PILLAR_M)))


def _pillars(
    rng: np.random.Generator, count: int, allowed: Callable[[float, float], bool]
) -> list[Obstacle]:
    """Pillars of 0.15 m to 0.5 m radius anywhere between start and goal where they are allowed."""
    found: list[Obstacle] = []
    while len(found) < count:
        x, y = rng.uniform(0.0, LENGTH_M), rng.uniform(-HALF_WIDTH_M, HALF_WIDTH_M)
        radius_m = rng.uniform(0.15, 0.5)
        if allowed(x, y):
            found.append(_pillar(f"pillar_{len(found)}", x, y, radius_m))
    return found


def _forest(rng: np.random.Generator) -> Things:
    """One pillar in 16 to 32 m², wherever chance puts it."""
    return _pillars(rng, int(rng.integers(30, 61)), lambda x, y: True), []


def _row(rng: np.random.Generator) -> Things:
    """Rows of pillars across the way, with gaps of 2.4 m to 3.2 m between their surfaces."""
    found: list[Obstacle] = []
    for middle in (0.3, 0.5, 0.7):
        x = LENGTH_M * middle + rng.uniform(-2.0, 2.0)
        y = -HALF_WIDTH_M + rng.uniform(0.0, 2.0)
        while y < HALF_WIDTH_M:
            radius_m = rng.uniform(0.2, 0.5)
            found.append(
                _pillar(f"pillar_{len(found)}", x + rng.uniform(-0.3, 0.3), y + radius_m, radius_m)
            )
            y += 2.0 * radius_m + rng.uniform(2.4, 3.2)
    return found, []


#: A wall of a dead end before it is rotated: name, middle x and y, length along x and along y, m.
Wall = tuple[str, float, float, float, float]


def _pocket(rng: np.random.Generator) -> list[Wall]:
    """Three walls, open towards the start; a lidar sees from afar that they lead nowhere."""
    depth_m, width_m = rng.uniform(4.0, 8.0), rng.uniform(5.0, 8.0)
    return [
        ("wall_back", 0.0, 0.0, WALL_M, width_m + WALL_M),
        ("wall_left", -0.5 * depth_m, 0.5 * width_m, depth_m, WALL_M),
        ("wall_right", -0.5 * depth_m, -0.5 * width_m, depth_m, WALL_M),
    ]


def _room(rng: np.random.Generator) -> list[Wall]:
    """A room with one door towards the start; a screen behind the door hides that it has no other.

    Whoever looks in sees ways around the screen, and has to go in to find the wall behind.
    """
    depth_m, width_m = rng.uniform(9.0, 11.0), rng.uniform(12.0, 14.0)
    door_m, screen_m = rng.uniform(3.0, 3.6), rng.uniform(4.8, 5.6)
    front_m = 0.5 * (width_m - door_m)
    beside_m = 0.5 * (width_m - front_m)
    return [
        ("wall_back", 0.0, 0.0, WALL_M, width_m + WALL_M),
        ("wall_left", -0.5 * depth_m, 0.5 * width_m, depth_m, WALL_M),
        ("wall_right", -0.5 * depth_m, -0.5 * width_m, depth_m, WALL_M),
        ("front_left", -depth_m, beside_m, WALL_M, front_m),
        ("front_right", -depth_m, -beside_m, WALL_M, front_m),
        ("screen", -0.5 * depth_m, 0.0, WALL_M, screen_m),
    ]


def _dead_end(rng: np.random.Generator) -> Things:
    """A pocket or a room without a way out in the middle of the way, and a few pillars."""
    walls = _room(rng) if rng.random() < 0.5 else _pocket(rng)
    yaw = rng.uniform(-0.35, 0.35)
    x_back, y_back = rng.uniform(0.55, 0.65) * LENGTH_M, rng.uniform(-1.0, 1.0)
    cosine, sine = math.cos(yaw), math.sin(yaw)
    found = [
        Obstacle(
            name,
            Box((length_m, across_m, PILLAR_M)),
            Pose(
                (x_back + cosine * x - sine * y, y_back + sine * x + cosine * y, 0.5 * PILLAR_M),
                from_euler(0.0, 0.0, yaw),
            ),
        )
        for name, x, y, length_m, across_m in walls
    ]
    far_m = math.hypot(walls[1][3], 0.5 * walls[0][4]) + 2.0
    return found + _pillars(rng, 6, lambda x, y: math.hypot(x - x_back, y - y_back) > far_m), []


def _moving_vehicle(rng: np.random.Generator) -> Things:
    """A few pillars, and two vehicles of 4 m height that go to and fro across the way."""
    movers = []
    for k, share in enumerate((0.35, 0.65)):
        x, lean_m = share * LENGTH_M + rng.uniform(-3.0, 3.0), rng.uniform(-2.0, 2.0)
        reach_m = rng.uniform(5.0, 8.0) * (1.0 if rng.random() < 0.5 else -1.0)
        way = ((x, reach_m, 2.0), (x + lean_m, -reach_m, 2.0))
        speed_mps = rng.uniform(1.0, 2.0)
        movers.append(Mover(f"vehicle_{k}", Cylinder(rng.uniform(0.4, 0.7), 4.0), way, speed_mps))
    return _pillars(rng, 12, lambda x, y: all(_beside_m(m, x, y) > 2.0 for m in movers)), movers


def _beside_m(mover: Mover, x: float, y: float) -> float:
    """How far a place is from the straight way of a mover, to its surface."""
    a, b = np.array(mover.way_W[0][:2]), np.array(mover.way_W[-1][:2])
    share = np.clip(np.dot((x, y) - a, b - a) / np.dot(b - a, b - a), 0.0, 1.0)
    return float(np.linalg.norm((x, y) - (a + share * (b - a)))) - mover.radius_m


def _appearing(rng: np.random.Generator) -> Things:
    """An obstacle that appears in the middle of a free way, 2 s ahead of the vehicle."""
    x, radius_m = rng.uniform(0.4, 0.65) * LENGTH_M, rng.uniform(0.3, 0.8)
    y = rng.uniform(-0.5, 0.5) * radius_m
    shape: Box | Cylinder = Cylinder(radius_m, PILLAR_M)
    if rng.random() < 0.5:
        shape = Box((rng.uniform(0.4, 1.0), 2.0 * radius_m, PILLAR_M))
    mover = Mover("appears", shape, ((x, y, 0.5 * PILLAR_M),), ahead_s=AHEAD_S)
    return _pillars(rng, 20, lambda x, y: abs(y) > 3.5), [mover]


#: How each kind of field is drawn.
FIELDS: dict[str, Callable[[np.random.Generator], Things]] = {
    "forest": _forest,
    "row": _row,
    "dead_end": _dead_end,
    "moving_vehicle": _moving_vehicle,
    "appearing": _appearing,
}


def make_field(kind: str, seed: int) -> Field:
    """Draw a field.

    Args:
        kind: a key of :data:`FIELDS`.
        seed: the same gives the same field.

    Raises:
        InputError: there is no such kind, or the seed is negative.
    """
    if kind not in FIELDS:
        raise InputError(f"field: {kind!r} is not known; allowed: {', '.join(FIELDS)}")
    if seed < 0:
        raise InputError(f"seed: {seed} is out of range; allowed: >= 0")
    rng = stream(seed, kind, "field")
    start_W, goal_W = (0.0, 0.0, HEIGHT_M), (LENGTH_M, 0.0, HEIGHT_M)
    for _ in range(DRAWS):
        standing, movers = FIELDS[kind](rng)
        obstacles = [
            obstacle
            for obstacle in standing
            if min(clearances((obstacle,), np.array([start_W, goal_W]))) > CLEAR_M
        ]
        there = [
            Obstacle(mover.name, mover.shape, Pose(mover.way_W[0]))
            for mover in movers
            if mover.speed_mps == 0.0
        ]
        if has_way(obstacles + there, start_W, goal_W):
            return Field(kind, seed, tuple(obstacles), start_W, goal_W, tuple(movers))
    raise AssertionError(f"no {kind} with a way in {DRAWS} draws")


def clearances(obstacles: Sequence[Obstacle], points_W: NDArray[np.float64]) -> NDArray[np.float64]:
    """Level distance of points to the nearest of upright cylinders and boxes that only turn.

    Args:
        obstacles: as fields have them.
        points_W: (N, 3) m, at a height at which all of them are.

    Returns:
        (N,) m to the surface, negative inside; inf without obstacles.
    """
    best = np.full(len(points_W), math.inf)
    for obstacle in obstacles:
        to = points_W[:, :2] - obstacle.pose_W.p_A[:2]
        if isinstance(obstacle.shape, Cylinder):
            distance = np.hypot(to[:, 0], to[:, 1]) - obstacle.shape.radius_m
        elif isinstance(obstacle.shape, Box):
            yaw = yaw_of(obstacle.pose_W.q_AB)
            turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
            beyond = np.abs(to @ turn) - 0.5 * np.array(obstacle.shape.size_m[:2])
            outside = np.maximum(beyond, 0.0)
            distance = np.hypot(outside[:, 0], outside[:, 1]) + np.minimum(beyond.max(axis=1), 0.0)
        else:
            raise InputError(f"{obstacle.name}: a field holds upright cylinders and boxes")
        best = np.minimum(best, distance)
    return best


def has_way(obstacles: Sequence[Obstacle], start_W: Vec3, goal_W: Vec3) -> bool:
    """Whether a way leads from start to goal that is ROOM_M from every obstacle.

    A cell is free when every point of it is: its middle is half its diagonal farther. Ways
    lead over the sides of cells. So a way that is found is one; a narrow one may not be.
    """
    x = np.arange(-BEYOND_M, LENGTH_M + BEYOND_M, CELL_M)
    y = np.arange(-HALF_WIDTH_M - BEYOND_M, HALF_WIDTH_M + BEYOND_M, CELL_M)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2) + 0.5 * CELL_M
    points_W = np.column_stack([grid, np.full(len(grid), start_W[2])])
    free = clearances(obstacles, points_W) >= ROOM_M + CELL_M * math.sqrt(0.5)
    pieces, _ = ndimage.label(free.reshape(len(x), len(y)))
    cells = [
        (int((p[0] - x[0]) // CELL_M), int((p[1] - y[0]) // CELL_M)) for p in (start_W, goal_W)
    ]
    first, last = (int(pieces[cell]) for cell in cells)
    return first == last != 0
