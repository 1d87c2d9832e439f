"""``quadsim replay`` beyond one bag: truths, what an estimator believed, arrivals, files, runs."""

import json
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rosbags.typesys import Stores, get_typestore
from scipy.spatial.transform import Rotation

from quadsim.analysis import metrics
from quadsim.analysis.replay import Settings, changed, estimator_params, replay
from quadsim.analysis.replay_log import Overheard
from quadsim.bag.reading import Bag, BagMessage
from quadsim.bag.storage import batched
from quadsim.base.errors import FlightError, InputError
from quadsim.cli.main import main
from quadsim.estimation import ESTIMATORS
from quadsim.estimation.eskf.layout import EXTERNAL_ATTITUDE, EXTERNAL_POSITION
from quadsim.estimation.eskf.measurement_buffer import CAPACITY
from quadsim.estimation.eskf.measurement_buffer import IMU as IMU_KIND
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.messages import Column, Messages
from quadsim.estimation.running import Running

TYPES = get_typestore(Stores.ROS2_JAZZY)
# the circle that tests/unit/conftest.py flies
START_NS = 1_000_000_000
TRUTH, IMU, FIX = "/quad/ground_truth/odom", "/quad/imu/data_raw", "/quad/gps/fix"
NAMES = {TRUTH: "truth", IMU: "imu", FIX: "fix", "/quad/imu/mag": "mag"}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["replay", *arguments])


def content_of(item: Any) -> Any:
    return TYPES.deserialize_cdr(item.payload, item.type_name)


def made(item: Any, content: Any, **fields: Any) -> Any:
    """A row like another with other content, by rosbags' serialiser."""
    fields = {"type_name": content.__msgtype__, **fields}
    payload = bytes(TYPES.serialize_cdr(content, fields["type_name"]))
    return item._replace(payload=payload, **fields)


def first(rows: Any, seconds: float) -> list[Any]:
    """Messages of the flight's beginning."""
    return [item for item in rows if item.stamp_ns < START_NS + round(seconds * 1e9)]


def edited(rows: Any, **edits: Callable[[int, Any], object]) -> list[Any]:
    """Rows with other contents of some topics: ``edit(number from 1, content)`` changes them."""
    counts = dict.fromkeys(edits, 0)
    found = []
    for item in rows:
        if (name := NAMES.get(item.topic)) in edits:
            content = content_of(item)
            counts[name] += 1
            edits[name](counts[name], content)
            item = made(item, content)
        found.append(item)
    return found


def settings(*names: str, **options: Any) -> Settings:
    return Settings(names or ("eskf",), params=estimator_params(None), **options)


@pytest.fixture(scope="module")
def tilted_bag(circle_rows: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The circle's messages with an IMU that has biases and sits askew, and one wild fix."""
    turn_SB = Rotation.from_euler("ZYX", [90.0, 0.0, 90.0], degrees=True).inv()

    def turn(vector: Any, bias_B: Any = 0.0) -> None:
        at = turn_SB.apply(np.array([vector.x, vector.y, vector.z]) + bias_B)
        vector.x, vector.y, vector.z = (float(x) for x in at)

    def imu(number: int, content: Any) -> None:
        turn(content.angular_velocity, GYRO_BIAS_B)
        turn(content.linear_acceleration)

    def fix(number: int, content: Any) -> None:
        content.altitude += 50.0 * (number == WILD_FIX)

    return edited(circle_rows, imu=imu, mag=lambda number, at: turn(at.magnetic_field), fix=fix)


GYRO_BIAS_B = np.array([0.004, -0.006, 0.01])
WILD_FIX = 80
MOUNT = ("mount.imu_roll_pitch_yaw_deg=[90, 0, 90]",)


# --- what an estimator believed ------------------------------------------------------------------


def test_innovations_and_biases_are_the_filters_own(tilted_bag, write_rows):
    params = estimator_params(None, MOUNT)
    bag = write_rows(tilted_bag)
    runs = {}

    class Kept(ESTIMATORS["eskf"]):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            runs["eskf"] = self

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ESTIMATORS, "eskf", Kept)
        known = ("noise.gnss_correlated_share",)  # fixes without error, which the bag would tell
        log = replay(bag, Settings(("eskf",), params=params, known=known)).log
    state, inside = runs["eskf"].state, log.inside["eskf"]
    # the filter's own sums: nothing was missed, and nothing counted twice
    names = ("gnss_position", "gnss_velocity", "magnetic_field")
    for sensor, name in enumerate(names):
        found = inside.innovations[name]
        assert found.accepted.sum() == state.accepted[sensor]
        assert (~found.accepted).sum() == state.rejected[sensor]
        assert found.nis[found.accepted].sum() == pytest.approx(state.nis_sum[sensor])
        assert (np.diff(found.stamp_ns) > 0).all()
    heading = inside.innovations["magnetic_field"]
    np.testing.assert_allclose(heading.nis, (heading.value[:, 0] / heading.sigma[:, 0]) ** 2)
    # a fix 50 m too high is refused, and says so: fixes come each 0.1 s from the start on
    position = inside.innovations["gnss_position"]
    (refused,) = np.flatnonzero(~position.accepted)
    assert position.stamp_ns[refused] == START_NS + (WILD_FIX - 1) * 100_000_000
    np.testing.assert_allclose(position.value[refused], [0.0, 0.0, 50.0], atol=0.3)
    assert position.sigma[refused, 2] == pytest.approx(0.2, rel=0.2)  # as the fix states
    # the bias is found, in the axes of the body though the IMU sits askew
    error = inside.gyro_bias_B[-1] - GYRO_BIAS_B
    assert (np.abs(error) < 3.0 * inside.sigma[-1, :3]).all()
    np.testing.assert_allclose(inside.gyro_bias_B[-1], GYRO_BIAS_B, atol=2e-3)
    assert np.diff(inside.stamp_ns).min() >= 100_000_000


