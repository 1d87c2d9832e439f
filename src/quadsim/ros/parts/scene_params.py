"""Parameters of the scene: what rays and vehicles meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quadsim.ros.runtime.params import (
    ON_RESET,
    current,
    declare,
    declare_one,
    on_reset,
    value_of,
)
from quadsim.world.build import HeightmapParams, make_scene
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene
from quadsim.world.scene.terrain_hills import HillsParams

MakeScene = Callable[[Mapping[str, Any]], Scene]
#: Beginnings of the parameters that make a scene.
SCENE = ("world", "terrain.", "heightmap.", "environment.")


def declare_scene(node: Any) -> MakeScene:
    """Declare what rays and vehicles meet, ``world``, ``terrain.*`` and ``heightmap.*``.

    Args:
        node: the node, with parameters ``environment.*``: the flat ground, and recorded wind.

    Returns:
        What makes it, from parameters that change and those that the node has; it raises an
        InputError where the world or the wind cannot be read.
    """
    declare_one(node, "world", "flat", "a file of worlds, or a path", ON_RESET)
    declare(node, HillsParams(), "terrain.", on_reset)
    declare(node, HeightmapParams(), "heightmap.", on_reset)

    def make(changed: Mapping[str, Any]) -> Scene:
        return make_scene(
            str(changed.get("world", value_of(node, "world"))),
            current(node, HillsParams, "terrain.", changed),
            current(node, HeightmapParams, "heightmap.", changed),
            current(node, EnvironmentParams, "environment.", changed),
        )

    return make
