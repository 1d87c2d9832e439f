"""Gravity against the potential of the ellipsoid; navigation through a gravity that changes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quadsim.base.errors import InputError
from quadsim.base.parameters import flatten, from_mapping, pack, unflatten
from quadsim.base.records import KINEMATICS
from quadsim.estimation.eskf.alignment import gravity_here, new_eskf
from quadsim.estimation.eskf.mechanisation import ImuInput, predict_or_align
from quadsim.estimation.eskf.parameters import EstimatorParams, FusionParams
from quadsim.geometry.geodesy import Datum
from quadsim.geometry.rotation import from_euler
from quadsim.geometry.vector import vec3
from quadsim.sensors.imu import MODEL, ImuParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.air.atmosphere import air_density, air_pressure
from quadsim.world.earth.gravity import datum_gravity, gravity_at, normal_gravity
from quadsim.world.environment import EnvironmentParams

MODEL_WORLD = EnvironmentParams(gravity="model")

# WGS 84: a, GM (with the atmosphere) and w by definition; E is the linear eccentricity
A_M, GM_M3_PER_S2, SPIN_RADPS = 6378137.0, 3.986004418e14, 7.292115e-5
B_M = A_M * (1.0 - 1.0 / 298.257223563)
E_M = math.sqrt(A_M**2 - B_M**2)


def potential(x: float, z: float) -> float:
    """Gravity potential of the ellipsoid in its meridian plane.

    Heiskanen and Moritz, *Physical Geodesy* (1967), eq. 2-62, in ellipsoidal coordinates u, beta.
    """
    r2 = x * x + z * z - E_M**2
    u = math.sqrt(0.5 * r2 * (1.0 + math.sqrt(1.0 + 4.0 * (E_M * z / r2) ** 2)))
    sin_beta = z / u

    def q(u: float) -> float:  # its series: the closed form loses ten digits
        terms = ((-1) ** (n + 1) * n / ((2 * n + 1) * (2 * n + 3)) for n in range(1, 9))
        return 2.0 * sum(c * (E_M / u) ** (2 * n + 1) for n, c in enumerate(terms, 1))

    half = 0.5 * SPIN_RADPS**2
    return (
        GM_M3_PER_S2 / E_M * math.atan2(E_M, u)
        + half * A_M**2 * q(u) / q(B_M) * (sin_beta**2 - 1.0 / 3.0)
        + half * (u * u + E_M**2) * (1.0 - sin_beta**2)
    )


def exact_gravity(latitude_deg: float, height_m: float) -> float:
    """Length of the potential's gradient, by central differences over 200 m."""
    sine, cosine = math.sin(math.radians(latitude_deg)), math.cos(math.radians(latitude_deg))
    normal_m = A_M**2 / math.sqrt((A_M * cosine) ** 2 + (B_M * sine) ** 2)
    x = (normal_m + height_m) * cosine
    z = ((B_M / A_M) ** 2 * normal_m + height_m) * sine
    d = 100.0
    g_x = (potential(x + d, z) - potential(x - d, z)) / (2.0 * d)
    g_z = (potential(x, z + d) - potential(x, z - d)) / (2.0 * d)
    return math.hypot(g_x, g_z)


@pytest.mark.parametrize("latitude_deg", [-90.0, -33.0, 0.0, 47.4, 60.0])
@pytest.mark.parametrize("height_m", [0.0, 488.0, 3000.0])
def test_normal_gravity_is_the_slope_of_the_ellipsoids_potential(latitude_deg, height_m):
    gravity, gradient = normal_gravity(latitude_deg, height_m)
    # rounding of the potential, 6e7 to 1e-16, over 200 m; the published series leaves 3 f^2 of
    # its slope away, f = 1/298
    left_out = 3.0 / 298.0**2
    assert gravity == pytest.approx(
        exact_gravity(latitude_deg, height_m), abs=5e-9 + left_out * gradient * height_m
    )
    below, above = (exact_gravity(latitude_deg, height_m + d) for d in (-500.0, 500.0))
    assert gradient == pytest.approx((below - above) / 1000.0, rel=1.2 * left_out)


def test_published_values():
    # NIMA TR8350.2, table 3.4: normal gravity at equator and pole
    assert normal_gravity(0.0, 0.0)[0] == pytest.approx(9.7803253359, abs=1e-10)
    assert normal_gravity(90.0, 0.0)[0] == pytest.approx(9.8321849378, abs=1e-9)


