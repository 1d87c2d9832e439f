"""The scene of a scenario, from the names that it gives."""

from __future__ import annotations

from quadsim.errors import InputError
from quadsim.world.scene import EMPTY_SCENE, Scene


def make_scene(world: str) -> Scene:
    """What rays meet in a world.

    Args:
        world: a file of ``worlds``, or a path.

    Raises:
        InputError: the world cannot be read.
    """
    if world != "flat":
        raise InputError(f"unknown world {world!r}; known: flat")
    return EMPTY_SCENE
