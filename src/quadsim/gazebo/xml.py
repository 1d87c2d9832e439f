"""Writing XML: elements from numbers, texts and mappings of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element, SubElement  # to write; base.xml reads

from quadsim.geometry.rotation import to_euler
from quadsim.world.scene.obstacles import Pose


def xml_text(value: Any) -> str:
    """How a value is written: nine digits of a number, blanks between several, true and false."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value + 0.0:.9g}"  # no negative zero
    return " ".join(xml_text(item) for item in value)


def add_child(parent: Element, tag: str, content: Any = None, **attributes: Any) -> Element:
    """Append an element.

    Args:
        parent: gets it.
        tag: its name.
        content: its text; a mapping makes children; None leaves it empty.
        attributes: of it.
    """
    element = SubElement(parent, tag, {key: xml_text(value) for key, value in attributes.items()})
    if isinstance(content, Mapping):
        for key, value in content.items():
            add_child(element, key, value)
    elif content is not None:
        element.text = xml_text(content)
    return element


def angles_of(pose: Pose) -> tuple[float, float, float]:
    """Roll, pitch and yaw of a pose in rad."""
    roll, pitch, yaw = to_euler(pose.q_AB)
    return float(roll), float(pitch), float(yaw)


def add_pose(parent: Element, pose: Pose) -> None:
    """Append ``<pose>``, unless it is where the parent is."""
    if pose != Pose():
        add_child(parent, "pose", (*pose.p_A, *angles_of(pose)))


def document(root: Element, comment: str = "") -> str:
    """The text of a file, indented by two blanks.

    Args:
        root: the whole of it.
        comment: a line before it.
    """
    ET.indent(root, "  ")
    words = f"<!-- {comment.replace('--', '- -')} -->\n" if comment else ""
    return f'<?xml version="1.0"?>\n{words}{ET.tostring(root, encoding="unicode")}\n'
