"""Pictures of fleets: the ways of all vehicles from above, and each criterion's signal."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import ESTIMATE, FIXES, WAYPOINTS, style
from quadsim.analysis.signals import SIGNALS
from quadsim.lab.reproduce.fcnd import Outcome
from quadsim.lab.reproduce.fcnd_figures import FOOT_PX, HEAD_PX, WIDTH_PX, draw_signal, picture
from quadsim.lab.reproduce.fcnd_fleets import FleetOutcome
from quadsim.mission.items import corners

#: Height of the view from above, and of a signal.
VIEW_PX, ROW_PX = 520, 200
#: Vehicles that are drawn; of more, the first seeds'.
MOST_WAYS = 40


def part_picture(outcome: Outcome) -> tuple[go.Figure, int]:
    """Picture of a scenario or a fleet, and its height in px."""
    return fleet_picture(outcome) if isinstance(outcome, FleetOutcome) else picture(outcome)


def fleet_picture(outcome: FleetOutcome) -> tuple[go.Figure, int]:
    """The vehicles' ways from above, where they came to rest, and the signals; and its height."""
    reached = outcome.flown[0].reached
    signals = [item.criterion.signal for item in reached]
    inner = VIEW_PX + ROW_PX * len(signals)
    height = HEAD_PX + inner + FOOT_PX
    figure = make_subplots(
        rows=1 + len(signals),
        cols=1,
        row_heights=[VIEW_PX, *([ROW_PX] * len(signals))],
        subplot_titles=["ways from above, m", *(SIGNALS[signal].doc for signal in signals)],
        vertical_spacing=60.0 / inner,
    )
    for k in range(len(signals)):
        draw_signal(figure, k + 2, [flown.reached[k] for flown in outcome.flown])
    shown = outcome.vehicles[:MOST_WAYS]
    for item in shown:
        colour = ESTIMATE if item.passed else FIXES
        _line(figure, item.way_W, item.vehicle, colour, 1.0)
    rest = np.array([item.rest_W for item in shown])
    figure.add_trace(
        go.Scatter(
            x=rest[:, 0], y=rest[:, 1], mode="markers", name="rests",
            marker={"color": "#1b1b1b", "size": 6, "symbol": "x"},
        ),
        row=1, col=1,
    )  # fmt: skip
    wanted = np.array(corners(outcome.scenario.items, outcome.scenario.autopilot.flight))
    _line(figure, wanted, "mission", WAYPOINTS, 2.0, shown=True)
    style(figure, height)
    figure.update_layout(
        width=WIDTH_PX,
        title={
            "text": f"<b>{outcome.name}</b>: {outcome.headline}",
            "x": 0.06,
            "y": 1.0 - 24.0 / height,
        },
        legend={"y": 1.0 + 30.0 / inner},
        margin={"t": HEAD_PX, "b": FOOT_PX},
        hovermode=False,
    )
    figure.update_yaxes(scaleanchor="x", scaleratio=1.0, row=1, col=1)
    figure.update_xaxes(title_text="time, s", row=1 + len(signals), col=1)
    return figure, height


def _line(
    figure: go.Figure, way_W: object, name: str, colour: str, width: float, shown: bool = False
) -> None:
    points = np.asarray(way_W)
    figure.add_trace(
        go.Scatter(
            x=points[:, 0], y=points[:, 1], mode="lines", name=name, showlegend=shown,
            line={"color": colour, "width": width},
        ),
        row=1, col=1,
    )  # fmt: skip
