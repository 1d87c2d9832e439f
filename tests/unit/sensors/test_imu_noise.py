"""Each noise of the IMU alone against its distribution; the low-pass against scipy.signal.

Bounds hold with a probability of 1 - 1e-4 or better for a model that is right; the seeds are fixed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import signal
from sensor_rig import assert_deviation

from quadsim.base.compiled import kernel
from quadsim.base.noise import stream
from quadsim.base.parameters import dtype_of, pack
from quadsim.base.records import KINEMATICS
from quadsim.sensors.devices import load_device
from quadsim.sensors.imu import MODEL, ImuParams, imu_step
from quadsim.sensors.imu_channel import noise_gain
from quadsim.sensors.model import start_slot
from quadsim.sensors.slot import SensorWorld
from quadsim.sim.scenario import as_installed, load_scenario
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import EMPTY_SCENE

GRAVITY = 9.80665
COUNT = 8_000
TRIADS = [("accel", slice(0, 3)), ("gyro", slice(3, 6))]


@kernel
def steps(slots: Any, environments: Any, scene: Any, truths: Any, white: Any, values: Any) -> None:
    """A sample at each truth after the first."""
    for k in range(values.shape[0]):
        slots[0].previous = truths[k]
        imu_step(slots, SensorWorld(environments, scene), truths[k + 1 : k + 2], white[k])
        for i in range(6):
            values[k, i] = slots[0].sample.values[i]


def standing(count, rate_hz):
    """Truths of a vehicle at rest."""
    truths = np.zeros(count + 1, KINEMATICS)
    truths["stamp_ns"] = round(1e9 / rate_hz) * np.arange(count + 1)
    truths["q_WB"][:, 0] = 1.0
    return truths


def units_sampled(params, truths, seeds):
    """Samples (seeds, count, 6) of as many devices, force then rate."""
    environment = np.array([pack(EnvironmentParams())])
    values = np.zeros((len(seeds), len(truths) - 1, 6))
    slots = np.zeros(1, dtype_of(MODEL.slot))
    for seed, found in zip(seeds, values, strict=True):
        generator = stream(seed, "quad", "imu")
        start_slot(slots, MODEL, params, generator)
        white = generator.standard_normal((len(found), MODEL.white_count))
        steps(slots, environment, EMPTY_SCENE, truths, white, found)
    return values


def sampled(params, truths=None, count=COUNT):
    """Samples (count, 6) of one device, at rest or along truths."""
    truths = standing(count, params.rate_hz) if truths is None else truths
    return units_sampled(params, truths, [1])[0]


def errors(params, count=COUNT):
    """Samples at rest without gravity."""
    return sampled(params, None, count) - [0.0, 0.0, GRAVITY, 0.0, 0.0, 0.0]


def ensemble(params, units, count):
    """Errors (units, count, 6) of as many devices."""
    found = units_sampled(params, standing(count, params.rate_hz), range(units))
    return found - [0.0, 0.0, GRAVITY, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("rate_hz", [200.0, 1000.0])
@pytest.mark.parametrize(("name", "axes"), TRIADS)
@pytest.mark.many
def test_white_noise_has_its_density_at_any_rate_and_is_white(name, axes, rate_hz):
    density = np.array([1e-3, 2e-3, 4e-3])
    params = replace(ImuParams(rate_hz=rate_hz), **{f"{name}_noise_density": tuple(density)})
    found = errors(params)
    sigma = density * math.sqrt(rate_hz)
    assert_deviation(found[:, axes], sigma)
    assert np.all(np.abs(found[:, axes].mean(axis=0)) < 4.0 * sigma / math.sqrt(COUNT))
    for lag in (1, 2, 10):
        correlation = np.mean(found[lag:, axes] * found[:-lag, axes], axis=0) / sigma**2
        assert np.all(np.abs(correlation) < 4.0 / math.sqrt(COUNT))
    other = slice(3, 6) if name == "accel" else slice(0, 3)
    assert np.all(np.abs(found[:, other]) < 1e-12)


@pytest.mark.parametrize(("name", "axes"), TRIADS)
@pytest.mark.many
def test_instability_is_stationary_from_switch_on(name, axes):
    sigma = np.array([1e-3, 2e-3, 3e-3])
    params = replace(
        ImuParams(rate_hz=1.0),
        **{f"{name}_instability": tuple(sigma), f"{name}_instability_time_s": 20.0},
    )
    units = 1000
    found = ensemble(params, units, 40)[:, :, axes]
    for k in (0, 10, 39):
        assert_deviation(found[:, k], sigma)
    # IEEE Std 952: correlation exp(-t/T); of n pairs it is known to sqrt((1 + r^2) / n)
    for lag in (1, 20, 39):
        wanted = math.exp(-lag / 20.0)
        correlation = np.mean(found[:, 0] * found[:, lag], axis=0) / sigma**2
        assert np.all(np.abs(correlation - wanted) < 4.0 * math.sqrt((1 + wanted**2) / units))


@pytest.mark.many
def test_instability_keeps_its_correlation_from_sample_to_sample():
    rate_hz, time_s = 100.0, 0.1
    params = ImuParams(rate_hz=rate_hz, gyro_instability=(1.0,) * 3, gyro_instability_time_s=time_s)
    path = errors(params)[:, 3:]
    wanted = math.exp(-1.0 / (rate_hz * time_s))
    fitted = np.sum(path[1:] * path[:-1], axis=0) / np.sum(path[:-1] ** 2, axis=0)
    # the regression's deviation is sqrt((1 - r^2) / n)
    assert np.all(np.abs(fitted - wanted) < 4.0 * math.sqrt((1.0 - wanted**2) / COUNT))
    assert_deviation(path[1:] - wanted * path[:-1], math.sqrt(1.0 - wanted**2))


@pytest.mark.many
def test_a_missing_truth_makes_one_longer_step_of_each_noise():
    """An interval of n samples: white noise falls, the walk grows, the process forgets more."""
    truths = standing(2, 100.0)
    truths["stamp_ns"][1:] += 30_000_000
    white = ImuParams(rate_hz=100.0, accel_noise_density=(1e-2,) * 3)
    walk = ImuParams(rate_hz=100.0, accel_bias_walk=(1e-2,) * 3)
    memory = ImuParams(rate_hz=100.0, accel_instability=(1.0,) * 3, accel_instability_time_s=0.05)
    short, long = (
        [sampled(params, path)[0, :2] for params in (white, walk)]
        for path in (standing(2, 100.0), truths)
    )
    assert long[0] == pytest.approx(short[0] / 2.0, rel=1e-12)
    assert long[1] == pytest.approx(short[1] * 2.0, rel=1e-12)
    units = 1000
    first = np.array([start_of(memory, seed) for seed in range(units)])
    later = units_sampled(memory, truths, range(units))[:, 0, :2]
    wanted = math.exp(-0.04 / 0.05)
    correlation = np.mean(first * later, axis=0)
    assert np.all(np.abs(correlation - wanted) < 4.0 * math.sqrt((1 + wanted**2) / units))


def start_of(params, seed):
    """The accelerometer's Gauss-Markov process at switch-on, x and y."""
    states = np.zeros(1, MODEL.state)
    MODEL.start(states[0], params, stream(seed, "quad", "imu"))
    return states["accel"]["correlated"][0, :2]


