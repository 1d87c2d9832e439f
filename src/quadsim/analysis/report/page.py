"""The report of one run or several: one HTML file that needs nothing else and opens offline.

It shows a few frames of what each depth camera of a bag saw, too.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image
from plotly.colors import get_colorscale, sample_colorscale, unlabel_rgb

from quadsim.analysis.report import tables
from quadsim.analysis.report.figures import CONFIG
from quadsim.analysis.report.flights import Flights, Runs
from quadsim.analysis.report.parts import drawn
from quadsim.analysis.report.template import figure_text, render_page
from quadsim.analysis.summary import Summary
from quadsim.bag.contents import Bag
from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.whole_files import write_whole
from quadsim.sim.log import FlightLog
from quadsim.wire.standard import IMAGE

MAX_RUNS = 8  # colours that everybody tells apart


def _facts(summary: Summary) -> list[tuple[str, str]]:
    factor = summary["real_time_factor"]
    tracking = summary["tracking"] or {}
    facts = {
        "scenario": summary["scenario"],
        "seed": None if summary["seed"] is None else str(summary["seed"]),
        "flown": f"{summary['duration_s']:.1f} s",
        "real-time factor": None if factor is None else f"{factor:.3g}",
        "tracking RMSE": f"{figure_text(tracking['position_rmse_m'])} m" if tracking else None,
        "bag": summary["bag"],
    }
    return [(name, value) for name, value in facts.items() if value is not None]


def _head(flights: Flights) -> dict[str, Any]:
    """The facts at the top of the page."""
    summaries = flights.summaries
    passed = [bool(summaries[run]["passed"]) for run in flights.runs]

    def lines(key: str) -> list[str]:
        return [
            f"{run}: {words}" if flights.several else words
            for run in flights.runs
            for words in summaries[run][key]
        ]

    (title, summary), *_ = summaries.items()
    why = tables.why(summary)
    if flights.several:
        title, why = f"{len(passed)} runs compared", f"{sum(passed)} of {len(passed)} runs passed"
    return {
        "title": title,
        "passed": all(passed),
        "why": f"{why[0].upper()}{why[1:]}.",
        "facts": [] if flights.several else _facts(summary),
        "errors": lines("errors"),
        "notes": lines("notes"),
    }


def runs_of(
    name: str, logs: Mapping[str, FlightLog], summary: Summary
) -> tuple[dict[str, FlightLog], dict[str, Summary]]:
    """The vehicles of a flight as runs that a report compares: who failed first, at most MAX_RUNS.

    Args:
        logs: name of each vehicle to its flight.
        summary: of them, by :func:`quadsim.analysis.summary.summarize_all`.
    """
    if len(logs) == 1:
        return {name: next(iter(logs.values()))}, {name: summary}
    shown = sorted(summary["runs"], key=lambda run: bool(run["passed"]))[:MAX_RUNS]
    labels = {run["vehicle"]: f"{name}: {run['vehicle']}" for run in shown}
    summaries = {labels[run["vehicle"]]: run for run in shown}
    of_all = [item for item in summary["criteria"] if "vehicle" not in item]
    label, first = next(iter(summaries.items()))
    passed = first["passed"] and all(item["passed"] for item in of_all)
    summaries[label] = first | {"criteria": [*first["criteria"], *of_all], "passed": passed}
    if len(shown) < len(logs):
        words = f"{len(shown)} of {len(logs)} vehicles are shown"
        summaries[label]["notes"] = [*first["notes"], words]
    return {label: logs[vehicle] for vehicle, label in labels.items()}, summaries


def figures_json(figures: Iterable[tuple[str, go.Figure]]) -> Markup:
    """Figures as JSON for a script element: arrays that several share, and the template, once.

    Args:
        figures: identifier of the element and what is drawn there.
    """
    arrays: dict[tuple[str, str], int] = {}

    def without_arrays(value: Any) -> Any:
        if isinstance(value, dict):
            if "bdata" in value:
                key = (value["dtype"], value["bdata"])
                return {"$": arrays.setdefault(key, len(arrays))}
            return {key: without_arrays(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [without_arrays(item) for item in value]
        return value

    template: Any = None
    listed = []
    for name, figure in figures:
        content = figure.to_plotly_json()
        template = content["layout"].pop("template", template)
        content = without_arrays(content)
        listed.append({"id": name, "data": content["data"], "layout": content["layout"]})
    stored = [{"dtype": dtype, "bdata": data} for dtype, data in arrays]
    page = {"template": template, "config": CONFIG, "arrays": stored, "figures": listed}
    text = json.dumps(page, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", " ").replace("\u2029", " "))


def _strips(flights: Flights) -> list[Strip]:
    """What depth cameras saw, of the runs' bags that can be read."""
    found: list[Strip] = []
    for path in dict.fromkeys(flights.summaries[run]["bag"] for run in flights.runs):
        with suppress(QuadsimError):
            found += strips_of(path)
    return found


