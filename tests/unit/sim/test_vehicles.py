"""Several vehicles in one compiled loop: each as if alone, until they come near each other."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from quadsim.base.records import MODE_POSITION
from quadsim.sim.scenario import load_scenario
from quadsim.sim.vehicles import Vehicles
from quadsim.vehicle.fleet import Fleet
from quadsim.world.air.wind_parameters import WindParams

SECONDS = 4.0
TICK_NS = 20_000_000
#: Far from each other, and close: one above the other is 1.2 m beside it on the ground.
FAR_M, NEAR_M = 500.0, 1.2


@pytest.fixture(scope="module")
def windy():
    """A hover in gusts, all sensors on."""
    scenario = load_scenario("hover")
    wind = WindParams(turbulence="dryden", w20_mps=5.0)
    environment = replace(scenario.environment, wind_W_mps=(2.0, 1.0, 0.0), wind=wind)
    return replace(scenario, file=replace(scenario.file, environment=environment))


def together(scenario, names, spacing_m, goals_W, first=0, log_hz=100.0):
    """Vehicles that fly on the truth to their goals; the VEHICLES after it."""
    start = replace(scenario.file.start, spacing_m=spacing_m, y_m=-first * spacing_m)
    scenario = replace(scenario, file=replace(scenario.file, start=start))
    vehicles = Vehicles(scenario, names, SECONDS, log_hz)
    vehicles.use_truth[:] = 1
    for state, goal_W in zip(vehicles.states, goals_W, strict=True):
        state["setpoint"]["mode"] = MODE_POSITION
        state["setpoint"]["p_W"] = goal_W
    for stamp_ns in range(0, round(SECONDS * 1e9), TICK_NS):
        vehicles.advance(stamp_ns, stamp_ns + TICK_NS)
    return vehicles


def rows_of(vehicles, i):
    return vehicles.logs[i, : int(vehicles.states[i]["log_count"])]


def test_two_that_are_far_apart_fly_as_each_does_alone(windy):
    goals_W = [(0.0, 0.0, 2.0), (1.0, -FAR_M, 2.0)]
    names = ["quad1", "quad2"]
    pair = together(windy, names, FAR_M, goals_W)
    for i in range(2):
        alone = together(windy, names[i : i + 1], FAR_M, goals_W[i : i + 1], first=i)
        assert rows_of(pair, i).tobytes() == rows_of(alone, 0).tobytes()
        assert pair.states[i].tobytes() == alone.states[0].tobytes()
        assert pair.samples["imu"][i].tobytes() == alone.samples["imu"][0].tobytes()
    assert rows_of(pair, 0)["p_W"][-1, 2] > 1.0


def test_two_that_meet_move_as_in_a_fleet():
    """One above the other's way: the same motor commands move a Fleet the same, to the bit."""
    scenario = load_scenario("hover")
    goals_W = [(0.0, -NEAR_M, 2.2), (0.0, 0.0, 1.2)]
    pair = together(scenario, ["quad1", "quad2"], NEAR_M, goals_W, log_hz=scenario.imu.rate_hz)
    alone = together(scenario, ["quad1"], NEAR_M, goals_W[:1], log_hz=scenario.imu.rate_hz)
    assert np.abs(rows_of(pair, 0)["p_W"] - rows_of(alone, 0)["p_W"]).max() > 0.05
    assert max(pair.states["vehicle"]["crash"]) > 0  # their ways cross
    start = replace(scenario.file.start, spacing_m=NEAR_M)
    fleet = Fleet(
        scenario.vehicle, scenario.environment, start.poses(2), scenario.file.physics,
        period_ns=scenario.imu_period_ns,
    )  # fmt: skip
    late = 1 + scenario.file.physics.command_delay_samples
    for k in range(len(rows_of(pair, 0))):
        for i in range(2):
            command = rows_of(pair, i)["rotor_command_radps"][k - late] if k >= late else (0.0,) * 4
            fleet.set_motor_command(i, command[:4])
        fleet.step_to((k + 1) * scenario.imu_period_ns)
        for i in range(2):
            row, true = rows_of(pair, i)[k], fleet.truth(i)
            assert row["stamp_ns"] == true.stamp_ns
            for field in ("p_W", "v_W", "q_WB", "w_B"):
                assert row[field].tobytes() == true[field].tobytes(), (k, i, field)


def test_what_was_flown_is_given_back():
    """The compiled loop holds its arrays as long as it is held itself, and no longer."""
    scenario = load_scenario("hover")
    vehicles = Vehicles(scenario, ["quad"], 1.0, 100.0)
    vehicles.advance(0, TICK_NS)
    states, planes = vehicles.states, scenario.scene.planes
    held = sys.getrefcount(states), sys.getrefcount(planes)
    del vehicles
    assert sys.getrefcount(states) <= held[0] - 2  # of its owner and of the loop
    assert sys.getrefcount(planes) < held[1]


def test_gusts_are_drawn_row_for_row_at_any_rate(windy):
    """At 333 Hz no tick ends with a block of numbers: the gusts of a Fleet, which draws each row.

    Three blocks, and so two borders: numbers that are used twice show as other gusts.
    """
    sensors = {**windy.sensors, "imu": replace(windy.imu, rate_hz=333.0)}
    scenario = replace(windy, sensors=sensors)
    period_ns = scenario.imu_period_ns
    vehicles = Vehicles(scenario, ["quad1", "quad2"], SECONDS, 100.0)
    fleet = Fleet(
        scenario.vehicle, scenario.environment, scenario.file.start.poses(2),
        scenario.file.physics, scene=scenario.scene, names=["quad1", "quad2"],
        seed=scenario.file.seed, period_ns=period_ns,
    )  # fmt: skip
    stamp_ns, gusts = 0, []
    while stamp_ns < 2_200_000_000:
        until_ns = stamp_ns + 7 * period_ns
        vehicles.advance(stamp_ns, until_ns)
        fleet.step_to(until_ns)
        stamp_ns = until_ns
        for i in range(2):
            wind_W = vehicles.states[i]["truth"][0]["wind_W"]
            assert wind_W.tobytes() == fleet.truth(i)["wind_W"].tobytes(), (stamp_ns, i)
        gusts.append(np.array(wind_W))
    assert np.std(gusts, axis=0).min() > 0.01


def test_python_goes_on_while_the_loop_computes():
    """Another thread sees stamps within a call; under the interpreter's lock it sees its ends."""
    scenario = load_scenario("hover")
    vehicles = Vehicles(scenario, [f"quad{i}" for i in range(8)], 200.0, 100.0)
    now_ns, ends_ns, seen = vehicles.states["stamp_ns"], {0}, set()
    for end_ns in range(500_000_000, 100_000_000_000, 500_000_000):
        worker = threading.Thread(target=vehicles.advance, args=(end_ns - 500_000_000, end_ns))
        worker.start()
        while worker.is_alive():
            seen.add(int(now_ns[0]))
        worker.join()
        ends_ns.add(end_ns)
        if seen - ends_ns:
            return
    pytest.fail("the loop holds the interpreter's lock")
