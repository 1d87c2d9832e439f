"""How long whole commands take: the help, a flight without ROS, a graph until it is armed."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.files import share_dir
from quadsim_bench.figure import Measurement, Session, Unavailable, lines

FLOWN_S = 10.0
#: Longest time that anything here may take, s.
PATIENCE_S = 300.0
#: What the node ``autopilot`` says when the motors begin to turn.
ARMED = b"armed: "
#: Domains that are tried, in their order, until one is free.
DOMAINS = range(232, 100, -1)


def environment() -> dict[str, str]:
    """The environment as a shell has it: the ROS wheels start Python twice, which counts."""
    kept = dict(os.environ)
    kept.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
    return kept


def checkout_command() -> Path | None:
    """``./quadsim`` of this checkout, if its .venv is the one that runs, and up to date."""
    root = share_dir()
    stamp = root / ".venv" / "run.stamp"
    if Path(sys.prefix) != root / ".venv" or not stamp.is_file():
        return None
    made_from = hashlib.sha256(f"{root}\n".encode())
    for name in ("constraints.txt", "pyproject.toml", "setup.cfg", "setup.py"):
        made_from.update((root / name).read_bytes())
    return root / "quadsim" if stamp.read_text().startswith(made_from.hexdigest()) else None


def ways() -> dict[str, list[str]]:
    """The ways to call the command that there are here, by what they are called."""
    found = {"python -m quadsim.cli": [sys.executable, "-m", "quadsim.cli"]}
    script = Path(sys.executable).with_name("quadsim")
    if script.is_file():
        found["entry point"] = [str(script)]
    checkout = checkout_command()
    if checkout is not None:
        found["./quadsim"] = [str(checkout)]
    return found


def taken_s(command: list[str]) -> float:
    """Wall time of a command that ends well.

    Raises:
        QuadsimError: it does not.
    """
    begin_s = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, env=environment(), timeout=PATIENCE_S, check=False
    )
    end_s = time.perf_counter()
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise QuadsimError(f"{' '.join(command)}: status {done.returncode}: {' '.join(words[-1:])}")
    return end_s - begin_s


def help_(session: Session) -> Mapping[str, Any]:
    """``quadsim --help``, the slowest of the ways to call it."""
    each_s = {name: taken_s([*command, "--help"]) for name, command in ways().items()}
    return {"startup_help_s": max(each_s.values()), "startup_help_each_s": each_s}


def sim(session: Session) -> Mapping[str, Any]:
    """``quadsim sim`` of a flight, with its report."""
    with tempfile.TemporaryDirectory(dir=session.folder) as folder:
        scenario = hover_to_the_end(Path(folder))
        command = [sys.executable, "-m", "quadsim.cli", "sim", "--scenario", str(scenario)]
        return {"sim_10s_flight_s": taken_s([*command, "--output", f"{folder}/run"])}


def hover_to_the_end(folder: Path) -> Path:
    """The scenario ``hover``, so short that it has just landed after its 10 s, as a file."""
    import yaml

    from quadsim.base.files import find
    from quadsim.base.parameters import read_yaml

    content = read_yaml(find("scenarios", "hover"))
    content["mission"][1]["hover"]["duration_s"] = 2.5
    content["duration_s"] = FLOWN_S
    content.pop("criteria", None)
    path = folder / "hover.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def free_domain() -> int:
    """A DDS domain in which no graph of this user flies."""
    from quadsim.ros.runtime.domain import held

    def is_free(domain: int) -> bool:
        try:
            with held(domain):
                return True
        except InputError:
            return False

    found = next(filter(is_free, DOMAINS), None)
    if found is None:
        raise Unavailable("every DDS domain is in use by a graph; stop them")
    return found


def armed_s(folder: Path, *options: str) -> float:
    """Wall time from the command ``quadsim fly`` until its vehicle is armed.

    Raises:
        Unavailable: ROS is not installed.
        QuadsimError: the command ended before.
    """
    if find_spec("rclpy") is None:
        raise Unavailable("rclpy is not installed: pip install 'quadsim[ros]', or source a ROS 2")
    run = Path(tempfile.mkdtemp(dir=folder)) / "run"
    command = [
        sys.executable, "-m", "quadsim.cli", "fly", "--scenario", "hover", "--no-report",
        "--domain", str(free_domain()), "--output", str(run), *options,
    ]  # fmt: skip
    begin_s = time.perf_counter()
    graph = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()
    )
    assert graph.stderr is not None
    try:
        said = b""
        while ARMED not in said:
            chunk = os.read(graph.stderr.fileno(), 65536)
            if not chunk:
                words = said.decode(errors="replace").strip().splitlines()
                raise QuadsimError(f"quadsim fly ended before it was armed: {' '.join(words[-1:])}")
            said += chunk
        return time.perf_counter() - begin_s
    finally:
        graph.send_signal(signal.SIGINT)
        try:
            graph.communicate(timeout=PATIENCE_S)
        finally:
            graph.kill()
        shutil.rmtree(run.parent, ignore_errors=True)


def armed(session: Session, name: str, *options: str) -> Mapping[str, Any]:
    """One start of a graph; the first of a session loads the files into the system's memory."""
    session.once("startup: a graph", lambda: armed_s(session.folder, "--composed"))
    return {name: armed_s(session.folder, *options)}


PROCESSES, COMPOSED = "startup_armed_processes_s", "startup_armed_composed_s"

MEASUREMENTS = (
    Measurement(
        "startup_help",
        lines("startup_help_s s <=0.3 quadsim --help, the whole command"),
        help_,
        short=True,
    ),
    Measurement(
        "startup_sim",
        lines("sim_10s_flight_s s <=2 quadsim sim of a hover of 10 s with its report, in all"),
        sim,
        short=True,
    ),
    Measurement(
        "startup_processes",
        lines(f"{PROCESSES} s <=8 from quadsim fly to armed, a process a node"),
        partial(armed, name=PROCESSES),
    ),
    Measurement(
        "startup_composed",
        lines(f"{COMPOSED} s <=4 from quadsim fly --composed to armed"),
        partial(armed, name=COMPOSED),
    ),
)
