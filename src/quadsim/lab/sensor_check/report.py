"""The report of a sensor check: specified beside measured, Allan plots, histograms, a flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import BAND, CONFIG, ESTIMATE, RUNS, TRUTH, style, thin
from quadsim.analysis.report.template import HEAD
from quadsim.base.surroundings import versions
from quadsim.base.whole_files import write_whole
from quadsim.lab.sensor_check.check import FALSE_ALARM, Check, Checked
from quadsim.lab.sensor_check.flight import DeviceFlight
from quadsim.lab.sensor_check.rest import Channel, Rested

PAGE = (
    HEAD
    + """<body><main>
<header><h1>{{ title }}</h1>
<span class="badge {{ 'good' if passed else 'bad' }}">
{{- 'as specified' if passed else 'not as specified' }}</span></header>
<div class="facts">
{% for name, value in facts %}<span>{{ name }} <b>{{ value }}</b></span>{% endfor %}
</div>
<p class="note">Intervals hold all together with {{ together }} %; each alone with {{ each }} %.</p>
{% for device in devices %}
<h2 id="{{ device.name }}">{{ device.name }}
<span class="{{ 'good' if device.passed else 'bad' }}">
{{- 'as specified' if device.passed else 'not as specified' }}</span></h2>
{% for part in device.parts %}
<section><h2>{{ part.title }}</h2>
{% if part.figures %}<table>
<tr><th>figure</th><th>unit</th><th class="n">specified</th><th class="n">measured</th>
<th class="n">from</th><th class="n">to</th><th></th></tr>
{% for figure in part.figures %}
<tr><td>{{ figure.name }}</td><td>{{ figure.unit }}</td>
<td class="n">{{ figure.specified | figure }}</td><td class="n">{{ figure.measured | figure }}</td>
{% if figure.low == figure.high %}<td></td><td></td>{% else %}
<td class="n">{{ figure.low | figure }}</td><td class="n">{{ figure.high | figure }}</td>{% endif %}
<td class="{{ 'good' if figure.ok else 'bad' }}">{{ figure.verdict }}</td></tr>{% endfor %}
</table>{% endif %}
{% for plot in part.plots %}{{ plot }}{% endfor %}</section>
{% endfor %}{% endfor %}
<footer>{% for name, value in versions.items() %}{{ name }} {{ value }}{{ ', ' if not loop.last }}
{%- endfor %}</footer>
</main></body></html>
"""
)

_TITLES = {
    "alone": "Each figure alone",
    "rest": "At rest, with everything on",
    "flight": "In flight",
}


def number_text(value: float | None) -> str:
    """A number as a table shows it."""
    return "–" if value is None else f"{value:.4g}"


def _grid(count: int, titles: Sequence[str]) -> tuple[go.Figure, list[tuple[int, int]]]:
    """Subplots, three beside each other."""
    columns = min(3, count)
    rows = -(-count // columns)
    figure = make_subplots(
        rows=rows, cols=columns, subplot_titles=list(titles), vertical_spacing=0.3 / rows
    )
    return figure, [(k // columns + 1, k % columns + 1) for k in range(count)]


def _finish(figure: go.Figure, places: list[tuple[int, int]], row_px: int, x_title: str) -> None:
    """Size and titles of subplots, with the legend clear above them."""
    rows = places[-1][0]
    style(figure, 110 + row_px * rows)
    figure.update_layout(margin={"t": 75}, legend={"y": 1.0 + 45.0 / (row_px * rows)})
    figure.update_xaxes(title_text=x_title, row=rows)


def allan_plot(rested: Sequence[tuple[Channel, Rested]]) -> go.Figure:
    """Measured Allan deviations with their intervals, and what the file makes of them."""
    figure, places = _grid(len(rested), [f"{c.name}, {c.unit}" for c, _ in rested])
    for k, ((_, found), (row, column)) in enumerate(zip(rested, places, strict=True)):
        tau_s = found.curve.tau_s
        place: dict[str, Any] = {"row": row, "col": column}
        figure.add_scatter(
            x=np.concatenate([tau_s, tau_s[::-1]]),
            y=np.concatenate([found.high, found.low[::-1]]),
            fill="toself", fillcolor=BAND, line={"width": 0}, name="interval",
            showlegend=k == 0, hoverinfo="skip", **place,
        )  # fmt: skip
        figure.add_scatter(
            x=tau_s, y=found.model, name="specified", mode="lines",
            line={"color": TRUTH, "width": 1.6}, showlegend=k == 0, **place,
        )  # fmt: skip
        figure.add_scatter(
            x=tau_s, y=found.curve.deviation, name="measured", mode="markers",
            marker={"color": ESTIMATE, "size": 5}, showlegend=k == 0, **place,
        )  # fmt: skip
    _finish(figure, places, 240, "averaging time, s")
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_yaxes(type="log", exponentformat="power")
    return figure


def histogram_plot(rested: Sequence[tuple[Channel, Rested]]) -> go.Figure:
    """Readings less their mean, and the normal error of one sample."""
    figure, places = _grid(len(rested), [f"{c.name}, {c.unit}" for c, _ in rested])
    for k, ((_, found), (row, column)) in enumerate(zip(rested, places, strict=True)):
        middle = 0.5 * (found.edges[1:] + found.edges[:-1])
        place: dict[str, Any] = {"row": row, "col": column}
        figure.add_bar(
            x=middle, y=found.counts, marker={"color": BAND}, name="readings",
            showlegend=k == 0, **place,
        )  # fmt: skip
        figure.add_scatter(
            x=middle, y=found.expected, mode="lines", line={"color": TRUTH, "width": 1.4},
            name="noise of a sample", showlegend=k == 0, **place,
        )  # fmt: skip
    _finish(figure, places, 200, "reading less its mean")
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
        colour = RUNS[column % len(RUNS)]
        bound = 3.0 * flown.sigma[rows, column]
        figure.add_scatter(
            x=t_s, y=flown.errors[rows, column], mode="lines", name=f"error {column + 1}",
            line={"color": colour, "width": 1.2},
        )  # fmt: skip
        for sign in (1.0, -1.0):
            figure.add_scatter(
                x=t_s, y=sign * bound, mode="lines", showlegend=False, hoverinfo="skip",
                line={"color": colour, "width": 0.8, "dash": "dot"},
            )  # fmt: skip
    return style(figure, 320, f"error, {flown.unit}")


def delay_plot(flown: DeviceFlight) -> go.Figure:
    """From stamp to publication."""
    late_ms, counts = np.unique(np.round(flown.late_ns * 1e-6, 3), return_counts=True)
    figure = go.Figure(go.Bar(x=late_ms, y=counts, marker={"color": ESTIMATE}))
    style(figure, 220, "samples", x_title="delay, ms")
    figure.update_xaxes(title_text="delay, ms")
    return figure


def _plots(device: Checked, part: str) -> Iterator[go.Figure]:
    if part == "rest" and device.rested:
        yield allan_plot(device.rested)
        yield histogram_plot(device.rested)
    if part == "flight" and device.flown is not None:
        if device.flown.errors is not None:
            yield flight_plot(device.flown)
        if len(device.flown.late_ns):
            yield delay_plot(device.flown)


def _markup(figure: go.Figure) -> Markup:
    return Markup(figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG))


def render_check(check: Check) -> str:
    """The page as text."""
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters["figure"] = number_text
    devices = [
        {
            "name": name,
            "passed": device.passed,
            "parts": [
                {
                    "title": _TITLES[part],
                    "figures": figures,
                    "plots": [_markup(figure) for figure in _plots(device, part)],
                }
                for part, figures in device.parts().items()
                if figures
            ],
        }
        for name, device in check.devices.items()
    ]
    return environment.from_string(PAGE).render(
        title="Sensors: specified and measured",
        passed=check.passed,
        facts=[
            ("devices", str(len(devices))),
            (
                "figures",
                str(sum(len(f) for d in check.devices.values() for f in d.parts().values())),
            ),
            ("seed", str(check.settings.seed)),
            ("at rest", f"{check.settings.hours:g} h"),
        ],
        together=f"{100.0 * (1.0 - FALSE_ALARM):g}",
        each=f"{100.0 * check.confidence:.4f}",
        devices=devices,
        versions=versions(),
        plotly_js=Markup(get_plotlyjs()),
    )


def write_check_report(check: Check, path: Path) -> None:
    """Write the report, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    write_whole(path, render_check(check))
