"""Named frames, those of a world or of a model in it, and the ``<geometry>`` of a collision.

A pose is in the frame that ``relative_to`` names, a frame's else in that of ``attached_to``, a
joint's else in that of its child; a name ``a::b`` is that of ``b`` in the model ``a``
(http://sdformat.org/tutorials?tut=pose_frame_semantics).
"""

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
from quadsim.world.scene.terrain_files import read_heightmap_file
from quadsim.world.sdf.files import WorldFiles
from quadsim.world.sdf.values import (
    Place,
    number_of,
    numbers_in,
    only_child,
    pose_of,
    text_of,
    vector_of,
)

MAX_TRIANGLES = 4_000_000

#: Shapes, and where each is in the frame of the geometry.
Shapes = list[tuple[Shape, Pose]]

#: The frame of the world itself, our ``map`` where x is east.
WORLD = "world"
#: The frame of a model in it.
MODEL = "__model__"
#: What has a frame.
NAMED = ("frame", "link", "joint", "model", "include")
#: Most frames that stand one on another.
MAX_FRAMES = 100

#: The model that a ``<model>`` is or an ``<include>`` names, and where it stands; None for a light.
Find = Callable[[Element, Place], tuple[Element, Place] | None]


class Frames:
    """Where the named frames of a world or model are in it.

    Args:
        owner: ``<world>`` or ``<model>``.
        place: where it stands.
        find: the model of an element.

    Raises:
        InputError: a ``<frame>`` of a world has no name, or one that is taken or reserved.
    """

    def __init__(self, owner: Element, place: Place, find: Find) -> None:
        self.own = WORLD if owner.tag == "world" else MODEL
        self._place, self._find = place, find
        self._named: dict[str, Element] = {}
        self._poses: dict[str, Pose] = {}
        self._open: list[str] = []
        self._inner: dict[str, Frames] = {}
        for child in owner:
            if child.tag not in NAMED:
                continue
            name = child.get("name") or child.findtext("name", "").strip()
            if child.tag == "include" and not name:
                continue  # it has the name that is in its file, which is read where one is needed
            wrong = not name or name in self._named or name == WORLD or name.startswith("__")
            if child.tag == "frame" and wrong:
                raise place.at(child).error(
                    f"<frame name={name!r}>; allowed: a name of its own, not {WORLD!r}"
                )
            self._named.setdefault(name, child)
        self._nameless = [
            child for child in owner.findall("include") if not child.findtext("name", "").strip()
        ]

    def all(self) -> dict[str, Pose]:
        """Where every ``<frame>`` is, by its name."""
        frames = (name for name, element in self._named.items() if element.tag == "frame")
        return {name: self.of(name, self._place) for name in frames}

    def pose(self, element: Element, place: Place, base: Pose | None = None) -> Pose:
        """The pose of something in this world or model.

        Args:
            element: with a ``<pose>``.
            place: inside it.
            base: the frame that it is in by default; None: that of the world or model.

        Raises:
            InputError: no pose, or in a frame that is not known or stands on itself.
        """
        pose = only_child(element, "pose", place)
        own = pose_of(element, place)
        named = ""
        if pose is not None:
            named = pose.get("relative_to", "") or pose.get("frame", "")
        if not named and element.tag == "frame":
            named = element.get("attached_to", "")
        if not named and element.tag == "joint":
            named = text_of(element, "child", place, "")
        if named:
            return self.of(named, place) @ own
        return own if base is None else base @ own

    def of_model(self, element: Element, place: Place) -> Pose:
        """The pose of a ``<model>`` or ``<include>``; one that is given stands for the model's own.

        Raises:
            InputError: as of :meth:`pose`.
        """
        found = self._find(element, place)
        if found is None:
            return Pose()
        model, inside = found
        given = model if only_child(element, "pose", place) is None else element
        pose = self.pose(given, inside if given is model else place)
        placed = text_of(element, "placement_frame", place, "") if element.tag == "include" else ""
        placed = placed or model.get("placement_frame", "")
        if placed:
            pose = pose @ Frames(model, inside, self._find).of(placed, inside).inverse()
        return pose

    def of(self, name: str, place: Place) -> Pose:
        """The pose of a frame in this world or model.

        Args:
            name: of the frame.
            place: where it is named, for errors.

        Raises:
            InputError: it is not known, or stands on itself.
        """
        if name in ("", self.own):
            return Pose()
        if name in self._open:
            raise place.error(
                f"it stands on itself ({name!r}); let one frame stand on {self.own!r}"
            )
        if len(self._open) >= MAX_FRAMES:
            raise place.error(f"more than {MAX_FRAMES} frames, one on another")
        if name not in self._poses:
            self._open.append(name)
            self._poses[name] = self._resolve(name, place)
            self._open.pop()
        return self._poses[name]

    def _resolve(self, name: str, place: Place) -> Pose:
        first, inner, rest = (name, "", "") if name in self._named else name.partition("::")
        element = self._named[first] if first in self._named else self._from_file(first)
        model = element is not None and element.tag in ("model", "include")
        if element is None or (inner and not model):
            known = ", ".join((self.own, *(other for other in self._named if other != name)))
            raise place.error(f"it stands on {name[:60]!r}; allowed: {known[:300]}")
        inside = self._place.at(element)
        if not model:
            return self.pose(element, inside)
        pose = self.of_model(element, inside)
        if not inner:
            return pose
        found = self._find(element, inside)
        if found is None or rest.count("::") > MAX_FRAMES:
            raise place.error(f"it stands on {name[:60]!r}, which is not known")
        if first not in self._inner:
            self._inner[first] = Frames(*found, self._find)
        return pose @ self._inner[first].of(rest, place)

    def _from_file(self, name: str) -> Element | None:
        """The include whose file has a model of this name."""
        for element in self._nameless:
            found = self._find(element, self._place.at(element))
            if found is not None and found[0].get("name") == name:
                return element
        return None


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