def test_gravity_is_linear_about_the_datum():
    packed = pack(MODEL_WORLD)
    datum = MODEL_WORLD.datum
    assert gravity_at(packed, 0.0) == datum_gravity(datum)[0]
    for z_m in (-400.0, 100.0, 1000.0):
        true = normal_gravity(datum.latitude_deg, datum.height_m + z_m)[0]
        # the term left out, 3 g (z/a)^2
        assert gravity_at(packed, z_m) == pytest.approx(true, abs=30.0 * (z_m / A_M) ** 2)


def test_fixed_gravity_stays_and_takes_a_gradient():
    assert gravity_at(pack(EnvironmentParams()), 1e4) == 9.80665
    sloping = EnvironmentParams(gravity_mps2=9.7, gravity_gradient_per_s2=1e-4)
    assert gravity_at(pack(sloping), 50.0) == pytest.approx(9.695, abs=1e-12)


def test_the_model_follows_the_datum():
    north = EnvironmentParams(gravity="model", datum=Datum(latitude_deg=70.0))
    assert pack(north).gravity_mps2 - pack(MODEL_WORLD).gravity_mps2 > 0.01
    high = EnvironmentParams(gravity="model", datum=Datum(height_m=2488.0))
    assert pack(high).gravity_mps2 == pytest.approx(
        gravity_at(pack(MODEL_WORLD), 2000.0), abs=30.0 * (2000.0 / A_M) ** 2
    )
    assert unflatten(EnvironmentParams, flatten(north), "test") == north


@pytest.mark.parametrize("key", ["gravity_mps2", "gravity_gradient_per_s2"])
def test_a_value_beside_the_model_is_refused(key):
    with pytest.raises(InputError, match=rf"{key}: 0.0005 with gravity: model; allowed: with"):
        from_mapping(EnvironmentParams, {"gravity": "model", key: 5e-4}, "world.yaml")


def motion(t_s: float) -> Any:
    """Up and down by a kilometre within a minute, turning."""
    truth = np.zeros(1, KINEMATICS).view(np.recarray)[0]
    w = 2.0 * math.pi / 60.0
    truth.stamp_ns = round(t_s * 1e9)
    truth.p_W[:] = 20.0 * math.sin(3.0 * w * t_s), 0.0, 500.0 * (1.0 - math.cos(w * t_s))
    truth.v_W[:] = 60.0 * w * math.cos(3.0 * w * t_s), 0.0, 500.0 * w * math.sin(w * t_s)
    truth.a_W[2] = 500.0 * w * w * math.cos(w * t_s)
    truth.q_WB[:] = from_euler(0.0, 0.0, 0.3 * t_s)
    truth.w_B[2] = 0.3
    return truth


def drift_m(estimator: EstimatorParams, position_B_m: tuple[float, float, float]) -> float:
    """Where the blind filter is after a minute that begins with the truth, off in m."""
    device = ImuParams(rate_hz=100.0, position_B_m=position_B_m)
    sensor = SimulatedSensor(MODEL, device, MODEL_WORLD, 1, "quad")
    state, packed = new_eskf(pack(estimator)), pack(estimator)
    lever = np.array(position_B_m)  # along z, about which the body turns

    def begin(truth: Any) -> None:
        state.running, state.imu_count, state.period_s = 1, 1, 0.01
        state.stamp_ns = state.imu_stamp_ns = truth.stamp_ns
        state.p_W[:], state.v_W[:] = truth.p_W + lever, truth.v_W
        state.q_WS[:] = truth.q_WB

    truth = motion(1.0)
    begin(truth)
    sensor.measure(truth)
    for k in range(1, 6001):
        truth = motion(1.0 + 0.01 * k)
        sample = sensor.measure(truth)
        none = (0.0, 0.0, 0.0)
        f_S, w_S = vec3(sample.f_S), vec3(sample.w_S)
        predict_or_align(state, packed, int(truth.stamp_ns), ImuInput(f_S, w_S, none, none))
    return float(np.linalg.norm(state.p_W - lever - truth.p_W))