def test_each_estimator_says_what_it_has(circle_bag):
    log = replay(circle_bag, settings(*ESTIMATORS)).log
    assert list(log.inside) == list(ESTIMATORS)
    fused = {name: set(inside.innovations) for name, inside in log.inside.items()}
    assert fused["blind"] == fused["smoother"] == set()
    assert fused["gps_ins"] == {"gnss_position", "gnss_velocity"}
    assert fused["ekf7"] == {"gnss_position", "gnss_velocity", "magnetic_field"}
    assert (log.inside["ekf7"].innovations["gnss_position"].nis > 0.0).all()
    for name in ("ekf7", "gps_ins"):
        assert len(log.inside[name].stamp_ns) == 0  # they know no bias
    for name in ("smoother", "eskf", "blind"):
        inside = log.inside[name]
        assert inside.gyro_bias_B.shape == inside.accel_bias_B.shape == (len(inside.stamp_ns), 3)
        assert len(inside.stamp_ns) > 100
        # the circle's IMU has none
        assert (np.abs(inside.gyro_bias_B[-1]) <= 3.0 * inside.sigma[-1, :3]).all()


def test_a_fix_of_the_future_costs_no_innovation(circle_rows, write_rows):
    """One stamp a minute ahead, which the border refuses, and a magnetometer that is ever ahead."""

    def mag(number: int, content: Any) -> None:
        content.header.stamp.sec += 5 * (content.header.stamp.sec >= 4)

    def fix(number: int, content: Any) -> None:
        content.header.stamp.sec += 60 * (number == 30)

    rows = edited(first(circle_rows, 6.0), mag=mag, fix=fix)
    result = replay(write_rows(rows), settings())
    counts = result.counts["eskf"]
    assert counts["gnss_position_too_early"] == 1
    assert counts["magnetic_field_too_early"] > 10
    position = result.log.inside["eskf"].innovations["gnss_position"]
    velocity = result.log.inside["eskf"].innovations["gnss_velocity"]
    assert set(velocity.stamp_ns) - set(position.stamp_ns) == {START_NS + 29 * 100_000_000}
    assert position.stamp_ns[-1] == velocity.stamp_ns[-1]


