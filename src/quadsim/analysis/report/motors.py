"""Speeds of the rotors, beside what was commanded."""

from __future__ import annotations

import plotly.graph_objects as go

from quadsim.analysis.report.figures import RUNS
from quadsim.analysis.report.flights import ESTIMATED, TRUE, Flights
from quadsim.analysis.report.sheet import Sheet

SPEED, COMMAND = "speed", "commanded"


def motor_speeds(flights: Flights) -> go.Figure:
    """Speeds of the rotors: all in one row, or a row for each where there is more to tell."""
    logs = flights.runs.values()
    rotors = max((log.motor_speed_radps.shape[1] for log in logs if len(log.motor_stamps_ns)),
                 default=0)  # fmt: skip
    commanded = any(len(log.command_stamps_ns) for log in logs)
    if not (flights.several or commanded):
        return _together(flights, rotors)
    sheet = Sheet(flights, [f"rotor {i}, rad/s" for i in range(rotors)] or [""], 110)
    for run, log in flights.runs.items():
        for i in range(log.motor_speed_radps.shape[1] if len(log.motor_stamps_ns) else 0):
            colour = None if flights.several else flights.colour(run, TRUE)
            sheet.over_time(
                run, SPEED, log.motor_stamps_ns, log.motor_speed_radps[:, i], i + 1,
                width=1.2, colour=colour,
            )  # fmt: skip
        for i in range(
            min(log.command_radps.shape[1], rotors) if len(log.command_stamps_ns) else 0
        ):
            colour = None if flights.several else flights.colour(run, ESTIMATED)
            sheet.over_time(
                run, COMMAND, log.command_stamps_ns, log.command_radps[:, i], i + 1,
                not flights.several, width=1.0, colour=colour, dash="dot",
            )  # fmt: skip
    return sheet.finish()


def _together(flights: Flights, rotors: int) -> go.Figure:
    sheet = Sheet(flights, ["rotor speed, rad/s"], 270)
    for run, log in flights.runs.items():
        for i in range(rotors):
            sheet.over_time(
                run, f"rotor {i}", log.motor_stamps_ns, log.motor_speed_radps[:, i],
                width=1.1, colour=RUNS[i % len(RUNS)],
            )  # fmt: skip
    return sheet.finish()
