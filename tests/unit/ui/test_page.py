"""The page by NiceGUI's simulated user: buttons, lists and sliders do what they say."""

import asyncio
import math
import time

import pytest

pytest.importorskip("nicegui")

from nicegui import ElementFilter, ui
from nicegui.testing.user_simulation import user_simulation

from quadsim.ui.page import show
from quadsim.ui.workspace import Workspace

PATIENCE_S = 60.0


class Visitor:
    """Somebody who looks at the page."""

    def __init__(self, user, workspace):
        self.user, self.workspace = user, workspace

    def one(self, mark):
        """The element with a mark."""
        with self.user.client:
            (found,) = ElementFilter(marker=mark)
        return found

    def click(self, *marks):
        for mark in marks:
            self.user.find(marker=mark).click()

    async def until(self, condition, what):
        end_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end_s, f"not within {PATIENCE_S:g} s: {what}"
            await asyncio.sleep(0.02)

    async def until_it_flies(self):
        await self.until(
            lambda: self.workspace.live is not None and self.flown_s() > 0.0, "a flight"
        )

    def flown_s(self):
        return self.workspace.live.call(lambda simulation: simulation.time_s)

    def events(self):
        return [event.message for event in self.workspace.live.events]


@pytest.fixture
def visit():
    """Runs a coroutine that takes a visitor of the page."""

    def run(story, workspace=None):
        workspace = workspace or Workspace()

        async def whole():
            async with user_simulation(lambda: show(workspace)) as user:
                await user.open("/")
                await story(Visitor(user, workspace))
            workspace.stop()

        asyncio.run(whole())

    return run


def test_a_flight_from_its_choice_to_its_verdict(visit):
    async def story(visitor):
        visitor.one("scenario").set_value("hover")
        visitor.one("seed").set_value(7)
        visitor.one("rate").set_value(math.inf)
        visitor.click("fly")
        await visitor.until(lambda: visitor.workspace.runs, "the end of the flight")
        await visitor.user.should_see("passed: every criterion holds")
        await visitor.user.should_see("disarmed: motors stopped")
        ((title, flight),) = visitor.workspace.runs.values()
        assert title == "1: hover, seed 7"
        assert flight.passed
        await visitor.until(lambda: visitor.one("runs").rows, "a row in the table of runs")
        assert visitor.one("runs").rows[0]["verdict"] == "passed"

    visit(story)


def test_a_pause_and_an_end(visit):
    async def story(visitor):
        visitor.one("scenario").set_value("hover")
        visitor.one("rate").set_value(2.0)
        assert not visitor.one("pause").enabled
        visitor.click("fly")
        await visitor.until_it_flies()
        await visitor.until(lambda: visitor.one("pause").enabled, "buttons that can be pressed")
        visitor.click("pause")
        assert visitor.workspace.live.paused
        await visitor.user.should_see("paused")
        visitor.click("pause")
        assert not visitor.workspace.live.paused
        visitor.click("end")
        await visitor.until(lambda: visitor.workspace.runs, "a run that ended early")
        await visitor.until(lambda: not visitor.one("end").enabled, "a button that is off")

    visit(story)


def test_what_is_pressed_befalls_the_vehicle(visit):
    async def story(visitor):
        visitor.one("scenario").set_value("hover")
        visitor.click("push-north")
        await visitor.user.should_see("nothing flies; press Fly")
        visitor.click("fly")
        await visitor.until_it_flies()
        visitor.click("push-north", "blow", "fail-motor", "fail-sensor")
        mass_kg = visitor.workspace.live.scenario.vehicle.mass_kg
        said = ("push", "wind becomes 5 ", "motor 0 lost", "outage")
        await visitor.until(
            lambda: all(any(word in event for event in visitor.events()) for word in said), said
        )
        (push,) = [
            event for event in visitor.events() if event.endswith("begins") and "push" in event
        ]
        force_N = float(push.split()[3])  # push of 0 F 0 N begins
        assert force_N == pytest.approx(0.3 * mass_kg * 9.81, rel=1e-3)

    visit(story)


