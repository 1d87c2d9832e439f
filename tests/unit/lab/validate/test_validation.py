"""Flights of a known vehicle are predicted, and a wrong file is found out."""

from __future__ import annotations

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
from quadsim.lab.validate.bounds import (
    WindowErrors,
    bound_rows,
    conformal_bound,
    coverage_of,
    error_bounds,
)
from quadsim.lab.validate.prediction import predict_flight
from quadsim.lab.validate.recorded import as_recorded_by, read_recorded, turn
from quadsim.lab.validate.residuals import residual_wrench

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


def test_a_conformal_bound_covers_as_it_says():
    rng = np.random.default_rng(3)
    bounds = [conformal_bound(rng.exponential(1.0, 99), 0.9) for _ in range(2000)]
    # coverage of a bound b is 1 - exp(-b); its mean over calibrations is exactly the level
    assert np.mean(1.0 - np.exp(-np.array(bounds))) == pytest.approx(0.9, abs=0.003)
    assert conformal_bound(np.arange(19.0), 0.9) == np.inf


def test_coverage_is_of_flights_left_out():
    regime = np.zeros(100, np.int64)
    alike = [WindowErrors(np.linspace(0, 1, 100), regime) for _ in range(4)]
    assert coverage_of(alike, 1, 0.9) == pytest.approx(0.9, abs=0.02)
    far = [*alike, WindowErrors(np.full(100, 5.0), regime)]
    assert coverage_of(far, 1, 0.9) < 0.8
    assert coverage_of(alike[:3], 1, 0.9) is None


def test_bounds_hold_on_another_flight_however_flights_differ():
    rng = np.random.default_rng(5)

    def flight():
        error = rng.lognormal(0.0, 0.5) * np.abs(rng.normal(size=60))
        return WindowErrors(error, rng.integers(0, 2, 60))

    shares = []
    for _ in range(40):
        bounds = error_bounds([flight() for _ in range(10)], 2, 0.9)
        new = [flight() for _ in range(20)]
        shares += [float((each.error <= bounds[each.regime]).mean()) for each in new]
    # flights' shares deviate by 0.15, those with the same bounds together: 0.01 of the mean
    assert np.mean(shares) == pytest.approx(0.9, abs=0.03)


def test_two_flights_tell_of_their_own_windows_alone():
    flights = [WindowErrors(np.linspace(0, 1, 100), np.zeros(100, np.int64))] * 2
    row = bound_rows(np.array([0.5]), [flights], ["all"], 0.9)[0]
    assert row["position_m"] == pytest.approx(0.9, abs=0.02)
    assert row["another_flight"] is False
    assert row["coverage"] is None


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
