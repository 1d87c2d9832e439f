"""Make the picture of docs/rehearsal.md; it needs Chromium.

python docs/make_rehearsal_picture.py
"""

from __future__ import annotations

from pathlib import Path

from quadsim.analysis.report.pictures import save_picture
from quadsim.lab.rehearsals import rehearsal_picture, run_rehearsal

IMAGES = Path(__file__).parent / "images"

#: Rehearsals and seeds that are drawn.
DRAWN = (
    ("pillars", 10),
    ("row", 9),
    ("dead_end", 1),
    ("dead_end", 7),
    ("moving_vehicle", 12),
    ("appearing", 1),
)


def main() -> None:
    """Draw ``images/rehearsal.png``."""
    figure = rehearsal_picture(
        [(name, run_rehearsal(name, [seed], processes=1)[0]) for name, seed in DRAWN]
    )
    layout = figure.layout
    save_picture(figure, IMAGES / "rehearsal.png", int(layout.width), int(layout.height))


if __name__ == "__main__":
    main()
