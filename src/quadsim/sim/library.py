"""The files that scenarios name, each read once however many scenarios name it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.files import find_world, share_dir
from quadsim.base.parameters import read_yaml
from quadsim.base.parts import POLICIES, Part
from quadsim.world.build import HeightmapParams, make_scene
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene
from quadsim.world.scene.terrain_hills import HillsParams
from quadsim.world.sdf.world_file import World, load_world

#: Scenes in memory; one of hills is some megabytes.
MAX_SCENES = 4


class OtherFileError(InputError):
    """A file is not the one that it was, or that it is elsewhere."""


def _load_world(name: str) -> World:
    return load_world(find_world(name))


def shared_name(path: Path) -> str:
    """Name of a file that is the same wherever quadsim is installed; else its whole path."""
    try:
        return str(path.resolve().relative_to(share_dir()))
    except (InputError, ValueError):
        return str(path.resolve())


class Library:
    """Files of scenarios, read once.

    Args:
        expected: SHA-256 of files by :func:`shared_name`, as they have to be.

    Attributes:
        world: what is in the file of a world, by its name.
        digests: SHA-256 of every file that was read, by the same names.
    """

    def __init__(self, expected: Mapping[str, str] | None = None) -> None:
        self._expected = expected or {}
        self._read: dict[Path, dict[str, Any]] = {}
        self.digests: dict[str, str] = {}
        #: What rays and vehicles meet; the same object for the same arguments.
        self.scene = lru_cache(MAX_SCENES)(self._make_scene)
        self.world = lru_cache(MAX_SCENES)(_load_world)

    def yaml(self, path: Path) -> dict[str, Any]:
        """Content of a file, for the caller to change.

        Raises:
            InputError: as of :func:`quadsim.base.parameters.read_yaml`, or it is not as expected.
        """
        if path not in self._read:
            content = read_yaml(path)
            self._note(path)  # one that is not as expected is read again, and refused
            self._read[path] = content
        return deepcopy(self._read[path])

    def _make_scene(
        self,
        world: str,
        terrain: HillsParams,
        heightmap: HeightmapParams,
        environment: EnvironmentParams,
    ) -> Scene:
        scene = make_scene(self.world(world), terrain, heightmap, environment)
        self._note(find_world(world))
        for name in (heightmap.file, environment.wind.file):
            if name:
                self._note(Path(name).expanduser())
        return scene

    def note_part(self, part: Part) -> None:
        """Keep the digests of the files of an own part: its class, and its policy if it is one.

        Raises:
            InputError: one is not as expected.
        """
        cls = part.load()
        with suppress(TypeError, OSError):  # it has no file
            self._note(Path(inspect.getfile(cls)))
        if part.name.endswith(POLICIES):
            with suppress(OSError):  # it is refused where it is made
                self._note(Path(part.name).expanduser())

    def _note(self, path: Path) -> None:
        """Keep a file's digest, and hold it against what is expected."""
        name = shared_name(path)
        if name in self.digests:
            return
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if self._expected.get(name, digest) != digest:
            raise OtherFileError(f"{path}: is not the file that was planned with; make them equal")
        self.digests[name] = digest
