"""Timing and faults of the sensors: what happens to a sample on its way out."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sensor_rig import published

from quadsim.base.errors import InputError
from quadsim.sensors import SENSORS
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.faults import FaultParams, fault_changes, faults_from_text, faults_to_text
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.model import SimulatedSensor
from quadsim.sensors.slot import OUTBOX_SIZE
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import load_scenario
from quadsim.world.environment import EnvironmentParams

WORLD = EnvironmentParams(gravity_mps2=9.81)


def device(kind, params, faults=()):
    return SimulatedSensor(SENSORS[kind], params, WORLD, 1, "quad", faults=faults)


def test_latency_delays_the_publication_and_not_the_stamp():
    sensor = device("gnss", GnssParams(rate_hz=10.0, latency_s=0.25))
    found = published(sensor, 1000, period_ns=2_000_000)
    assert len(found) == 17  # of 20 taken in 2 s, three are on their way
    for k, (time_ns, sample) in enumerate(found):
        assert sample.stamp_ns == (k + 1) * 100_000_000
        assert time_ns - sample.stamp_ns == 250_000_000


@pytest.mark.many
def test_stamp_jitter_has_its_deviation_and_keeps_the_order():
    sigma_s, count = 1e-4, 8_000
    sensor = device("imu", ImuParams(rate_hz=500.0, stamp_jitter_s=sigma_s))
    stamps = np.array([sample.stamp_ns for _, sample in published(sensor, count)])
    errors_s = (stamps - 2_000_000 * np.arange(1, count + 1)) * 1e-9
    low, high = stats.chi2.ppf([5e-4, 1 - 5e-4], count) * sigma_s**2  # 1 in 1000
    assert low < np.sum(errors_s**2) < high
    assert np.all(np.diff(stamps) > 0)


def test_jitter_beyond_half_a_period_is_cut():
    sensor = device("imu", ImuParams(rate_hz=1000.0, stamp_jitter_s=0.01))
    stamps = np.array([sample.stamp_ns for _, sample in published(sensor, 500)])
    assert np.all(np.diff(stamps) > 0)
    assert np.abs(stamps - 1_000_000 * np.arange(1, 501)).max() == 450_000


def test_timing_leaves_the_noise_of_the_samples_as_it_was():
    quiet = BarometerParams(noise_sigma_pa=1.0)
    late = replace(quiet, latency_s=0.05, stamp_jitter_s=1e-4)
    plain = [sample.pressure_pa for _, sample in published(device("barometer", quiet), 50)]
    delayed = [sample.pressure_pa for _, sample in published(device("barometer", late), 60)]
    assert plain == delayed[:50]


def imu_under(fault, **params):
    """Values of IMU samples at rest at 0.01 s to 0.1 s, with a fault from 0.045 to 0.075 s."""
    fault = replace(fault, at_s=0.045, duration_s=0.03)
    found = published(device("imu", ImuParams(rate_hz=100.0, **params), [fault]), 10)
    return {round(sample.stamp_ns * 1e-9, 2): sample.values.copy() for _, sample in found}


REST = [0.0, 0.0, 9.81, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (FaultParams("stuck"), [0.0] * 6),
        (FaultParams("stuck", value=(1.5,), channel="gyro"), [0.0, 0.0, 9.81, 1.5, 1.5, 1.5]),
        (FaultParams("bias", value=(1.0, 2.0, 3.0), channel="accel"), [1, 2, 12.81, 0, 0, 0]),
        (FaultParams("bias", value=(0.5,), channel="gyro"), [0, 0, 9.81, 0.5, 0.5, 0.5]),
    ],
)
def test_a_fault_acts_on_its_channel_in_its_time(fault, expected):
    found = imu_under(fault)
    for time_s, values in found.items():
        faulty = 0.045 <= time_s < 0.075
        assert values == pytest.approx(expected if faulty else REST, abs=1e-12)


def test_a_frozen_sensor_repeats_its_reading_under_new_stamps():
    noisy = {"accel_noise_density": (0.1, 0.1, 0.1), "gyro_noise_density": (0.1, 0.1, 0.1)}
    healthy, frozen = (
        imu_under(FaultParams("bias", value=(0.0,)), **noisy),
        imu_under(FaultParams("frozen"), **noisy),
    )
    assert list(frozen) == list(healthy)
    for time_s, values in frozen.items():
        kept = 0.05 if 0.045 <= time_s < 0.075 else time_s
        assert np.array_equal(values, healthy[kept])


def test_a_noisier_sensor_has_the_same_noise_louder():
    noisy = {"accel_noise_density": (0.1, 0.1, 0.1)}
    healthy, loud = (
        imu_under(FaultParams("noisier", value=(1.0,)), **noisy),
        imu_under(FaultParams("noisier", value=(4.0,)), **noisy),
    )
    for time_s, values in loud.items():
        factor = 4.0 if 0.045 <= time_s < 0.075 else 1.0
        noise = (healthy[time_s] - REST)[:3]
        assert (values - REST)[:3] == pytest.approx(factor * noise, rel=1e-9)


def test_dropout_loses_the_samples_of_its_time():
    assert set(imu_under(FaultParams("dropout"))) == {0.01, 0.02, 0.03, 0.04, 0.08, 0.09, 0.1}


def test_delay_holds_samples_back_in_order():
    fault = FaultParams("delay", at_s=0.045, duration_s=0.03, value=(0.04,))
    found = published(device("imu", ImuParams(rate_hz=100.0), [fault]), 20)
    late = {round(s.stamp_ns * 1e-9, 2): round(t * 1e-9, 2) for t, s in found}
    assert late[0.04] == 0.04
    assert [late[t] for t in (0.05, 0.06, 0.07)] == [0.09, 0.1, 0.11]
    assert late[0.08] == 0.11  # not before the one taken earlier
    assert late[0.12] == 0.12


def test_an_outage_leaves_a_receiver_without_a_fix():
    fault = FaultParams("outage", at_s=1.0, duration_s=1.0)
    for time_ns, sample in published(device("gnss", GnssParams(), [fault]), 30):
        assert np.isnan(sample.values).all() == (1.0 <= time_ns * 1e-9 < 2.0)


def test_spoofing_pulls_position_and_velocity_away_together():
    fault = FaultParams("spoofing", at_s=1.0, value=(0.5, -0.25, 0.0))
    for time_ns, sample in published(device("gnss", GnssParams(), [fault]), 30):
        elapsed_s = max(0.0, time_ns * 1e-9 - 1.0)
        drift = np.array([0.5, -0.25, 0.0])
        assert sample.p_W == pytest.approx(elapsed_s * drift, abs=1e-9)
        assert sample.v_W == pytest.approx((time_ns >= 1_000_000_000) * drift, abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "fault", "said"),
    [
        (
            "imu",
            FaultParams("outage"),
            "'outage' is a fault of gnss and visual_odometry, not of imu",
        ),
        ("imu", FaultParams("stuck", channel="mag"), "channel: 'mag'; imu has: accel, gyro"),
        ("imu", FaultParams("bias"), "value: 0 numbers for 'bias' of imu; allowed: 1 or 6"),
        ("barometer", FaultParams("noisier", value=(-1.0,)), "-1.0 is out of range"),
        ("imu", FaultParams("delay", value=(3.0,)), "allowed: >= 0 and <= 0.51 s"),
        ("imu", FaultParams("dropout", value=(1.5,)), "allowed: >= 0 and <= 1"),
    ],
)
def test_a_fault_that_does_not_fit_is_refused(kind, fault, said):
    with pytest.raises(InputError) as refused:
        device(kind, SENSORS[kind].params_type(), [fault])
    assert said in str(refused.value)


def test_faults_go_through_text_as_they_are():
    faults = [FaultParams("bias", 1.0, 2.5, (0.1, 0.2, 1e-7), "gyro"), FaultParams("frozen")]
    assert faults_from_text(faults_to_text(faults)) == faults
    assert faults_from_text("{fault: outage}") == [FaultParams("outage")]
    assert faults_from_text(" ") == []
    for text, said in [
        ("[", "not valid YAML"),
        ("{fault: odd}", "allowed: one of stuck"),
        ("3", "expected keys"),
    ]:
        with pytest.raises(InputError, match=said):
            faults_from_text(text)


def test_changes_are_in_order():
    faults = [FaultParams("frozen", 2.0, 1.0), FaultParams("stuck", 1.0)]
    assert fault_changes(faults) == [
        (1_000_000_000, "stuck begins"),
        (2_000_000_000, "frozen begins"),
        (3_000_000_000, "frozen ends"),
    ]


def write(tmp_path, faults):
    path = tmp_path / "faulty.yaml"
    path.write_text(
        "duration_s: 30.0\nmission:\n  - takeoff: {height_m: 1.0}\n  - hover: {duration_s: 5.0}\n"
        f"  - land: {{}}\nfaults: {faults}\n"
    )
    return str(path)


def test_a_scenarios_fault_is_felt_and_kept_as_an_event(tmp_path):
    healthy, _ = run(load_scenario(write(tmp_path, [])))
    name = write(tmp_path, "[{sensor: gnss, fault: spoofing, at_s: 6.0, duration_s: 4.0, "
                 "value: [0.3, 0.0, 0.0]}]")  # fmt: skip
    log, _ = run(load_scenario(name))
    told = [(event.stamp_ns, event.message) for event in log.events if event.name == "fault"]
    assert told == [
        (6_000_000_000, "gnss: spoofing 0.3 0 0 begins"),
        (10_000_000_000, "gnss: spoofing 0.3 0 0 ends"),
    ]
    # the vehicle follows its wrong fixes: against the drift, by what it is pulled
    assert log.truth.p_W[:, 0].min() < healthy.truth.p_W[:, 0].min() - 0.5


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ("3", "faults: expected a list"),
        ("[3]", "faults[0]: expected keys and values"),
        ("[{fault: stuck}]", "faults[0]: sensor: 'None'; this vehicle has: imu, gnss"),
        ("[{sensor: imu, fault: stuck, at: 3.0}]", "unknown key 'at'"),
        ("[{sensor: imu, fault: spoofing, value: [1.0, 0.0, 0.0]}]", "is a fault of gnss"),
    ],
)
def test_a_scenario_with_bad_faults_is_refused(tmp_path, faults, said):
    with pytest.raises(InputError) as refused:
        load_scenario(write(tmp_path, faults))
    assert said in str(refused.value)
    assert "faulty.yaml" in str(refused.value)


def test_more_samples_on_their_way_than_an_outbox_holds_are_refused(hover_with):
    with pytest.raises(InputError, match=f"less than {OUTBOX_SIZE} samples"):
        hover_with("imu", latency_s=0.5, rate_hz=1000.0)


@pytest.fixture
def hover_with(tmp_path):
    """Loads the scenario hover with a changed sensor, through files as a user does."""

    def load(kind, **changes):
        hover = load_scenario("hover")
        suite = {name: f"ideal_{name}" for name in hover.sensors}
        suite[kind] = {"device": f"ideal_{kind}", **changes}
        path = tmp_path / "suite.yaml"
        path.write_text(str(suite))
        return load_scenario("hover", sensors=str(path))

    return load


def test_late_fixes_are_fused_at_their_own_time(hover_with):
    log, _ = run(hover_with("gnss", latency_s=0.2))
    errors = log.estimates["eskf"].p_W - np.stack(
        [
            np.interp(log.estimates["eskf"].stamp_ns, log.truth.stamp_ns, axis)
            for axis in log.truth.p_W.T
        ],
        axis=1,
    )
    assert math.sqrt(np.mean(np.sum(errors**2, axis=1))) < 1e-3  # as with fixes in time


def test_an_imu_that_is_late_flies_a_vehicle_that_reacts_late(hover_with):
    prompt, _ = run(hover_with("imu"))
    late, _ = run(hover_with("imu", latency_s=0.01))
    assert not np.array_equal(prompt.truth.p_W, late.truth.p_W)
    assert late.events[-1].name in ("landed", "disarmed")
