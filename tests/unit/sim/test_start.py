"""Starts in any motion: where the vehicle is, what its filter knows, and that it flies."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim import InputError, Simulation
from quadsim.analysis.summary import summarize
from quadsim.sim.closed_loop import ClosedLoop, run
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import Swarm

AIR = {"start.x_m": 1.0, "start.y_m": 2.0, "start.z_m": 10.0}
MOVING = {
    "z_m": 40.0, "roll_deg": 20.0, "pitch_deg": -10.0, "yaw_deg": 70.0,
    "velocity_W_mps": [3.0, -2.0, 1.0], "rates_B_radps": [0.5, -0.4, 0.3],
}  # fmt: skip
MISSION = [{"takeoff": {"height_m": 2.0}}, {"land": {}}]


def scenario_of(start, **overrides):
    keys = {f"start.{key}": value for key, value in start.items()}
    return load_scenario("hover", keys, **overrides)


def test_a_start_in_the_air_flies_its_mission_and_says_how():
    scenario = load_scenario("hover", AIR | {"mission": MISSION})
    log, _ = run(scenario)
    summary = summarize(log)
    assert summary["errors"] == []
    assert log.events[0].message.startswith("in the air at z = 10 m: the autopilot hovers")
    handed_over = [event for event in log.events if event.name == "state source"]
    assert [event.message for event in handed_over] == ["flies on the estimate"]
    before_s = log.truth.stamp_ns < handed_over[0].stamp_ns
    off_m = log.truth.p_W[before_s] - [1.0, 2.0, 10.0]
    assert np.abs(off_m[: int(before_s.sum() / 2)]).max() < 0.3
    assert log.truth.p_W[-1, 2] < 0.3


def test_the_motion_is_the_one_that_was_asked_for():
    loop = ClosedLoop(scenario_of(MOVING))
    truth = loop.state["truth"][0]
    turn = Rotation.from_euler("ZYX", [70.0, -10.0, 20.0], degrees=True)
    np.testing.assert_allclose(truth["p_W"], [0.0, 0.0, 40.0])
    np.testing.assert_allclose(truth["v_W"], MOVING["velocity_W_mps"])
    np.testing.assert_allclose(truth["w_B"], MOVING["rates_B_radps"])
    np.testing.assert_allclose(truth["q_WB"], turn.as_quat()[[3, 0, 1, 2]], atol=1e-12)
    vehicle = loop.scenario.vehicle
    lift_N = 4 * vehicle.thrust_coefficient_N_s2 * truth["rotor_speed_radps"][0] ** 2
    assert lift_N == pytest.approx(vehicle.mass_kg * 9.80665)


def test_the_first_samples_are_those_of_the_motion():
    """Free of errors, an IMU in its first interval feels what the truth's motion says."""
    scenario = replace(scenario_of(MOVING | {"estimate": "truth"}))
    loop = ClosedLoop(scenario, keep_samples=True)
    before = loop.state["truth"][0].copy()
    loop.tick()
    sample = loop.samples("imu")[0]
    sigma = scenario.imu.gyro_noise_density[0] * math.sqrt(scenario.imu.rate_hz)
    assert np.abs(sample["w_S"] - before["w_B"]).max() < 0.2 + 6.0 * sigma


@pytest.mark.parametrize("estimate", ["truth", "drawn"])
def test_an_estimate_that_is_given_is_flown_on_at_once_and_stays_honest(estimate):
    scenario = scenario_of(MOVING | {"estimate": estimate}, duration_s=6.0)
    log, _ = run(scenario)
    assert not [event for event in log.events if event.name == "state source"]
    found = log.estimates["eskf"]
    assert found.stamp_ns[0] <= 20_000_000
    error_m = found.p_W[-1] - log.truth.p_W[np.searchsorted(log.truth.stamp_ns, found.stamp_ns[-1])]
    assert np.all(np.abs(error_m) < 5.0 * found.sigma[-1, :3] + 0.02)


def test_an_estimate_is_drawn_by_the_deviations_that_were_given():
    """Normalised errors of 60 seeds: their mean square is within its 4-sigma bounds."""
    start = MOVING | {"estimate": "drawn", "position_sigma_m": 2.0, "velocity_sigma_mps": 0.7}
    errors, seeds = [], 60
    for seed in range(seeds):
        loop = ClosedLoop(scenario_of(start, seed=seed, duration_s=1.0))
        truth, estimate = loop.state["truth"][0], loop.state["estimate"]
        for part in ("p", "v"):
            off = estimate[f"{part}_W"] - truth[f"{part}_W"]
            errors.append(off / np.sqrt(estimate[f"{part}_variance"]))
    square = np.square(errors)
    assert abs(square.mean() - 1.0) < 4.0 * math.sqrt(2.0 / square.size)


