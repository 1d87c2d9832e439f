"""A sensor that repeats one value to the bit does not measure; one that repeats by right does."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.layout import GNSS_POSITION, RANGE
from quadsim.estimation.eskf.repetition import SOURCES
from quadsim.estimation.interface import repeating_sensors
from quadsim.geometry.geodesy import Datum
from quadsim.sensors.faults import FaultParams
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

G = 9.80665
DATUM = Datum()
IMU_NS = 5_000_000


def repeating(estimator):
    return repeating_sensors(int(estimator.lines["frozen"][0]))


def circle(t):
    """Position and specific force, level, of a circle of 2 m at 1 rad/s."""
    p_W = np.array([2.0 * np.sin(t), 2.0 * np.cos(t), 5.0])
    return p_W, np.array([-p_W[0], -p_W[1], G])


def fly_poses(spoil, duration_s=12.0, seed=3):
    """An estimator flown on poses at 50 Hz, which may be spoiled; its errors over time."""
    rng = np.random.default_rng(seed)
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    verdicts, rows = [], []
    for k in range(1, round(duration_s * 200)):
        stamp_ns, t = k * IMU_NS, k * 0.005
        p_W, f_S = circle(t)
        estimator.imu(stamp_ns, f_S + rng.normal(0.0, 0.05, 3), rng.normal(0.0, 0.01, 3))
        if k % 4 == 0:
            turn = Rotation.from_rotvec(rng.normal(0.0, 0.003, 3)).as_quat()[[3, 0, 1, 2]]
            pose = spoil(t, (p_W + rng.normal(0.0, 0.001, 3), turn))
            verdicts.append((t, estimator.external_pose(stamp_ns, *pose)))
        if estimator.running:
            now = estimator.odometry()
            rows.append((t, *(now.p_W - p_W), *np.sqrt(now.p_variance)))
    return estimator, verdicts, np.array(rows)


def test_a_pose_that_repeats_is_refused_and_the_filter_says_how_uncertain_it_becomes():
    held = {}

    def spoil(t, pose):
        return held.setdefault("pose", pose) if 6.0 < t < 9.0 else pose

    estimator, verdicts, rows = fly_poses(spoil)
    frozen = [verdict for t, verdict in verdicts if 6.0 < t < 9.0]
    assert frozen == ["ok"] + ["unchanged"] * (len(frozen) - 1)
    assert {verdict for t, verdict in verdicts if not 6.0 < t < 9.0} == {"ok"}
    assert estimator.counts["external_position_unchanged"] == len(frozen) - 1
    assert estimator.state.starts == 1
    assert estimator.state.recoveries == 0
    t, error, sigma = rows[:, 0], rows[:, 1:4], rows[:, 4:7]
    # the largest of 3 x 12 s of errors that change within a second stays below 4.5 sigma
    assert (np.abs(error[t > 2.0]) < 4.5 * sigma[t > 2.0]).all()
    assert sigma[(t > 8.9) & (t < 9.0)].min() > 0.1  # stale for 3 s
    assert np.abs(error[t > 9.5]).max() < 0.05


def test_poses_that_are_published_more_often_than_measured_are_taken_once():
    held = {}

    def spoil(t, pose):
        return held.setdefault(int(t / 0.06 + 1e-6), pose)  # every third is new

    estimator, verdicts, rows = fly_poses(spoil)
    words = [verdict for t, verdict in verdicts if t > 1.0]
    assert words.count("ok") == pytest.approx(len(words) / 3, abs=2)
    assert "repeats" not in str(estimator.health()["status"])
    assert np.abs(rows[rows[:, 0] > 2.0, 1:4]).max() < 0.05


#: Of each sensor: rate, white noise over its step.
BY_RIGHT = {
    "pressure": (25.0, 0.3),
    "range": (20.0, 0.5),
    "gyroscope": (50.0, 0.5),
    "accelerometer": (50.0, 0.5),
    "magnetic_field": (20.0, 0.5),
}


@pytest.mark.parametrize("sensor", BY_RIGHT)
def test_coarse_sensors_repeat_by_right_and_are_found_frozen_all_the_same(sensor):
    rate_hz, noise = BY_RIGHT[sensor]
    rng = np.random.default_rng(11)
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    steps = {"pressure": 10.0, "range": 0.001, "gyroscope": 1e-3, "accelerometer": 5e-3}
    step = steps.get(sensor, 3e-7)
    held, repeats = {}, 0

    def quantised(name, value, now):
        if name != sensor:
            return value + rng.normal(0.0, 0.01 * max(abs(np.max(value)), 0.01), np.shape(value))
        read = step * np.round((value + rng.normal(0.0, noise * step, np.shape(value))) / step)
        return held.setdefault("value", read) if now >= 60.0 else read

    before, found_s = None, None
    for k in range(1, round(66.0 * rate_hz)):
        t, stamp_ns = k / rate_hz, round(k * 1e9 / rate_hz)
        f_S = quantised("accelerometer", np.array([0.0, 0.0, G]), t)
        w_S = quantised("gyroscope", np.zeros(3), t)
        estimator.imu(stamp_ns, f_S, w_S)
        read = {"accelerometer": f_S, "gyroscope": w_S}.get(sensor)
        if sensor == "pressure":
            read = quantised(sensor, 94003.0, t)
            estimator.pressure(stamp_ns, float(read))
        elif sensor == "range":
            read = quantised(sensor, 2.0003, t)
            estimator.range(stamp_ns, float(read))
        elif sensor == "magnetic_field":
            read = quantised(sensor, np.array([1e-7, 2.15e-5, -4.3e-5]), t)
            estimator.magnetic_field(stamp_ns, read)
        repeats += before is not None and t < 60.0 and np.array_equal(before, read)
        before = read
        if t < 60.0:
            assert not repeating(estimator), t
        elif found_s is None and repeating(estimator):
            assert repeating(estimator) == [sensor]
            found_s = t - 60.0
    assert repeats > 5.0  # it does repeat
    if sensor == "range":  # over one place it may
        assert found_s is None
    else:
        assert found_s is not None
        assert found_s < 5.0


def test_noiseless_sensors_at_rest_repeat_by_right():
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    at_rest = DATUM.to_geodetic(np.zeros(3))
    for k in range(1, 2000):
        verdicts = [estimator.imu(k * IMU_NS, (0.0, 0.0, G), np.zeros(3))]
        if k % 20 == 0:
            verdicts.append(estimator.gnss_position(k * IMU_NS, at_rest, 0.01 * np.eye(3)))
            verdicts.append(estimator.magnetic_field(k * IMU_NS, (0.0, 2.15e-5, -4.3e-5)))
            verdicts.append(estimator.pressure(k * IMU_NS, 95000.0))
        assert set(verdicts) == {"ok"}
    assert estimator.running
    assert estimator.health()["status"] == "running"


def test_a_frozen_gyroscope_turns_nothing_and_leaves_the_attitude_uncertain():
    rng = np.random.default_rng(5)
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    for k in range(1, 1000):
        w_S = rng.normal(0.0, 0.01, 3) if k < 900 else np.array([0.8, 0.0, 0.0])
        estimator.imu(k * IMU_NS, np.array([0.0, 0.0, G]) + rng.normal(0.0, 0.05, 3), w_S)
        if k % 20 == 0:
            estimator.gnss_position(k * IMU_NS, DATUM.to_geodetic(rng.normal(0.0, 0.3, 3)))
            estimator.magnetic_field(k * IMU_NS, (0.0, 2.15e-5, -4.3e-5))
        if k == 899:
            tilt = np.sqrt(estimator.odometry().attitude_variance[0])
    assert repeating(estimator) == ["gyroscope"]
    assert estimator.health()["status"] == "repeats gyroscope"
    odometry = estimator.odometry()
    np.testing.assert_array_equal(odometry.w_B, 0.0)
    # 0.8 rad/s for the five samples in which it was not known: 0.02 rad
    assert abs(2.0 * odometry.q_WB[1]) < 0.03
    # a rate of 0.5 rad/s that lasts 1 s walks by 0.5 rad per root of a second: 0.35 rad in 0.49 s,
    # of which the fixes tell a part
    grown = np.sqrt(odometry.attitude_variance[0] - tilt**2)
    assert 0.1 < grown < 0.4
    assert estimator.twist_covariance()[3, 3] == pytest.approx(0.25, rel=0.01)


@pytest.mark.parametrize("channel", ["gyro", "accel", ""])
def test_an_imu_that_is_frozen_for_a_moment_ends_in_a_landing(channel):
    for seed in (1, 2):
        loop = ClosedLoop(load_scenario("square", seed=seed))
        loop.fail_sensor("imu", FaultParams("frozen", 8.0 + seed, 0.3, channel=channel))
        loop.fly()
        assert not loop.crashed
        names = [event.name for event in loop.events]
        assert "sensor repeats" in names
        assert loop.manager.state == "disarmed"


def test_a_vehicle_with_a_frozen_sensor_does_not_arm():
    for kind, name in (("imu", "gyroscope"), ("gnss", "gnss_position")):
        loop = ClosedLoop(load_scenario("square", seed=3, duration_s=4.0))
        loop.fail_sensor(kind, FaultParams("frozen", 0.5))
        loop.held = True
        loop.fly(ends=lambda loop: loop.stamp_ns >= 3e9)
        loop.held = False
        loop.fly()
        refused = [event.message for event in loop.events if event.name == "arming refused"]
        assert refused
        assert name in refused[0], SOURCES
        assert loop.manager.state == "disarmed"


def test_a_repeating_sensor_does_not_hide_that_the_filter_diverges():
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    estimator.lines["frozen"] = 1 << RANGE
    assert estimator.health()["status"] == "aligning"
    estimator.lines["state"]["running"] = 1
    assert estimator.health()["status"] == "repeats range"
    estimator.lines["state"]["rejected_in_row"][0, GNSS_POSITION] = 3
    assert estimator.health()["status"] == "diverging"


@pytest.mark.parametrize(("noise", "named"), [(0.0, ""), (0.01, "accelerometer")])
def test_what_settles_without_noise_repeats_by_right(noise, named):
    """A vehicle that comes to rest on its feet; an accelerometer that stops before the flight."""
    rng = np.random.default_rng(5)
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    for k in range(1, 800):
        settling = np.exp(-k / 4.0) if k < 200 else 0.0
        f_S = np.array([0.0, 0.0, G + 0.01 * settling])
        if k < 200:
            f_S += rng.normal(0.0, noise, 3)
        estimator.imu(k * IMU_NS, f_S, rng.normal(0.0, 0.001, 3))
    assert repeating(estimator) == ([named] if named else [])


def stand(spoil, noise=0.002, step=7e-4, samples=600, variance=4e-6, seed=5, force_noise=0.03):
    """Names of what repeats at any time while a quantised IMU stands; ``spoil`` changes rates."""
    rng = np.random.default_rng(seed)
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    covariance = variance * np.eye(3)
    named = set()
    for k in range(1, samples):
        f_S = np.array([0.0, 0.0, G]) + rng.normal(0.0, force_noise, 3)
        w_S = step * np.round(rng.normal(0.3 * step, noise, 3) / step)
        estimator.imu(k * IMU_NS, f_S, spoil(k, w_S), 9e-4 * np.eye(3), covariance)
        named |= set(repeating(estimator))
    return named


def stuck(axes, first, value=0.0):
    def spoil(k, w_S):
        return np.where([k >= first and i in axes for i in range(3)], value, w_S)

    return spoil


@pytest.mark.parametrize(
    ("axes", "first"),
    [((0, 1, 2), 0), ((0, 1, 2), 20), ((0, 1, 2), 300), ((2,), 0), ((0,), 30), ((1, 2), 300)],
)
def test_a_gyroscope_that_is_stuck_is_named_at_rest(axes, first):
    """All axes or some; from the first sample on, soon after it, or later."""
    assert stand(stuck(axes, first)) == {"gyroscope"}


@pytest.mark.parametrize(
    ("noise", "step"), [(1e-4, 1e-3), (2e-4, 1e-3), (5e-4, 1e-3), (2e-3, 1e-3)]
)
def test_no_axis_of_a_coarse_gyroscope_is_named(noise, step):
    """Its noise is less than its step: an axis in the middle of a step never changes."""
    centred = np.array([0.0, 0.5 * step, 0.2 * step])

    def spoil(k, w_S):
        return step * np.round((centred + noise * rng.normal(size=3)) / step)

    for seed in range(4):
        rng = np.random.default_rng(seed)
        assert stand(spoil, samples=3000) == set()


def test_an_axis_at_the_end_of_its_range_is_not_named():
    assert stand(stuck((2,), 100, 34.9)) == set()


def test_a_gyroscope_without_noise_may_repeat_beside_an_accelerometer_with_some():
    """A simulated one, which states no noise."""
    assert stand(lambda _, w_S: 0.0 * w_S, variance=0.0) == set()


@pytest.mark.parametrize("at_s", [0.0, 0.1, 0.8])
def test_a_vehicle_whose_gyroscope_is_stuck_from_the_start_does_not_arm(at_s):
    """The search's flight faults 8103/174: it took off and crashed 0.7 s later."""
    scenario = load_scenario("square", {"sensors": "default_250hz"}, seed=3, duration_s=4.0)
    loop = ClosedLoop(scenario)
    loop.fail_sensor("imu", FaultParams("stuck", at_s, channel="gyro"))
    loop.fly()
    refused = [event.message for event in loop.events if event.name == "arming refused"]
    assert refused == ["sensors repeat one value: gyroscope"]
    assert "armed" not in {event.name for event in loop.events}


