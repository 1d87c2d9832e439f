"""The ``<frame>`` elements of a world: named places, such as where motion capture counts from."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element  # the type alone: defusedxml parses

from quadsim.world.scene.obstacles import Pose
from quadsim.world.sdf.values import Place, only_child, pose_of

#: The frame of the world itself, our ``map``.
WORLD = "world"


def frames_of(world: Element, place: Place) -> dict[str, Pose]:
    """Where the frames of a world are in it, by their names.

    A frame's pose is in that of ``relative_to``, else ``attached_to``, else of the world.

    Raises:
        InputError: a name that is missing, taken or reserved, a frame that is attached to
            something else than the world's frames, or to itself in the end.
    """
    elements: dict[str, Element] = {}
    for element in world.findall("frame"):
        name = element.get("name", "")
        if not name or name in elements or name == WORLD or name.startswith("__"):
            raise place.at(element).error(
                f"<frame name={name!r}>; allowed: a name of its own, not {WORLD!r}"
            )
        elements[name] = element
    return {name: _resolve(name, elements, place, ()) for name in elements}


def _resolve(
    name: str, elements: Mapping[str, Element], place: Place, before: tuple[str, ...]
) -> Pose:
    """Pose of a frame in the world, by those that it stands on."""
    element = elements[name]
    inside = place.at(element)
    pose = only_child(element, "pose", inside)
    parent = pose.get("relative_to", "") if pose is not None else ""
    parent = parent or element.get("attached_to", "") or WORLD
    own = pose_of(element, inside, parent)
    if parent == WORLD:
        return own
    if parent in (name, *before):
        raise inside.error(f"it stands on itself ({parent!r}); let one frame stand on {WORLD!r}")
    if parent not in elements:
        known = ", ".join(other for other in (WORLD, *elements) if other != name)
        raise inside.error(f"it stands on {parent!r}; allowed: {known}")
    return _resolve(parent, elements, place, (*before, name)) @ own
