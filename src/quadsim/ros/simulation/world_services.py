"""Services of simulation_interfaces that tell of worlds: which there are, and places in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from quadsim.base.errors import shown
from quadsim.base.files import find_world, known_worlds
from quadsim.ros.messages.cdr import put_xyz
from quadsim.ros.simulation.interfaces import Interfaces
from quadsim.world.sdf.world_file import load_frames


class WorldServices:
    """Offers them.

    Args:
        interfaces: that offer services.
        name: of the world that is flown in: a file of worlds, or a path.
    """

    def __init__(self, interfaces: Interfaces, name: Callable[[], str]) -> None:
        self._interfaces, self._name = interfaces, name
        interfaces.offer("GetCurrentWorld", self._current, "WORLD_INFO_GETTING")
        interfaces.offer("GetAvailableWorlds", self._available, "AVAILABLE_WORLDS")
        interfaces.offer("GetNamedPoses", self._poses, "NAMED_POSES")

    def _current(self, _: Any, response: Any) -> None:
        _fill(response.world, find_world(self._name()))

    def _available(self, request: Any, response: Any) -> str:
        """The shipped worlds; none has a tag."""
        for name in () if request.filter.tags else known_worlds():
            world = self._interfaces.message("WorldResource")()
            _fill(world, find_world(name))
            response.worlds.append(world)
        unknown = ", ".join(shown(source) for source in request.additional_sources[:10])
        return f"sources that are not known: {unknown}" if unknown else ""

    def _poses(self, request: Any, response: Any) -> None:
        """The frames of the world file; none has a tag."""
        frames = {} if request.tags.tags else load_frames(find_world(self._name()))
        for name, pose_W in frames.items():
            named = self._interfaces.message("NamedPose")()
            named.name, named.description = name, "a <frame> of the world file"
            put_xyz(named.pose.position, pose_W.p_A)
            turn = named.pose.orientation
            turn.w, turn.x, turn.y, turn.z = pose_W.q_AB
            response.poses.append(named)


def _fill(world: Any, path: Path) -> None:
    """Write a world file into a WorldResource; 2.0 has another name for the resource."""
    world.name = path.stem
    resource = getattr(world, "world_resource", None) or world.level_resource
    resource.uri = path.resolve().as_uri()
