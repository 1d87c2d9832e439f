"""Make the picture of docs/planner.md: a rehearsal in a dead end.

python docs/make_planner_picture.py [SEED]

The picture shows what the planner knows, and where it wants to fly, at four times of one flight; it
needs Chromium. The seed has to give a room.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import ESTIMATE, REFERENCE, TRUTH, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.hil.rehearsal.flight import RehearsalFlight
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.lab.rehearsals import outline
from quadsim.world.scene.obstacle_fields import Field

TARGET = Path(__file__).parent / "images" / "planner.png"
SCENARIO, SEED = "dead_end", 1
WIDTH_PX, HEIGHT_PX, COLOURS = 1500, 900, 96
#: Where on the way the pictures are taken: shares of its length.
SHARES = (0.14, 0.34, 0.5, 0.85)
#: Unknown, free, occupied.
GREYS = ((0.0, "#d9d9d9"), (0.5, "#ffffff"), (1.0, "#303030"))


@dataclass(frozen=True)
class Moment:
    """What the planner knew and wanted at one time of a flight.

    Attributes:
        t_s: since the guard was enabled.
        x_m, y_m: middles of the map's cells.
        cells: (X, Y) 0 free, 100 occupied, -1 unknown.
        path_W: (K, 3) the way.
        flown: how many rows of the track had been flown.
    """

    t_s: float
    x_m: NDArray[np.float64]
    y_m: NDArray[np.float64]
    cells: NDArray[np.int8]
    path_W: NDArray[np.float64]
    flown: int


def fly(seed: int) -> tuple[Field, list[Moment], NDArray[np.float64]]:
    """Fly a rehearsal; the field, a moment of each half second, positions."""
    rehearsal = load_rehearsal(SCENARIO, seed)
    flight = RehearsalFlight(rehearsal)
    planner = flight.side.planner
    moments, track = [], []
    reason = ""
    while not reason:
        flight.tick()
        reason = flight.ending()
        if flight.t_s < 0.0:
            continue
        track.append(flight.truth()[0])
        said = flight.side.planned
        if said is not None and len(said.path_W) and flight.t_s >= 0.5 * len(moments):
            x_m, y_m = planner.seen.axes()
            cells = planner.seen.seen(flight.vehicle.stamp_ns * 1e-9)
            moments.append(Moment(flight.t_s, x_m, y_m, cells, said.path_W, len(track)))
    print(f"{SCENARIO} {seed}: {reason} after {flight.t_s:.1f} s")
    return rehearsal.field, moments, np.array(track)


def chosen(moments: list[Moment], track: NDArray[np.float64]) -> list[Moment]:
    """The moments at the shares of the way."""
    steps_m = np.linalg.norm(np.diff(track, axis=0), axis=1)
    share = np.concatenate([[0.0], np.cumsum(steps_m)]) / steps_m.sum()
    return [min(moments, key=lambda m: abs(share[m.flown - 1] - wanted)) for wanted in SHARES]


def draw(field: Field, moments: list[Moment], track: NDArray[np.float64]) -> go.Figure:
    """Four panels: what was seen, the way, what was flown."""
    figure = make_subplots(
        rows=2, cols=2, horizontal_spacing=0.05, vertical_spacing=0.1,
        subplot_titles=[f"after {moment.t_s:.1f} s" for moment in moments],
    )  # fmt: skip
    for k, moment in enumerate(moments):
        place = {"row": k // 2 + 1, "col": k % 2 + 1}
        cells = np.select([moment.cells < 0, moment.cells == 0], [0.0, 0.5], 1.0)
        figure.add_trace(
            go.Heatmap(x=moment.x_m, y=moment.y_m, z=cells.T, colorscale=GREYS, showscale=False),
            **place,
        )
        for obstacle in field.obstacles:
            x, y = outline(obstacle)
            line = go.Scatter(
                x=x, y=y, mode="lines", line={"color": ESTIMATE, "width": 1}, name="what stands",
                legendgroup="stands", showlegend=k == 0 and obstacle is field.obstacles[0],
            )  # fmt: skip
            figure.add_trace(line, **place)
        for name, points, look in (
            ("flown", track[: moment.flown], {"color": TRUTH, "width": 3}),
            ("the way", moment.path_W, {"color": REFERENCE, "width": 2, "dash": "dot"}),
        ):
            figure.add_trace(
                go.Scatter(
                    x=points[:, 0], y=points[:, 1], mode="lines", line=look, name=name,
                    legendgroup=name, showlegend=k == 0,
                ),
                **place,
            )  # fmt: skip
    style(figure, HEIGHT_PX)
    figure.update_xaxes(range=[-4.0, 44.0])
    figure.update_yaxes(range=[-13.0, 13.0])
    figure.update_xaxes(title_text="east, m", row=2)
    figure.update_yaxes(title_text="north, m", col=1)
    figure.update_layout(width=WIDTH_PX, margin={"t": 90}, legend={"y": 1.1})
    return figure


def main() -> None:
    """Fly and draw."""
    field, moments, track = fly(int(sys.argv[1]) if len(sys.argv) > 1 else SEED)
    save_picture(draw(field, chosen(moments, track), track), TARGET)
    Image.open(TARGET).convert("RGB").quantize(COLOURS).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
