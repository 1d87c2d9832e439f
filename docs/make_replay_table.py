"""The table of docs/replay.md: ``python docs/make_replay_table.py FLIGHTS``, the bags' folder.

It replays the bags that are named in it, from a start of the estimators of their own.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from quadsim.analysis.replay import Settings, replay
from quadsim.analysis.scoring import Scoring, judge_replay

PAGE = Path(__file__).with_name("replay.md")
BEGIN, END = "<!-- bags: docs/make_replay_table.py -->\n", "<!-- end of bags -->\n"
#: Bags and the position's target, m.
BAGS = {"fcnd_square_1": 0.285, "fcnd_helix_3": 0.385, "real_phantom4_8": 0.33,
        "real_phantom4_11": 0.37}  # fmt: skip
ESTIMATORS = ("eskf", "smoother", "ekf7", "gps_ins")
ALIGNMENTS = ("none", "yaw", "se3")


def figures(bag: Path) -> dict[str, Any]:
    """Figures of each estimator."""
    result = replay(bag, Settings(estimators=ESTIMATORS))
    found: dict[str, Any] = judge_replay(bag.name, bag, ESTIMATORS, result, Scoring()).summary
    return dict(found["estimators"])


def table(folder: Path) -> str:
    """A row for each bag, and the means over them."""
    found = {name: figures(folder / name) for name in BAGS}
    lines = [
        "| | eskf (target) | tilt, yaw ° | NEES | smoother | ekf7 | gps_ins |",
        "|---" * 7 + "|",
    ]
    for name, by in found.items():
        best, others = by["eskf"], (f"{by[each]['position_rmse_m']:.3f}" for each in ESTIMATORS[1:])
        angles = (math.degrees(best[key]) for key in ("tilt_rmse_rad", "yaw_rmse_rad"))
        lines.append(
            f"| `{name}` | **{best['position_rmse_m']:.3f}** ({BAGS[name]:g}) |"
            f" {', '.join(f'{angle:.2f}' for angle in angles)} | {best['nees_mean']:.1f} |"
            f" {' | '.join(others)} |"
        )
    words = []
    for name in ESTIMATORS[:2]:
        each = [by[name] for by in found.values()]
        means = (sum(x["ate"][kind]["rmse_m"] for x in each) / len(each) for kind in ALIGNMENTS)
        inside = sum(x["availability"]["within_3_sigma"] for x in each) / len(each)
        words.append(
            f"{name} {', '.join(f'{x:.3f}' for x in means)} m ({100 * inside:.1f} % within 3 σ)"
        )
    text = "Mean ATE over the four without, with yaw and with se3 alignment:"
    return "\n".join([*lines, "", text, f"{'; '.join(words)}.", ""])


def main() -> None:
    """Write the table between its markers."""
    made = table(Path(sys.argv[1]))
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + BEGIN + "\n" + made + "\n" + END + tail, encoding="utf-8")


if __name__ == "__main__":
    main()
