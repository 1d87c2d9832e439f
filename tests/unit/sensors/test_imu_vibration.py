"""Propeller vibration in the IMU against closed forms: lines, aliases, attenuation, floor."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import signal, stats

from quadsim.base.compiled import new_record
from quadsim.base.records import KINEMATICS
from quadsim.sensors.imu import MODEL, ImuParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.sensors.vibration import VibrationParams
from quadsim.world.environment import EnvironmentParams

REFERENCE_RADPS = 2.0 * math.pi * 100.0
GRAVITY = 9.80665
REST = np.array([0.0, 0.0, GRAVITY, 0.0, 0.0, 0.0])


def shaken(
    sampling="point", rate_hz=500.0, bandwidth_hz=0.0, rotation_deg=(0.0, 0.0, 0.0), **lines
):
    """An ideal IMU on a vehicle that shakes."""
    return ImuParams(
        rate_hz=rate_hz,
        sampling=sampling,
        rotation_deg=rotation_deg,
        accel_bandwidth_hz=bandwidth_hz,
        gyro_bandwidth_hz=bandwidth_hz,
        vibration=VibrationParams(reference_speed_radps=REFERENCE_RADPS, **lines),
    )


def recorded(params, speeds, count=600, seed=1):
    """Times of the samples and samples (count, 6) less gravity; ``speeds(t)`` of the rotors."""
    sensor = SimulatedSensor(MODEL, params, EnvironmentParams(), seed, "quad")
    truth = new_record(KINEMATICS)
    truth.q_WB[0] = 1.0
    times, found = np.zeros(count), np.zeros((count, 6))
    for k in range(count + 1):
        truth.stamp_ns = k * sensor.period_ns
        now = np.atleast_1d(speeds(truth.stamp_ns * 1e-9))
        truth.rotor_speed_radps[: len(now)] = now
        sample = sensor.measure(truth)
        if k > 0:
            times[k - 1], found[k - 1] = truth.stamp_ns * 1e-9, sample["values"]
    return times, found - REST


def steady(hz):
    return lambda t: 2.0 * math.pi * hz


def phasors(times, found, hz):
    """Complex amplitude of a line on each axis, by least squares; nothing else must be there."""
    basis = np.stack([np.cos(2 * math.pi * hz * times), -np.sin(2 * math.pi * hz * times)], axis=1)
    solution, *_ = np.linalg.lstsq(basis, found, rcond=None)
    assert np.max(np.abs(found - basis @ solution)) < 1e-9 * max(1.0, np.max(np.abs(found)))
    return solution[0] + 1j * solution[1]


def test_a_rotor_out_of_balance_turns_the_force_about_its_axis():
    params = shaken(accel_rotor_mps2=(2.0, 3.0, 1.0), gyro_rotor_radps=(0.1, 0.2, 0.3))
    z = phasors(*recorded(params, steady(100.0)), 100.0)
    assert np.abs(z) == pytest.approx([2.0, 3.0, 1.0, 0.1, 0.2, 0.3], rel=1e-9)
    assert np.angle(z[0] / z[1]) == pytest.approx(math.pi / 2.0)  # y a quarter turn behind x
    assert np.angle(z[0] / z[2]) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("blades", [1, 2, 3, 5])
def test_lines_lie_at_the_rotors_and_the_blades_frequency_and_grow_with_the_square(blades):
    lines = {"accel_rotor_mps2": (1.0, 0.0, 0.0), "gyro_blade_radps": (0.0, 0.0, 0.5)}
    times, found = recorded(shaken(blades=blades, **lines), steady(30.0))
    assert abs(phasors(times, found[:, :1], 30.0)[0]) == pytest.approx(0.09, rel=1e-9)
    blade = abs(phasors(times, found[:, 5:], blades * 30.0)[0])
    assert blade == pytest.approx(0.045, rel=1e-9)


def test_a_line_of_190_hz_sampled_at_120_hz_appears_at_50_hz():
    params = shaken(rate_hz=120.0, accel_rotor_mps2=(1.5, 0.0, 0.0))
    times, found = recorded(params, steady(190.0), count=1200)
    amplitude = 1.5 * 1.9**2
    spectrum = 2.0 / 1200 * np.abs(np.fft.rfft(found[:, 0]))
    hz = np.fft.rfftfreq(1200, 1.0 / 120.0)
    assert hz[np.argmax(spectrum)] == pytest.approx(50.0)  # |190 - 2 x 120|
    # the period is whole nanoseconds, so that the line is a hair off the bin
    assert np.max(spectrum) == pytest.approx(amplitude, rel=1e-4)
    assert np.sum(spectrum**2) == pytest.approx(amplitude**2, rel=1e-4)
    assert abs(phasors(times, found, 190.0)[0]) == pytest.approx(amplitude, rel=1e-6)


@pytest.mark.parametrize("hz", [3.0, 40.0, 110.0, 190.0, 260.0])
def test_an_averaged_line_is_attenuated_by_sinc_and_delayed_by_half_an_interval(hz):
    lines = {"accel_rotor_mps2": (1.0, 0.0, 0.0), "accel_blade_mps2": (0.0, 0.0, 1.0)}
    point = recorded(shaken("point", 120.0, **lines), steady(hz))
    average = recorded(shaken("average", 120.0, **lines), steady(hz))
    for axis, frequency in ((0, hz), (2, 2.0 * hz)):
        ratio = (
            phasors(average[0], average[1][:, [axis]], frequency)
            / phasors(point[0], point[1][:, [axis]], frequency)
        )[0]  # fmt: skip
        period_s = point[0][0]
        half = math.pi * frequency * period_s
        expected = np.sinc(frequency * period_s) * np.exp(-1j * half)
        assert abs(ratio - expected) < 1e-8


def test_the_average_of_a_rotor_that_hardly_turns_is_smooth():
    # below and above the angle at which the mean is taken by the trapezoid: A (speed/reference)^2
    lines = {"accel_rotor_mps2": (1e9, 0.0, 0.0)}
    for turn_rad in (0.9e-3, 1.1e-3):
        speed = turn_rad * 500.0
        point = recorded(shaken("point", **lines), lambda t, s=speed: s, 5)[1][:, 0]
        average = recorded(shaken("average", **lines), lambda t, s=speed: s, 5)[1][:, 0]
        strength = 1e9 * (speed / REFERENCE_RADPS) ** 2
        # half an interval later, and less by turn^2/24
        assert np.max(np.abs(average[1:] - 0.5 * (point[1:] + point[:-1]))) < strength * 2e-7


@pytest.mark.parametrize("hz", [50.0, 200.0, 350.0])
def test_the_sensors_bandwidth_acts_on_lines_as_the_analogue_filter(hz):
    lines = {"accel_rotor_mps2": (1.0, 0.0, 0.0), "gyro_blade_radps": (0.0, 0.0, 1.0)}
    wide = recorded(shaken(rate_hz=333.0, **lines), steady(hz))
    # the corner above half the rate, and below: the same, as what aliases was filtered before
    for corner_hz in (200.0, 100.0):
        low = recorded(shaken(rate_hz=333.0, bandwidth_hz=corner_hz, **lines), steady(hz))
        b, a = signal.butter(2, 2.0 * math.pi * corner_hz, analog=True)
        for axis, frequency in ((0, hz), (5, 2.0 * hz)):
            ratio = (
                phasors(low[0], low[1][:, [axis]], frequency)
                / phasors(wide[0], wide[1][:, [axis]], frequency)
            )[0]  # fmt: skip
            expected = signal.freqs(b, a, [2.0 * math.pi * frequency])[1][0]
            assert abs(ratio - expected) < 1e-8


def test_lines_are_those_of_the_body_and_turn_with_the_mount():
    params = shaken(rotation_deg=(0.0, 0.0, 90.0), accel_rotor_mps2=(2.0, 0.0, 1.0))
    z = phasors(*recorded(params, steady(100.0)), 100.0)
    assert np.abs(z[:3]) == pytest.approx([0.0, 2.0, 1.0], abs=1e-9)


def test_the_phase_is_the_integral_of_the_speed():
    # a speed that rises evenly: the trapezoid is exact, and the phase a parabola
    def speed(t):
        return 300.0 + 400.0 * t

    times, found = recorded(shaken(accel_rotor_mps2=(1.0, 1.0, 0.0)), speed, 1000)
    z = (found[:, 0] + 1j * found[:, 1]) / (speed(times) / REFERENCE_RADPS) ** 2
    start = z * np.exp(-1j * (300.0 * times + 200.0 * times**2))
    assert start == pytest.approx(np.full(1000, start[0]), abs=1e-9)
    assert abs(start[0]) == pytest.approx(1.0, abs=1e-9)


def test_a_rotor_at_rest_does_not_shake_and_keeps_its_phase():
    params = shaken("average", accel_rotor_mps2=(1.0, 1.0, 1.0), accel_floor=(0.1, 0.1, 0.1))
    assert np.array_equal(recorded(params, steady(0.0), 5)[1][:, :2], np.zeros((5, 2)))


@pytest.mark.many
def test_each_rotor_has_its_own_phase_which_the_seed_draws():
    params, units = shaken(accel_rotor_mps2=(1.0, 0.0, 0.0)), 150
    fours = np.array(
        [
            phasors(*recorded(params, lambda t: 4 * [REFERENCE_RADPS], 4, seed), 100.0)[0]
            for seed in range(units)
        ]
    )
    # four unit phasors of random phase: the square has the mean 4 and the variance 12
    assert abs(np.mean(np.abs(fours) ** 2) - 4.0) < 4.0 * math.sqrt(12.0 / units)
    # and every direction is as likely: mean 0, with a variance of 2 on each part
    assert abs(np.mean(fours)) < 4.0 * math.sqrt(4.0 / units)


@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.many
def test_the_floor_has_its_density_and_grows_with_the_square_of_the_speed(share):
    floor = {"accel_floor": (0.1, 0.2, 0.4), "gyro_floor": (0.01, 0.02, 0.04)}
    params, count = shaken(**floor), 6000
    speeds = share * REFERENCE_RADPS
    _, found = recorded(params, lambda t: [speeds, speeds, speeds, speeds], count)
    expected = np.array([0.1, 0.2, 0.4, 0.01, 0.02, 0.04]) * math.sqrt(500.0) * share**2
    low, high = np.sqrt(stats.chi2.ppf([5e-5, 1.0 - 5e-5], count) / count)
    ratio = found.std(axis=0) / expected
    assert np.all((ratio > low) & (ratio < high))


def test_the_stated_variance_holds_the_floor_at_the_reference_speed():
    params = replace(
        shaken(accel_floor=(0.3, 0.0, 0.4), rotation_deg=(90.0, 0.0, 90.0)),
        accel_noise_density=(0.1, 0.1, 0.1),
        accel_step=0.05,
    )
    # the sensor's axes are the body's y, z and x
    expected = (np.array([0.0, 0.4, 0.3]) ** 2 + 0.01) * 500.0 + 0.05**2 / 12.0
    assert params.accel_variance() == pytest.approx(expected)
    assert params.gyro_variance() == pytest.approx(np.zeros(3))
