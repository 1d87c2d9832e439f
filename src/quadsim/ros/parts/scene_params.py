"""Parameters of the scene: what rays and vehicles meet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quadsim.base.errors import InputError
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.params import ON_RESET, current, declare, declare_one, on_reset, value_of
from quadsim.world.build import HeightmapParams, make_scene
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.moving_scene import scene_with
from quadsim.world.scene.obstacle_markers import MarkerReader
from quadsim.world.scene.obstacles import Obstacle
from quadsim.world.scene.scene import Scene
from quadsim.world.scene.terrain_hills import HillsParams

#: Beginnings of the parameters that make a scene.
SCENE = ("world", "terrain.", "heightmap.", "environment.")


class DeclaredScene:
    """What rays and vehicles meet, by ``world``, ``terrain.*`` and ``heightmap.*``.

    Args:
        node: the node, with parameters ``environment.*``: the flat ground, and recorded wind.
    """

    def __init__(self, node: Any) -> None:
        self._node = node
        self._spawned: list[Obstacle] = []
        declare_one(node, "world", "flat", "a file of worlds, or a path", ON_RESET)
        declare(node, HillsParams(), "terrain.", on_reset)
        declare(node, HeightmapParams(), "heightmap.", on_reset)

    def __call__(self, changed: Mapping[str, Any]) -> Scene:
        """Make it from parameters that change and those that the node has.

        Raises:
            InputError: the world or the wind cannot be read.
        """
        node = self._node
        return make_scene(
            str(changed.get("world", value_of(node, "world"))),
            current(node, HillsParams, "terrain.", changed),
            current(node, HeightmapParams, "heightmap.", changed),
            current(node, EnvironmentParams, "environment.", changed),
        )

    def hear_spawned(self, changed: Callable[[], None]) -> None:
        """Listen to what is spawned, and say when that changes."""
        reader = MarkerReader()

        def take(message: Any) -> None:
            try:
                self._spawned = reader.read(message)
            except InputError as error:
                raise MessageError(str(error)) from None
            changed()

        self._node.listen(topics.OBSTACLES, take, raw=False)

    def with_spawned(self, scene: Scene) -> Scene:
        """A scene with all that is spawned."""
        return scene_with(scene, self._spawned)
