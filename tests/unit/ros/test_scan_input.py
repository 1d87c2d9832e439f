"""Scans as messages, back into points of the world: they lie on what the rays met."""

import math
from array import array
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from scipy.spatial.transform import Rotation
from sensor_msgs.msg import LaserScan, PointCloud2, PointField

from quadsim.base.compiled import new_record
from quadsim.base.records import KINEMATICS
from quadsim.geometry.rotation import from_euler, yaw_of
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.messages.scans import LEVEL_FRAME, MOUNTED_LEVEL_FRAME, CloudWriter, ScanWriter
from quadsim.ros.nodes.lidar import frame_of
from quadsim.ros.parts import scan_input
from quadsim.ros.parts.scan_input import CameraMountParams, LidarMountParams, ScanInput
from quadsim.sensors.devices import load_device, simulate
from quadsim.sensors.pose_history import PoseHistory
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.obstacles import Obstacle, Pose, Sphere
from quadsim.world.scene.scene import scene_of

#: Centre and radius of the one thing there; it is met from all around.
CENTRE_W, RADIUS_M = np.array([1.0, -2.0, 3.0]), 8.0
P_W = np.array([0.4, -1.5, 2.6])
TURN = Rotation.from_euler("ZYX", [50.0, 20.0, -15.0], degrees=True)


@pytest.fixture(autouse=True)
def _without_parameters_of_a_camera(monkeypatch):
    monkeypatch.setattr(scan_input, "declare", lambda *_: CameraMountParams())


@pytest.fixture
def inside(monkeypatch):
    """Scans of a device inside of a ball's shell, told as messages; gives what was seen."""

    def seen(device, mount, writer, frame):
        found = []
        monkeypatch.setattr(scan_input, "declare", lambda *_: LidarMountParams(*mount))
        heard = {}
        node = SimpleNamespace(listen=lambda topic, take, raw: heard.update({topic.name: take}))
        points = ScanInput(node, found.append)
        x, y, z, w = TURN.as_quat()
        points.poses.take(1_000_000, P_W, (w, x, y, z))
        message = writer(frame, device).message(scan_of(device, mount, frame))
        heard["scan" if device.channels == 1 else "points"](message)
        return found[0]

    return seen


def scan_of(device, mount, frame):
    """Ranges to the ball from within, by scipy's rotations and the quadratic."""
    level = frame in (LEVEL_FRAME, MOUNTED_LEVEL_FRAME)
    yaw = TURN.as_euler("ZYX")[0]
    turn = Rotation.from_euler("Z", yaw) if level else TURN
    sensor = turn * Rotation.from_euler("ZYX", mount[1][::-1], degrees=True)
    origin_W = P_W + turn.apply(mount[0])
    rays_W = sensor.apply(device.directions().reshape(-1, 3))
    to = origin_W - CENTRE_W
    along = rays_W @ to
    ranges = -along + np.sqrt(along**2 - (to @ to - RADIUS_M**2))
    shape = (device.channels, device.columns)
    return SimpleNamespace(
        stamp_ns=1_000_000,
        ranges=ranges.reshape(shape).astype(np.float32),
        intensities=np.zeros(shape, np.float32),
    )


@pytest.mark.parametrize(
    ("device", "mount", "writer", "frame"),
    [
        ("ideal_lidar", ((0.1, -0.2, 0.05), (5.0, -10.0, 90.0)), ScanWriter, "lidar_link"),
        ("ideal_lidar", ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)), ScanWriter, LEVEL_FRAME),
        ("ideal_lidar", ((0.3, 0.1, -0.2), (5.0, 0.0, 90.0)), ScanWriter, MOUNTED_LEVEL_FRAME),
        ("vlp16", ((0.1, -0.2, 0.05), (5.0, -10.0, 90.0)), CloudWriter, "quad2/lidar_link"),
    ],
)
def test_points_lie_on_what_the_rays_met(inside, device, mount, writer, frame):
    params = load_device("lidar", device)
    scan = inside(params, mount, writer, frame)
    distance_m = np.linalg.norm(scan.points_W - CENTRE_W, axis=1)
    assert len(distance_m) == params.channels * params.columns
    # ranges in float32: 1e-7 of 10 m; a LaserScan's angles likewise, times 10 m
    assert distance_m == pytest.approx(np.full(len(distance_m), RADIUS_M), abs=2e-5)


