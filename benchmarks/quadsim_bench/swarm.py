"""Swarms: their closed loop without ROS, and the node ``swarm`` in real time on DDS.

The node is a process of its own; this one subscribes to the IMUs of some vehicles and counts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from quadsim.base.errors import FlightError
from quadsim.ros.runtime.dds_environment import set_dds_environment
from quadsim_bench.figure import Measurement, Session, Unavailable, lines
from quadsim_bench.startup import free_domain

#: Vehicles of the closed loop's figures.
COUNTS = (1, 10, 50, 100)
#: Simulated time before a measurement: all are in the air then. And that of one, s.
BEFORE_S, MEASURED_S, SHORT_S = 10.0, 30.0, 8.0
#: Flown by the closed loop for a figure, s.
LOOP_S, SHORT_LOOP_S = 6.0, 2.0
#: How many vehicles are listened to.
HEARD = 5
#: Longest start of the node, wall time: it loads the kernels; and how late it may end, s.
START_S, LATE_S = 120.0, 60.0
#: So long after the end what was lost may still be repaired, ns of simulated time.
REPAIRS_NS = 1_000_000_000
#: What they fly.
SCENARIO = "formation"


def measure_loop(session: Session) -> dict[str, Any]:
    """The closed loop of so many vehicles in the air, avoidance on: simulated over CPU time."""
    from quadsim.sim.scenario import load_scenario
    from quadsim.sim.swarm import Swarm

    figures = {}
    for count in COUNTS:
        swarm = Swarm(load_scenario(SCENARIO, vehicles=count))

        def flown(swarm: Swarm, until_s: float) -> float:
            begin_s = time.process_time()
            while swarm.stamp_ns < until_s * 1e9:
                swarm.tick()
                for loop in swarm.loops:
                    loop.take_off_when_ready()
            return time.process_time() - begin_s

        flown(swarm, 4.0)
        seconds = SHORT_LOOP_S if session.short else LOOP_S
        figures[f"swarm_loop_{count}_x_core"] = seconds / flown(swarm, 4.0 + seconds)
    return figures


@contextmanager
def _node(domain: int, count: int, publish: str) -> Iterator[subprocess.Popen[bytes]]:
    """The node ``swarm``, paused, in a process of its own."""
    given = {
        "scenario": SCENARIO, "count": count, "publish": publish, "paused": "true",
        "auto_start": "true",
    }  # fmt: skip
    arguments = [part for key, value in given.items() for part in ("-p", f"{key}:={value}")]
    environment = os.environ | {
        "ROS_DOMAIN_ID": str(domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "quadsim.ros", "swarm", "--ros-args", *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10.0)
        process.kill()
        process.wait()


def _require_running(process: subprocess.Popen[bytes]) -> None:
    """Raise FlightError once the node has ended."""
    if process.poll() is not None:
        raise FlightError(f"node swarm: ended with status {process.returncode}")


def in_real_time(count: int, publish: str, measured_s: float) -> dict[str, float]:
    """Fly a swarm by the wall clock: pace, CPU use and, with IMUs, the share of samples heard.

    Args:
        count: vehicles.
        publish: as of the node.
        measured_s: simulated time that is measured.
    """
    try:
        import psutil

        from quadsim_bench.swarm_listener import SwarmListener
    except ImportError as error:
        raise Unavailable(f"rclpy is not installed ({error}): docs/install.md") from None
    from quadsim.sim.scenario import load_scenario

    domain = free_domain()
    set_dds_environment()
    step = max(1, count // HEARD)
    names = (
        [f"quad{i + 1}" for i in range(0, count, step)][:HEARD] if publish != "estimates" else []
    )
    listener = SwarmListener(domain, names)
    try:
        with _node(domain, count, publish) as process:
            used = psutil.Process(process.pid)
            alive = partial(_require_running, process)
            listener.run(START_S, alive)
            listener.until(lambda: listener.clock_ns >= BEFORE_S * 1e9, START_S, alive)
            begin_s, begin_ns, slips = time.monotonic(), listener.clock_ns, listener.slips
            cpu_s = sum(used.cpu_times()[:2])
            end_ns = begin_ns + round(measured_s * 1e9)
            late_s = 20.0 * measured_s + LATE_S
            listener.until(lambda: listener.clock_ns >= end_ns, late_s, alive)
            wall_s = time.monotonic() - begin_s
            figures = {
                "rtf": (listener.clock_ns - begin_ns) * 1e-9 / wall_s,
                # of a simulated second: a node that falls behind is no cheaper for it
                "cores": (sum(used.cpu_times()[:2]) - cpu_s)
                / ((listener.clock_ns - begin_ns) * 1e-9),
                "slips": float(listener.slips - slips),
            }
            # what was sent up to the end, and its repairs
            listener.until(lambda: listener.clock_ns >= end_ns + REPAIRS_NS, late_s, alive)
    finally:
        listener.close()
    if names:
        period_ns = load_scenario(SCENARIO).imu_period_ns
        figures["arrived_percent"] = arrived_percent(
            listener.stamps_ns, begin_ns, end_ns, period_ns
        )
    return figures


def arrived_percent(
    heard_ns: Mapping[str, Sequence[int]], begin_ns: int, end_ns: int, period_ns: int
) -> float:
    """Share of the samples sent in a time that arrived, of the vehicle with the least.

    Args:
        heard_ns: by vehicle, the stamps of the samples that were heard.
        begin_ns, end_ns: the time; what is sent at its begin does not count.
        period_ns: of the samples.

    Raises:
        FlightError: of a vehicle nothing was heard at all.
    """
    silent = [name for name, stamps_ns in heard_ns.items() if not stamps_ns]
    if silent:
        raise FlightError(f"node swarm: nothing was heard of the IMU of {', '.join(silent)}")
    sent = end_ns // period_ns - begin_ns // period_ns
    arrived = [
        len({stamp_ns for stamp_ns in stamps_ns if begin_ns < stamp_ns <= end_ns})
        for stamps_ns in heard_ns.values()
    ]
    return 100.0 * min(arrived) / sent


def measure_real_time(count: int, publish: str, session: Session) -> dict[str, Any]:
    """One flight of the node, by the wall clock."""
    found = in_real_time(count, publish, SHORT_S if session.short else MEASURED_S)
    return {f"swarm_{count}_{name}": value for name, value in found.items()}


LOOP = "\n".join(
    f"swarm_loop_{count}_x_core x more {count} vehicles without ROS, IMU 200 Hz, over CPU time"
    for count in COUNTS
)
FIFTY = """
swarm_50_rtf x >=0.99 50 vehicles on DDS, each IMU at 200 Hz
swarm_50_cores cores less their node, of a simulated second
swarm_50_arrived_percent % >=99.9 samples of IMUs heard
"""
HUNDRED = """
swarm_100_rtf x >=0.99 100 vehicles on DDS, truth and estimates
swarm_100_cores cores less their node, of a simulated second
"""

MEASUREMENTS = (
    Measurement("swarm_loop", lines(LOOP), measure_loop),
    Measurement("swarm_50", lines(FIFTY), partial(measure_real_time, 50, "imu")),
    Measurement("swarm_100", lines(HUNDRED), partial(measure_real_time, 100, "estimates")),
)
