"""What a world brings to a scenario: scene, place and air of its file, recorded wind, hills."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.errors import InputError
from quadsim.base.files import find_world, read_limited
from quadsim.base.parameters import Spec, Vec3, from_mapping
from quadsim.world.air.wind_parameters import FASTEST_WIND_MPS, WindParams
from quadsim.world.environment import EnvironmentParams
from quadsim.world.ground import ground_height_of, slope_heights, slope_of
from quadsim.world.scene.raycast_terrain import TerrainArrays, terrain_height
from quadsim.world.scene.scene import EMPTY_SCENE, Scene, scene_of
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.scene.terrain_files import read_heightmap_file
from quadsim.world.scene.terrain_hills import HillsParams, hills
from quadsim.world.sdf.world_file import World, load_world

#: A field so near to the World Magnetic Model's, whose own error is 0.13 uT, is the model's, T.
SAME_FIELD_T = 1e-7

Array = NDArray[np.float64]

MAX_WIND_BYTES = 100_000_000
WIND_COLUMNS = ("t_s", "east_mps", "north_mps", "up_mps")
WIND_HEIGHT = "height_m"


def no_wind() -> Array:
    """The recording that is none."""
    return np.zeros((0, 1, 5))


def wind_table(wind: WindParams) -> Array:
    """The recording that the parameters name, or none; see :func:`read_wind`."""
    return read_wind(Path(wind.file).expanduser()) if wind.file else no_wind()


def read_wind(path: Path) -> Array:
    """Read velocities of the air by time, or by time and height above the ground.

    The first line names the columns, in any order: t_s, east_mps, north_mps, up_mps, and height_m
    where there are several heights, which are then the same at each time. Times count from the
    simulation's zero.

    Returns:
        (times, heights, 5): t_s, height_m, and the velocity in W; one height without that column.

    Raises:
        InputError: the file is missing, or no such table; with the line.
    """
    try:
        text = read_limited(path, MAX_WIND_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: cannot be read (not UTF-8 text)") from None
    rows = csv.reader(io.StringIO(text))
    names = [name.strip() for name in next(rows, [])]
    allowed = (WIND_COLUMNS, (*WIND_COLUMNS, WIND_HEIGHT))
    if sorted(names) not in [sorted(columns) for columns in allowed]:
        raise InputError(
            f"{path}: columns {', '.join(names) or '(none)'}; allowed: {', '.join(WIND_COLUMNS)},"
            f" and {WIND_HEIGHT} for several heights"
        )
    table = _wind_numbers(path, rows, len(names))
    order = [names.index(name) for name in WIND_COLUMNS]
    heights = table[:, names.index(WIND_HEIGHT)] if WIND_HEIGHT in names else np.zeros(len(table))
    table = np.column_stack([table[:, order[0]], heights, table[:, order[1:]]])
    return _wind_grid(path, table, WIND_HEIGHT in names)


def _wind_numbers(path: Path, rows: Any, width: int) -> Array:
    """Every row that is not empty, as finite numbers."""
    found = []
    try:
        for row in rows:
            if not row:
                continue
            numbers = [float(cell) for cell in row]
            if len(row) != width or not np.isfinite(numbers).all():
                raise ValueError
            found.append(numbers)
    except (ValueError, csv.Error):
        raise InputError(
            f"{path}: line {rows.line_num}: expected {width} finite numbers, separated by commas"
        ) from None
    if not found:
        raise InputError(f"{path}: no row of numbers after the names of the columns")
    return np.array(found)


def _wind_grid(path: Path, table: Array, has_heights: bool) -> Array:
    """Rows by time and height; what is missing or out of range is refused."""
    fastest = float(np.abs(table[:, 2:]).max())
    if fastest > FASTEST_WIND_MPS:
        raise InputError(
            f"{path}: a velocity of {fastest:g} m/s; allowed: at most {FASTEST_WIND_MPS:g} an axis"
        )
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    times, heights = np.unique(table[:, 0]), np.unique(table[:, 1])
    wanted = np.column_stack([np.repeat(times, len(heights)), np.tile(heights, len(times))])
    common = min(len(table), len(wanted))
    differs = (table[:common, :2] != wanted[:common]).any(axis=1)
    if len(table) != len(wanted) or differs.any():
        rows = table if len(table) > len(wanted) else wanted  # one too many, or one that is missing
        wrong = rows[int(np.argmax(np.append(differs, True)))]
        at = f"{wrong[0]:g} s" + (f", {wrong[1]:g} m" if has_heights else "")
        raise InputError(f"{path}: at {at}: expected exactly one row for each time and height")
    return table.reshape(len(times), len(heights), 5)


def environment_of(
    world: World,
    environment: EnvironmentParams,
    given: Collection[str],
    place: tuple[float, float],
    own_terrain: bool,
) -> tuple[EnvironmentParams, list[str]]:
    """The environment of a scenario, with its world's place, gravity, wind, field and ground.

    Args:
        world: what its file holds.
        environment: as the scenario has it.
        given: dotted keys that the scenario sets, which stay.
        place: where its first vehicle stands: x, y in m.
        own_terrain: whether the scenario brings terrain of its own.

    Returns:
        The environment, and a line on what is taken, if anything is.

    Raises:
        InputError: the world cannot be flown in.
    """
    taken: dict[str, Any] = {}
    notes: list[str] = []

    def is_open(*names: str) -> bool:
        keys = [f"environment.{name}" for name in names]
        return not any(f"{one}.".startswith(f"{key}.") for one in given for key in keys)

    if world.datum not in (None, environment.datum) and is_open("datum"):
        assert world.datum is not None
        taken["datum"] = asdict(world.datum)
        notes.append(
            "place {latitude_deg:g}, {longitude_deg:g} deg, {height_m:g} m".format(**taken["datum"])
        )
    gravity = world.gravity_W_mps2
    if gravity is not None and is_open("gravity", "gravity_mps2", "gravity_gradient_per_s2"):
        if math.hypot(*gravity[:2]) > 1e-6 or gravity[2] > 0.0:
            raise InputError(
                f"{world.path}: <gravity> {gravity}; allowed: downwards (or set"
                " environment.gravity_mps2 in the scenario)"
            )
        if -gravity[2] != environment.gravity_mps2:
            taken["gravity_mps2"] = abs(gravity[2])
            notes.append(f"gravity {abs(gravity[2]):g} m/s^2")
    wind = world.wind_W_mps
    if wind not in (None, environment.wind_W_mps) and is_open("wind_W_mps", "wind.file"):
        assert wind is not None
        taken["wind_W_mps"] = wind
        notes.append("wind ({:g}, {:g}, {:g}) m/s".format(*wind))
    field = world.magnetic_field_W_T
    if field is not None and is_open("magnetic_field", "magnetic_field_W_T", "magnetic_date_year"):
        there = EnvironmentParams(datum=world.datum or environment.datum).field_W_T()
        if max(abs(a - b) for a, b in zip(field, there, strict=True)) > SAME_FIELD_T:
            if world.datum is None or "datum" in taken or world.datum == environment.datum:
                taken |= {"magnetic_field": "fixed", "magnetic_field_W_T": field}
                micro = [1e6 * value for value in field]
                notes.append("magnetic field ({:.3g}, {:.3g}, {:.3g}) uT".format(*micro))
            else:
                notes.append("not its magnetic field, which is of another place")
    if is_open("ground_height_m"):
        level_m = world.ground_height_m
        own = None if level_m is None else (level_m, "")
        found = own if own_terrain else ground_height_of(world, *place)
        if found is not None and (found[1] or found[0] != environment.ground_height_m):
            taken["ground_height_m"] = found[0]
            notes.append(found[1] or f"flat ground at {found[0]:.6g} m")
        elif found is None and not own_terrain:
            notes.append(f"it has no ground here: flat ground at {environment.ground_height_m:g} m")
    if world.heading_deg:
        notes.append(f"rotated by its heading of {world.heading_deg:g} deg, x is east")
    if taken:
        where = f"{world.path}: what the scenario leaves open"
        environment = from_mapping(EnvironmentParams, asdict(environment) | taken, where)
    return environment, [f"from {world.path.name}: {'; '.join(notes)}"] if notes else []


@dataclass(frozen=True)
class HeightmapParams:
    """Terrain of an image or an elevation model."""

    file: Annotated[str, Spec("a .png, or a .tif (GeoTIFF) in metres; empty for none")] = ""
    size_m: Annotated[
        Vec3, Spec("of an image: east, north, white above black", "m", ge=0.0, le=1e5)
    ] = (0.0, 0.0, 0.0)
    center_W_m: Annotated[
        Vec3,
        Spec("its middle east and north, and the height of black or 0", "m", ge=-1e5, le=1e5),
    ] = (0.0, 0.0, 0.0)

    def read(self) -> Heightmap | None:
        """The terrain; None without a file.

        Raises:
            InputError: the file cannot be read, or is no terrain.
        """
        if not self.file:
            return None
        size_m = self.size_m if self.size_m != (0.0, 0.0, 0.0) else None
        return read_heightmap_file(Path(self.file).expanduser(), size_m, self.center_W_m)


#: How wide a world without terrain is, m.
OPEN_WORLD_M = 1000.0


def extent_m(scene: Scene) -> float:
    """Longer side of the terrain, or :data:`OPEN_WORLD_M`."""
    rows, columns = scene.terrain.heights.shape
    if rows == 0:
        return OPEN_WORLD_M
    return float(max((columns - 1) * scene.terrain.frame[2], (rows - 1) * scene.terrain.frame[3]))


def ground_beneath(
    scene: Scene, ground_height_m: float, p_W: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Height of the ground beneath points; obstacles do not count.

    Args:
        scene: for its terrain.
        ground_height_m: of the flat ground.
        p_W: (N, 3) in m.

    Returns:
        (N,) in m.
    """
    terrain = scene.terrain
    if len(terrain.heights) == 0:
        return np.full(len(p_W), ground_height_m)
    heights = np.empty(len(p_W))
    _terrain_heights(terrain, ground_height_m, np.ascontiguousarray(p_W[:, :2]), heights)
    return heights


