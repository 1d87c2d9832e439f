"""Wakes: momentum, decay and width of a turbulent jet, and what they do to a vehicle below."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.files import find
from quadsim.base.parameters import load, pack
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.neighbours import wake_at, wake_of
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.environment import EnvironmentParams

AIR = 1.225
GRAVITY = 9.80665
LEVEL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
X500 = load(VehicleParams, find("vehicles", "x500"))
CRAZYFLIE = load(VehicleParams, find("vehicles", "crazyflie2"))
PACKED = pack(X500)
THRUST_N = X500.mass_kg * GRAVITY
AREA_M2 = 4 * math.pi * X500.rotor.radius_m**2
#: Radius of one disc of the area of all.
RADIUS_M = math.sqrt(AREA_M2 / math.pi)
CORE_MPS = math.sqrt(2.0 * THRUST_N / (AIR * AREA_M2))


def downwash_W(p_W, p_above_W, R_WB, thrust_N, density, params, air_W):
    """Velocity that the wake of a vehicle adds to the air at a point."""
    if thrust_N == 0.0:
        return (0.0, 0.0, 0.0)
    wake = wake_of(R_WB, thrust_N, density, params, air_W)
    offset_W = tuple(np.subtract(p_W, p_above_W).tolist())
    return wake_at(wake, offset_W, float(np.dot(offset_W, wake.down_W)))


def below(depth_m, side_m=0.0, thrust_N=THRUST_N, R_WB=LEVEL, air_W=(0.0, 0.0, 0.0)):
    """Downward speed of the wake at a depth under a vehicle 100 m up."""
    point = (side_m, 0.0, 100.0 - depth_m)
    return -downwash_W(point, (0.0, 0.0, 100.0), R_WB, thrust_N, AIR, PACKED, air_W)[2]


@pytest.mark.parametrize("depth_m", [2.0, 5.0, 10.0, 25.0])
def test_the_jet_keeps_the_momentum_of_the_thrust(depth_m):
    """The integral of rho U^2 over a plane below is the thrust."""
    side = np.linspace(0.0, 1.0 * depth_m, 401)
    speed = np.array([below(depth_m, r) for r in side])
    flux_N = np.trapezoid(AIR * speed**2 * 2.0 * math.pi * side, side)
    begun = depth_m / math.hypot(depth_m, RADIUS_M)
    # the tail beyond four widths holds (1 + 16)^-3 of it
    assert flux_N == pytest.approx(THRUST_N * begun**2, rel=1e-3)


def test_the_core_has_twice_the_induced_velocity():
    """Momentum theory; within two radii the wake has contracted to 0.9 of it."""
    assert below(2.0 * RADIUS_M) == pytest.approx(0.894 * CORE_MPS, rel=1e-3)
    assert below(5.0 * RADIUS_M) == pytest.approx(0.981 * CORE_MPS, rel=1e-3)


def test_far_below_it_is_a_round_turbulent_jet():
    """U x = 6.06 sqrt(4 T / (pi rho)); half the speed at 0.096 x (Panchapakesan and Lumley 1993).

    The width follows from the momentum and comes out 4 % narrower than measured.
    """
    for depth_m in (5.0, 10.0, 30.0):
        decay = 6.06 * math.sqrt(4.0 * THRUST_N / (math.pi * AIR))
        begun = depth_m / math.hypot(depth_m, RADIUS_M)
        assert below(depth_m) == pytest.approx(begun * decay / depth_m, rel=1e-9)
        half = 0.096 * depth_m
        assert below(depth_m, half) == pytest.approx(0.5 * below(depth_m), rel=0.06)


def test_nothing_above_or_far_aside():
    assert below(0.0) == 0.0
    assert below(-1.0) == 0.0
    assert below(1.0, 5.0) == 0.0
    assert below(1.0, 0.0, 0.0) == 0.0
    assert below(1000.0) == 0.0


def test_the_wake_ends_without_a_step():
    """Along the axis and across it the air changes by less than 1 % of its speed in 1 % of the way.

    A jet falls as 1/x; the fade from 0.75 to 0.5 m/s takes a third of the depth.
    """
    deepest_m = 6.06 * math.sqrt(4.0 * THRUST_N / (math.pi * AIR)) / 0.5
    depths = np.linspace(0.5 * deepest_m, 1.1 * deepest_m, 600)
    along = np.array([below(z) for z in depths])
    assert along[-1] == 0.0
    assert along[0] > 0.9
    assert np.abs(np.diff(along)).max() < 0.01
    across = np.array([below(5.0, r) for r in np.linspace(0.0, 4.0, 801)])
    assert across[-1] == 0.0
    assert np.abs(np.diff(across)).max() < 0.01 * across[0]
    edge = np.abs(np.diff(across[across < 0.02 * across[0]]))
    assert edge.max() < 1e-3 * across[0]


def test_the_wake_leaves_a_tilted_vehicle_along_its_axis():
    tilt = math.radians(30.0)
    cos, sin = math.cos(tilt), math.sin(tilt)
    R_WB = ((cos, 0.0, sin), (0.0, 1.0, 0.0), (-sin, 0.0, cos))  # the nose down, thrust forwards
    axis = np.array([-sin, 0.0, -cos])
    point = tuple(np.array([0.0, 0.0, 50.0]) + 3.0 * axis)
    blown = downwash_W(point, (0.0, 0.0, 50.0), R_WB, THRUST_N, AIR, PACKED, (0.0, 0.0, 0.0))
    assert np.array(blown) == pytest.approx(below(3.0) * axis, rel=1e-12)


def test_forward_flight_leaves_the_wake_behind():
    """The axis at a depth is where the vehicle's air was when it left: v times the way's time."""
    depth_m, v = 1.5, 3.0
    assert depth_m < 6.06 * math.sqrt(2.0) * RADIUS_M  # in the core, at a steady speed
    behind = -v * depth_m / CORE_MPS
    assert below(depth_m, behind, air_W=(v, 0.0, 0.0)) == pytest.approx(below(depth_m))
    assert below(depth_m, 0.0, air_W=(v, 0.0, 0.0)) < 0.6 * below(depth_m)
    # farther down the air slows: the time is the integral of dx / U
    x = np.linspace(1e-3, 8.0, 2001)
    slowness = np.maximum(
        1.0 / CORE_MPS, x / (below(8.0) * 8.0) * (8.0 / math.hypot(8.0, RADIUS_M))
    )
    behind = -0.5 * np.trapezoid(slowness, x)
    assert below(8.0, behind, air_W=(0.5, 0.0, 0.0)) == pytest.approx(below(8.0), rel=1e-5)


def test_a_crazyflie_below_another_is_pushed_as_measured():
    """Shi et al., Neural-Swarm, ICRA 2020, fig. 3: 4 g half a metre below one of 34 g.

    The force here is the loss of thrust in the wake's inflow. Closer, at 0.3 m, 8 g were measured;
    a wake that reaches every rotor alike gives 5.
    """
    thrust_N = 0.034 * GRAVITY
    at = (0.0, 0.0, 10.0)
    for depth_m, low_g, high_g in ((0.5, 3.0, 5.0), (0.3, 4.0, 8.0)):
        p_W = (0.0, 0.0, 10.0 - depth_m)
        blown = downwash_W(p_W, at, LEVEL, thrust_N, AIR, pack(CRAZYFLIE), (0.0, 0.0, 0.0))[2]
        speed = math.sqrt(thrust_N / (4.0 * CRAZYFLIE.thrust_coefficient_N_s2))
        lost_N = 4.0 * CRAZYFLIE.rotor.inflow_N_s2 * speed * -blown
        assert low_g < lost_N / GRAVITY * 1e3 < high_g


def test_a_vehicle_sinks_under_another_in_the_fleet():
    """Side by side both hover; one under the other falls by its lost thrust."""
    speed = math.sqrt(CRAZYFLIE.mass_kg * GRAVITY / (4 * CRAZYFLIE.thrust_coefficient_N_s2))
    fleet = Fleet(CRAZYFLIE, EnvironmentParams(), [(0.0, 0.0, 0.0), (3.0, 0.0, 0.0)])
    for lower_at, sinks in (((3.0, 0.0, 4.5), False), ((0.0, 0.0, 4.5), True)):
        for i, p_W in enumerate(((0.0, 0.0, 5.0), lower_at)):
            fleet.set_motor_command(i, [speed] * 4)
            fleet.set_motion(i, p_W, rotor_speeds_radps=[speed] * 4)
        fleet.step_to(fleet.stamp_ns + 4_000_000)
        a_z = float(fleet.truth(1).a_W[2])
        lost_N = 4 * CRAZYFLIE.rotor.inflow_N_s2 * speed * 6.6
        assert a_z == pytest.approx(
            -lost_N / CRAZYFLIE.mass_kg if sinks else 0.0, rel=0.1, abs=1e-3
        )
        assert abs(float(fleet.truth(0).a_W[2])) < 1e-3


@pytest.mark.parametrize("size_m", [1.0, 5.0, 40.0])
def test_all_of_a_fleet_get_the_sum_of_all_wakes(size_m):
    """Nobody is left out for being too far away: random places, attitudes and speeds.

    The wakes are those at a point, each by itself; the density is that of ISO 2533.
    """
    rng = np.random.default_rng(3)
    count, k = 12, X500.thrust_coefficient_N_s2
    world = EnvironmentParams(wind_W_mps=(2.0, -1.0, 0.0))
    felt = empty = 0
    for _ in range(20):
        fleet = Fleet(X500, world, [(3.0 * i, 0.0, 0.0) for i in range(count)])
        for i in range(count):
            fleet.set_motion(
                i,
                rng.uniform(-size_m, size_m, 3) * (0.3, 0.3, 1.0) + (0.0, 0.0, 100.0),
                rng.normal(0.0, 3.0, 3),
                np.roll(Rotation.from_euler("xyz", rng.normal(0.0, 0.3, 3)).as_quat(), 1),
                rotor_speeds_radps=[rng.choice([0.0, 400.0, 900.0])] * 4,
            )
        expected_W = np.zeros((count, 3))
        for i in range(count):
            above = fleet._vehicles[i]
            p_W, v_W, speed = above.x[:3].copy(), above.x[3:6].copy(), above.x[13]
            height_m = world.datum.height_m + p_W[2]
            geopotential_m = 6356766.0 * height_m / (6356766.0 + height_m)
            warm = 1.0 - 0.0065 * geopotential_m / 288.15
            density = 101325.0 * warm**5.25588 / (287.05287 * 288.15 * warm)
            R_WB = Rotation.from_quat(np.roll(above.x[6:10], -1)).as_matrix()
            thrust_N = 4.0 * k * speed**2 * above.held.density_ratio
            for j in set(range(count)) - {i}:
                expected_W[j] += downwash_W(
                    tuple(fleet._vehicles[j].x[:3].tolist()), tuple(p_W.tolist()),
                    tuple(map(tuple, R_WB.tolist())), float(thrust_N), float(density), PACKED,
                    tuple((v_W - above.held.wind_W_mps).tolist()),
                )  # fmt: skip
        fleet.step_to(1_000_000)
        blown_W = fleet._vehicles["inputs"]["downwash_W_mps"]
        np.testing.assert_allclose(blown_W, expected_W, rtol=1e-5, atol=1e-12)
        felt += np.count_nonzero(expected_W[:, 2])
        empty += np.count_nonzero(expected_W[:, 2] == 0.0)
    assert felt > 20
    assert empty > 20