def test_each_of_many_late_poses_gives_two_innovations():
    """At rest, an IMU sample each 0.1 s and after it the 250 poses that were taken before it."""
    imu_ns = START_NS + 100_000_000 * np.arange(1, 42)
    pose_ns = START_NS + 100_000_000 + 400_000 * np.arange(1, 10_001)
    rest = np.concatenate(
        [
            [0.0, 0.0, EstimatorParams().gravity_mps2],
            np.zeros(3),
            1e-4 * np.tile(np.eye(3).ravel(), 2),
        ]
    )
    pose = np.concatenate([np.zeros(3), [1.0, 0.0, 0.0, 0.0], 1e-2 * np.eye(6).ravel()])
    place = np.searchsorted(imu_ns, pose_ns) + 1.0 - 1.0 / (2.0 + np.arange(10_000))
    messages = Messages.of(
        [
            Column(IMU_KIND, np.arange(41), imu_ns, np.tile(rest, (41, 1))),
            Column(EXTERNAL_POSITION, place, pose_ns, np.tile(pose, (10_000, 1))),
        ]
    )
    estimator = ESTIMATORS["eskf"](EstimatorParams(), None)
    running = Running(estimator)
    found = running.take(messages)
    rows = np.concatenate([found.innovations, running.newest()])
    assert found.counts[1] > len(messages) + CAPACITY
    for sensor in (EXTERNAL_POSITION, EXTERNAL_ATTITUDE):
        of = rows[rows["sensor"] == sensor]
        assert len(of) == estimator.state.accepted[sensor]
        assert np.isin(of["stamp_ns"], pose_ns).all()
        assert (np.diff(of["stamp_ns"]) > 0).all()
        assert (of["accepted"] == 1).all()
        assert np.abs(of["value"]).max() < 1e-6
        assert of["variance"].min() >= 1e-2  # what the pose states, and the estimate's own


def test_a_bag_that_counts_too_few_messages_is_replayed_whole(circle_rows, write_rows):
    bag = write_rows(first(circle_rows, 4.0))
    whole = replay(bag, settings()).log.estimates["eskf"]
    counted = Bag.counts.fget
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bag, "counts", property(lambda bag: counted(bag) | {IMU: 7}))
        again = replay(bag, settings()).log.estimates["eskf"]
    assert len(whole) == 300
    np.testing.assert_array_equal(again.p_W, whole.p_W)


# --- how messages came ---------------------------------------------------------------------------


def test_arrivals_are_what_was_recorded(circle_rows, write_rows):
    """The fix comes 0.15 s late, once 1 s; its stamps have a hole of 0.5 s; one mag is repeated."""
    rows = []
    fix = mag = 0
    for item in first(circle_rows, 7.0):
        if item.topic == FIX:
            fix += 1
            if 50 <= fix < 54:
                continue
            item = item._replace(stamp_ns=item.stamp_ns + (10**9 if fix == 30 else 150_000_000))
        if item.topic == "/quad/imu/mag":
            mag += 1
            if mag == 10:
                rows.append(item)
        rows.append(item)
    log = replay(write_rows(sorted(rows, key=lambda item: item.stamp_ns)), settings()).log
    assert log.arrivals.keys() == log.topics.keys()
    assert {name: how.count for name, how in log.arrivals.items()} == log.topics
    imu, fixes = log.arrivals["imu/data_raw"], log.arrivals["gps/fix"]
    assert imu.rate_hz == pytest.approx(100.0)
    assert imu.latency_p99_s == 0.0
    assert len(imu.gaps_ns) == 0
    assert fixes.rate_hz == pytest.approx(10.0)
    assert fixes.latency_median_s == pytest.approx(0.15)
    assert 0.15 < fixes.latency_p99_s < 1.0
    # the one that came late, in the order of the recording, is a step back of the stamps
    assert fixes.repeated == 1
    hole = [START_NS + 4_800_000_000, START_NS + 5_300_000_000]
    assert hole in fixes.gaps_ns.tolist()
    assert log.arrivals["imu/mag"].repeated == 1
    assert log.arrivals["events"].latency_median_s is None  # without a header
    assert log.arrivals["events"].rate_hz is None


def test_large_messages_that_nobody_wants_are_not_kept():
    """Of 60 MB of pictures less than four are in memory at a time, and their figures are whole."""

    def messages():
        for k in range(300):
            stamp = (k, 500_000_000)
            head = b"\x00\x01\x00\x00" + np.array(stamp, "<u4").tobytes()
            log_ns = (k + 1) * 10**9
            yield BagMessage("/camera", "sensor_msgs/msg/Image", log_ns, head + bytes(200_000))
            yield BagMessage("/imu", "sensor_msgs/msg/Imu", log_ns, head + bytes(100))

    bag = SimpleNamespace(
        counts=frozenset({"/camera", "/imu"}), batches=lambda topics: batched(messages())
    )
    taken = []
    listener = SimpleNamespace(
        names={"/imu"}, take=lambda full, *block: taken.append((full, *map(list, block)))
    )
    heard = Overheard(bag, listener)
    tracemalloc.start()
    try:
        assert sum(len(batch.compact()) for batch in heard.batches(["/imu"])) == 300
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4_000_000  # a batch of a megabyte, the one that is made of it, and the next
    assert {full for full, _, _ in taken} == {"/imu"}
    assert [len(row) for _, _, rows in taken for row in rows] == [112] * 300
    for how in heard.arrivals("").values():
        assert how.count == 300
        assert how.rate_hz == pytest.approx(1.0)
        assert how.latency_median_s == pytest.approx(0.5)


