"""Bags of the closed loop: what is in them, what a replay gives, and the run made again."""

import json
import struct
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pymap3d
import pytest
from click.testing import CliRunner
from rosbags.highlevel import AnyReader
from scipy.spatial.transform import Rotation

from quadsim.analysis.replay import Settings, known_keys, replay
from quadsim.bag.flight import streams_of, write_flight
from quadsim.bag.origin import origin_of, run_facts
from quadsim.bag.profiles import Recording
from quadsim.bag.writer import BagWriter
from quadsim.base.errors import FlightError, InputError
from quadsim.base.files import known
from quadsim.cli.main import main
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.ros.nodes.recorder import offered_yaml
from quadsim.ros.runtime import topics
from quadsim.sim.closed_loop import run
from quadsim.sim.recorded import RecordedLoop
from quadsim.sim.scenario import load_scenario
from quadsim.sim.scenario_text import scenario_from_text, scenario_text


@pytest.fixture(scope="module")
def flown():
    """A hover of 12 s, recorded; its log, digest and scenario."""
    scenario = load_scenario("hover")
    loop = RecordedLoop(scenario, "quad")
    log = loop.fly()
    return SimpleNamespace(scenario=scenario, loop=loop, log=log, digest=loop.digest())


@pytest.fixture(scope="module")
def bag(flown, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("flown") / "bag"
    with BagWriter(path, run_facts(flown.scenario)) as writer:
        writer.tell("digest", flown.digest)
        write_flight(writer, [flown.loop], Recording())
    return path


class Message:
    """A message that rosbags decodes when it is looked at."""

    def __init__(self, raw, decode):
        self.raw, self._decode, self._content = bytes(raw), decode, None

    def __getattr__(self, name):
        if self._content is None:
            self._content = self._decode(self.raw)
        return getattr(self._content, name)


@pytest.fixture(scope="module")
def messages(bag):
    """Topic to pairs of log time and message."""
    found: dict[str, list[tuple[int, Message]]] = {}
    with AnyReader([bag]) as reader:
        for connection, log_ns, raw in reader.messages():
            decode = partial(reader.deserialize, typ=connection.msgtype)
            found.setdefault(connection.topic, []).append((log_ns, Message(raw, decode)))
        yield found


def stamp_of(message) -> int:
    """Of a header, which follows four bytes of representation."""
    seconds, nanoseconds = struct.unpack_from("<iI", message.raw, 4)
    return seconds * 10**9 + nanoseconds


def numbers(message, *names: str) -> list[float]:
    return [getattr(message, name) for name in names]


def sim(*arguments: str):
    return CliRunner().invoke(main, ["sim", "--no-report", *map(str, arguments)])


# ---- what is in the bag ----------------------------------------------------------------------


def test_a_recorded_flight_is_the_plain_one(flown):
    log, digest = run(flown.scenario)
    assert flown.digest == digest
    assert np.array_equal(flown.log.truth.p_W, log.truth.p_W)
    assert flown.log.events == log.events
    assert len(flown.loop.all_rows()) == 5 * len(log.truth)  # 500 Hz beside 100


def test_topics_are_those_of_the_graph(flown):
    """Name, type and offered quality of service, as the nodes' table has them."""
    table = {t.name: t for t in (*topics.WORLD_TOPICS, *topics.VEHICLE_TOPICS)}
    streams = streams_of([flown.loop])
    for stream in streams:
        topic = table[stream.short]
        assert stream.name == topics.full_name("/quad", topic.name)
        assert (stream.type_name, stream.qos) == (topic.type_name, offered_yaml(topic.offered))
    made = {stream.short for stream in streams}
    running = {"dynamics", "autopilot", "mixer", "estimator", *flown.scenario.sensors}
    missing = {t.name for t in table.values() if set(t.publishers) & running} - made
    # not computed by the closed loop; and the markers repeat the mission
    assert missing == {"/diagnostics", "imu/data", "odometry/blind", "markers", "robot_description"}


def test_rates_are_those_of_the_graph(messages, flown):
    duration_s = flown.log.duration_s
    rates = {
        "ground_truth/odom": 500, "ground_truth/accel": 50, "imu/data_raw": 500, "imu/mag": 100,
        "imu/static_pressure": 50, "gps/fix": 10, "gps/vel": 10, "range/down": 50,
        "motor_speed": 100, "wind": 50, "battery_state": 1,
    }  # fmt: skip
    for name, rate_hz in rates.items():
        # the log begins at 10 ms, the bag at the first sample
        count = rate_hz * (duration_s + 0.01)
        assert len(messages[f"/quad/{name}"]) == pytest.approx(count, abs=2), name
    assert len(messages["/clock"]) == pytest.approx(100 * (duration_s + 0.01), abs=1)
    assert len(messages["/datum"]) == 1


def test_log_times_rise_and_hold_the_latency(messages, bag):
    with AnyReader([bag]) as reader:
        log_ns = [log for _, log, _ in reader.messages()]
    assert log_ns == sorted(log_ns)
    # as config/sensors says: 0.12 s; 7 ms, which is 8 on the grid of the IMU's stamps; none
    for name, latency_ns in (("gps/fix", 120e6), ("gps/vel", 120e6), ("range/down", 8e6)):
        assert {log - stamp_of(m) for log, m in messages[f"/quad/{name}"]} == {latency_ns}
    for name in ("imu/data_raw", "ground_truth/odom", "odometry/filtered", "imu/mag"):
        assert {log - stamp_of(m) for log, m in messages[f"/quad/{name}"]} == {0}


def test_odometries_are_the_states_in_their_frames(messages, flown):
    """Pose in map; twist and its covariance in base_link, turned there by scipy."""
    rows = {int(row["stamp_ns"]): row for row in flown.loop.all_rows()}
    for name in ("ground_truth/odom", "odometry/filtered"):
        for _, message in messages[f"/quad/{name}"][700::700]:
            assert (message.header.frame_id, message.child_frame_id) == ("map", "base_link")
            row = rows[stamp_of(message)]
            motion = row if name == "ground_truth/odom" else row["estimate"]
            pose, twist = message.pose.pose, message.twist.twist
            assert numbers(pose.position, *"xyz") == motion["p_W"].tolist()
            assert numbers(pose.orientation, *"wxyz") == motion["q_WB"].tolist()
            turn = Rotation.from_quat(np.roll(motion["q_WB"], -1))
            v_B = turn.inv().apply(motion["v_W"])
            assert numbers(twist.linear, *"xyz") == pytest.approx(v_B.tolist(), abs=1e-15)
            assert numbers(twist.angular, *"xyz") == motion["w_B"].tolist()
            if name == "ground_truth/odom":
                assert not message.pose.covariance.any()
                continue
            covariance = message.twist.covariance.reshape(6, 6)[:3, :3]
            R_WB = turn.as_matrix()
            np.testing.assert_allclose(
                R_WB @ covariance @ R_WB.T, np.diag(motion["v_variance"]), atol=1e-15
            )
            diagonal = message.pose.covariance.reshape(6, 6).diagonal()
            stated = [*motion["p_variance"], *motion["attitude_variance"]]
            assert diagonal.tolist() == stated


def test_samples_are_what_the_sensors_published(messages, flown):
    imu = flown.loop.samples("imu")
    params = flown.scenario.imu
    for i, (_, message) in list(enumerate(messages["/quad/imu/data_raw"]))[::500]:
        assert message.header.frame_id == "imu_link"
        assert stamp_of(message) == imu["stamp_ns"][i]
        assert numbers(message.linear_acceleration, *"xyz") == imu["f_S"][i].tolist()
        assert numbers(message.angular_velocity, *"xyz") == imu["w_S"][i].tolist()
        variance = message.linear_acceleration_covariance[::4].tolist()
        assert variance == pytest.approx(list(params.accel_variance()))
        assert message.orientation_covariance[0] == -1.0
    datum = flown.scenario.environment.datum
    fixes = flown.loop.samples("gnss")
    for i, (_, message) in list(enumerate(messages["/quad/gps/fix"]))[::20]:
        place = (message.latitude, message.longitude, message.altitude)
        origin = (datum.latitude_deg, datum.longitude_deg, datum.height_m)
        p_W = pymap3d.geodetic2enu(*place, *origin)
        assert p_W == pytest.approx(fixes["p_W"][i].tolist(), abs=1e-8)
        assert message.position_covariance[::4].tolist() == fixes["p_variance"][i].tolist()
    ranges = flown.loop.samples("rangefinder")["range_m"]
    heard = [message.range for _, message in messages["/quad/range/down"]]
    np.testing.assert_array_equal(heard, ranges.astype(np.float32))


def test_commands_are_those_that_the_loop_obeyed(messages, flown):
    tick = flown.loop.ticks()[300]
    (attitude,) = [m for log, m in messages["/quad/command_attitude"] if log == tick["begin_ns"]]
    (point,) = attitude.points
    q_WB = tick["command"]["q_WB"].tolist()
    assert numbers(point.transforms[0].rotation, *"wxyz") == q_WB
    assert point.velocities[0].angular.z == tick["command"]["yaw_rate"]
    assert point.accelerations[0].linear.z == tick["command"]["thrust"]
    rows = {int(row["stamp_ns"]): row for row in flown.loop.all_rows()}
    for topic, column in (
        ("motor_speed", "rotor_speed_radps"), ("command_motor_speed", "rotor_command_radps"),
    ):  # fmt: skip
        log_ns, message = messages[f"/quad/{topic}"][800]
        assert list(message.name) == [f"rotor_{i}" for i in range(4)]
        assert message.velocity.tolist() == rows[log_ns][column][:4].tolist()
    (reference,) = [m for log, m in messages["/quad/reference"] if log == tick["begin_ns"]]
    assert numbers(reference.pose.position, *"xyz") == tick["setpoint"]["p_W"].tolist()


def test_what_was_said_is_there(messages, flown):
    said = [(m.name, m.message) for _, m in messages["/quad/events"]]
    assert said == [(event.name, event.message) for event in flown.log.events]
    states = [m.message for _, m in messages["/quad/mission/status"]]
    assert states[0] == states[-1] == "disarmed"
    assert "mission" in states
    contacts = [m.data for _, m in messages["/quad/contact"]]
    assert contacts[:3] == [True, False, True]  # and a landing may bounce
    assert contacts[-1]
    assert [m.data for _, m in messages["/quad/state_source"]] == ["estimate"]
    charge = [m.percentage for _, m in messages["/quad/battery_state"]]
    assert charge == sorted(charge, reverse=True)
    assert 0.9 < charge[-1] < charge[0] <= 1.0


# ---- replays ---------------------------------------------------------------------------------


def test_a_replay_gives_the_estimates_of_the_flight(flown, bag):
    """Equal but for what messages cannot hold.

    A range is a float32 (6e-8 of 1 m), a fix goes through degrees and back (1e-9 m).
    """
    found = replay(bag, Settings(as_flown=True)).log.estimates["eskf"]
    rows = flown.loop.all_rows()
    estimate = rows[rows["estimated"] != 0]["estimate"]
    assert found.stamp_ns.tolist() == estimate["stamp_ns"].tolist()
    for name in ("p_W", "v_W", "q_WB"):
        np.testing.assert_allclose(getattr(found, name), estimate[name], atol=1e-7, rtol=0.0)
    stated = np.sqrt(np.hstack([estimate["p_variance"], estimate["v_variance"]]))
    np.testing.assert_allclose(found.sigma[:, :6], stated, rtol=1e-5)


def test_a_wrong_belief_replays_too(tmp_path):
    """The bag states the true field, and the estimator flew with another declination."""
    scenario = load_scenario("hover", {"believed.declination_deg": 5.0}, duration_s=4.0)
    loop = RecordedLoop(scenario, "quad")
    loop.fly()
    with BagWriter(tmp_path / "bag", run_facts(scenario)) as writer:
        write_flight(writer, [loop], Recording("sensors", compression="zstd"))
    rows = loop.all_rows()
    estimate = rows[rows["estimated"] != 0]["estimate"]
    found = replay(tmp_path / "bag", Settings(as_flown=True)).log.estimates["eskf"]
    np.testing.assert_allclose(found.q_WB, estimate["q_WB"], atol=1e-7, rtol=0.0)
    true = replace(scenario.estimator, magnetic_field_W_T=scenario.environment.field_W_T())
    unset = replace(true, magnetic_field_W_T=EstimatorParams().magnetic_field_W_T)
    with_true, with_unset = (
        replay(tmp_path / "bag", Settings(params=params)).log.estimates["eskf"].q_WB
        for params in (true, unset)
    )
    np.testing.assert_array_equal(with_unset, with_true)
    with_wrong = replay(tmp_path / "bag", Settings(params=scenario.estimator)).log.estimates
    assert np.abs(with_wrong["eskf"].q_WB - with_true).max() > 0.01
    assert known_keys(None, ["magnetic_field_W_T=[0.0, 2.0e-5, -4.0e-5]"]) == {"magnetic_field_W_T"}
    assert known_keys(None, ["noise.gyro_density=0.02"]) == {"noise.gyro_density"}


def test_late_lost_and_wrong_samples_replay_too(tmp_path):
    """Faults that delay and drop samples, and an IMU that is late itself."""
    file = tmp_path / "faulty.yaml"
    file.write_text(
        "duration_s: 6.0\nfly_on: truth\nmission: [{takeoff: {}}, {hover: {duration_s: 9.0}}]\n"
        "faults:\n"
        "  - {sensor: imu, fault: delay, value: [0.003], at_s: 3.0}\n"
        "  - {sensor: magnetometer, fault: dropout, value: [0.5]}\n"
        "  - {sensor: gnss, fault: delay, value: [0.05], at_s: 4.0, duration_s: 0.5}\n"
    )
    scenario = load_scenario(str(file))
    loop = RecordedLoop(scenario, "quad")
    loop.fly()
    with BagWriter(tmp_path / "bag", run_facts(scenario)) as writer:
        write_flight(writer, [loop], Recording("sensors", compression="zstd"))
    found = replay(tmp_path / "bag", Settings(as_flown=True)).log.estimates["eskf"]
    rows = loop.all_rows()
    estimate = rows[rows["estimated"] != 0]["estimate"]
    stamps, first = np.unique(estimate["stamp_ns"], return_index=True)
    assert found.stamp_ns.tolist() == stamps.tolist()
    np.testing.assert_allclose(found.p_W, estimate["p_W"][first], atol=1e-7, rtol=0.0)


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (FlightError("it"), 1)])
def test_what_ends_a_run_before_its_first_loop_is_said(tmp_path, monkeypatch, error, status):
    def ended(*arguments, **options):
        raise error

    monkeypatch.setattr("quadsim.sim.swarm.run_all", ended)
    folders = ("--bag", str(tmp_path / "bag"), "--output", str(tmp_path / "run"))
    result = CliRunner().invoke(main, ["sim", "--scenario", "hover", *folders])
    assert result.exit_code == status
    assert isinstance(result.exception, SystemExit)


