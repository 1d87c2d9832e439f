"""A flight that does not arm or does not end says why, whatever the reason."""

import numpy as np
import pytest
from obedient import Rig

from quadsim.analysis.report.tables import why
from quadsim.analysis.summary import summarize
from quadsim.cli.show import show_summary
from quadsim.control.parameters import FenceParams, FlightParams
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.interface import STEEP, ErrorStateEkf
from quadsim.geometry.geodesy import Datum
from quadsim.mission.flight.estimate_check import ARMING_CHECKS, GOOD, MISSING, VERDICTS
from quadsim.mission.flight.states import STATES
from quadsim.mission.formations import Gather
from quadsim.mission.items import Goto, Hover, Land, Takeoff
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import load_scenario

ITEMS = (Takeoff(height_m=1.5), Goto(position_W_m=(3.0, 0.0, 1.5)), Land())
#: What makes each of the arming checks fail.
WATCHED = dict(
    zip(
        ARMING_CHECKS,
        ("position_sigma", "height_sigma", "velocity_sigma", "tilt_sigma", "yaw_sigma", "tilt",
         "v_W"),
        strict=True,
    )
)  # fmt: skip


class Follower(Rig):
    """A vehicle that is at once where it is wanted."""

    def move(self):
        self.follow()


def refused(rig: Rig) -> str:
    """What a vehicle that is asked to arm says at the end of its time."""
    assert rig.manager.arm() is not None
    return rig.manager.unfinished()


@pytest.mark.parametrize("verdict", [i for i in range(len(VERDICTS)) if i != GOOD])
def test_a_bad_estimate_is_why_it_did_not_arm(verdict):
    rig = Rig(ITEMS)
    rig.manager.estimate.watches["verdict"] = rig.manager.estimate.verdict = verdict
    rig.manager.estimate.awaited = lambda: "waits for a GNSS fix"
    words = refused(rig)
    assert words.startswith(f"it did not arm: {VERDICTS[verdict]}")
    assert ("waits for a GNSS fix" in words) == (verdict == MISSING)


@pytest.mark.parametrize("check", ARMING_CHECKS)
def test_an_arming_check_is_why_it_did_not_arm(check):
    rig = Rig(ITEMS)
    rig.run(0.1)
    rig.manager.estimate.watches[WATCHED[check]] = 9.0
    assert refused(rig).startswith(f"it did not arm: {check}: ")


@pytest.mark.parametrize(
    "cause",
    ["measurements are rejected", "sensors repeat one value", "noise far beyond what is stated",
     "battery low", "mission[1]"],
)  # fmt: skip
def test_what_else_refuses_is_why_it_did_not_arm(cause):
    narrow = FlightParams(fence=FenceParams(radius_m=2.0))
    rig = Rig(ITEMS, narrow if cause == "mission[1]" else FlightParams())
    rig.run(0.1)
    if cause == "measurements are rejected":
        rig.manager.take_rejected(["pressure"])
    elif cause == "sensors repeat one value":
        rig.manager.take_rejected([], ["gyroscope"])
    elif cause == "noise far beyond what is stated":
        rig.manager.take_rejected([], [], ["gyroscope"])
    elif cause == "battery low":
        rig.manager.take_battery(0, 0.2, 14.0)
    assert refused(rig).startswith(f"it did not arm: {cause}")


def test_each_sensor_that_becomes_noisy_in_flight_is_told_once():
    rig = Follower(ITEMS).take_off()
    for noisy in (["gnss_position"], ["gnss_position"], ["gyroscope", "gnss_position"]):
        rig.manager.take_rejected([], [], noisy)
        rig.tick()
    words = "noise far beyond what is stated"
    told = [message for _, message in rig.named("sensor noisy")]
    assert told == [f"gnss_position: {words}", f"gyroscope: {words}"]


def test_who_was_never_asked_to_arm_or_to_start_says_so():
    rig = Rig(ITEMS)
    rig.run(0.1)
    assert "nobody asked" in rig.manager.unfinished()
    rig.manager.arm()
    assert "nobody started" in rig.manager.unfinished()