def test_rays_that_hit_nothing_end_at_the_range_and_those_that_say_nothing_are_no_rays(inside):
    params = replace(load_device("lidar", "ideal_lidar"), columns=5, azimuth_max_deg=0.0)
    scan = SimpleNamespace(
        stamp_ns=1_000_000,
        ranges=np.array([[4.0, np.inf, -np.inf, np.nan, 29.0]], np.float32),
        intensities=np.zeros((1, 5), np.float32),
    )
    found = []
    node = SimpleNamespace(listen=lambda *_, **__: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_input, "declare", lambda *_: LidarMountParams())
        points = ScanInput(node, found.append)
    points.poses.take(0, (0.0, 0.0, 2.0), (1.0, 0.0, 0.0, 0.0))
    points._on_scan(ScanWriter("lidar_link", params).message(scan))
    lengths = np.hypot(*(found[0].points_W[:, :2].T))
    # -inf (REP 117) is something nearer than the least range
    assert lengths == pytest.approx([4.0, params.range_min_m, 29.0], rel=1e-6)
    assert np.hypot(*found[0].ends_W[0, :2]) == pytest.approx(params.range_max_m)
    assert len(found[0].ends_W) == 1


def at(poses, *stamps_ns):
    return poses.at(np.array(stamps_ns))


def test_a_scan_is_where_the_vehicle_was_then():
    """Between two poses: half the way, half the turn; after them the last."""
    poses = PoseHistory()
    with pytest.raises(ValueError, match="no pose yet"):
        at(poses, 0)
    half = math.radians(40.0)
    poses.take(100, (0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0))
    poses.take(300, (2.0, 0.0, 1.0), (-math.cos(half), 0.0, 0.0, -math.sin(half)))
    p_W, q_WB = at(poses, 200, 100, 900)
    assert p_W[:, 0] == pytest.approx([1.0, 0.0, 2.0])
    assert p_W[:, 1:] == pytest.approx(np.array([[0.0, 1.0]] * 3))
    turns = Rotation.from_quat(q_WB[:, [1, 2, 3, 0]]).magnitude()
    assert turns == pytest.approx([half, 0.0, 2.0 * half], abs=1e-9)
    poses.take(10, (7.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0))  # time went back
    assert at(poses, 200)[0][0] == pytest.approx([7.0, 0.0, 1.0])


def test_a_scan_of_another_time_has_no_place():
    """Before the first pose, too old, and of the future; just within, it has one."""
    poses = PoseHistory(within_s=0.3)
    level = (1.0, 0.0, 0.0, 0.0)
    ms = 1_000_000
    for k in range(1000, 1050):
        poses.take(20 * ms * k, (20 * ms * k * 4e-9, 0.0, 1.0), level)
    newest = 20 * ms * 1049
    oldest = newest - 300 * ms
    assert at(poses, oldest)[0][0, 0] == pytest.approx(oldest * 4e-9)
    assert at(poses, newest + 300 * ms)[0][0, 0] == pytest.approx(newest * 4e-9)
    for stamps, words in (
        ((oldest - ms,), "0.30 s older than the pose"),
        ((newest - 98_000 * ms,), "98.00 s older than the pose; have both the same clock"),
        ((newest, newest + 301 * ms), "0.30 s newer than the pose"),
        ((newest - 10, newest + 98_000 * ms), "98.00 s newer"),
    ):
        with pytest.raises(ValueError, match=words):
            at(poses, *stamps)
    assert not any(poses.begins_after(stamp) for stamp in (newest, oldest - ms, 0))
    young = PoseHistory(within_s=0.3)
    assert young.begins_after(newest)
    young.take(newest, (0.0, 0.0, 1.0), level)
    # just before the first pose is how each graph begins; another clock is a fault
    assert young.begins_after(newest - ms)
    assert not any(young.begins_after(stamp) for stamp in (newest, newest - 301 * ms, 0))
    with pytest.raises(ValueError, match="older than the first pose"):
        at(young, newest - ms)


@pytest.fixture
def reader(monkeypatch):
    """A ScanInput, and what it has found; the pose is (0, 0, 2), level, at 0 s and 0.2 s."""
    monkeypatch.setattr(scan_input, "declare", lambda *_: LidarMountParams())
    found = []
    points = ScanInput(SimpleNamespace(listen=lambda *_, **__: None), found.append)
    for stamp_ns in (0, 200_000_000):
        points.poses.take(stamp_ns, (0.0, 0.0, 2.0), (1.0, 0.0, 0.0, 0.0))
    return points, found


