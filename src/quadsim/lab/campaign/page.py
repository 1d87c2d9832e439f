"""The report of a campaign: one HTML file that needs nothing else and opens offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from quadsim.analysis.report.figures import ESTIMATE, RUNS, panels, style, thin
from quadsim.analysis.report.template import figure_markup, percent_text, render_page
from quadsim.base.compiled import Array
from quadsim.lab.campaign.factors import LOG_RANGE, Factor
from quadsim.lab.campaign.flying import BROKEN, FAILED, PASSED
from quadsim.lab.campaign.plan import Campaign
from quadsim.lab.campaign.record import Columns
from quadsim.lab.campaign.statistics import (
    Dependence,
    dependences,
    levels,
    mean_interval,
    metrics_of,
)

#: Dependences that the table names.
MOST_ROWS = 40

#: Figures in the order in which one is looked at as a function of the factors.
LOOKED_AT = ("tracking.position_rmse_m", "estimator.position_rmse_m", "duration_s")

#: Columns of the table of figures.
KEYS = ("count", "mean", "sigma", "least", "5 %", "median", "95 %", "most")


def report_figures(campaign: Campaign, table: Columns) -> dict[str, tuple[str, str, go.Figure]]:
    """The figures of a report: key to title, note and figure; those with nothing are left out."""
    metrics, factors = metrics_of(table), campaign.factors
    varied = [factor for factor in factors if len(levels(table, factor)) > 1]
    found: dict[str, tuple[str, str, go.Figure]] = {}
    if metrics:
        found["distributions"] = (
            "Distributions",
            "A figure that covers more than a factor of 50 is drawn over its logarithm.",
            distributions(table, metrics),
        )
    if varied:
        found["success"] = (
            "Success over each factor",
            "Wilson's 95 % interval of each choice, or of each part of the range, of as many runs.",
            successes(table, varied),
        )
    drawn = sensitivity(dependences(table, factors), [factor.name for factor in factors])
    if drawn.data:
        found["sensitivity"] = (
            "Sensitivity",
            "Spearman's rank correlation of each factor of numbers with each figure.",
            drawn,
        )
    for metric in LOOKED_AT[:2]:
        if metric in metrics and varied:
            found[f"effects-{metric.partition('.')[0]}"] = (
                f"Main effects on {metric}",
                "Each point is a run; the line joins means with their 95 % intervals.",
                effects(table, varied, metric),
            )
    return found


def render_campaign(campaign: Campaign, table: Columns, summary: Mapping[str, Any]) -> str:
    """The page as text.

    Args:
        table: the runs.
        summary: of :func:`quadsim.lab.campaign.statistics.campaign_summary`.
    """
    looked_at = [name for name in LOOKED_AT if name in metrics_of(table)]
    main_effects = [
        {
            "factor": factor.name,
            "label": level.label,
            "success": level.success,
            "means": [mean_interval(table[name][level.rows]) for name in looked_at],
        }
        for factor in campaign.factors
        for level in levels(table, factor)
    ]
    file = campaign.file
    return render_page(
        "lab/campaign/campaign.html",
        title=campaign.name,
        description=file.description,
        s=summary,
        facts=[
            ("scenario", file.scenario),
            ("samples", f"{campaign.samples.count}, {file.method}"),
            ("flights of each", str(file.repeats)),
            ("seed", str(file.seed)),
            ("flown", f"{summary['flown_s'] / 3600.0:.3g} h"),
            ("has to pass", percent_text(file.pass_share)),
        ],
        styles={"passed": "good", "failed": "bad", "broken": "warn"},
        keys=KEYS,
        parts=[
            {"key": key, "title": title, "note": note, "plot": figure_markup(figure)}
            for key, (title, note, figure) in report_figures(campaign, table).items()
        ],
        dependences=summary["dependences"][:MOST_ROWS],
        looked_at=looked_at,
        effects=main_effects,
        versions=summary["versions"],
        machine=summary["machine"],
    )


COLOURS = {PASSED: "#1b6e20", FAILED: "#c62828", BROKEN: "#7a4a00"}

#: Runs that are drawn as points, evenly chosen.
MAX_POINTS = 1500

#: Bars of a histogram.
BARS = 30


def _edges(values: Array) -> tuple[Array, bool]:
    """Edges of a histogram, and whether they are even in the logarithm."""
    low, high = float(values.min()), float(values.max())
    if low > 0.0 and high / low > 50.0:
        return np.asarray(np.geomspace(low, high, BARS + 1), np.float64), True
    spread = (high - low) or abs(high) or 1.0
    edge = 1e-9 * spread
    return np.asarray(np.linspace(low - edge, high + edge, BARS + 1), np.float64), False


def distributions(table: Columns, metrics: Sequence[str]) -> go.Figure:
    """How often each figure had which value, by how the runs ended."""
    figure, places = panels(metrics, 210)
    for k, (metric, place) in enumerate(zip(metrics, places, strict=True)):
        values = table[metric]
        edges, is_log = _edges(values[np.isfinite(values)])
        for state in (PASSED, FAILED):
            chosen = values[np.isfinite(values) & (table["status"] == state)]
            counts, _ = np.histogram(chosen, edges)
            figure.add_bar(
                x=np.sqrt(edges[1:] * edges[:-1]) if is_log else 0.5 * (edges[1:] + edges[:-1]),
                y=counts, width=np.diff(edges), marker={"color": COLOURS[state]}, name=state,
                legendgroup=state, showlegend=k == 0, **place,
            )  # fmt: skip
        if is_log:
            figure.update_xaxes(type="log", exponentformat="power", **place)
    figure.update_layout(bargap=0.04, barmode="stack")
    figure.update_yaxes(title_text="runs", col=1)
    return figure


def sensitivity(found: Sequence[Dependence], factors: Sequence[str]) -> go.Figure:
    """Rank correlations of factors of numbers with figures."""
    ranked = [item for item in found if item.rank_correlation is not None]
    names = [name for name in factors if any(item.factor == name for item in ranked)]
    metrics = list(dict.fromkeys(item.metric for item in ranked))
    values = np.full((len(names), len(metrics)), np.nan)
    for item in ranked:
        values[names.index(item.factor), metrics.index(item.metric)] = item.rank_correlation
    figure = go.Figure()
    if not names:
        return figure
    figure.add_heatmap(
        z=values, x=metrics, y=names, zmin=-1.0, zmax=1.0, colorscale="RdBu", reversescale=True,
        texttemplate="%{z:.2f}", colorbar={"title": "rank correlation"}, hoverongaps=False,
    )  # fmt: skip
    style(figure, 170 + 34 * len(names), x_title="")
    figure.update_layout(margin={"l": 20, "b": 110})
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(tickangle=-25, automargin=True)
    return figure


def effects(table: Columns, factors: Sequence[Factor], metric: str) -> go.Figure:
    """A figure over each factor: runs as points, and means with their intervals."""
    figure, places = panels([factor.name for factor in factors], 250)
    values = table[metric]
    for k, (factor, place) in enumerate(zip(factors, places, strict=True)):
        groups = levels(table, factor)
        where = table[factor.column]
        if not factor.is_number:
            where = np.array([factor.labels.index(label) for label in where], float)
            rest = np.arange(len(where)) % 17  # next to each other, and the same in every report
            where = where + 0.25 * (rest / 8.0 - 1.0)
        for state in (PASSED, FAILED):
            rows = np.flatnonzero((table["status"] == state) & np.isfinite(values))
            rows = rows[thin(len(rows), MAX_POINTS)]
            figure.add_scatter(
                x=where[rows], y=values[rows], mode="markers", name=state, legendgroup=state,
                marker={"color": COLOURS[state], "size": 4, "opacity": 0.35}, showlegend=k == 0,
                text=[f"run {int(n)}" for n in table["run"][rows]],
                hovertemplate="%{text}: %{y:.4g}<extra></extra>", **place,
            )  # fmt: skip
        means = [mean_interval(values[group.rows]) for group in groups]
        figure.add_scatter(
            x=[group.middle for group in groups], y=[mean for mean, _ in means],
            error_y={"array": [half for _, half in means]}, mode="markers+lines",
            line={"color": ESTIMATE, "width": 1.5}, marker={"size": 8}, name="mean, 95 %",
            legendgroup="mean", showlegend=k == 0, **place,
        )  # fmt: skip
        _axis_of(figure, factor, place)
    finite = values[np.isfinite(values)]
    if len(finite) and finite.min() > 0.0 and finite.max() / finite.min() > 50.0:
        figure.update_yaxes(type="log", exponentformat="power")
    figure.update_yaxes(title_text=metric, col=1)
    return figure


def successes(table: Columns, factors: Sequence[Factor]) -> go.Figure:
    """The success rate over each factor, with its intervals."""
    figure, places = panels([factor.name for factor in factors], 210)
    for k, (factor, place) in enumerate(zip(factors, places, strict=True)):
        groups = levels(table, factor)
        rates = np.array([group.success.rate for group in groups])
        figure.add_scatter(
            x=[group.middle for group in groups], y=100.0 * rates, mode="markers+lines",
            error_y={
                "symmetric": False,
                "array": [100.0 * (g.success.high - g.success.rate) for g in groups],
                "arrayminus": [100.0 * (g.success.rate - g.success.low) for g in groups],
            },
            text=[f"{g.label}: {g.success.passed} of {g.success.count}" for g in groups],
            hovertemplate="%{text}<extra></extra>", marker={"size": 8},
            line={"color": RUNS[2], "width": 1.5}, name="success rate, 95 %",
            showlegend=k == 0, **place,
        )  # fmt: skip
        _axis_of(figure, factor, place)
    figure.update_yaxes(range=[-4.0, 104.0])
    figure.update_yaxes(title_text="passed, %", col=1)
    return figure


def _axis_of(figure: go.Figure, factor: Factor, place: dict[str, Any]) -> None:
    """The x axis of a factor."""
    if factor.kind == LOG_RANGE:
        figure.update_xaxes(type="log", exponentformat="power", **place)
    if not factor.is_number:
        figure.update_xaxes(
            tickvals=list(range(len(factor.labels))), ticktext=list(factor.labels), **place
        )
