"""``quadsim selftest``: what works on this machine, tried and not only looked up."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quadsim.base.errors import QuadsimError
from quadsim.base.python_processes import module_command
from quadsim.base.surroundings import load_words
from quadsim.cli.common import finish, one_line
from quadsim.cli.options import Printed, command

#: Digest of the flight ``quadsim sim --scenario hover`` on any x86-64 processor; a test repeats it.
HOVER = "d15d6f1d061875df77ab578ac19c1283ee13990b7cd9b282ae31ab39629df64a"
#: A command that has not ended by then never will, s.
PATIENCE_S = 300.0


class TrialError(QuadsimError):
    """Something does not work on this machine."""


def quadsim(*args: str) -> dict[str, Any]:
    """Run a command as a user would; its JSON.

    Raises:
        TrialError: it ended in an error, or never.
    """
    words = module_command("quadsim.cli", *args, "--json")
    environment = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", **os.environ}
    if not environment.get("AMENT_PREFIX_PATH"):
        environment.setdefault("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    try:
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise TrialError(
            f"quadsim {args[0]} did not end within {PATIENCE_S:g} s; {load_words()}"
        ) from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise TrialError(f"quadsim {args[0]}: {lines[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fly_without_ros(folder: Path) -> str:
    """Fly, record and report."""
    flown = quadsim("sim", "--scenario", "hover", "--output", f"{folder}/run", "--bag",
                   f"{folder}/bag")  # fmt: skip
    same = "as on every machine" if flown["digest"] == HOVER else "not as elsewhere: another digest"
    return f"{flown['real_time_factor']:.0f} times real time, {same}"


def replay_a_bag(folder: Path) -> str:
    """Run the estimator over what was recorded."""
    flown = quadsim("replay", f"{folder}/bag")
    return f"position within {flown['estimator']['position_rmse_m']:.3f} m"


def fly_as_a_graph(folder: Path) -> str:
    """Fly as ROS 2 nodes on DDS."""
    if importlib.util.find_spec("rclpy") is None:
        raise TrialError("rclpy is not installed: pip install 'quadsim[ros]'")
    flown = quadsim("fly", "--scenario", "hover", "--composed", "--pacing", "lockstep",
                   "--no-report", "--output", f"{folder}/graph")  # fmt: skip
    error_m = flown["tracking"]["position_rmse_m"]
    return f"{len(flown['topics'])} topics, tracked within {error_m:.2f} m"


TRIALS: dict[str, Callable[[Path], str]] = {
    "fly without ROS, record, report": fly_without_ros,
    "replay a bag": replay_a_bag,
    "fly as a graph of ROS 2 nodes": fly_as_a_graph,
}


def run_trials() -> dict[str, Any]:
    """Try everything; what works is independent of what does not."""
    trials = []
    with TemporaryDirectory(prefix="quadsim-") as folder:
        for name, trial in TRIALS.items():
            begin_s = time.perf_counter()
            try:
                found = {"works": True, "said": trial(Path(folder))}
            except QuadsimError as error:
                found = {"works": False, "said": one_line(error)}
            trials.append({"name": name, "seconds": time.perf_counter() - begin_s, **found})
    return {"passed": all(trial["works"] for trial in trials), "trials": trials}


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("what", "", "s", "")
    for trial in found["trials"]:
        works = Text("works", style="green") if trial["works"] else Text("fails", style="red")
        table.add_row(trial["name"], works, f"{trial['seconds']:.1f}", Text(trial["said"]))
    Console(highlight=False).print(table)


@dataclass(frozen=True)
class SelftestOptions(Printed):
    """Options of ``quadsim selftest``."""


@command(SelftestOptions)
def selftest(options: SelftestOptions) -> int:
    """Fly, record, replay and start a ROS 2 graph, and say what works on this machine.

    It takes about fifteen seconds once the kernels are compiled. Exit status: 0 when everything
    works, 1 otherwise.
    """
    return finish(run_trials(), options.as_json, _show)