@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_a_gyroscope_far_noisier_than_it_states_is_named_and_counted(factor):
    """The attitude's deviation grows by the noise that there is."""
    rng = np.random.default_rng(7)
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    stated, errors = 0.2**2 * np.eye(3), []
    for k in range(1, 2400):
        noise = 0.2 * (factor if k >= 1000 else 1.0)
        f_S = np.array([0.0, 0.0, G]) + rng.normal(0.0, 0.05, 3)
        estimator.imu(k * IMU_NS, f_S, rng.normal(0.0, noise, 3), 25e-4 * np.eye(3), stated)
        if k % 20 == 0:
            estimator.gnss_position(k * IMU_NS, DATUM.to_geodetic(rng.normal(0.0, 0.3, 3)))
            field_T = np.array([0.0, 2.15e-5, -4.3e-5]) + rng.normal(0.0, 3e-7, 3)
            estimator.magnetic_field(k * IMU_NS, field_T)
        if k > 1400 and k % 10 == 0:
            odometry = estimator.odometry()
            sigmas = np.sqrt(odometry.attitude_variance[:2])
            errors.append(2.0 * np.abs(odometry.q_WB[1:3]) / sigmas)
    health = estimator.health()
    assert health["noisy"] == ("gyroscope" if factor > 1.0 else "")
    assert health["status"] == ("noisy gyroscope" if factor > 1.0 else "running")
    assert np.mean(np.square(errors)) < 2.0


