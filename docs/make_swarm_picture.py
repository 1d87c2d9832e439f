"""Make the picture of docs/swarms.md: twelve vehicles cross, and twelve fly in formation.

python docs/make_swarm_picture.py

It needs Chromium.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import RUNS, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.analysis.signals import SIGNALS
from quadsim.sim.log import FlightLog
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all

TARGET = Path(__file__).parent / "images" / "swarms.png"
WIDTH_PX, HEIGHT_PX, COLOURS = 1500, 1150, 128
COUNT = 12
#: What the formation looks like when all have gathered, one time after the other.
FORMS = ("take-off in a grid", "a circle", "a vee", "the vee, 30 m on")


def flown(name: str, avoid: bool) -> list[FlightLog]:
    """The flights of a scenario, with or without giving way."""
    scenario = load_scenario(name, vehicles=COUNT)
    swarm = replace(scenario.file.swarm, avoid=avoid)
    logs, _ = run_all(replace(scenario, file=replace(scenario.file, swarm=swarm)))
    return logs


def words(title: str, logs: list[FlightLog]) -> str:
    """Title of a panel: what came of a flight."""
    gap_m = SIGNALS["gap_m"].of(logs).values.min()
    crashed = sum(any(event.name == "crash" for event in log.events) for log in logs)
    arrived = sum(any(event.name == "landed" for event in log.events) for log in logs)
    ends = f"{crashed} crash" if crashed else f"all {arrived} arrive"
    return f"{title}: least gap {gap_m:.2f} m, {ends}"


def draw_way(
    figure: go.Figure, way: NDArray[np.float64], colour: str, row: int, col: int, end: bool
) -> None:
    """One vehicle's way from above, with a disc at its end."""
    line = {"color": colour, "width": 2}
    figure.add_trace(
        go.Scatter(x=way[:, 0], y=way[:, 1], mode="lines", line=line, showlegend=False),
        row=row,
        col=col,
    )
    if end:
        marker = {"color": colour, "size": 11, "line": {"color": "#000000", "width": 1}}
        figure.add_trace(
            go.Scatter(
                x=way[-1:, 0], y=way[-1:, 1], mode="markers", marker=marker, showlegend=False
            ),
            row=row,
            col=col,
        )


def draw_formation(figure: go.Figure, logs: list[FlightLog]) -> None:
    """Where all are when they wait for each other, and how they came there."""
    gathered = [[e.stamp_ns for e in log.events if e.message.endswith(": gather")] for log in logs]
    moments_ns = [max(times) for times in zip(*gathered, strict=True)]
    for i, log in enumerate(logs):
        stamps = log.truth.stamp_ns
        for col, (begin_ns, end_ns) in enumerate(
            zip((0, *moments_ns), moments_ns[: len(FORMS)], strict=False), 1
        ):
            way = log.truth.p_W[(stamps > begin_ns) & (stamps <= end_ns)]
            draw_way(figure, way[::5], RUNS[i % len(RUNS)], 2, col, end=False)
            draw_way(figure, way[-2:], RUNS[i % len(RUNS)], 2, col, end=True)


def main() -> None:
    """Fly and draw."""
    without, given = flown("crossing", False), flown("crossing", True)
    formed = flown("formation", True)
    titles = [words("crossing, nobody gives way", without), words("crossing", given)]
    print("\n".join([*titles, words("formation", formed)]))
    figure = make_subplots(
        rows=2, cols=len(FORMS), row_heights=[0.55, 0.45],
        specs=[[{"colspan": 2}, None, {"colspan": 2}, None], [{}] * len(FORMS)],
        subplot_titles=[*titles, *FORMS], horizontal_spacing=0.05, vertical_spacing=0.16,
    )  # fmt: skip
    for col, logs in ((1, without), (3, given)):
        for i, log in enumerate(logs):
            draw_way(figure, log.truth.p_W[::5], RUNS[i % len(RUNS)], 1, col, end=True)
    draw_formation(figure, formed)
    style(figure, HEIGHT_PX)
    places = [(1, 1), (1, 3), *((2, col + 1) for col in range(len(FORMS)))]
    for row, col in places:
        axes = figure.get_subplot(row, col)
        axes.yaxis.update(scaleanchor=axes.xaxis.plotly_name.replace("axis", ""), scaleratio=1)
    figure.update_xaxes(title_text="east, m")
    figure.update_yaxes(title_text="north, m", col=1)
    figure.update_layout(width=WIDTH_PX, margin={"t": 70}, showlegend=False)
    save_picture(figure, TARGET)
    Image.open(TARGET).convert("RGB").quantize(COLOURS).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
