"""The ``<geometry>`` of a collision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import Element  # the type alone: defusedxml parses

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.world.scene.mesh import load_mesh
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Plane, Pose, Shape, Sphere
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.scene.terrain_image import read_heightmap
from quadsim.world.sdf.files import WorldFiles
from quadsim.world.sdf.values import Place, number_of, only_child, text_of, vector_of

MAX_TRIANGLES = 4_000_000


@contextmanager
def naming(place: Place) -> Iterator[None]:
    """Let errors of what an element names or holds begin with the place of the element."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(f"{place.file}:"):
            raise
        raise place.error(str(error)) from None


class GeometryReader:
    """Turns geometries into shapes; a mesh that comes again is kept once.

    Args:
        files: finds meshes and images.
    """

    def __init__(self, files: WorldFiles) -> None:
        self._files = files
        self._meshes: dict[tuple[Path, Vec3], Mesh] = {}
        self._readers: dict[str, Callable[[Element, Place], Shape]] = {
            "plane": self._plane,
            "box": lambda element, place: Box(vector_of(element, "size", place)),
            "sphere": lambda element, place: Sphere(number_of(element, "radius", place)),
            "cylinder": lambda element, place: Cylinder(
                number_of(element, "radius", place), number_of(element, "length", place)
            ),
            "mesh": self._mesh,
        }

    def shape(self, element: Element, place: Place) -> Shape:
        """The shape that a child of ``<geometry>`` describes.

        Raises:
            InputError: of a kind that is not known, or with values out of range.
        """
        reader = self._readers.get(element.tag)
        if reader is None:
            raise place.error(
                f"<{element.tag}> is not known; allowed: {', '.join(self._readers)}, heightmap"
            )
        place = place.at(element)
        with naming(place):
            return reader(element, place)

    @staticmethod
    def _plane(element: Element, place: Place) -> Plane:
        x, y, z = vector_of(element, "normal", place, "0 0 1")
        length = math.hypot(x, y, z)
        if length < 1e-6:
            raise place.error(f"<normal> ({x:g}, {y:g}, {z:g}) has no direction")
        return Plane((x / length, y / length, z / length))

    def _mesh(self, element: Element, place: Place) -> Mesh:
        for tag in ("submesh", "convex_decomposition"):
            if only_child(element, tag, place) is not None:
                raise place.error(f"<{tag}> is not known; write a mesh file of what is meant")
        if element.get("optimization", "") not in ("", "mesh"):
            raise place.error("optimization is not known; write a mesh file of what is meant")
        path = self._files.find(text_of(element, "uri", place), place)
        scale = vector_of(element, "scale", place, "1 1 1")
        if 0.0 in scale:
            raise place.error(f"<scale> {scale}; allowed: other than 0")
        if (path, scale) not in self._meshes:
            self._meshes[path, scale] = load_mesh(path, scale)
            if sum(len(mesh.triangles_m) for mesh in self._meshes.values()) > MAX_TRIANGLES:
                raise place.error(f"more than {MAX_TRIANGLES} triangles in the meshes of the world")
        return self._meshes[path, scale]

    def terrain(self, element: Element, pose_W: Pose, place: Place) -> Heightmap:
        """The terrain that ``<heightmap>`` describes.

        Raises:
            InputError: it is turned, or its image or size cannot be used.
        """
        place = place.at(element)
        if math.hypot(*pose_W.q_AB[1:]) > 1e-9:
            raise place.error("<pose>: a heightmap cannot be turned; turn its image")
        size = vector_of(element, "size", place, "1 1 1")
        if min(size) <= 0.0:
            raise place.error(f"<size> {size}; allowed: > 0")
        x, y, z = vector_of(element, "pos", place, "0 0 0")
        path = self._files.find(text_of(element, "uri", place), place)
        center = (pose_W.p_A[0] + x, pose_W.p_A[1] + y, pose_W.p_A[2] + z)
        with naming(place):
            return read_heightmap(path, size, center)
