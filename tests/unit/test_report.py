"""Figures hold the flight's numbers; the page is whole, small, and needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest

from quadsim.analysis.bag.log import read_log
from quadsim.analysis.bag.reading import open_bag
from quadsim.analysis.report import figures
from quadsim.analysis.report.page import PARTS, render, write_report
from quadsim.analysis.report.pictures import save_picture, square_picture
from quadsim.analysis.summary import summarize
from quadsim.analysis.surroundings import browser
from quadsim.errors import InputError, QuadsimError
from quadsim.sim.criterion import Criterion
from quadsim.sim.log import Event, FlightLog, Track

needs_browser = pytest.mark.skipif(browser() is None, reason="no Chromium on this machine")


@pytest.fixture
def log(circle_bag):
    with open_bag(circle_bag) as bag:
        return read_log(bag, "/quad")


def line(figure, name):
    return next(trace for trace in figure.data if trace.name == name)


def long_flight(duration_s: float) -> FlightLog:
    """A flight at 500 Hz, as the graph records it."""
    count = round(duration_s * 500)
    rng = np.random.default_rng(1)
    truth = Track.empty(count)
    truth.stamp_ns[:] = np.arange(count) * 2_000_000
    truth.p_W[:] = np.cumsum(rng.normal(0, 0.01, (count, 3)), axis=0)
    noise = rng.normal(0, 0.05, (count, 3))
    filtered = replace(truth, p_W=truth.p_W + noise, sigma=np.full((count, 9), 0.05))
    return FlightLog(
        scenario="long",
        truth=truth,
        estimates={"filtered": filtered, "blind": truth[::10]},
        reference=truth[::5],
        motor_stamps_ns=truth.stamp_ns,
        motor_speed_radps=rng.normal(500, 20, (count, 4)),
        gnss=truth[::50],
        wall_s=duration_s,
    )


def test_the_path_holds_the_flight(log):
    figure = figures.path_from_above({"circle": log})
    truth = line(figure, "truth")
    # the line is thinned and drawn in single precision
    np.testing.assert_allclose(np.hypot(truth.x, truth.y), 5.0, rtol=1e-6)
    assert truth.x[0] == pytest.approx(5.0)
    estimate = line(figure, "filtered")
    assert estimate.x[0] - truth.x[0] == pytest.approx(0.3, abs=1e-6)
    assert line(figure, "waypoints").y.tolist() == [0.0, 5.0]
    assert len(line(figure, "GPS fixes").x) == 120
    assert figure.layout.yaxis.scaleanchor == "x"


def test_the_errors_lie_in_their_rows_with_three_sigma(log):
    figure = figures.position_errors({"circle": log})
    rows = [trace for trace in figure.data if trace.name == "filtered"]
    for trace, offset in zip(rows, (0.3, 0.0, -0.4), strict=True):
        np.testing.assert_allclose(trace.y, offset, atol=1e-6)
    bands = [trace for trace in figure.data if trace.name == "3 σ stated"]
    for trace, sigma in zip(bands, (0.1, 0.2, 0.4), strict=True):
        assert np.max(trace.y) == pytest.approx(3 * sigma)
        assert np.min(trace.y) == pytest.approx(-3 * sigma)
    attitude = figures.attitude_errors({"circle": log})
    about_up = [trace for trace in attitude.data if trace.name == "filtered"][2]
    np.testing.assert_allclose(about_up.y, np.degrees(0.1), rtol=1e-5)


def test_events_outside_the_flight_do_not_stretch_its_axis(log):
    log.events = [Event(log.start_ns + at, 0, "a", "b") for at in (-1, 10**9, 10**18)]
    assert [shape.x0 for shape in figures.height({"circle": log}).layout.shapes] == [1.0]


def test_lines_are_thinned_but_keep_their_ends():
    assert figures.thin(10).tolist() == list(range(10))
    rows = figures.thin(100_000)
    assert len(rows) == figures.MAX_POINTS
    assert rows[0] == 0
    assert rows[-1] == 99_999
    assert (np.diff(rows) > 0).all()


def test_several_runs_share_their_axes(log):
    other = replace(log, truth=log.truth[::2])
    for part in PARTS:
        names = {trace.name for trace in part.draw({"a": log, "b": other}).data}
        assert any(name.startswith("a: ") for name in names)
        assert any(name.startswith("b: ") for name in names)


def test_figures_of_an_empty_flight_are_empty():
    for part in PARTS:
        assert not part.draw({"empty": FlightLog()}).data


def test_the_page_is_whole_and_needs_no_network(log):
    log.events.append(Event(log.start_ns, 2, "<script>alert(1)</script>", "a & b"))
    criteria = [Criterion("estimator.position_rmse_m", 0.2)]
    page = render({"circle": log}, {"circle": summarize(log, criteria)})
    assert page.count("Plotly.newPlot(") >= len(PARTS)
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "a &amp; b" in page
    assert not re.findall(r"<(?:script|link|img)[^>]+(?:src|href)=", page.partition("</script>")[2])
    assert "failed" in page
    assert "estimator.position_rmse_m" in page
    assert "no such" not in page


def test_a_report_of_forty_seconds_is_small_and_quick(tmp_path):
    log = long_flight(40.0)
    path = tmp_path / "report.html"
    short = long_flight(1.0)
    render({"short": short}, {"short": summarize(short)})  # imports, templates
    begin_s = time.process_time()
    write_report({"long": log}, {"long": summarize(log)}, path)
    assert time.process_time() - begin_s < 5.0
    assert path.stat().st_size < 6e6


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path, log):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        write_report({"a": log}, {"a": summarize(log)}, tmp_path / "file" / "report.html")
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("circle", "file")] == []


@needs_browser
def test_a_browser_draws_every_plot_without_an_error(tmp_path, log):
    page = tmp_path / "report.html"
    write_report({"circle": log}, {"circle": summarize(log)}, page)
    # errors go to the title, which the dump then shows
    text = page.read_text(encoding="utf-8")
    probe = "<script>window.onerror = m => { document.title = 'ERROR ' + m; };</script>"
    page.write_text(text.replace("<head>", "<head>" + probe, 1), encoding="utf-8")
    program = browser()
    assert program is not None
    done = subprocess.run(
        [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-sync", "--virtual-time-budget=20000",
            f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )  # fmt: skip
    assert "<title>ERROR" not in done.stdout
    # one drawn svg of that class per figure; the library's text holds the word, not the element
    assert done.stdout.count('<svg class="main-svg"') >= len(PARTS)


@needs_browser
def test_pictures_have_the_size_asked_for(tmp_path, log):
    figure = square_picture(log)
    save_picture(figure, tmp_path / "flight.png")
    content = (tmp_path / "flight.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") == 1200
    assert int.from_bytes(content[20:24], "big") == 675
    save_picture(figure, tmp_path / "flight.svg")
    assert (tmp_path / "flight.svg").read_text(encoding="utf-8").startswith("<svg")


def test_pictures_say_what_they_need(tmp_path, log, monkeypatch):
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        save_picture(square_picture(log), tmp_path / "flight.bmp")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(QuadsimError, match="install chromium"):
        save_picture(square_picture(log), tmp_path / "flight.png")
    with pytest.raises(InputError, match="needs its truth and an estimate"):
        square_picture(FlightLog())
