"""Make docs/images/view.png and view.webp: quadsim view on a page, in a headless Chromium.

It flies a scenario in which GNSS is lost from 8 s on. The picture is of 13.8 s, the animation of
the time before and after. Chromium draws by its processor alone, and reaches nobody but this
machine. ``python docs/make_view_picture.py picture`` or ``animation`` makes one of them.
"""

from __future__ import annotations

import base64
import io
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageChops

from quadsim.bag.reading import open_bag
from quadsim.base.surroundings import browser
from quadsim.sim.scenario import load_scenario
from quadsim.view import flights
from quadsim.view.flights import Picture, draw_bag, new_recording
from quadsim.view.output import send_to, viewer
from quadsim.view.scenarios import site_of
from quadsim.view.scenery import GroundPatch

IMAGES = Path(__file__).parent / "images"
SECONDS = 13.8
#: The forest in wind, with a receiver that loses its satellites on the way.
SCENARIO = """
vehicle: x500
sensors: lidar
world: forest
duration_s: 60.0
environment: {wind_W_mps: [2.5, 1.5, 0.0]}
mission:
  - takeoff: {height_m: 1.77}
  - goto: {position_W_m: [4.0, -4.0, 2.0], yaw_deg: 0.0}
  - goto: {position_W_m: [-4.0, 4.0, 2.0], yaw_deg: 135.0}
  - goto: {position_W_m: [0.0, 0.0, 2.0], yaw_deg: 0.0}
  - land: {}
faults:
  - {sensor: gnss, fault: outage, at_s: 8.0, duration_s: 12.0}
"""
NAME = "forest_outage.yaml"
#: Of the picture, and of the animation, pixels.
LARGE, SMALL = (1600, 1000), (960, 540)
#: Times of the animation's pictures, s, and how long each is shown, ms.
FRAMES_S = [6.0 + 0.25 * i for i in range(60)]
SHOWN_MS = 100
#: What of them is shown: all but the viewer's bars.
SHOWN = (0, 30, SMALL[0], 508)
PATIENCE_S = 600.0
LOOK_S = 3.0
FLAGS = (
    "--headless=new",
    "--use-angle=swiftshader",  # WebGL without a graphics card
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Browser:
    """A headless Chromium, spoken to by its DevTools protocol through a pair of pipes."""

    def __init__(self, folder: str, width: int, height: int) -> None:
        program = browser()
        if program is None:
            sys.exit("a picture needs Chromium or Chrome (apt install chromium)")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        command = [program, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
        command.append(f"--window-size={width},{height}")
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium has no sandbox for root
        # it reads at 3 and writes at 4
        ends = f'exec 3<&{to_read} 4>&{to_write}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", ends, "browser", *command, "about:blank"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._rest, self._count, self._session = b"", 0, ""
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Runtime.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def _next(self, end_s: float) -> dict[str, Any] | None:
        while b"\0" not in self._rest:
            left_s = end_s - time.monotonic()
            if left_s <= 0.0 or not select.select([self._in], [], [], left_s)[0]:
                return None
            part = os.read(self._in, 1 << 20)
            if not part:
                sys.exit("Chromium ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        found = json.loads(message)
        if found.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(found["params"]["exceptionDetails"])[:300])
        return dict(found)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for something and wait for the answer."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        end_s = time.monotonic() + PATIENCE_S
        while (found := self._next(end_s)) is not None:
            if found.get("id") == self._count:
                if "error" in found:
                    sys.exit(f"{method}: {found['error']}")
                return dict(found["result"])
        sys.exit(f"{method}: no answer in {PATIENCE_S:g} s")

    def picture(self, after_s: float = LOOK_S) -> Image.Image:
        """What the page looks like after a while."""
        end_s = time.monotonic() + after_s
        while self._next(end_s) is not None:
            pass
        content = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        return Image.open(io.BytesIO(content)).convert("RGB")

    def close(self) -> None:
        """End it."""
        self.call("Browser.close")
        self._process.wait(30.0)


def is_drawn(image: Image.Image) -> bool:
    """Whether there is more than a blank page or a welcome: many colours."""
    colours = image.getcolors(image.width * image.height)
    return colours is not None and len(colours) > 3000


def settled(page: Browser) -> Image.Image:
    """The page when it is drawn and no longer changes."""
    end_s = time.monotonic() + PATIENCE_S
    before = page.picture()
    while time.monotonic() < end_s:
        now = page.picture()
        if is_drawn(now) and ImageChops.difference(before, now).getbbox() is None:
            return now
        before = now
    sys.exit(f"the page did not come to rest in {PATIENCE_S:g} s")


def fly(folder: Path) -> Path:
    """A bag of the scenario."""
    (folder / NAME).write_text(SCENARIO, encoding="utf-8")
    command = [sys.executable, "-m", "quadsim.cli", "sim", "--scenario", str(folder / NAME)]
    command += ["--bag", str(folder / "bag"), "--output", str(folder / "run"), "--no-report"]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if done.returncode > 1:  # 1: a criterion or an event, the picture is of an outage
        sys.exit(f"the flight failed (status {done.returncode})")
    return folder / "bag"


@contextmanager
def looking(folder: Path, size: tuple[int, int]) -> Iterator[tuple[Picture, Browser]]:
    """A picture of the scenario that is shown in a browser."""
    with viewer(web=True) as shown:
        recording = new_recording()
        send_to(recording, shown, None)
        page = Browser(str(folder / "profile"), *size)
        page.call("Page.navigate", url=f"{shown.page}&renderer=webgl&persist=0")
        yield Picture(recording, site_of(load_scenario(str(folder / NAME))), live=True), page
        page.close()
        recording.disconnect()
    if page.complaints:
        sys.exit(f"the page complains: {page.complaints[0]}")


def make_picture(folder: Path, path: Path) -> None:
    """The flight after :data:`SECONDS`."""
    with looking(folder, LARGE) as (picture, page), open_bag(path) as bag:
        draw_bag(picture, bag, duration_s=SECONDS)
        picture.recording.flush()
        image = settled(page)
    image.quantize(256, dither=Image.Dither.NONE).save(IMAGES / "view.png", optimize=True)


def make_animation(folder: Path, path: Path) -> None:
    """The flight at :data:`FRAMES_S`."""
    images: list[Image.Image] = []
    ahead_s = list(FRAMES_S)
    with looking(folder, SMALL) as (picture, page), open_bag(path) as bag:

        def look(so_far_s: float) -> None:
            if not ahead_s or so_far_s < ahead_s[0]:
                return
            ahead_s.pop(0)
            if not images:
                picture.draw_world(
                    GroundPatch.around(np.array([[-4.0, -4.0, 0.0], [4.0, 4.0, 2.0]]))
                )
                picture.lay_out()
            picture.recording.flush()
            images.append(page.picture(LOOK_S / 4.0) if images else settled(page))
            print(f"{len(images)} of {len(FRAMES_S)}", flush=True)

        flights.BLOCK = 50  # messages between two looks
        draw_bag(picture, bag, duration_s=FRAMES_S[-1] + 0.5, progress=look)
    first, *others = (image.crop(SHOWN) for image in images)
    first.save(
        IMAGES / "view.webp", save_all=True, append_images=others, duration=SHOWN_MS, loop=0,
        quality=60, method=6,
    )  # fmt: skip


def main() -> None:
    """Fly, serve, look, save."""
    made = sys.argv[1:] or ["picture", "animation"]
    with tempfile.TemporaryDirectory(prefix="quadsim-picture-") as name:
        folder = Path(name)
        path = fly(folder)
        if "picture" in made:
            make_picture(folder, path)
        if "animation" in made:
            make_animation(folder, path)


if __name__ == "__main__":
    main()
