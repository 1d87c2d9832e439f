"""Barometer against the standard atmosphere; lab/test_sensor_check has the size of each error."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from sensor_rig import samples, truth_at

from quadsim.sensors import SENSORS
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.world.air.atmosphere import density_at, height_of, pressure_at
from quadsim.world.environment import EnvironmentParams

WORLD = EnvironmentParams()


def readings(params, count=1, seed=1, world=WORLD, **motion):
    """Samples of a vehicle whose state does not change, (count,) Pa."""
    return samples(device(params, seed, world), count, **motion)["pressure_pa"]


def device(params, seed=1, world=WORLD):
    return SimulatedSensor(SENSORS["barometer"], params, world, seed, "quad")


IDEAL_PA = float(readings(BarometerParams())[0])


# ---- the air -----------------------------------------------------------------------------------


def geometric_m(geopotential_m):
    """Height whose geopotential one is given (ISO 2533, eq. 9)."""
    return 6356766.0 * geopotential_m / (6356766.0 - geopotential_m)


@pytest.mark.parametrize(
    ("geopotential_m", "pressure_pa", "density_kgpm3"),
    [
        (0.0, 101325.0, 1.22500),
        (1000.0, 89874.6, 1.11164),
        (5000.0, 54019.9, 0.736116),
        (11000.0, 22632.1, 0.363918),
    ],
)
def test_standard_atmosphere_matches_the_tables(geopotential_m, pressure_pa, density_kgpm3):
    # ISO 2533 tables for geopotential height, given to six figures
    height_m = geometric_m(geopotential_m)
    assert pressure_at(height_m) == pytest.approx(pressure_pa, abs=0.6)
    assert density_at(height_m, pressure_at(height_m)) == pytest.approx(density_kgpm3, rel=1e-5)
    assert height_of(pressure_at(height_m)) == pytest.approx(height_m, abs=1e-6)


@pytest.mark.parametrize("height_m", [488.0, 2000.0, 4000.0])
def test_heights_are_geopotential_in_the_gas_law(height_m):
    """Closed form of ISO 2533 by geopotential height; by the geometric one 2.5 m off at 4 km."""
    geopotential_m = 6356766.0 * height_m / (6356766.0 + height_m)
    exponent = 9.80665 / (287.05287 * 0.0065)
    pressure_pa = 101325.0 * (1.0 - 0.0065 * geopotential_m / 288.15) ** exponent
    assert pressure_at(height_m) == pytest.approx(pressure_pa, rel=1e-12)
    assert height_of(pressure_pa) == pytest.approx(height_m, abs=1e-6)
    naive_m = 288.15 / 0.0065 * (1.0 - (pressure_pa / 101325.0) ** (1.0 / exponent))
    assert height_m - naive_m == pytest.approx(height_m**2 / 6356766.0, rel=1e-3)


@pytest.mark.parametrize("offset_K", [-30.0, 20.0])
def test_an_altimeter_errs_by_the_airs_temperature(offset_K):
    """Against the integral of dp/dz = -g p / (R T), and the pilots' rule of 4 % for 10 K.

    An altimeter set on the ground shows too little of a climb in warm air, by T_ISA / T.
    """
    world = EnvironmentParams(temperature_offset_K=offset_K)
    base_m = world.datum.height_m
    low, high = (readings(BarometerParams(), world=world, p_W=(0, 0, z))[0] for z in (0.0, 500.0))
    z = np.linspace(0.0, base_m + 500.0, 200_001)
    gravity = 9.80665 * (6356766.0 / (6356766.0 + z)) ** 2
    geopotential = 6356766.0 * z / (6356766.0 + z)
    slope = gravity / (287.05287 * (288.15 + offset_K - 0.0065 * geopotential))
    weight = np.concatenate([[0.0], np.cumsum(0.5 * (slope[1:] + slope[:-1]) * np.diff(z))])
    # trapezoids of 5 mm: below 1e-12
    assert high == pytest.approx(101325.0 * math.exp(-weight[-1]), rel=1e-9)
    at_base = 101325.0 * math.exp(-np.interp(base_m, z, weight))
    assert low == pytest.approx(at_base, rel=1e-9)
    shown = height_of(high) - height_of(low)
    # temperatures in the middle: the standard's at the heights shown, the air's at the true ones
    shown_K = 288.15 - 0.00325 * (height_of(high) + height_of(low))
    true_K = 288.15 + offset_K - 0.0065 * (base_m + 250.0)
    # both fall by 3 K over the climb: second order in that is 3e-5
    assert shown / 500.0 == pytest.approx(shown_K / true_K, abs=1e-4)
    assert shown / 500.0 - 1.0 == pytest.approx(-0.004 * offset_K, rel=0.2)


def test_weather_is_the_pressure_at_sea_level():
    deep = EnvironmentParams(sea_level_pressure_pa=98000.0)
    at_sea = (0.0, 0.0, -WORLD.datum.height_m)
    assert readings(BarometerParams(), world=deep, p_W=at_sea)[0] == pytest.approx(98000.0)
    # an altimeter at its standard setting shows too much: a pilot reckons 27 to 30 ft a hPa
    found = height_of(readings(BarometerParams(), world=deep)[0]) - WORLD.datum.height_m
    assert 33.25 * 27 * 0.3048 < found < 33.25 * 30 * 0.3048


# ---- air that flows past it --------------------------------------------------------------------

AHEAD, BACK = (-0.3, 0.2, 0.4), (-0.1, 0.5, -0.6)
PRESSED = BarometerParams(ahead_error=AHEAD, back_error=BACK)
#: At the datum, by the gas equation.
DENSITY = IDEAL_PA / (287.05287 * (288.15 - 0.0065 * 6356766.0 * 488.0 / (6356766.0 + 488.0)))


def test_flow_counts_in_the_bodys_axes_and_against_the_wind():
    v_W, wind_W = np.array([9.0, -4.0, 2.0]), np.array([-3.0, 5.0, 1.0])
    for attitude in Rotation.random(20, random_state=1):
        v_B = attitude.inv().apply(v_W - wind_W)
        ratios = np.where(v_B > 0.0, AHEAD, BACK)
        q_WB = np.roll(attitude.as_quat(), 1)
        found = readings(PRESSED, v_W=v_W, wind_W=wind_W, q_WB=q_WB)[0] - IDEAL_PA
        assert found == pytest.approx(0.5 * DENSITY * np.sum(ratios * v_B**2), rel=1e-9, abs=1e-9)


def test_it_listens_to_the_wind_only_where_it_feels_it():
    needs = SENSORS["barometer"].needs
    assert needs(PRESSED) == {"wind"}
    assert needs(BarometerParams(back_error=(0.0, 0.0, 0.1))) == {"wind"}
    assert needs(BarometerParams()) == frozenset()


# ---- lag, counts, range ------------------------------------------------------------------------


@pytest.mark.parametrize("rate_hz", [10.0, 200.0])
def test_the_lag_follows_an_even_change_exactly_at_any_rate(rate_hz):
    # climbing at 2 m/s behind a lag T: p(t) - s (t - T + T exp(-t/T)), of the pressure's slope s
    tau_s, seconds = 0.5, 3.0
    sensor = device(BarometerParams(rate_hz=rate_hz, response_time_s=tau_s))
    truth = truth_at()
    sensor.measure(truth)
    for k in range(1, round(seconds * rate_hz) + 1):
        truth.stamp_ns = k * sensor.period_ns
        t_s = k / rate_hz
        truth.p_W[2] = 2.0 * t_s
        found = sensor.measure(truth).pressure_pa
        slope = -2.0 * DENSITY * 9.80665
        expected = IDEAL_PA + slope * (t_s - tau_s * (1.0 - math.exp(-t_s / tau_s)))
        # the pressure itself bends: its second derivative is slope^2 / p, 5.5e-3 Pa/s^2
        assert found == pytest.approx(expected, abs=5.5e-3 * seconds**2 / 2.0)


def test_counts_and_range_come_last():
    counts = readings(BarometerParams(noise_sigma_pa=3.0, step_pa=0.66), 500) / 0.66
    assert counts == pytest.approx(np.round(counts), abs=1e-6)
    assert len(np.unique(np.round(counts))) > 10
    assert readings(BarometerParams(bias_pa=1e4, range_max_pa=1e5))[0] == 1e5
    assert readings(BarometerParams(bias_pa=-1e4, range_min_pa=9e4))[0] == 9e4
