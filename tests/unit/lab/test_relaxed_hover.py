"""What physics allows on three rotors, against closed forms."""

import math

import numpy as np
import pytest
from relaxed_hover import G_MPS2, relaxed_hover

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.control.airframe import known_airframe, pack_airframe
from quadsim.control.three_rotor_flight import (
    AXIS_DAMPING,
    NUTATION_DAMPING,
    opposite_of,
    spin_gains,
    steady_spin,
)
from quadsim.vehicle.parameters import VehicleParams


def vehicle(name) -> VehicleParams:
    """A vehicle's file."""
    return load(VehicleParams, find("vehicles", name))


def test_without_drag_the_spin_is_free_and_the_rotor_opposite_carries_half():
    """Mueller and D'Andrea, section III, for a symmetric quadrotor whose spin nothing brakes.

    No yaw torque: f_2 = f_1 + f_3. With q/r the tangent of the tilt and the arm l,
    l f_2 = (J_z - J_x) q r, and (f_1 + f_2 + f_3) cos(tilt) = m g.
    """
    params = vehicle("fcnd")
    found = relaxed_hover(params, 0)
    assert found is not None
    forces = found.loads * params.thrust_coefficient_N_s2 * params.rotor_speed_max_radps**2
    cosine = math.cos(math.radians(found.tilt_deg))
    assert forces[0] == 0.0
    assert forces[1] == pytest.approx(forces[2] + forces[3], rel=1e-4)
    assert forces.sum() * cosine == pytest.approx(params.mass_kg * G_MPS2, rel=1e-4)
    hub = np.array(params.rotor_positions_B_m[1])
    across = math.hypot(hub[0] * forces[1], hub[1] * forces[1])
    side = forces[2] - forces[3]  # the two beside may differ: their torque is at right angles
    torque = math.hypot(across, side * math.hypot(hub[0], hub[1]))
    stiffness = params.inertia_kg_m2[2] - params.inertia_kg_m2[0]
    wobble = stiffness * abs(found.w_B[2]) * math.hypot(found.w_B[0], found.w_B[1])
    assert torque == pytest.approx(wobble, rel=1e-3)
    assert abs(found.climb_mps) < 1e-6


def test_what_the_x500_can_just_do_the_iris_cannot():
    """Three rotors hover where two and a small third lift the weight at full thrust."""
    x500 = relaxed_hover(vehicle("x500"), 0)
    iris = relaxed_hover(vehicle("iris"), 0)
    assert x500 is not None
    assert iris is not None
    assert 0.9 < x500.loads.max() < 1.0
    assert iris.loads.max() > 1.0


def test_a_hexacopter_has_no_relaxed_hover():
    with pytest.raises(InputError, match="four rotors"):
        relaxed_hover(vehicle("hexacopter"), 0)


@pytest.mark.parametrize("name", ["hummingbird", "phantom4", "x500"])
@pytest.mark.parametrize("lost", range(4))
def test_the_controllers_steady_spin_obeys_eulers_equations(name, lost):
    params = known_airframe(vehicle(name))
    packed = pack_airframe(params)
    across = opposite_of(packed, lost)
    hubs = np.array(params.rotor_positions_B_m)
    assert np.sign(hubs[across, :2]).tolist() == (-np.sign(hubs[lost, :2])).tolist()
    spin = 15.0 * params.rotor_directions[lost]
    h = -0.003 * np.sign(spin)
    rates, torque = steady_spin(packed, lost, params.mass_kg * G_MPS2, spin, h)
    w = np.array([rates.real, rates.imag, spin])
    assert math.hypot(w[0], w[1]) > 0.1
    momentum = np.array(params.inertia_kg_m2) * w + [0.0, 0.0, h]
    # moments of inertia about x and y differ by up to 5 %, of which the mean counts
    asked = np.cross(w, momentum)[:2]
    assert np.hypot(*([torque.real, torque.imag] - asked)) < 0.1 * np.hypot(*asked)


@pytest.mark.parametrize("spin", [-30.0, -4.0, 0.0, 15.0])
def test_the_gains_put_the_poles_where_they_are_said_to_be(spin):
    nutation, cosine, lag_s = 0.8 * spin - 1.5, 0.95, 0.03
    k_b, k_w, k_s = spin_gains(spin, nutation, cosine, lag_s)
    loop = np.array(
        [
            [-1j * spin, 1j * cosine, 0.0],
            [0.0, 1j * nutation, 1.0],
            [-k_b / lag_s, -k_w / lag_s, -(1.0 + k_s) / lag_s],
        ]
    )
    wanted = [
        -AXIS_DAMPING - 1j * spin, -NUTATION_DAMPING + 1j * nutation, -1.0 / lag_s
    ]  # fmt: skip
    for pole in wanted:
        assert np.abs(np.linalg.eigvals(loop) - pole).min() < 1e-6 / lag_s
