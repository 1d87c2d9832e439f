"""Flights of a known vehicle are predicted, and a wrong file is found out."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from flown import crazyflie, write_flight

from quadsim.bag.reading import open_bag
from quadsim.cli.main import main
from quadsim.lab.identify.shooting import (
    UnknownFigure,
    fit_figures,
    motion_residuals,
    start_figures,
    with_values,
    wrench_residuals,
)
from quadsim.lab.validate.recorded import as_recorded_by, read_recorded, turn, where_flying
from quadsim.lab.validate.residuals import predict_flight, residual_wrench

GRAVITY = 9.80665


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Path of the log of 6 s of flight."""
    path = tmp_path_factory.mktemp("flown") / "log00"
    write_flight(path, 6.0, crazyflie())
    return path


@pytest.fixture(scope="module")
def flight(log):
    with open_bag(log) as bag:
        return read_recorded(bag, "/quad", crazyflie())


def rms(vectors):
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))


def test_the_true_vehicle_explains_its_flight(flight):
    left = residual_wrench(flight, crazyflie(), GRAVITY)
    inner = slice(100, -100)
    assert rms(left.force[inner]) < 0.002 * crazyflie().mass_kg * GRAVITY
    # torques are up to 1e-3 N m; differences of the rates and the motors' lag are smoothed
    assert rms(left.torque[inner]) < 3e-5


def test_the_true_vehicle_predicts_its_flight(flight):
    found = predict_flight(flight, crazyflie(), GRAVITY, 0.0, (0.1, 0.5))
    assert np.nanmax(found.position_m[:, 0]) < 2e-3
    assert np.nanmax(found.position_m[:, 1]) < 2e-2
    assert np.nanmax(found.attitude_rad[:, 1]) < 0.1


def test_a_heavier_vehicle_is_found_out(flight):
    heavier = replace(crazyflie(), mass_kg=1.05 * crazyflie().mass_kg)
    left = residual_wrench(flight, heavier, GRAVITY)
    # measured as 5 % more mass under the same specific force
    assert left.force[:, 2].mean() == pytest.approx(0.05 * crazyflie().mass_kg * GRAVITY, rel=0.03)


def test_a_force_that_was_made_of_smoothed_poses_is_compared_as_it_was_made(flight):
    attitude = turn(flight.q_WB)
    f_W = attitude.apply(flight.f_B)
    at_hz = np.fft.rfftfreq(2 * len(f_W), flight.dt_s)
    mirrored = np.fft.rfft(np.vstack([f_W, f_W[::-1]]), axis=0)
    passed = 1.0 / (
        1.0 + (np.tan(np.pi * at_hz * flight.dt_s) / np.tan(np.pi * 3.0 * flight.dt_s)) ** 4
    )
    slow_W = np.fft.irfft(mirrored * passed[:, None] ** 2, axis=0)[: len(f_W)]
    logged = replace(flight, f_B=attitude.apply(slow_W, inverse=True))
    recorder = replace(flight.recorder, specific_force_cutoff_hz=3.0)
    inner, weight = slice(200, -200), crazyflie().mass_kg * GRAVITY
    told = residual_wrench(replace(logged, recorder=recorder), crazyflie(), GRAVITY).force
    assert rms(told[inner]) < 0.002 * weight
    assert rms(residual_wrench(logged, crazyflie(), GRAVITY).force[inner]) > 0.01 * weight


def test_a_rotor_that_is_slow_once_takes_no_flight_away(flight):
    """Fast and low at one moment, a rotor at a tenth of its speed in a quick turn."""
    speed, p_W = flight.speed.copy(), flight.p_W.copy()
    speed[1000:1010, 2] *= 0.1
    p_W[1200:1900, 2] -= 30.0
    assert where_flying(replace(flight, speed=speed, p_W=p_W)).all()
    speed[400:405, 1] = 0.0  # which shows no speed
    assert np.flatnonzero(~where_flying(replace(flight, speed=speed))).tolist() == [
        *range(400, 405)
    ]


def test_what_is_on_the_ground_and_close_above_is_left_out(flight):
    speed, p_W = flight.speed.copy(), flight.p_W.copy()
    speed[:500] *= 0.1
    p_W[:, 2] = 0.5 * np.clip(flight.time_s - flight.time_s[500], 0.0, None)  # climbs at 0.5 m/s
    flying = where_flying(replace(flight, speed=speed, p_W=p_W))
    assert not flying[: 500 + round(0.29 / flight.dt_s)].any()
    assert flying[500 + round(0.31 / flight.dt_s) :].all()
    # idle once aloft: what is below it is flown all the same
    p_W[:500, 2] = 20.0
    assert where_flying(replace(flight, speed=speed, p_W=p_W))[500:].all()


