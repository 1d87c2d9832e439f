"""The FCND scenarios 06 to 11 over a few seeds, and what must fail them."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from quadsim.analysis.criteria import judge_signal
from quadsim.analysis.metrics import at_stamps
from quadsim.base import surroundings
from quadsim.cli import main
from quadsim.lab.estimator_rerun import rerun_estimator
from quadsim.lab.reproduce import fcnd
from quadsim.lab.reproduce.pictures import fcnd_picture, quantiles_over_seeds
from quadsim.mission.items import Follow, items_from
from quadsim.ros.graph.graph import describe
from quadsim.sensors.imu import MODEL
from quadsim.sim import closed_loop
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all

SEEDS = 2
MAGNETOMETER_UPDATE = "fcnd_10_magnetometer_update"


@pytest.fixture(scope="module")
def outcomes():
    return {found.name: found for found in fcnd.run_fcnd(fcnd.SCENARIOS, SEEDS, processes=1)}


@pytest.mark.parametrize("name", fcnd.SCENARIOS)
def test_each_scenario_passes(outcomes, name):
    outcome = outcomes[name]
    assert [flown.errors for flown in outcome.flown] == [()] * SEEDS
    demands = outcome.demands()
    assert demands
    assert all(item["passed"] for item in demands), (demands, outcome.rows())


def test_the_same_seed_flies_the_same_in_another_process(outcomes):
    name = "fcnd_07_attitude_estimation"
    again = fcnd.run_fcnd([name], SEEDS, processes=2)[0]  # the second seed in a process of its own
    assert [f.digest for f in again.flown] == [f.digest for f in outcomes[name].flown]
    assert again.flown[0].digest != again.flown[1].digest


def test_a_flight_on_the_truth_keeps_the_estimate_apart():
    """The log's estimate is the filter's, in error; the vehicle flies as if there were none."""
    logs = {}
    for name in ("eskf", "fcnd_gps"):
        scenario = load_scenario(fcnd.SENSOR_NOISE, estimator=name, duration_s=6.0)
        (logs[name],), _ = run_all(scenario)
    np.testing.assert_array_equal(logs["eskf"].truth.p_W, logs["fcnd_gps"].truth.p_W)
    track, truth = logs["eskf"].estimates["eskf"], logs["eskf"].truth
    _, true = at_stamps(truth, track.stamp_ns)
    off_m = np.linalg.norm(track.p_W - true.p_W, axis=1)
    assert 0.02 < np.median(off_m) < 2.0  # GPS of 0.7 m; zero were the truth itself
    assert track.sigma is not None
    assert np.all(track.sigma[:, :3] > 0.0)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_yaw_that_is_claimed_twice_or_half_as_good_fails(monkeypatch, factor):
    """68 % within one deviation are 38 % within half and 95 % within twice of it."""
    whole = closed_loop.track_of

    def claimed(*arguments):
        track = whole(*arguments)
        return replace(track, sigma=factor * track.sigma)

    monkeypatch.setattr(closed_loop, "track_of", claimed)
    scenario = load_scenario(MAGNETOMETER_UPDATE)
    logs, _ = run_all(scenario)
    verdicts = {c.signal: judge_signal(c, logs).passed for c in scenario.criteria}
    assert verdicts == {"yaw_error_rad": True, "heading_in_sigma": False}


def test_a_covariance_three_times_too_small_fails_the_ten():
    """IMU noise three times what its messages say."""
    scenario = load_scenario("fcnd_09_predict_covariance")
    imu = scenario.imu
    louder = replace(
        imu,
        accel_noise_density=tuple(3.0 * np.array(imu.accel_noise_density)),
        gyro_noise_density=tuple(3.0 * np.array(imu.gyro_noise_density)),
    )
    logs = []
    for name in closed_loop.vehicle_names(10):
        loop = ClosedLoop(
            replace(scenario, sensors={**scenario.sensors, "imu": louder}), vehicle=name
        )
        loop.devices["imu"]["stated"] = MODEL.stated_covariance(imu, scenario.environment)
        logs.append(loop.fly())
    assert not all(judge_signal(c, logs).passed for c in scenario.criteria)


def test_the_filter_beside_gives_what_the_filter_in_the_loop_gave():
    """The same samples in the same order, one by one through the estimator's messages."""
    loop = ClosedLoop(load_scenario(fcnd.GPS_UPDATE, duration_s=8.0), keep_samples=True)
    flown = loop.fly().estimates["eskf"]
    beside = rerun_estimator(loop, "eskf")
    rows = np.isin(flown.stamp_ns, beside.stamp_ns)
    assert rows.sum() == len(beside) > 300
    np.testing.assert_allclose(beside.p_W, flown.p_W[rows], atol=1e-6)  # degrees and back
    np.testing.assert_allclose(beside.q_WB, flown.q_WB[rows], atol=1e-9)


