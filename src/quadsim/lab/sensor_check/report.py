"""The report of a sensor check: specified next to measured, Allan plots, histograms, a flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup

from quadsim.analysis.report.figures import BAND, ESTIMATE, RUNS, TRUTH, panels, style, thin
from quadsim.analysis.report.template import figure_markup, render_page
from quadsim.base.surroundings import versions
from quadsim.lab.sensor_check.check import FALSE_ALARM, Check, Checked
from quadsim.lab.sensor_check.flight import DeviceFlight
from quadsim.lab.sensor_check.rest import RestChannel, Rested

_TITLES = {
    "alone": "Each figure alone",
    "rest": "At rest, with everything on",
    "flight": "In flight",
}


def allan_plot(rested: Sequence[tuple[RestChannel, Rested]]) -> go.Figure:
    """Measured Allan deviations with their intervals, and what the file makes of them."""
    figure, places = panels([f"{c.name}, {c.unit}" for c, _ in rested], 240)
    for (_, found), place in zip(rested, places, strict=True):
        tau_s, look = found.curve.tau_s, place | {"showlegend": place == places[0]}
        figure.add_scatter(
            x=np.concatenate([tau_s, tau_s[::-1]]),
            y=np.concatenate([found.high, found.low[::-1]]),
            fill="toself", fillcolor=BAND, line={"width": 0}, name="interval", hoverinfo="skip",
            **look,
        )  # fmt: skip
        line = {"color": TRUTH, "width": 1.6}
        figure.add_scatter(
            x=tau_s, y=found.model, name="specified", mode="lines", line=line, **look
        )
        figure.add_scatter(
            x=tau_s, y=found.curve.deviation, name="measured", mode="markers",
            marker={"color": ESTIMATE, "size": 5}, **look,
        )  # fmt: skip
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_yaxes(type="log", exponentformat="power")
    figure.update_xaxes(title_text="averaging time, s", row=places[-1]["row"])
    return figure


def histogram_plot(rested: Sequence[tuple[RestChannel, Rested]]) -> go.Figure:
    """Readings less their mean, and the normal error of one sample."""
    figure, places = panels([f"{c.name}, {c.unit}" for c, _ in rested], 200)
    for (_, found), place in zip(rested, places, strict=True):
        middle = 0.5 * (found.edges[1:] + found.edges[:-1])
        look, line = place | {"showlegend": place == places[0]}, {"color": TRUTH, "width": 1.4}
        figure.add_bar(x=middle, y=found.counts, marker={"color": BAND}, name="readings", **look)
        figure.add_scatter(
            x=middle, y=found.expected, mode="lines", line=line, name="noise of a sample", **look
        )
    figure.update_xaxes(title_text="reading less its mean", row=places[-1]["row"])
    figure.update_layout(bargap=0.0)
    return figure


def flight_plot(flown: DeviceFlight) -> go.Figure:
    """Errors over time in the band of three stated deviations."""
    assert flown.errors is not None
    assert flown.sigma is not None
    rows = thin(len(flown.stamps_ns))
    t_s = (flown.stamps_ns[rows] * 1e-9).astype(np.float32)
    figure = go.Figure()
    for column in range(flown.errors.shape[1]):
        colour, bound = RUNS[column % len(RUNS)], 3.0 * flown.sigma[rows, column]
        figure.add_scatter(
            x=t_s, y=flown.errors[rows, column], mode="lines", name=f"error {column + 1}",
            line={"color": colour, "width": 1.2},
        )  # fmt: skip
        for values in (bound, -bound):
            figure.add_scatter(
                x=t_s, y=values, mode="lines", showlegend=False, hoverinfo="skip",
                line={"color": colour, "width": 0.8, "dash": "dot"},
            )  # fmt: skip
    return style(figure, 320, f"error, {flown.unit}")


def delay_plot(flown: DeviceFlight) -> go.Figure:
    """From stamp to publication."""
    late_ms, counts = np.unique(np.round(flown.late_ns * 1e-6, 3), return_counts=True)
    figure = go.Figure(go.Bar(x=late_ms, y=counts, marker={"color": ESTIMATE}))
    style(figure, 220, "samples", x_title="delay, ms")
    return figure.update_xaxes(title_text="delay, ms")


def _plots(device: Checked, part: str) -> Iterator[Markup]:
    if part == "rest" and device.rested:
        yield figure_markup(allan_plot(device.rested))
        yield figure_markup(histogram_plot(device.rested))
    if part == "flight" and device.flown is not None:
        if device.flown.errors is not None:
            yield figure_markup(flight_plot(device.flown))
        if len(device.flown.late_ns):
            yield figure_markup(delay_plot(device.flown))


def render_check(check: Check) -> str:
    """The page as text."""
    devices = check.devices.values()
    return render_page(
        "lab/sensor_check/check.html",
        title="Sensors: specified and measured",
        check=check,
        titles=_TITLES,
        plots=_plots,
        facts=[
            ("devices", str(len(devices))),
            ("figures", str(sum(len(part) for d in devices for part in d.parts().values()))),
            ("seed", str(check.seed)),
            ("at rest", f"{check.hours:g} h"),
        ],
        together=f"{100.0 * (1.0 - FALSE_ALARM):g}",
        each=f"{100.0 * check.confidence:.4f}",
        versions=versions(),
    )
