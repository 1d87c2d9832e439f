"""Tilted rotors and full inertia matrices: Euler's equations, rotated vehicles, closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load, new, pack
from quadsim.control.airframe import effectiveness, known_airframe, pack_airframe
from quadsim.control.attitude import skew_torque
from quadsim.control.mixer import mix
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.forces import skew_rates
from quadsim.vehicle.parameters import ContactParams, VehicleParams
from quadsim.vehicle.propulsion.rotors import rotor_wrench
from quadsim.vehicle.start import hover_speed_radps
from quadsim.vehicle.state import ROTOR, Vehicle
from quadsim.world.environment import EnvironmentParams

X500 = load(VehicleParams, find("vehicles", "x500"))
HEXACOPTER = load(VehicleParams, find("vehicles", "hexacopter"))
#: Elements xy, xz, yz of a body whose principal axes are 20 to 40 degrees off.
PRODUCTS = (0.004, -0.002, 0.0015)


def tensor_of(params):
    tensor = np.diag(params.inertia_kg_m2)
    tensor[[0, 0, 1], [1, 2, 2]] = tensor[[1, 2, 2], [0, 0, 1]] = params.inertia_products_kg_m2
    return tensor


def tilted_hexacopter(tilt_deg):
    """Each rotor leans about its arm, every second one the other way."""
    axes = []
    for i, (x, y, _) in enumerate(HEXACOPTER.rotor_positions_B_m):
        arm = np.array([x, y, 0.0]) / np.hypot(x, y)
        turn = Rotation.from_rotvec(np.radians(tilt_deg) * (-1) ** i * arm)
        axes.append(tuple(turn.apply([0.0, 0.0, 1.0])))
    return replace(HEXACOPTER, rotor_axes_B=tuple(axes))


def test_a_body_that_nothing_turns_keeps_momentum_and_energy():
    """Free fall for a second with still rotors, against Euler's equations by scipy."""
    body = replace(
        X500,
        inertia_products_kg_m2=PRODUCTS,
        contact=ContactParams(points_B_m=()),
        body_drag_N_s_m=(0.0, 0.0, 0.0),
        drag_area_m2=(0.0, 0.0, 0.0),
    )
    tensor, w0 = tensor_of(body), np.array([3.0, -5.0, 4.0])
    fleet = Fleet(body, EnvironmentParams())
    fleet.set_motion(0, (0.0, 0.0, 500.0), w_B=w0)
    fleet.step_to(1_000_000_000)
    end = fleet.truth(0)

    def slope(_, x):
        q, w = x[:4], x[4:]
        q_dot = 0.5 * np.array([-q[1:] @ w, *(q[0] * w + np.cross(q[1:], w))])
        return np.concatenate([q_dot, np.linalg.solve(tensor, -np.cross(w, tensor @ w))])

    exact = solve_ivp(slope, (0.0, 1.0), [1.0, 0.0, 0.0, 0.0, *w0], rtol=1e-11, atol=1e-12)
    # fourth order: (w dt)^5 / 120 a step, a thousand steps
    np.testing.assert_allclose(end.q_WB, exact.y[:4, -1], atol=1e-9)
    np.testing.assert_allclose(end.w_B, exact.y[4:, -1], atol=1e-8)
    R_WB = Rotation.from_quat(np.roll(end.q_WB, -1)).as_matrix()
    np.testing.assert_allclose(R_WB @ tensor @ end.w_B, tensor @ w0, atol=1e-9)
    assert end.w_B @ tensor @ end.w_B == pytest.approx(w0 @ tensor @ w0, rel=1e-9)


def wrench(params, speeds, air_B, w_B):
    vehicle = new(Vehicle)
    vehicle.x[ROTOR : ROTOR + len(speeds)] = speeds
    vehicle.held.thrust_gain[:] = vehicle.held.density_ratio = 1.0
    return np.array(rotor_wrench(vehicle.x, tuple(air_B), tuple(w_B), vehicle.held, pack(params)))