def test_pooled_samples_need_more_seeds_for_a_narrow_band(outcomes):
    """One sigma holds 68.27 %; the band is 0.01 at 100 seeds and wider by the root of fewer."""
    item = outcomes[fcnd.SENSOR_NOISE].demands()[0]
    assert (item["least"] + item["limit"]) / 2 == pytest.approx(0.682689, abs=1e-6)
    assert (item["limit"] - item["least"]) / 2 == pytest.approx(0.01 * math.sqrt(100 / SEEDS))
    row = outcomes[fcnd.SENSOR_NOISE].rows()[0]
    values = [flown.reached[0].figures["value"] for flown in outcomes[fcnd.SENSOR_NOISE].flown]
    assert row["pooled"] == pytest.approx(np.mean(values))  # as many fixes in each


def test_quantiles_over_seeds_are_at_common_times(outcomes):
    each = [flown.reached[0] for flown in outcomes["fcnd_08_predict_state"].flown]
    t_s, (low, median, high) = quantiles_over_seeds(each)
    assert (t_s[0], t_s[-1]) == pytest.approx((1.0, 41.0), abs=0.02)
    assert np.all(low <= median)
    assert np.all(median <= high)
    a, b = (np.interp(t_s, item.t_s, item.values) for item in each)
    np.testing.assert_allclose(median, (a + b) / 2, atol=1e-6)


@pytest.mark.parametrize("name", ["fcnd_09_predict_covariance", "fcnd_11_gps_update"])
def test_a_picture_has_the_pass_band(outcomes, name):
    figure = fcnd_picture(outcomes[name])
    bands = [trace for trace in figure.data if trace.name == "pass band"]
    assert len(bands) == len(outcomes[name].flown[0].reached)
    limits = [max(trace.y) for trace in bands]
    assert limits == [item.criterion.limit for item in outcomes[name].flown[0].reached]
    assert figure.layout.height > 200


def run(*arguments):
    return CliRunner().invoke(main.main, ["experiment", "fcnd", *arguments])


def test_the_command_writes_its_folder_and_one_json_object(tmp_path, monkeypatch):
    monkeypatch.setattr(surroundings, "browser", lambda: None)
    folder = tmp_path / "run"
    name = "fcnd_07_attitude_estimation"
    result = run("--seeds", "1", "--scenario", name, "--output", str(folder), "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert json.loads((folder / "summary.json").read_text(encoding="utf-8")) == summary
    assert summary["experiment"] == "fcnd"
    assert summary["passed"] is True
    assert summary["criteria"] == [
        {
            "scenario": name,
            "name": "share of seeds that pass",
            "value": 1.0,
            "least": 0.95,
            "limit": 1.0,
            "passed": True,
        }
    ]
    (flown,) = summary["runs"]
    assert (flown["scenario"], flown["seed"], flown["passed"]) == (name, 1, True)
    assert flown["criteria"][0]["name"] == "euler_error_max_rad"
    assert flown["estimators"]["eskf"]["position_rmse_m"] > 0.0
    assert summary["scenarios"][0]["pass_share"] == 1.0
    assert summary["pictures"] == [str(folder / f"{name}.html")]
    assert "no Chromium" in result.stderr
    assert "pass band" in (folder / f"{name}.html").read_text(encoding="utf-8")


def test_a_failed_experiment_is_status_1(tmp_path, monkeypatch):
    monkeypatch.setattr(surroundings, "browser", lambda: None)
    monkeypatch.setattr(fcnd, "PASS_SHARE", 1.1)
    result = run(
        "--seeds", "1", "--scenario", "fcnd_07_attitude_estimation", "--output", str(tmp_path / "x")
    )
    assert result.exit_code == 1
    assert "fcnd: failed" in result.stdout
    assert "euler_error_max_rad for 3 s" in result.stdout


# ---- what the scenarios are made of ------------------------------------------------------------


def test_a_trajectory_is_shared_cut_and_moved():
    given = [
        {"takeoff": {}},
        {"follow": {"trajectory": "fcnd_square"}},
        {"follow": {"trajectory": "fcnd_square", "until_s": 1.0, "offset_W_m": [1.0, 0.0, 2.0]}},
    ]
    _, whole, part = items_from(given, "here")
    assert isinstance(whole, Follow)
    assert isinstance(part, Follow)
    assert (len(whole.points), len(part.points)) == (19, 2)
    assert part.points[1] == (1.0, 1.0, 3.0, 3.0, 90.0)
    assert whole.at(1.5) == ((0.0, 3.0, 1.0), math.radians(45.0))


def test_the_compass_of_the_prediction_scenarios_is_silent_in_flight():
    scenario = load_scenario("fcnd_08_predict_state", duration_s=8.0)
    loop = ClosedLoop(scenario, keep_samples=True)
    loop.fly()
    last_s = float(loop.samples("magnetometer")["stamp_ns"][-1]) * 1e-9
    takeoff_s = next(e.stamp_ns for e in loop.events if e.name == "takeoff") * 1e-9
    assert 0.5 < last_s < takeoff_s


def test_the_graph_begins_on_the_truth_where_the_scenario_says_so():
    for name, on_truth in ((fcnd.SENSOR_NOISE, True), (fcnd.GPS_UPDATE, False)):
        nodes = {node.executable: node for node in describe(load_scenario(name))}
        assert nodes["autopilot"].parameters["use_truth"] is on_truth
