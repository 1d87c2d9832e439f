"""The report of a campaign: one HTML file that needs nothing else and opens offline."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from quadsim.analysis.report.figures import CONFIG
from quadsim.analysis.report.tables import figure_text
from quadsim.analysis.report.template import HEAD
from quadsim.base.whole_files import write_whole
from quadsim.lab.campaign.drawing import distributions, effects, sensitivity, successes
from quadsim.lab.campaign.plan import Campaign
from quadsim.lab.campaign.statistics import (
    dependences,
    levels,
    mean_interval,
    metrics_of,
)
from quadsim.lab.campaign.tables import Columns

#: Dependences that the table names.
MOST_ROWS = 40

#: Figures in the order in which one is looked at as a function of the factors.
LOOKED_AT = ("tracking.position_rmse_m", "estimator.position_rmse_m", "duration_s")

PAGE = (
    HEAD
    + """<body><main>
<header><h1>{{ title }}</h1>
<span class="badge {{ 'good' if s.passed else 'bad' }}">
{{- 'passed' if s.passed else 'failed' }}</span></header>
{% if description %}<p class="why">{{ description }}</p>{% endif %}
<p class="why">{{ s.success.passed }} of {{ s.success.runs }} runs passed:
{{ s.success.rate | percent }}, and with 95 % confidence {{ s.success.low | percent }} to
{{ s.success.high | percent }} of all that could be drawn (Wilson).
{% if s.left %}<span class="warn">{{ s.left }} runs have not been flown.</span>{% endif %}</p>
<div class="facts">
{% for name, value in facts %}<span>{{ name }} <b>{{ value }}</b></span>{% endfor %}
</div>
<div class="card"><h2>How the runs ended</h2>
<table><tr><th>ended</th><th class="n">runs</th></tr>
{% for state, count in s.states.items() %}<tr><td class="{{ styles[state] }}">{{ state }}</td>
<td class="n">{{ count }}</td></tr>{% endfor %}
{% for name, count in s.missed.items() %}<tr><td>missed: {{ name }}</td>
<td class="n">{{ count }}</td></tr>{% endfor %}
{% for reason, count in s.broken.items() %}<tr><td>broken: {{ reason }}</td>
<td class="n">{{ count }}</td></tr>{% endfor %}
</table></div>
<div class="card"><h2>Figures</h2>
<table><tr><th>figure</th>{% for key in keys %}<th class="n">{{ key }}</th>{% endfor %}</tr>
{% for name, row in s.metrics.items() %}<tr><td>{{ name }}</td>
{% for key in keys %}<td class="n">{{ row[key] | figure }}</td>{% endfor %}</tr>{% endfor %}
</table></div>
{% for part in parts %}<section id="{{ part.key }}"><h2>{{ part.title }}</h2>
<p class="note">{{ part.note }}</p>{{ part.plot }}</section>{% endfor %}
{% if dependences %}<div class="card"><h2>What the figures depend on</h2>
<p class="note">Rank correlation after Spearman; slope: standardised coefficient of the linear
regression on all factors of numbers at once; share: of the variance, squared rank correlation or
between the choices (η²); p: of no dependence (Spearman's test; Kruskal and Wallis's of choices).
The {{ dependences | length }} strongest.</p>
<table><tr><th>factor</th><th>figure</th><th class="n">rank correlation</th><th class="n">slope</th>
<th class="n">share</th><th class="n">p</th></tr>
{% for d in dependences %}<tr><td>{{ d.factor }}</td><td>{{ d.metric }}</td>
<td class="n">{{ d.rank_correlation | figure }}</td><td class="n">{{ d.slope | figure }}</td>
<td class="n">{{ d.share | figure }}</td><td class="n">{{ d.p_value | figure }}</td></tr>
{% endfor %}</table></div>{% endif %}
{% if effects %}<div class="card"><h2>Main effects</h2>
<table><tr><th>factor</th><th>value</th><th class="n">runs</th><th class="n">passed</th>
<th class="n">from</th><th class="n">to</th>
{% for name in looked_at %}<th class="n">mean {{ name }}</th>{% endfor %}</tr>
{% for e in effects %}<tr><td>{{ e.factor }}</td><td>{{ e.label }}</td>
<td class="n">{{ e.success.count }}</td><td class="n">{{ e.success.rate | percent }}</td>
<td class="n">{{ e.success.low | percent }}</td><td class="n">{{ e.success.high | percent }}</td>
{% for mean, half in e.means %}<td class="n">{{ mean | figure }}{% if half == half %} ±
{{ half | figure }}{% endif %}</td>{% endfor %}</tr>{% endfor %}
</table></div>{% endif %}
<div class="card"><h2>Worst runs</h2>
<p class="note">Farthest over a limit first. Each can be flown again by itself, with the same
digest; <code>--bag</code> records it.</p>
{% for run in s.worst %}<p><b class="{{ styles[run.status] }}">run {{ run.run }}</b>
{{ run.status }}{% if run.reason %}: {{ run.reason }}{% endif %}<br>
{% for name, value in run['values'].items() %}<span class="note">{{ name }}
<b>{{ value | shown }}</b>; </span>{% endfor %}<br><code>{{ run.again }}</code><br>
<code>{{ run.command }}</code>
{% if run.digest %}<br><span class="note">digest {{ run.digest }}</span>{% endif %}</p>
{% endfor %}</div>
<footer>{% for name, value in versions.items() %}{{ name }} {{ value }}{{ ', ' if not loop.last }}
{%- endfor %}. {{ machine.processor }}, {{ machine.cores }} cores, {{ machine.system }}.</footer>
</main></body></html>
"""
)

#: Columns of the table of figures.
KEYS = ("count", "mean", "sigma", "least", "5 %", "median", "95 %", "most")


def percent(value: float) -> str:
    """A share as a page shows it."""
    return "–" if value != value else f"{100.0 * value:.3g} %"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _markup(figure: go.Figure) -> Markup:
    return Markup(figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG))


def figures(campaign: Campaign, table: Columns) -> dict[str, tuple[str, str, go.Figure]]:
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


def render(campaign: Campaign, table: Columns, summary: Mapping[str, Any]) -> str:
    """The page as text.

    Args:
        campaign: what was flown.
        table: the runs.
        summary: of :func:`quadsim.lab.campaign.results.summarize`.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"figure": figure_text, "percent": percent, "shown": _shown}
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
    return environment.from_string(PAGE).render(
        title=campaign.name,
        description=file.description,
        s=summary,
        facts=[
            ("scenario", file.scenario),
            ("samples", f"{campaign.samples.count}, {file.method}"),
            ("flights of each", str(file.repeats)),
            ("seed", str(file.seed)),
            ("flown", f"{summary['flown_s'] / 3600.0:.3g} h"),
            ("has to pass", percent(file.pass_share)),
        ],
        styles={"passed": "good", "failed": "bad", "broken": "warn"},
        keys=KEYS,
        parts=[
            {"key": key, "title": title, "note": note, "plot": _markup(figure)}
            for key, (title, note, figure) in figures(campaign, table).items()
        ],
        dependences=summary["dependences"][:MOST_ROWS],
        looked_at=looked_at,
        effects=main_effects,
        versions=summary["versions"],
        machine=summary["machine"],
        plotly_js=Markup(get_plotlyjs()),
    )


def write_report(
    campaign: Campaign, table: Columns, summary: Mapping[str, Any], path: Path
) -> None:
    """Write the report, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    write_whole(path, render(campaign, table, summary))
