"""Make the pictures of docs/experiments.md: the thesis's four scenarios.

python docs/make_ntnu_pictures.py

They are those that ``./quadsim experiment ntnu`` writes, of the first seed, for both vehicles; they
need Chromium.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from quadsim.analysis.report.pictures import save_picture
from quadsim.lab.reproduce.ntnu import SCENARIOS, run_ntnu
from quadsim.lab.reproduce.ntnu_figures import pictures

IMAGES = Path(__file__).parent / "images"

#: Of a picture, which makes its file a third as large.
COLOURS = 96


def main() -> None:
    """Fly, and draw ``images/ntnu_*.png``."""
    IMAGES.mkdir(exist_ok=True)
    for name, figure in pictures(run_ntnu(SCENARIOS, 1)).items():
        path = IMAGES / f"{name}.png"
        save_picture(figure, path, figure.layout.width, figure.layout.height)
        with Image.open(path) as drawn:
            few = drawn.convert("RGB").quantize(COLOURS)
        few.save(path, optimize=True)


if __name__ == "__main__":
    main()
