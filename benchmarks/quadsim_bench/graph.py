"""Flights of the graph on DDS: pace, messages that arrive, latency, processor time by node."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quadsim.base.errors import QuadsimError
from quadsim_bench.figure import Measurement, Session, Unavailable, lines
from quadsim_bench.startup import environment, free_domain

#: Sets of sensors by the rate of IMU, truth and control, Hz.
SUITES = {250: "default_250hz", 500: "default", 1000: "default_1000hz"}
#: Simulated time of a flight, s; of a look at it.
FLOWN_S, LOOK_S = 20.0, 6.0
PATIENCE_S = 600.0


def measure_graph(
    rate_hz: int, pacing: str, composed: bool, folder: Path, duration_s: float = FLOWN_S
) -> dict[str, Any]:
    """One flight of the scenario ``square`` by ``quadsim fly``, in a DDS domain of its own.

    Args:
        rate_hz: of IMU, truth and control; a key of :data:`SUITES`.
        pacing: ``realtime`` or ``lockstep`` (as fast as the graph goes).
        composed: all nodes in one process.
        folder: for its bag, which is gone afterwards.
        duration_s: simulated time of the flight.

    Returns:
        ``rtf`` (simulated over wall time), ``arrived_percent`` (IMU messages that the estimator
        took), ``latency_ms_median`` and ``latency_ms_p99`` (from when an IMU sample was due to the
        arrival of its motor command at ``dynamics``; in lockstep from the truth's publication),
        ``cores`` (of all nodes), ``cpu_s_per_simulated_s``, ``supervisor_cores``, and ``nodes``:
        cores of each by its name; empty where they are in one process.

    Raises:
        Unavailable: ROS is not installed, or every domain is in use.
        QuadsimError: the flight ended before it was flown.
    """
    if find_spec("rclpy") is None:
        raise Unavailable("rclpy is not installed: pip install 'quadsim[ros]', or source a ROS 2")
    with tempfile.TemporaryDirectory(dir=folder) as run:
        command = [
            sys.executable, "-m", "quadsim.cli", "fly", "--scenario", "square", "--json",
            "--sensors", SUITES[rate_hz], "--pacing", pacing, "--no-report",
            "--duration", str(duration_s), "--domain", str(free_domain()),
            "--output", f"{run}/run", *(["--composed"] if composed else []),
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, env=environment(), timeout=PATIENCE_S, check=False
        )
    try:
        summary = json.loads(done.stdout)
        flown_s = float(summary["duration_s"])
    except (ValueError, TypeError, KeyError):
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise QuadsimError(f"quadsim fly: {' '.join(words[-1:])}") from None
    # the mission takes longer: the flight ends by the time, which is one of the errors
    if flown_s < 0.9 * duration_s:
        raise QuadsimError(f"quadsim fly ended after {flown_s:g} s: {'; '.join(summary['errors'])}")
    return figures_of(summary)


def figures_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`measure_graph` gives, of the summary of a flight."""
    cores = {
        name: share["cpu_cores"]
        for name, share in summary["nodes"].items()
        if share["cpu_cores"] is not None
    }
    return {
        "rtf": summary["real_time_factor"],
        "arrived_percent": 100.0 * summary["imu_received_fraction"],
        "latency_ms_median": summary["latency_ms"]["median"],
        "latency_ms_p99": summary["latency_ms"]["p99"],
        "cores": summary["cpu_cores"],
        "cpu_s_per_simulated_s": summary["cpu_s"] / summary["duration_s"],
        "supervisor_cores": summary["supervisor"]["cpu_cores"],
        "nodes": {name: round(value, 3) for name, value in sorted(cores.items())},
    }


def flight(
    session: Session, rate_hz: int, composed: bool, prefix: str, pacing: str = "realtime"
) -> Mapping[str, Any]:
    """One round: what was found under the names of the lines."""
    duration_s = LOOK_S if session.short else FLOWN_S
    found = measure_graph(rate_hz, pacing, composed, session.folder, duration_s)
    if pacing == "lockstep":
        found["x_realtime"] = found.pop("rtf")
    return {f"{prefix}_{key}": value for key, value in found.items()}


def _realtime(
    prefix: str,
    rate_hz: int,
    composed: bool = False,
    rtf: str = "more",
    arrived: str = "more",
    latency: str = "less",
    cores: str = "less",
) -> Measurement:
    """A flight by the wall clock, with targets of some of its figures."""
    flown = f"graph at {rate_hz} Hz, {'in one process' if composed else 'a process a node'}:"
    table = f"""
{prefix}_rtf 1 {rtf} {flown} simulated over wall time
{prefix}_arrived_percent % {arrived} {flown} IMU messages that the estimator takes
{prefix}_latency_ms_median ms {latency} {flown} from an IMU sample to its motor command, median
{prefix}_latency_ms_p99 ms less {flown} the same, 99 %
{prefix}_cores cores {cores} {flown} processor time of all nodes over wall time
"""
    measure = partial(flight, rate_hz=rate_hz, composed=composed, prefix=prefix)
    return Measurement(prefix, lines(table), measure)


LOCKSTEP = "graph_lockstep_250hz"
LOCKSTEP_LINE = f"{LOCKSTEP}_x_realtime x >=2 graph at 250 Hz in lockstep: simulated over wall time"

MEASUREMENTS = (
    _realtime("graph_250hz", 250),
    _realtime("graph_500hz", 500),
    _realtime("graph_1000hz", 1000, rtf=">=0.99", arrived=">=99.9", latency="<=3"),
    _realtime("composed_250hz", 250, True, latency="<=1.5", cores="<=0.5"),
    Measurement(
        LOCKSTEP,
        lines(LOCKSTEP_LINE),
        partial(flight, rate_hz=250, composed=False, prefix=LOCKSTEP, pacing="lockstep"),
    ),
)