# --- truths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PoseStamped", "PoseWithCovarianceStamped"])
def test_poses_of_motion_capture_are_a_truth(circle_rows, write_rows, kind):
    rows = first(circle_rows, 4.0)
    for item in tuple(rows):
        if item.topic == TRUTH:
            odometry = content_of(item)
            pose = odometry.pose.pose if kind == "PoseStamped" else odometry.pose
            content = TYPES.types[f"geometry_msgs/msg/{kind}"](header=odometry.header, pose=pose)
            rows.append(made(item, content, topic="/mocap/quad"))
    bag = write_rows(rows)
    known, told = (
        replay(bag, settings("eskf", truth=truth)).log for truth in (None, "/mocap/quad")
    )
    expected = metrics.score(known.estimates["eskf"], known.truth)
    found = metrics.score(told.estimates["eskf"], told.truth)
    assert found.position_rmse_m == expected.position_rmse_m
    assert found.yaw_rmse_rad == expected.yaw_rmse_rad
    assert found.velocity_rmse_mps is None
    assert all(note.startswith("assumed: ") for note in told.notes)


@pytest.mark.parametrize("off_m", [0.0, 1e-4])
def test_a_truth_that_the_estimates_are_given_is_said(circle_rows, write_rows, off_m):
    """The errors of a Crazyflie's log were half a millimetre: it is given motion capture."""
    rows = first(circle_rows, 4.0)
    for item in tuple(rows):
        if item.topic == TRUTH:
            odometry = content_of(item)
            odometry.pose.pose.position.x += off_m
            content = TYPES.types["geometry_msgs/msg/PoseStamped"](
                header=odometry.header, pose=odometry.pose.pose
            )
            rows.append(made(item, content, topic="/quad/external/pose_stamped"))
    bag, words = write_rows(rows), "the truth is /quad/external/pose_stamped again"
    assert (words in str(replay(bag, settings("eskf")).log.notes)) == (off_m == 0.0)
    told = replay(bag, settings("eskf", truth="external/pose_stamped")).log.notes
    assert "judges the estimates, which are also given it" in str(told)


def test_what_never_started_names_what_it_still_waits_for(circle_rows, write_rows):
    kept = ("/imu/data_raw", "ground_truth/odom", "/datum")
    bag = write_rows([item for item in first(circle_rows, 4.0) if item.topic.endswith(kept)])
    words = ("start.require_heading=false", "start.require_gnss=false")

    def told(*changes):
        params = changed(EstimatorParams(), changes)
        return str(replay(bag, Settings(("eskf",), params=params)).log.notes)

    assert all(word in told() for word in words)
    less = told(words[0])
    assert "never started" in less
    assert words[0] not in less
    assert words[1] in less
    assert "never started" not in told(*words)


def test_a_truth_without_the_usual_topic_is_enough(circle_rows, write_rows):
    rows = [
        item._replace(topic="/quad/vicon/odom") if item.topic == TRUTH else item
        for item in first(circle_rows, 3.0)
    ]
    bag = write_rows(rows)
    log = replay(bag, settings(truth="vicon/odom")).log
    assert len(log.truth) == 300
    assert not any("nothing is scored" in note for note in log.notes)
    assert any("nothing is scored" in note for note in replay(bag, settings()).log.notes)
    with pytest.raises(InputError, match=r"poses in this bag: .*/quad/vicon/odom"):
        replay(bag, settings(truth="vicon/pose"))
    with pytest.raises(InputError, match=r"is sensor_msgs/msg/Imu; allowed: nav_msgs"):
        replay(bag, settings(truth="imu/data_raw"))


