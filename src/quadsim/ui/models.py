"""Vehicles and worlds as binary glTF files that the page loads."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim.sim.log import Array
from quadsim.sim.scenario import Scenario
from quadsim.view.shapes import Triangles, joined_meshes, vehicle_shape
from quadsim.view.world_shapes import GroundPatch, world_shapes

#: Points of a terrain along its longer side.
TERRAIN_POINTS = 257
#: Colour of the estimate, and opacities of its ghost and of turning rotors.
BLUE, GHOST_ALPHA, DISC_ALPHA = (31, 90, 200), 0.35, 0.45
#: Files that are stored; a terrain has some megabytes.
MOST_FILES = 12


def as_gltf(shape: Triangles, alpha: float = 1.0) -> bytes:
    """Triangles as a binary glTF file, with a colour at each corner."""
    from trimesh import Trimesh
    from trimesh.visual import TextureVisuals
    from trimesh.visual.material import PBRMaterial

    # corners have linear colours in glTF, and sRGB ones here
    linear = np.round(255.0 * (shape.colours / 255.0) ** 2.2).astype(np.uint8)
    material = PBRMaterial(
        metallicFactor=0.0,
        roughnessFactor=1.0,
        baseColorFactor=[255, 255, 255, round(255.0 * alpha)],
        alphaMode="OPAQUE" if alpha == 1.0 else "BLEND",
        doubleSided=alpha < 1.0,
    )
    matt = TextureVisuals(material=material)
    matt.vertex_attributes["color"] = np.hstack([linear, np.full_like(linear[:, :1], 255)])
    mesh = Trimesh(shape.points_m, shape.faces, visual=matt, process=False)
    content: Any = mesh.export(file_type="glb")
    return bytes(content)


@dataclass(frozen=True)
class Models:
    """What is drawn of a flight before it moves.

    Attributes:
        body, ghost, discs, world: names of files of :class:`ModelStore`.
        reach_m: of the vehicle's farthest corner.
    """

    body: str
    ghost: str
    discs: str | None
    world: str
    reach_m: float
    place: GroundPatch


class ModelStore:
    """Files by the digest of their content, the newest of them."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        """Content of a file; None where there is none."""
        return self._files.get(name)

    def add(self, shape: Triangles, alpha: float = 1.0) -> str:
        """Name of a file with a shape, as of :func:`as_gltf`."""
        content = as_gltf(shape, alpha)
        name = f"{hashlib.sha256(content).hexdigest()[:16]}.glb"
        self._files.pop(name, None)
        self._files[name] = content
        while len(self._files) > MOST_FILES:
            del self._files[next(iter(self._files))]
        return name

    def of_flight(self, scenario: Scenario, points_W: Array) -> Models:
        """The vehicle of a scenario, and its world about some points, (N, 3)."""
        shape = vehicle_shape(scenario.vehicle)
        place = GroundPatch.around(points_W)
        ground_m = scenario.environment.ground_height_m
        world = joined_meshes(list(world_shapes(scenario.scene, ground_m, place, TERRAIN_POINTS)))
        discs = [
            Triangles(rotor.disc.points_m + rotor.hub_B_m, rotor.disc.faces, rotor.disc.colours)
            for rotor in shape.rotors
        ]
        body = shape.body
        blue = np.broadcast_to(np.array(BLUE, np.uint8), body.colours.shape)
        ghost = Triangles(body.points_m, body.faces, blue)
        return Models(
            self.add(body),
            self.add(ghost, GHOST_ALPHA),
            self.add(joined_meshes(discs), DISC_ALPHA) if discs else None,
            self.add(world),
            shape.reach_m,
            place,
        )
