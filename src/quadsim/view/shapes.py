"""Bodies of vehicles as triangles, made from the figures of their files: no model is shipped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.sim.log import Array
from quadsim.vehicle.parameters import VehicleParams

Colour = tuple[int, int, int]

DARK, GREY, FRONT, REAR, BLADE = (
    (48, 52, 58),
    (96, 104, 114),
    (214, 86, 30),
    (62, 72, 86),
    (28, 30, 34),
)
AHEAD, UP = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
#: Radius of the rotors where the file gives none, over the distance between hub and middle.
ROTOR_SHARE = 0.55


@dataclass(frozen=True)
class Triangles:
    """A body of coloured triangles.

    Attributes:
        points_m: (V, 3) corners in the body's axes, m.
        faces: (F, 3) rows of the corners, counter-clockwise seen from outside.
        colours: (V, 3) red, green, blue, 0 to 255.
    """

    points_m: Array
    faces: NDArray[np.int64]
    colours: NDArray[np.uint8]

    @property
    def normals(self) -> Array:
        """(V, 3) unit normals: the mean of the faces that share a corner."""
        edges = self.points_m[self.faces]
        across = np.cross(edges[:, 1] - edges[:, 0], edges[:, 2] - edges[:, 0])
        normals = np.zeros_like(self.points_m)
        np.add.at(normals, self.faces.ravel(), np.repeat(across, 3, axis=0))
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        return np.asarray(normals / np.maximum(lengths, 1e-12))


def joined_meshes(parts: Sequence[Triangles]) -> Triangles:
    """Several bodies as one."""
    starts = np.cumsum([0, *(len(part.points_m) for part in parts[:-1])])
    return Triangles(
        np.vstack([part.points_m for part in parts]),
        np.vstack([part.faces + start for part, start in zip(parts, starts, strict=True)]),
        np.vstack([part.colours for part in parts]),
    )


def solid(mesh: Any, colour: Colour) -> Triangles:
    """A mesh of trimesh; each face gets corners of its own, so that edges stay sharp."""
    points = np.asarray(mesh.triangles, float).reshape(-1, 3)
    colours = np.broadcast_to(np.array(colour, np.uint8), points.shape).copy()
    return Triangles(points, np.arange(len(points)).reshape(-1, 3), colours)


def _rod(begin: Array, end: Array, radius_m: float, colour: Colour) -> Triangles:
    from trimesh.creation import cylinder

    return solid(cylinder(radius=radius_m, segment=np.array([begin, end]), sections=10), colour)


def _box(size_m: Vec3, middle: Array, colour: Colour) -> Triangles:
    from trimesh.creation import box

    mesh = box(extents=size_m)
    mesh.apply_translation(middle)
    return solid(mesh, colour)


def _blades(radius_m: float, direction: float) -> Triangles:
    """Two blades about z, pitched so that they lift when rotated in their direction."""
    chord, pitch = 0.16 * radius_m, 0.35 * direction
    span = np.array([0.06, 0.3, 1.0]) * radius_m
    width = np.array([0.4, 1.0, 0.55]) * 0.5 * chord
    edges = [(x, lead) for x, half in zip(span, width, strict=True) for lead in (half, -half)]
    # the leading edge is ahead in the sense of rotation, and higher
    rows = [(x, direction * lead, lead * direction * math.tan(pitch) + 0.004) for x, lead in edges]
    strip = np.array(rows)
    faces = [(0, 1, 3), (0, 3, 2), (2, 3, 5), (2, 5, 4)]
    parts = []
    for points in (strip, strip * [-1.0, -1.0, 1.0]):
        colours = np.broadcast_to(np.array(BLADE, np.uint8), points.shape).copy()
        parts.append(Triangles(points, np.array(faces), colours))
    return joined_meshes(parts)


def _disc(radius_m: float) -> Triangles:
    angles = np.linspace(0.0, 2.0 * math.pi, 33)[:-1]
    rim = np.stack([np.cos(angles), np.sin(angles), np.zeros(32)], axis=1) * radius_m
    points = np.vstack([np.zeros((1, 3)), rim])
    around = np.arange(32)
    up = np.stack([np.zeros(32, int), 1 + around, 1 + (around + 1) % 32], axis=1)
    return Triangles(points, up, np.full((33, 3), 90, np.uint8))


@dataclass(frozen=True)
class RotorShape:
    """A rotor: where its hub is, which way it turns, and what it looks like about its axis, z."""

    hub_B_m: Vec3
    direction: float
    blades: Triangles
    disc: Triangles


@dataclass(frozen=True)
class VehicleShape:
    """A vehicle's body, which stands still in its axes, and its rotors.

    Attributes:
        rotors: in the order of the motor commands; none of a helicopter, whose commands are sticks.
    """

    body: Triangles
    rotors: tuple[RotorShape, ...]
    reach_m: float


def vehicle_shape(params: VehicleParams) -> VehicleShape:
    """Draw a vehicle by its file: arms to its hubs, discs of its rotors, legs to its feet.

    Where the file states nothing (the hull's size, thickness of arms), sizes go with the arms'.
    """
    hubs = np.array(params.rotor_positions_B_m, float).reshape(-1, 3)
    feet = np.array(params.contact.points_B_m, float).reshape(-1, 3)
    arm_m = float(np.hypot(*hubs[:, :2].T).mean()) if len(hubs) else 0.0
    arm_m = arm_m or float(np.abs(feet).max(initial=0.1))
    top_m = float(hubs[:, 2].mean()) if len(hubs) else 0.3 * arm_m
    plate = np.array([0.0, 0.0, min(0.35 * top_m, top_m - 0.06 * arm_m)])
    thin = 0.035 * arm_m
    parts = [
        _box((0.75 * arm_m, 0.42 * arm_m, 0.2 * arm_m), plate, DARK),
        _box((0.3 * arm_m, 0.3 * arm_m, 0.12 * arm_m), plate + 0.15 * arm_m * UP, GREY),
        _box((0.16 * arm_m, 0.24 * arm_m, 0.12 * arm_m), plate + 0.42 * arm_m * AHEAD, FRONT),
    ]
    for x, y, z in hubs:
        colour = FRONT if x > 0.05 * arm_m else REAR
        root, seat = plate + np.array([0.25 * x, 0.25 * y, 0.0]), np.array([x, y, z - 0.1 * arm_m])
        parts.append(_rod(root, seat, 1.3 * thin, colour))
        parts.append(_rod(seat, np.array([x, y, z]), 2.6 * thin, GREY))
    parts += [_rod(plate + foot * [0.45, 0.45, 0.0], foot, 0.8 * thin, GREY) for foot in feet]
    # tubes that join the feet of the left, and those of the right
    sides = (feet[feet[:, 1] > 0.0], feet[feet[:, 1] < 0.0])
    parts += [_rod(side[0], side[1], 0.9 * thin, GREY) for side in sides if len(side) == 2]
    radius_m = params.rotor.radius_m or ROTOR_SHARE * arm_m
    rotors = tuple(
        RotorShape(tuple(hub), direction, _blades(radius_m, direction), _disc(radius_m))
        for hub, direction in zip(hubs.tolist(), params.rotor_directions, strict=True)
    )
    body = joined_meshes(parts)
    reach_m = float(np.linalg.norm(body.points_m, axis=1).max()) + (radius_m if len(hubs) else 0.0)
    return VehicleShape(body, rotors, reach_m)
