"""Make the picture and the table of docs/trajectories.md: each trajectory, flown and tracked.

python docs/make_trajectory_pictures.py [SEEDS]

The table is printed; the picture needs Chromium.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image
from plotly.subplots import make_subplots

from quadsim.analysis.metrics import at_stamps
from quadsim.analysis.report.figures import ESTIMATE, FIXES, REFERENCE, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.lab.campaign.batch import run_batch
from quadsim.mission.items import Hover, Land, Takeoff, name_of
from quadsim.mission.trajectories.items import (
    Circle,
    FigureOfEight,
    Helix,
    MinimumSnap,
    Spiral,
    TrackItem,
)
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

IMAGES = Path(__file__).parent / "images"
WIDTH_PX, HEIGHT_PX = 1500, 720
COLOURS = 96

CENTER = (0.0, 0.0, 2.0)
EIGHT = FigureOfEight(
    center_W_m=CENTER, half_length_m=1.5, half_width_m=0.6, half_height_m=0.75, laps=4.0,
    acceleration_mps2=6.0,
)  # fmt: skip
ITEMS: dict[str, TrackItem] = {
    "figure of eight, 6 m/s²": EIGHT,
    "the same, nose along the way": replace(EIGHT, half_width_m=0.9, yaw="along"),
    "circle, 3 m/s": Circle(
        center_W_m=CENTER, radius_m=2.0, turns=4.0, speed_mps=3.0, yaw="along"
    ),
    "helix, 5 m up": Helix(
        center_W_m=CENTER, radius_m=1.5, turns=4.0, climb_m=5.0, acceleration_mps2=5.0
    ),
    "spiral, 0.5 to 3 m": Spiral(
        center_W_m=CENTER, radius_m=0.5, end_radius_m=3.0, turns=4.0, acceleration_mps2=5.0,
        yaw="rate", yaw_rate_degps=30.0,
    ),
    "minimum snap, 6 waypoints": MinimumSnap(
        waypoints=(
            (0.0, 0.0, 2.0), (4.0, 1.0, 3.0), (6.0, 5.0, 2.5), (2.0, 6.0, 3.5), (-1.0, 3.0, 2.0),
            (0.0, 0.0, 2.0),
        ),
        acceleration_mps2=5.0, optimise=True, yaw="along",
    ),
}  # fmt: skip
DRAWN = [name for name in ITEMS if not name.startswith("the same")]

#: Scenario by what is flown.
VARIANTS = {
    "x500 on the truth": "figure_of_eight",
    "FCND vehicle on the truth": "figure_of_eight_fcnd",
    "FCND vehicle on its estimate": "figure_of_eight_fcnd",
}


@dataclass(frozen=True)
class Job:
    """One flight."""

    item: str
    variant: str
    seed: int


@dataclass(frozen=True)
class Tracked:
    """What a flight of one item gave: true and wanted positions (N, 3) at times (N,); errors."""

    t_s: NDArray[np.float64]
    true_W: NDArray[np.float64]
    wanted_W: NDArray[np.float64]
    own_rmse_m: float
    errors: list[str]

    @property
    def apart_m(self) -> NDArray[np.float64]:
        """Distance of the truth from the reference."""
        return np.asarray(np.linalg.norm(self.true_W - self.wanted_W, axis=1))

    @property
    def rmse_m(self) -> float:
        """Of the truth from the reference."""
        return float(np.sqrt(np.mean(self.apart_m**2)))


def fly(job: Job) -> Tracked:
    """Fly one item between take-off and landing."""
    scenario = load_scenario(VARIANTS[job.variant], seed=job.seed)
    items = (Takeoff(height_m=1.9), ITEMS[job.item], Hover(duration_s=1.0), Land())
    scenario = replace(scenario, items=items, file=replace(scenario.file, duration_s=120.0))
    loop = ClosedLoop(scenario, use_truth=job.variant.endswith("truth"))
    log = loop.fly()
    words = f"item 1: {name_of(items[1])}"
    begin_ns = next(event.stamp_ns for event in log.events if event.message == words)
    end_ns = next(event.stamp_ns for event in log.events if event.message == "item 2: hover")
    assert log.reference is not None

    def against(track):
        known, wanted = at_stamps(log.reference, track.stamp_ns)
        rows = (wanted.stamp_ns >= begin_ns) & (wanted.stamp_ns < end_ns)
        return wanted.stamp_ns[rows], track.p_W[known][rows], wanted.p_W[rows]

    stamp_ns, true_W, wanted_W = against(log.truth)
    _, believed_W, then_W = against(next(iter(log.estimates.values())))
    own = float(np.sqrt(np.mean(np.sum((believed_W - then_W) ** 2, axis=1))))
    errors = [event.message for event in log.events if event.level]
    return Tracked((stamp_ns - begin_ns) * 1e-9, true_W, wanted_W, own, errors)


def table(flown: dict[Job, Tracked], seeds: int) -> None:
    """Print the figures as a table of docs/trajectories.md."""
    print("| trajectory | " + " | ".join(VARIANTS) + " | estimate from reference |")
    print("| --- | " + "--- | " * (len(VARIANTS) + 1))
    for item in ITEMS:
        cells = []
        for variant in VARIANTS:
            found = [flown[Job(item, variant, seed)] for seed in range(1, seeds + 1)]
            rmse = [each.rmse_m for each in found]
            most = max(float(each.apart_m.max()) for each in found)
            cells.append(f"{np.median(rmse):.3f}, {max(rmse):.3f} ({most:.2f})")
            for each in found:
                if each.errors:
                    print(item, variant, each.errors, file=sys.stderr)
        own = [each.own_rmse_m for each in found]
        print(f"| {item} | " + " | ".join(cells) + f" | {np.median(own):.3f}, {max(own):.3f} |")


def picture(flown: dict[Job, Tracked]) -> go.Figure:
    """Each trajectory from above, and how far the vehicles are from it over time."""
    figure = make_subplots(
        rows=2, cols=len(DRAWN), subplot_titles=DRAWN, vertical_spacing=0.12,
        horizontal_spacing=0.04, row_heights=[0.62, 0.38],
    )  # fmt: skip
    colours = {"x500 on the truth": ESTIMATE, "FCND vehicle on its estimate": FIXES}
    for column, item in enumerate(DRAWN, 1):
        for variant, colour in colours.items():
            found = flown[Job(item, variant, 1)]
            line = {"color": colour, "width": 1.4}
            shared = {"name": variant, "mode": "lines", "line": line, "showlegend": column == 1}
            figure.add_trace(
                go.Scatter(x=found.true_W[:, 0], y=found.true_W[:, 1], **shared), row=1, col=column
            )
            figure.add_trace(
                go.Scatter(
                    x=found.t_s, y=found.apart_m, mode="lines", line=line, showlegend=False
                ),
                row=2, col=column,
            )  # fmt: skip
        wanted = flown[Job(item, "x500 on the truth", 1)].wanted_W
        figure.add_trace(
            go.Scatter(
                x=wanted[:, 0], y=wanted[:, 1], mode="lines", name="reference",
                line={"color": REFERENCE, "width": 2.5, "dash": "dot"}, showlegend=column == 1,
            ),
            row=1, col=column,
        )  # fmt: skip
        axis = "x" if column == 1 else f"x{column}"
        figure.update_yaxes(scaleanchor=axis, row=1, col=column)
        figure.update_xaxes(title_text="time, s", row=2, col=column)
        figure.update_yaxes(range=[0.0, 0.7], row=2, col=column)
    style(figure, HEIGHT_PX)
    figure.update_yaxes(title_text="north, m", row=1, col=1)
    figure.update_yaxes(title_text="from the reference, m", row=2, col=1)
    figure.update_layout(legend={"y": 1.08}, hovermode=False, margin={"t": 95})
    return figure


def main() -> None:
    """Fly, print the table, and draw ``images/trajectories.png``."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    jobs = [
        Job(item, variant, seed)
        for item in ITEMS
        for variant in VARIANTS
        for seed in range(1, seeds + 1)
    ]
    flown = dict(zip(jobs, run_batch(fly, jobs), strict=True))
    table(flown, seeds)
    path = IMAGES / "trajectories.png"
    save_picture(picture(flown), path, WIDTH_PX, HEIGHT_PX)
    with Image.open(path) as drawn:
        few = drawn.convert("RGB").quantize(COLOURS)
    few.save(path, optimize=True)


if __name__ == "__main__":
    main()
