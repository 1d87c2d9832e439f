"""What experiments have in common: which scenarios are flown, and what has to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quadsim.base.errors import InputError


def chosen(names: Sequence[str], known: Sequence[str], experiment: str) -> tuple[str, ...]:
    """Scenarios of an experiment that are asked for, in its order; all for no names.

    Args:
        names: as asked for.
        known: all of it.
        experiment: its name.

    Raises:
        InputError: a name that it has not.
    """
    for name in names:
        if name not in known:
            raise InputError(
                f"--scenario {name}: no part of {experiment}; known: {', '.join(known)}"
            )
    return tuple(name for name in known if name in names or not names)


def demand(name: str, value: float | None, least: float, limit: float | None) -> dict[str, Any]:
    """What has to be shown: name, value, least, limit (None: no matter how much), passed."""
    passed = value is not None and value >= least and (limit is None or value <= limit)
    return {"name": name, "value": value, "least": least, "limit": limit, "passed": passed}