def cloud_of(points, pad=0, rows=1, **changes):
    """A cloud of x, y, z, written by numpy, with unused bytes behind each row."""
    points = np.asarray(points, "<f4").reshape(rows, -1, 3)
    data = b"".join(row.tobytes() + b"\xff" * pad for row in points)
    fields = [PointField(name=n, offset=4 * i, datatype=7, count=1) for i, n in enumerate("xyz")]
    given = {
        "height": rows, "width": points.shape[1], "point_step": 12, "fields": fields,
        "row_step": 12 * points.shape[1] + pad, "data": array("B", data),
    }  # fmt: skip
    return PointCloud2(**(given | changes))


def test_rows_of_a_cloud_may_be_padded_and_their_order_of_bytes_is_as_it_says(reader):
    points, found = reader
    there = np.arange(1.0, 19.0).reshape(6, 3)
    expected = there + np.array((0.0, 0.0, 2.0))
    points._on_points(cloud_of(there, pad=5, rows=2))
    points._on_points(cloud_of(there, row_step=0))
    data = array("B", there.astype(">f4").tobytes())
    points._on_points(cloud_of(there, data=data, is_bigendian=True))
    assert [scan.points_W.tolist() for scan in found] == [expected.tolist()] * 3
    assert found[0].range_m is None  # its farthest hit is not how far it sees


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": array("B", b"\0" * 71)}, "sizes do not fit"),
        ({"point_step": 8}, "sizes do not fit"),
        ({"height": 2, "width": 3, "row_step": 0}, "row_step 0 of 3 points of 12"),
        ({"fields": [PointField(name=n, datatype=8) for n in "xyz"]}, "field x of type 8"),
        ({"fields": [PointField(name=n, datatype=7) for n in "xy"]}, "no fields x, y, z"),
        ({"width": 0, "height": 0, "data": array("B")}, "none of its 0 points has a reading"),
        ({"data": array("B", np.full(18, np.nan, "<f4").tobytes())}, "none of its 6 points"),
    ],
)
def test_a_cloud_that_makes_no_sense_or_says_nothing_is_refused(reader, changes, words):
    points, found = reader
    with pytest.raises(MessageError, match=words):
        points._on_points(cloud_of(np.ones((6, 3)), **changes))
    assert not found


def test_a_scan_of_another_clock_is_refused(reader):
    points, found = reader
    message = LaserScan(angle_increment=0.1, range_max=10.0, ranges=[3.0])
    message.header.stamp.sec = 30
    with pytest.raises(MessageError, match="s newer than the pose; have both"):
        points._on_scan(message)
    assert not found


@pytest.mark.parametrize("ranges", [[], [math.nan] * 4])
def test_a_scan_that_says_nothing_is_refused_and_one_that_sees_nothing_is_not(reader, ranges):
    points, found = reader
    message = LaserScan(angle_increment=0.1, range_max=10.0, ranges=ranges)
    with pytest.raises(MessageError, match=f"none of its {len(ranges)} rays has a reading"):
        points._on_scan(message)
    message.ranges = [math.nan, math.inf]
    points._on_scan(message)
    assert len(found[0].ends_W) == 1
    for wrong in (math.nan, math.inf):
        message.time_increment = wrong
        with pytest.raises(MessageError, match="not finite"):
            points._on_scan(message)


#: Flies east at 4 m/s and turns left at 1.5 rad/s.
SPEED_MPS, TURN_RADPS = 4.0, 1.5


