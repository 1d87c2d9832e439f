"""Options: frozen dataclasses from which command line, launch arguments and reference derive.

A field is declared once, as ``rate: float = option(1.0, "meaning", unit="s", ge=0.0)``, or as
``Annotated[float, Option("meaning")] = 1.0`` where several classes share it or it is a ROS
parameter, too. A field that is a dataclass itself contributes its own options; another one is no
option, but set by code alone. Types: ``bool``, ``int``, ``float``, ``str``, ``Path``, tuples of
these, and each of them or None.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

from quadsim.base.errors import InputError
from quadsim.base.spec import Spec

C = TypeVar("C")
T = TypeVar("T")
_OPTION = "option"


@dataclass(frozen=True)
class Option(Spec):
    """Meaning and range of an option, and how users name it.

    Attributes:
        name: for users; empty: the field's.
        flags: on the command line, ``--web --serve`` or ``--swarm/--no-swarm``; empty: by the name.
        metavar: what stands for the value in the help.
        unset: what holds where it is not given, in words.
        commas: whether one text may name several.
        argument: whether it is a positional argument of the command line.
        path: of a path: ``file`` or ``folder``, and not the other if it is there already.
        read: makes the value of a text; a ValueError reports in words why it cannot.
    """

    name: str = ""
    flags: str = ""
    metavar: str = ""
    unset: str = ""
    commas: bool = False
    argument: bool = False
    path: str = ""
    read: Callable[[str], Any] | None = None


def option(default: T, doc: str, unit: str = "", **about: Any) -> T:
    """A field that is an option: its default, and what :class:`Option` reports of it."""
    spec = Option(doc, unit, **about)
    return dataclasses.field(default=default, metadata={_OPTION: spec})


def argument(metavar: str = "", default: Any = dataclasses.MISSING) -> Any:
    """A field that is a positional argument of a command line; given unless it has a default."""
    spec = Option("", metavar=metavar, argument=True)
    return dataclasses.field(default=default, metadata={_OPTION: spec})


@dataclass(frozen=True)
class Setting:
    """One option of a class.

    Attributes:
        name: as users write it in launch files.
        path: attributes that lead to it.
        kind: its type, or that of its items.
        items: how many there are: 1, a fixed number, or 0 for any number.
        optional: whether it may be None.
        spec: as declared.
        default: what holds otherwise; ``dataclasses.MISSING`` where it must be given.
    """

    name: str
    path: tuple[str, ...]
    kind: type[Any]
    items: int
    optional: bool
    spec: Option
    default: Any

    def default_text(self) -> str:
        """The default as a launch argument."""
        value = self.default
        if value is None:
            return ""
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        return str(value).lower() if isinstance(value, bool) else str(value)

    def about(self) -> str:
        """Meaning, unit, choices, and what holds where it is not given."""
        words = self.spec.doc + (f" ({self.spec.unit})" if self.spec.unit else "")
        if self.spec.choices:
            words += f": {', '.join(self.spec.choices)}"
        return words + (f"; empty: {self.spec.unset}" if self.spec.unset else "")

    def parse(self, text: str, where: str) -> Any:
        """The value of a launch argument.

        Raises:
            InputError: naming ``where``, the option, the text and what is allowed.
        """
        where = f"{where} {self.name}"
        if not text and self.optional:
            return None
        if self.items == 1:
            return self._one(text, where)
        texts = [part.strip() for part in text.split(",") if part.strip()]
        if self.items and len(texts) != self.items:
            raise InputError(f"{where}: {text!r}; allowed: {self.items} numbers, with commas")
        return tuple(self._one(part, where) for part in texts)

    def _one(self, text: str, where: str) -> Any:
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise InputError(f"{where}: {text!r}; allowed: true, false")
            return text.lower() == "true"
        try:
            value = self.kind(text)
        except ValueError:
            raise InputError(f"{where}: {text!r} is not a number") from None
        choices = self.spec.choices
        if choices and value not in choices:
            raise InputError(f"{where}: {text!r}; allowed: {', '.join(choices)}")
        if isinstance(value, int | float) and not self.spec.admits(value):
            raise InputError(f"{where}: {text!r}; allowed: {self.spec.allowed()}")
        return value


def settings(cls: type[Any]) -> list[Setting]:
    """The options of a class, nested ones too, in the order of declaration."""
    return list(_settings(cls, None, ()))


def _settings(cls: type[Any], usual: Any, path: tuple[str, ...]) -> Iterator[Setting]:
    hints = get_type_hints(cls, include_extras=True)
    without = getattr(cls, "without", ())
    # those that a base adds to any command stand last
    for field in sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only)):
        hint, at = hints[field.name], (*path, field.name)
        default = _default(field) if usual is None else getattr(usual, field.name)
        kind, spec = hint, field.metadata.get(_OPTION)
        if get_origin(hint) is Annotated:
            kind, spec = get_args(hint)[:2]
            if not isinstance(spec, Option):  # of a parameter class
                spec = Option(**{f.name: getattr(spec, f.name) for f in dataclasses.fields(spec)})
        if spec is not None:
            yield _setting(field.name, at, kind, spec, default)
        elif dataclasses.is_dataclass(hint):
            nested = cast("type[Any]", hint)
            yield from (s for s in _settings(nested, default, at) if s.name not in without)


def _setting(name: str, path: tuple[str, ...], kind: Any, spec: Option, default: Any) -> Setting:
    """One option of a field."""
    optional, items = NoneType in get_args(kind), 1
    if optional:
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is tuple:
        kind, *rest = get_args(kind)
        items = 0 if rest == [...] else 1 + len(rest)
    return Setting(spec.name or name, path, kind, items, optional, spec, default)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def build(cls: type[C], values: Mapping[str, Any], known: list[Setting] | None = None) -> C:
    """An object of a class of options.

    Args:
        cls: the class.
        values: name to value; those that are absent keep their defaults.
        known: its options.
    """
    known = [s for s in known or settings(cls) if s.name in values]
    made = cls(**{s.path[0]: values[s.name] for s in known if len(s.path) == 1})
    for setting in known:
        if len(setting.path) > 1:
            made = _replaced(made, setting.path, values[setting.name])
    return made


def _replaced(made: Any, path: tuple[str, ...], value: Any) -> Any:
    """An object with the value at a path of attributes replaced."""
    first, *rest = path
    if rest:
        value = _replaced(getattr(made, first), tuple(rest), value)
    return dataclasses.replace(made, **{first: value})


def launch_arguments(cls: type[Any]) -> dict[str, tuple[str, str]]:
    """Arguments of a launch file: name to default and meaning."""
    return {each.name: (each.default_text(), each.about()) for each in settings(cls)}


def from_texts(cls: type[C], texts: Mapping[str, str]) -> C:
    """Options of the texts that a launch file gets.

    Raises:
        InputError: naming the argument and what is allowed.
    """
    known = settings(cls)
    values = {s.name: s.parse(texts[s.name], "launch argument") for s in known if s.name in texts}
    return build(cls, values, known)
