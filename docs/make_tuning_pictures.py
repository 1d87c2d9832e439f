"""Make the picture of docs/tuning.md: a quadrotor before and after ``quadsim tune``.

Figures go to stdout; the picture needs Chromium.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PIL import Image

from quadsim.analysis.report.pictures import save_picture
from quadsim.lab.tune.tuned import tuning_picture
from quadsim.lab.tune.tuning import load_vehicle, tune_loops

PICTURE = Path(__file__).parent / "images" / "tuning_x500.png"
COLOURS = 96


def main() -> None:
    """Fly steps before and after the tuning, from gains that are wrong on purpose."""
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
    figure = tuning_picture(found)
    save_picture(figure, PICTURE, figure.layout.width, figure.layout.height)
    with Image.open(PICTURE) as drawn:  # few colours make the file small
        few = drawn.convert("RGB").quantize(COLOURS)
    few.save(PICTURE, optimize=True)
    print(f"cost {found.flown[0].cost:.3f} to {found.flown[1].cost:.3f}, passed {found.passed}")


if __name__ == "__main__":
    main()
