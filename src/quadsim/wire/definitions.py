"""The standard message types, without ROS: rosbags' copy of their definitions."""

from __future__ import annotations

from functools import lru_cache

from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from quadsim.base.errors import InputError

#: Packages whose types are known here.
_OWN = ("sensor_msgs", "geometry_msgs", "nav_msgs", "std_msgs")


@lru_cache(maxsize=1)
def standard_types() -> Typestore:
    """Message types of common_interfaces and rosgraph_msgs, as ROS 2 Kilted has them."""
    return get_typestore(Stores.ROS2_KILTED)


def check_standard(type_name: str) -> None:
    """Refuse a type that its package, one of ROS's own, does not have.

    Raises:
        InputError: naming those that it has.
    """
    package = type_name.partition("/")[0]
    if package not in _OWN or type_name in standard_types().fielddefs:
        return
    there = sorted(
        name.rpartition("/")[2]
        for name in standard_types().fielddefs
        if name.startswith(f"{package}/msg/")
    )
    raise InputError(f"type: {type_name!r} is none of {package}; it has {', '.join(there)}")


@lru_cache(maxsize=256)
def definition_of(type_name: str) -> tuple[str, str]:
    """Text of a type's definition with all it refers to, and its RIHS01 hash.

    Args:
        type_name: ``package/msg/Type``.

    Returns:
        (definition, hash); both empty for a type that is not among the standard ones.
    """
    types = standard_types()
    if type_name not in types.fielddefs:
        return "", ""
    return types.generate_msgdef(type_name, ros_version=2)[0], types.hash_rihs01(type_name)
