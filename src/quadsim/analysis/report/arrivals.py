"""How the messages of each topic came: rates, gaps, latency."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from quadsim.analysis.report.flights import Flights
from quadsim.analysis.report.sheet import Sheet
from quadsim.sim.log import Arrivals

CAME, GAP = "messages", "gap"
MAX_TOPICS = 40
#: Gaps of one topic that are drawn, the longest; all are counted.
MAX_GAPS = 200
_ROW_PX = 26


def _topics(flights: Flights) -> list[str]:
    """Topics that keep a rate, in the order of their names."""
    names = {
        name
        for log in flights.runs.values()
        for name, each in log.arrivals.items()
        if each.rate_hz is not None
    }
    return sorted(names)[:MAX_TOPICS]


def arrivals(flights: Flights) -> go.Figure:
    """A band for each topic over time, with its gaps."""
    topics = _topics(flights)
    sheet = Sheet(flights, [""], 30 + _ROW_PX * max(len(topics), 2))
    thick = min(10.0, 18.0 / max(len(flights.runs), 1))
    for number, (run, log) in enumerate(flights.runs.items()):
        aside = 0.0 if not flights.several else 0.7 * (number / (len(flights.runs) - 1) - 0.5)
        for k, name in enumerate(topics):
            each = log.arrivals.get(name)
            if each is None or each.rate_hz is None:
                continue
            gaps_s = _longest(each, log.start_ns)
            edges = np.concatenate([[0.0], gaps_s.ravel(), [log.duration_s]])
            x = np.insert(edges, np.arange(2, len(edges), 2), np.nan)
            sheet.line(run, CAME, x, np.full(len(x), k + aside), width=thick, hover=False,
                       dash="solid")  # fmt: skip
            if len(gaps_s):
                lengths_s = np.diff(gaps_s, axis=1)[:, 0]
                words = [html.escape(f"{name}: {length:.3f} s without a message")
                         for length in lengths_s]  # fmt: skip
                middle, at = gaps_s.mean(axis=1), np.full(len(gaps_s), k + aside)
                sheet.markers(run, GAP, middle, at, colour="#c62828", text=words,
                              symbol="line-ns", size=thick + 4,
                              line={"color": "#c62828", "width": 2})  # fmt: skip
    figure = sheet.finish()
    figure.update_layout(hovermode="closest")
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(topics))),
        ticktext=[html.escape(name) for name in topics],
        range=[len(topics) - 0.4, -0.6],
        automargin=True,
        showgrid=False,
    )
    return figure


def _longest(each: Arrivals, start_ns: int) -> np.ndarray[Any, Any]:
    """(G, 2) beginnings and ends of the longest gaps in the order of time, s."""
    gaps: NDArray[np.int64] = np.asarray(each.gaps_ns, np.int64).reshape(-1, 2)
    if len(gaps) > MAX_GAPS:
        lengths = gaps[:, 1] - gaps[:, 0]
        gaps = gaps[np.sort(np.argsort(lengths)[-MAX_GAPS:])]
    return np.asarray((gaps - start_ns) * 1e-9)


def topic_rows(flights: Flights) -> list[dict[str, Any]]:
    """Figures of the topics: one row for each run and topic."""
    rows = []
    for run, log in flights.runs.items():
        summed = flights.summaries.get(run, {}).get("topics", {})
        for name in log.topics or log.arrivals:
            each = log.arrivals.get(name)
            row: dict[str, Any] = {"run": run, "topic": name, "looked": each is not None}
            row |= {"count": log.topics.get(name), "rate_hz": summed.get(name, {}).get("rate_hz")}
            if each is not None:
                gaps_s = np.diff(np.asarray(each.gaps_ns).reshape(-1, 2), axis=1) * 1e-9
                row |= {"count": each.count, "rate_hz": each.rate_hz, "gaps": len(gaps_s)}
                row["longest_s"] = float(gaps_s.max()) if len(gaps_s) else None
                row["repeated"] = each.repeated
                row["median_ms"] = _milli(each.latency_median_s)
                row["p99_ms"] = _milli(each.latency_p99_s)
            rows.append(row)
    return rows


def _milli(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1e3
