"""Message types by their definitions, without ROS: rosbags' standard ones, those of fixed length.

Messages without strings and lists, as those of PX4, have one layout for all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from quadsim.base.errors import InputError, QuadsimError
from quadsim.wire.decode import HEADER, LITTLE_ENDIAN

#: Packages whose types are known here.
_OWN = ("sensor_msgs", "geometry_msgs", "nav_msgs", "std_msgs")

_LARGEST = 4096  # bytes; no message of the kind is larger


def fixed_dtype(types: Typestore, type_name: str) -> np.dtype[np.void]:
    """Structured type of one serialised message, its header of four bytes included.

    Args:
        types: knows the type and all that it refers to.
        type_name: ``package/msg/Type``.

    Raises:
        QuadsimError: the type is not known, or its messages have no fixed length.
    """
    names: list[str] = []
    formats: list[Any] = []
    offsets: list[int] = []
    end = _add_fields(types, type_name, "", HEADER, (names, formats, offsets))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": end})


def _add_fields(
    types: Typestore,
    type_name: str,
    prefix: str,
    offset: int,
    out: tuple[list[str], list[Any], list[int]],
) -> int:
    if type_name not in types.fielddefs:
        raise QuadsimError(f"{type_name} is not defined in the bag")
    try:
        fields: Any = types.get_msgdef(type_name).fields
    except KeyError as error:
        raise QuadsimError(
            f"{type_name} refers to {error}, which the bag does not define"
        ) from None
    for field, (kind, detail) in fields:
        shape: tuple[int, ...] = ()
        if kind == Nodetype.ARRAY:
            (kind, detail), length = detail
            shape = (int(length),)
        if kind == Nodetype.NAME and not shape:
            offset = _add_fields(types, str(detail), f"{prefix}{field}.", offset, out)
            continue
        if kind != Nodetype.BASE or detail[0] == "string" or offset > _LARGEST:
            raise QuadsimError(f"{type_name}: its field {field} has no fixed length")
        format_ = np.dtype(str(detail[0])).newbyteorder("<")
        offset += (HEADER - offset) % format_.itemsize
        out[0].append(prefix + field)
        out[1].append((format_, shape))
        out[2].append(offset)
        offset += format_.itemsize * int(np.prod(shape, dtype=int))
    return offset


def decode_fixed(dtype: np.dtype[np.void], payloads: list[bytes]) -> np.ndarray[Any, Any]:
    """Messages as one array; a message may end with padding.

    Raises:
        QuadsimError: a message is shorter than its type.
    """
    size = dtype.itemsize
    for i, payload in enumerate(payloads):
        if len(payload) < size or payload[1] != LITTLE_ENDIAN:
            raise QuadsimError(f"message {i} has {len(payload)} bytes, expected {size}")
    return np.frombuffer(b"".join(payload[:size] for payload in payloads), dtype)


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
