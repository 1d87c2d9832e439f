"""Speeds of the rotors, besides what was commanded."""

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
        for kind, stamps, speeds, like, look in (
            (SPEED, log.motor_stamps_ns, log.motor_speed_radps, TRUE, {"width": 1.2}),
            (COMMAND, log.command_stamps_ns, log.command_radps, ESTIMATED,
             {"width": 1.0, "dash": "dot"}),
        ):  # fmt: skip
            colour = None if flights.several else flights.colour(run, like)
            shown = kind == SPEED or not flights.several
            for i in range(min(speeds.shape[1], rotors) if len(stamps) else 0):
                sheet.over_time(
                    run, kind, stamps, speeds[:, i], i + 1, shown, colour=colour, **look
                )
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
