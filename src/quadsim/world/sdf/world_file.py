"""World files: the part of SDF 1.9 that states what is where (http://sdformat.org/spec?ver=1.9).

Rays meet what is in ``<collision>``; visuals, physics, plugins and sensors are left aside. Every
model stands still where its poses put it, static or not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree.ElementTree import Element  # the type alone

from quadsim.base.compiled import plain
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3, from_mapping
from quadsim.base.xml import parse
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import from_euler, rotate, yaw_of
from quadsim.world.scene.obstacles import Obstacle, Pose
from quadsim.world.scene.scene import Scene, scene_of
from quadsim.world.scene.solids import sheet_of
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.sdf.files import MissingFileError, WorldFiles, model_file, read_sdf
from quadsim.world.sdf.geometry import WORLD, Frames, GeometryReader
from quadsim.world.sdf.values import Place, number_of, only_child, pose_of, text_of, vector_of

MAX_ITEMS = 100_000
MAX_DEPTH = 20
INCLUDED = ("uri", "name", "pose", "placement_frame", "static", "plugin")
#: What ``<experimental:params>`` may add to what is included: rays do not meet it.
NOT_MET = ("sensor", "plugin", "light", "visual")

#: Models that are installed with Gazebo Classic.
WITH_GAZEBO = {
    "model://sun": "<sdf><light/></sdf>",
    "model://ground_plane": "<sdf><model name='ground_plane'><link name='link'><collision"
    " name='collision'><geometry><plane/></geometry></collision></link></model></sdf>",
}


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
        wind_W_mps: ``<wind>``, if given.
        heading_deg: by how much the file's x axis is rotated from east towards north; all the rest
            is in ``map``, whose x is east.
    """

    name: str
    path: Path
    obstacles: tuple[Obstacle, ...]
    terrain: Heightmap | None
    gravity_W_mps2: Vec3 | None
    magnetic_field_W_T: Vec3 | None
    datum: Datum | None
    frames: Mapping[str, Pose] = field(default_factory=dict)
    wind_W_mps: Vec3 | None = None
    heading_deg: float = 0.0

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
        static: as it reports; by default it is not.
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
    root, world, place = _world_in(path)
    heading_rad = _heading_rad(root, world, place)
    turn = Pose(q_AB=plain(from_euler)(0.0, 0.0, heading_rad))
    reader = _Reader(path)
    frames = Frames(world, place, reader.model_in)
    reader.read_models(world, turn, frames, place, 0)
    physics = world.find("physics") if world.find("gravity") is None else None
    old = world if physics is None else physics  # where SDF 1.5 and before had them
    wind = world.find("wind")
    return World(
        name=world.get("name", path.stem),
        path=path,
        obstacles=tuple(reader.obstacles),
        terrain=reader.terrain,
        gravity_W_mps2=_optional_vector(old, "gravity", place, turn),
        magnetic_field_W_T=_optional_vector(old, "magnetic_field", place, turn),
        wind_W_mps=None if wind is None else _optional_vector(wind, "linear_velocity", place, turn),
        datum=_datum_of(world, place),
        frames={name: turn @ pose for name, pose in frames.all().items()},
        heading_deg=round(math.degrees(plain(yaw_of)(turn.q_AB)), 9),
    )


def load_frames(path: Path) -> dict[str, Pose]:
    """Where the frames of a world are, without reading what is in it.

    Raises:
        InputError: as :func:`load_world`.
    """
    root, world, place = _world_in(path)
    heading_rad = _heading_rad(root, world, place)
    turn = Pose(q_AB=plain(from_euler)(0.0, 0.0, heading_rad))
    frames = Frames(world, place, _Reader(path).model_in).all()
    return {name: turn @ pose for name, pose in frames.items()}


def _world_in(path: Path) -> tuple[Element, Element, Place]:
    root = read_sdf(path)
    place = Place(path)
    world = only_child(root, "world", place.at(root))
    if world is None:
        raise place.at(root).error("<world> is missing")
    return root, world, place.at(world)


def _optional_vector(parent: Element, tag: str, place: Place, turn: Pose) -> Vec3 | None:
    if only_child(parent, tag, place) is None:
        return None
    return plain(rotate)(turn.q_AB, vector_of(parent, tag, place))


def _heading_rad(root: Element, world: Element, place: Place) -> float:
    """Direction of the world's x axis from east towards north, by ``<heading_deg>``.

    In files of Gazebo Classic (SDF 1.6 and before) 180 degrees are x to the east: its GPS counted
    from the west.
    """
    element = world.find("spherical_coordinates")
    if element is None:
        return 0.0
    place = place.at(element)
    heading_deg = number_of(element, "heading_deg", place, "0")
    classic = int(root.get("version", "1.0").strip().partition(".")[2]) <= 6
    return 0.0 if classic and abs(heading_deg) == 180.0 else math.radians(heading_deg)


