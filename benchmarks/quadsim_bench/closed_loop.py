"""Whole flights without ROS, one vehicle on one core, times real time.

``closed_loop_x_realtime`` is with everything on: an x500 with inflow, translational lift, flapping,
electric motors, a battery that sags and quadratic drag, RK4 at 1 kHz; gravity and air by place and
height; wind with shear and turbulence; IMU with bias, walk and vibration; error-state filter and
control at 500 Hz; GNSS, magnetometer, barometer, range finder over hills, 5 m above them.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quadsim.base.errors import FlightError
from quadsim_bench.figure import Measurement, Session, lines

if TYPE_CHECKING:
    from quadsim.sim.scenario import Scenario


def everything_on(duration_s: float = 60.0) -> Scenario:
    """The scenario with everything on."""
    from quadsim.sim.scenario import load_scenario
    from quadsim_bench.sensors import SHAKING
    from quadsim_bench.vehicle import everything, stormy

    plain = load_scenario("hills_5m_x500", duration_s=duration_s)
    sensors = dict(plain.sensors)
    sensors["imu"] = replace(plain.imu, vibration=SHAKING)
    return replace(
        plain,
        name="everything",
        file=replace(plain.file, environment=stormy()),
        vehicle=everything(plain.vehicle),
        sensors=sensors,
    )


def flight(scenario: Scenario) -> tuple[float, float, float]:
    """Fly it: time flown, by the clock, and of the processor, s.

    Raises:
        FlightError: it crashed, so that what was measured is not a flight.
    """
    from quadsim.sim.closed_loop import ClosedLoop

    loop = ClosedLoop(scenario)
    begin_s, used_s = time.perf_counter(), time.process_time()
    loop.fly()
    wall_s, used_s = time.perf_counter() - begin_s, time.process_time() - used_s
    if loop.state.vehicle.crash:
        raise FlightError(f"{scenario.name}: the vehicle crashed")
    return loop.stamp_ns * 1e-9, wall_s, used_s


def measure(session: Session) -> dict[str, Any]:
    """Medians of some flights of each."""
    from quadsim.sim.scenario import load_scenario

    full = session.once("everything on", everything_on)
    square = session.once("square", lambda: load_scenario("square"))
    session.once("flown once", lambda: (flight(full), flight(square)))  # loads what it needs
    flights = 1 if session.short else 5
    found: dict[str, Any] = {}
    for name, scenario in (("", full), ("square_", square)):
        flown = [flight(scenario) for _ in range(flights)]
        found[f"closed_loop_{name}x_realtime"] = statistics.median(t / wall for t, wall, _ in flown)
        found[f"closed_loop_{name}x_processor"] = statistics.median(t / cpu for t, _, cpu in flown)
        found[f"{name}flown_s"] = flown[0][0]
    return found


FIGURES = """
closed_loop_x_realtime x >=300 flight with everything on, over hills, by the clock
closed_loop_x_processor x more the same by processor time
closed_loop_square_x_realtime x more scenario square, by the clock
closed_loop_square_x_processor x more the same by processor time
"""

MEASUREMENTS = (Measurement("closed_loop", lines(FIGURES), measure, short=True),)
