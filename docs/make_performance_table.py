"""The table of docs/performance.md, from what ``quadsim bench --json`` printed.

``./quadsim bench --json > bench.json``, then ``python docs/make_performance_table.py bench.json``.
It writes anew those rows that the page has.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("performance.md")
BEGIN = "<!-- figures: docs/make_performance_table.py -->\n"
END = "<!-- end of figures -->\n"


def number(value: float) -> str:
    """Three figures, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


def row(figure: dict[str, Any]) -> str:
    """One figure as a row."""
    target = ""
    if figure["target"] is not None:
        sign = "≥" if figure["better"] == "more" else "≤"
        met = "met" if figure["passed"] else "missed"
        target = f"{sign} {number(figure['target'])}, {met}"
    least, most = min(figure["samples"]), max(figure["samples"])
    spread = f"{number(least)} … {number(most)}"
    value = f"{number(figure['value'])} {figure['unit']}"
    cells = (f"`{figure['name']}`", figure["what"], value)
    return "| " + " | ".join([*cells, spread, target]) + " |\n"


def table(bench: dict[str, Any], before: str) -> str:
    """The machine, and the figures that are in the table before."""
    machine, versions = bench["machine"], bench["versions"]
    text = (
        f"{machine['processor']}, {machine['cores_allowed']} cores, {machine['system']}; "
        f"Python {versions['python']}, numba {versions['numba']}, numpy {versions['numpy']}; "
        f"commit {bench['commit']}, {bench['began'][:10]}; "
        f"load {bench['load_before'][0]:g} before, {bench['load_after'][0]:g} after; "
        f"{bench['repeat']} rounds, {bench['wall_s'] / 60.0:.0f} minutes.\n\n"
        "| figure | what | median | least … most | target |\n"
        "| --- | --- | --- | --- | --- |\n"
    )
    text += "".join(row(each) for each in bench["figures"] if f"`{each['name']}`" in before)
    for name, why in (bench["absent"] | bench["failed"]).items():
        if f"`{name}`" in before:
            text += f"\n`{name}` was not measured: {why}\n"
    return text


def main() -> None:
    """Write the table into the page."""
    bench = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    before, _, tail = rest.partition(END)
    text = head + BEGIN + "\n" + table(bench, before) + "\n" + END + tail
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
