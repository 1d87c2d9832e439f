"""The page of a validation: errors by horizon, forces over time, spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from quadsim.analysis.report.figures import RUNS, style
from quadsim.analysis.report.template import figure_markup, render_page
from quadsim.lab.validate.validation import JudgedFlight

#: Points of a curve over time.
_POINTS = 1500


def render_validation(judged: Sequence[JudgedFlight], result: Mapping[str, Any]) -> str:
    """The page as text.

    Args:
        result: of :func:`quadsim.lab.validate.validation.report`.
    """
    parts = [
        ("Error of the predicted position by horizon", _by_horizon(result)),
        (f"Force along z that is not explained, {judged[0].flight.name}", _force(judged[0])),
        ("Specific force by frequency", _spectrum(result)),
    ]
    return render_page(
        "lab/validate/validation.html",
        title=f"{result['vehicle']}: predicted and flown",
        r=result,
        level=result["bounds"][0]["level"],
        parts=[{"title": title, "plot": figure_markup(figure)} for title, figure in parts],
    )


def _by_horizon(result: Mapping[str, Any]) -> go.Figure:
    figure = go.Figure()
    for k, log in enumerate([*result["logs"], {**result, "log": "all"}]):
        rows, last = log["prediction"], k == len(result["logs"])
        figure.add_scatter(
            x=[row["horizon_s"] for row in rows],
            y=[row["position_rmse_m"] for row in rows],
            name=log["log"],
            line={"color": "black" if last else RUNS[k % len(RUNS)], "width": 3 if last else 1},
        )
    style(figure, 380, x_title="horizon, s", y_title="m")
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return figure


def _force(judged: JudgedFlight) -> go.Figure:
    wrench, flight = judged.wrench, judged.flight
    thin = slice(None, None, max(1, len(wrench.rows) // _POINTS))
    figure = go.Figure()
    for axis, name in enumerate("xyz"):
        figure.add_scatter(
            x=flight.time_s[wrench.rows][thin], y=wrench.force[thin, axis], name=name
        )
    style(figure, 320, y_title="N")
    return figure


def _spectrum(result: Mapping[str, Any]) -> go.Figure:
    figure = go.Figure()
    for key, name in (("recorded_mps2", "recorded"), ("modelled_mps2", "of the vehicle's file")):
        bands = result["bands"]
        figure.add_bar(
            x=[f"{band['low_hz']:g} to {band['high_hz']:g} Hz" for band in bands],
            y=np.array([band[key] for band in bands]),
            name=name,
        )
    style(figure, 320, x_title="", y_title="m/s^2")
    return figure
