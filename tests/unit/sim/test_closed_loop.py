"""The closed loop: it repeats itself to the bit, and flies what the scenario says."""

import math
from dataclasses import replace

import numpy as np
import pytest

from quadsim.analysis import metrics
from quadsim.analysis.summary import summarize
from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import known
from quadsim.sim.closed_loop import ClosedLoop, run
from quadsim.sim.scenario import load_scenario


@pytest.fixture(scope="module")
def hover():
    return load_scenario("hover")


@pytest.fixture(scope="module")
def square():
    return run(load_scenario("square"))


def errors(track, truth):
    """Differences of a track's positions to the truth at the same stamps."""
    rows = np.searchsorted(truth.stamp_ns, track.stamp_ns)
    assert np.array_equal(truth.stamp_ns[rows], track.stamp_ns)
    return track.p_W - truth.p_W[rows]


def rmse(difference):
    return math.sqrt(np.mean(np.sum(difference**2, axis=1)))


def changed(scenario, kind, **changes):
    sensors = dict(scenario.sensors)
    sensors[kind] = replace(sensors[kind], **changes)
    return replace(scenario, sensors=sensors)


def test_two_runs_have_the_same_digest(hover):
    assert run(hover)[1] == run(hover)[1]


@pytest.mark.parametrize("name", [name for name in known("vehicles") if "helicopter" not in name])
def test_every_shipped_multirotor_flies_the_square_by_the_default_gains(name):
    scenario = load_scenario("square", vehicle=name)
    flown = summarize(run(scenario)[0], scenario.criteria)
    assert flown["passed"], flown["criteria"]


def imu_samples(scenario, ticks):
    loop = ClosedLoop(scenario)
    found = []
    for _ in range(ticks):
        loop.tick()
        found.append(loop.devices["imu"]["sample"][0].tobytes())
    return found


def test_a_changed_barometer_leaves_the_noise_of_the_imu_the_same_to_the_bit(hover):
    # before the motors turn nothing but noise changes a sample
    other = changed(hover, "barometer", rate_hz=25.0, noise_sigma_pa=30.0)
    assert imu_samples(hover, 40) == imu_samples(other, 40)


def test_a_sensor_that_is_left_out_leaves_the_others_noise_the_same(hover):
    sensors = {kind: hover.sensors[kind] for kind in ("imu", "gnss", "magnetometer")}
    assert imu_samples(hover, 40) == imu_samples(replace(hover, sensors=sensors), 40)


def test_the_square_is_flown_to_its_end(square):
    log, _ = square
    assert not [event for event in log.events if event.level > 0]
    assert log.events[-1].name in ("landed", "disarmed")
    truth = log.truth.p_W
    for corner in [(4.0, 0.0), (4.0, 4.0), (0.0, 4.0)]:
        assert np.min(np.hypot(*(truth[:, :2] - corner).T)) < 0.15
    assert truth[:, 2].max() < 2.0
    assert np.hypot(*truth[-1, :2]) < 0.3
    assert truth[-1, 2] == pytest.approx(0.226, abs=0.01)
    assert np.abs(log.motor_speed_radps[-1]).max() < 50.0


def test_the_references_accelerations_stay_below_4_mps2(square):
    reference = square[0].reference
    dt = np.diff(reference.stamp_ns) * 1e-9
    velocity = np.diff(reference.p_W, axis=0) / dt[:, None]
    acceleration = np.linalg.norm(np.diff(velocity, axis=0), axis=1) / dt[1:]
    # on the ground the reference sinks below it, beside the vehicle, which presses it down
    in_the_air = reference.p_W[2:, 2] > 0.226
    assert acceleration[in_the_air].max() < 4.0


def test_sensors_sample_at_their_rates(square):
    log, _ = square
    seconds, default = log.truth.stamp_ns[-1] * 1e-9, load_scenario("square")
    for kind, rate_hz in [("imu", 500), ("gnss", 10), ("magnetometer", 100), ("barometer", 50),
                          ("rangefinder", 50)]:  # fmt: skip
        on_board_s = seconds - default.sensors[kind].latency_s  # what is younger is on its way
        assert log.topics[kind] == pytest.approx(on_board_s * rate_hz, abs=1)


