"""A figure in the making: rows of axes over one x axis, lines of runs, and a legend without twins.

The ``meta`` of a trace names its run and its kind of line, for the page's script and the legend.
With several runs the legend has an entry for each run and, in grey, one for each kind of line.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from quadsim.analysis.metrics import MAX_GAP_S
from quadsim.analysis.report.figures import ALLOWED, BAND, LEVELS, extremes, seconds, style
from quadsim.analysis.report.flights import BOUND, RANKS, TRUE, WISH, Flights
from quadsim.sim.log import OK, Array, Event, FlightLog, Stamps

MAX_MARKS = 60
MANY = 3  # runs from which on bounds wait for a click
_APART = 0.015  # of the longest run: events closer than this have their numbers together
_LEFT_PX, _TOP_PX = 72, 46  # above: the numbers of the events, and plotly's buttons
EVENT = "events"
_GREY = "#6b6b6b"
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


def small(values: Any) -> NDArray[np.float32]:
    """Numbers in single precision, as figures hold them."""
    return np.asarray(values, np.float32)


def marked_events(log: FlightLog) -> list[tuple[int, Event]]:
    """Number in the table and event of those that are marked: within the flight, worst first."""
    end_s = log.duration_s
    inside = [
        (number, event)
        for number, event in enumerate(log.events, 1)
        if 0.0 <= (event.stamp_ns - log.start_ns) * 1e-9 <= end_s  # others would stretch the axis
    ]
    chosen = sorted(inside, key=lambda item: -item[1].level)[:MAX_MARKS]
    return sorted(chosen, key=lambda item: item[0])


class Sheet:
    """Rows of axes that share x.

    Args:
        titles: of the y axes, one for each row.
        x_title: of the x axis; one that begins with ``time`` makes a time figure.
        in_space: three axes instead, and no rows.
    """

    def __init__(
        self,
        flights: Flights,
        titles: Sequence[str],
        row_px: int = 150,
        x_title: str = "time, s",
        in_space: bool = False,
    ) -> None:
        self.flights = flights
        self.rows = len(titles)
        self._titles, self._x_title = titles, x_title
        self._height_px = 91 + row_px * self.rows
        self._dashes: dict[str, str] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._seen: set[str] = set()
        self._in_space, self._line_up = in_space, False
        self.figure = go.Figure()
        if not in_space:
            self.figure = make_subplots(
                self.rows, 1, shared_xaxes=True, vertical_spacing=12.0 / self._height_px
            )

    def line(
        self,
        run: str,
        kind: str,
        x: Array | NDArray[np.float32],
        y: Array | NDArray[np.float32],
        row: int = 1,
        shown: bool = True,
        **look: Any,
    ) -> None:
        """A line as it is given; look: ``width``, ``dash``, ``colour``, ``hover``."""
        line = self._look(run, kind, look)
        hover = "skip" if look.get("hover") is False else None
        self.add(run, kind, row, shown, x=x, y=y, mode="lines", line=line, hoverinfo=hover)

    def over_time(
        self,
        run: str,
        kind: str,
        stamp_ns: Stamps,
        values: Array,
        row: int = 1,
        shown: bool = True,
        **look: Any,
    ) -> None:
        """A line over the run's time, thinned, broken where nothing was for a while."""
        if not len(stamp_ns):
            return
        rows = extremes(values, self.flights.points)
        t_s = seconds(stamp_ns[rows], self.flights.runs[run].start_ns)
        breaks = self._breaks(stamp_ns, rows)
        x, y = np.insert(t_s, breaks, np.nan), np.insert(small(values[rows]), breaks, np.nan)
        self.line(run, kind, x, y, row, shown, **look)

    def bounds(
        self,
        run: str,
        estimator: str,
        first: bool,
        stamp_ns: Stamps,
        bound: Array,
        row: int = 1,
        middle: Array | None = None,
    ) -> bool:
        """Plus and minus a bound: a band of a single run's first estimate, else two thin lines.

        Args:
            first: whether that is the run's first estimator.
            stamp_ns: (N,) ns.
            bound: (N,) half the width.
            middle: (N,) what it lies about; None is zero.

        Returns:
            Whether it is shown before somebody asks for it.
        """
        kind = BOUND if first else f"{BOUND}, {estimator}"
        shown = first and len(self.flights.runs) < MANY
        if not len(stamp_ns):
            return shown
        rows = extremes(bound, self.flights.points // 2)
        t_s = seconds(stamp_ns[rows], self.flights.runs[run].start_ns)
        centre = np.zeros(len(rows)) if middle is None else middle[rows]
        breaks = self._breaks(stamp_ns, rows)
        banded = not self.flights.several and kind == BOUND
        x: list[Any] = []
        y: list[Any] = []
        for t, high, low in zip(
            np.split(t_s, breaks),
            np.split(centre + bound[rows], breaks),
            np.split(centre - bound[rows], breaks),
            strict=True,
        ):
            x += [t, t[::-1], [np.nan]] if banded else [t, [np.nan], t, [np.nan]]
            y += [high, low[::-1], [np.nan]] if banded else [high, [np.nan], low, [np.nan]]
        line = {"width": 0} if banded else self._look(run, kind, {"dash": "dot", "width": 1.1})
        fill = {"fill": "toself", "fillcolor": BAND} if banded else {}
        self.add(
            run, kind, row, shown, x=np.concatenate(x), y=np.concatenate(y), mode="lines",
            line=line, hoverinfo="skip", **fill,
        )  # fmt: skip
        return shown

    def markers(
        self, run: str, kind: str, x: Any, y: Any, row: int = 1, shown: bool = True, **look: Any
    ) -> None:
        """Points; look: what plotly calls ``marker``, ``colour``, ``text`` for the pointer."""
        colour = look.pop("colour", None) or self.flights.colour(run, kind)
        text = {"text": look.pop("text"), "hoverinfo": "text"} if "text" in look else {}
        marker = {"color": colour} | look
        self.add(run, kind, row, shown, x=x, y=y, mode="markers", marker=marker, **text)

    def _breaks(self, stamp_ns: Stamps, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where among the chosen rows a line is broken."""
        steps = np.diff(stamp_ns)
        if not len(steps):
            return np.zeros(0, np.intp)
        longest_ns = max(MAX_GAP_S * 1e9, 5.0 * float(np.median(steps)))
        return np.unique(np.searchsorted(rows, np.flatnonzero(steps > longest_ns) + 1))

    def _look(self, run: str, kind: str, look: dict[str, Any]) -> dict[str, Any]:
        dash = look.get("dash")
        if dash is None and kind == WISH:
            dash = "dash"
        if dash is None:
            order = self._dashes.setdefault(kind, _DASHES[len(self._dashes) % len(_DASHES)])
            dash = order if self.flights.several else "solid"
        width = look.get("width", 2.2 if kind in (TRUE, WISH) else 1.6)
        colour = look.get("colour") or self.flights.colour(run, kind)
        return {"color": colour, "width": width, "dash": dash}

    def add(
        self, run: str, kind: str, row: int = 1, shown: bool = True, of: str = "", **trace: Any
    ) -> None:
        """Put a trace into its row, with what the legend needs to know.

        Args:
            run, kind: whose line, and what the legend calls it.
            shown: whether it is shown before somebody asks for it.
            of: plotly's type of the trace; empty: a scatter, in space one in space.
            trace: what plotly draws; coordinates are put in single precision.
        """
        for axis in "xyz":
            if axis in trace:
                trace[axis] = small(trace[axis])
        self._seen.add(run)
        first = kind not in self._entries
        trace["visible"] = None if shown else "legendonly"
        if first:
            looks = ("mode", "line", "marker", "visible")
            self._entries[kind] = {key: trace[key] for key in looks if key in trace}
        self._put(
            of, row, trace, name=html.escape(f"{run}: {kind}" if self.flights.several else kind),
            meta={"run": run, "kind": kind}, legendgroup=kind, legendrank=RANKS.get(kind, 100),
            showlegend=first and not self.flights.several,
        )  # fmt: skip

    def _put(self, of: str, row: int, trace: dict[str, Any], **more: Any) -> None:
        kind = of or ("scatter3d" if self._in_space else "scatter")
        place = {} if self._in_space else {"row": row, "col": 1}
        self.figure.add_trace({"type": kind, **trace, **more}, **place)

    def finish(self) -> go.Figure:
        """The figure with its legend, titles and events."""
        if self.flights.several and self._entries:
            self._enter_runs()
        if not self._in_space:
            self._finish_axes()
        style(self.figure, self._height_px, x_title=self._x_title)
        if self._line_up:  # time at the same place in all figures
            self.figure.update_layout(margin={"l": _LEFT_PX, "t": _TOP_PX})
            self.figure.update_yaxes(automargin=False, title={"font": {"size": 12}})
        return self.figure

    def _finish_axes(self) -> None:
        is_time = self._x_title.startswith("time")
        self.figure.update_layout(meta={"time": is_time})
        if is_time and self._entries:
            self._mark_events()
            self._line_up = True
            if self.flights.longest_s:
                self.figure.update_xaxes(range=[0.0, self.flights.longest_s])
        for row, title in enumerate(self._titles, 1):
            if title:
                self.figure.update_yaxes(row=row, title={"text": title})
        self.figure.update_xaxes(row=self.rows, title={"text": self._x_title})

    def _enter_runs(self) -> None:
        """Entries of the runs, then of the kinds of lines in grey."""
        for run in self.flights.runs:
            if run in self._seen:
                line = {"color": self.flights.colour(run, TRUE), "width": 3}
                self._entry(run, {"run": run}, 1, mode="lines", line=line)
        for kind, looks in self._entries.items():
            for part in ("line", "marker"):
                if part in looks:
                    looks[part] = looks[part] | {"color": _GREY}
            self._entry(kind, {"kind": kind}, 1000 + RANKS.get(kind, 100), **looks)

    def _entry(self, name: str, meta: dict[str, str], rank: int, **looks: Any) -> None:
        """A trace without points, for the legend."""
        nothing = {axis: [None] for axis in ("xyz" if self._in_space else "xy")}
        self._put(
            "", 1, nothing | looks, name=html.escape(name), meta=meta, legendrank=rank,
            legendgroup=f"{rank} {name}",
        )  # fmt: skip

    def _mark_events(self) -> None:
        """A dotted line for each event, with its number in the table of events above it."""
        shapes: list[dict[str, Any]] = []
        notes: list[dict[str, Any]] = []
        for run, log in self.flights.runs.items():
            for number, event in marked_events(log):
                if self.flights.several and event.level == OK:
                    continue  # as many as runs, of little use to compare them by
                t_s = (event.stamp_ns - log.start_ns) * 1e-9
                colour = LEVELS.get(event.level, "#767676")
                line = {"color": colour, "width": 1, "dash": "dot"}
                key = f"{EVENT}|{run}"
                shapes.append(
                    {"type": "line", "xref": "x", "yref": "paper", "x0": t_s, "x1": t_s,
                     "y0": 0, "y1": 1, "line": line, "name": key, "layer": "below"}
                )  # fmt: skip
                words = f"{t_s:.2f} s {event.name}: {event.message}"
                words = html.escape(f"{run}, {words}" if self.flights.several else words)
                last = notes[-1] if notes and notes[-1]["name"] == key else None
                if last is not None and t_s - last["x"] < _APART * self.flights.longest_s:
                    last["text"] += f",{number}"
                    last["hovertext"] += f"<br>{words}"
                    continue
                notes.append(
                    {"xref": "x", "yref": "paper", "x": t_s, "y": 1, "yanchor": "bottom",
                     "showarrow": False, "text": str(number), "name": key, "hovertext": words,
                     "font": {"size": 10, "color": colour}}
                )  # fmt: skip
        if not shapes:
            return
        layout = self.figure.layout
        layout.shapes = [*layout.shapes, *shapes]
        layout.annotations = [*layout.annotations, *notes]
        line = {"color": "#767676", "width": 1, "dash": "dot"}
        self._entry(EVENT, {"kind": EVENT}, 3000, mode="lines", line=line)

    def band(
        self, row: int, x: tuple[float, float], y: tuple[float, float], words: str = ""
    ) -> None:
        """Where a signal has to stay; of no height, what a figure of it has to stay below."""
        is_line = y[0] == y[1]
        line = {"color": "#00795a", "width": 1.8 if is_line else 1, "dash": "dash"}
        self.figure.add_shape(
            row=row, col=1, type="line" if is_line else "rect", x0=x[0], x1=x[1], y0=y[0], y1=y[1],
            fillcolor=ALLOWED, line=line, layer="above" if is_line else "below", name="criterion",
        )  # fmt: skip
        if words:
            self.figure.add_annotation(
                row=row, col=1, x=x[1], y=y[1], text=html.escape(words), showarrow=False,
                xanchor="right", yanchor="top", font={"size": 11, "color": "#00593f"},
                bgcolor="rgba(255, 255, 255, 0.75)", name="criterion",
            )  # fmt: skip
