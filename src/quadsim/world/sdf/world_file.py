"""World files: the part of SDF 1.9 that says what is where (http://sdformat.org/spec?ver=1.9).

Rays meet what is in ``<collision>``; visuals, physics, plugins and sensors are left aside. Every
model stands still where its poses put it, static or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element  # the type alone: defusedxml parses

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3, from_mapping
from quadsim.geometry.geodesy import Datum
from quadsim.world.scene.obstacles import Obstacle, Pose
from quadsim.world.scene.scene import Scene, scene_of
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.sdf.files import WorldFiles, read_sdf
from quadsim.world.sdf.frames import WORLD, frames_of
from quadsim.world.sdf.geometry import GeometryReader
from quadsim.world.sdf.values import Place, number_of, only_child, pose_of, text_of, vector_of

MAX_ITEMS = 100_000
MAX_DEPTH = 20
INCLUDED = ("uri", "name", "pose", "static", "plugin")


@dataclass(frozen=True, eq=False)
class World:
    """What a world file holds.

    Attributes:
        name: of its ``<world>``.
        path: of the file.
        obstacles: everything that rays meet, but the terrain.
        terrain: its heightmap.
        gravity_W_mps2: ``<gravity>``, if given.
        magnetic_field_W_T: ``<magnetic_field>``, if given.
        datum: ``<spherical_coordinates>``, if given.
        frames: where each ``<frame>`` of the world is in it, by its name.
    """

    name: str
    path: Path
    obstacles: tuple[Obstacle, ...]
    terrain: Heightmap | None
    gravity_W_mps2: Vec3 | None
    magnetic_field_W_T: Vec3 | None
    datum: Datum | None
    frames: Mapping[str, Pose] = field(default_factory=dict)

    def frame(self, name: str) -> Pose:
        """Where a frame of the world is in it; ``world`` is the world's own.

        Raises:
            InputError: the world has none of that name.
        """
        if name == WORLD:
            return Pose()
        if name not in self.frames:
            raise InputError(
                f"{self.path}: no <frame name={name!r}> in the world; known:"
                f" {', '.join((WORLD, *self.frames))} (add <frame name={name!r}> with its <pose>)"
            )
        return self.frames[name]

    def scene(self) -> Scene:
        """The arrays for ray casting."""
        return scene_of(self.obstacles, self.terrain)

    @property
    def ground_height_m(self) -> float | None:
        """Height of the highest level plane, if there is one."""
        heights = [item.pose_W.p_A[2] for item in self.obstacles if item.is_level_ground()]
        return max(heights, default=None)


@dataclass(frozen=True, eq=False)
class Model:
    """What a model's ``<collision>`` elements hold.

    Attributes:
        name: of its ``<model>``.
        static: as it says; by default it is not.
        obstacles: with their poses in the model's own frame.
    """

    name: str
    static: bool
    obstacles: tuple[Obstacle, ...]


def read_model(root: Element, path: Path) -> Model:
    """The one model of an SDF without a world; where its own ``<pose>`` puts it does not count.

    Args:
        root: as of :func:`read_sdf`.
        path: of the file, for errors and for what it names.

    Raises:
        InputError: with the file, the element and what is allowed.
    """
    place = Place(path).at(root)
    model = only_child(root, "model", place)
    if model is None:
        raise place.error("<model> is missing")
    inside = place.at(model)
    reader = _Reader(path)
    reader.read_model(model, Pose(), inside, 1)
    if reader.terrain is not None:
        raise inside.error("<heightmap>; allowed: in a world, not in a model by itself")
    static = text_of(model, "static", inside, "false").lower() in ("true", "1")
    return Model(model.get("name", ""), static, tuple(reader.obstacles))


def load_world(path: Path) -> World:
    """Read a world file and all that it includes.

    Raises:
        InputError: with the file, the element and what is allowed.
    """
    world, place = _world_in(path)
    reader = _Reader(path)
    reader.read_models(world, Pose(), "world", place, 0)
    return World(
        name=world.get("name", path.stem),
        path=path,
        obstacles=tuple(reader.obstacles),
        terrain=reader.terrain,
        gravity_W_mps2=_optional_vector(world, "gravity", place),
        magnetic_field_W_T=_optional_vector(world, "magnetic_field", place),
        datum=_datum_of(world, place),
        frames=frames_of(world, place),
    )


def load_frames(path: Path) -> dict[str, Pose]:
    """Where the frames of a world are, without reading what is in it.

    Raises:
        InputError: as :func:`load_world`.
    """
    return frames_of(*_world_in(path))


def _world_in(path: Path) -> tuple[Element, Place]:
    root = read_sdf(path)
    place = Place(path)
    world = only_child(root, "world", place.at(root))
    if world is None:
        raise place.at(root).error("<world> is missing")
    return world, place.at(world)


def _optional_vector(world: Element, tag: str, place: Place) -> Vec3 | None:
    return None if only_child(world, tag, place) is None else vector_of(world, tag, place)


def _datum_of(world: Element, place: Place) -> Datum | None:
    element = only_child(world, "spherical_coordinates", place)
    if element is None:
        return None
    place = place.at(element)
    for tag, known in (("surface_model", "EARTH_WGS84"), ("world_frame_orientation", "ENU")):
        if (text := text_of(element, tag, place, known)) != known:
            raise place.error(f"<{tag}> {text!r}; allowed: {known}")
    if (heading := number_of(element, "heading_deg", place, "0")) != 0.0:
        raise place.error(f"<heading_deg> {heading:g}; allowed: 0 (x is east)")
    values = {
        "latitude_deg": number_of(element, "latitude_deg", place),
        "longitude_deg": number_of(element, "longitude_deg", place),
        "height_m": number_of(element, "elevation", place, "0"),
    }
    return from_mapping(Datum, values, f"{place.file}: {', '.join(place.inside)}")


class _Reader:
    """Walks through models and what they include, and collects what rays meet."""

    def __init__(self, path: Path) -> None:
        self.obstacles: list[Obstacle] = []
        self.terrain: Heightmap | None = None
        self._files = WorldFiles(path)
        self._geometry = GeometryReader(self._files)
        self._models: dict[Path, Element] = {}
        self._items = 0

    def read_models(
        self, parent: Element, pose_W: Pose, frame: str, place: Place, depth: int
    ) -> None:
        """Read the models in a world or a model whose pose is given."""
        for child in parent:
            inside = place.at(child)
            if child.tag in ("model", "include"):
                self._count(inside, depth)
            if child.tag == "model":
                pose = pose_of(child, inside, frame)
                self.read_model(child, pose_W @ pose, inside, depth + 1)
            elif child.tag == "include":
                self._include(child, pose_W, frame, inside, depth + 1)
            elif child.tag in ("state", "population"):
                raise inside.error(f"<{child.tag}> is not known; write the models where they are")

    def _count(self, place: Place, depth: int) -> None:
        self._items += 1
        if self._items > MAX_ITEMS:
            raise place.error(f"more than {MAX_ITEMS} models and collisions in the world")
        if depth >= MAX_DEPTH:
            raise place.error(f"more than {MAX_DEPTH} models, one inside another")

    def _include(
        self, element: Element, pose_W: Pose, frame: str, place: Place, depth: int
    ) -> None:
        """Put the model of another file here; a pose given here replaces the model's own."""
        for child in element:
            if child.tag not in INCLUDED:
                raise place.error(f"<{child.tag}> is not known; allowed: {', '.join(INCLUDED)}")
        uri = text_of(element, "uri", place)
        found = self._files.find(uri, place)
        path = found if found.is_file() else found / "model.sdf"
        if path not in self._models:
            root = read_sdf(path)
            model = only_child(root, "model", Place(path).at(root))
            if model is None:
                raise place.error(f"<uri> {uri!r}: there is no <model> in {path}")
            self._models[path] = model
        model = self._models[path]
        inside = Place(path, (*place.inside, text_of(element, "name", place, uri)))
        given = only_child(element, "pose", place) is not None
        pose = pose_of(element, place, frame) if given else pose_of(model, inside, frame)
        self.read_model(model, pose_W @ pose, inside, depth)

    def read_model(self, model: Element, pose_W: Pose, place: Place, depth: int) -> None:
        """Read a model whose pose is given, and the models in it."""
        if model.get("placement_frame", ""):
            raise place.error("placement_frame is not known; place the model by its own frame")
        for link in model.findall("link"):
            inside = place.at(link)
            link_pose_W = pose_W @ pose_of(link, inside, "__model__")
            for collision in link.findall("collision"):
                self._read_collision(
                    collision, link_pose_W, link.get("name", ""), inside.at(collision), depth
                )
        self.read_models(model, pose_W, "__model__", place, depth)

    def _read_collision(
        self, element: Element, link_pose_W: Pose, link: str, place: Place, depth: int
    ) -> None:
        self._count(place, depth)
        pose_W = link_pose_W @ pose_of(element, place, link)
        geometry = only_child(element, "geometry", place)
        if geometry is None or len(geometry) != 1:
            raise place.error("<geometry>; allowed: exactly one, with one shape")
        shape = geometry[0]
        if shape.tag == "heightmap":
            if self.terrain is not None:
                raise place.error("<heightmap>: there is another one; allowed: one in a world")
            self.terrain = self._geometry.terrain(shape, pose_W, place)
        elif shape.tag != "empty":
            name = ", ".join(place.inside[1:])
            self.obstacles.append(Obstacle(name, self._geometry.shape(shape, place), pose_W))
