"""Make the pictures of docs/experiments.md: the FCND scenarios over many seeds.

python docs/make_fcnd_pictures.py [SEEDS]

Those that ``./quadsim experiment fcnd`` writes, its fleets with one seed. They need Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from quadsim.analysis.report.pictures import save_picture
from quadsim.lab.reproduce.fcnd import FLEETS, SCENARIOS, run_fcnd
from quadsim.lab.reproduce.fcnd_figures import fcnd_picture

IMAGES = Path(__file__).parent / "images"

#: Of a picture, which makes its file a third as large.
COLOURS = 96


def main() -> None:
    """Fly, and draw ``images/fcnd_*.png`` and ``images/x_*.png``."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    IMAGES.mkdir(exist_ok=True)
    for result in (*run_fcnd(SCENARIOS, seeds), *run_fcnd(FLEETS, 1)):
        figure = fcnd_picture(result)
        path = IMAGES / f"{result.name}.png"
        save_picture(figure, path, figure.layout.width, figure.layout.height)
        with Image.open(path) as drawn:
            few = drawn.convert("RGB").quantize(COLOURS)
        few.save(path, optimize=True)


if __name__ == "__main__":
    main()
