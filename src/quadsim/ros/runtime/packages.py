"""Packages of messages that need not be installed, each named once with what goes without it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from importlib.util import find_spec

#: Packages that are wherever ROS is.
_STANDARD = ("sensor_msgs", "geometry_msgs", "nav_msgs", "std_msgs", "std_srvs", "rosgraph_msgs")


def is_installed(type_name: str) -> bool:
    """Whether the package of a type is there."""
    package = type_name.partition("/")[0]
    if package in sys.modules:
        return sys.modules[package] is not None
    return package in _STANDARD or find_spec(package) is not None


def lost(types: Collection[tuple[str, str]]) -> Iterator[str]:
    """A line for each package that is not installed, with what goes without it.

    Args:
        types: pairs of what it is for, and its type.
    """
    missing: dict[str, list[str]] = {}
    for what, type_name in types:
        if not is_installed(type_name):
            missing.setdefault(type_name.partition("/")[0], []).append(what)
    for package, parts in missing.items():
        debian = package.replace("_", "-")
        yield (
            f"the package {package} is not installed, so there is no"
            f" {', '.join(dict.fromkeys(parts))}; install ros-$ROS_DISTRO-{debian}, or build it in"
            " your workspace, and source that"
        )
