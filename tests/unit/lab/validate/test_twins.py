"""A closed-loop twin finds the setpoints of a flight, and a flight of its own lies inside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from flown import FLIGHTS
from scipy.signal import welch

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.cli.main import main
from quadsim.lab.validate.lee import LeeController, thrust_of
from quadsim.lab.validate.twin import STEP_S, Setpoints, coloured_noise, fly_twin, path_at
from quadsim.lab.validate.twin_parameters import SpectrumParams, TwinParams
from quadsim.lab.validate.twin_report import TwinFlights, closed_loop_report, flown_figures
from quadsim.vehicle.parameters import VehicleParams

TWIN = load(TwinParams, find("twins", "crazyflie_figure8"))


def test_the_path_is_smooth_and_its_derivatives_are_its_own():
    pieces = np.array(TWIN.path)
    time_s = np.linspace(0.1, 0.7 * pieces[:, 0].sum() - 0.1, 4001)
    found = path_at(pieces, time_s, 0.7)
    for order, tolerance in ((0, 1e-3), (1, 1e-2)):
        slope = np.gradient(found[:, order], time_s, axis=0)
        assert slope[1:-1] == pytest.approx(found[1:-1, order + 1], abs=tolerance)


def test_in_hover_each_rotor_carries_a_quarter():
    controller = LeeController(TWIN.controller, STEP_S)
    still = np.zeros(3)
    duty = controller.duties(np.zeros((4, 3)), still, still, np.eye(3), still)
    assert thrust_of(duty, TWIN.controller) == pytest.approx(0.25 * 0.037 * 9.81)


def test_the_controller_rolls_towards_what_it_is_asked_for():
    controller = LeeController(TWIN.controller, STEP_S)
    asked = np.zeros((4, 3))
    asked[0] = [0.0, 0.5, 0.0]  # to the left: the rotors at the right, m1 and m2, have to lift
    still = np.zeros(3)
    force = thrust_of(controller.duties(asked, still, still, np.eye(3), still), TWIN.controller)
    assert force[0] == pytest.approx(force[1])
    assert force[2] == pytest.approx(force[3])
    # the paper's torque KR e_R of the tilt that Kpos_P asks for
    tilt = np.arctan2(7.0 * 0.5, 9.81)
    assert 0.0325269 * (force[2] + force[3] - force[0] - force[1]) == pytest.approx(
        -TWIN.controller.attitude[0] * np.sin(tilt), rel=0.05
    )


def test_noise_has_the_density_that_is_asked_for():
    spectrum = SpectrumParams(hz=(10.0, 100.0), density=((0.1, 0.1), (0.01, 1.0)))
    made = coloured_noise(100_000, spectrum, np.random.default_rng(1))
    at_hz, power = welch(made, 1.0 / STEP_S, nperseg=1000, axis=0)
    for hz, flat, rising in ((4.0, 0.1, 0.01), (31.6, 0.1, 0.1), (80.0, 0.1, 0.64), (150, 0.1, 1)):
        near = abs(at_hz - hz) < 2.0
        assert np.sqrt(power[near].mean(axis=0)) == pytest.approx([flat, rising], rel=0.06)


def test_what_is_no_noise_of_a_twin_is_named():
    session = TWIN.sessions[0]
    with pytest.raises(InputError, match="hz: give frequencies that rise"):
        SpectrumParams(hz=(100.0, 10.0), density=((0.1, 0.1),))
    with pytest.raises(InputError, match=r"density: \[2, 1\] numbers; give 2"):
        SpectrumParams(hz=(10.0, 100.0), density=((0.1, 0.1), (0.1,)))
    with pytest.raises(InputError, match="rotors: 3 channels; give 4"):
        replace(session, rotors=session.gyroscope)
    with pytest.raises(InputError, match="sessions: none; give one at least"):
        replace(TWIN, sessions=())
    with pytest.raises(InputError, match="path: give pieces of 25 numbers"):
        replace(TWIN, path=(TWIN.path[0][:-1],))


def test_a_flight_is_of_the_session_of_its_time_scale():
    vehicle = load(VehicleParams, find("vehicles", "crazyflie21_closed_loop"))
    loud = replace(TWIN.sessions[0], rotors=SpectrumParams((10.0,), ((1.0,),) * 4), scale=0.5)
    twin = replace(TWIN, path=TWIN.path[:1], sessions=(TWIN.sessions[0], loud))
    spread = {}
    for scale in (0.55, 1.1):
        at = Setpoints(scale, 0.0, np.zeros(3), 1.0, np.zeros(1), np.full(1, 3.8))
        speed = fly_twin(vehicle, twin, at, np.random.default_rng(1)).speed
        spread[scale] = np.diff(speed, axis=0).std()
    assert spread[0.55] > 3.0 * spread[1.1]


@pytest.fixture(scope="module")
def flights():
    """Two flights of a short path."""
    vehicle = load(VehicleParams, find("vehicles", "crazyflie21_closed_loop"))
    twin = replace(TWIN, path=TWIN.path[:3])
    duration_s = sum(piece[0] for piece in twin.path)
    at = Setpoints(1.0, 0.0, np.array([0.0, 0.0, 0.5]), duration_s, np.zeros(1), np.full(1, 3.8))
    flown = [fly_twin(vehicle, twin, at, np.random.default_rng(seed)) for seed in range(2)]
    return [TwinFlights("log", at, each, each) for each in flown]


def test_the_twin_stays_near_the_path(flights):
    figures = flown_figures(flights[0].simulated)
    assert figures["tracking error, m"] < 0.25
    assert figures["rotor speed, mean, rad/s"] == pytest.approx(1575.0, rel=0.02)


def test_a_flight_that_is_its_own_twin_is_inside(flights):
    (group,) = closed_loop_report([*flights, flights[0]])
    assert group["inside"] == 1.0
    assert group["logs"] == ["log"] * 3
    assert "inside" not in closed_loop_report(flights)[0]["figures"][0]  # two tell no scatter


def test_single_twins_are_told_from_their_mean(flights):
    """Half of the twins shake by 0.7, half by 1.3: their mean is that of the flights."""
    one = flights[0].recorded

    def shaken(by):
        return replace(one, w_B=by * one.w_B)

    pairs = [
        replace(flights[0], recorded=shaken(1.0 + 0.01 * k), simulated=shaken(1.0 + 0.3 * side))
        for k, side in zip((-2, -1, 1, 2), (-1, 1, -1, 1), strict=True)
    ]
    (group,) = closed_loop_report(pairs)
    rows = [row for row in group["figures"] if row["figure"].startswith("gyroscope")]
    assert all(row["inside"] and row["simulated_inside"] == 0.0 for row in rows)
    assert all(row["flown_inside"] == 1.0 for row in rows)
    assert max(group["twins"]) <= 1.0 - len(rows) / len(group["figures"])
    assert np.mean(group["twins"]) == pytest.approx(group["simulated_inside"])


def test_recorded_setpoints_are_flown_again(tmp_path):
    log = FLIGHTS / "crazyflie_rpm" / "figure8" / "eckart20"
    if not log.is_file():
        pytest.skip(f"the flights are not in {FLIGHTS} (docs/validation.md says where they are)")
    page = tmp_path / "page.html"
    words = ["validate", "crazyflie21_closed_loop", str(log), "--output", str(page)]
    found = CliRunner().invoke(main, [*words, "--closed-loop", "crazyflie_figure8"])
    assert found.exit_code == 0, found.output
    assert "flown again at time scale 0.7" in found.output
    assert "Flown again at time scale 0.7" in page.read_text(encoding="utf-8")