# ---- the run made again ----------------------------------------------------------------------


def test_a_run_is_repeated_from_its_bag(bag, flown, tmp_path):
    done = sim(
        "--from-bag", bag, "--bag", tmp_path / "again", "--output", tmp_path / "run", "--json"
    )
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["digest"] == flown.digest
    assert summary["repeated"] == {"bag": str(bag), "digest": flown.digest, "same": True}
    assert any("the digest is that of the bag" in note for note in summary["notes"])
    assert origin_of(tmp_path / "again").digest == flown.digest


def test_vehicles_have_namespaces_of_their_own(tmp_path):
    file = tmp_path / "two.yaml"
    file.write_text("vehicles: 2\nduration_s: 3.0\nmission: [{takeoff: {}}, {land: {}}]\n")
    bag = tmp_path / "bag"
    done = sim("--scenario", file, "--bag", bag, "--output", tmp_path / "run", "--json")
    assert done.exit_code == 1  # it does not land within three seconds
    with AnyReader([bag]) as reader:
        counts = {c.topic: c.msgcount for c in reader.connections}
        truth = [c for c in reader.connections if c.topic == "/quad2/imu/data_raw"]
        _, _, raw = next(reader.messages(truth))
        assert reader.deserialize(raw, truth[0].msgtype).header.frame_id == "quad2/imu_link"
    assert counts["/quad1/imu/data_raw"] == counts["/quad2/imu/data_raw"] == 1500
    assert "/quad/imu/data_raw" not in counts
    digest = json.loads(done.stdout)["digest"]
    again = sim("--from-bag", bag, "--output", tmp_path / "again", "--json")
    assert json.loads(again.stdout)["digest"] == digest


