"""A bag read as a flight, and as a stream of measurements."""

import numpy as np
import pytest

from quadsim.analysis.replay_log import read_truth
from quadsim.bag.log import read_log
from quadsim.bag.measurements import measurements
from quadsim.bag.reading import open_bag
from quadsim.bag.topics import datum_of, namespaces
from quadsim.base.errors import InputError, QuadsimError
from quadsim.sim.log import Event
from quadsim.wire.decode import decode

# the circle that tests/unit/conftest.py flies
RADIUS_M, RATE_RADPS, HEIGHT_M, START_NS = 5.0, 0.5, 3.0, 1_000_000_000


@pytest.fixture
def log(circle_bag):
    with open_bag(circle_bag) as bag:
        return read_log(bag, "/quad")


def test_the_truth_is_in_the_world(log):
    """The twist of an Odometry is in base_link; a track's velocity is in the world."""
    t_s = (log.truth.stamp_ns - START_NS) * 1e-9
    angle = RATE_RADPS * t_s
    assert len(t_s) == 1200
    p_W = np.stack([5 * np.cos(angle), 5 * np.sin(angle), np.full_like(angle, HEIGHT_M)], axis=1)
    # 1e-12: both are the same doubles but for rounding
    np.testing.assert_allclose(log.truth.p_W, p_W, atol=1e-12)
    speed = RADIUS_M * RATE_RADPS
    v_W = speed * np.stack([-np.sin(angle), np.cos(angle), np.zeros_like(angle)], axis=1)
    np.testing.assert_allclose(log.truth.v_W, v_W, atol=1e-12)
    np.testing.assert_allclose(log.truth.w_B, [[0, 0, RATE_RADPS]] * 1200)
    half = (angle + np.pi / 2) / 2
    np.testing.assert_allclose(log.truth.q_WB[:, 0], np.cos(half), atol=1e-12)
    np.testing.assert_allclose(log.truth.q_WB[:, 3], np.sin(half), atol=1e-12)
    assert log.truth.sigma is None
    assert log.duration_s == pytest.approx(11.99)


def test_stated_deviations_are_about_the_worlds_axes(log):
    """Position and attitude are stated in map; velocity in base_link, so it turns with the yaw."""
    sigma = log.estimates["filtered"].sigma
    np.testing.assert_allclose(sigma[:, :3], [[0.1, 0.2, 0.4]] * 1200)
    np.testing.assert_allclose(sigma[:, 6:], [[0.01, 0.02, 0.03]] * 1200)
    yaw = 0.1 + np.pi / 2 + RATE_RADPS * (log.truth.stamp_ns - START_NS) * 1e-9
    forward, left, up = 0.2, 0.1, 0.3
    east = np.hypot(forward * np.cos(yaw), left * np.sin(yaw))
    north = np.hypot(forward * np.sin(yaw), left * np.cos(yaw))
    expected = np.stack([east, north, np.full_like(yaw, up)], axis=1)
    np.testing.assert_allclose(sigma[:, 3:6], expected, rtol=1e-9)


def test_commands_to_the_motors_are_read_beside_their_speeds(circle_rows, write_rows):
    """Of the circle the commands are the speeds."""
    rows = []
    for old in circle_rows:
        rows.append(old)
        if old.topic == "/quad/motor_speed":
            rows.append(old._replace(topic="/quad/command_motor_speed"))
    with open_bag(write_rows(rows)) as bag:
        log = read_log(bag, "/quad")
    np.testing.assert_array_equal(log.command_stamps_ns, log.motor_stamps_ns)
    np.testing.assert_array_equal(log.command_radps, [[400, 410, 420, 430]] * 600)


def test_the_rest_of_the_flight(log):
    assert log.scenario == "circle"
    assert log.seed == 7
    assert log.events == [Event(START_NS, 0, "mission", "armed")]
    np.testing.assert_array_equal(log.waypoints, [[5, 0, 3], [0, 5, 3]])
    np.testing.assert_array_equal(log.motor_speed_radps, [[400, 410, 420, 430]] * 600)
    np.testing.assert_allclose(log.reference.p_W[:, 2], HEIGHT_M + 0.2)
    assert log.topics["imu/data_raw"] == 1200
    assert log.topics["/datum"] == 1
    # a fix is a geodetic point: back in the world it is the truth, to pymap3d's accuracy
    np.testing.assert_allclose(log.gnss.p_W, log.truth.p_W[::10], atol=1e-6)
    np.testing.assert_allclose(log.gnss.sigma[:, :3], [[0.1, 0.1, 0.2]] * 120)
    assert log.imu is None


