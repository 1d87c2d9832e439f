"""The public API: a flight in steps is the flight of ``quadsim sim``."""

import numpy as np
import pytest

import quadsim
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import load_scenario


@pytest.fixture(scope="module")
def flown():
    return quadsim.Simulation("hover", seed=7, duration_s=20.0).run()


def test_a_run_is_the_flight_of_the_command(flown):
    _, digest = run(load_scenario("hover", seed=7, duration_s=20.0))
    assert flown.summary["digest"] == digest


def test_single_steps_give_the_same_flight(flown):
    simulation = quadsim.Simulation("hover", seed=7, duration_s=20.0)
    simulation.step(1000)
    for _ in range(700):
        simulation.step()
    assert simulation.run().summary["digest"] == flown.summary["digest"]


def test_a_reset_repeats_a_flight_and_another_seed_does_not():
    simulation = quadsim.Simulation("hover", seed=7)
    first = simulation.step(2000)
    simulation.reset()
    assert simulation.time_s == 0.0
    again = simulation.step(2000)
    simulation.reset(seed=8)
    other = simulation.step(2000)
    np.testing.assert_array_equal(again.p_W, first.p_W)
    assert not np.array_equal(other.p_W, first.p_W)


def test_what_a_flight_shows_of_itself():
    simulation = quadsim.Simulation("hover", seed=7)
    assert simulation.estimate is None
    simulation.step(4000)
    truth, estimate = simulation.state, simulation.estimate
    assert truth.time_s == simulation.time_s == pytest.approx(4000 * simulation.control_period_s)
    np.testing.assert_allclose(estimate.p_W, truth.p_W, atol=5.0 * estimate.sigma[:3].max())
    assert np.linalg.norm(truth.q_WB) == pytest.approx(1.0, abs=1e-12)
    mass_kg, rotors = simulation.scenario.vehicle.mass_kg, simulation.rotor_speed_radps
    assert mass_kg > 0.0
    assert rotors.shape == (4,)
    assert (rotors > 0.0).all()
    # a vehicle that hovers feels its weight, and no more
    felt = np.mean(simulation.samples("imu")["f_S"][-500:], axis=0)
    assert np.linalg.norm(felt) == pytest.approx(9.81, abs=0.3)
    newest = simulation.sensors["imu"]
    np.testing.assert_array_equal(newest["f_S"], simulation.samples("imu")["f_S"][-1])


def test_commands_fly_the_vehicle():
    simulation = quadsim.Simulation("hover", seed=7, duration_s=60.0, start_mission=False)
    simulation.step(round(5.0 / simulation.control_period_s))
    simulation.arm()
    simulation.take_off()
    simulation.run(until=lambda flight: flight.mode == "hover")
    simulation.go_to((3.0, 0.0, 2.0))
    simulation.step(round(10.0 / simulation.control_period_s))
    assert np.linalg.norm(simulation.state.p_W - (3.0, 0.0, 2.0)) < 0.3
    with pytest.raises(quadsim.InputError, match="arm"):
        simulation.arm()


@pytest.mark.parametrize(("share", "lifts"), [(0.8, False), (1.02, True)])
def test_an_own_controller_commands_the_rotors(share, lifts):
    """It lifts off where the thrust is more than the weight; the ground adds some percent."""

    class Constant:
        def update(self, simulation):
            vehicle = simulation.scenario.vehicle
            weight_N = vehicle.mass_kg * simulation.scenario.environment.gravity_mps2
            hover_radps = np.sqrt(weight_N / (4.0 * vehicle.thrust_coefficient_N_s2))
            return np.full(4, np.sqrt(share) * hover_radps)

    simulation = quadsim.Simulation("hover", fly_on="truth", controller=Constant())
    before_m = simulation.state.p_W[2]
    simulation.step(round(1.0 / simulation.control_period_s))
    assert (simulation.state.p_W[2] > before_m + 0.01) == lifts


def test_a_controller_that_gives_nonsense_is_named():
    class Bad:
        def update(self, simulation):
            return [1.0, np.nan]

    with pytest.raises(quadsim.FlightError, match="Bad"):
        quadsim.Simulation("hover", controller=Bad()).step()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"scenario": "nowhere"}, "nowhere"),
        ({"vehicle": "nothing"}, "nothing"),
        ({"changes": {"vehicle.mas_kg": 1.0}}, "mas_kg"),
        ({"fly_on": "luck"}, "luck"),
        ({"scenario": "formation"}, "vehicles"),
    ],
)
def test_wrong_arguments_are_named(wrong, named):
    with pytest.raises(quadsim.InputError, match=named):
        quadsim.Simulation(**wrong)


def test_tables_and_plots(flown):
    pytest.importorskip("pyarrow")
    table = flown.to_arrow("truth")
    assert table.num_rows == len(flown.truth)
    np.testing.assert_array_equal(table["z_m"], flown.truth.p_W[:, 2])
    assert flown.to_arrow("eskf").num_rows == len(flown.estimate)
    with pytest.raises(quadsim.InputError, match="reference"):
        flown.to_arrow("nothing")
    assert len(flown.plot("path").data) > 0
    with pytest.raises(quadsim.InputError, match="path_3d"):
        flown.plot("nothing")


def test_a_run_is_loaded_and_replayed(tmp_path, flown):
    from quadsim.cli.main import main

    args = f"sim --scenario hover --seed 7 --duration 20 --no-report --output {tmp_path}/run"
    with pytest.raises(SystemExit):
        main([*args.split(), "--bag", f"{tmp_path}/run/bag"])
    loaded = quadsim.load(tmp_path / "run")
    np.testing.assert_allclose(loaded.truth.p_W[-1], flown.truth.p_W[-1], atol=1e-3)
    scored = quadsim.replay(tmp_path / "run" / "bag", ["eskf", "smoother"])
    names = scored.summary["estimators"]
    assert names["smoother"]["position_rmse_m"] < names["eskf"]["position_rmse_m"] < 0.2


def test_the_public_names():
    assert set(quadsim.__all__) <= set(dir(quadsim))
    for name in quadsim.__all__:
        assert getattr(quadsim, name).__doc__
    with pytest.raises(AttributeError, match="nothing"):
        _ = quadsim.nothing
