"""``quadsim tune``: gains for a vehicle, by relay experiments or by a search over flown steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quadsim.base.options import option
from quadsim.cli.common import finish, loading, one_line, run_folder, say, staged, to_json
from quadsim.cli.experiment import write_figures
from quadsim.cli.options import Printed, Processes, RunFolder, Suite, Vehicle, command


@dataclass(frozen=True)
class TuneOptions(Printed):
    """Options of ``quadsim tune``."""

    vehicle: Vehicle = "x500"
    sensors: Suite = "default"
    autopilot: str = option("default", "gains to start from, of config/autopilots, or a file")
    loops: tuple[str, ...] = option(
        (),
        "a control loop (may be repeated)",
        choices=("rate", "yaw_rate", "tilt", "velocity", "position", "climb", "height", "yaw"),
        unset="all",
    )
    method: str = option(
        "relay",
        "relay experiments and a rule; or a search over flown steps on top of them",
        choices=("relay", "optimise"),
    )
    rule: str = option(
        "cascade",
        "from ultimate gain and period to gains",
        choices=("cascade", "tyreus-luyben", "ziegler-nichols"),
    )
    evaluations: int = option(60, "optimise: flights of each group of loops", ge=5, le=10_000)
    seed: int = option(1, "seed of all noise and wind", ge=0)
    processes: Processes = 0
    output: RunFolder = None


@command(TuneOptions)
def tune(options: TuneOptions) -> int:
    """Find the gains of a multirotor's control loops, from the inside out.

    The run's folder gets autopilot.yaml, summary.json and a picture of steps before and after.
    Exit status: 0 the new gains fly at least as well and every loop has 45 degrees and a factor of
    3 of margin, 1 not (the file is written all the same), 2 bad input.
    """
    folder = run_folder(f"tune-{Path(options.vehicle).stem}", options.output)
    seed, loops = options.seed, options.loops
    with loading("loading"):
        from quadsim.base.whole_files import write_whole
        from quadsim.lab.tune.tuning import (
            autopilot_text,
            load_vehicle,
            tuning_picture,
        )
        from quadsim.lab.tune.tuning import tune_loops as find_gains

        scenario = load_vehicle(options.vehicle, options.sensors, options.autopilot, seed)
    begin_s = time.perf_counter()
    found = find_gains(
        scenario,
        options.method,
        options.rule,
        loops,
        seed,
        options.evaluations,
        options.processes,
        say,
    )
    wall_s = time.perf_counter() - begin_s
    file = folder / "autopilot.yaml"
    with staged(folder) as scratch:
        write_whole(scratch / file.name, autopilot_text(found))
        (drawn,) = write_figures({"steps": tuning_picture(found)}, scratch)
        summary = found.summary() | {"wall_s": wall_s, "file": file, "picture": folder / drawn}
        write_whole(scratch / "summary.json", to_json(summary) + "\n")
    return finish(summary, options.as_json, _show, f"file: {file}")


#: Columns of the table of steps: key, title, factor to the unit shown.
_STEPS = (
    ("rise_s", "rise, s", 1.0),
    ("overshoot", "overshoot, %", 100.0),
    ("settling_s", "settling, s", 1.0),
    ("steady_error", "steady error", 1.0),
)


def _pair(before: Any, after: Any, key: str, factor: float = 1.0) -> str:
    """Two figures, before and after."""
    words = []
    for figures in (before, after):
        value = None if figures is None else figures[key]
        words.append("-" if value is None else f"{factor * value:.3g}")
    return " → ".join(words)


def _show(summary: dict[str, Any]) -> None:
    """Tables: loops with their margins, and the steps."""
    from rich.text import Text

    from quadsim.cli.show import number, print_table, tables, verdict

    console = tables()
    keys = ("crossover_radps", "phase_deg", "gain")
    relay = {name: summary["relay"].get(name) or {} for name in summary["margins"]}
    loops = (
        (
            name, number(relay[name].get("ultimate_gain")),
            number(relay[name].get("ultimate_period_s"), 3),
            *(_pair(margins["before"], margins["after"], key) for key in keys),
        )
        for name, margins in summary["margins"].items()
    )  # fmt: skip
    titles = ("loop", "ultimate gain", "period, s", "crossover, rad/s", "phase, deg", "gain")
    print_table(console, titles, loops)
    steps = (
        (
            row["axis"] + (" in wind" if row["wind"] else ""),
            *(_pair(row["before"], row["after"], key, scale) for key, _, scale in _STEPS),
        )
        for row in summary["steps"]
    )
    print_table(console, ("step", *(title for _, title, _ in _STEPS)), steps)
    for note in summary["notes"]:
        console.print(Text(one_line(note), "yellow"), soft_wrap=True)
    cost = summary["cost"]
    words = f"tune: cost {cost['before']:.4g} → {cost['after']:.4g}, {summary['wall_s']:.0f} s: "
    console.print(Text(words) + verdict(summary["passed"]))