def test_the_samples_of_the_imu_are_read_where_they_are_wanted(circle_bag):
    with open_bag(circle_bag) as bag:
        imu = read_log(bag, "/quad", with_imu=True).imu
    assert len(imu.stamp_ns) == 1200
    np.testing.assert_allclose(imu.f_S, [[0.0, RADIUS_M * RATE_RADPS**2, 9.80665]] * 1200)
    np.testing.assert_allclose(imu.w_S, [[0.0, 0.0, RATE_RADPS]] * 1200)
    np.testing.assert_allclose(imu.f_sigma, 0.01)


def test_events_are_set_back_to_the_clock_of_the_stamps(circle_rows, write_rows):
    """A recorder may log by the wall clock; events carry no stamp of their own."""
    later = [
        item._replace(stamp_ns=item.stamp_ns + 1_700_000_000_000_000_000) for item in circle_rows
    ]
    with open_bag(write_rows(later)) as bag:
        log = read_log(bag, "/quad")
    assert log.events[0].stamp_ns == START_NS
    assert log.truth.stamp_ns[0] == START_NS


def test_what_is_missing_is_said(circle_rows, write_rows):
    poor = [item for item in circle_rows if item.topic in ("/quad/imu/data_raw", "/quad/gps/fix")]
    with open_bag(write_rows(poor)) as bag:
        log = read_log(bag, "/quad")
        assert datum_of(bag) is None
        assert namespaces(bag) == ["/quad"]
    assert len(log.truth) == 0
    assert log.estimates == {}
    assert log.gnss is None
    assert any("no /datum" in note for note in log.notes)
    assert any("no /quad/ground_truth/odom" in note for note in log.notes)


def test_bad_rows_are_left_out_and_counted(circle_rows, write_rows):
    truth = [item for item in circle_rows if item.topic.endswith("ground_truth/odom")][:10]
    x = np.frombuffer(
        truth[3].payload, "<f8", 1, truth[3].payload.find(np.float64(3.0).tobytes()) - 16
    )
    broken = truth[3].payload.replace(x.tobytes(), np.float64("nan").tobytes(), 1)
    rows = [*truth[:3], truth[3]._replace(payload=broken), *truth[4:], truth[5]]
    with open_bag(write_rows(rows)) as bag:
        log = read_log(bag, "/quad")
    assert len(log.truth) == 9
    assert any("2 messages left out" in note for note in log.notes)
    assert (np.diff(log.truth.stamp_ns) > 0).all()


def test_a_damaged_message_takes_no_others_with_it(circle_rows, write_rows):
    """Cut short, one of them in the stamp; the rest of the block stays."""
    cut = {"/quad/ground_truth/odom": 9, "/quad/odometry/filtered": 40, "/quad/events": 6}
    rows, seen = [], set()
    for item in circle_rows:
        if item.topic in cut and item.topic not in seen:
            seen.add(item.topic)
            item = item._replace(payload=item.payload[: cut[item.topic]])
        rows.append(item)
    count = sum(item.topic == "/quad/ground_truth/odom" for item in rows)
    with open_bag(write_rows(rows)) as bag:
        bag.custom["seed"] = "lucky"
        log = read_log(bag, "/quad")
        notes: list[str] = []
        poses = read_truth(bag, "/quad/ground_truth/odom", notes)
    assert seen == set(cut)
    assert len(log.truth) == len(poses) == count - 1
    for topic in cut:
        assert sum(f"{topic}: 1 messages left out" in note for note in log.notes) == 1
    assert any("/quad/ground_truth/odom: 1 messages left out" in note for note in notes)
    assert log.seed == 0
    assert any("seed 'lucky' in its metadata is no whole number" in note for note in log.notes)


def test_the_truth_of_poses_loses_only_damaged_ones(circle_rows, write_rows):
    poses = [item for item in circle_rows if item.topic == "/quad/reference"]
    assert poses[0].type_name == "geometry_msgs/msg/PoseStamped"
    rows = [poses[0]._replace(payload=poses[0].payload[:30]), *poses[1:]]
    notes: list[str] = []
    with open_bag(write_rows(rows)) as bag:
        assert len(read_truth(bag, "/quad/reference", notes)) == len(poses) - 1
    assert [note.partition(":")[0] for note in notes] == ["/quad/reference"]


def test_a_topic_of_another_type_is_left_out(circle_rows, write_rows):
    rows = [
        item._replace(topic="/quad/odometry/filtered") if item.topic == "/quad/gps/fix" else item
        for item in circle_rows
        if item.topic != "/quad/odometry/filtered"
    ]
    with open_bag(write_rows(rows)) as bag:
        log = read_log(bag, "/quad")
    assert log.estimates == {}
    assert any("is sensor_msgs/msg/NavSatFix" in note for note in log.notes)


