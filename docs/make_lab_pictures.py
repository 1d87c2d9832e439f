"""Make the pictures of docs/experiments.md, docs/rehearsal.md and docs/tuning.md; needs Chromium.

python docs/make_lab_pictures.py [fcnd] [ntnu] [rehearsal] [tuning]

Those of the experiments are what ``./quadsim experiment`` writes: the FCND scenarios over 100
seeds, its fleets and the thesis's scenarios with one seed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go
from PIL import Image

from quadsim.analysis.report.pictures import save_picture
from quadsim.lab.rehearsals import rehearsal_picture, run_rehearsal
from quadsim.lab.reproduce import fcnd, ntnu
from quadsim.lab.reproduce.pictures import fcnd_picture, pictures
from quadsim.lab.tune.tuning import load_vehicle, tune_loops, tuning_picture

IMAGES = Path(__file__).parent / "images"
#: Of a picture, which makes its file a third as large.
COLOURS = 96
SEEDS = 100
#: Rehearsals and seeds that are drawn.
REHEARSED = (
    ("pillars", 10),
    ("row", 9),
    ("dead_end", 1),
    ("dead_end", 7),
    ("moving_vehicle", 12),
    ("appearing", 1),
)


def of_fcnd() -> dict[str, go.Figure]:
    """Its scenarios and fleets."""
    found = (*fcnd.run_fcnd(fcnd.SCENARIOS, SEEDS), *fcnd.run_fcnd(fcnd.FLEETS, 1))
    return {result.name: fcnd_picture(result) for result in found}


def of_ntnu() -> dict[str, go.Figure]:
    """The thesis's four scenarios."""
    return pictures(ntnu.run_ntnu(ntnu.SCENARIOS, 1))


def of_rehearsal() -> dict[str, go.Figure]:
    """Flights among obstacles from above."""
    flown = [(name, run_rehearsal(name, [seed], processes=1)[0]) for name, seed in REHEARSED]
    return {"rehearsal": rehearsal_picture(flown)}


def of_tuning() -> dict[str, go.Figure]:
    """Steps of an x500 before and after tuning, from gains that are wrong on purpose."""
    scenario = load_vehicle("x500", "default", "default", 1)
    good = scenario.autopilot
    bad = replace(
        good,
        attitude=replace(good.attitude, tilt_gain=5.0),
        position=replace(
            good.position, position_gain_xy=2.5, velocity_gain_xy=2.0, velocity_gain_z=1.5,
            position_gain_z=3.0, yaw_gain=5.0,
        ),
    )  # fmt: skip
    found = tune_loops(replace(scenario, autopilot=bad), say=print)
    print(f"cost {found.flown[0].cost:.3f} to {found.flown[1].cost:.3f}, passed {found.passed}")
    return {"tuning_x500": tuning_picture(found)}


MAKERS: dict[str, Callable[[], dict[str, go.Figure]]] = {
    "fcnd": of_fcnd,
    "ntnu": of_ntnu,
    "rehearsal": of_rehearsal,
    "tuning": of_tuning,
}


def main() -> None:
    """Draw the pictures that are named, or all."""
    IMAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MAKERS:
        for title, figure in MAKERS[name]().items():
            path = IMAGES / f"{title}.png"
            save_picture(figure, path, int(figure.layout.width), int(figure.layout.height))
            with Image.open(path) as drawn:
                few = drawn.convert("RGB").quantize(COLOURS)
            few.save(path, optimize=True)


if __name__ == "__main__":
    main()