@pytest.mark.parametrize("state", [name for name in STATES if STATES[name].motors == "on"])
def test_every_state_in_the_air_says_what_it_is_in_and_why(state):
    rig = Rig(ITEMS)
    rig.run(0.1)
    rig.manager.arm()
    rig.manager.start()
    rig.manager.enter(state, "for a reason")
    words = rig.manager.unfinished()
    assert words.startswith(f"{state} for 0 s: for a reason")
    assert "(item 1 of 3)" in words


def test_who_waits_for_the_others_says_so():
    rig = Follower((Takeoff(), Gather(), Land())).take_off()
    rig.run(20.0)
    assert "waits for the others (item 2 of 3)" in rig.manager.unfinished()


def test_a_mission_without_landing_is_done_when_its_items_are():
    rig = Follower((Takeoff(), Hover(duration_s=1.0))).take_off()
    rig.run(20.0)
    assert rig.state == "hover"
    assert rig.manager.mission_done
    assert rig.manager.unfinished() == ""


PERIOD_NS = 2_000_000


def aligning(params: EstimatorParams, seconds: float, **heard: bool) -> ErrorStateEkf:
    """A filter at rest that has heard an IMU for a while, and what is asked for."""
    estimator = ErrorStateEkf(params, Datum(47.4, 8.5, 400.0))
    for k in range(1, round(seconds * 500) + 1):
        stamp_ns = k * PERIOD_NS
        estimator.imu(stamp_ns, np.array([0.0, 0.0, 9.81]), np.zeros(3))
        if heard.get("fix") and k % 50 == 0:
            estimator.gnss_position(stamp_ns, np.array([47.4, 8.5, 400.0]), np.eye(3).ravel())
        if heard.get("bad") and k % 50 == 0:
            estimator.gnss_position(stamp_ns, np.array([np.nan, 8.5, 400.0]), np.eye(3).ravel())
        if heard.get("field") and k % 5 == 0:
            estimator.magnetic_field(stamp_ns, np.array(params.magnetic_field_W_T), np.zeros(9))
    return estimator


def test_a_filter_that_has_not_started_says_what_it_waits_for():
    params = EstimatorParams()
    steep = EstimatorParams(magnetic_field_W_T=(0.0, 1e-6, -5e-5))

    def said(*args, **heard):
        return str(aligning(*args, **heard).health()["awaited"])

    assert said(params, 0.0) == "waits for the IMU"
    nothing = said(params, 2.6)
    assert "a GNSS fix (start.require_gnss" in nothing
    assert "magnetic field (start." in nothing
    assert "GNSS" not in said(params, 2.6, fix=True)
    assert "magnetic" not in said(params, 2.6, field=True)
    assert "(26 came; refused: 26 not_finite)" in said(params, 2.6, field=True, bad=True)
    assert said(params, 2.6, fix=True, field=True) == ""
    assert said(steep, 2.6, fix=True) == STEEP


def low_charge():
    return load_scenario("hover", {"start.charge": 0.2}, duration_s=6.0)


def test_the_reason_is_in_the_last_line_the_summary_and_the_report(capsys):
    log, _ = run(low_charge())
    summary = summarize(log)
    words = "the mission did not end in time: it did not arm: battery low: 20 %, at least 30"
    assert summary["errors"] == [words]
    assert not summary["passed"]
    assert words in why(summary)
    assert show_summary(summary | {"report": "report.html"}, as_json=False) == 1
    assert capsys.readouterr().out.splitlines()[-1] == words


def test_a_mission_that_is_done_hovers_and_passes():
    mission = [{"takeoff": {"height_m": 1.0}}]
    scenario = load_scenario("hover", {"mission": mission}, duration_s=12.0)
    summary = summarize(run(scenario)[0])
    assert summary["errors"] == []
    assert summary["passed"]
    assert any("hovers" in note for note in summary["notes"])


def test_near_a_magnetic_pole_the_field_is_named():
    datum = {"latitude_deg": 86.5, "longitude_deg": 164.0, "height_m": 0.0}
    log, _ = run(load_scenario("hover", {"environment.datum": datum}, duration_s=6.0))
    assert log.events[-1].message.endswith(STEEP)
    assert "yaw uncertain" in log.events[-1].message