def test_fcnd_noise_flies_the_square():
    scenario = load_scenario("square", sensors="fcnd")
    log, _ = run(scenario)
    assert log.events[-1].name in ("landed", "disarmed")
    assert rmse(errors(log.estimates["eskf"], log.truth)) < 0.8
    reference = log.reference
    truth = [np.interp(reference.stamp_ns, log.truth.stamp_ns, x) for x in log.truth.p_W.T]
    assert rmse(reference.p_W - np.transpose(truth)) < 0.7


def test_ideal_sensors_estimate_the_truth():
    log, _ = run(load_scenario("hover", sensors="ideal"))
    assert np.abs(errors(log.estimates["eskf"], log.truth)).max() < 1e-3


def test_flying_on_the_truth_needs_no_estimate(hover):
    sensors = {"imu": hover.sensors["imu"]}
    log, _ = run(replace(hover, sensors=sensors), use_truth=True)
    assert log.truth.p_W[:, 2].max() == pytest.approx(1.226, abs=0.1)
    assert log.events[-1].name in ("landed", "disarmed")


def test_a_motion_that_goes_to_infinity_stops_the_run(hover):
    light = replace(hover.vehicle, body_drag_N_s_m=(100.0,) * 3, mass_kg=0.002)
    with pytest.raises(FlightError, match="went to infinity at t ="):
        run(replace(hover, vehicle=light))


def scenario_file(tmp_path, text):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vehicel: x500\n", "unknown key 'vehicel'"),
        ("sensors: best\n", "unknown suite 'best'"),
        ("physics: {step_s: 0.003}\n", "physics.step_s: an IMU of 500 Hz samples above the rate"),
        ("mission:\n  - fly: {}\n", "unknown item 'fly'"),
        ("criteria: 3\n", "criteria: expected a list"),
    ],
)
def test_bad_scenarios_are_refused_in_one_line(tmp_path, text, words):
    with pytest.raises(InputError, match=words) as refused:
        load_scenario(scenario_file(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_a_bad_option_is_named_not_the_file():
    with pytest.raises(InputError, match=r"^--duration: duration_s: -3.0 is out of range"):
        load_scenario("hover", duration_s=-3.0)


def test_an_unknown_scenario_names_those_there_are():
    with pytest.raises(
        InputError, match=r"unknown scenario 'sqare' \(did you mean square\?\); known: "
    ):
        load_scenario("sqare")


def test_an_imu_whose_period_no_step_divides_has_equal_steps(hover):
    """120 Hz over steps of at most 1 ms: 9 of 0.926 ms; the mission's ticks follow the IMU."""
    slow = changed(hover, "imu", rate_hz=120.0)
    log, digest = run(slow)
    assert log.events[-1].name in ("landed", "disarmed")
    assert log.topics["imu"] == pytest.approx(log.truth.stamp_ns[-1] * 1e-9 * 120.0, abs=1)
    assert rmse(errors(log.estimates["eskf"], log.truth)) < 0.1
    assert run(slow)[1] == digest


def test_kept_samples_are_what_was_published(hover):
    loop = ClosedLoop(hover, keep_samples=True)
    log = loop.fly()
    for kind in hover.sensors:
        samples = loop.samples(kind)
        assert len(samples) == log.topics[kind]
        assert np.all(np.diff(samples["stamp_ns"]) > 0)
    standing = loop.samples("imu")["f_S"][:400]  # before it is armed, at 1 s
    assert np.mean(standing[:, 2]) == pytest.approx(9.80665, abs=0.5)


@pytest.mark.many
@pytest.mark.parametrize("name", known("scenarios"))
def test_every_shipped_scenario_passes_its_criteria(name):
    scenario = load_scenario(name)
    log, _ = run(scenario)
    summary = summarize(log, scenario.criteria)
    assert summary["passed"], summary["criteria"]


def test_an_estimate_has_the_stamp_of_its_imu_sample() -> None:
    """Of an IMU that is 4 ms late it is as old: at 2 m/s it would be off by 8 mm."""
    changes = {"sensors.imu.latency_s": 0.004}
    log = ClosedLoop(load_scenario("square", changes, sensors="ideal")).fly()
    found = metrics.errors(log.estimates["eskf"], log.truth)
    assert np.max(np.linalg.norm(log.truth.v_W, axis=1)) > 1.5
    assert np.max(np.linalg.norm(found.position_W, axis=1)) < 0.002
