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
    with pytest.raises(SystemExit) as ended:
        main([*args.split(), "--bag", f"{tmp_path}/run/bag"])
    assert ended.value.code == 0
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"bag", "summary.json"}
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


# ---- what goes wrong at run time ---------------------------------------------------------------


def hovering(**options):
    """A vehicle that has hovered for some seconds, on the truth: no noise of an estimate."""
    simulation = quadsim.Simulation("hover", seed=7, duration_s=60.0, fly_on="truth", **options)
    simulation.step(round(8.0 / simulation.control_period_s))
    return simulation


def events(simulation, name):
    return [event.message for event in simulation.flight().events if event.name == name]


def test_a_push_gives_the_impulse():
    pushed, free = hovering(), hovering()
    mass_kg = pushed.scenario.vehicle.mass_kg
    pushed.push((0.0, 0.4 * mass_kg / 0.02, 0.0), duration_s=0.02)
    steps = round(0.02 / pushed.control_period_s)
    gained = pushed.step(steps).v_W - free.step(steps).v_W
    np.testing.assert_allclose(gained, (0.0, 0.4, 0.0), atol=0.01)  # F dt / m
    pushed.step(steps)
    assert len(events(pushed, "disturbance")) == 2  # it begins and ends


def test_a_push_that_the_scenario_plans_gives_the_same_flight():
    """The run-time call against the events of a scenario file."""
    event = {"kind": "push", "at_s": 8.0, "duration_s": 0.5, "force_W_N": [3.0, 0.0, 0.0]}
    planned, free = hovering(changes={"events": [event]}), hovering()
    free.push((3.0, 0.0, 0.0), duration_s=0.5)
    for simulation in (planned, free):
        simulation.step(1000)
    np.testing.assert_array_equal(planned.state.p_W, free.state.p_W)


def test_wind_carries_what_hovers_off_and_the_loop_brings_it_back():
    simulation = hovering()
    simulation.set_wind((6.0, 0.0, 0.0), rise_s=0.5)
    before = simulation.state.p_W[0]
    drift = [simulation.step(50).p_W[0] - before for _ in range(20)]
    assert max(drift) > 0.05


def test_a_lost_motor_stands_still():
    simulation = hovering()
    simulation.fail_motor(1)
    simulation.step(100)
    speeds = simulation.rotor_speed_radps
    assert speeds[1] < 0.1 * speeds[0]
    assert events(simulation, "disturbance") == ["motor 1 lost"]
    with pytest.raises(quadsim.InputError, match="index"):
        simulation.fail_motor(7)


def test_a_sensor_that_fails_says_what_the_fault_makes_it_say():
    simulation = hovering()
    simulation.fail_sensor("barometer", "stuck", 90_000.0)
    simulation.fail_sensor("gnss", "outage", duration_s=1.0)
    simulation.step(500)
    assert simulation.sensors["barometer"]["pressure_pa"] == 90_000.0
    assert np.isnan(simulation.sensors["gnss"]["p_W"]).all()
    simulation.step(500)
    assert np.isfinite(simulation.sensors["gnss"]["p_W"]).all()
    for _ in range(40):  # those that are over make room
        simulation.fail_sensor("gnss", "outage", duration_s=0.01)
        simulation.step(10)
    for sensor, fault in (("gnss", "bad luck"), ("teapot", "stuck"), ("imu", "outage")):
        with pytest.raises(quadsim.InputError):
            simulation.fail_sensor(sensor, fault)
    assert simulation.sensors["barometer"]["pressure_pa"] == 90_000.0  # the refused changed none


def test_other_gains_fly_on_as_a_file_with_them_would_have():
    changes = {"position.position_gain_xy": 0.9, "attitude.tilt_gain": 8.0}
    simulation = quadsim.Simulation("hover", seed=7, duration_s=20.0)
    simulation.set_gains(changes)
    named = {f"autopilot.{key}": value for key, value in changes.items()}
    same = quadsim.Simulation("hover", seed=7, duration_s=20.0, changes=named)
    np.testing.assert_array_equal(simulation.step(3000).p_W, same.step(3000).p_W)
    with pytest.raises(quadsim.InputError, match="position_gain_xy"):
        simulation.set_gains({"position.position_gain_xy": -1.0})


def test_the_end_of_a_log_is_that_of_the_whole():
    simulation = hovering()
    whole, end = simulation.log(), simulation.log(since_s=6.0)
    assert 0 < len(end.truth) < len(whole.truth)
    assert end.truth.stamp_ns[0] >= 6_000_000_000
    np.testing.assert_array_equal(end.truth.p_W, whole.truth.p_W[-len(end.truth) :])
    np.testing.assert_array_equal(end.reference.p_W, whole.reference.p_W[-len(end.reference) :])
    assert end.gnss.stamp_ns[0] >= 6_000_000_000


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.step(-1), "step: -1; needed: a whole number"),
        (lambda s: s.step(1.5), "step: 1.5; needed"),
        (lambda s: s.reset(seed=1.5), "seed: 1.5 is not a whole number"),
        (lambda s: s.reset(state=5), "start: 5; needed: keys and values"),
        (lambda s: s.reset(state={"p_W": [0, 0, 5], "z_m": 9}), "z_m and p_W say the same"),
        (
            lambda s: s.reset(state={"z_m": 5, "rotor_speed_radps": 500}),
            "start: rotor_speed_radps: 500; needed",
        ),
        (
            lambda s: s.reset(state={"z_m": 5.0}, estimate={"p_W": [0, 0, 4]}),
            "estimate: unknown key 'p_W'; allowed: position_sigma_m",
        ),
        (lambda s: s.restore(None), "restore: the snapshot is of another simulation"),
        (lambda s: s.set_wind("strong"), "wind_W_mps: 'strong'; needed: numbers"),
        (lambda s: s.set_gains(3), "set_gains: 3; needed: keys and values"),
        (lambda s: s.go_to((1, 2)), r"p_W: (1, 2); needed: 3 numbers"),
        (lambda s: s.push(3), "force_W_N: 3; needed"),
        (lambda s: s.log(float("nan")), "log: since_s: nan"),
        (lambda s: s.run(until=3), "run: until: 3; needed: a function"),
    ],
)
def test_a_wrong_argument_is_refused_in_a_line_and_moves_nothing(call, words):
    simulation = quadsim.Simulation("hover", start_mission=False, duration_s=20.0)
    simulation.step(3)
    with pytest.raises(quadsim.InputError) as caught:
        call(simulation)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert simulation.time_s == pytest.approx(0.006)


def test_a_seed_of_numpy_is_one():
    assert quadsim.Simulation("hover", seed=np.int64(4)).scenario.file.seed == 4