@pytest.mark.many
@pytest.mark.parametrize("up_m", [0.0, 5.0])
def test_blind_navigation_through_changing_gravity_follows_the_truth(up_m):
    gravity_mps2, gradient = MODEL_WORLD.gravity_and_gradient()
    told = EstimatorParams(
        gravity_mps2=gravity_mps2,
        gravity_gradient_per_s2=gradient,
        fusion=FusionParams(gravity_after_s=1e6),  # inertial navigation alone
    )
    # the trapezoid of the velocity: dt^2/12 of the acceleration's change, 10 m/s^2: 8e-5 m
    assert drift_m(told, (0.0, 0.0, up_m)) < 5e-4
    # 3.1e-6 /s^2 times 500 m on average for a minute: some 2.5 m
    assert drift_m(replace(told, gravity_gradient_per_s2=0.0), (0.0, 0.0, up_m)) > 1.0


@pytest.mark.parametrize("sampling", ["point", "average"])
def test_an_imu_feels_the_gravity_of_its_own_height(sampling):
    world = EnvironmentParams(gravity_gradient_per_s2=1e-3)
    device = ImuParams(sampling=sampling, position_B_m=(2.0, 0.0, 0.0))
    sensor = SimulatedSensor(MODEL, device, world, 1, "quad")
    truth = np.zeros(1, KINEMATICS).view(np.recarray)[0]
    truth.q_WB[:] = from_euler(0.0, -math.pi / 2.0, 0.0)  # nose up: the IMU 2 m above
    truth.p_W[2] = 100.0
    sensor.measure(truth)
    truth.stamp_ns = 2_000_000
    f_S = sensor.measure(truth).f_S
    np.testing.assert_allclose(f_S, [9.80665 - 0.102, 0.0, 0.0], atol=1e-12)


def test_an_average_has_the_mean_gravity_of_its_interval():
    world = EnvironmentParams(gravity_gradient_per_s2=1e-3)
    sensor = SimulatedSensor(MODEL, ImuParams(), world, 1, "quad")
    truth = np.zeros(1, KINEMATICS).view(np.recarray)[0]
    truth.q_WB[0], truth.v_W[2] = 1.0, 100.0
    sensor.measure(truth)
    truth.stamp_ns, truth.p_W[2] = 100_000_000, 10.0
    assert sensor.measure(truth).f_S[2] == pytest.approx(9.80665 - 0.005, abs=1e-12)


def test_the_filter_takes_gravity_in_the_middle_of_a_step():
    params = pack(EstimatorParams(gravity_gradient_per_s2=1e-3))
    state = new_eskf(params)
    state.running, state.imu_count, state.period_s = 1, 1, 0.1
    state.q_WS[0], state.v_W[2] = 1.0, 100.0
    none = (0.0, 0.0, 0.0)
    predict_or_align(state, params, 100_000_000, ImuInput(none, none, none, none))
    assert state.v_W[2] == pytest.approx(100.0 - 0.1 * (9.80665 - 0.005), abs=1e-12)


def test_the_filter_starts_with_the_gravity_of_its_height():
    params = pack(EstimatorParams(gravity_gradient_per_s2=1e-3))
    state = new_eskf(params)
    assert gravity_here(state.alignment, params) == 9.80665
    state.alignment.fix_count = 4
    state.alignment.fix_sum_W[2] = 400.0
    assert gravity_here(state.alignment, params) == pytest.approx(9.70665, abs=1e-12)


@pytest.mark.parametrize(
    ("height_m", "density", "pressure"),
    [(0.0, 1.22500, 101325.0), (1000.0, 1.11164, 89874.6), (5000.0, 0.736116, 54019.9)],
)
def test_air_of_the_standard_atmosphere(height_m, density, pressure):
    """ISO 2533:1975, table 5 (as U.S. Standard Atmosphere 1976, table I, by geopotential)."""
    height_m *= 6356766.0 / (6356766.0 - height_m)  # the table is by geopotential height
    world = pack(EnvironmentParams(datum=Datum(height_m=height_m - 30.0)))
    assert air_density(world, 30.0) == pytest.approx(density, rel=1e-5)
    assert air_pressure(world, 30.0) == pytest.approx(pressure, rel=1e-5)
    low = pack(
        EnvironmentParams(datum=Datum(height_m=height_m - 30.0), sea_level_pressure_pa=0.9 * 101325)
    )
    assert air_density(low, 30.0) == pytest.approx(0.9 * density, rel=1e-5)
