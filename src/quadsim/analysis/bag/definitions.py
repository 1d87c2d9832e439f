"""The standard message types, without ROS: rosbags' copy of their definitions."""

from __future__ import annotations

from functools import lru_cache

from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore


@lru_cache(maxsize=1)
def standard_types() -> Typestore:
    """Message types of common_interfaces and rosgraph_msgs, as ROS 2 Kilted has them."""
    return get_typestore(Stores.ROS2_KILTED)


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
