"""Worlds that are made by rules: a canyon of streets, and a hall with motion capture."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose

#: Width of the streets, and how far they go from the crossing, m.
STREET_M, END_M = 14.0, 75.0

#: The hall inside: east, north, up; and the thickness of its walls, m.
HALL_M = (16.0, 10.0, 6.0)
WALL_M = 0.2

#: Height of the cameras of motion capture, how far they are from the walls, and their size, m.
CAMERA_HEIGHT_M, CAMERA_GAP_M, CAMERA_M = 4.5, 0.3, 0.12


def _box(name: str, x: float, y: float, base: float, size: tuple[float, float, float]) -> Obstacle:
    """A box that stands at a height."""
    return Obstacle(name, Box(size), Pose((x, y, base + 0.5 * size[2])))


def urban_canyon(seed: int = 1) -> tuple[Obstacle, ...]:
    """Two streets that cross at the origin, between buildings of 12 m to 40 m.

    Lamp posts stand along the kerbs, and two bridges lead over the street to the east and the west.
    Free within 5 m of the origin.

    Args:
        seed: of widths, depths and heights.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    return (*_buildings(generator), *_street_furniture())


def _buildings(generator: np.random.Generator) -> Iterator[Obstacle]:
    """In each quarter a corner building, then rows along both streets."""
    kerb, count = 0.5 * STREET_M, 0

    def building(
        middle: tuple[float, float], size: tuple[float, float], signs: tuple[int, int]
    ) -> Obstacle:
        nonlocal count
        count += 1
        height = round(float(generator.uniform(12.0, 40.0)), 1)
        x, y = signs[0] * middle[0], signs[1] * middle[1]
        return _box(f"building_{count}", x, y, 0.0, (size[0], size[1], height))

    for signs in ((1, 1), (-1, 1), (-1, -1), (1, -1)):
        corner = generator.uniform(12.0, 18.0, 2).round(1).tolist()
        yield building((kerb + 0.5 * corner[0], kerb + 0.5 * corner[1]), tuple(corner), signs)
        for axis in (0, 1):
            front = kerb + corner[axis] + 1.0
            while True:
                width, depth = generator.uniform((10.0, 10.0), (20.0, 14.0)).round(1).tolist()
                if front + width > END_M:
                    break
                along, across = front + 0.5 * width, kerb + 0.5 * depth
                if axis == 0:
                    yield building((along, across), (width, depth), signs)
                else:
                    yield building((across, along), (depth, width), signs)
                front += width + 1.0


def _street_furniture() -> Iterator[Obstacle]:
    kerb = 0.5 * STREET_M - 1.5
    post = Cylinder(0.1, 7.0)
    places = [(x, y) for x in (-60.0, -45.0, -30.0, -15.0, 15.0, 30.0, 45.0, 60.0) for y in (1, -1)]
    for i, (along, side) in enumerate(places):
        yield Obstacle(f"post_east_{i}", post, Pose((along, side * kerb, 3.5)))
        yield Obstacle(f"post_north_{i}", post, Pose((side * kerb, along, 3.5)))
    for name, x, base in (("bridge_east", 38.0, 6.0), ("bridge_west", -38.0, 9.0)):
        yield _box(name, x, 0.0, base, (3.0, STREET_M, 2.5))


def hall() -> tuple[Obstacle, ...]:
    """A hall of 16 m x 10 m without a ceiling, eight cameras of motion capture along its walls."""
    east, north, up = HALL_M
    x, y = 0.5 * (east + WALL_M), 0.5 * (north + WALL_M)
    long, short = (east + 2.0 * WALL_M, WALL_M, up), (WALL_M, north, up)
    walls = (
        _box("wall_south", 0.0, -y, 0.0, long),
        _box("wall_north", 0.0, y, 0.0, long),
        _box("wall_west", -x, 0.0, 0.0, short),
        _box("wall_east", x, 0.0, 0.0, short),
    )
    at_x, at_y = 0.5 * east - CAMERA_GAP_M, 0.5 * north - CAMERA_GAP_M
    places = [(u * at_x, v * at_y) for u in (-1, 0, 1) for v in (-1, 0, 1) if (u, v) != (0, 0)]
    cube = Box((CAMERA_M, CAMERA_M, CAMERA_M))
    cameras = (
        Obstacle(f"camera_{i}", cube, Pose((u, v, CAMERA_HEIGHT_M)))
        for i, (u, v) in enumerate(places)
    )
    return (*walls, *cameras)
