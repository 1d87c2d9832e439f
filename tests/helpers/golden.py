"""Figures of a flight as a text that people read, and what differs between two such texts.

A line is a name and a value: a number to four digits, or words. A digest is compared where it was
made with the same versions; RELATIVE leaves room for others, and none for a change of behaviour.
"""

import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from quadsim.base.surroundings import versions

DIGITS = 4
#: Twice what four digits can be off by their own rounding, 5e-4 where the first is a 1.
RELATIVE = 1e-3
#: Figures are in SI: a micrometre, a microradian is noise about zero.
ABSOLUTE = 1e-6

HEAD = "# Expected figures: see tests/golden/README.md, and rewrite them knowingly.\n"


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names with dots, and their values, lists taken apart."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name}.")
        elif isinstance(value, list | tuple):
            yield from flat({str(i): item for i, item in enumerate(value)}, f"{name}.")
        else:
            yield name, value


def rounded(value: Any) -> Any:
    """A number to so many digits; others as they are."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if abs(value) > ABSOLUTE else 0.0


def text_of(values: Mapping[str, Any]) -> str:
    """The text of nested figures."""
    lines = {name: rounded(value) for name, value in flat(values)}
    return HEAD + str(yaml.safe_dump(lines, sort_keys=False, width=1000, allow_unicode=True))


def same(now: Any, then: Any) -> bool:
    """Whether a figure is what was expected."""
    if isinstance(now, bool) or not isinstance(now, float) or not isinstance(then, int | float):
        return bool(now == then)
    return abs(now - then) <= max(RELATIVE * abs(then), ABSOLUTE)


def _line(sign: str, name: str, value: Any, then: Any = None) -> str:
    words = f"{sign} {name}: {rounded(value)}"
    if isinstance(value, float) and isinstance(then, int | float) and then:
        words += f"   ({100.0 * (value - then) / abs(then):+.2f} %)"
    return words


def difference(now: Mapping[str, Any], then: Mapping[str, Any]) -> list[str]:
    """Lines that say what changed: ``-`` as expected, ``+`` as it is; empty for nothing."""
    found, expected = dict(flat(now)), dict(flat(then))
    lines = []
    for name in [*expected, *(name for name in found if name not in expected)]:
        if name not in found:
            lines.append(_line("-", name, expected[name]))
        elif name not in expected:
            lines.append(_line("+", name, found[name]))
        elif not same(found[name], expected[name]):
            lines.append(_line("-", name, expected[name]))
            lines.append(_line("+", name, found[name], expected[name]))
    return lines


def digest_versions() -> str:
    """What a digest depends on beside the sources."""
    found = versions()
    parts = [platform.machine(), f"Python {'.'.join(found['python'].split('.')[:2])}"]
    return ", ".join([*parts, *(f"{name} {found[name]}" for name in ("numpy", "numba"))])


def _without_digest(
    one: Mapping[str, Any], now: Mapping[str, Any], then: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Figures alone, where the two digests were made with different versions."""
    if now.get("digest_versions") == then.get("digest_versions"):
        return one
    return {key: one[key] for key in one if key not in ("digest", "digest_versions")}


def check(path: Path, now: Mapping[str, Any], update: bool) -> str:
    """Compare figures with a file, or write it.

    Args:
        path: of the expected figures.
        now: nested figures.
        update: write instead.

    Returns:
        What differs, for people; empty if nothing does, or if it is written.
    """
    if update:
        path.write_text(text_of(now), encoding="utf-8")
        return ""
    if not path.is_file():
        return f"{path}: not there; write it with --update-golden"
    then = yaml.safe_load(path.read_text(encoding="utf-8"))
    lines = difference(*(_without_digest(one, now, then) for one in (now, then)))
    if not lines:
        return ""
    how = f"./quadsim test tests/golden --update-golden rewrites {path.name}, if that is meant:"
    return "\n".join([f"behaviour has changed; {how}", *lines])
