"""ROS parameters from parameter classes: types, ranges and words come from one declaration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, get_origin

import numpy as np
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
)
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)
from rclpy.parameter import Parameter

from quadsim.base.errors import InputError
from quadsim.base.parameters import IsDataclass, Leaf, Spec, flatten, leaves, unflatten

P = TypeVar("P", bound=IsDataclass)

INT64_MAX = 2**63 - 1
NOTHING: Mapping[str, Any] = MappingProxyType({})

#: When a parameter changes that files say, in words.
ON_RESET = "read when the node starts, and from its file on /sim/reset"


def on_reset(_: str) -> str:
    """Of any parameter that it is read from its file again."""
    return ON_RESET


def _kind(leaf: Leaf) -> Parameter.Type:
    if get_origin(leaf.kind) is tuple:
        return Parameter.Type.DOUBLE_ARRAY
    return {
        bool: Parameter.Type.BOOL,
        int: Parameter.Type.INTEGER,
        float: Parameter.Type.DOUBLE,
        str: Parameter.Type.STRING,
    }[leaf.kind]


def descriptor(leaf: Leaf, when: str = "") -> ParameterDescriptor:
    """What ROS tools show of a parameter, and the range that ROS itself watches.

    Args:
        leaf: the parameter.
        when: when it may be changed in flight, in words; empty: never.
    """
    spec = leaf.spec
    result = ParameterDescriptor(
        name=leaf.name,
        type=_kind(leaf).value,
        description=spec.doc + (f", {spec.unit}" if spec.unit else ""),
        additional_constraints=f"allowed: {spec.allowed()}; {when or 'read when the node starts'}",
        read_only=not when,
    )
    bounded = any(bound is not None for bound in (spec.gt, spec.ge, spec.lt, spec.le))
    if leaf.kind is float and bounded:
        low = spec.ge if spec.gt is None else np.nextafter(spec.gt, math.inf)
        high = spec.le if spec.lt is None else np.nextafter(spec.lt, -math.inf)
        result.floating_point_range = [
            FloatingPointRange(
                from_value=-math.inf if low is None else float(low),
                to_value=math.inf if high is None else float(high),
            )
        ]
    if leaf.kind is int and bounded:
        least = spec.ge if spec.gt is None else spec.gt + 1
        most = spec.le if spec.lt is None else spec.lt - 1
        result.integer_range = [
            IntegerRange(
                from_value=-INT64_MAX if least is None else int(least),
                to_value=INT64_MAX if most is None else int(min(most, INT64_MAX)),
            )
        ]
    return result


def declare(
    node: Any, defaults: P, prefix: str = "", when: Callable[[str], str] = lambda _: ""
) -> P:
    """Declare every parameter of a class on a node and give the class as the node was started.

    Args:
        node: the node.
        defaults: what holds where nothing else is said (a file's content).
        prefix: goes before the names.
        when: says of a name when it may be changed in flight, as of :func:`descriptor`.

    Raises:
        InputError: naming the node, the parameter, the value and what is allowed.
    """
    where = f"node {node.get_fully_qualified_name()}"
    values = flatten(defaults)
    given = {}
    for leaf in leaves(type(defaults)):
        name = prefix + leaf.name
        value: Any = values[leaf.name]
        if value == []:  # an empty list alone has no type
            value = Parameter.Type.DOUBLE_ARRAY
        try:
            found = node.declare_parameter(name, value, descriptor(leaf, when(leaf.name))).value
            given[leaf.name] = [] if found is None else found
        except (
            InvalidParameterTypeException,
            InvalidParameterValueException,
            ParameterUninitializedException,
        ) as error:
            raise InputError(f"{where}: parameter {name}: {error}") from None
    return unflatten(type(defaults), given, where)


def value_of(node: Any, name: str) -> Any:
    """Value of a parameter as :func:`~quadsim.base.parameters.flatten` gives it."""
    value = node.get_parameter_or(name).value
    if value is None:  # declared with a type alone
        return []
    return value if isinstance(value, bool | int | float | str) else list(value)


def taken(node: Any, cls: type[P], prefix: str = "", changed: Mapping[str, Any] = NOTHING) -> P:
    """A class of parameters as a node has them now, but for those that change.

    Args:
        node: the node.
        cls: its class, which was declared.
        prefix: goes before the names.
        changed: full name to value; others are ignored.

    Raises:
        InputError: the values do not go together.
    """
    given = {
        leaf.name: changed[full]
        if (full := prefix + leaf.name) in changed
        else value_of(node, full)
        for leaf in leaves(cls)
    }
    return unflatten(cls, given, f"node {node.get_fully_qualified_name()}")


def _declare_one(node: Any, leaf: Leaf, when: str = "") -> Any:
    where = f"node {node.get_fully_qualified_name()}"
    try:
        return node.declare_parameter(leaf.name, leaf.default, descriptor(leaf, when)).value
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise InputError(f"{where}: parameter {leaf.name}: {error}") from None


def declare_text(node: Any, name: str, default: str, doc: str, when: str = "") -> str:
    """Declare one text parameter, such as the name of a file.

    Raises:
        InputError: what was given is no text.
    """
    return str(_declare_one(node, Leaf(name, str, Spec(doc), default), when))


def declare_int(node: Any, name: str, default: int, doc: str, least: int, when: str = "") -> int:
    """Declare one whole number.

    Raises:
        InputError: what was given is no whole number, or too small.
    """
    return int(_declare_one(node, Leaf(name, int, Spec(doc, ge=least), default), when))


def declare_bool(node: Any, name: str, default: bool, doc: str, when: str = "") -> bool:
    """Declare one switch.

    Raises:
        InputError: what was given is not true or false.
    """
    return bool(_declare_one(node, Leaf(name, bool, Spec(doc), default), when))


def declare_texts(node: Any, name: str, doc: str) -> list[str]:
    """Declare a list of texts, empty by default.

    Raises:
        InputError: what was given is no list of texts.
    """
    where = f"node {node.get_fully_qualified_name()}"
    about = ParameterDescriptor(
        name=name, type=Parameter.Type.STRING_ARRAY.value, description=doc, read_only=True
    )
    try:
        found = node.declare_parameter(name, Parameter.Type.STRING_ARRAY, about).value
    except ParameterUninitializedException:
        return []
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise InputError(f"{where}: parameter {name}: {error}") from None
    return [str(text) for text in found or ()]
