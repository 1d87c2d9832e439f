"""Shapes as meshes: cone, ellipsoid, what is extruded from an outline, and rotated terrain.

Corners lie on the surface. A round one has 64 sides, so it is at most 1 - cos(pi / 64) = 0.12 % of
its radius thinner.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import cos_sin
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.world.scene.obstacles import Mesh, is_sliver
from quadsim.world.scene.terrain import Heightmap

SIDES = 64
#: Most corners of an outline.
MAX_CORNERS = 1000

Point = tuple[float, float]


def cone(radius_m: float, length_m: float) -> Mesh:
    """A cone about its middle, its tip up."""
    half = 0.5 * length_m
    return _turned([(0.0, -half), (radius_m, -half), (0.0, half)], (1.0, 1.0, 1.0))


def ellipsoid(radii_m: Vec3) -> Mesh:
    """An ellipsoid about its middle."""
    turns = [cos_sin(math.pi * k / (SIDES // 2)) for k in range(1, SIDES // 2)]
    profile = [(0.0, -1.0), *((s, -c) for c, s in turns), (0.0, 1.0)]
    return _turned(profile, radii_m)


def _turned(profile: Sequence[Point], scale: Vec3) -> Mesh:
    """What a profile (distance from the z axis, z), from below to above, sweeps about that axis."""
    circle = np.array([cos_sin(2.0 * math.pi * k / SIDES) for k in range(SIDES)])
    r, z = np.array(profile).T
    points = np.empty((len(profile), SIDES, 3))
    points[..., :2], points[..., 2] = r[:, None, None] * circle, z[:, None]
    points *= scale
    alongside = np.roll(points, -1, axis=1)
    a, b, c, d = points[:-1], alongside[:-1], alongside[1:], points[1:]
    return _closed(np.array([[a, b, c], [a, c, d]]).transpose(0, 2, 3, 1, 4).reshape(-1, 3, 3))


def prism(outlines: Sequence[Sequence[Point]], height_m: float) -> Mesh:
    """What is inside an odd number of outlines, from z = 0 up to a height.

    Between the heights of its corners along y, it is cut into trapezia.

    Raises:
        InputError: an outline has no area, or there are more than MAX_CORNERS corners.
    """
    edges = [edge for line in outlines for edge in zip(line, [*line[1:], line[0]], strict=True)]
    if len(edges) > MAX_CORNERS or not height_m > 0.0:
        raise InputError(
            f"{len(edges)} corners, height {height_m:g} m; allowed: {MAX_CORNERS}, and > 0"
        )
    levels = sorted({a[1] for a, _ in edges})
    triangles: list[Sequence[Vec3]] = []

    def add_wall(a: Point, b: Point) -> None:
        low_a, low_b, high_a, high_b = (*a, 0.0), (*b, 0.0), (*a, height_m), (*b, height_m)
        triangles.extend([(low_a, low_b, high_b), (low_a, high_b, high_a)])

    below: list[tuple[float, float]] = []  # what the slab before covers at this level
    for y, y_next in zip(levels, [*levels[1:], None], strict=True):
        slab = [] if y_next is None else _covered(edges, y, y_next)
        above = [(left[0], right[0]) for left, right in slab]
        ends = sorted({x for span in (*below, *above) for x in span})
        for x, x_next in itertools.pairwise(ends):
            middle = 0.5 * (x + x_next)
            down, up = (any(a < middle < b for a, b in spans) for spans in (below, above))
            if down != up:
                add_wall(*(((x, y), (x_next, y)) if up else ((x_next, y), (x, y))))
        for left, right in slab:
            assert y_next is not None
            corners = ((left[0], y), (right[0], y), (right[1], y_next), (left[1], y_next))
            add_wall(corners[1], corners[2])
            add_wall(corners[3], corners[0])
            for i, j in ((1, 2), (2, 3)):
                a, b, c = corners[0], corners[i], corners[j]
                triangles.append(((*a, height_m), (*b, height_m), (*c, height_m)))
                triangles.append(((*a, 0.0), (*c, 0.0), (*b, 0.0)))
        below = [(left[1], right[1]) for left, right in slab]
    if not triangles:
        raise InputError("the outline has no area")
    return _closed(np.array(triangles))


def _covered(
    edges: Sequence[tuple[Point, Point]], low: float, high: float
) -> list[tuple[Point, Point]]:
    """Pairs of edges between which it is solid: of each, x at the lower and the higher y."""

    def x_at(edge: tuple[Point, Point], y: float) -> float:
        (x0, y0), (x1, y1) = edge
        return x0 if y == y0 else x1 if y == y1 else x0 + (y - y0) / (y1 - y0) * (x1 - x0)

    crossed = [
        (x_at(edge, low), x_at(edge, high))
        for edge in edges
        if min(edge[0][1], edge[1][1]) <= low and max(edge[0][1], edge[1][1]) >= high
    ]
    crossed.sort(key=sum)
    return list(zip(crossed[::2], crossed[1::2], strict=False))


def sheet_of(terrain: Heightmap) -> Mesh:
    """A heightmap as a sheet, which may be rotated; each cell is the same two triangles."""
    rows, columns = terrain.heights_m.shape
    x = terrain.center_W_m[0] + terrain.size_m[0] * (np.arange(columns) / (columns - 1) - 0.5)
    y = terrain.center_W_m[1] + terrain.size_m[1] * (np.arange(rows) / (rows - 1) - 0.5)
    points = np.dstack([*np.meshgrid(x, y), terrain.heights_m])
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    triangles = np.array([[a, b, c], [a, c, d]]).transpose(0, 2, 3, 1, 4).reshape(-1, 3, 3)
    return Mesh(np.ascontiguousarray(triangles), closed=False)


def _closed(triangles_m: NDArray[np.float64]) -> Mesh:
    stored = triangles_m[~is_sliver(triangles_m)]
    return Mesh(np.ascontiguousarray(stored), closed=True)