def doubled(path: Path, flown, **custom: str) -> Path:
    """A bag with other metadata and one message."""
    facts = {**run_facts(flown.scenario), **custom}
    with BagWriter(path, {key: value for key, value in facts.items() if value}) as writer:
        writer.add("/a", "std_msgs/msg/Bool", None, 1, b"\x00\x01\x00\x00\x01")
    return path


def test_what_is_not_as_it_was_is_said(tmp_path, flown):
    versions = json.loads(run_facts(flown.scenario)["versions"]) | {"quadsim": "0.0.1"}
    path = doubled(tmp_path / "old", flown, versions=json.dumps(versions), digest="abc")
    origin = origin_of(path)
    (version, digest) = origin.compare("def")
    assert version.startswith("quadsim was 0.0.1, now ")
    assert "not repeated: the bag's digest is abc" in digest
    over_dds = origin_of(doubled(tmp_path / "dds", flown))
    (words,) = over_dds.compare("def")
    assert "recorded over DDS" in words
    text = run_facts(flown.scenario)["scenario_yaml"].replace("mass_kg:", "weight:")
    path = doubled(tmp_path / "odd", flown, scenario_yaml=text, quadsim="0.0.1")
    with pytest.raises(InputError, match=r"key 'mass_kg' is missing.*of quadsim 0\.0\.1, this is"):
        origin_of(path)
    text = run_facts(flown.scenario)["scenario_yaml"].replace("chi2_1:", "jump: 2.0\n    chi2_1:")
    noted = origin_of(doubled(tmp_path / "older", flown, scenario_yaml=text)).notes
    assert noted == ["estimator.gate: jump (2.0) is no key of this version: left out"]
    path = doubled(tmp_path / "none", flown, scenario_yaml="")
    with pytest.raises(InputError, match="stored no scenario_yaml"):
        origin_of(path)
    for i, odd in enumerate(({"versions": "[1]"}, {"machine": "3"}, {"machine": "{"})):
        path = doubled(tmp_path / f"odd_{i}", flown, **odd)
        with pytest.raises(InputError, match="no JSON objects in its metadata"):
            origin_of(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--from-bag", "{bag}", "--seed", "3"], "leave out --seed"),
        (["--from-bag", "{bag}", "--scenario", "hover"], "leave out --scenario"),
        (["--from-bag", "nowhere"], "no such bag"),
        (["--bag", "{bag}"], "exists already"),
        (["--bag", "/dev/null/bag"], "cannot be made"),
        (["--bag", "{new}", "--record-profile", "none"], "unknown recording 'none'"),
        (["--bag", "{new}", "--split-mb", "-1"], "split-mb"),
        (["--bag", "{new}", "--compression", "lzma"], "lzma"),
        (["--bag", "{new}", "--split-s", "nan"], "nan is not a finite number"),
        (["--compression", "zstd"], "--compression: only with --bag"),
        (["--own-parts"], "--own-parts: only with --from-bag"),
    ],
)
def test_bad_input_is_one_line_before_anything_flies(bag, tmp_path, arguments, words):
    places = {"bag": bag, "new": tmp_path / "new"}
    done = sim(*[word.format(**places) for word in arguments], "--output", tmp_path / "run")
    assert done.exit_code == 2
    assert words in done.output
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "new").exists()


