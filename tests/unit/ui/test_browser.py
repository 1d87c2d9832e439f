"""The page in a real browser, wide and narrow: what one presses works, and nothing complains."""

import http.client
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

pytest.importorskip("nicegui")
pytest.importorskip("playwright", reason="needs pip install -e .[browser] and Chromium")

from playwright import sync_api

from quadsim.base.surroundings import browser

pytestmark = [
    pytest.mark.thorough,  # drawing a scene without a graphics card takes both cores
    pytest.mark.skipif(browser() is None, reason="no Chromium on this machine"),
    pytest.mark.timeout(300),
]

PATIENCE_MS = 90_000
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 420, "height": 800}
FLAGS = (
    "--no-sandbox",
    "--use-angle=swiftshader",  # WebGL without a graphics card
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--no-first-run",
)
#: The environment of somebody who runs no tests: NiceGUI behaves otherwise in one.
OURS = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
#: What a browser says of speed is no fault.
HARMLESS = ("GPU stall due to ReadPixels", "willReadFrequently")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Where the command serves the page."""
    command = [sys.executable, "-m", "quadsim.cli", "ui", "--port", "0", "--no-browser"]
    folder = tmp_path_factory.mktemp("ui")
    log = folder / "log"
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=folder, env=OURS, stderr=output, stdout=output)
    try:
        end_s = time.monotonic() + PATIENCE_MS / 1e3
        found = None
        while found is None:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end_s, f"no page: {log.read_text()}"
            found = re.search(r"http://(127\.0\.0\.1:\d+)", log.read_text())
            found = found if found and _answers(found[1]) else None
            time.sleep(0.1)
        yield found[1]
    finally:
        server.send_signal(signal.SIGINT)
        status = server.wait(20.0)
    assert status == 0
    assert not [path for path in folder.iterdir() if path != log]  # it leaves nothing behind
    assert "Traceback" not in log.read_text()


def _answers(address):
    try:
        return _status(address, "/", address) == 200
    except OSError:
        return False


def _status(address, path, host):
    with closing(http.client.HTTPConnection(address, timeout=30.0)) as connection:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(params=[WIDE, NARROW], ids=["wide", "narrow"])
def page(request, chromium, address):
    """The page as it opens; afterwards nothing has gone wrong, nor is wider than the window."""
    context = chromium.new_context(viewport=request.param)
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    wrong = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("requestfailed", lambda failed: wrong.append(f"failed: {failed.url}"))
    opened.on(
        "response",
        lambda response: wrong.append(response.url) if response.status >= 400 else None,
    )
    opened.on(
        "console",
        lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
    )
    opened.goto(f"http://{address}/")
    opened.wait_for_selector(".nicegui-scene:not([data-initializing])")
    yield opened
    overflow = opened.evaluate("document.documentElement.scrollWidth - innerWidth")
    context.close()
    assert [text for text in wrong if not any(word in text for word in HARMLESS)] == []
    assert overflow <= 0


def press(page, text):
    page.locator(f"button:has-text('{text}')").first.click()


def press_icon(page, icon):
    page.locator(f"button:has(i:text-is('{icon}'))").first.click()


def seen(page, text):
    page.get_by_text(text).first.wait_for()


def colours(page, selector):
    """Colours of a canvas, as far as they are far apart."""
    image = page.locator(selector).first.screenshot()
    return page.evaluate(
        """async bytes => {
            const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
            const canvas = new OffscreenCanvas(image.width, image.height);
            const context = canvas.getContext("2d", {willReadFrequently: true});
            context.drawImage(image, 0, 0);
            const {data} = context.getImageData(0, 0, image.width, image.height);
            const found = new Set();
            for (let i = 0; i < data.length; i += 4)
                found.add((data[i] >> 4) * 256 + (data[i + 1] >> 4) * 16 + (data[i + 2] >> 4));
            return found.size;
        }""",
        list(image),
    )


def test_a_flight_is_flown_disturbed_paused_ended_and_reported(page):
    press(page, "Fly")
    seen(page, "takeoff: to")
    press_icon(page, "east")
    seen(page, re.compile("push of .* N begins"))
    press_icon(page, "sensors_off")
    seen(page, re.compile("gnss: outage begins"))
    assert colours(page, "canvas") > 100  # blank has 66; ground, vehicle, trails
    press_icon(page, "pause")
    seen(page, "paused")
    press_icon(page, "play_arrow")
    press_icon(page, "stop")
    page.locator(".q-tab:has-text('Runs')").click()
    page.locator("td .q-checkbox").last.click()
    press(page, "Report")
    report = page.frame_locator("iframe")
    report.locator("h1").wait_for()
    report.locator("body[data-drawn]").wait_for()
    assert report.locator(".plot").count() > 3


def test_a_slider_moves_the_step_beside_it(page):
    page.locator(".q-tab:has-text('Tune')").click()
    press(page, "Fly steps")
    table = page.locator("table:has-text('overshoot')")
    table.locator("td").first.wait_for()
    before = table.inner_text()
    slider = page.locator(".q-slider:visible").first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.click(box["x"] + 0.15 * box["width"], box["y"] + 0.5 * box["height"])
    page.wait_for_function(
        "before => [...document.querySelectorAll('table')]"
        ".some(table => table.innerText.includes('overshoot') && table.innerText !== before)",
        arg=before,
    )