@pytest.mark.parametrize("kind", ["scan", "points", "level", "ns"])
def test_a_lidar_that_turns_while_the_vehicle_moves_sees_a_wall_where_it_stands(reader, kind):
    """A spinning lidar, 10 Hz, in a round hall: each ray by the closed form, at its own time.

    Taken at once the last rays are off by 0.4 m and by 0.15 rad of some 8 m.
    """
    points, found = reader
    points.poses.take(-1, (0.0, 0.0, 2.0), (1.0, 0.0, 0.0, 0.0))  # begins anew
    for k in range(12):
        half = 0.5 * TURN_RADPS * 0.01 * k
        turn = (math.cos(half), 0.0, 0.0, math.sin(half))
        points.poses.take(10_000_000 * k, (SPEED_MPS * 0.01 * k, 0.0, 2.0), turn)
    count = 500
    t_s = 0.1 / count * np.arange(count)
    azimuth_rad = 2.0 * np.pi / count * np.arange(count)
    heading_rad = azimuth_rad + TURN_RADPS * t_s
    origins_W = np.stack([SPEED_MPS * t_s, 0.0 * t_s], axis=1)
    rays_W = np.stack([np.cos(heading_rad), np.sin(heading_rad)], axis=1)
    to = origins_W - CENTRE_W[:2]
    along = np.einsum("ij,ij->i", rays_W, to)
    ranges = -along + np.sqrt(along**2 - np.einsum("ij,ij->i", to, to) + RADIUS_M**2)
    if kind in ("scan", "level"):
        message = LaserScan(
            angle_increment=2.0 * np.pi / count, time_increment=0.1 / count, range_max=30.0,
            ranges=ranges.tolist(),
        )  # fmt: skip
        message.header.frame_id = LEVEL_FRAME if kind == "level" else "laser"
        points._on_scan(message)
    else:
        name, datatype, form = ("time", 7, "<f4") if kind == "points" else ("t", 6, "<u4")
        cloud = np.zeros(count, [("xyz", "<f4", 3), ("at", form)])
        cloud["xyz"][:, 0], cloud["xyz"][:, 1] = (
            ranges * np.cos(azimuth_rad),
            ranges * np.sin(azimuth_rad),
        )
        cloud["at"] = t_s if kind == "points" else np.round(1e9 * t_s)
        message = cloud_of(np.zeros((0, 3)))
        message.fields = [*message.fields, PointField(name=name, offset=12, datatype=datatype)]
        message.width, message.point_step, message.row_step = count, 16, 16 * count
        message.data = array("B", cloud.tobytes())
        points._on_points(message)
    (scan,) = found
    off = np.linalg.norm(scan.points_W[:, :2] - CENTRE_W[:2], axis=1) - RADIUS_M
    # straight between poses 10 ms apart the heading is right to 1e-6; float32 of angle and range
    assert np.abs(off).max() < 1e-4
    # the way of the rays' beginnings, its middle
    assert scan.origin_W == pytest.approx([SPEED_MPS * t_s.mean(), 0.0, 2.0])


@pytest.mark.parametrize("level", [False, True])
@pytest.mark.parametrize(
    "mount", [LidarMountParams(), LidarMountParams((0.3, -0.2, 0.1), (0.0, 5.0, 90.0))]
)
def test_the_simulated_lidar_and_its_reader_agree(monkeypatch, mount, level):
    """The whole way: rays of the device into a scene, messages, points on its surface."""
    params = replace(
        load_device("lidar", "ideal_lidar"),
        position_B_m=mount.position_B_m, rotation_deg=mount.rotation_deg,
    )  # fmt: skip
    centre_W, radius_m = np.array([3.0, 0.5, 2.0]), 1.0
    scene = scene_of([Obstacle("ball", Sphere(radius_m), Pose(tuple(centre_W)))])
    device = simulate("lidar", params, EnvironmentParams(), 1, "quad", scene)
    truth = new_record(KINEMATICS)
    truth.p_W[:], q_WB = (0.0, 0.0, 2.0), from_euler(0.1, -0.05, 0.4)
    truth.q_WB[:] = from_euler(0.0, 0.0, yaw_of(q_WB)) if level else q_WB  # as the node does
    scan = None
    for k in range(1, 40):
        truth.stamp_ns = k * 5_000_000
        scan = device.measure(truth) or scan
    found = []
    node = SimpleNamespace(listen=lambda *_, **__: None)
    monkeypatch.setattr(scan_input, "declare", lambda *_: mount)
    points = ScanInput(node, found.append)
    points.poses.take(0, truth.p_W, q_WB)
    points._on_scan(ScanWriter(frame_of(params, level), params).message(scan))
    there_W = found[0].points_W[found[0].points_W[:, 2] > 0.5]  # the others are on the floor
    distance_m = np.linalg.norm(there_W - centre_W, axis=1)
    assert len(distance_m) > 30
    assert distance_m == pytest.approx(np.full(len(distance_m), radius_m), abs=2e-5)


@pytest.fixture
def mounted(monkeypatch):
    """Makes a ScanInput of a mount; gives what takes its messages by topic, and what was found."""

    def make(mount):
        found, takers = [], {}
        monkeypatch.setattr(scan_input, "declare", lambda *_: mount)
        node = SimpleNamespace(listen=lambda topic, take, raw: takers.update({topic.name: take}))
        points = ScanInput(node, found.append)
        w, z = math.cos(math.radians(45.0)), math.sin(math.radians(45.0))
        points.poses.take(0, (5.0, 0.0, 2.0), (w, 0.0, 0.0, z))  # it looks north
        return takers, found

    return make


