"""Shrinks a scenario: drops one factor after another while what was found in it stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

from flight_findings import fly
from scenario_drawing import Content

from quadsim.base.errors import InputError

#: What everybody flies.
PLAIN = {"vehicle": "x500", "sensors": "default"}
#: What goes whole, or a part at a time; of the mission the first and the last item stay.
DROPPED = ("start", "autopilot", "environment", "believed", "faults", "events", "mission")


def _parts(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Paths of what can be dropped, the larger before its parts."""
    if path[0] != "mission":
        yield path
    if isinstance(value, dict) and path[0] in ("environment", "believed"):
        for name in value:
            yield from _parts(value[name], *path, name)
    elif isinstance(value, list) and len(path) == 1:
        inner = range(1, len(value) - 1) if path[0] == "mission" else range(len(value))
        yield from ((*path, i) for i in inner)


def simpler(content: Content) -> Iterator[Content]:
    """Contents with one factor less."""
    for path in [
        path for name in DROPPED if name in content for path in _parts(content[name], name)
    ]:
        result = deepcopy(content)
        target: Any = result
        for name in path[:-1]:
            target = target[name]
        del target[path[-1]]
        yield {name: value for name, value in result.items() if value not in ([], {})}
    yield from ({**content, name: value} for name, value in PLAIN.items() if content[name] != value)


def shrink(content: Content, kind: str) -> Content:
    """The smallest content that still shows a finding, found greedily."""
    for candidate in simpler(content):
        with suppress(InputError):  # a part that another one needs
            if kind in fly(candidate).kinds:
                return shrink(candidate, kind)
    return content
