"""Rotors and airframe in air: published figures, momentum theory, conservation laws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load, pack
from quadsim.geometry.geodesy import Datum
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import ContactParams, VehicleParams
from quadsim.vehicle.propulsion.parameters import RotorParams
from quadsim.vehicle.propulsion.rotors import image_share, rotor_wrench, thrust_gain
from quadsim.vehicle.state import ROTOR, VEHICLE, V
from quadsim.world.environment import EnvironmentParams

GRAVITY = 9.80665
SECOND_NS = 1_000_000_000
AIR = 1.225
HUMMINGBIRD = load(VehicleParams, find("vehicles", "hummingbird"))
HEXACOPTER = load(VehicleParams, find("vehicles", "hexacopter"))
X500 = load(VehicleParams, find("vehicles", "x500"))
#: No feet, no aerodynamics but for thrust and its torque.
PLAIN = replace(
    X500,
    contact=ContactParams(points_B_m=()),
    rotor_drag_N_s2=0.0,
    rolling_moment_N_s2=0.0,
    body_drag_N_s_m=(0.0, 0.0, 0.0),
    rotor=RotorParams(),
)
LEVEL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def hover_radps(params):
    rotors = len(params.rotor_directions)
    return math.sqrt(params.mass_kg * GRAVITY / (rotors * params.thrust_coefficient_N_s2))


def at(speeds, height_m=100.0, density_ratio=1.0, v_W=(0.0, 0.0, 0.0)):
    """A VEHICLE record with rotor speeds, healthy."""
    vehicle = np.zeros(1, VEHICLE)[0]
    vehicle.x[ROTOR : ROTOR + len(speeds)] = speeds
    vehicle.x[V : V + 3] = v_W
    vehicle.held.thrust_gain[:] = 1.0
    vehicle.held.density_ratio = density_ratio
    vehicle.held.height_m = height_m
    return vehicle


def wrench(params, speeds, air_B=(0.0, 0.0, 0.0), w_B=(0.0, 0.0, 0.0), **state):
    vehicle = at(speeds, **state)
    force, torque = rotor_wrench(vehicle.x, air_B, w_B, vehicle.held, pack(params))
    return np.array(force), np.array(torque)


def test_the_hummingbird_is_rotorpys():
    """RotorPy (9b760b8), Multirotor.compute_body_wrench without parasitic drag, at this state.

    Its rotors are at height 0; its parasitic drag, -|v| (5e-3, 5e-3, 1e-2) v, is taken off.
    """
    hubs = tuple((x, y, 0.0) for x, y, _ in HUMMINGBIRD.rotor_positions_B_m)
    flat = replace(HUMMINGBIRD, rotor_positions_B_m=hubs)
    v = np.array([2.0, -1.0, 0.5])
    drag = -np.linalg.norm(v) * np.array([5e-3, 5e-3, 1e-2]) * v
    force, torque = wrench(flat, [450.0, 470.0, 500.0, 430.0], tuple(v), (0.3, -0.5, 0.7))
    # its printed digits: 8 decimals; its hubs are exact to 1e-8 m and ours to 1e-6 m
    assert force + drag == pytest.approx([-0.46411408, 0.23170657, 4.62355901], abs=2e-6)
    assert torque == pytest.approx([-0.05714627, 0.01098607, -0.00082034], abs=2e-6)


def climb_thrust_N(params, solidity_slope, climb_mps):
    """Thrust of a rotor in climb: blade elements with momentum theory (Leishman, ch. 3).

    C_T = sigma a / 2 (theta/3 - lambda/2) and T = 2 rho A v_i (v + v_i), with the blade's pitch
    theta such that it hovers at the speed of hover.
    """
    radius, speed = params.rotor.radius_m, hover_radps(params)
    area, tip = math.pi * radius**2, speed * radius
    hover_N = params.thrust_coefficient_N_s2 * speed**2
    scale = AIR * area * tip**2 * solidity_slope / 2.0
    induced = math.sqrt(hover_N / (2.0 * AIR * area))
    pitch_third = hover_N / scale + induced / tip / 2.0

    def blades(v_i):
        return scale * (pitch_third - (climb_mps + v_i) / tip / 2.0)

    v_i = brentq(lambda v: blades(v) - 2.0 * AIR * area * v * (climb_mps + v), 0.01, 50.0)
    return blades(v_i)


@pytest.mark.parametrize(
    ("params", "solidity_slope"),
    [(HUMMINGBIRD, 0.75), (HEXACOPTER, 0.51)],  # solidity 0.13 and 0.09, lift slope 5.7 per rad
)
def test_thrust_is_lost_in_climb_as_by_momentum_theory(params, solidity_slope):
    """Within 15 % of the loss up to half the induced velocity, and in descent as far as 1/4.

    The line touches the theory's curve at hover, which bends by 12 % up to there.
    """
    speed, count = hover_radps(params), len(params.rotor_directions)
    hover_N = params.thrust_coefficient_N_s2 * speed**2
    induced = math.sqrt(hover_N / (2.0 * AIR * math.pi * params.rotor.radius_m**2))
    for share in (-0.25, 0.1, 0.25, 0.5):
        force, _ = wrench(params, [speed] * count, (0.0, 0.0, share * induced))
        lost = hover_N - force[2] / count
        expected = hover_N - climb_thrust_N(params, solidity_slope, share * induced)
        assert lost == pytest.approx(expected, rel=0.15)


def test_rolling_moments_of_a_quadrotor_cancel():
    """The advancing blade lifts more, and the sense of rotation decides which side it is on.

    Seen from above, a rotor that turns counter-clockwise and flies forward has it on its right and
    rolls to the left; the other sense rolls to the right.
    """
    params = replace(PLAIN, rolling_moment_N_s2=2e-6)
    _, torque = wrench(params, [700.0] * 4, (10.0, -3.0, 0.0))
    assert torque == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    for i, direction in enumerate(params.rotor_directions):
        speeds = [0.0] * 4
        speeds[i] = 700.0
        _, alone = wrench(params, speeds, (10.0, -3.0, 0.0))
        bare = replace(params, rolling_moment_N_s2=0.0)
        rolling = alone - wrench(bare, speeds, (10.0, -3.0, 0.0))[1]
        # r x F: to the right is -y, and -y x z = -x
        expected = [-direction * 2e-6 * 700.0 * 10.0, direction * 2e-6 * 700.0 * 3.0, 0.0]
        assert rolling == pytest.approx(expected, rel=1e-9, abs=1e-15)


def vortex_ring_thrust(params, solidity_slope, share):
    """Thrust in a descent at a share of v_h over that of hover, at the same speed.

    Blade elements with the induced velocity of Leishman's fit (Principles of helicopter
    aerodynamics, eq. 2.99) and, below it, of the windmill brake state (eq. 2.91).
    """
    speed, radius = hover_radps(params), params.rotor.radius_m
    area, tip = math.pi * radius**2, speed * radius
    hover_N = params.thrust_coefficient_N_s2 * speed**2
    scale = AIR * area * tip**2 * solidity_slope / 2.0
    induced = math.sqrt(hover_N / (2.0 * AIR * area))
    down = share * induced

    def excess(thrust_N):
        v_h = math.sqrt(thrust_N / (2.0 * AIR * area))
        x = -down / v_h
        fit = 1.0 - 1.125 * x - 1.372 * x**2 - 1.718 * x**3 - 0.655 * x**4
        if x < -2.0:
            fit = min(fit, -0.5 * x - math.sqrt(0.25 * x**2 - 1.0)) if x < -2.05 else fit
        return thrust_N - hover_N + scale * (x * v_h + fit * v_h - induced) / tip / 2.0

    return brentq(excess, 0.5 * hover_N, 3.0 * hover_N) / hover_N


@pytest.mark.parametrize(("params", "solidity_slope"), [(HUMMINGBIRD, 0.75), (HEXACOPTER, 0.51)])
def test_a_descent_is_that_of_the_vortex_ring_state(params, solidity_slope):
    """From 3/4 of the induced velocity on. The line alone gives 1.27, 1.35, 1.53 and 1.7."""
    speed, count = hover_radps(params), len(params.rotor_directions)
    hover_N = params.thrust_coefficient_N_s2 * speed**2
    induced = math.sqrt(hover_N / (2.0 * AIR * math.pi * params.rotor.radius_m**2))
    for share in (0.75, 1.0, 1.5, 1.8):
        force, _ = wrench(params, [speed] * count, (0.0, 0.0, -share * induced))
        found = force[2] / (count * hover_N)
        expected = vortex_ring_thrust(params, solidity_slope, share)
        # of the gain 15 %, which is how well the solidity gives the inflow coefficient
        assert found - 1.0 == pytest.approx(expected - 1.0, rel=0.15)


@pytest.mark.parametrize("name", ["x500", "iris", "hummingbird", "phantom4", "crazyflie2"])
def test_no_descent_more_than_doubles_the_thrust(name):
    """And it changes without a jump, however fast the vehicle falls, and at any rotor speed."""
    params = load(VehicleParams, find("vehicles", name))
    speed = hover_radps(params)
    induced = math.sqrt(
        params.thrust_coefficient_N_s2 * speed**2 / (2.0 * AIR * math.pi * params.rotor.radius_m**2)
    )
    sink = np.linspace(0.0, 6.0, 1201)
    thrust = np.array([wrench(params, [speed] * 4, (0, 0, -s * induced))[0][2] for s in sink])
    ratio = thrust / (4 * params.thrust_coefficient_N_s2 * speed**2)
    assert ratio[0] == pytest.approx(1.0)
    assert 1.05 < ratio.max() <= 2.0 + 1e-12
    # steepest in the windmill brake state, by 4 of hover's thrust over v_h: 5e-3 of v_h a step
    assert np.abs(np.diff(ratio)).max() < 0.03
    still, _ = wrench(params, [0.0] * 4, (0.0, 0.0, -20.0))
    assert still[2] == 0.0
    slow, _ = wrench(params, [50.0] * 4, (0.0, 0.0, -20.0))
    assert 0.0 < slow[2] <= 2.0 * 4 * params.thrust_coefficient_N_s2 * 2500.0 * (1 + 1e-9)


def test_lift_of_forward_flight_is_bounded_and_needs_a_turning_rotor():
    slow, _ = wrench(HUMMINGBIRD, [300.0] * 4, (3.0, 4.0, 0.0))
    assert slow[2] == pytest.approx(4 * (5.57e-6 * 300.0**2 + 3.39e-3 * 25.0), rel=1e-12)
    for speed in (0.0, 50.0):
        still, _ = wrench(HUMMINGBIRD, [speed] * 4)
        fast, _ = wrench(HUMMINGBIRD, [speed] * 4, (40.0, 0.0, 0.0))
        assert fast[2] == pytest.approx(2.0 * still[2], rel=1e-12, abs=1e-15)


def test_the_disc_tilts_back_and_lifts_the_nose():
    """A disc tilted by a = flapping times advance ratio: force T sin a against the motion."""
    rotor = RotorParams(radius_m=0.14, flapping_rad=0.5, hinge_stiffness_N_m=3.0)
    hubs = tuple((x, y, 0.0) for x, y, _ in PLAIN.rotor_positions_B_m)
    params = replace(PLAIN, rotor=rotor, rotor_positions_B_m=hubs)
    speed, forward = 700.0, 2.0
    thrust = 4 * params.thrust_coefficient_N_s2 * speed**2
    tilt = 0.5 * forward / (0.14 * speed)
    force, torque = wrench(params, [speed] * 4, (forward, 0.0, 0.0))
    # sin a and cos a against a and 1: a^2/2 < 1e-4
    assert force == pytest.approx([-thrust * math.sin(tilt), 0.0, thrust], rel=1e-4, abs=1e-12)
    assert torque == pytest.approx([0.0, -4 * 3.0 * tilt, 0.0], rel=1e-12, abs=1e-12)
    assert torque[1] < 0.0  # about +y (left) the nose goes down in FLU
    left, torque = wrench(params, [speed] * 4, (0.0, forward, 0.0))
    assert left[1] == pytest.approx(force[0])
    assert torque[0] == pytest.approx(4 * 3.0 * tilt)  # it moves left, the left side is lifted
    idle, torque = wrench(params, [0.0] * 4, (forward, 0.0, 0.0))
    assert not idle.any()
    assert not torque.any()


def test_the_drag_of_the_rotors_acts_at_their_hubs():
    """Above the centre of mass: wind from the front pitches back, from the left rolls to the right.

    r x F of F = -D v at height z is (z D v_y, -z D v_x, 0).
    """
    params = replace(PLAIN, rotor_drag_N_s2=1e-4)
    height_m = params.rotor_positions_B_m[0][2]
    force, torque = wrench(params, [700.0] * 4, (2.0, 3.0, 0.0))
    drag = 4 * 1e-4 * 700.0
    assert force[:2] == pytest.approx([-2.0 * drag, -3.0 * drag], rel=1e-12)
    assert torque[:2] == pytest.approx([3.0 * height_m * drag, -2.0 * height_m * drag], rel=1e-9)


def test_thin_air_takes_all_of_it_alike():
    state = ([400.0, 410.0, 420.0, 430.0], (3.0, -2.0, 1.0), (0.5, 0.2, -0.3))
    rotor = replace(HUMMINGBIRD.rotor, flapping_rad=0.3, hinge_stiffness_N_m=1.0)
    params = replace(HUMMINGBIRD, rotor=rotor, rolling_moment_N_s2=1e-6)
    full, thin = wrench(params, *state), wrench(params, *state, density_ratio=0.8)
    assert thin[0] == pytest.approx(0.8 * full[0], rel=1e-12)
    assert thin[1] == pytest.approx(0.8 * full[1], rel=1e-12)


def test_hover_takes_faster_rotors_in_thin_air():
    """At 2000 m the air of the standard atmosphere has 1.0065 kg/m^3 (ISO 2533)."""
    params = replace(PLAIN, air_density_kg_m3=1.225)
    speed = hover_radps(params) * math.sqrt(1.225 / 1.0065)
    environment = EnvironmentParams(datum=Datum(height_m=0.0))
    fleet = Fleet(params, environment)
    fleet.set_motor_command(0, [speed] * 4)
    fleet.set_motion(0, (0.0, 0.0, 2000.0), rotor_speeds_radps=[speed] * 4)
    fleet.step_to(SECOND_NS // 10)
    # 1e-4 of gravity for the table's digits
    assert abs(fleet.truth(0).a_W[2]) < 2e-3


@pytest.mark.many
def test_terminal_velocity_of_quadratic_drag():
    """Speed v_t tanh(g t / v_t) with v_t^2 = 2 m g / (rho C_D A)."""
    params = replace(PLAIN, drag_area_m2=(0.02, 0.03, 2.0))
    terminal = math.sqrt(2.0 * params.mass_kg * GRAVITY / (AIR * 2.0))
    fleet = Fleet(params, EnvironmentParams())
    fleet.set_motion(0, (0.0, 0.0, 5000.0))
    for seconds in (0.2, 0.5, 2.0):  # the last within 2e-4 of the terminal velocity
        fleet.step_to(round(seconds * SECOND_NS))
        expected = -terminal * math.tanh(GRAVITY * seconds / terminal)
        # RK4 at 1 ms and a time constant of 0.4 s: below 1e-10
        assert fleet.truth(0).v_W[2] == pytest.approx(expected, rel=1e-9)
    for axis, area in enumerate((0.02, 0.03)):
        v_W = np.zeros(3)
        v_W[axis] = 7.0
        fleet.set_motion(0, (0.0, 0.0, 5000.0), v_W)
        drag_N = 0.5 * AIR * area * 49.0
        assert fleet.truth(0).a_W[axis] == pytest.approx(-drag_N / params.mass_kg, rel=1e-12)


def test_wind_pushes_by_the_speed_through_the_air():
    """Steady tilt in wind: hovering on the spot, drag is the horizontal part of the thrust."""
    params = replace(PLAIN, drag_area_m2=(0.05, 0.05, 0.05))
    fleet = Fleet(params, EnvironmentParams(wind_W_mps=(-8.0, 0.0, 0.0)))
    drag_N = 0.5 * AIR * 0.05 * 64.0
    tilt = math.atan2(drag_N, params.mass_kg * GRAVITY)
    thrust_N = math.hypot(drag_N, params.mass_kg * GRAVITY)
    speed = math.sqrt(thrust_N / (4 * params.thrust_coefficient_N_s2))
    fleet.set_motor_command(0, [speed] * 4)
    attitude = (math.cos(tilt / 2), 0.0, math.sin(tilt / 2), 0.0)  # the nose down, into the wind
    fleet.step_to(2_000_000)
    fleet.set_motion(0, (0.0, 0.0, 50.0), q_WB=attitude, rotor_speeds_radps=[speed] * 4)
    # the tilt is of 8 degrees; drag acts on the speed, not on its parts along the body's axes
    assert fleet.truth(0).a_W == pytest.approx([0.0, 0.0, 0.0], abs=1e-9)


def grounded_thrust(params, solidity_slope, ratio):
    """Thrust near the ground over that far from it, at the same speed, by blade elements.

    Args:
        params: the vehicle.
        solidity_slope: solidity times lift slope of its rotors.
        ratio: T/T_oo at constant power, as published.
    """
    radius, speed = params.rotor.radius_m, hover_radps(params)
    area, tip = math.pi * radius**2, speed * radius
    hover_N = params.thrust_coefficient_N_s2 * speed**2
    scale = AIR * area * tip**2 * solidity_slope / 2.0
    induced = math.sqrt(hover_N / (2.0 * AIR * area))
    pitch_third = hover_N / scale + induced / tip / 2.0

    def ground_share(thrust_N):
        """Of the induced velocity of this thrust, such that power is constant at the ratio."""
        return ratio**-1.5 * math.sqrt(thrust_N / (2.0 * AIR * area))

    # the definition: at ratio times the thrust, ideal power T v is that far from the ground
    assert ratio * hover_N * ground_share(ratio * hover_N) == pytest.approx(hover_N * induced)

    def excess(thrust_N):
        return thrust_N - scale * (pitch_third - ground_share(thrust_N) / tip / 2.0)

    return brentq(excess, 0.5 * hover_N, 3.0 * hover_N) / hover_N


@pytest.mark.parametrize("radii", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("name", "solidity_slope"), [("hummingbird", 0.75), ("hexacopter", 0.51)])
def test_ground_effect_at_constant_speed_agrees_with_the_blades(name, solidity_slope, radii):
    """The published ratio holds at constant power; at constant speed blade elements decide.

    Their solidity gives the inflow coefficient within 15 % (above), and so the gain.
    """
    vehicle = HUMMINGBIRD if name == "hummingbird" else HEXACOPTER
    rotor = replace(vehicle.rotor, ground_effect="cheeseman_bennett")
    params = replace(vehicle, rotor=rotor, air_density_kg_m3=AIR)
    height_m = radii * rotor.radius_m - params.rotor_positions_B_m[0][2]
    speeds = [hover_radps(params)] * len(params.rotor_directions)
    gain = thrust_gain(0, LEVEL, at(speeds, height_m), pack(params))
    published = 1.0 / (1.0 - 1.0 / (16.0 * radii**2))
    expected = grounded_thrust(params, solidity_slope, published)
    assert gain - 1.0 == pytest.approx(expected - 1.0, rel=0.15)


def test_blades_that_hardly_feel_the_inflow_hardly_feel_the_ground():
    """The Crazyflie's measured loss in climb is a fifth of the Hummingbird's; so is its gain."""
    crazyflie = load(VehicleParams, find("vehicles", "crazyflie2"))
    gains = []
    for params in (HUMMINGBIRD, crazyflie):
        rotor = replace(params.rotor, ground_effect="cheeseman_bennett")
        height_m = rotor.radius_m - params.rotor_positions_B_m[0][2]
        vehicle = at([hover_radps(params)] * 4, height_m)
        gains.append(thrust_gain(0, LEVEL, vehicle, pack(replace(params, rotor=rotor))) - 1.0)
    assert 0.1 < gains[1] / gains[0] < 0.4


def gain_of(share):
    """Gain of thrust by blades with the response beta = 1, which are those without a figure.

    Of t + share^1.5 sqrt(t) - 2 = 0, in sqrt(t).
    """
    return brentq(lambda root: root**2 + share**1.5 * root - 2.0, 0.9, 1.5) ** 2


@pytest.mark.parametrize("radii", [0.5, 0.75, 1.0, 1.5, 2.0, 4.0])
def test_ground_effect_of_cheeseman_and_bennett(radii):
    """The share (R/4z)^2 that the ground takes of the air."""
    params = replace(PLAIN, rotor=RotorParams(radius_m=0.14, ground_effect="cheeseman_bennett"))
    height_m = 0.14 * radii
    vehicle = at([700.0] * 4, height_m - params.rotor_positions_B_m[0][2])
    expected = gain_of(1.0 - 1.0 / (16.0 * radii**2))
    assert thrust_gain(0, LEVEL, vehicle, pack(params)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("radii", [0.5, 1.0, 2.0, 4.0, 7.5])
def test_ground_effect_of_a_quadrotor_is_the_published_form(radii):
    """Sanchez-Cuevas, Heredia, Ollero 2017 for a square of side d, diagonal b, K_b = 2."""
    side, radius = 0.4, 0.14
    half = side / 2.0
    hubs = ((half, -half, 0.0), (-half, half, 0.0), (half, half, 0.0), (-half, -half, 0.0))
    rotor = RotorParams(radius_m=radius, ground_effect="sanchez_cuevas")
    params = replace(PLAIN, rotor=rotor, rotor_positions_B_m=hubs)
    z, b = radii * radius, side * math.sqrt(2.0)
    share = (
        (radius / (4.0 * z)) ** 2
        + radius**2 * z / math.sqrt((side**2 + 4.0 * z**2) ** 3)
        + radius**2 / 2.0 * z / math.sqrt((2.0 * side**2 + 4.0 * z**2) ** 3)
        + 2.0 * radius**2 * z / math.sqrt((b**2 + 4.0 * z**2) ** 3) * 2.0
    )
    gain = thrust_gain(2, LEVEL, at([700.0] * 4, z), pack(params))
    assert gain == pytest.approx(gain_of(1.0 - min(share, 0.5)), rel=1e-6)


def test_ground_effect_fades_with_height_and_forward_speed():
    rotor = RotorParams(radius_m=0.14, ground_effect="sanchez_cuevas")
    params = replace(PLAIN, rotor=rotor)
    packed = pack(params)
    gains = [thrust_gain(0, LEVEL, at([700.0] * 4, h), packed) for h in np.arange(0.0, 1.6, 0.01)]
    assert np.all(np.diff(gains) <= 0.0)
    assert gains[-1] == 1.0
    assert np.min(np.diff(gains[100:])) > -1e-3  # from 7 radii on to nothing, without a jump
    assert thrust_gain(0, LEVEL, at([0.0] * 4, 0.1), packed) == 1.0
    # Cheeseman and Bennett: at the induced velocity half of the share is left
    thrust = params.thrust_coefficient_N_s2 * 700.0**2
    induced = math.sqrt(thrust / (2.0 * AIR * math.pi * 0.14**2))
    share = image_share(0, 0.2 + params.rotor_positions_B_m[0][2], packed)
    moving = at([700.0] * 4, 0.2, v_W=(0.6 * induced, 0.8 * induced, 0.0))
    gain = thrust_gain(0, LEVEL, moving, packed)
    assert gain == pytest.approx(gain_of(1.0 - share / 2.0), rel=1e-9)


def test_the_lower_side_is_lifted_more_by_the_ground():
    params = replace(PLAIN, rotor=RotorParams(radius_m=0.14, ground_effect="cheeseman_bennett"))
    roll = math.radians(10.0)  # the right side down
    cos, sin = math.cos(roll), math.sin(roll)
    R_WB = ((1.0, 0.0, 0.0), (0.0, cos, -sin), (0.0, sin, cos))
    vehicle = at([700.0] * 4, 0.12)
    right, left = (thrust_gain(i, R_WB, vehicle, pack(params)) for i in (0, 2))
    assert right > left > 1.0


def test_hovers_lower_speed_near_the_ground():
    """In the fleet: the gain at the height of the hubs lifts the vehicle at the same speed."""
    rotor = RotorParams(radius_m=0.14, ground_effect="cheeseman_bennett")
    params = replace(PLAIN, rotor=rotor)
    fleet = Fleet(params, EnvironmentParams(ground_height_m=3.0))
    speed = hover_radps(params)
    hub = params.rotor_positions_B_m[0][2]
    fleet.set_motor_command(0, [speed] * 4)
    fleet.set_motion(0, (0.0, 0.0, 3.0 + 0.14 - hub), rotor_speeds_radps=[speed] * 4)
    fleet.step_to(2_000_000)
    # it rises by 1e-6 m meanwhile
    expected = GRAVITY * (gain_of(1.0 - 1.0 / 16.0) - 1.0)
    assert fleet.truth(0).a_W[2] == pytest.approx(expected, rel=1e-3)


SPUN = replace(
    PLAIN,
    inertia_kg_m2=(0.02, 0.02, 0.03),
    torque_ratio_m=0.0,
    rotor=RotorParams(radius_m=0.14, inertia_kg_m2=5e-5),
)


@pytest.mark.many
def test_spinning_rotors_precess():
    """An axisymmetric body with a wheel: w_xy turns at ((I_z - I_x) w_z + h) / I_x."""
    speeds = np.array([900.0, 900.0, 0.0, 0.0])  # the counter-clockwise pair
    momentum = 5e-5 * 1800.0
    w0, spin = 0.4, 1.5
    fleet = Fleet(SPUN, EnvironmentParams(gravity_mps2=0.0))
    fleet.set_motor_command(0, speeds)
    fleet.set_motion(0, (0.0, 0.0, 50.0), w_B=(w0, 0.0, spin), rotor_speeds_radps=speeds)
    rate = ((0.03 - 0.02) * spin + momentum) / 0.02
    fleet.step_to(SECOND_NS)
    expected = [w0 * math.cos(rate), w0 * math.sin(rate), spin]
    # RK4 at 1 ms: (rate dt)^5 / 120 each step, a thousand steps: below 1e-11
    assert fleet.truth(0).w_B == pytest.approx(expected, abs=1e-9)


def test_spinning_up_turns_the_body_back():
    """Angular momentum of body and rotors is kept when no air brakes the rotors."""
    fleet = Fleet(SPUN, EnvironmentParams(gravity_mps2=0.0))
    fleet.set_motor_command(0, [800.0, 800.0, 200.0, 200.0])
    fleet.set_motion(0, (0.0, 0.0, 50.0))
    fleet.step_to(SECOND_NS // 2)
    expected = -5e-5 * 2 * (800.0 - 200.0) / 0.03
    # after 20 and more time constants; both are linear in the speeds
    assert fleet.truth(0).w_B[2] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("speed", [0.0, 5e-324, 1e-200, 1e-80, 1e-3])
@pytest.mark.parametrize("sink_mps", [1e-300, 1e-3, 5.0, 200.0])
def test_a_stopping_rotor_in_a_descent_has_finite_thrust(speed, sink_mps):
    """A lost motor's speed falls through all numbers there are."""
    force, torque = wrench(X500, [speed] * 4, (0.0, 0.0, -sink_mps))
    assert np.isfinite(force).all()
    assert np.isfinite(torque).all()
    assert 0.0 <= force[2] <= 2.0 * 4 * X500.thrust_coefficient_N_s2 * speed**2 + 1e-12


