"""Shrinks a scenario: drops one factor after another while what was found in it stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from flight_findings import fly
from scenario_drawing import Content

from quadsim.base.errors import InputError

#: What everybody flies; a factor that is one of these is none.
PLAIN: Mapping[str, Any] = {"vehicle": "x500", "sensors": "default"}
#: Parts that go whole; of others each part goes by itself.
WHOLE = ("start", "autopilot")
NESTED = ("environment", "believed", "datum")
LISTS = ("faults", "events", "mission")


def _without(content: Content, path: tuple[Any, ...]) -> Content:
    result = deepcopy(content)
    target: Any = result
    for name in path[:-1]:
        target = target[name]
    del target[path[-1]]
    return {name: value for name, value in result.items() if value not in ([], {})}


def _parts(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """What can be dropped, the larger before its parts."""
    for name, value in content.items():
        at = (*path, name)
        if name in WHOLE or path:
            yield at
        if name in NESTED:
            if not path:
                yield at
            yield from _parts(value, at)
        elif name in LISTS and not path:
            yield from ((*at, i) for i in reversed(range(len(value))))


def simpler(content: Content) -> Iterator[Content]:
    """Contents with one factor less."""
    for path in _parts(content):
        takes_off_or_lands = path[0] == "mission" and path[1] in (0, len(content["mission"]) - 1)
        if not takes_off_or_lands:
            yield _without(content, path)
    for name, value in PLAIN.items():
        if content[name] != value:
            yield {**content, name: value}


def shrink(content: Content, kind: str) -> Content:
    """The smallest content that still shows a finding, by the greedy way."""
    goes_on = True
    while goes_on:
        goes_on = False
        for candidate in simpler(content):
            try:
                found = fly(candidate).kinds
            except InputError:
                continue
            if kind in found:
                content, goes_on = candidate, True
                break
    return content
