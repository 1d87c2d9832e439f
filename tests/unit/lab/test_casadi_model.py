"""The smooth model is the vehicle's, and its slopes are those of differences."""

from dataclasses import replace

import numpy as np
import pytest

from quadsim import InputError
from quadsim.geometry.rotation import quat, rotate
from quadsim.lab.casadi_model import casadi_model, casadi_step, parameters_of
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.multirotor import derivative
from quadsim.vehicle.state import ROTOR, STATE_SIZE

ca = pytest.importorskip("casadi")


def drawn(vehicle, seed):
    """A state and commands in fast flight along body z or across it, upside down too."""
    rng, n = np.random.default_rng(seed), len(vehicle.rotor_directions)
    hover = np.sqrt(vehicle.mass_kg * 9.81 / (n * vehicle.thrust_coefficient_N_s2))
    q = rng.normal(size=4)
    speeds, commands = hover * rng.uniform(0.7, 1.1, n), hover * rng.uniform(0.7, 1.1, n)
    q /= np.linalg.norm(q)
    v_B = rng.normal(0.0, 2.0, 3)
    v_B[2] = abs(v_B[2]) + 1.0  # no hub in its own wake
    x = np.concatenate([[1.0, 2.0, 50.0], rotate(quat(q), tuple(v_B)), q, rng.normal(size=3)])
    return np.concatenate([x, speeds]), commands


@pytest.mark.parametrize("name", ["x500", "hummingbird", "iris", "crazyflie2", "skew"])
def test_it_is_the_derivative_of_the_vehicle(name):
    scenario = load_scenario("hover", vehicle="x500" if name == "skew" else name)
    params, n = scenario.vehicle, len(scenario.vehicle.rotor_directions)
    if name == "skew":
        params = replace(
            params,
            rotor_axes_B=((-0.2, 0.1, 1.0), (0.3, -0.1, 1.0), (0.1, 0.3, 1.0), (0.0, 0.0, 1.0)),
            inertia_products_kg_m2=(0.004, -0.002, 0.0015),
        )
    fleet = Fleet(params, scenario.environment)
    model = fleet.model(0)
    held = model[0].held
    held.density_ratio, held.thrust_gain[:], held.effectiveness[:] = 1.0, 1.0, 1.0
    smooth = casadi_model(params, scenario.environment)
    for seed in range(10):
        x, u = drawn(params, seed)
        state, out = np.zeros(STATE_SIZE), np.zeros(STATE_SIZE)
        state[:13], state[ROTOR : ROTOR + n] = x[:13], x[13:]
        model[0].inputs.rotor_command_radps[:n] = u
        derivative(state, model, out)
        found = np.array(smooth(x, u, parameters_of(params))).ravel()
        wanted = np.concatenate([out[:13], out[ROTOR : ROTOR + n]])
        # 50 m up, where gravity has lost 1.5e-4 m/s^2; the drag's root is smoothed by 1e-6 m/s
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-6)


def test_slopes_of_a_step_are_those_of_central_differences():
    params = load_scenario("hover").vehicle
    step, theta = casadi_step(casadi_model(params), 0.01), np.array(parameters_of(params))
    slopes = step.jacobian()
    x, u = drawn(params, 1)
    given = [x, u, theta]
    found = [np.array(block) for block in slopes(*given, step(*given))]
    for k, block in enumerate(found):
        for j in range(block.shape[1]):
            size = 1e-5 * max(abs(given[k][j]), 1e-3 if k < 2 else abs(given[k][j]))
            ends = []
            for sign in (1.0, -1.0):
                moved = [each.copy() for each in given]
                moved[k][j] += sign * size
                ends.append(np.array(step(*moved)).ravel())
            wanted = (ends[0] - ends[1]) / (2.0 * size)
            scale = max(1.0, np.abs(wanted).max())
            assert np.abs(block[:, j] - wanted).max() < 1e-6 * scale, (k, j)


def test_what_it_has_not_is_refused_by_name():
    with pytest.raises(InputError, match=r"kind: helicopter: is not in the smooth model"):
        casadi_model(load_scenario("hover", vehicle="thesis_helicopter").vehicle)


@pytest.mark.parametrize("step_s", [0.0, -0.01, float("nan"), 10.0, "x"])
def test_a_step_that_is_none_is_refused(step_s):
    """A step of NaN made a function that gives NaN."""
    model = casadi_model(load_scenario("hover").vehicle)
    with pytest.raises(InputError, match=r"step_s: .*; allowed: > 0 and <= 1 s"):
        casadi_step(model, step_s)