def test_an_estimate_that_is_no_longer_drawn_leaves_its_deviations():
    simulation = Simulation("hover", start=MOVING | {"estimate": "drawn", "position_sigma_m": 2.0})
    simulation.reset(estimate="truth")
    assert simulation.scenario.file.start.estimate == "truth"
    simulation.reset(estimate={"tilt_sigma_deg": 2.0})
    start = simulation.scenario.file.start
    assert (start.estimate, start.tilt_sigma_deg, start.position_sigma_m) == ("drawn", 2.0, 0.5)


def test_upside_down_on_the_ground_it_does_not_arm_and_says_why():
    log, _ = run(scenario_of({"roll_deg": 180.0}, duration_s=4.0))
    assert any("on its back" in event.message for event in log.events)
    assert [event.name for event in log.events if event.name in ("armed", "takeoff")] == []


def test_upside_down_in_the_air_it_turns_over_and_hovers():
    start = {"z_m": 40.0, "roll_deg": 180.0, "estimate": "truth"}
    log, _ = run(scenario_of(start, duration_s=6.0))
    up = Rotation.from_quat(log.truth.q_WB[:, [1, 2, 3, 0]]).apply([0.0, 0.0, 1.0])[:, 2]
    assert up[0] < -0.99
    assert up[-1] > 0.95
    assert log.truth.p_W[:, 2].min() > 5.0


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"velocity_W_mps": [1.0, 0.0, 0.0]}, "velocity_W_mps: is of a start in the air"),
        ({"z_m": -0.5}, "under the ground"),
        ({"z_m": math.inf}, "z_m"),
        ({"z_m": 5.0, "rotor_speed_radps": [500.0]}, "1 for 4 rotors"),
        ({"mode": "hover"}, "hover is of a start in the air"),
        ({"z_m": 5.0, "estimate": "guess"}, "one of aligned, truth, drawn"),
        ({"z_m": 5.0, "tilt_sigma_deg": 4.0}, "tilt_sigma_deg: is of a drawn estimate"),
        ({"height": 5.0}, "height"),
    ],
)
def test_a_start_that_cannot_be_is_refused_in_a_line(start, words):
    with pytest.raises(InputError, match=words) as caught:
        scenario_of(start)
    assert "\n" not in str(caught.value)


def test_a_filter_that_cannot_be_told_is_refused():
    keys = {"start.z_m": 5.0, "start.estimate": "truth", "estimator.filter": "gps_ins"}
    with pytest.raises(InputError, match="for the error-state filter alone"):
        load_scenario("hover", keys)


def test_several_start_in_the_air_each_at_its_place():
    swarm = Swarm(load_scenario("hover", AIR | {"start.estimate": "drawn"}, vehicles=3))
    p_W = swarm.vehicles.states["truth"]["p_W"][:, 0]
    np.testing.assert_allclose(p_W, [[1.0, 2.0 - 5.0 * i, 10.0] for i in range(3)])
    errors = swarm.vehicles.states["estimate"]["p_W"] - p_W
    assert len({tuple(error) for error in errors}) == 3
    for _ in range(100):
        swarm.tick()
    assert {loop.manager.state for loop in swarm.loops} <= {"takeoff", "mission", "hover"}
    moved_m = swarm.vehicles.states["truth"]["p_W"][:, 0] - p_W
    assert np.abs(moved_m[:, :2]).max() < 3.0


def test_a_simulation_is_reset_into_a_state():
    simulation = Simulation("hover", start={"z_m": 10.0}, start_mission=False)
    simulation.step(500)
    assert simulation.mode == "hover"
    at = simulation.state
    assert abs(at.p_W[2] - 10.0) < 0.5
    simulation.reset(state=at, estimate="truth")
    np.testing.assert_allclose(simulation.state.p_W, at.p_W)
    np.testing.assert_allclose(simulation.state.q_WB, at.q_WB, atol=1e-12)
    simulation.step(500)
    assert np.abs(simulation.state.p_W - at.p_W).max() < 0.5
    simulation.reset(seed=7)
    np.testing.assert_allclose(simulation.state.p_W, at.p_W)
    with pytest.raises(InputError, match="p_W"):
        simulation.reset(state={"p_W": [0.0, math.nan, 1.0]})
    with pytest.raises(InputError, match="aligned, truth, drawn"):
        simulation.reset(estimate="perfect")
    simulation.reset()
    np.testing.assert_allclose(simulation.state.p_W, at.p_W)


def test_the_mission_begins_on_request():
    simulation = Simulation(
        "hover", start={"p_W": [0.0, 0.0, 6.0], "estimate": "truth"}, start_mission=False
    )
    simulation.step(100)
    simulation.start()
    simulation.step(100)
    assert simulation.mode in ("takeoff", "mission")