#: Every kind of item, of fault, of event, of world and of filter is in one of them.
KINDS = (
    "square", "identification", "figure_of_eight_fcnd", "fcnd_square", "hills_5m", "slung_load",
    "failsafe_spoofed", "failsafe_commands", "ntnu_4_precision_flat", "disturbed", "forest",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_scenario_comes_back_out_of_its_text(name):
    scenario = load_scenario(name)
    again, changed = scenario_from_text(scenario_text(scenario), "bag")
    assert changed == []
    for field in fields(scenario):
        if field.name not in ("path", "scene"):
            assert getattr(again, field.name) == getattr(scenario, field.name), field.name
    assert name in known("scenarios")


def test_a_world_that_is_another_is_named(tmp_path):
    world = tmp_path / "world.sdf"
    world.write_text("<sdf version='1.9'><world name='a'/></sdf>")
    file = tmp_path / "there.yaml"
    file.write_text(f"world: {world}\nmission: [{{takeoff: {{}}}}, {{land: {{}}}}]\n")
    text = scenario_text(load_scenario(str(file)))
    world.write_text("<sdf version='1.9'><world name='b'/></sdf>")
    assert scenario_from_text(text, "bag")[1] == [f"{world} is not the file that was flown in"]
    world.unlink()
    with pytest.raises(InputError, match=r"world\.sdf: no such file"):
        scenario_from_text(text, "bag")
