"""Figures hold the flight's numbers; the page is whole, small, and needs no network."""

import base64
import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest

from quadsim.analysis.report import arrivals, criteria, figures, inside, parts
from quadsim.analysis.report.figures import extremes
from quadsim.analysis.report.flights import Flights
from quadsim.analysis.report.page import figures_json, render, write_report
from quadsim.analysis.report.parts import drawn
from quadsim.analysis.summary import summarize
from quadsim.bag.log import read_log
from quadsim.bag.reading import open_bag
from quadsim.base.errors import InputError
from quadsim.sim.criterion import Criterion, EventCriterion, SignalCriterion
from quadsim.sim.log import Arrivals, Event


@pytest.fixture
def log(circle_bag):
    with open_bag(circle_bag) as bag:
        return read_log(bag, "/quad")


def line(figure, name, number=0):
    return [trace for trace in figure.data if trace.name == name and len(trace.x) > 1][number]


def came(gaps_s=(), rate_hz=500.0) -> Arrivals:
    gaps_ns = np.array(gaps_s, float).reshape(-1, 2) * 1e9
    return Arrivals(1000, rate_hz, gaps_ns.astype(np.int64), 2, 3e-4, 2e-3)


def test_the_path_holds_the_flight(log):
    figure = parts.path_from_above(Flights({"circle": log}))
    truth = line(figure, "true")
    # the line is thinned and drawn in single precision
    np.testing.assert_allclose(np.hypot(truth.x, truth.y), 5.0, rtol=1e-6)
    assert truth.x[0] == pytest.approx(5.0)
    estimate = line(figure, "estimated")
    assert estimate.x[0] - truth.x[0] == pytest.approx(0.3, abs=1e-6)
    assert line(figure, "waypoints").y.tolist() == [0.0, 5.0]
    assert len(line(figure, "GPS fixes").x) == 120
    assert figure.layout.yaxis.scaleanchor == "x"


def test_the_path_in_space_has_one_scale_and_hangs_over_the_ground(log):
    log.ground_m = np.full(len(log.truth), 1.0)
    figure = parts.path_in_space(Flights({"circle": log}))
    truth, ground = line(figure, "true"), line(figure, "ground")
    np.testing.assert_allclose(truth.z, 3.0)
    np.testing.assert_allclose(ground.z, 1.0)
    scene = figure.layout.scene
    scales = [np.ptp(scene[f"{a}axis"].range) / scene.aspectratio[a] for a in "xyz"]
    np.testing.assert_allclose(scales, scales[0])
    curtain = next(trace for trace in figure.data if trace.type == "mesh3d")
    assert set(np.round(curtain.z, 6)) == {1.0, 3.0}
    assert max(curtain.i.max(), curtain.j.max(), curtain.k.max()) < len(curtain.x)


def test_over_hills_the_height_over_ground_has_its_own_row(log):
    flat = parts.height(Flights({"circle": replace(log, ground_m=np.ones(len(log.truth)))}))
    assert "yaxis2" not in flat.layout
    log.ground_m = np.linspace(0.0, 2.0, len(log.truth))
    band = SignalCriterion("height_above_ground_m", limit=8.0, least=3.0)
    flights = Flights({"circle": log}, {"circle": summarize(log, [band])})
    figure = parts.height(flights)
    (above,) = (t for t in figure.data if t.name == "true" and t.yaxis == "y2")
    assert (above.y[0], above.y[-1]) == (pytest.approx(3.0), pytest.approx(1.0))
    (box,) = (shape for shape in figure.layout.shapes if shape.name == "criterion")
    assert (box.y0, box.y1, box.yref) == (3.0, 8.0, "y2")


def test_the_errors_lie_in_their_rows_with_three_sigma(log):
    flights = Flights({"circle": log})
    figure = parts.position_errors(flights)
    rows = [trace for trace in figure.data if trace.name == "estimated"]
    for trace, offset in zip(rows, (0.3, 0.0, -0.4), strict=True):
        np.testing.assert_allclose(trace.y, offset, atol=1e-6)
    bands = [trace for trace in figure.data if trace.name == "3 σ stated"]
    for trace, sigma in zip(bands, (0.1, 0.2, 0.4), strict=True):
        assert np.nanmax(trace.y) == pytest.approx(3 * sigma)
        assert np.nanmin(trace.y) == pytest.approx(-3 * sigma)
    attitude = parts.attitude_errors(flights)
    about_up = [trace for trace in attitude.data if trace.name == "estimated"][2]
    np.testing.assert_allclose(about_up.y, np.degrees(0.1), rtol=1e-5)


def test_a_line_is_broken_where_there_was_nothing(log):
    truth = log.truth
    step_ns = int(np.median(np.diff(truth.stamp_ns)))
    late = truth.stamp_ns + np.where(np.arange(len(truth)) >= 600, 10**9, 0)
    gone = replace(log, truth=replace(truth, stamp_ns=late), estimates={})
    drawn_line = line(parts.height(Flights({"gone": gone})), "true")
    (at,) = np.flatnonzero(np.isnan(drawn_line.x))
    apart = drawn_line.x[at + 1] - drawn_line.x[at - 1]
    assert apart == pytest.approx(1.0 + step_ns * 1e-9, abs=1e-4)


