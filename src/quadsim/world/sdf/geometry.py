"""The ``<geometry>`` of a collision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import Element  # the type alone

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.world.scene.mesh import load_mesh
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose, Shape, Sphere
from quadsim.world.scene.solids import cone, ellipsoid, prism, sheet_of
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.scene.terrain_geotiff import read_heightmap_file
from quadsim.world.sdf.files import WorldFiles
from quadsim.world.sdf.values import (
    Place,
    number_of,
    numbers_in,
    only_child,
    text_of,
    vector_of,
)

MAX_TRIANGLES = 4_000_000

#: Shapes, and where each is in the frame of the geometry.
Shapes = list[tuple[Shape, Pose]]


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
    """Turns geometries into shapes, with SDF's sizes where none are given; a mesh is stored once.

    Args:
        files: finds meshes and images.
    """

    def __init__(self, files: WorldFiles) -> None:
        self._files = files
        self._meshes: dict[tuple[Path, Vec3, str], Mesh] = {}
        self._readers: dict[str, Callable[[Element, Place], Shape | Shapes]] = {
            "plane": self._plane,
            "box": lambda element, place: Box(vector_of(element, "size", place, "1 1 1")),
            "sphere": lambda element, place: Sphere(number_of(element, "radius", place, "1")),
            "cylinder": lambda element, place: Cylinder(
                number_of(element, "radius", place, "1"), number_of(element, "length", place, "1")
            ),
            "capsule": self._capsule,
            "cone": self._cone,
            "ellipsoid": self._ellipsoid,
            "mesh": self._mesh,
        }

    def shapes(self, geometry: Element, place: Place) -> Shapes:
        """What ``<geometry>`` describes, but for a heightmap.

        Raises:
            InputError: of a kind that is not known, or with values out of range.
        """
        element = geometry[0]
        if element.tag == "polyline":
            return [(self._polylines(geometry.findall("polyline"), place), Pose())]
        reader = self._readers.get(element.tag)
        if reader is None:
            known = ", ".join((*self._readers, "polyline", "heightmap"))
            raise place.error(f"<{element.tag}> is not known; allowed: {known}")
        place = place.at(element)
        with naming(place):
            found = reader(element, place)
        return found if isinstance(found, list) else [(found, Pose())]

    @staticmethod
    def _capsule(element: Element, place: Place) -> Shapes:
        radius = number_of(element, "radius", place, "0.5")
        length = number_of(element, "length", place, "1")
        ends: Shapes = [(Sphere(radius), Pose((0.0, 0.0, side * length))) for side in (-0.5, 0.5)]
        return [(Cylinder(radius, length), Pose()), *ends] if length else ends[:1]

    @staticmethod
    def _cone(element: Element, place: Place) -> Mesh:
        radius = number_of(element, "radius", place, "1")
        length = number_of(element, "length", place, "1")
        Cylinder(radius, length)  # which refuses what is not positive
        return cone(radius, length)

    @staticmethod
    def _ellipsoid(element: Element, place: Place) -> Shape:
        radii = vector_of(element, "radii", place, "1 1 1")
        Box(radii)
        return Sphere(radii[0]) if len(set(radii)) == 1 else ellipsoid(radii)

    @staticmethod
    def _polylines(elements: list[Element], place: Place) -> Mesh:
        outlines, height = [], 1.0
        for element in elements:
            inside = place.at(element)
            height = number_of(element, "height", inside, "1")
            corners = [
                numbers_in(point.text or "", 2, "<point>", inside)
                for point in element.findall("point")
            ]
            if len(corners) < 3:
                raise inside.error(f"<point>: {len(corners)} of them; allowed: at least 3")
            outlines.append([(x, y) for x, y in corners])
        with naming(place.at(elements[0])):
            return prism(outlines, height)

    @staticmethod
    def _plane(element: Element, place: Place) -> Plane:
        x, y, z = vector_of(element, "normal", place, "0 0 1")
        length = math.hypot(x, y, z)
        if length < 1e-6:
            raise place.error(f"<normal> ({x:g}, {y:g}, {z:g}) has no direction")
        return Plane((x / length, y / length, z / length))

    def _mesh(self, element: Element, place: Place) -> Mesh:
        submesh = only_child(element, "submesh", place)
        part = "" if submesh is None else text_of(submesh, "name", place)
        # Gazebo cuts a mesh into convex parts only to meet the same surface faster.
        optimization = element.get("optimization", "")
        if optimization not in ("", "mesh", "convex_decomposition"):
            raise place.error(f"optimization {optimization!r}; write a mesh file of what is meant")
        path = self._files.find(text_of(element, "uri", place), place)
        scale = vector_of(element, "scale", place, "1 1 1")
        if 0.0 in scale:
            raise place.error(f"<scale> {scale}; allowed: other than 0")
        key = (path, scale, part)
        if key not in self._meshes:
            mesh = load_mesh(path, scale, part)
            centred = submesh is not None and text_of(submesh, "center", place, "false")
            if centred in ("true", "1"):
                points = mesh.triangles_m.reshape(-1, 3)
                middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
                mesh = Mesh(mesh.triangles_m - middle, mesh.closed)
            self._meshes[key] = mesh
            if sum(len(mesh.triangles_m) for mesh in self._meshes.values()) > MAX_TRIANGLES:
                raise place.error(f"more than {MAX_TRIANGLES} triangles in the meshes of the world")
        return self._meshes[key]

    def terrain(self, element: Element, pose_W: Pose, place: Place) -> Heightmap | Obstacle:
        """The ground that ``<heightmap>`` describes; one that is rotated is a mesh.

        Raises:
            InputError: its image or size cannot be used.
        """
        place = place.at(element)
        x, y, z = vector_of(element, "pos", place, "0 0 0")
        path = self._files.find(text_of(element, "uri", place), place)
        size: Vec3 | None = vector_of(element, "size", place, "1 1 1")
        if path.suffix.lower() != ".png" and only_child(element, "size", place) is None:
            size = None
        if size is not None and min(size) <= 0.0:
            raise place.error(f"<size> {size}; allowed: > 0")
        with naming(place):
            if math.hypot(*pose_W.q_AB[1:]) > 1e-9:
                rotated = read_heightmap_file(path, size, (x, y, z))
                return Obstacle(", ".join(place.inside[1:]), sheet_of(rotated), pose_W)
            center = (pose_W.p_A[0] + x, pose_W.p_A[1] + y, pose_W.p_A[2] + z)
            return read_heightmap_file(path, size, center)
