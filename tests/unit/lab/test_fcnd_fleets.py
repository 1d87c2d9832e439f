"""X_MonteCarlo and X_TestManyQuads: what varies, what the controller believes, and what flies."""

import numpy as np
import pytest

from quadsim.lab.campaign.experiment import Job
from quadsim.lab.reproduce.fcnd import (
    INERTIA_SPREAD,
    MANY_QUADS,
    MONTE_CARLO,
    VEHICLE_SPREAD,
    FcndResult,
    fcnd_summary,
    fly_fcnd,
    shifted,
    vary_vehicle,
)
from quadsim.lab.reproduce.pictures import fcnd_picture
from quadsim.mission.items import Hover
from quadsim.mission.trajectories.items import FigureOfEight, plan_of
from quadsim.sim.closed_loop import vehicle_names
from quadsim.sim.scenario import load_scenario


def test_each_vehicle_differs_from_what_its_controller_believes():
    scenario = load_scenario(MONTE_CARLO)
    names = vehicle_names(scenario.file.vehicles)
    assert len(names) == 20
    drawn = [vary_vehicle(scenario, name) for name in names]
    for each in drawn:
        assert each.airframe == scenario.airframe
        assert each.vehicle.mass_kg != scenario.vehicle.mass_kg
    assert vary_vehicle(scenario, "quad3") == drawn[2]
    # the spread over 20 vehicles is known to a sixth (chi-square of 19): three of those
    for key, spread in (*VEHICLE_SPREAD.items(), ("inertia_kg_m2", INERTIA_SPREAD)):
        shares = np.array(
            [
                np.atleast_1d(getattr(each.vehicle, key)) / getattr(scenario.vehicle, key)
                for each in drawn
            ]
        )
        shares = shares[:, :2]
        np.testing.assert_allclose(np.std(shares, axis=0, ddof=1), spread, rtol=0.5)
        assert np.abs(shares - 1.0).max() <= 3.0 * spread + 1e-12
    gains = [each.autopilot.attitude.rate_gain[0] for each in drawn]
    assert np.std(gains) / scenario.autopilot.attitude.rate_gain[0] == pytest.approx(0.1, rel=0.5)


def test_the_figure_of_eight_is_that_of_the_project():
    scenario = load_scenario(MANY_QUADS)
    assert scenario.file.vehicles == 9
    (item,) = [item for item in scenario.items if isinstance(item, FigureOfEight)]
    plan = plan_of(item, scenario.autopilot.flight)
    assert plan.course.length_s / item.laps == pytest.approx(4.0, abs=1e-3)
    last = shifted(scenario, 8)
    (moved,) = [item for item in last.items if isinstance(item, FigureOfEight)]
    (pause,) = [item for item in last.items if isinstance(item, Hover)]
    assert moved.center_W_m == pytest.approx((0.0, 0.8, 2.0))
    assert pause.duration_s == pytest.approx(1.8)


def test_a_vehicle_of_a_fleet_flies_and_is_told():
    scenario = load_scenario(MANY_QUADS)
    outcome = FcndResult(scenario, (fly_fcnd(Job(MANY_QUADS, 1, 8)),))
    assert outcome.pass_share == 1.0
    summary = fcnd_summary([outcome])
    assert summary["passed"]
    (run,) = summary["runs"]
    assert run["vehicle"] == "quad9"
    assert run["tracking_rmse_m"] < 0.10
    # it lands below the crossing of its own figure
    assert run["rest_W_m"][:2] == pytest.approx([0.0, 0.8], abs=0.1)
    figure = fcnd_picture(outcome)
    assert figure.layout.height > 500
    assert "rests" in [trace.name for trace in figure.data]