def test_a_bag_of_a_driver_is_scored_like_ours(circle_rows, write_rows):
    """The same messages under mavros' names, the velocity without its covariance, and mocap's."""
    names = {
        "imu/data_raw": "imu/data_raw",
        "imu/mag": "imu/mag",
        "gps/fix": "global_position/raw/fix",
    }
    rows = []
    for item in circle_rows:
        ours = item.topic.removeprefix("/quad/")
        if ours in names:
            rows.append(item._replace(topic=f"/mavros/{names[ours]}"))
        elif ours == "gps/vel":
            content = content_of(item)
            kind = TYPES.types["geometry_msgs/msg/TwistStamped"]
            twist = kind(header=content.header, twist=content.twist.twist)
            rows.append(made(item, twist, topic="/mavros/global_position/raw/gps_vel"))
        elif item.topic == TRUTH:
            content = content_of(item)
            kind = TYPES.types["geometry_msgs/msg/PoseStamped"]
            rows.append(made(item, kind(content.header, content.pose.pose), topic="/mocap/pose"))
        elif item.topic == "/datum":
            rows.append(item)
    bag = write_rows(rows)
    arguments = (str(bag), "--driver", "mavros", "--truth", "/mocap/pose", "--settle", "4")
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert summary["estimator"]["position_rmse_m"] < 0.1
    assert summary["estimator"]["velocity_rmse_mps"] is None
    assert summary["topics"]["imu/data_raw"]["median_rate_hz"] == pytest.approx(100.0)
    result = run(str(bag), "--driver", "mavroz")
    assert result.exit_code == 2
    assert "mavroz" in result.stderr.splitlines()[-1]


def test_bad_poses_are_left_out_and_counted(circle_rows, write_rows):
    rows = first(circle_rows, 3.0)
    for number, item in enumerate([item for item in rows if item.topic == TRUTH]):
        odometry = content_of(item)
        if number == 5:
            odometry.pose.pose.position.x = float("nan")
        if number == 6:
            odometry.pose.pose.orientation.w = odometry.pose.pose.orientation.z = 0.0
        pose = TYPES.types["geometry_msgs/msg/PoseStamped"](odometry.header, odometry.pose.pose)
        rows.append(made(item, pose, topic="/mocap/quad"))
    log = replay(write_rows(rows), settings(truth="/mocap/quad")).log
    assert len(log.truth) == 298
    assert any("2 messages left out" in note for note in log.notes)


# --- parameters ----------------------------------------------------------------------------------


def test_parameters_are_set_one_by_one():
    params = estimator_params(
        "eskf", ["noise.gyro_density=2e-2", "flat_ground=false", "magnetic_field_W_T=[1e-5, 0, 0]"]
    )
    assert params.noise.gyro_density == 0.02
    assert params.flat_ground is False
    assert params.magnetic_field_W_T == (1e-5, 0.0, 0.0)
    assert params.noise.accel_density == estimator_params("eskf").noise.accel_density


# --- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half(circle_rows: Any) -> list[Any]:
    """The circle's first 8 s with a truth that is off by 1 m eastwards."""

    def move(number: int, odometry: Any) -> None:
        odometry.pose.pose.position.x -= 1.0

    return edited(first(circle_rows, 8.0), truth=move)


def test_several_bags_give_their_runs_the_means_and_the_worst(
    circle_bag, half, write_rows, tmp_path
):
    other = write_rows(half, "half")
    copy, page = tmp_path / "out.json", tmp_path / "page.html"
    names = ("--estimator", "blind", "--estimator", "eskf")
    files = ("--output", str(copy), "--report", str(page))
    result = run(str(circle_bag), str(other), *names, *files, "--settle", "2", "--json")
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert json.loads(copy.read_text(encoding="utf-8")) == summary
    assert [item["title"] for item in summary["runs"]] == ["circle", "half"]
    one, two = (item["estimators"]["eskf"] for item in summary["runs"])
    assert two["position_rmse_m"] == pytest.approx(1.0, abs=0.1)
    assert list(summary["estimators"]) == ["blind", "eskf"]
    assert summary["estimator"]["name"] == "blind"
    mean, worst = summary["estimators"]["eskf"], summary["worst"]["eskf"]
    for key in ("position_rmse_m", "tilt_rmse_rad", "nees_mean"):
        assert mean[key] == pytest.approx((one[key] + two[key]) / 2.0)
        assert worst[key]["value"] == max(one[key], two[key])
    assert mean["ate"]["se3"]["rmse_m"] == pytest.approx(
        (one["ate"]["se3"]["rmse_m"] + two["ate"]["se3"]["rmse_m"]) / 2.0
    )
    assert mean["nis"]["gnss_position"]["count"] == sum(
        item["nis"]["gnss_position"]["count"] for item in (one, two)
    )
    assert worst["position_rmse_m"]["run"] == "half"
    assert mean["nis"]["gnss_position"]["dof"] == 3
    assert mean["runs"] == 2
    assert summary["duration_s"] == pytest.approx(11.99 + 7.99)
    assert summary["passed"] is True
    assert summary["report"] == str(page)
    assert "half" in page.read_text(encoding="utf-8")
    # what each says is what it says alone, and saying it twice changes nothing
    alone = json.loads(run(str(other), *names, "--settle", "2", "--json").stdout)
    again = summary["runs"][1]
    assert alone["digest"] == again["digest"]
    assert alone["estimators"] == again["estimators"]


