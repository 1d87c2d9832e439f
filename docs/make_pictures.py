"""Make the pictures of the documentation from a recorded flight.

python docs/make_pictures.py runs/square-<time>/bag

The flight is that of ``./quadsim fly``; ``quadsim.analysis.report.pictures`` draws the picture,
which needs Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

from quadsim.analysis.report.pictures import save_picture, square_picture
from quadsim.bag.log import read_log
from quadsim.bag.reading import open_bag

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """Draw ``images/square.png`` from the bag named on the command line."""
    with open_bag(Path(sys.argv[1])) as bag:
        log = read_log(bag, "/quad")
    IMAGES.mkdir(exist_ok=True)
    save_picture(square_picture(log), IMAGES / "square.png")


if __name__ == "__main__":
    main()