def render(runs: Runs, summaries: Mapping[str, Summary]) -> str:
    """The page as text.

    Args:
        runs: label to flight, one to :data:`MAX_RUNS`; the first is the one asked about.
        summaries: the same labels to summaries, by :func:`quadsim.analysis.summary.summarize`.

    Raises:
        InputError: there is no run, or there are more than a reader can tell apart.
    """
    if not 1 <= len(runs) <= MAX_RUNS:
        raise InputError(f"a report compares 1 to {MAX_RUNS} runs, not {len(runs)}")
    flights = Flights(runs, {run: summaries[run] for run in runs})
    figures = list(drawn(flights))
    first = [tables.criteria_table(flights), tables.estimates_table(flights)]
    if flights.several:
        first.insert(0, tables.runs_table(flights))
    newest = next(iter(flights.summaries.values()))
    script = files("quadsim.analysis.report").joinpath("report.js").read_text(encoding="utf-8")
    return render_page(
        "analysis/report/report.html",
        **_head(flights),
        first=first,
        parts=[
            {"key": p.key, "title": p.title, "note": p.note, "height": figure.layout.height}
            for p, figure in figures
        ],
        strips=_strips(flights),
        last=[
            tables.more_table(flights),
            tables.innovations_table(flights),
            tables.events_table(flights),
            tables.topics_table(flights),
        ],
        events=any(log.events for log in runs.values()),
        points=flights.points,
        versions=newest["versions"],
        machine=newest["machine"],
        digests=[
            (run if flights.several else "", flights.summaries[run]["digest"]) for run in runs
        ],
        figures=figures_json((f"plot-{part.key}", figure) for part, figure in figures),
        script=Markup(script),
    )


def write_report(runs: Runs, summaries: Mapping[str, Summary], path: Path) -> None:
    """Write the report of one flight, or of several in the same axes, whole or not at all.

    Args:
        runs: label to flight, one to :data:`MAX_RUNS`.
        path: where the page goes.

    Raises:
        InputError: the file cannot be written, or there are too many runs.
    """
    write_whole(path, render(runs, summaries))


#: Frames of a strip, their largest width, and the gap between two, in pixels.
FRAMES, WIDE, GAP = 8, 150, 4
#: Kind of the numbers of an image, by its encoding; depths are in m or in mm.
KINDS = {"32FC1": "f4", "16UC1": "u2", "mono16": "u2"}
#: Where nothing came back.
NOTHING = (222, 222, 222)
Pixels = NDArray[Any]
_SCALE = np.array(
    [
        unlabel_rgb(colour)
        for colour in sample_colorscale(get_colorscale("Viridis"), np.linspace(0.0, 1.0, 256))
    ]
).astype(np.uint8)


class Strip(NamedTuple):
    """Frames of one topic; the address is the picture as data."""

    title: str
    note: str
    address: str


def strips_of(path: str | None) -> list[Strip]:
    """Strips of all images that a bag holds; none without a bag.

    Raises:
        InputError: the bag cannot be read.
    """
    if path is None:
        return []
    with open_bag(path) as bag:
        topics = [name for name, kind in sorted(bag.types.items()) if kind == IMAGE]
        return [strip for topic in topics if (strip := _strip(bag, topic)) is not None]


def _strip(bag: Bag, topic: str) -> Strip | None:
    """The strip of a topic; None where its images are of no kind that is known."""
    found = list(_frames(bag, topic))
    if not found:
        return None
    begin_ns = found[0][0]
    times = ", ".join(f"{(stamp_ns - begin_ns) * 1e-9:.1f}" for stamp_ns, _, _ in found)
    thin = [pixels[:: _step(pixels), :: _step(pixels)] for _, _, pixels in found]
    if found[0][1] == "mono16":
        colours, words = [_by_id(pixels) for pixels in thin], "one colour each thing"
    else:
        scale = 1e-3 if found[0][1] == "16UC1" else 1.0
        metres = [scale * np.where(pixels > 0, pixels, np.nan).astype(float) for pixels in thin]
        seen = np.concatenate([pixels[np.isfinite(pixels)] for pixels in metres])
        far_m = float(np.quantile(seen, 0.98)) if len(seen) else 1.0
        colours = [_by_depth(pixels, far_m) for pixels in metres]
        words = f"dark near, bright from {far_m:.1f} m on, grey: nothing came back"
    gap = np.full((len(colours[0]), GAP, 3), 255, np.uint8)
    side = [part for colour in colours for part in (colour, gap)][:-1]
    picture = BytesIO()
    Image.fromarray(np.concatenate(side, axis=1)).save(picture, "PNG")
    address = "data:image/png;base64," + b64encode(picture.getvalue()).decode()
    return Strip(topic, f"After {times} s; {words}.", address)


def _frames(bag: Bag, topic: str) -> Iterator[tuple[int, str, Pixels]]:
    """Log time, encoding and pixels of a few images, evenly over the bag."""
    first = next(iter(bag.messages([topic])), None)
    shape = None
    for k in range(FRAMES if first is not None else 0):
        start_ns = first.log_ns + round(k * bag.duration_s * 1e9 / FRAMES)  # type: ignore[union-attr]
        message = next(iter(bag.messages([topic], start_ns)), None)
        if message is None:
            return
        image: Any = bag.deserialize(message)
        kind = KINDS.get(image.encoding)
        if kind is None or (shape is not None and shape != (image.height, image.width)):
            return
        shape = (image.height, image.width)
        order = ">" if image.is_bigendian else "<"
        strides = (image.step, int(kind[1]))
        pixels: Pixels = np.ndarray(shape, order + kind, bytes(image.data), strides=strides)
        yield message.log_ns, image.encoding, pixels


def _step(pixels: Pixels) -> int:
    return -(-pixels.shape[1] // WIDE)


def _by_depth(metres: Pixels, far_m: float) -> Pixels:
    shares = np.clip(np.nan_to_num(metres / far_m, posinf=1.0), 0.0, 1.0)
    colours = _SCALE[(255.0 * shares).astype(np.uint8)]
    colours[~np.isfinite(metres)] = NOTHING
    return np.asarray(colours)


def _by_id(ids: Pixels) -> Pixels:
    """Colours far apart for ids that are near each other; 0 is nothing."""
    colours = _SCALE[(ids.astype(np.uint64) * 97 % 256).astype(np.uint8)]
    colours[ids == 0] = NOTHING
    return np.asarray(colours)
