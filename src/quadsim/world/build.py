"""The scene of a scenario: a world file, and hills that a scenario grows from a seed."""

from __future__ import annotations

from quadsim.errors import InputError
from quadsim.files import find_world
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene import EMPTY_SCENE, Scene, scene_of
from quadsim.world.sdf import load_world
from quadsim.world.terrain_hills import HillsParams, hills
from quadsim.world.wind_file import wind_table


def make_scene(world: str, terrain: HillsParams, environment: EnvironmentParams) -> Scene:
    """What rays and vehicles meet beside the flat ground, and the recorded wind.

    Args:
        world: a file of ``worlds``, or a path.
        terrain: hills, instead of the world's own terrain.
        environment: for the height of the flat ground, and the wind's file.

    Returns:
        :data:`EMPTY_SCENE` itself where there is nothing of it.

    Raises:
        InputError: the world or the wind cannot be read; its own ground lies above the flat ground.
    """
    loaded = load_world(find_world(world))
    plane_m, ground_height_m = loaded.ground_height_m, environment.ground_height_m
    if plane_m is not None and plane_m > ground_height_m:
        raise InputError(
            f"{loaded.path}: its ground lies at {plane_m:g} m;"
            f" environment.ground_height_m says {ground_height_m:g}"
        )
    grown = hills(terrain) or loaded.terrain
    # level ground is the flat ground's part; under terrain it would fill the valleys
    above = tuple(obstacle for obstacle in loaded.obstacles if not obstacle.is_level_ground())
    scene = scene_of(above, grown) if above or grown else EMPTY_SCENE
    if environment.wind.file:
        scene = scene._replace(wind=wind_table(environment.wind))
    return scene
