"""Make docs/images/view.png: quadsim view on a page, in a headless Chromium, of a graph's flight.

It flies a scenario as a graph (composed, lockstep) and looks at it 13.8 s after the start, when
there has been no GNSS for 5.8 s.
Chromium draws by its processor alone, and reaches nobody but this machine.
"""

from __future__ import annotations

import base64
import io
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops

from quadsim.bag.reading import open_bag
from quadsim.base.surroundings import browser
from quadsim.sim.scenario import load_scenario
from quadsim.view.flights import Picture, draw_bag, new_recording
from quadsim.view.output import send_to, viewer

TARGET = Path(__file__).parent / "images" / "view.png"
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
WIDTH, HEIGHT = 1600, 1000
PATIENCE_S = 240.0
LOOK_S = 3.0
FLAGS = (
    "--headless=new",
    "--use-angle=swiftshader",  # WebGL without a graphics card
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    f"--window-size={WIDTH},{HEIGHT}",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


class Browser:
    """A headless Chromium, spoken to by its DevTools protocol through a pair of pipes."""

    def __init__(self, folder: str) -> None:
        program = browser()
        if program is None:
            sys.exit("a picture needs Chromium or Chrome (apt install chromium)")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        command = [program, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"]
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
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
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

    def picture(self) -> Image.Image:
        """What the page looks like after a while."""
        end_s = time.monotonic() + LOOK_S
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
    colours = image.getcolors(WIDTH * HEIGHT)
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
    """A bag of the scenario, flown by a graph."""
    (folder / NAME).write_text(SCENARIO, encoding="utf-8")
    command = [sys.executable, "-m", "quadsim.cli", "fly", "--scenario", str(folder / NAME)]
    command += ["--composed", "--pacing", "lockstep", "--output", str(folder / "run")]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    if done.returncode > 1:  # 1: a criterion or an event, the picture is of an outage
        sys.exit(f"the flight failed (status {done.returncode})")
    return folder / "run" / "bag"


def main() -> None:
    """Fly, serve, look, save."""
    folder = Path(tempfile.mkdtemp(prefix="quadsim-picture-"))
    try:
        path = fly(folder)
        scenario = load_scenario(str(folder / NAME))
        with viewer(web=True) as shown:
            recording = new_recording()
            send_to(recording, shown, None)
            with open_bag(path) as bag:
                picture = Picture(recording, scenario, live=True)
                draw_bag(picture, bag, duration_s=SECONDS)
            recording.flush()
            page = Browser(str(folder / "profile"))
            page.call("Page.navigate", url=f"{shown.page}&renderer=webgl&persist=0")
            image = settled(page)
            page.close()
            recording.disconnect()
        if page.complaints:
            sys.exit(f"the page complains: {page.complaints[0]}")
        image.quantize(256, dither=Image.Dither.NONE).save(TARGET, optimize=True)
        print(f"{TARGET}: {TARGET.stat().st_size / 1e3:.0f} kB")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
