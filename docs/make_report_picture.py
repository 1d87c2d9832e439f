"""Make the picture of a report: the top of the page as a browser shows it.

./quadsim sim --scenario windy_square --output runs/windy_square
python docs/make_report_picture.py runs/windy_square/report.html
./quadsim campaign wind
python docs/make_report_picture.py runs/campaign-wind/report.html campaign

It needs Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from quadsim.analysis.report.pictures import need_browser

IMAGES = Path(__file__).parent / "images"
WIDTH_PX, HEIGHT_PX, SCALE = 1240, 2560, 0.7


def main() -> None:
    """Draw ``images/report.png``, or one of another name, of the page on the command line."""
    page, *names = sys.argv[1:]
    picture = IMAGES / f"{names[0] if names else 'report'}.png"
    with tempfile.TemporaryDirectory(prefix="quadsim-report-") as folder:
        options = [
            f"--window-size={WIDTH_PX},{HEIGHT_PX}",
            f"--force-device-scale-factor={SCALE}",
            f"--screenshot={picture}",
            "--headless",
            "--hide-scrollbars",
            "--no-sandbox",
            "--use-angle=swiftshader",  # the plot in space, without a graphics card
            "--enable-unsafe-swiftshader",
            "--virtual-time-budget=800",
            f"--user-data-dir={folder}",
        ]
        command = [need_browser(), *options, Path(page).resolve().as_uri()]
        subprocess.run(command, check=True, timeout=300, capture_output=True)
    print(picture)


if __name__ == "__main__":
    main()
