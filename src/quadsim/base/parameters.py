"""Parameters: frozen dataclasses from which files, ROS parameters, docs and kernel records derive.

A field is declared once, as ``Annotated[type, Spec("meaning", unit="m", ge=0)]``. Types: ``bool``,
``int``, ``float``, ``str``, fixed tuples of floats, tuples of floats or of fixed tuples of any
length (``Spec.max_items`` then sizes the record), and nested parameter classes.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Protocol,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import yaml

from quadsim.base.compiled import Over, R, Records, new_record, record_dtype
from quadsim.base.errors import InputError, did_you_mean, shown
from quadsim.base.spec import Spec as Spec

Vec3 = tuple[float, float, float]
#: A text of ``Spec.choices`` that kernels see, there as its index.
if TYPE_CHECKING:
    Choice = Any
else:
    Choice = str


class IsDataclass(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


P = TypeVar("P", bound=IsDataclass)


@dataclass(frozen=True)
class Leaf:
    """One parameter of a class, found through nested classes by its dotted name."""

    name: str
    kind: Any
    spec: Spec
    default: Any


#: What :func:`_hints` found.
_HINTS: dict[type[Any], dict[str, tuple[Any, Spec]]] = {}


def _hints(cls: type[Any]) -> Mapping[str, tuple[Any, Spec]]:
    """Type and specification of each field; to find them takes a millisecond, so only once."""
    if cls not in _HINTS:
        found = {}
        for name, hint in get_type_hints(cls, include_extras=True).items():
            if get_origin(hint) is ClassVar:
                continue
            if get_origin(hint) is Annotated:
                kind, spec = get_args(hint)[:2]
            else:
                kind, spec = hint, Spec(doc="")
            found[name] = (kind, spec)
        _HINTS[cls] = found
    return _HINTS[cls]


def leaves(cls: type[Any], prefix: str = "") -> Iterator[Leaf]:
    """Every parameter of a class, nested ones with dotted names, in the order of declaration."""
    hints = _hints(cls)
    for field in dataclasses.fields(cls):
        kind, spec = hints[field.name]
        if dataclasses.is_dataclass(kind):
            yield from leaves(cast("type[Any]", kind), f"{prefix}{field.name}.")
            continue
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        yield Leaf(prefix + field.name, kind, spec, default)


def _number(value: object, spec: Spec, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where}: {shown(value)} is not a number; allowed: {spec.allowed()}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not spec.admits(number):
        unit = f" {spec.unit}" if spec.unit else ""
        raise InputError(
            f"{where}: {shown(value)} is out of range; allowed: {spec.allowed()}{unit}"
        )
    return number


def _sequence(value: object, kind: Any, spec: Spec, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InputError(f"{where}: {shown(value)} is not a list")
    item_kinds = get_args(kind)
    if item_kinds[-1] is Ellipsis:
        if spec.max_items and len(value) > spec.max_items:
            raise InputError(f"{where}: {len(value)} items; allowed: at most {spec.max_items}")
        item_kinds = (item_kinds[0],) * len(value)
    elif len(value) != len(item_kinds):
        raise InputError(f"{where}: {len(value)} items; allowed: exactly {len(item_kinds)}")
    return tuple(
        _convert(item, item_kind, spec, f"{where}[{i}]")
        for i, (item, item_kind) in enumerate(zip(value, item_kinds, strict=True))
    )


def _convert(value: object, kind: Any, spec: Spec, where: str) -> Any:
    """Check one value against its declared type and range; exact types, no silent coercion."""
    if dataclasses.is_dataclass(kind):
        return from_mapping(cast("type[Any]", kind), value, where)
    if get_origin(kind) is tuple:
        return _sequence(value, kind, spec, where)
    if kind is float:
        return _number(value, spec, where)
    if kind is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{where}: {shown(value)} is not a whole number")
        return int(_number(value, spec, where))
    if not isinstance(value, kind):
        raise InputError(
            f"{where}: {shown(value)} is not {'true or false' if kind is bool else 'text'}"
        )
    if spec.choices and value not in spec.choices:
        raise InputError(f"{where}: {shown(value)} is not known; allowed: {spec.allowed()}")
    return value


def from_mapping(cls: type[P], mapping: object, where: str, others: Sequence[str] = ()) -> P:
    """Build a parameter class from a mapping, refusing what is unknown, missing or out of range.

    Args:
        cls: a frozen dataclass as described above.
        mapping: nested mapping of plain values, as YAML gives it.
        where: the file (and key) that errors name.
        others: further keys, which the caller has taken out.

    Raises:
        InputError: naming ``where``, the key, the value and what is allowed.
    """
    if not isinstance(mapping, Mapping):
        raise InputError(f"{where}: expected keys and values, found {shown(mapping)}")
    hints = _hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    for key in mapping:
        if key not in names:
            allowed = [*names, *others]
            meant = did_you_mean(key, allowed)
            raise InputError(
                f"{where}: unknown key {shown(key)}{meant}; allowed: {', '.join(allowed)}"
            )
    values = {}
    for field in dataclasses.fields(cls):
        if field.name in mapping:
            kind, spec = hints[field.name]
            values[field.name] = _convert(mapping[field.name], kind, spec, f"{where}: {field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InputError(f"{where}: the key {field.name!r} is missing")
    try:
        return cls(**values)
    except InputError as error:  # a rule between several fields, from __post_init__
        raise InputError(f"{where}: {error}") from None


def without_unknown(cls: type[Any], values: object, where: str, notes: list[str]) -> object:
    """A recorded mapping without the keys that the class no longer has; ``notes`` names each."""
    if not isinstance(values, Mapping):
        return values
    found, hints = {}, _hints(cls)
    for key, value in values.items():
        if key not in hints:
            notes.append(f"{where}: {key} ({shown(value)}) is no key of this version: left out")
        elif dataclasses.is_dataclass(kind := hints[key][0]):
            found[key] = without_unknown(cast("type[Any]", kind), value, f"{where}.{key}", notes)
        else:
            found[key] = value
    return found


class _Loader(yaml.SafeLoader):
    """Safe loading in which 1e-3 is a number, as YAML 1.2 and every reader expect."""


#: Where PyYAML comes with libyaml, its parser is eight times as fast, and as safe.
_CSafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _FastLoader(_CSafeLoader):  # type: ignore[misc]
    """The same by libyaml."""


#: A longer text could nest deeper than libyaml's stack is; Python's own parser refuses that.
_FAST_CHARACTERS = 10_000


for _kind in (_Loader, _FastLoader):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
        list("-+0123456789"),
    )


#: Most values that the aliases of a text may stand for, as a few hundred bytes can say 10^10; and
#: most levels.
_ALIASED, _LEVELS = 100_000, 100
#: What PyYAML raises for scalars that are not of their tag.
_NO_YAML = (yaml.YAMLError, ValueError, LookupError, AttributeError)


def _construct(text: str, kind: Any, where: str) -> Any:
    """The content of a YAML text, after a look at how large its aliases make it."""
    loader = kind(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_large(node, where)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_large(root: yaml.Node, where: str) -> None:
    """Refuse a text that stands for far more values than it has, or nests too deep.

    Raises:
        InputError: naming ``where``.
    """
    sizes: dict[int, int] = {}  # values that a node stands for; 0 while it is being counted
    stack: list[tuple[yaml.Node, int, bool]] = [(root, 1, False)]
    while stack:
        node, level, counted = stack.pop()
        if level > _LEVELS:
            raise RecursionError
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
            if not counted:
                _refuse_repeated(node, where)
        else:
            parts = node.value if isinstance(node, yaml.SequenceNode) else []
        if counted:
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in parts)
        elif id(node) not in sizes:
            sizes[id(node)] = 0
            stack.append((node, level, True))
            stack += [(part, level + 1, False) for part in parts]
        elif not sizes[id(node)]:
            raise InputError(f"{where}: an alias stands for what it is in; write it out")
    beyond = sizes[id(root)] - len(sizes)
    if beyond > _ALIASED:
        raise InputError(
            f"{where}: its aliases stand for {shown(beyond)} values; allowed: {_ALIASED}"
        )


def _refuse_repeated(mapping: yaml.MappingNode, where: str) -> None:
    """Refuse a key that a mapping has twice, of which PyYAML would take the last.

    Raises:
        InputError: naming ``where``, the key and its line.
    """
    seen = set()
    for key, _ in mapping.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if (key.tag, key.value) in seen:
            line = key.start_mark.line + 1
            raise InputError(
                f"{where}: the key {shown(key.value)} is there twice, again at line {line}"
            )
        seen.add((key.tag, key.value))


def read_yaml_text(text: str, where: str) -> Any:
    """Load YAML safely.

    Raises:
        InputError: naming ``where``; not YAML, or more than a text of its length should be.
    """
    try:
        if len(text) <= _FAST_CHARACTERS:
            with suppress(*_NO_YAML):
                return _construct(text, _FastLoader, where)
        return _construct(text, _Loader, where)  # which knows better where a mistake is
    except _NO_YAML as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise InputError(f"{where}: not valid YAML{line}") from None
    except RecursionError:
        raise InputError(f"{where}: it nests too deep; allowed: {_LEVELS} levels") from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Load one YAML mapping safely.

    Raises:
        InputError: the file is missing, unreadable, not YAML, or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputError(f"{path}: cannot be read ({reason})") from None
    content = read_yaml_text(text, str(path))
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected keys and values, found {type(content).__name__}")
    return content


def load(cls: type[P], path: Path) -> P:
    """Read a parameter class from a YAML file; see :func:`from_mapping`."""
    return from_mapping(cls, read_yaml(path), str(path))


def flatten(params: IsDataclass) -> dict[str, bool | int | float | str | list[float]]:
    """Dotted name to scalar or flat list: the form of ROS parameters (lists are row-major)."""
    result: dict[str, bool | int | float | str | list[float]] = {}
    for leaf in leaves(type(params)):
        value: Any = params
        for part in leaf.name.split("."):
            value = getattr(value, part)
        if isinstance(value, tuple):
            result[leaf.name] = [float(x) for x in np.asarray(value, dtype=float).ravel()]
        else:
            result[leaf.name] = value
    return result


def unflatten(cls: type[P], flat: Mapping[str, Any], where: str) -> P:
    """Inverse of :func:`flatten`; names that are absent keep their defaults."""
    nested: dict[str, Any] = {}
    kinds = {leaf.name: leaf.kind for leaf in leaves(cls)}
    for name, value in flat.items():
        if name not in kinds:
            meant = did_you_mean(name, kinds)
            raise InputError(f"{where}: unknown parameter {shown(name)}{meant}")
        kind = kinds[name]
        if get_origin(kind) is tuple and get_origin(get_args(kind)[0]) is tuple:
            width = len(get_args(get_args(kind)[0]))
            if len(value) % width:
                raise InputError(
                    f"{where}: {name}: {len(value)} numbers do not make rows of {width}"
                )
            value = [list(value[i : i + width]) for i in range(0, len(value), width)]
        elif get_origin(kind) is tuple:
            value = list(value)
        elif kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        target = nested
        *groups, last = name.split(".")
        for group in groups:
            target = target.setdefault(group, {})
        target[last] = value
    return from_mapping(cls, nested, where)


def _record_field(name: str, kind: Any, spec: Spec) -> list[tuple[object, ...]]:
    if dataclasses.is_dataclass(kind):
        return [(name, dtype_of(cast("type[Any]", kind)))]
    if get_origin(kind) is tuple:
        items = get_args(kind)
        inner = len(get_args(items[0])) if get_origin(items[0]) is tuple else 0
        if items[-1] is Ellipsis:
            if not spec.max_items:
                raise TypeError(f"{name}: a tuple of any length needs Spec.max_items")
            shape = (spec.max_items, inner) if inner else (spec.max_items,)
            return [(name, np.float64, shape), (f"{name}_count", np.int64)]
        return [(name, np.float64, (len(items),))]
    return [(name, np.float64 if kind is float else np.int64)]


def _item_dtype(kind: Any) -> Any:
    """Type of one number of a field, or of one record in it."""
    if get_origin(kind) is np.ndarray:
        return get_args(get_args(kind)[1])[0]
    if get_origin(kind) is Records:
        return dtype_of(get_args(kind)[0])
    numbers = {int: np.int64, bool: np.int64, float: np.float64}
    return numbers.get(kind) or dtype_of(kind)


def _record_dtype(cls: Any) -> np.dtype[np.record]:
    """Structured type of a :class:`Record`; a generic one comes with its arguments."""
    origin = get_origin(cls) or cls
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(cls), strict=True))
    fields: list[tuple[object, ...]] = []
    over: dict[str, tuple[str, Any]] = {}
    for name, hint in get_type_hints(origin, include_extras=True).items():
        if getattr(hint, "__parameters__", ()):
            hint = hint[tuple(given[parameter] for parameter in hint.__parameters__)]
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        given_dtype = [note for note in notes if isinstance(note, np.dtype)]
        item = given_dtype[0] if given_dtype else _item_dtype(given.get(kind, kind))
        shape = tuple(note for note in notes if isinstance(note, int))
        places = [note.field for note in notes if isinstance(note, Over)]
        if places:
            over[name] = (places[0], (item, shape))
        else:
            fields.append((name, item, shape) if shape else (name, item))
    dtype = record_dtype(fields)
    if not over:
        return dtype
    known: Any = dtype.fields
    names = [*known, *over]
    formats = [known[name][0] for name in known] + [kind for _, kind in over.values()]
    offsets = [known[name][1] for name in known] + [known[place][1] for place, _ in over.values()]
    plain: Any = np.dtype(
        {"names": names, "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}
    )
    return cast("np.dtype[np.record]", np.dtype((np.record, plain)))


#: What :func:`dtype_of` made.
_DTYPES: dict[Any, np.dtype[np.record]] = {}


def dtype_of(cls: Any) -> np.dtype[np.record]:
    """Structured type of the kernels for a parameter class or a :class:`Record`.

    Booleans, whole numbers and choices (by their index) are int64, all else float64. Texts
    without choices have no place in a kernel and are left out.
    """
    if cls not in _DTYPES:
        if not dataclasses.is_dataclass(cls):
            _DTYPES[cls] = _record_dtype(cls)
            return _DTYPES[cls]
        fields: list[tuple[object, ...]] = []
        for name, (kind, spec) in _hints(cast("type[Any]", cls)).items():
            if kind is str and not spec.choices:
                continue
            fields += _record_field(name, kind, spec)
        _DTYPES[cls] = record_dtype(fields)
    return _DTYPES[cls]


def new(cls: type[R]) -> R:
    """One zeroed record of a class; kernels change it in place."""
    return cast(R, new_record(dtype_of(cls)))


def _fill(records: Any, params: IsDataclass) -> None:
    """Write parameters into an array of one, whose fields numpy finds faster than a record's."""
    if hasattr(params, "packed_as"):
        params = params.packed_as()
    for name, (kind, spec) in _hints(type(params)).items():
        value = getattr(params, name)
        if dataclasses.is_dataclass(kind):
            _fill(records[name], value)
        elif get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
            records[f"{name}_count"] = len(value)
            if value:
                records[name][0, : len(value)] = value
        elif kind is str:
            if spec.choices:
                records[name] = spec.choices.index(value)
        else:
            records[name] = value


def pack(params: IsDataclass) -> np.record:
    """Parameters as the record that kernels take; see :func:`dtype_of`.

    A class with a method ``packed_as`` returns by it what kernels see in its place, such as a value
    that a model gives.
    """
    records = np.zeros(1, dtype_of(type(params)))
    _fill(records, params)
    return cast(np.record, records[0])