@pytest.mark.many
def test_quantised_readings_are_multiples_of_the_step_and_off_by_its_uniform_error():
    step, params = 7e-4, ImuParams(gyro_noise_density=(1e-3,) * 3, gyro_step=7e-4)
    counts = errors(params, 5000)[:, 3:] / step
    assert counts == pytest.approx(np.round(counts), abs=1e-9)
    exact = errors(replace(params, gyro_step=0.0), 5000)[:, 3:] / step
    lost = (counts - exact).ravel()
    assert np.max(np.abs(lost)) <= 0.5 + 1e-9
    # uniform: variance 1/12, whose estimate from n has the deviation sqrt(1/180/n)
    assert abs(np.var(lost) - 1.0 / 12.0) < 4.0 * math.sqrt(1.0 / 180.0 / lost.size)


@pytest.mark.parametrize("bandwidth_hz", [2.0, 60.0, 130.0, 249.0])
def test_noise_behind_the_low_pass_has_the_power_of_its_impulse_response(bandwidth_hz):
    impulse = np.zeros(40_000)
    impulse[0] = 1.0
    response = signal.lfilter(*signal.butter(2, bandwidth_hz, fs=500.0), impulse)
    assert noise_gain(bandwidth_hz, 500.0) == pytest.approx(np.sum(response**2), rel=1e-9)
    assert noise_gain(250.0, 500.0) == 1.0


