"""The report of a campaign: one HTML file that needs nothing else and opens offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from quadsim.analysis.report.template import figure_markup, percent_text, render_page
from quadsim.base.whole_files import write_whole
from quadsim.lab.campaign.drawing import distributions, effects, sensitivity, successes
from quadsim.lab.campaign.plan import Campaign
from quadsim.lab.campaign.statistics import dependences, levels, mean_interval, metrics_of
from quadsim.lab.campaign.tables import Columns

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
        campaign: what was flown.
        table: the runs.
        summary: of :func:`quadsim.lab.campaign.results.campaign_summary`.
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


def write_campaign_report(
    campaign: Campaign, table: Columns, summary: Mapping[str, Any], path: Path
) -> None:
    """Write the report, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    write_whole(path, render_campaign(campaign, table, summary))