def test_measurements_come_in_the_order_of_the_log(circle_bag, circle_rows):
    kinds = {
        "/quad/imu/data_raw": "imu",
        "/quad/gps/fix": "gnss_position",
        "/quad/gps/vel": "gnss_velocity",
        "/quad/imu/mag": "magnetic_field",
    }
    expected = [(kinds[r.topic], r.stamp_ns) for r in circle_rows if r.topic in kinds]
    with open_bag(circle_bag) as bag:
        found = [m for part in measurements(bag, "/quad") for m in part]
    assert [(m.kind, m.stamp_ns) for m in found] == expected
    imu = next(m for m in found if m.kind == "imu")
    force, rate, force_covariance, rate_covariance = imu.values
    np.testing.assert_allclose(force, [0, RADIUS_M * RATE_RADPS**2, 9.80665])
    np.testing.assert_allclose(rate, [0, 0, RATE_RADPS])
    np.testing.assert_allclose(force_covariance, np.diag([1e-4] * 3))
    np.testing.assert_allclose(rate_covariance, np.diag([1e-6] * 3))
    fix = next(m for m in found if m.kind == "gnss_position")
    assert fix.values[0][0] == pytest.approx(47.397742, abs=1e-4)
    np.testing.assert_allclose(fix.values[1], np.diag([0.01, 0.01, 0.04]))


def test_a_missing_imu_is_named_with_the_vehicles_there_are(circle_bag):
    with open_bag(circle_bag) as bag, pytest.raises(InputError) as caught:
        list(measurements(bag, "/drone"))
    assert "no topic /drone/imu/data_raw" in str(caught.value)
    assert "/quad" in str(caught.value)
    assert "--namespace" in str(caught.value)


def test_a_message_that_is_not_its_type_is_named(circle_rows, write_rows):
    rows = [
        item._replace(payload=item.payload[:40]) if item.topic == "/quad/imu/mag" else item
        for item in circle_rows
    ]
    with open_bag(write_rows(rows)) as bag, pytest.raises(InputError, match="/quad/imu/mag"):
        list(measurements(bag, "/quad"))


@pytest.mark.parametrize(
    "topic", ["/quad/imu/data_raw", "/quad/odometry/filtered", "/quad/gps/fix"]
)
def test_blocks_decode_as_rosbags_does(circle_bag, topic):
    with open_bag(circle_bag) as bag:
        messages = list(bag.messages([topic]))
        objects = [bag.deserialize(m) for m in messages]
    block = decode(messages[0].type_name, [m.payload for m in messages])
    stamps = [o.header.stamp.sec * 10**9 + o.header.stamp.nanosec for o in objects]
    assert block.stamp_ns.tolist() == stamps
    if topic.endswith("data_raw"):
        expected = [o.angular_velocity_covariance for o in objects]
        np.testing.assert_array_equal(block["w_covariance"].reshape(-1, 9), expected)
    elif topic.endswith("filtered"):
        expected = [o.twist.covariance for o in objects]
        np.testing.assert_array_equal(block["twist_covariance"].reshape(-1, 36), expected)
    else:
        assert block["covariance_type"].tolist() == [o.position_covariance_type for o in objects]
        assert block["height_m"].tolist() == [o.altitude for o in objects]


def test_frame_names_of_several_lengths_in_one_block(circle_rows):
    """Two drivers on one topic: layouts that differ are told apart, equal lengths too."""
    payload = next(r.payload for r in circle_rows if r.topic == "/quad/imu/data_raw")
    other = payload.replace(b"imu_link", b"imu_left")
    block = decode("sensor_msgs/msg/Imu", [payload, other, payload])
    np.testing.assert_allclose(block["w"], [[0, 0, RATE_RADPS]] * 3)


def test_big_endian_and_short_messages_are_refused(circle_rows):
    payload = next(r.payload for r in circle_rows if r.topic == "/quad/imu/data_raw")
    for bad in (b"\x00\x00" + payload[2:], payload[:50], b"", payload[:12] + b"\xff" * 40):
        with pytest.raises(QuadsimError, match="is no sensor_msgs/msg/Imu"):
            decode("sensor_msgs/msg/Imu", [payload, bad])


def test_estimators_beside_are_read_by_their_names(circle_rows, write_rows):
    """Whatever else publishes odometry/NAME, behind the estimate that was flown on."""
    beside = [
        item._replace(topic="/quad/odometry/ekf7")
        for item in circle_rows
        if item.topic == "/quad/odometry/filtered"
    ]
    with open_bag(write_rows([*circle_rows, *beside])) as bag:
        log = read_log(bag, "/quad")
    assert next(iter(log.estimates)) == "filtered"
    assert "ekf7" in log.estimates
    np.testing.assert_array_equal(log.estimates["ekf7"].p_W, log.estimates["filtered"].p_W)