MOMENTUM = replace(
    PLAIN,
    rotor=RotorParams(
        radius_m=0.14, inflow_model="momentum", blade_inflow_N_s2=1e-3, inflow_drag_N_s2_m2=2e-3
    ),
)


def blade_element_thrust(speed, w, V, climbing=True):
    """Thrust of one rotor where blade elements and Glauert's momentum theory agree, by brentq."""
    rotor, k = MOMENTUM.rotor, MOMENTUM.thrust_coefficient_N_s2
    disc = 2.0 * 1.225 * math.pi * rotor.radius_m**2
    slope = rotor.blade_inflow_N_s2 * speed
    hover = math.sqrt(k * speed**2 / disc)
    lift = k * speed**2 + slope * hover

    def excess(induced):
        thrust = lift - slope * (w + induced)
        return thrust - disc * induced * math.hypot(V, w + induced)

    # in axial descent the climbing branch lies above -w, the windmill brake state below -w / 2
    axial = V == 0.0 and w < 0.0
    low, high = (-w if axial else 0.0, 100.0) if climbing else (0.0, -0.5 * w)
    induced = brentq(excess, low, high, xtol=1e-13)
    return lift - slope * (w + induced), w + induced


@pytest.mark.parametrize("w", [-6.0, -2.0, 0.0, 1.0, 5.0, 9.0])
@pytest.mark.parametrize("V", [0.0, 3.0, 14.0])
def test_momentum_theory_is_solved(w, V):
    speeds = [800.0] * 4
    force, _ = wrench(MOMENTUM, speeds, (0.6 * V, -0.8 * V, w))
    thrust, flow = blade_element_thrust(800.0, w, V)
    assert force[2] == pytest.approx(4.0 * thrust, rel=1e-6)
    side = 4.0 * MOMENTUM.rotor.inflow_drag_N_s2_m2 * flow
    assert force[:2] == pytest.approx([-side * 0.6 * V, side * 0.8 * V], rel=1e-6, abs=1e-12)