@pytest.mark.parametrize(("name", "axes"), TRIADS)
@pytest.mark.many
def test_filtered_noise_keeps_its_density_below_the_corner(name, axes):
    density, rate_hz, corner_hz, count = 2e-3, 500.0, 50.0, 400_000
    params = replace(
        ImuParams(rate_hz=rate_hz),
        **{f"{name}_noise_density": (density,) * 3, f"{name}_bandwidth_hz": corner_hz},
    )
    found = errors(params, count)[:, axes]
    variance = getattr(params, f"{name}_variance")()
    # neighbours are alike: n samples count as n / sum of r^2, r their correlation
    impulse = signal.lfilter(*signal.butter(2, corner_hz, fs=rate_hz), np.eye(1, 1000)[0])
    alike = np.correlate(impulse, impulse, "full") / np.sum(impulse**2)
    assert_deviation(found, np.sqrt(variance), int(count / np.sum(alike**2)))
    # one-sided spectrum, so twice the density squared; 1024 of 2048 points overlap
    hz, power = signal.welch(found, rate_hz, nperseg=2048, axis=0)
    for low_hz, high_hz in ((1.0, 15.0), (45.0, 55.0)):
        band = (hz > low_hz) & (hz < high_hz)
        _, gain = signal.freqz(*signal.butter(2, corner_hz, fs=rate_hz), hz[band], fs=rate_hz)
        ratio = power[band].mean(axis=0) / (2.0 * density**2 * np.mean(np.abs(gain) ** 2))
        # Welch with Hann windows that overlap by half: 1.9/2 of the windows count as independent
        windows = 0.95 * (count / 1024) * np.sum(band) / 1.5
        assert np.all(np.abs(ratio - 1.0) < 4.0 / math.sqrt(windows))


def swinging(count, rate_hz, hz):
    """Truths of a sinusoidal acceleration along x and rate about z, of amplitude 1."""
    truths = standing(count, rate_hz)
    t = truths["stamp_ns"] * 1e-9
    truths["a_W"][:, 0] = truths["w_B"][:, 2] = np.sin(2.0 * math.pi * hz * t)
    return truths


