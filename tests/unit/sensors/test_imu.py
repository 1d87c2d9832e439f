"""The IMU's motion, its deterministic errors and their order."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.polynomial.chebyshev import Chebyshev
from scipy.spatial.transform import Rotation
from sensor_rig import samples, truth_at

from quadsim.sensors.devices import load_device
from quadsim.sensors.imu import MODEL, ImuParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.sensors.vibration import VibrationParams
from quadsim.world.environment import EnvironmentParams

WORLD = EnvironmentParams(gravity_mps2=9.81)
DT_NS = 2_000_000
POINT = ImuParams(sampling="point")


def first_sample(params, **fields):
    """Specific force and rate of a vehicle whose state does not change."""
    sample = samples(device(params), 1, **fields)[0]
    return sample["f_S"], sample["w_S"]


def device(params, seed=1):
    return SimulatedSensor(MODEL, params, WORLD, seed, "quad")


@pytest.mark.parametrize("sampling", ["average", "point"])
def test_at_rest_it_reads_plus_g(sampling):
    f_S, w_S = first_sample(ImuParams(sampling=sampling))
    assert f_S == pytest.approx([0.0, 0.0, 9.81], abs=1e-12)
    assert w_S == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize(
    ("sampling", "share"),
    # seen from the middle, the change of velocity is the chord's: sin(w dt/2) / (w dt/2), 7e-7 less
    [("average", 1.0), ("compensated", math.sin(2e-3) / 2e-3)],
)
def test_averaged_lever_arm_of_a_spin_reads_the_same(sampling, share):
    sensor = device(ImuParams(position_B_m=(0.1, 0.0, 0.0), sampling=sampling))
    for k in range(2):
        q_WB = np.roll(Rotation.from_rotvec([0.0, 0.0, 2.0 * k * DT_NS * 1e-9]).as_quat(), 1)
        sample = sensor.measure(truth_at(k * DT_NS, q_WB=q_WB, w_B=(0.0, 0.0, 2.0)))
    # to the order of the expansion, (w dt)^4 / 1920 of it
    assert sample.f_S == pytest.approx([-0.4 * share, 0.0, 9.81], abs=1e-12)


def test_a_quaternion_and_its_negative_are_one_attitude():
    def averaged(sign):
        sensor = device(ImuParams())
        sensor.measure(truth_at(0))
        q_WB = np.roll(Rotation.from_rotvec([0.01, 0.02, -0.03]).as_quat(), 1)
        return np.copy(sensor.measure(truth_at(DT_NS, q_WB=sign * q_WB))["values"])

    assert averaged(-1.0) == pytest.approx(averaged(1.0), abs=1e-12)


class Tumbling:
    """Roll, pitch and yaw change together while the centre swings."""

    def angles(self, t):
        """Yaw, pitch, roll in rad."""
        return (1.5 * t + math.sin(3.0 * t), 0.8 * math.sin(2.5 * t), 2.0 * t + math.cos(4.0 * t))

    def rates(self, t):
        return (1.5 + 3.0 * math.cos(3 * t), 2.0 * math.cos(2.5 * t), 2.0 - 4.0 * math.sin(4 * t))

    def turned(self, t):
        return Rotation.from_euler("ZYX", self.angles(t))

    def rate_B(self, t):
        """Angular velocity by the kinematics of Euler angles."""
        (_, pitch, roll), (psi, theta, phi) = self.angles(t), self.rates(t)
        return np.array(
            [
                phi - psi * math.sin(pitch),
                theta * math.cos(roll) + psi * math.cos(pitch) * math.sin(roll),
                -theta * math.sin(roll) + psi * math.cos(pitch) * math.cos(roll),
            ]
        )

    def centre(self, t):
        return np.array([0.3 * math.sin(4 * t), -0.2 * math.cos(5 * t), 0.5 * math.sin(3 * t)])

    def point(self, t, r_B):
        return self.centre(t) + self.turned(t).apply(r_B)


def derivative_of(function, t, order):
    """Derivative of a vector of time, from the polynomial through 17 points within 0.1 s.

    Rounding of 1e-16 grows by n^4/h^2 at worst, to 1e-10; the polynomial itself is off by
    (6 rad/s 0.05 s)^17/17!, which is less.
    """

    def of_axis(i):
        component = np.vectorize(lambda x: function(x)[i])
        return Chebyshev.interpolate(component, 16, [t - 0.1, t + 0.1]).deriv(order)(t)

    return np.array([of_axis(i) for i in range(3)])


@pytest.mark.parametrize("t", [0.3, 1.7, 4.1])
def test_tumbling_it_reads_the_derivatives_of_its_own_position(t):
    motion, r_B = Tumbling(), np.array([0.1, -0.2, 0.05])
    mount = Rotation.from_euler("ZYX", [30.0, -20.0, 75.0], degrees=True)
    params = replace(POINT, position_B_m=tuple(r_B), rotation_deg=(75.0, -20.0, 30.0))
    f_S, w_S = first_sample(
        params,
        a_W=derivative_of(motion.centre, t, 2),
        q_WB=np.roll(motion.turned(t).as_quat(), 1),
        w_B=motion.rate_B(t),
        w_dot_B=derivative_of(motion.rate_B, t, 1),
    )
    a_W = derivative_of(lambda x: motion.point(x, r_B), t, 2)
    to_S = (motion.turned(t) * mount).inv()
    assert f_S == pytest.approx(to_S.apply(a_W + np.array([0.0, 0.0, 9.81])), abs=1e-9)
    assert w_S == pytest.approx(mount.inv().apply(motion.rate_B(t)), abs=1e-12)
    # the lever arm has something to say
    assert np.linalg.norm(a_W - derivative_of(motion.centre, t, 2)) > 1.0


def mean_over(function, t, dt_s, points=12):
    """Time average of a vector over an interval, by Gauss and Legendre's rule."""
    x, weights = np.polynomial.legendre.leggauss(points)
    rows = [function(t + 0.5 * dt_s * (1.0 + xi)) for xi in x]
    return 0.5 * weights @ np.array(rows)