def test_a_noisy_gyroscope_is_named_in_flight_and_before_it():
    """As in the search's flight faults 8103/361."""
    for at_s, held in ((6.0, False), (0.5, True)):
        scenario = load_scenario(
            "hover", {"sensors": "fcnd_gps", "autopilot": "fcnd"}, seed=3, duration_s=8.0
        )
        loop = ClosedLoop(scenario)
        loop.fail_sensor("imu", FaultParams("noisier", at_s, value=(8.0,)))
        loop.fly()
        told = {event.name: event.message for event in loop.events}
        words = "gyroscope: noise far beyond what is stated"
        assert not held or told["arming refused"] == "noise far beyond what is stated: gyroscope"
        assert held or told["sensor noisy"] == words
        assert ("takeoff" in told) == (not held)


def rest_on_fixes(noise_of):
    """An estimator at rest whose fixes state 2 cm and 3 cm/s and have other errors, 12 s.

    Returns:
        It, its errors (position by stated deviations, velocity), and what was noisy at any time.
    """
    rng = np.random.default_rng(5)
    estimator, rows, told = ErrorStateEkf(EstimatorParams(), DATUM), [], set()
    for k in range(1, 2400):
        stamp_ns, t = k * 5_000_000, k * 0.005
        f_S = np.array([0.0, 0.0, 9.80665]) + rng.normal(0.0, 0.05, 3)
        estimator.imu(
            stamp_ns, f_S, rng.normal(0.0, 0.005, 3), 25e-4 * np.eye(3), 25e-6 * np.eye(3)
        )
        if k % 20 == 0:
            factor, offset_m = noise_of(t)
            p_W = offset_m + rng.normal(0.0, 0.02 * factor, 3)
            v_W = rng.normal(0.0, 0.03 * factor, 3)
            estimator.gnss_position(stamp_ns, DATUM.to_geodetic(p_W), 4e-4 * np.eye(3))
            estimator.gnss_velocity(stamp_ns, v_W, 9e-4 * np.eye(3))
            estimator.magnetic_field(stamp_ns, np.array([0.0, 2.15e-5, -4.3e-5]))
        if t > 6.0 and k % 20 == 10:
            now = estimator.odometry()
            rows.append((*(now.p_W / np.sqrt(now.p_variance)), *now.v_W))
            told.add(estimator.health()["noisy"])
    return estimator, np.array(rows), told


