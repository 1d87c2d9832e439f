"""Make docs/images/ui.png: quadsim ui in a headless Chromium, in a flight without GNSS.

A flight among trees in a breeze; a press of a button takes its receiver's fixes away, another
pushes it. The picture is taken some seconds later.
It needs Chromium, and the extras [ui] and [test] of quadsim.
"""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from quadsim.base.surroundings import browser, free_port

TARGET = Path(__file__).parent / "images" / "ui.png"
SIZE = {"width": 1440, "height": 900}
#: Simulated time of the fault, of the push, and of the picture, s.
FAULT_S, PUSH_S, PICTURE_S = 6.0, 10.0, 11.5
PATIENCE_MS = 120_000
#: Colours of the picture: its file stays below 300 kB.
COLOURS = 256


def fly(page: Page, address: str) -> bytes:
    """Press what one presses; the picture."""
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    page.wait_for_selector(".nicegui-scene:not([data-initializing])")
    for label, value in (("scenario", "forest"), ("wind", "breeze, 3 m/s")):
        page.get_by_label(label, exact=True).first.click()
        page.get_by_role("option", name=value, exact=True).first.click()
    page.get_by_label("seconds").fill("30")
    page.locator("button:has-text('Fly')").first.click()
    page.get_by_text("chase", exact=True).click()
    until(page, FAULT_S)
    page.locator("button:has(i:text-is('sensors_off'))").click()
    until(page, PUSH_S)
    page.locator("button:has(i:text-is('north'))").click()
    page.locator("button:has-text('error')").click()
    until(page, PICTURE_S)
    page.locator("button:has(i:text-is('pause'))").click()
    page.mouse.move(1250, 780)  # away from the button's tip
    page.wait_for_timeout(1500)  # the last frame is drawn
    return page.screenshot()


def until(page: Page, time_s: float) -> None:
    """Wait for a time of the flight."""
    page.wait_for_function(
        "time_s => parseFloat((document.body.innerText.match(/([0-9.]+) s of/) || [0, 0])[1])"
        " >= time_s",
        arg=time_s,
    )


def main() -> None:
    """Draw ``images/ui.png``."""
    program, address = browser(), f"http://127.0.0.1:{free_port()}/"
    if program is None:
        sys.exit("a picture needs Chromium or Chrome (apt install chromium)")
    port = address.rstrip("/").rpartition(":")[2]
    command = [sys.executable, "-m", "quadsim.cli", "ui", "--port", port, "--no-browser"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        next(line for line in server.stderr if re.search(rf":{port}\b", line))
        with sync_playwright() as playwright:
            flags = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
            chromium = playwright.chromium.launch(executable_path=program, args=flags)
            content = fly(chromium.new_page(viewport=SIZE), address)
            chromium.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20.0)
    image = Image.open(io.BytesIO(content)).convert("RGB")
    image.quantize(COLOURS).save(TARGET, optimize=True)
    print(f"{TARGET} {TARGET.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
