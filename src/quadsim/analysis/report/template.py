"""Pages that need nothing else and open offline, from the Jinja templates of this package.

Values are escaped; figures, scripts and styles come as markup.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from quadsim.analysis.report.figures import CONFIG


def figure_markup(figure: go.Figure) -> Markup:
    """A figure for a page that holds plotly.js already."""
    return Markup(figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG))


def figure_text(value: float | None, digits: int = 3) -> str:
    """A number as a table shows it."""
    if value is None or not math.isfinite(value):
        return "–"
    if isinstance(value, int):
        return str(value)
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def percent_text(value: float) -> str:
    """A share as a page shows it."""
    return "–" if value != value else f"{100.0 * value:.3g} %"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("quadsim", ""), autoescape=True, undefined=StrictUndefined
    )
    found.filters |= {"figure": figure_text, "percent": percent_text, "shown": _shown}
    return found


def render_page(name: str, **values: Any) -> str:
    """The text of a page.

    Args:
        name: of its template in the package, such as ``analysis/report/report.html``.
    """
    return _environment().get_template(name).render(plotly_js=Markup(get_plotlyjs()), **values)
