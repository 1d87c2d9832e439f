"""Systems of Gazebo: how its plugins are called, in Harmonic and later and in Fortress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.etree.ElementTree import Element  # the type alone

from quadsim.gazebo.xml import add_child

#: What a world of ours needs: the library's middle, the class, and what is set.
WORLD_SYSTEMS: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
    ("physics", "Physics", {}),
    ("user-commands", "UserCommands", {}),
    ("scene-broadcaster", "SceneBroadcaster", {}),
    ("sensors", "Sensors", {"render_engine": "ogre2"}),
    ("imu", "Imu", {}),
    ("navsat", "NavSat", {}),
    # without these two, Harmonic and later give gauss in north-east-down axes of the world
    ("magnetometer", "Magnetometer", {"use_units_gauss": False, "use_earth_frame_ned": False}),
    ("air-pressure", "AirPressure", {}),
)


def plugin_name(library: str, kind: str, fortress: bool = False) -> tuple[str, str]:
    """File name and name of a plugin.

    Args:
        library: what its library is called, such as ``multicopter-motor-model``.
        kind: its class.
        fortress: as Gazebo Fortress calls it, which knows no other name.
    """
    if fortress:
        return f"ignition-gazebo-{library}-system", f"ignition::gazebo::systems::{kind}"
    return f"gz-sim-{library}-system", f"gz::sim::systems::{kind}"


def add_system(
    parent: Element, library: str, kind: str, settings: Mapping[str, Any], fortress: bool = False
) -> Element:
    """Append a plugin with its settings; see :func:`plugin_name`."""
    filename, name = plugin_name(library, kind, fortress)
    return add_child(parent, "plugin", settings, filename=filename, name=name)