def test_fixes_far_noisier_than_they_state_are_named_and_count_as_they_are():
    """Refused for 2 s, a single one of them was taken for position and velocity."""
    estimator, rows, _ = rest_on_fixes(lambda t: (50.0 if t > 6.0 else 1.0, 0.0))
    health = estimator.health()
    assert health["noisy"] == "gnss_position, gnss_velocity"
    assert health["recoveries"] == 0
    assert np.abs(rows[:, :3]).max() < 5.0
    assert np.abs(rows[:, 3:]).max() < 1.0  # a velocity alone is 1.5 m/s off


@pytest.mark.parametrize(("step_m", "until_s"), [(3.0, 6.05), (3.0, 99.0), (0.2, 99.0)])
def test_an_outlier_and_a_step_are_no_noise(step_m, until_s):
    _, _, told = rest_on_fixes(lambda t: (1.0, step_m if 6.0 <= t < until_s else 0.0))
    assert told == {""}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_receiver_fifty_times_noisier_is_named_and_the_flight_lands(seed):
    """A recovery by one of its fixes sent the vehicle into the ground at 9 m/s."""
    scenario = load_scenario("square", {}, seed=seed)
    loop = ClosedLoop(scenario)
    loop.fail_sensor("gnss", FaultParams("noisier", 10.0, value=(50.0,)))
    loop.fly()
    told = [event.name for event in loop.events]
    assert "sensor noisy" in told
    assert "crash" not in told
    assert "landed" in told


def test_an_impact_is_no_noise():
    """A Crazyflie's touch-down was a noisy gyroscope: one sample filled the mean."""
    rng = np.random.default_rng(7)
    estimator = ErrorStateEkf(EstimatorParams(), DATUM)
    stated, told = 0.02**2 * np.eye(3), set()
    for k in range(1, 1200):
        hit = 5.0 if 1000 <= k < 1003 else 0.0
        w_S = rng.normal(0.0, 0.02, 3) + hit * (-1.0) ** k
        f_S = np.array([0.0, 0.0, G]) + rng.normal(0.0, 0.05, 3)
        estimator.imu(k * IMU_NS, f_S, w_S, 25e-4 * np.eye(3), stated)
        if k >= 1000:
            told.add(estimator.health()["noisy"])
    assert told == {""}
