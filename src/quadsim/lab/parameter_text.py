"""Parameter files as text, with comments where their figures come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from quadsim.sim.scenario_text import plain_values

DIGITS = 6


def one_line_yaml(value: Any) -> str:
    """A value on one line, as ``--set`` reads it."""
    text = yaml.safe_dump(
        [plain_values(value)], default_flow_style=True, sort_keys=False, width=10**9
    )
    return str(text).strip()[1:-1]


def rounded(value: Any, digits: int = DIGITS) -> Any:
    """Floats, alone or in lists, with as many digits as are worth writing; all else as it is."""
    if isinstance(value, tuple | list):
        return [rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") + 0.0 if isinstance(value, float) else value


def parameter_lines(
    content: Mapping[str, Any], comments: Mapping[str, str] | None = None, before: str = ""
) -> Iterator[str]:
    """Lines of a parameter file: groups of keys as blocks, every other value on its line.

    Args:
        content: keys and values; groups may hold groups.
        comments: dotted key to what stands behind its value.
        before: dotted name of the group that holds these keys, with its last dot.
    """
    pad = "  " * before.count(".")
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            yield f"{pad}{key}:"
            yield from parameter_lines(value, comments, f"{before}{key}.")
        else:
            comment = (comments or {}).get(before + key)
            yield f"{pad}{key}: {one_line_yaml(value)}" + (f"  # {comment}" if comment else "")