def test_momentum_theory_brakes_a_windmill():
    force, _ = wrench(MOMENTUM, [600.0] * 4, (0.0, 0.0, -40.0))
    assert force[2] == pytest.approx(
        4.0 * blade_element_thrust(600.0, -40.0, 0.0, False)[0], rel=1e-4
    )


@pytest.mark.parametrize("V", [0.0, 1.0, 3.0, 8.0, 20.0])
def test_thrust_goes_over_without_a_step_in_descent(V):
    falls = np.arange(0.0, 40.0, 0.05)
    thrust = [wrench(MOMENTUM, [800.0] * 4, (V, 0.0, -w))[0][2] for w in falls]
    hover = 4.0 * MOMENTUM.thrust_coefficient_N_s2 * 800.0**2
    # the branches are about one hover thrust apart, and go over within half of v_h, 3.3 m/s: a
    # smooth step's steepest slope is 1.5 of the mean, 0.023 in 0.05 m/s, doubled for the branches'
    assert np.abs(np.diff(thrust)).max() < 0.046 * hover


def test_residuals_are_the_sums_that_they_say():
    rng = np.random.default_rng(4)
    c, m = rng.normal(0.0, 1e-4, 10), rng.normal(0.0, 1e-5, 16)
    rotor = replace(PLAIN.rotor, thrust_residual=tuple(c), torque_residual=tuple(m))
    speeds, (u, v, w) = np.array([700.0, 720.0, 760.0, 650.0]), (4.0, -3.0, 1.5)
    with_one = wrench(replace(PLAIN, rotor=rotor), speeds, (u, v, w))
    without = wrench(PLAIN, speeds, (u, v, w))
    x, y, _ = np.array(PLAIN.rotor_positions_B_m).T
    ones, d = np.ones(4), -(u * x + v * y) / 5.0
    parts = [
        speeds**2, speeds * w, speeds * 5.0, w * w * ones, w * 5.0 * ones, 25.0 * ones,
        (u * u - v * v) * ones, speeds * 5.0 * d, 25.0 * d, w * 5.0 * d,
    ]  # fmt: skip
    thrust = c @ np.array(parts)
    square, climb, past = speeds**2, speeds * w, speeds * 5.0
    roll = y * (m[0] * square + m[1] * climb + m[2] * past) + (m[3] * speeds + m[4] * w) * v
    pitch = x * (m[5] * square + m[6] * climb + m[7] * past) + (m[8] * speeds + m[9] * w) * u
    roll += m[10] * climb + m[11] * w * u + m[12] * y * u * u
    pitch += m[13] * climb + m[14] * w * v + m[15] * x * v * v
    assert with_one[0][2] - without[0][2] == pytest.approx(thrust.sum(), rel=1e-6)
    expected = [y @ thrust + roll.sum(), -x @ thrust - pitch.sum()]
    assert (with_one[1] - without[1])[:2] == pytest.approx(expected, rel=1e-6)