def sampled(motion, params, times, dt_s):
    """(N, 6) samples over the intervals that begin at the times, of one device without errors."""
    rows = []
    for t in times:
        sensor = device(params)
        for k, now in enumerate((t, t + dt_s)):
            sample = sensor.measure(
                truth_at(
                    round(k * dt_s * 1e9),
                    p_W=motion.centre(now),
                    v_W=derivative_of(motion.centre, now, 1),
                    q_WB=np.roll(motion.turned(now).as_quat(), 1),
                    w_B=motion.rate_B(now),
                )
            )
        rows.append(np.concatenate([sample.f_S, sample.w_S]))
    return np.array(rows)


@pytest.mark.parametrize(
    ("rate_hz", "most_mps2", "most_radps"), [(500, 4e-9, 2e-9), (250, 6e-8, 3e-8)]
)
def test_an_average_is_that_of_time_in_the_turning_axes(rate_hz, most_mps2, most_radps):
    """Tumbling at 6 rad/s with 10 m/s^2, off the centre; delta angles are 1000 times as far off."""
    motion, r_B, dt_s = Tumbling(), np.array([0.1, -0.2, 0.05]), 1.0 / rate_hz
    times = np.linspace(0.2, 4.0, 9)

    def force(t):
        a_W = derivative_of(lambda x: motion.point(x, r_B), t, 2)
        return motion.turned(t).inv().apply(a_W + np.array([0.0, 0.0, 9.81]))

    params = ImuParams(rate_hz=rate_hz, position_B_m=tuple(r_B))
    found = sampled(motion, params, times, dt_s)
    f_B = np.array([mean_over(force, t, dt_s, 4) for t in times])
    w_B = np.array([mean_over(motion.rate_B, t, dt_s) for t in times])
    assert np.abs(found[:, 3:] - w_B).max() < most_radps
    assert np.abs(found[:, :3] - f_B).max() < most_mps2
    compensated = sampled(motion, replace(params, sampling="compensated"), times, dt_s)
    assert np.abs(compensated[:, 3:] - w_B).max() > 1000.0 * most_radps
    assert np.abs(compensated[:, :3] - f_B).max() > 1000.0 * most_mps2


@pytest.mark.parametrize(("rate_hz", "share"), [(1000.0, 0.005), (500.0, 0.02), (250.0, 0.08)])
def test_averages_of_a_cone_drift_as_the_textbook_says(rate_hz, share):
    """A cone of 0.2 deg at 80 Hz: who integrates averages drifts by w a^2/2 (1 - sin(w T)/(w T)).

    Savage, Strapdown inertial navigation integration algorithm design, part 1, J. Guidance 21,
    1998: 26, 101 and 347 deg/h. The attitude of a compensated device does not drift.
    """
    half, omega, dt_ns = math.radians(0.2), 2.0 * math.pi * 80.0, round(1e9 / rate_hz)
    count = round(1.0 * rate_hz)
    drifts = {}
    for sampling in ("average", "compensated"):
        sensor, attitude = device(ImuParams(rate_hz=rate_hz, sampling=sampling)), None
        for k in range(count + 1):
            t = k * dt_ns * 1e-9
            axis = np.array([math.cos(omega * t), math.sin(omega * t), 0.0])
            # of the rotation vector a(t) in a plane: w = sin(a) e_dot - (1 - cos(a)) e x e_dot
            across = omega * np.array([-axis[1], axis[0], 0.0])
            w_B = math.sin(half) * across - (1.0 - math.cos(half)) * np.cross(axis, across)
            turned = Rotation.from_rotvec(half * axis)
            q_WB = np.roll(turned.as_quat(), 1)
            sample = sensor.measure(truth_at(k * dt_ns, q_WB=q_WB, w_B=w_B))
            if attitude is None:
                attitude = turned
            else:
                attitude = attitude * Rotation.from_rotvec(np.array(sample.w_S) * dt_ns * 1e-9)
        drifts[sampling] = (attitude * turned.inv()).as_rotvec()[2] / t
    step = omega / rate_hz
    textbook = 0.5 * omega * half**2 * (1.0 - math.sin(step) / step)
    assert abs(drifts["average"]) == pytest.approx(textbook, rel=share)
    assert abs(drifts["compensated"]) < 1e-9


