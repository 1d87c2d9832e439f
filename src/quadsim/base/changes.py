"""Keys of files set otherwise than they are written: ``--set``, and what a campaign varies.

A key is dotted (``environment.wind.w20_mps``); a number in it is a place in a list
(``environment.wind_W_mps.0``, ``mission.1.hover.duration_s``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from quadsim.base.errors import InputError, did_you_mean, shown
from quadsim.base.parameters import leaves, read_yaml_text


def parse_changes(texts: Iterable[str]) -> dict[str, Any]:
    """Keys and values from ``KEY=VALUE`` each, the value as in YAML.

    Raises:
        InputError: one that is not of this form, or a key that is given twice.
    """
    changes: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InputError(f"--set {text}: allowed: KEY=VALUE, as vehicle.mass_kg=2.1")
        if key in changes:
            raise InputError(f"--set {text}: {key} is set twice")
        changes[key] = read_yaml_text(value, f"--set {key}")
    return changes


def changes_by_file(changes: Mapping[str, Any], names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Changes by the file that they are for.

    Args:
        changes: dotted key to value.
        names: of files; ``vehicle.mass_kg`` is the key ``mass_kg`` of ``vehicle``.

    Returns:
        Name to changes; those of none of them under the empty name.
    """
    parts: dict[str, dict[str, Any]] = {"": {}, **{name: {} for name in names}}
    for key, value in changes.items():
        first, dot, rest = key.partition(".")
        if dot and first and first in parts:
            parts[first][rest] = value
        else:
            parts[""][key] = value
    return parts


def set_keys(
    content: dict[str, Any], changes: Mapping[str, Any], cls: type[Any], where: str
) -> None:
    """Set keys of a file's content, in place: what is whole before its parts; values are copied.

    Args:
        content: as YAML gives it.
        changes: dotted key to value.
        cls: the parameter class that is made of it, for what is not written: its defaults.
        where: the file, which errors name.

    Raises:
        InputError: naming the file, the key, and what there is.
    """
    for key in whole_first(changes):
        _set(content, key.split("."), changes[key], cls, f"{where}: {key}")


def given_keys(content: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted names of all that is written in a file's content."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from given_keys(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def whole_first(keys: Iterable[str]) -> list[str]:
    """Keys in the order in which they are set: ``mission`` before ``mission.1``."""
    return sorted(keys, key=lambda key: key.count("."))


def _set(content: dict[str, Any], names: list[str], value: Any, cls: type[Any], where: str) -> None:
    target: Any = content
    for i, name in enumerate(names):
        last = i == len(names) - 1
        if isinstance(target, list):
            if not (name.isascii() and name.isdecimal() and int(name) < len(target)):
                raise InputError(
                    f"{where}: {shown(name)} is no place in a list of {len(target)}, counted from 0"
                )
            place: Any = int(name)
        elif isinstance(target, dict):
            place = name
            if not last and target.get(name) is None:
                target[name] = _default(cls, ".".join(names[: i + 1]), where)
        else:
            raise InputError(
                f"{where}: {'.'.join(names[:i])} is {shown(target)}, which has no {shown(name)}"
            )
        if last:
            target[place] = deepcopy(value)  # a later key may write into it
        target = target[place]


def _default(cls: type[Any], name: str, where: str) -> Any:
    """What a key that is not written holds: a list, or keys."""
    known = {leaf.name: leaf for leaf in leaves(cls)}
    if name in known:
        return _lists(known[name].default)
    if any(leaf.startswith(f"{name}.") for leaf in known):
        return {}
    raise InputError(f"{where}: there is no {shown(name)}{did_you_mean(name, known)}")


def _lists(value: Any) -> Any:
    return [_lists(item) for item in value] if isinstance(value, tuple) else value