@pytest.mark.parametrize("name", ["x500", "hummingbird", "crazyflie21", "kingfisher"])
def test_rotors_that_all_lean_alike_are_those_of_a_turned_vehicle(name):
    """Every effect of the air: what is turned as a whole has its wrench turned."""
    params = load(VehicleParams, find("vehicles", name))
    rng = np.random.default_rng(3)
    for _ in range(5):
        axis = np.append(rng.uniform(-0.5, 0.5, 2), 1.0)
        axis /= np.linalg.norm(axis)
        across = np.cross([0.0, 0.0, 1.0], axis)
        turn = Rotation.from_rotvec(np.arccos(axis[2]) * across / np.linalg.norm(across))
        hubs = turn.apply(params.rotor_positions_B_m)
        leaning = replace(
            params,
            rotor_layout="explicit",
            arm_m=0.0,
            rotor_height_m=0.0,
            rotor_positions_B_m=tuple(map(tuple, hubs.tolist())),
            rotor_axes_B=(tuple(axis.tolist()),) * len(hubs),
        )
        speeds = rng.uniform(0.3, 0.9, len(hubs)) * params.rotor_speed_max_radps
        air_B, w_B = rng.normal(0.0, 5.0, 3), rng.normal(0.0, 3.0, 3)
        upright = wrench(params, speeds, air_B, w_B)
        found = wrench(leaning, speeds, turn.apply(air_B), turn.apply(w_B))
        scale = np.abs(upright).max()
        np.testing.assert_allclose(found, turn.apply(upright), atol=1e-12 * scale)


def test_the_wrench_of_tilted_rotors_in_still_air():
    """F = sum k w^2 a, tau = sum k w^2 (r x a - d c a)."""
    params = tilted_hexacopter(20.0)
    speeds = np.linspace(0.3, 0.8, 6) * params.rotor_speed_max_radps
    thrust = params.thrust_coefficient_N_s2 * speeds**2
    axes, hubs = np.array(params.rotor_axes_B), np.array(params.rotor_positions_B_m)
    drag = params.torque_ratio_m * np.array(params.rotor_directions)
    force, torque = wrench(params, speeds, np.zeros(3), np.zeros(3))
    np.testing.assert_allclose(force, thrust @ axes, rtol=1e-12, atol=1e-12)
    arms = np.cross(hubs, axes) - drag[:, None] * axes
    np.testing.assert_allclose(torque, thrust @ arms, rtol=1e-12, atol=1e-12)
    hover = np.full(6, hover_speed_radps(params))
    force, _ = wrench(params, hover, np.zeros(3), np.zeros(3))
    assert force == pytest.approx([0.0, 0.0, params.mass_kg * 9.80665], abs=1e-9)


def test_the_mixer_gives_thrust_and_torques_by_tilted_rotors():
    params = tilted_hexacopter(25.0)
    airframe, speeds = pack_airframe(known_airframe(params)), np.zeros(8)
    wanted = (params.mass_kg * 9.81, 2.0, -1.5, 1.0)
    assert mix(airframe, wanted[0], wanted[1:], speeds) == pytest.approx((wanted[0], 1.0, 1.0))
    force, torque = wrench(params, speeds[:6], np.zeros(3), np.zeros(3))
    assert (force[2], *torque) == pytest.approx(wanted, rel=1e-9)
    # the leverage about z is that of the lean, many times that of the drag
    flat = effectiveness(known_airframe(HEXACOPTER))
    most = np.abs(effectiveness(known_airframe(params)))[3].min()
    assert most > 3.0 * np.abs(flat[3]).max()


def test_the_torque_asked_for_gives_the_turn_asked_for():
    moments, rng = X500.inertia_kg_m2, np.random.default_rng(1)
    w_B, w_dot = tuple(rng.normal(size=3)), tuple(rng.normal(size=3))
    torque = skew_torque(w_dot, w_B, moments, PRODUCTS)
    still = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    found = skew_rates(torque, w_B, still, moments, PRODUCTS)
    assert found == pytest.approx(w_dot, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rotor_axes_B": ((0.0, 0.0, 1.0),) * 3}, "3 for 4 rotors"),
        ({"rotor_axes_B": ((0.0, 0.0, 1.0),) * 3 + ((1.0, 0.0, 0.3),)}, r"rotor_axes_B\[3\]"),
        ({"inertia_products_kg_m2": (0.03, 0.0, 0.0)}, "no body has them"),
        ({"inertia_products_kg_m2": (0.0, 0.019, 0.0)}, "no body has it"),
    ],
)
def test_what_cannot_be_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        replace(X500, **changes)


def test_axes_along_body_z_are_none():
    assert replace(X500, rotor_axes_B=((0.0, 0.0, 2.0),) * 4) == X500