def test_scale_and_cross_axis_come_before_the_bias():
    # x reads y by 0.02 and z by -0.03; the row is then scaled
    params = replace(
        POINT,
        gyro_scale=(1.5, 1.0, 0.5),
        gyro_cross_axis=(0.02, -0.03, 0.01, 0.04, -0.05, 0.06),
        gyro_bias=(0.1, 0.2, 0.3),
    )
    _, w_S = first_sample(params, w_B=(1.0, 2.0, 4.0))
    expected = [
        1.5 * (1.0 + 0.02 * 2.0 - 0.03 * 4.0) + 0.1,
        (2.0 + 0.01 * 1.0 + 0.04 * 4.0) + 0.2,
        0.5 * (4.0 - 0.05 * 1.0 + 0.06 * 2.0) + 0.3,
    ]
    assert w_S == pytest.approx(expected, abs=1e-12)


def test_scale_bias_quantisation_and_range_in_the_order_of_the_paper():
    params = replace(
        POINT,
        accel_scale=(1.0, 1.0, 1.1),
        accel_bias=(0.2, 0.0, -0.3),
        accel_step=0.25,
        accel_range=10.0,
    )
    # 9.81 * 1.1 - 0.3 = 10.491 -> 10.5 -> limited to 10
    assert first_sample(params)[0] == pytest.approx([0.25, 0.0, 10.0])
    assert first_sample(replace(params, accel_range=0.0))[0][2] == pytest.approx(10.5)


def test_saturation_holds_both_ends():
    params = replace(POINT, gyro_range=2.0)
    assert list(first_sample(params, w_B=(5.0, -5.0, 1.0))[1]) == [2.0, -2.0, 1.0]


def test_nonlinearity_is_a_parabola_that_ends_at_its_share_of_the_full_scale():
    params = replace(POINT, gyro_range=8.0, gyro_nonlinearity=0.01)
    for rate in (0.0, 2.0, -4.0, 7.0):
        _, w_S = first_sample(params, w_B=(rate, 0.0, 0.0))
        assert w_S[0] - rate == pytest.approx(0.01 * 8.0 * (rate / 8.0) ** 2, abs=1e-15)


def test_bias_by_gravity_along_each_axis():
    # 0.1 deg/s/g, as data sheets say it
    k = math.radians(0.1) / 9.80665
    params = replace(POINT, gyro_g_sensitivity=(k, 2 * k, 3 * k), rotation_deg=(0.0, -90.0, 0.0))
    _, w_S = first_sample(params)  # nose up: its x axis reads +g
    assert w_S == pytest.approx([k * 9.81, 0.0, 0.0], abs=1e-15)


def test_warming_up():
    params = replace(
        POINT,
        rate_hz=1.0,
        ambient_offset_K=-5.0,
        warm_up_K=20.0,
        warm_up_s=40.0,
        accel_temperature_bias=(0.01, 0.0, 0.0),
        accel_temperature_scale=(0.0, 0.0, 1e-3),
        gyro_temperature_bias=(0.0, 2e-3, 0.0),
        gyro_temperature_scale=(0.0, 0.0, -2e-3),
    )
    sensor = device(params)
    truth = truth_at(0, w_B=(0.0, 0.0, 1.0))
    sensor.measure(truth)
    for k in range(1, 201):
        truth.stamp_ns = k * 1_000_000_000
        sample = sensor.measure(truth)
        warmth_K = -5.0 + 20.0 * (1.0 - math.exp(-k / 40.0))
        assert sample.f_S == pytest.approx(
            [0.01 * warmth_K, 0.0, 9.81 * (1.0 + 1e-3 * warmth_K)], abs=1e-12
        )
        assert sample.w_S == pytest.approx([0.0, 2e-3 * warmth_K, 1.0 - 2e-3 * warmth_K], abs=1e-12)


def test_an_ideal_imu_has_no_errors_and_needs_only_the_pose():
    assert load_device("imu", "ideal_imu") == ImuParams(sampling="compensated")
    assert MODEL.needs(ImuParams()) == frozenset()
    assert MODEL.needs(POINT) == {"accel"}
    shaken = VibrationParams(gyro_floor=(0.0, 1e-3, 0.0))
    assert MODEL.needs(ImuParams(vibration=shaken)) == {"motors"}
    assert not VibrationParams(reference_speed_radps=100.0, blades=3).on
