"""Make the pictures of docs/experiments.md: the FCND scenarios over many seeds.

python docs/make_fcnd_pictures.py [SEEDS]

Those that ``./quadsim experiment fcnd`` writes, its fleets with one seed. They need Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from quadsim.analysis.report.pictures import save_picture
from quadsim.lab.reproduce.fcnd import SCENARIOS, run
from quadsim.lab.reproduce.fcnd_figures import WIDTH_PX
from quadsim.lab.reproduce.fcnd_fleets import FLEETS, run_fleets
from quadsim.lab.reproduce.fcnd_fleets_figures import part_picture

IMAGES = Path(__file__).parent / "images"

#: Of a picture, which makes its file a third as large.
COLOURS = 96


def main() -> None:
    """Fly, and draw ``images/fcnd_*.png`` and ``images/x_*.png``."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    IMAGES.mkdir(exist_ok=True)
    for outcome in (*run(SCENARIOS, seeds), *run_fleets(FLEETS, 1)):
        figure, height = part_picture(outcome)
        path = IMAGES / f"{outcome.name}.png"
        save_picture(figure, path, WIDTH_PX, height)
        with Image.open(path) as drawn:
            few = drawn.convert("RGB").quantize(COLOURS)
        few.save(path, optimize=True)


if __name__ == "__main__":
    main()
