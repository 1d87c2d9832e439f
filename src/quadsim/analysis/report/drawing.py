"""What plotly.js draws, as plain nested dictionaries: traces, layout, rows of axes.

The page draws with plotly.js. Plotly's Python classes, which check each value against its whole
schema, take more processor time for the report of a short flight than the flight does; here they
are not even imported. The keys are plotly.js's own (https://plotly.com/javascript/reference).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

#: Name of the look that plotly ships.
TEMPLATE = "plotly_white"
#: Kinds of numbers by plotly.js's names.
_TYPES = {"float32": "f4", "float64": "f8", "int32": "i4", "int64": "i4"}


class Node(dict[str, Any]):
    """A part of a figure: its keys are attributes too, None where they are not set."""

    def __init__(self, *args: Mapping[str, Any], **values: Any) -> None:
        super().__init__()
        self.update(*args, **values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, *args: Any, **values: Any) -> None:
        """Set keys; what is nested is merged, not replaced."""
        for given in (*args, values):
            for key, value in given.items():
                if isinstance(value, Mapping):
                    nested = self.get(key)
                    if not isinstance(nested, Node):
                        nested = Node()
                        self[key] = nested
                    nested.update(value)
                else:
                    self[key] = value


def trace(kind: str, **values: Any) -> Node:
    """A trace: ``scatter``, ``scatter3d``, ``mesh3d``; what is None is left out."""
    return Node({"type": kind}, {key: value for key, value in values.items() if value is not None})


class Figure:
    """A figure.

    Args:
        rows: axes one above the other that share x; 0 for a figure in space.
        gap: between two rows, as a part of the height.

    Attributes:
        data: the traces.
        layout: everything else.
    """

    def __init__(self, rows: int = 0, gap: float = 0.0) -> None:
        self.rows = rows
        self.data: list[Node] = []
        self.layout = Node(shapes=[], annotations=[])
        height = (1.0 - gap * (rows - 1)) / rows if rows else 0.0
        for row in range(1, rows + 1):
            low = (rows - row) * (height + gap)
            x, y = self._axis("x", row), self._axis("y", row)
            x.update(anchor=self._id("y", row), domain=[0.0, 1.0])
            y.update(anchor=self._id("x", row), domain=[low, low + height])
            if row < rows:
                x.update(matches=self._id("x", rows), showticklabels=False)

    @staticmethod
    def _id(letter: str, row: int) -> str:
        return letter if row == 1 else f"{letter}{row}"

    def _axis(self, letter: str, row: int) -> Node:
        name = f"{letter}axis{'' if row == 1 else row}"
        axis: Node = self.layout.setdefault(name, Node())
        return axis

    def add_trace(self, trace: Node, row: int = 0) -> None:
        """Put a trace into a row; 0 for one in space."""
        if row:
            trace.update(xaxis=self._id("x", row), yaxis=self._id("y", row))
        self.data.append(trace)

    def add_shape(self, row: int, **shape: Any) -> None:
        """Put a shape into a row, by the values on its axes."""
        self.layout.shapes.append(Node(shape, xref=self._id("x", row), yref=self._id("y", row)))

    def add_annotation(self, row: int, **words: Any) -> None:
        """Put words into a row, by the values on its axes."""
        place = {"xref": self._id("x", row), "yref": self._id("y", row)}
        self.layout.annotations.append(Node(words, place))

    def update_layout(self, **values: Any) -> None:
        """Set what is given, and leave the rest as it is."""
        self.layout.update(values)

    def update_xaxes(self, row: int = 0, **values: Any) -> None:
        """Set something of the x axis of a row, or of all."""
        self._update_axes("x", row, values)

    def update_yaxes(self, row: int = 0, **values: Any) -> None:
        """Set something of the y axis of a row, or of all."""
        self._update_axes("y", row, values)

    def _update_axes(self, letter: str, row: int, values: Mapping[str, Any]) -> None:
        for number in [row] if row else range(1, self.rows + 1):
            self._axis(letter, number).update(values)

    def to_plotly_json(self) -> dict[str, Any]:
        """As plotly.js takes it: arrays by their bytes, the template whole."""
        content = {"data": _plain(self.data), "layout": _plain(self.layout)}
        if content["layout"].get("template") == TEMPLATE:
            content["layout"]["template"] = template()
        return content


def _plain(value: Any) -> Any:
    """Nested plain values, with arrays as plotly.js takes them; a key that is None is not set."""
    if isinstance(value, np.ndarray):
        kind = _kind_of(value)
        if kind is None:
            items = value.astype(object)
            if value.dtype.kind == "f":
                items[~np.isfinite(value)] = None  # JSON has no NaN
            return items.tolist()
        data = np.ascontiguousarray(value, f"<{kind}").tobytes()
        return {"dtype": kind, "bdata": base64.b64encode(data).decode()}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _kind_of(values: Any) -> str | None:
    """plotly.js's name of a row of numbers; None for what it takes as a list alone."""
    kind = _TYPES.get(values.dtype.name) if values.ndim == 1 else None
    if kind == "i4" and np.any(values != values.astype("i4")):
        return None
    return kind


def _shipped(name: str) -> Path:
    """A file that plotly ships, found without importing it."""
    found = find_spec("plotly")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "package_data" / name


def plotly_js() -> str:
    """The text of plotly.js."""
    return _shipped("plotly.min.js").read_text(encoding="utf-8")


@cache
def template() -> dict[str, Any]:
    """Colours and lines of :data:`TEMPLATE`."""
    text = _shipped(f"templates/{TEMPLATE}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
