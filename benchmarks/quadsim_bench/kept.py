"""The ratios that the repository keeps, and what is too far from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError
from quadsim.base.files import share_dir
from quadsim_bench.figure import Figure, Line, Measurement

#: How many times what is kept is too much: a factor of two that noise may make look smaller.
FACTOR = 1.75


def kept_file() -> Path:
    """Where the ratios are: in a checkout."""
    return share_dir() / "benchmarks" / "ratios.json"


def read_kept(path: Path) -> dict[str, float]:
    """Name of a figure to its kept value.

    Raises:
        InputError: no such file, or not one that :func:`write_kept` wrote.
    """
    try:
        ratios = json.loads(path.read_text(encoding="utf-8"))["ratios"]
        return {str(name): float(value) for name, value in ratios.items()}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; quadsim bench --keep writes it") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path}: not ratios; quadsim bench --keep writes them") from None


def judged(wanted: Sequence[Measurement], kept: Mapping[str, float]) -> list[Measurement]:
    """The same with targets: at most :data:`FACTOR` times what is kept, or at least its part.

    Raises:
        InputError: a figure whose value is not kept.
    """
    missing = sorted({x.name for one in wanted for x in one.lines} - kept.keys())
    if missing:
        raise InputError(f"{kept_file()}: {missing[0]} is not in it; quadsim bench --keep adds it")

    def target(line: Line) -> float:
        return kept[line.name] * (FACTOR if line.better == "less" else 1.0 / FACTOR)

    return [
        replace(each, lines=tuple(replace(line, target=target(line)) for line in each.lines))
        for each in wanted
    ]


def write_kept(path: Path, figures: Sequence[Figure], surroundings: Mapping[str, Any]) -> None:
    """Keep the values of figures; those of others stay.

    Raises:
        InputError: the folder is not there or cannot be written to.
    """
    ratios = read_kept(path) if path.is_file() else {}
    ratios |= {figure.line.name: float(f"{figure.value:.3g}") for figure in figures}
    content = {
        "what": "quadsim's time over a reference's, measured in turn; quadsim bench --keep",
        "measured": {key: surroundings[key] for key in ("machine", "versions", "commit")},
        "ratios": dict(sorted(ratios.items())),
    }
    try:
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); ratios are kept in a checkout"
        ) from None
