"""Own parts: plain Python classes of users in the place of quadsim's.

A part is named ``module:Class``, where the module may lie in the working folder, or by the name of
an entry point of its kind's group. ``docs/parts.md`` shows one of each kind.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from quadsim.base.errors import FlightError, InputError, shown

#: Key of a part's name where it has arguments: ``{part: my:Pid, gain: 2.0}``.
NAME_KEY = "part"

#: How the names of files end that are trained policies, which fly as controllers or planners.
POLICIES = (".onnx", ".pt")

#: Name of the event that a part failed.
PART_FAILED = "own part"


class PartError(InputError, FlightError):
    """An own part failed in flight (exit status 2)."""


class PartKind(NamedTuple):
    """A place that an own part can take.

    Attributes:
        group: of its entry points.
        methods: that it must have, as a user writes them.
    """

    group: str
    methods: tuple[str, ...]


PART_KINDS = {
    "controller": PartKind("quadsim.controllers", ("update(self, now)",)),
    "estimator": PartKind(
        "quadsim.estimators", ("imu(self, stamp_ns, f_S, w_S)", "odometry(self)")
    ),
    "sensor": PartKind("quadsim.sensors", ("sample(self, now)",)),
    "planner": PartKind("quadsim.planners", ("plan(self, now)",)),
    "wind": PartKind("quadsim.winds", ("velocity(self, time_s, p_W)",)),
    "criterion": PartKind("quadsim.criteria", ("value(self, flight)",)),
}

#: Kinds that take part in a flight; a criterion judges it, and stands among the criteria.
FLOWN = tuple(kind for kind in PART_KINDS if kind != "criterion")


def import_attribute(name: str, whom: object) -> Any:
    """What ``module:Class`` names, of the working folder or of what is installed.

    Args:
        whom: how an error calls it.

    Raises:
        InputError: there is no such module or class, or its import raises.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute.isidentifier():
        raise InputError(f"{whom}: is no name of a class; allowed: module:Class")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            raise InputError(
                f"{whom}: there is no module {module}; looked in {Path.cwd()} and among what"
                " is installed"
            ) from None
        raise InputError(f"{whom}: cannot be imported: {where_raised(error)}") from error
    except Exception as error:
        raise InputError(f"{whom}: cannot be imported: {where_raised(error)}") from error
    if not hasattr(found, attribute):
        place = getattr(found, "__file__", None) or module
        raise InputError(f"{whom}: there is no {attribute} in {place}")
    return getattr(found, attribute)


@dataclass(frozen=True)
class Part:
    """One own part: what it is, and where it is found.

    Attributes:
        kind: of :data:`PART_KINDS`.
        name: ``module:Class``, or that of an entry point.
        arguments: of its constructor.
        made: the object or the class itself, if a program gives one.
    """

    kind: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    made: object | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def load(self) -> type[Any]:
        """Its class.

        Raises:
            InputError: there is no such module or class, or it lacks a method.
        """
        found = self._imported() if self.made is None else self.made
        if self.made is not None and not inspect.isclass(found):
            found = type(found)
        if not inspect.isclass(found):
            raise InputError(f"{self}: is {shown(found)}; a class is needed")
        for method in PART_KINDS[self.kind].methods:
            name = method.partition("(")[0]
            if not callable(getattr(found, name, None)):
                raise InputError(f"{self}: has no method {name}(); write def {method}")
        return found

    def _imported(self) -> Any:
        if self.name.endswith(POLICIES):
            return import_module("quadsim.gym.policy").Policy
        return import_attribute(self.name, self) if ":" in self.name else self._registered()

    def _registered(self) -> Any:
        group = PART_KINDS[self.kind].group
        found = _entry_points(self.kind)
        for point in found:
            if point.name == self.name:
                try:
                    return point.load()
                except Exception as error:
                    raise InputError(
                        f"{self}: cannot be imported: {where_raised(error)}"
                    ) from error
        names = ", ".join(sorted(point.name for point in found)) or "none"
        raise InputError(
            f"{self}: is no module:Class, and no entry point of {group}; installed: {names}"
        )

    def make(self, **offered: object) -> Any:
        """The part, made; of what is offered its constructor gets what it names.

        An object that a program gives stays what it is; its ``reset()`` is called if it has one.

        Raises:
            InputError: as of :meth:`load`, or the constructor raises.
        """
        cls = self.load()
        try:
            if self.made is not None and self.made is not cls:
                getattr(self.made, "reset", lambda: None)()
                return self.made
            names = inspect.signature(cls).parameters
            wanted = {name: value for name, value in offered.items() if name in names}
            is_policy = self.name.endswith(POLICIES)
            policy = {"file": self.name, "kind": self.kind} if is_policy else {}
            return cls(**{**wanted, **policy, **self.arguments})
        except InputError as error:
            raise InputError(f"{self}: {error}") from None
        except Exception as error:
            raise InputError(f"{self}: cannot be made: {where_raised(error)}") from error

    def failed(self, error: Exception, time_s: float) -> PartError:
        """What to say of a part that raised in flight."""
        return PartError(f"{self}: failed at {time_s:.3f} s: {where_raised(error)}")