def test_events_are_marked_by_their_numbers_and_do_not_stretch_the_axis(log):
    log.events = [Event(log.start_ns + at, 0, "a", "b") for at in (-1, 10**9, 10**18)]
    for figure in (
        f for _, f in drawn(Flights({"circle": log})) if (f.layout.meta or {}).get("time")
    ):
        marks = [shape for shape in figure.layout.shapes if shape.name == "events|circle"]
        assert [mark.x0 for mark in marks] == [1.0]
        assert [note.text for note in figure.layout.annotations] == ["2"]


def test_thinned_lines_keep_every_peak():
    rng = np.random.default_rng(2)
    values = rng.normal(size=20_011)
    values[7] = np.nan
    peaks = rng.choice(20_000, 50, replace=False) + 10
    values[peaks] = np.where(np.arange(50) % 2, 40.0, -40.0) + np.arange(50)
    rows = extremes(values, 1000)
    assert len(rows) <= 1000
    assert (np.diff(rows) > 0).all()
    assert (rows[0], rows[-1]) == (0, 20_010)
    # of any window two stretches wide the drawn line has the largest or a larger value
    width = 2 * -(-len(values) // 499)
    for begin in range(0, len(values) - width, width):
        window = slice(begin, begin + 2 * width)
        inside_rows = rows[(rows >= window.start) & (rows < window.stop)]
        middle = values[begin + width // 2 : begin + 3 * width // 2]
        assert np.nanmax(values[inside_rows]) >= np.nanmax(middle)
        assert np.nanmin(values[inside_rows]) <= np.nanmin(middle)


def test_several_runs_share_their_axes_and_have_a_colour_each(log):
    other = replace(log, truth=log.truth[::2])
    flights = Flights({"a": log, "b": other})
    for _, figure in drawn(flights):
        names = {trace.name for trace in figure.data}
        assert any(name.startswith("a: ") for name in names)
        assert any(name.startswith("b: ") for name in names)
        entries = [t.name for t in figure.data if t.showlegend is not False]
        assert {"a", "b"} <= set(entries)
        assert len(entries) == len(set(entries))
        for trace in figure.data:
            if trace.meta.get("run") and trace.type == "scatter" and "lines" in trace.mode:
                run, kind = trace.meta["run"], trace.meta.get("kind")
                if kind not in ("reference", "waypoints"):
                    assert trace.line.color == figures.RUNS["ab".index(run)]


def test_innovations_have_bounds_the_interval_of_their_nis_and_what_was_refused(long_flight):
    log = long_flight(4.0)
    figure = inside.innovation_figure(Flights({"run": log}), "gnss_position")
    believed_of = log.inside["filtered"].innovations["gnss_position"]
    np.testing.assert_allclose(line(figure, "estimated", 3).y, believed_of.nis, rtol=1e-6)
    assert np.nanmax(line(figure, "3 σ stated").y) == pytest.approx(1.5)
    refused = line(figure, "refused by the gate", 3)
    np.testing.assert_allclose(refused.y, believed_of.nis[believed_of.nis >= 8.0], rtol=1e-6)
    (box,) = (shape for shape in figure.layout.shapes if shape.name == "criterion")
    # the 2.5 and 97.5 % points of chi-square with 3 degrees of freedom, as tables print them
    assert (box.y0, box.y1) == (pytest.approx(0.216, abs=5e-4), pytest.approx(9.348, abs=5e-4))
    rows = {row["kind"]: row for row in inside.innovation_rows(Flights({"run": log}))}
    # 400 draws: the share is binomial, five deviations are 5.4 %
    assert rows["GPS position"]["inside"] == pytest.approx(0.95, abs=0.054)
    assert rows["GPS position"]["refused"] == len(refused.y)


def test_biases_lie_in_the_band_about_them(long_flight):
    log = long_flight(4.0)
    figure = inside.gyro_biases(Flights({"run": log}))
    drawn_line, band = line(figure, "estimated", 2), line(figure, "3 σ stated", 2)
    walk = np.degrees(log.inside["filtered"].gyro_bias_B[:, 2])
    assert drawn_line.y.max() == pytest.approx(walk.max(), rel=1e-6)
    assert np.nanmax(band.y) == pytest.approx(walk.max() + np.degrees(3e-3), rel=1e-6)
    assert np.nanmin(band.y) == pytest.approx(walk.min() - np.degrees(3e-3), rel=1e-6)


def test_gaps_break_the_band_of_a_topic(long_flight):
    log = long_flight(2.0)
    log.arrivals = {"imu": came([(0.5, 0.75), (1.0, 1.5)]), "once": came(rate_hz=None)}
    figure = arrivals.arrivals(Flights({"run": log}))
    band = line(figure, "messages")
    nan = np.nan
    expected = [0.0, 0.5, nan, 0.75, 1.0, nan, 1.5, log.duration_s]
    np.testing.assert_allclose(band.x, expected, rtol=1e-6)
    gap = line(figure, "gap")
    np.testing.assert_allclose(gap.x, [0.625, 1.25])
    assert gap.text[1] == "imu: 0.500 s without a message"
    assert list(figure.layout.yaxis.ticktext) == ["imu"]


def test_commands_stand_beside_the_speeds(long_flight):
    log = long_flight(1.0)
    figure = parts.motor_speeds(Flights({"run": log}))
    np.testing.assert_allclose(line(figure, "commanded", 3).y, log.command_radps[:, 3], rtol=1e-6)
    np.testing.assert_allclose(line(figure, "speed", 3).y, log.motor_speed_radps[:, 3], rtol=1e-6)
    log.command_stamps_ns = log.command_stamps_ns[:0]
    together = parts.motor_speeds(Flights({"run": log}))
    assert {trace.yaxis for trace in together.data if len(trace.x) > 1} == {"y"}


def test_criteria_are_drawn_over_the_signals_they_speak_of(log):
    asked = [
        Criterion("estimator.position_rmse_m", 0.2),
        SignalCriterion("position_error_m", limit=0.6, from_s=2.0, to_s=9.0),
        SignalCriterion("yaw_error_rad", limit=0.12, hold_s=3.0),
        EventCriterion("mission", "landed"),
    ]
    flights = Flights({"circle": log}, {"circle": summarize(log, asked)})
    figure = criteria.criteria_figure(flights)
    np.testing.assert_allclose(line(figure, "value").y, 0.5, rtol=1e-5)
    np.testing.assert_allclose(line(figure, "value", 1).y, 0.1, rtol=1e-5)
    limit, band, yaw = (shape for shape in figure.layout.shapes if shape.name == "criterion")
    assert (limit.type, limit.y0, limit.y1) == ("line", 0.2, 0.2)
    assert (band.x0, band.x1, band.y0, band.y1) == (2.0, 9.0, 0.0, 0.6)
    assert (yaw.y1, yaw.yref) == (0.12, "y2")
    rows = criteria.criterion_rows(flights)
    assert [row["passed"] for row in rows] == [False, False, True, True]
    assert [row["reached"] for row in rows] == ["0.5 m", "never", "0.5 m", "0.1 rad"]
    assert rows[2]["words"] == "position_error_m, 2 to 9 s"
    assert rows[2]["allowed"] == "≤ 0.6 m"


def test_the_page_is_whole_and_needs_no_network(log):
    log.events.append(Event(log.start_ns, 2, "<script>alert(1)</script>", "a & b"))
    asked = [Criterion("estimator.position_rmse_m", 0.2)]
    run = "</script><script>alert(2)</script>"
    page = render({run: log}, {run: summarize(log, asked)})
    assert "<script>alert(" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "a &amp; b" in page
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page)
    assert '"showSendToCloud":false' in page
    assert "1 of 1 criteria missed: estimator.position_rmse_m" in page
    # what is asked first stands first
    places = [page.index(words) for words in ("failed</span>", "0.5 m", "position RMSE, m", "<nav")]
    assert places == sorted(places)


def test_the_figures_of_a_page_are_those_that_were_drawn(log):
    found = list(drawn(Flights({"circle": log})))
    text = figures_json((part.key, figure) for part, figure in found)
    content = json.loads(text)
    assert "<" not in text

    def filled(value):
        if isinstance(value, dict):
            if "$" in value:
                array = content["arrays"][value["$"]]
                return np.frombuffer(base64.b64decode(array["bdata"]), array["dtype"])
            return {key: filled(item) for key, item in value.items()}
        return [filled(item) for item in value] if isinstance(value, list) else value

    for (part, figure), sent in zip(found, content["figures"], strict=True):
        assert sent["id"] == part.key
        for trace, sent_trace in zip(figure.data, sent["data"], strict=True):
            for axis in "xy":
                np.testing.assert_array_equal(filled(sent_trace[axis]), trace[axis])


def test_a_report_of_forty_seconds_is_small_and_quick(tmp_path, long_flight):
    log = long_flight(40.0)
    path = tmp_path / "report.html"
    short = long_flight(1.0)
    render({"short": short}, {"short": summarize(short)})  # imports, templates
    begin_s = time.process_time()
    write_report({"long": log}, {"long": summarize(log)}, path)
    assert time.process_time() - begin_s < 5.0
    assert path.stat().st_size < 6e6


def test_a_report_of_eight_runs_is_not_eight_times_as_large(tmp_path, long_flight):
    log = long_flight(8.0)  # every line has as many points as it may have
    runs = {f"run {i}": log for i in range(8)}
    path = tmp_path / "report.html"
    write_report(runs, dict.fromkeys(runs, summarize(log)), path)
    assert path.stat().st_size < 9e6
    with pytest.raises(InputError, match="1 to 8 runs, not 9"):
        render(runs | {"one more": log}, {})
