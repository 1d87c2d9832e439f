"""The scene of a scenario: a world file, and hills that a scenario grows from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.errors import InputError
from quadsim.base.files import find_world
from quadsim.base.parameters import Spec, Vec3
from quadsim.world.air.wind_file import wind_table
from quadsim.world.environment import EnvironmentParams
from quadsim.world.ground import slope_heights, slope_of
from quadsim.world.scene.raycast_terrain import TerrainArrays, terrain_height
from quadsim.world.scene.scene import EMPTY_SCENE, Scene, scene_of
from quadsim.world.scene.terrain import Heightmap
from quadsim.world.scene.terrain_geotiff import read_heightmap_file
from quadsim.world.scene.terrain_hills import HillsParams, hills
from quadsim.world.sdf.world_file import World, load_world


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
    """What rays and vehicles meet beside the flat ground, and the recorded wind.

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
            f" environment.ground_height_m says {ground_height_m:g}"
        )
    if terrain.height_m > 0.0 and heightmap.file:
        raise InputError("heightmap.file: beside terrain.height_m; allowed: one of the two")
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
