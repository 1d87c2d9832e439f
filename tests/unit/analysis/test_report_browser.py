"""The report in a real browser: every plot drawn, legends and zoom linked, wide and narrow."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from click.testing import CliRunner

from quadsim.analysis.report.flights import Flights
from quadsim.analysis.report.page import write_report
from quadsim.analysis.report.parts import drawn
from quadsim.analysis.report.pictures import save_picture, save_pictures
from quadsim.analysis.summary import summarize
from quadsim.bag.log import read_log
from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.surroundings import browser
from quadsim.cli import main
from quadsim.sim.criterion import Criterion

needs_browser = pytest.mark.skipif(browser() is None, reason="no Chromium on this machine")

WIDTHS = (1280, 400)

#: Goes first into the report: keeps what goes wrong, and looks around when all is drawn.
PROBE = """<script>
const wrong = [];
window.onerror = message => { wrong.push(String(message)); };
window.addEventListener("unhandledrejection", event => { wrong.push(String(event.reason)); });
console.error = (...words) => { wrong.push(words.join(" ")); };
function look() {
  const plots = [...document.querySelectorAll(".plot")];
  const wide = document.documentElement.clientWidth;
  return plots.map(plot => {
    const asked = plot._fullData.filter(trace => trace.visible === true);
    const flat = asked.filter(trace => trace.type === "scatter").length;
    const box = plot.querySelector(".svg-container").getBoundingClientRect();
    return {
      id: plot.id, traces: asked.length, flat, drawn: plot.querySelectorAll(".trace").length,
      space: flat < asked.length ? plot.querySelectorAll("canvas").length : null,
      inside: box.left >= 0 && box.right <= wide + 0.5, height: box.height,
      buttons: [...plot.previousElementSibling.querySelectorAll("button")].map(b => b.innerText),
    };
  });
}
async function probe() {
  if (!document.body || !document.body.dataset.drawn) { setTimeout(probe, 20); return; }
  const found = {width: window.innerWidth, plots: look(),
                 overflow: document.documentElement.scrollWidth - window.innerWidth};
  const shown = id => document.getElementById("plot-" + id)._fullData
    .filter(trace => trace.visible === true && trace.meta.run === "b" && trace.meta.kind).length;
  const button = [...document.querySelectorAll("#path .legend button")]
    .find(each => each.innerText.trim() === "b");
  found.before = ["path", "height"].map(shown);
  button.click();
  found.pressed = button.getAttribute("aria-pressed");
  await new Promise(next => setTimeout(next, 50));
  found.after = ["path", "height"].map(shown);
  const height = document.getElementById("plot-height");
  await Plotly.relayout(height, {"xaxis.range[0]": 0.5, "xaxis.range[1]": 0.75});
  await new Promise(next => setTimeout(next, 200));
  found.zoomed = [...document.querySelectorAll(".plot")]
    .filter(plot => (plot.layout.meta || {}).time).map(plot => plot._fullLayout.xaxis.range);
  found.wrong = wrong;
  parent.postMessage(JSON.stringify(found), "*");
}
probe();
</script>"""


@pytest.fixture
def log(circle_bag):
    with open_bag(circle_bag) as bag:
        return read_log(bag, "/quad")


def frames(page: Path, folder: Path) -> list[dict]:
    """What the probe says of a page in frames of two widths, by one start of the browser."""
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("<head>", "<head>" + PROBE, 1), encoding="utf-8")
    shown = "".join(
        f"<iframe src='{page.as_uri()}' style='width: {width}px; height: 700px; border: 0'>"
        "</iframe>"
        for width in WIDTHS
    )
    outer = folder / "frames.html"
    outer.write_text(
        f"<body>{shown}<pre id='said'></pre><script>"
        "window.onmessage = event => { document.getElementById('said').append(event.data + '\\n');"
        " for (const frame of document.querySelectorAll('iframe'))"  # it need not draw any more
        " if (frame.contentWindow === event.source) frame.remove(); };"
        "</script></body>"
    )
    program = browser()
    assert program is not None
    done = subprocess.run(
        [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-sync", "--virtual-time-budget=20000",
            "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--window-size=1300,1500",
            f"--user-data-dir={folder / 'profile'}", "--dump-dom", outer.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )  # fmt: skip
    said = re.search(r"<pre id=.said.>(.*?)</pre>", done.stdout, re.DOTALL)
    assert said is not None, done.stderr[-2000:]
    return [json.loads(html.unescape(each)) for each in said[1].splitlines()]


@needs_browser
def test_a_browser_draws_every_plot_and_links_them(tmp_path, long_flight):
    runs = {"a": long_flight(1.0), "b": long_flight(1.0, seed=2)}
    asked = [Criterion("estimator.position_rmse_m", 0.2)]
    summaries = {run: summarize(log, asked, settle_s=0.1) for run, log in runs.items()}
    page = tmp_path / "report.html"
    write_report(runs, summaries, page)
    expected = list(drawn(Flights(runs, summaries)))
    assert len(expected) == 16
    found = sorted(frames(page, tmp_path), key=lambda each: each["width"])
    assert [each["width"] for each in found] == sorted(WIDTHS)
    for each in found:
        assert each["wrong"] == []
        assert each["overflow"] <= 0
        assert [plot["id"] for plot in each["plots"]] == [f"plot-{p.key}" for p, _ in expected]
        for plot, (_, figure) in zip(each["plots"], expected, strict=True):
            visible = [t for t in figure.data if t.visible in (None, True)]
            assert plot["traces"] == len(visible), plot
            assert plot["drawn"] == plot["flat"], plot
            assert plot["space"] is None or plot["space"] >= 1
            assert plot["inside"], plot
            assert plot["height"] == pytest.approx(figure.layout.height, abs=2)
            assert len(plot["buttons"]) == sum(t.showlegend is not False for t in figure.data)
        # a click on a run's name in one plot hides it in another too
        assert min(each["before"]) > 0
        assert each["after"] == [0, 0]
        assert each["pressed"] == "false"
        assert len(each["zoomed"]) == 14
        assert all(axis == pytest.approx([0.5, 0.75]) for axis in each["zoomed"])


@needs_browser
def test_pictures_of_a_report_are_drawn_in_one_go(tmp_path, log):
    log.reference, log.gnss, log.motor_stamps_ns = None, None, log.motor_stamps_ns[:0]
    paths = save_pictures({"circle": log}, {"circle": summarize(log)}, tmp_path / "pictures")
    names = {path.name for path in paths}
    assert {"path.png", "path.svg", "space.png", "position-error.svg"} <= names
    assert names == {path.name for path in (tmp_path / "pictures").iterdir()}
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".svg":
            assert content.startswith(b"<svg")
            continue
        assert content.startswith(b"\x89PNG")
        assert int.from_bytes(content[16:20], "big") == 1800
    # papers need a legend, and what is drawn is there to be searched
    assert "estimated" in (tmp_path / "pictures/path.svg").read_text(encoding="utf-8")


@needs_browser
def test_a_picture_without_a_point_is_drawn(tmp_path):
    """As of a flight that never began."""
    save_picture(go.Figure(go.Scatter(x=np.array([]))), tmp_path / "nothing.svg")
    assert "<svg" in (tmp_path / "nothing.svg").read_text()


def test_pictures_say_what_they_need(tmp_path, log, monkeypatch):
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        save_picture(go.Figure(), tmp_path / "flight.bmp")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(QuadsimError, match="install chromium"):
        save_picture(go.Figure(), tmp_path / "flight.png")
    with pytest.raises(QuadsimError, match="install chromium"):
        save_pictures({"a": log}, {"a": summarize(log)}, tmp_path / "pictures")


@pytest.mark.parametrize("command", ["sim", "fly", "replay"])
def test_pictures_without_a_browser_are_refused_before_any_work(command, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    bag = ["BAG"] if command == "replay" else []
    done = CliRunner().invoke(main.main, [command, "--pictures", str(tmp_path / "pictures"), *bag])
    assert done.exit_code == 2
    assert "error: --pictures needs Chromium or Chrome; install it" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