def given_words(value: object) -> str:
    """What a part gave, in one line of a message."""
    return " ".join(shown(value).split())


def where_raised(error: BaseException) -> str:
    """An error in one line, with the line of the code that raised it."""
    words = " ".join(f"{type(error).__name__}: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parents[1])
    theirs = [frame for frame in frames if not frame.filename.startswith((ours, "<"))]
    return f"{words} ({theirs[-1].filename}:{theirs[-1].lineno})" if theirs else words


def is_part(kind: str, name: object) -> bool:
    """Whether a name is that of an own part, and not of a file in ``config``."""
    if not isinstance(name, str) or "/" in name or name.endswith(".yaml"):
        return False
    if ":" in name:
        return True
    return any(point.name == name for point in _entry_points(kind))


def _entry_points(kind: str) -> Any:
    """What is installed of a kind."""
    from importlib.metadata import entry_points  # here, as it takes 10 ms and few name one

    return entry_points(group=PART_KINDS[kind].group)


def part_of(parts: Iterable[Part], kind: str) -> Part | None:
    """The own part of a kind, if there is one."""
    return next((part for part in parts if part.kind == kind), None)


def class_name(cls: type[Any]) -> str:
    """The name by which a class of a module is found again."""
    return f"{cls.__module__}:{cls.__name__}"


def given_parts(given: Mapping[str, object]) -> tuple[Part, ...]:
    """Parts that a program gives: kind to a name, keys, an object, or of sensors a list of these.

    Raises:
        InputError: an unknown kind, or no name.
    """
    parts: list[Part] = []
    for kind, value in given.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, str | Mapping):
                parts += parts_from({kind: each}, {}, "given")
            elif kind in FLOWN:
                cls = each if inspect.isclass(each) else type(each)
                parts.append(Part(kind, class_name(cls), made=each))
            else:
                raise InputError(f"parts: {kind!r}; allowed: {', '.join(FLOWN)}")
    return tuple(parts)


def parts_from(content: Any, changes: Mapping[str, Any], where: str) -> tuple[Part, ...]:
    """Read the own parts of a scenario.

    Args:
        content: kind to a name, to keys (``part`` and arguments), or of sensors to a list of these.
        changes: what is set otherwise: ``controller``, ``controller.gain``, ``sensor.0.sigma``.
        where: the file that errors name.

    Raises:
        InputError: an unknown kind, or no name.
    """
    if not isinstance(content, Mapping):
        raise InputError(f"{where}: parts: expected keys and values, found {shown(content)}")
    given = {str(kind): _entries(value) for kind, value in content.items()}
    for key in sorted(changes, key=lambda key: key.count(".")):
        kind, dot, argument = key.partition(".")
        if not dot:
            given[kind] = _entries(changes[key])
            continue
        place, _, rest = argument.partition(".")
        number, argument = (int(place), rest) if place.isdecimal() else (0, argument)
        if number >= len(given.get(kind, ())):
            raise InputError(f"{where}: parts.{key}: there is no own {kind} to set it of")
        given[kind][number][argument] = changes[key]
    parts = []
    for kind, entries in given.items():
        if kind not in FLOWN:
            raise InputError(f"{where}: parts: {shown(kind)}; allowed: {', '.join(FLOWN)}")
        if len(entries) > 1 and kind != "sensor":
            raise InputError(f"{where}: parts: {kind}: {len(entries)} of them; allowed: one")
        parts += [_part(kind, entry, f"{where}: parts: {kind}") for entry in entries]
    return tuple(parts)


def _entries(value: Any) -> list[dict[str, Any]]:
    """What is reported of the parts of a kind, each as keys and values."""
    values = value if isinstance(value, list | tuple) else [value]
    return [dict(each) if isinstance(each, Mapping) else {NAME_KEY: each} for each in values]


def _part(kind: str, entry: Mapping[str, Any], where: str) -> Part:
    name = entry.get(NAME_KEY)
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}: {shown(entry)}; expected module:Class, or {{part: ..., ...}}")
    arguments = {key: value for key, value in entry.items() if key != NAME_KEY}
    return Part(kind, name, arguments)


def parts_out(parts: Iterable[Part]) -> dict[str, list[dict[str, Any]]]:
    """The keys from which :func:`parts_from` reads the same parts."""
    found: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        found.setdefault(part.kind, []).append({NAME_KEY: part.name, **part.arguments})
    return found


def fitted(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes the first of its arguments, and of more only those that it has."""
    parameters = inspect.signature(method).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return method
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(parameter.kind in positional for parameter in parameters)
    return lambda *values: method(*values[:count])