def test_poses_of_a_point_off_the_centre_are_brought_there(flight):
    arm_B = (0.02, -0.04, 0.03)
    off_W = turn(flight.q_WB).apply(np.tile(arm_B, (len(flight), 1)))
    swing_W = np.gradient(off_W, flight.dt_s, axis=0)
    moved = {"p_W": flight.p_W + off_W, "v_W": flight.v_W + swing_W}
    seen = replace(flight, levelled=False, **moved)
    found = as_recorded_by(seen, replace(flight.recorder, pose_position_B_m=arm_B))
    inner = slice(100, -100)
    assert found.p_W == pytest.approx(flight.p_W, abs=1e-12)
    assert rms((found.v_W - flight.v_W)[inner]) < 0.1 * rms(swing_W[inner])
    back = as_recorded_by(found, flight.recorder)
    assert back.p_W == pytest.approx(seen.p_W, abs=1e-12)


def test_free_fall_of_a_prediction_is_a_parabola(flight):
    at_rest = {name: 0.0 * getattr(flight, name) for name in ("speed", "v_W", "w_B")}
    still = replace(flight, **at_rest, known=None)
    bare = replace(crazyflie(), rotor_drag_N_s2=0.0)
    found = predict_flight(still, bare, GRAVITY, 0.0, (0.2,))
    at = found.first + round(found.horizon_s[0] / flight.dt_s)
    fallen = flight.p_W[found.first] - [0, 0, 0.5 * GRAVITY * found.horizon_s[0] ** 2]
    expected = np.linalg.norm(fallen - flight.p_W[at], axis=1)
    assert found.position_m[:, 0] == pytest.approx(expected, abs=1e-9)


def test_figures_are_found_again(flight):
    names = ("thrust_coefficient_N_s2", "inertia_kg_m2[0]", "inertia_kg_m2[1]")
    true = crazyflie()
    unknowns = [
        UnknownFigure(name, abs(start_figures(true, [UnknownFigure(name, 1.0)])[0]))
        for name in names
    ]
    sizes = np.array([unknown.size for unknown in unknowns])
    wrong = with_values(true, unknowns, sizes * [1.05, 1.2, 0.85])
    found = fit_figures(wrong, unknowns, wrench_residuals([flight], GRAVITY, 5, 0.03))
    assert found.values / sizes == pytest.approx(1.0, abs=0.05)
    shot = fit_figures(
        found.vehicle, unknowns, motion_residuals([flight], GRAVITY, (0.1, 0.2), 0.1, 0.0)
    )
    assert shot.values / sizes == pytest.approx(1.0, abs=0.02)


def test_validate_prints_what_is_asked(log, tmp_path):
    page = tmp_path / "page.html"
    args = ["validate", "crazyflie2", str(log), "--json", "--output", str(page)]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["force_rmse_n"] == found["logs"][0]["force_rmse_n"] < 1e-3
    assert [row["horizon_s"] for row in found["prediction"]][:3] == [0.01, 0.02, 0.05]
    keys = {"horizon_s", "position_rmse_m", "velocity_rmse_mps", "attitude_rmse_rad"}
    assert all(keys <= row.keys() for row in found["prediction"])
    assert "do not trust beyond" in page.read_text(encoding="utf-8")


def test_bounds_of_an_earlier_run_are_held_against_a_log(log, tmp_path):
    stated = tmp_path / "stated.json"
    args = ["validate", "crazyflie2", str(log), "--json"]
    stated.write_text(CliRunner().invoke(main, args).stdout, encoding="utf-8")
    result = CliRunner().invoke(main, [*args, "--bounds", str(stated)])
    assert result.exit_code == 0, result.output
    held = {row["horizon_s"]: row for row in json.loads(result.stdout)["bounds_held"]}
    assert held[0.1]["windows"] > 20
    assert held[0.1]["bounded"] == 0  # one log tells of no other flight
    assert held[0.1]["coverage"] is None
    stated.write_text('{"vehicle": "x", "bounds": [{}]}', encoding="utf-8")
    result = CliRunner().invoke(main, [*args, "--bounds", str(stated)])
    assert result.exit_code == 2
    assert "no bounds in it" in result.output
