"""Replay of a bag by the error-state filter, and what programs hold in memory.

The bag is made for it: ten minutes of hover with every topic, IMU at 500 Hz. What is timed is the
whole command: start, reading, estimating and judging.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from quadsim.base.files import find
from quadsim.base.parameters import read_yaml
from quadsim_bench.figure import Measurement, Session, lines
from quadsim_bench.timing import Ended, run_command

#: Hover of a flight, s, which with climb and landing makes a minute, and ten minutes; in a short
#: round.
HOVER_S, LONG_S, SHORT_S = 53.0, 593.0, 1.0
#: What lasts ten minutes, Ah.
CAPACITY_AH = 10.0


def long_hover(folder: Path, seconds: float) -> Path:
    """A scenario in a folder: the hover's, but that it lasts, and the battery with it."""
    vehicle = read_yaml(find("vehicles", "x500"))
    vehicle["battery"]["capacity_Ah"] = CAPACITY_AH
    (folder / "long_x500.yaml").write_text(json.dumps(vehicle), encoding="utf-8")
    content = read_yaml(find("scenarios", "hover"))
    content["vehicle"] = str(folder / "long_x500.yaml")
    content["duration_s"] = seconds + 30.0
    content["mission"][1]["hover"]["duration_s"] = seconds
    path = folder / "long_hover.yaml"
    path.write_text(json.dumps(content), encoding="utf-8")  # JSON is YAML
    return path


def fly(folder: Path, hover_s: float, bag: bool) -> Ended:
    """``quadsim sim`` of the hover, as a program of its own, into ``flown`` and ``bag``."""
    to = ["--output", str(folder / "flown"), *(["--bag", str(folder / "bag")] if bag else [])]
    given = ["--scenario", str(long_hover(folder, hover_s)), *to]
    return run_command(["sim", *given, "--no-report", "--json"], folder)


def _made_bag(session: Session, name: str, hover_s: float) -> Path:
    """The bag of a hover, made when it is first asked for."""

    def make() -> Path:
        folder = session.folder / name
        folder.mkdir()
        fly(folder, hover_s, bag=True)
        return folder / "bag"

    return session.once(name, make)


def short_bag(session: Session) -> Path:
    """A bag of a hover of a second."""
    return _made_bag(session, "short bag", SHORT_S)


def measure_replay(session: Session) -> dict[str, Any]:
    """One replay."""
    bag = short_bag(session) if session.short else _made_bag(session, "bag", LONG_S)
    ended = run_command(["replay", bag, "--json"], session.folder)
    summary = json.loads(ended.stdout)
    return {
        "replay_x_realtime": summary["duration_s"] / ended.wall_s,
        "memory_replay_mb": ended.peak_mb,
        "command_s": ended.wall_s,
        "command_processor_s": ended.processor_s,
        "flown_s": summary["duration_s"],
        "without_start_x_realtime": summary["real_time_factor"],
    }


def measure_memory(session: Session) -> dict[str, Any]:
    """One flight without ROS."""
    folder = Path(tempfile.mkdtemp(dir=session.folder))
    ended = fly(folder, SHORT_S if session.short else HOVER_S, bag=False)
    flown_s = json.loads(ended.stdout)["duration_s"]
    return {"memory_sim_mb": ended.peak_mb, "command_s": ended.wall_s, "flown_s": flown_s}


FIGURES = """
replay_x_realtime x >=50 a bag of ten minutes, IMU 500 Hz
memory_replay_mb MB <=500 the most that this replay holds
"""
MEMORY = "memory_sim_mb MB less the most that quadsim sim of a minute holds"

MEASUREMENTS = (
    Measurement("replay", lines(FIGURES), measure_replay),
    Measurement("memory", lines(MEMORY), measure_memory),
)
