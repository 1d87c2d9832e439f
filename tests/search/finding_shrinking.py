"""Shrinks a scenario: drops one factor after another while what was found in it stays."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

from flight_findings import fly
from scenario_drawing import Content

from quadsim.base.errors import InputError

#: What everybody flies.
PLAIN = {"vehicle": "x500", "sensors": "default"}
#: What goes whole, or a part at a time; of the mission the first and the last item stay.
DROPPED = ("mission", "start", "autopilot", "faults", "events", "believed", "environment")


def _paths(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Paths of what can be dropped, the larger before its parts, of a list the last first."""
    if path[0] != "mission":
        yield path
    if isinstance(value, dict) and path[0] in ("environment", "believed"):
        for name in value:
            yield from _paths(value[name], *path, name)
    elif isinstance(value, list) and len(path) == 1:
        inner = range(1, len(value) - 1) if path[0] == "mission" else range(len(value))
        yield from ((*path, i) for i in reversed(inner))


def _without(content: Content, path: tuple[Any, ...]) -> Content:
    """A content without one part, and without what is empty then; the same if it is not there."""
    result = deepcopy(content)
    target: Any = result
    with suppress(KeyError, IndexError):
        for name in path[:-1]:
            target = target[name]
        del target[path[-1]]
    return {name: value for name, value in result.items() if value not in ([], {})}


def shrink(content: Content, kind: str) -> Content:
    """The smallest content that still shows a finding, found greedily."""
    names = [name for name in DROPPED if name in content]
    steps = [partial(_without, path=path) for name in names for path in _paths(content[name], name)]
    before = content
    for step in [*steps, *(lambda now, k=key: now | {k: PLAIN[k]} for key in PLAIN)]:
        candidate = step(content)
        with suppress(InputError):  # a part that another one needs
            if candidate != content and kind in fly(candidate).kinds:
                content = candidate
    return content if content == before else shrink(content, kind)