def test_the_faults_on_offer_fit_the_sensor(visit):
    async def story(visitor):
        sensor, fault = visitor.one("sensor"), visitor.one("fault")
        assert "outage" in fault.options
        sensor.set_value("imu")
        assert "outage" not in fault.options
        assert fault.value in fault.options

    visit(story)


def test_a_wrong_choice_is_told_in_one_line(visit):
    async def story(visitor):
        visitor.one("keys").set_value("vehicle.mass_kg=-1")
        visitor.click("fly")
        await visitor.user.should_see("mass_kg", retries=100)
        assert visitor.workspace.live is None
        assert visitor.one("fly").enabled

    visit(story)


def test_gains_are_tried_used_and_saved(visit, tmp_path):
    async def story(visitor):
        workspace = visitor.workspace
        visitor.click("tab-tune")
        visitor.click("steps")
        await visitor.until(lambda: visitor.one("margins").rows, "the loops' margins")
        assert [row["axis"] for row in visitor.one("step-table").rows] == ["x", "y", "z", "yaw"]
        with_file = visitor.one("step-table").rows[0]["rise"]
        slider = visitor.one("position.position_gain_xy")
        slider.set_value(0.9)
        workspace.gains["position.position_gain_xy"] = 0.9
        visitor.user.find(marker="position.position_gain_xy").trigger("change")
        await visitor.until(
            lambda: float(visitor.one("step-table").rows[0]["rise"]) > float(with_file),
            "a slower step",
        )
        visitor.click("use-to-fly")
        assert workspace.setup.gains == {"position.position_gain_xy": 0.9}
        visitor.one("autopilot-file").set_value(str(tmp_path / "mine.yaml"))
        visitor.click("save")
        await visitor.until((tmp_path / "mine.yaml").is_file, "the file")
        assert "position_gain_xy: 0.9" in (tmp_path / "mine.yaml").read_text()
        visitor.click("save")
        await visitor.user.should_see("exists already")
        visitor.click("reset")
        file_gain = workspace.bench.start["position.position_gain_xy"]
        await visitor.until(lambda: slider.value == file_gain, "the file's gain")

    visit(story)


def test_runs_are_opened_and_compared(visit, tmp_path):
    async def story(visitor):
        workspace = visitor.workspace
        visitor.click("tab-runs")
        visitor.one("path").set_value(str(tmp_path / "nothing.mcap"))
        visitor.click("open")
        await visitor.user.should_see("nothing.mcap", retries=100)
        assert not workspace.runs
        assert not visitor.one("compare").enabled
        workspace.setup.scenario, workspace.rate = "hover", math.inf
        for _ in range(2):
            workspace.fly()
            await visitor.until(lambda: workspace.live.over, "the end of the flight")
        table = visitor.one("runs")
        await visitor.until(lambda: len(table.rows) == 2, "two rows")
        rows = list(table.rows)
        visitor.user.find(marker="runs").trigger(
            "selection", {"added": True, "rows": rows, "keys": [row["id"] for row in rows]}
        )
        visitor.click("compare")
        assert (
            'src="report/1,2"' in str(visitor.one("report").props)
            or visitor.one("report").props["src"] == "report/1,2"
        )
        visitor.one("report-file").set_value(str(tmp_path / "both.html"))
        visitor.click("save-report")
        await visitor.until((tmp_path / "both.html").is_file, "the report's file")

    visit(story)


def test_a_reload_shows_the_flight_that_is_under_way(visit):
    async def story(visitor):
        visitor.one("scenario").set_value("hover")
        visitor.click("fly")
        await visitor.until_it_flies()
        await visitor.user.open("/")
        await visitor.user.should_see("scenario")
        assert visitor.one("scenario").value == "hover"
        await visitor.until(lambda: visitor.one("time").text, "the time of the flight")
        assert isinstance(visitor.one("events"), ui.log)

    visit(story)
