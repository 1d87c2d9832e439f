"""Values in SDF elements, and errors that say where in which file they stand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element  # the type alone: defusedxml parses

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import from_euler, normalize
from quadsim.world.scene.obstacles import Pose


@dataclass(frozen=True)
class Place:
    """Where an element stands: the file, and the names of what it is in."""

    file: Path
    inside: tuple[str, ...] = ()

    def at(self, element: Element) -> Place:
        """The place inside an element."""
        name = element.get("name")
        return Place(self.file, (*self.inside, f"{element.tag} {name!r}" if name else element.tag))

    def error(self, text: str) -> InputError:
        """An error that names the place."""
        return InputError(f"{self.file}: {', '.join(self.inside)}: {text}")


def only_child(parent: Element, tag: str, place: Place) -> Element | None:
    """The child of a name, or None; several are refused."""
    found = parent.findall(tag)
    if len(found) > 1:
        raise place.error(f"<{tag}> is there {len(found)} times; allowed: once")
    return found[0] if found else None


def text_of(parent: Element, tag: str, place: Place, default: str | None = None) -> str:
    """Text of a child; without a default it must be there."""
    child = only_child(parent, tag, place)
    text = "" if child is None else (child.text or "").strip()
    if text:
        return text
    if default is None:
        raise place.error(f"<{tag}> is missing")
    return default


def numbers_in(text: str, count: int, what: str, place: Place) -> tuple[float, ...]:
    """So many finite numbers, separated by blanks."""
    try:
        values = tuple(float(word) for word in text.split())
    except ValueError:
        values = ()
    if len(values) != count or not all(math.isfinite(value) for value in values):
        shown = text if len(text) <= 60 else text[:57] + "..."
        numbers = "a finite number" if count == 1 else f"{count} finite numbers"
        raise place.error(f"{what} {shown!r}; allowed: {numbers}")
    return values


def number_of(parent: Element, tag: str, place: Place, default: str | None = None) -> float:
    """One number in a child."""
    return numbers_in(text_of(parent, tag, place, default), 1, f"<{tag}>", place)[0]


def vector_of(parent: Element, tag: str, place: Place, default: str | None = None) -> Vec3:
    """Three numbers in a child."""
    x, y, z = numbers_in(text_of(parent, tag, place, default), 3, f"<{tag}>", place)
    return (x, y, z)


def pose_of(parent: Element, place: Place, frame: str | None = None) -> Pose:
    """What the ``<pose>`` of an element reports.

    Args:
        parent: a model, link, collision or include.
        place: for errors.
        frame: the one frame that it may be in; None: any, which is not looked up here.
    """
    element = only_child(parent, "pose", place)
    if element is None:
        return Pose()
    for attribute in ("relative_to", "frame"):
        other = element.get(attribute, "")
        if frame is not None and other not in ("", frame):
            raise place.error(
                f"<pose {attribute}={other!r}>: poses are read in the frame {frame!r} alone;"
                " write the pose in it"
            )
    text = (element.text or "").strip()
    layout = element.get("rotation_format", "euler_rpy")
    degrees = element.get("degrees", "false").lower() in ("true", "1")
    if layout == "quat_xyzw" and not degrees:
        x, y, z, qx, qy, qz, qw = numbers_in(text or "0 0 0 0 0 0 1", 7, "<pose>", place)
        if not abs(math.hypot(qx, qy, qz, qw) - 1.0) < 1e-3:
            raise place.error(f"<pose> {text!r}: the quaternion is not of unit length")
        return Pose((x, y, z), normalize((qw, qx, qy, qz)))
    if layout != "euler_rpy":
        raise place.error(
            f"<pose rotation_format={layout!r}>; allowed: euler_rpy, or quat_xyzw without degrees"
        )
    x, y, z, *angles = numbers_in(text or "0 0 0 0 0 0", 6, "<pose>", place)
    roll, pitch, yaw = (math.radians(angle) if degrees else angle for angle in angles)
    return Pose((x, y, z), from_euler(roll, pitch, yaw))