def test_hits_on_the_own_body_are_left_out_and_hide_what_is_behind(mounted):
    """A leg 0.3 m behind the vehicle's middle, by a lidar 0.1 m before it that looks left."""
    mount = LidarMountParams((0.1, 0.0, 0.05), (0.0, 0.0, 90.0), self_radius_m=0.35)
    takers, found = mounted(mount)
    ranges = [math.inf] * 360
    ranges[90] = 0.4  # backwards, from a lidar that looks left
    ranges[0] = 0.4  # 0.41 m from the middle: somebody else's
    message = LaserScan(angle_increment=math.radians(1.0), range_max=10.0, ranges=ranges)
    takers["scan"](message)
    (scan,) = found
    assert scan.points_W == pytest.approx(np.array([[5.0 - 0.4, 0.1, 2.05]]), abs=1e-6)
    looked_deg = np.degrees(scan.azimuths_W) % 360.0
    assert len(looked_deg) == 359
    assert np.abs(looked_deg - 270.0).min() == pytest.approx(1.0, abs=1e-4)  # not south
    points_S = [(0.0, 0.4, 0.0), (0.4, 0.0, 0.0), (0.0, 0.4, -0.5)]
    takers["points"](cloud_of(points_S))
    assert found[1].points_W == pytest.approx(
        np.array([[4.6, 0.1, 2.05], [5.0, -0.3, 1.55]]), abs=1e-6
    )
    assert found[1].azimuths_W is None


@pytest.mark.parametrize("frame", [LEVEL_FRAME, MOUNTED_LEVEL_FRAME, "base_link"])
def test_the_own_body_is_filtered_as_it_is_tilted(monkeypatch, frame):
    """It leans by 25 degrees to the right, so that of a level lidar's hits others are its own.

    Every point of a grid is left out if it is within the cylinder by scipy's rotation.
    """
    mount = LidarMountParams(self_radius_m=0.4, self_half_height_m=0.1)
    monkeypatch.setattr(scan_input, "declare", lambda *_: mount)
    found, takers = [], {}
    node = SimpleNamespace(listen=lambda topic, take, raw: takers.update({topic.name: take}))
    points = ScanInput(node, found.append)
    turn = Rotation.from_euler("ZYX", [40.0, 0.0, 25.0], degrees=True)
    x, y, z, w = turn.as_quat()
    points.poses.take(0, (5.0, 0.0, 2.0), (w, x, y, z))
    side = np.linspace(-0.6, 0.6, 25)
    grid = np.stack(np.meshgrid(side, side, side), axis=-1).reshape(-1, 3) + 0.003
    message = cloud_of([tuple(point) for point in grid])
    message.header.frame_id = frame
    takers["points"](message)
    of_lidar = turn if frame == "base_link" else Rotation.from_euler("Z", 40.0, degrees=True)
    offsets_W = of_lidar.apply(grid.astype(np.float32).astype(float))
    a, b, c = turn.inv().apply(offsets_W).T
    others = (np.hypot(a, b) > 0.4) | (np.abs(c) > 0.1)
    assert 0 < others.sum() < len(grid)
    assert found[0].points_W == pytest.approx(offsets_W[others] + (5.0, 0.0, 2.0), abs=1e-9)


def test_behind_a_hand_a_cloud_sees_nothing(mounted):
    """A cloud does not say what its rays did not hit: here a hand hides them over 30 degrees."""
    takers, found = mounted(LidarMountParams(self_radius_m=0.35))
    azimuths = np.radians(np.arange(30.5, 60.5))
    hand = [(0.3 * math.cos(a), 0.3 * math.sin(a), 0.05) for a in azimuths]
    takers["points"](cloud_of([*hand, (5.0, 0.0, 0.0)]))
    looked = set(np.floor(np.degrees(found[0].azimuths_W)).astype(int) % 360)
    assert looked.isdisjoint(range(121, 149))  # it looks north, by 90 degrees
    for degree in range(153, 477):  # everywhere else it looks, or beside it within a degree
        assert looked & {degree % 360, (degree - 1) % 360, (degree + 1) % 360}
    # what is seen beside it in the same directions opens them again, and a hand alone nothing
    far = [(5.0 * math.cos(a), 5.0 * math.sin(a), 2.0) for a in azimuths]
    takers["points"](cloud_of([*hand, *far]))
    assert found[1].azimuths_W is None
    takers["points"](cloud_of([(0.3 * math.cos(a), 0.3 * math.sin(a), 0.0)
                               for a in np.radians(np.arange(0.5, 360.5))]))  # fmt: skip
    assert len(found[2].azimuths_W) == 0


def test_a_cloud_looks_as_far_round_as_is_said(mounted):
    takers, found = mounted(LidarMountParams(cloud_field_deg=87.0))
    takers["points"](cloud_of([(3.0, 0.0, 0.0)]))
    looked_deg = np.degrees(found[0].azimuths_W)
    assert (looked_deg.min(), looked_deg.max()) == pytest.approx((90.0 - 43.5, 90.0 + 43.5))