@pytest.mark.parametrize("corner_hz", [20.0, 80.0])
@pytest.mark.many
def test_motion_at_the_corner_is_attenuated_by_3_db(corner_hz):
    rate_hz, count = 500.0, 3000
    params = ImuParams(
        rate_hz=rate_hz,
        sampling="point",
        accel_bandwidth_hz=corner_hz,
        gyro_bandwidth_hz=2.0 * corner_hz,
    )
    found = sampled(params, swinging(count, rate_hz, corner_hz))[count // 2 :]
    half = len(found)  # a whole number of periods
    t = np.arange(count // 2 + 1, count + 1) / rate_hz
    wave = np.exp(-2j * math.pi * corner_hz * t)
    gain = np.abs(2.0 / half * wave @ found)
    assert gain[0] == pytest.approx(math.sqrt(0.5), abs=1e-9)
    expected = signal.freqz(*signal.butter(2, 2.0 * corner_hz, fs=rate_hz), corner_hz, fs=rate_hz)
    assert gain[5] == pytest.approx(np.abs(expected[1])[0], abs=1e-9)


def test_step_response_is_that_of_scipys_filter_and_begins_at_rest():
    rate_hz, count, params = 500.0, 300, ImuParams(sampling="point", accel_bandwidth_hz=40.0)
    truths = standing(count, rate_hz)
    truths["a_W"][100:, 0] = 5.0
    found = sampled(params, truths)
    expected = signal.lfilter(*signal.butter(2, 40.0, fs=rate_hz), truths["a_W"][1:, 0])
    assert found[:, 0] == pytest.approx(expected, abs=1e-12)
    assert found[:, 2] == pytest.approx(GRAVITY, abs=1e-12)  # no transient at switch-on
    assert np.max(found[:, 0]) > 5.0 * 1.04  # Butterworth: overshoot of 4.3 %


def test_a_corner_above_half_the_rate_lets_motion_and_noise_pass():
    truths = swinging(500, 500.0, 30.0)
    params = ImuParams(sampling="point", accel_noise_density=(1e-3,) * 3)
    wide = replace(params, accel_bandwidth_hz=250.0, gyro_bandwidth_hz=400.0)
    assert np.array_equal(sampled(params, truths), sampled(wide, truths))
    assert np.array_equal(params.accel_variance(), wide.accel_variance())


def allan_deviation(values, n):
    """Overlapping Allan deviation of (N, axes) samples at averages over n of them."""
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    means = (total[n:] - total[:-n]) / n
    return np.sqrt(0.5 * np.mean((means[n:] - means[:-n]) ** 2, axis=0))


#: In-run stability by data sheets, or by the files where those are silent: mg and deg/h.
IN_RUN = {
    "adis16448": (0.25, 14.5),
    "bmi088": (0.030, 2.0),
    "bmi270": (0.040, 5.0),
    "icm42688p": (0.020, 3.0),
    "mpu6000": (0.036, 4.6),
    "adxl330_lypr540ah": (0.1, 60.0),
    "xsens_dot": (0.03, 10.0),
}


@pytest.mark.parametrize("name", IN_RUN)
def test_in_run_stability_is_the_data_sheets_and_bounded(name):
    """The bias alone, at a sample a second for 14 hours: nothing rises above the sheet's figure.

    At the top of a Gauss-Markov process, 1.89 of its correlation time.
    """
    sheet = load_device("imu", name)
    bias = replace(ImuParams(rate_hz=1.0), **{
        f"{channel}_{key}": getattr(sheet, f"{channel}_{key}")
        for channel in ("accel", "gyro")
        for key in ("instability", "instability_time_s", "bias_walk")
    })  # fmt: skip
    values = units_sampled(bias, standing(50_000, 1.0), [3])[0]
    # of n averages over 100 to 1500 s the deviation is known to sqrt(tau / (2 T)), 2.5 to 12 %,
    # and three axes are taken together
    units = (9.80665e-3, math.radians(1.0) / 3600.0)
    for (channel, axes), figure, unit in zip(TRIADS, IN_RUN[name], units, strict=True):
        for tau_s in (100, 300, 1000):
            found = np.sqrt(np.mean(allan_deviation(values[:, axes], tau_s) ** 2))
            assert found < 1.15 * figure * unit
        top_s = round(1.89 * getattr(sheet, f"{channel}_instability_time_s"))
        top = np.sqrt(np.mean(allan_deviation(values[:, axes], top_s) ** 2))
        assert top == pytest.approx(figure * unit, rel=0.2)


def test_the_default_imu_has_its_in_run_stability_at_100_s():
    """Its white noise included: the sheet's 0.25 mg and 14.5 deg/h."""
    sheet = load_device("imu", "adis16448")
    lasting = {
        f"{channel}_{key}": 0.0 for channel in ("accel", "gyro")
        for key in ("turn_on_sigma", "step", "range", "bandwidth_hz")
    }  # fmt: skip
    device = replace(sheet, rate_hz=1.0, **lasting)
    values = units_sampled(device, standing(50_000, 1.0), [5])[0]
    accel, gyro = (
        np.sqrt(np.mean(allan_deviation(values[:, axes], 100) ** 2)) for _, axes in TRIADS
    )
    # 500 independent averages on three axes: 2 %
    assert accel / 9.80665e-3 == pytest.approx(0.25, rel=0.08)
    assert math.degrees(gyro) * 3600.0 == pytest.approx(14.5, rel=0.08)


def test_the_filter_takes_its_walk_from_the_device():
    """Of a Gauss-Markov process in short times: sigma sqrt(2 / T)."""
    scenario = load_scenario("hover")
    noise = scenario.estimator.noise
    assert noise.accel_bias_walk == pytest.approx(3.967e-3 * math.sqrt(2.0 / 53.0), rel=1e-12)
    assert noise.gyro_bias_walk == pytest.approx(1.1375e-4 * math.sqrt(2.0 / 53.0), rel=1e-12)
    own = replace(scenario.estimator, noise=replace(noise, accel_bias_walk=1e-5))
    given = frozenset({"noise.accel_bias_walk"})
    kept = as_installed(own, scenario.sensors, scenario.environment, given=given)
    assert kept.noise.accel_bias_walk == 1e-5
