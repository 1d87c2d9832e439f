"""ROS parameters from parameter classes: types, ranges and words come from one declaration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar, get_origin

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterUninitializedException,
)
from rclpy.parameter import Parameter

from quadsim.base.errors import InputError
from quadsim.base.parameters import IsDataclass, Leaf, Spec, flatten, leaves, unflatten

P = TypeVar("P", bound=IsDataclass)
T = TypeVar("T", bool, int, float, str)

INT64_MAX = 2**63 - 1
NOTHING: Mapping[str, Any] = MappingProxyType({})

#: When a parameter changes that files say, in words.
ON_RESET = "read when the node starts, and from its file on /sim/reset"


def on_reset(_: str) -> str:
    """Of any parameter that it is read from its file again."""
    return ON_RESET


def _kind(leaf: Leaf) -> Parameter.Type:
    if get_origin(leaf.kind) in (tuple, list):
        texts = leaf.kind == list[str]
        return Parameter.Type.STRING_ARRAY if texts else Parameter.Type.DOUBLE_ARRAY
    return {
        bool: Parameter.Type.BOOL,
        int: Parameter.Type.INTEGER,
        float: Parameter.Type.DOUBLE,
        str: Parameter.Type.STRING,
    }[leaf.kind]


def descriptor(leaf: Leaf, when: str = "") -> ParameterDescriptor:
    """What ROS tools show of a parameter, and the range that ROS itself watches.

    Args:
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
    low = spec.ge if spec.gt is None else spec.gt
    high = spec.le if spec.lt is None else spec.lt
    if leaf.kind is float and (low, high) != (None, None):
        first, last = -math.inf if low is None else low, math.inf if high is None else high
        result.floating_point_range = [
            # closed: that an end is not allowed is in the words, and checked by ourselves
            FloatingPointRange(from_value=float(first), to_value=float(last))
        ]
    if leaf.kind is int and (low, high) != (None, None):
        least = -INT64_MAX if low is None else int(low) + (spec.gt is not None)
        most = INT64_MAX if high is None else int(min(high, INT64_MAX)) - (spec.lt is not None)
        result.integer_range = [IntegerRange(from_value=least, to_value=most)]
    return result


def declare(
    node: Any, defaults: P, prefix: str = "", when: Callable[[str], str] = lambda _: ""
) -> P:
    """Declare every parameter of a class on a node and give the class as the node was started.

    Args:
        defaults: what holds where nothing else is stated (a file's content).
        prefix: goes before the names.
        when: reports of a name when it may be changed in flight, as of :func:`descriptor`.

    Raises:
        InputError: naming the node, the parameter, the value and what is allowed.
    """
    values = flatten(defaults)
    given = {
        leaf.name: _declare(node, leaf, values[leaf.name], when(leaf.name), prefix)
        for leaf in leaves(type(defaults))
    }
    return unflatten(type(defaults), given, f"node {node.get_fully_qualified_name()}")


def _declare(node: Any, leaf: Leaf, value: Any, when: str = "", prefix: str = "") -> Any:
    """Declare one parameter; its value."""
    about = descriptor(leaf, when)
    name, where = prefix + leaf.name, f"node {node.get_fully_qualified_name()}"
    try:  # an empty list alone has no type
        found = node.declare_parameter(name, _kind(leaf) if value == [] else value, about).value
    except ParameterUninitializedException:
        found = None
    except (InvalidParameterTypeException, InvalidParameterValueException) as error:
        raise InputError(f"{where}: parameter {name}: {error}") from None
    return [] if found is None else found


def declare_one(node: Any, name: str, default: T, doc: str, when: str = "", **spec: Any) -> T:
    """Declare one parameter that is in no class.

    Args:
        default: what holds else; it states the type.
        when: as of :func:`descriptor`.
        spec: unit, range or choices, as of Spec.

    Raises:
        InputError: what was given cannot be.
    """
    leaf = Leaf(name, type(default), Spec(doc, **spec), default)
    found: T = _declare(node, leaf, default, when)
    if leaf.spec.choices and found not in leaf.spec.choices:
        where = f"node {node.get_fully_qualified_name()}: parameter {name}"
        raise InputError(f"{where}: {found!r}; allowed: {leaf.spec.allowed()}")
    return found


def declare_texts(node: Any, name: str, doc: str) -> list[str]:
    """Declare a list of texts, empty by default.

    Raises:
        InputError: what was given is no list of texts.
    """
    return [str(text) for text in _declare(node, Leaf(name, list[str], Spec(doc), []), [])]


def value_of(node: Any, name: str) -> Any:
    """Value of a parameter as :func:`~quadsim.base.parameters.flatten` gives it."""
    value = node.get_parameter_or(name).value
    if value is None:  # declared with a type alone
        return []
    return value if isinstance(value, bool | int | float | str) else list(value)


def current(node: Any, cls: type[P], prefix: str = "", changed: Mapping[str, Any] = NOTHING) -> P:
    """A class of parameters as a node has them now, but for those that change.

    Args:
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