def _datum_of(world: Element, place: Place) -> Datum | None:
    element = only_child(world, "spherical_coordinates", place)
    if element is None:
        return None
    place = place.at(element)
    for tag, known in (("surface_model", "EARTH_WGS84"), ("world_frame_orientation", "ENU")):
        if (text := text_of(element, tag, place, known)) != known:
            raise place.error(f"<{tag}> {text!r}; allowed: {known}")
    values = {
        "latitude_deg": number_of(element, "latitude_deg", place, "0"),
        "longitude_deg": number_of(element, "longitude_deg", place, "0"),
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
        self._models: dict[Path | str, Element | None] = {}
        self._items = 0

    def read_models(
        self, parent: Element, pose_W: Pose, frames: Frames, place: Place, depth: int
    ) -> None:
        """Read the models in a world or a model whose pose is given."""
        state = {} if depth else _saved_poses(parent, place)
        for child in parent:
            inside = place.at(child)
            if child.tag == "population":
                raise inside.error("<population> is not known; write the models where they are")
            if child.tag not in ("model", "include"):
                continue
            self._count(inside, depth)
            found = self.model_in(child, inside)
            if found is None:
                continue
            model, within = found
            name = child.findtext("name") or model.get("name", "")
            pose = state[name] if name in state else frames.of_model(child, inside)
            self.read_model(model, pose_W @ pose, within, depth + 1)

    def _count(self, place: Place, depth: int) -> None:
        self._items += 1
        if self._items > MAX_ITEMS:
            raise place.error(f"more than {MAX_ITEMS} models and collisions in the world")
        if depth >= MAX_DEPTH:
            raise place.error(f"more than {MAX_DEPTH} models, one inside another")

    def model_in(self, element: Element, place: Place) -> tuple[Element, Place] | None:
        """The model that an element is, or that it includes; None for a light or an actor.

        Raises:
            InputError: what is included is not there, or is none of these.
        """
        if element.tag == "model":
            return element, place
        for child in element:
            # with a prefix it is for a program; that one of Gazebo's changes what is included
            params = child.tag == "experimental:params" and any(
                inner.tag not in NOT_MET for inner in child
            )
            if params or (child.tag not in INCLUDED and ":" not in child.tag):
                raise place.error(f"<{child.tag}> is not known; allowed: {', '.join(INCLUDED)}")
        uri = text_of(element, "uri", place)
        key: Path | str = uri
        try:
            key = path = model_file(self._files.find(uri, place))
        except MissingFileError:
            if uri not in WITH_GAZEBO:
                raise
            path = Path(uri)
        if key not in self._models:
            text = WITH_GAZEBO.get(str(key))
            root = read_sdf(path) if text is None else parse(text)
            model = only_child(root, "model", Place(path).at(root))
            if model is None and root.find("light") is None and root.find("actor") is None:
                raise place.error(f"<uri> {uri!r}: there is no <model> in {path}")
            self._models[key] = model
        model = self._models[key]
        if model is None:
            return None
        return model, Place(path, (*place.inside, text_of(element, "name", place, uri)))

    def read_model(self, model: Element, pose_W: Pose, place: Place, depth: int) -> None:
        """Read a model whose pose is given, and the models in it."""
        frames = Frames(model, place, self.model_in)
        for link in model.findall("link"):
            inside = place.at(link)
            collisions = link.findall("collision")
            if not collisions:
                continue
            link_pose = frames.pose(link, inside)
            for collision in collisions:
                within = inside.at(collision)
                self._count(within, depth)
                pose = frames.pose(collision, within, link_pose)
                self._read_collision(collision, pose_W @ pose, within)
        self.read_models(model, pose_W, frames, place, depth)

    def _read_collision(self, element: Element, pose_W: Pose, place: Place) -> None:
        geometry = only_child(element, "geometry", place)
        tags = {shape.tag for shape in geometry} if geometry is not None else set()
        if geometry is None or len(tags) != 1 or (len(geometry) > 1 and tags != {"polyline"}):
            raise place.error("<geometry>; allowed: exactly one, with one shape")
        name = ", ".join(place.inside[1:])
        if tags == {"heightmap"}:
            found = self._geometry.terrain(geometry[0], pose_W, place)
            if isinstance(found, Heightmap) and self.terrain is not None:
                found = Obstacle(name, sheet_of(found))
            if isinstance(found, Heightmap):
                self.terrain = found
            else:
                self.obstacles.append(found)
        elif tags != {"empty"}:
            for shape, pose in self._geometry.shapes(geometry, place):
                self.obstacles.append(Obstacle(name, shape, pose_W @ pose))


def _saved_poses(world: Element, place: Place) -> dict[str, Pose]:
    """Where models are by the ``<state>`` that Gazebo Classic saved with a world."""
    state = only_child(world, "state", place)
    models = [] if state is None else state.findall("model")
    return {
        model.get("name", ""): pose_of(model, place.at(model))
        for model in models
        if model.find("pose") is not None
    }