def test_a_residual_stays_beyond_the_advance_ratio_of_its_flights():
    c = tuple(np.random.default_rng(4).normal(0.0, 1e-4, 10))
    rotor = replace(PLAIN.rotor, thrust_residual=c)
    bounded = replace(rotor, residual_advance_ratio=0.1)
    speeds, way = np.full(4, 700.0), np.array([4.0, -3.0, 1.5])
    edge = 0.1 * rotor.radius_m * 700.0 / np.linalg.norm(way) * way

    def added(rotor, air):
        return (
            wrench(replace(PLAIN, rotor=rotor), speeds, air)[0][2]
            - wrench(PLAIN, speeds, air)[0][2]
        )

    assert added(bounded, 0.9 * edge) == pytest.approx(added(rotor, 0.9 * edge), rel=1e-6)
    assert added(bounded, 1.5 * edge) == pytest.approx(added(rotor, edge), rel=1e-6)


def test_figures_that_the_inflow_model_does_not_use_are_refused():
    with pytest.raises(InputError, match="inflow_N_s2 with linear"):
        RotorParams(inflow_model="momentum", inflow_N_s2=1e-4)
    with pytest.raises(InputError, match="allowed: none or 10"):
        RotorParams(thrust_residual=(1.0,))
    with pytest.raises(InputError, match="allowed: none or 10 or 16"):
        RotorParams(torque_residual=(1.0,) * 11)