@kernel
def _terrain_heights(
    terrain: TerrainArrays, ground_height_m: float, places: Any, heights: Any
) -> None:
    """Write :func:`terrain_height` at (N, 2) places into (N,) heights."""
    for i in range(len(places)):
        heights[i] = terrain_height(terrain, ground_height_m, places[i, 0], places[i, 1])


def make_scene(
    world: str | World,
    terrain: HillsParams,
    heightmap: HeightmapParams,
    environment: EnvironmentParams,
) -> Scene:
    """What rays and vehicles meet on the flat ground, and the recorded wind.

    Args:
        world: a file of ``worlds``, or a path, or what is in it.
        terrain: hills, instead of the world's own terrain.
        heightmap: a file of heights, instead of both.
        environment: for the height of the flat ground, and the wind's file.

    Returns:
        :data:`EMPTY_SCENE` itself where there is nothing of it.

    Raises:
        InputError: the world or the wind cannot be read; its own ground lies above the flat ground.
    """
    loaded = world if isinstance(world, World) else load_world(find_world(world))
    plane_m, ground_height_m = loaded.ground_height_m, environment.ground_height_m
    if plane_m is not None and plane_m > ground_height_m:
        raise InputError(
            f"{loaded.path}: its ground lies at {plane_m:g} m;"
            f" environment.ground_height_m is {ground_height_m:g}"
        )
    if terrain.height_m > 0.0 and heightmap.file:
        raise InputError("heightmap.file: with terrain.height_m; allowed: one of the two")
    grown = heightmap.read() or hills(terrain)
    slope = None if grown else slope_of(loaded)
    own = loaded.terrain if slope is None else slope_heights(slope)
    # Level ground is the flat ground's part: under terrain of the scenario it would fill the
    # valleys; those of the world's own it fills.
    fills = grown is None and own is not None and plane_m is not None
    above = tuple(
        obstacle
        for obstacle in loaded.obstacles
        if obstacle is not slope and (fills or not obstacle.is_level_ground())
    )
    grown = grown or own
    scene = scene_of(above, grown) if above or grown else EMPTY_SCENE
    if environment.wind.file:
        scene = scene._replace(wind=wind_table(environment.wind))
    return scene