def test_a_bad_bag_does_not_lose_the_others(circle_bag, tmp_path):
    missing = tmp_path / "missing"
    result = run(str(missing), str(circle_bag), "--json")
    assert result.exit_code == 2
    (line,) = [text for text in result.stderr.splitlines() if "error" in text]
    assert line.startswith(f"quadsim: error: {missing}: no such bag")
    summary = json.loads(result.stdout)
    assert [item["title"] for item in summary["runs"]] == ["circle"]
    assert summary["failures"][0]["bag"] == str(missing)
    assert summary["passed"] is False
    original = replay

    def broken(bag: Any, *arguments: Any) -> Any:
        if bag == missing:
            raise FlightError("the bag broke")
        return original(bag, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quadsim.analysis.replay.replay", broken)
        result = run(str(missing), str(circle_bag), "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["failures"] == [
        {"bag": str(missing), "error": "the bag broke"}
    ]
    result = run(str(missing), str(tmp_path / "gone"), "--json")
    assert result.exit_code == 2
    assert result.stdout == ""


def test_alignment_moves_what_is_scored(half, write_rows):
    bag = write_rows(half)
    options = ("--settle", "2", "--json")
    plain, moved = (
        json.loads(run(str(bag), "--align", kind, *options).stdout) for kind in ("none", "yaw")
    )
    assert plain["estimator"]["position_rmse_m"] == pytest.approx(1.0, abs=0.1)
    unmoved = plain["estimator"]["ate"]["none"]["rmse_m"]
    assert plain["estimator"]["position_rmse_m"] == pytest.approx(unmoved, rel=1e-12)
    assert moved["estimator"]["position_rmse_m"] == pytest.approx(
        plain["estimator"]["ate"]["yaw"]["rmse_m"]
    )
    assert moved["estimator"]["position_rmse_m"] < 0.1
    assert moved["estimator"]["nees_mean"] is None
    assert moved["digest"] == plain["digest"]
    assert moved["alignment"] == "yaw"


def test_absolute_errors_are_those_before_the_alignment(half, write_rows):
    """The truth at twice the size: the scale that is told is the one that was applied."""

    def double(number: int, odometry: Any) -> None:
        position = odometry.pose.pose.position
        position.x, position.y, position.z = 2 * position.x, 2 * position.y, 2 * position.z

    bag = write_rows(edited(half, truth=double))
    options = ("--settle", "2", "--json")
    plain, moved = (
        json.loads(run(str(bag), "--align", kind, *options).stdout)["estimator"]
        for kind in ("none", "sim3")
    )
    assert moved["ate"] == plain["ate"]
    assert moved["ate"]["sim3"]["scale"] == pytest.approx(2.0, rel=0.02)  # noise of the fixes
    assert moved["position_rmse_m"] == pytest.approx(moved["ate"]["sim3"]["rmse_m"])


def test_trajectories_and_errors_are_written(circle_bag, tmp_path):
    folder = tmp_path / "out"
    result = run(str(circle_bag), "--tum", str(folder), "--csv", str(folder), "--rpe", "2s")
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "circle_eskf.csv",
        "circle_eskf.tum",
        "circle_truth.tum",
    ]
    log = replay(circle_bag, settings()).log
    track = log.estimates["eskf"]
    tum = np.loadtxt(folder / "circle_eskf.tum")
    np.testing.assert_array_equal(np.round(tum[:, 0] * 1e9).astype(np.int64), track.stamp_ns)
    np.testing.assert_allclose(tum[:, 1:4], track.p_W, rtol=1e-8)
    turned = Rotation.from_quat(tum[:, 4:]) * Rotation.from_quat(np.roll(track.q_WB, -1, 1)).inv()
    assert turned.magnitude().max() < 1e-7
    assert len(np.loadtxt(folder / "circle_truth.tum")) == 1200
    table = np.genfromtxt(folder / "circle_eskf.csv", delimiter=",", names=True)
    error = metrics.errors(track, log.truth)
    assert len(table) == len(error)
    np.testing.assert_allclose(table["error_p_y_m"], error.position_W[:, 1], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(table["error_tilt_rad"], error.tilt, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(table["sigma_v_z_mps"], track.sigma[:, 5], rtol=1e-6)
