"""Scans as messages, back into points of the world: they lie on what the rays met."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from scipy.spatial.transform import Rotation

from quadsim.compiled import new_record
from quadsim.nodes import scan_input
from quadsim.nodes.cdr import MessageError
from quadsim.nodes.scan_input import LEVEL_FRAME, MountParams, PoseHistory, ScanInput
from quadsim.nodes.scan_messages import CloudWriter, ScanWriter
from quadsim.records import KINEMATICS
from quadsim.sensors.devices import load_device, simulate
from quadsim.world.environment import EnvironmentParams
from quadsim.world.obstacles import Obstacle, Pose, Sphere
from quadsim.world.scene import scene_of

#: Centre and radius of the one thing there; it is met from all around.
CENTRE_W, RADIUS_M = np.array([1.0, -2.0, 3.0]), 8.0
P_W = np.array([0.4, -1.5, 2.6])
TURN = Rotation.from_euler("ZYX", [50.0, 20.0, -15.0], degrees=True)


@pytest.fixture
def inside(monkeypatch):
    """Scans of a device inside of a ball's shell, told as messages; gives what was seen."""

    def seen(device, mount, writer, frame):
        found = []
        monkeypatch.setattr(scan_input, "declare", lambda *_: MountParams(*mount))
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
    level = frame == LEVEL_FRAME
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
        patch.setattr(scan_input, "declare", lambda *_: MountParams())
        points = ScanInput(node, found.append)
    points.poses.take(0, (0.0, 0.0, 2.0), (1.0, 0.0, 0.0, 0.0))
    points._on_scan(ScanWriter("lidar_link", params).message(scan))
    lengths = np.hypot(*(found[0].points_W[:, :2].T))
    # -inf (REP 117) is something nearer than the least range
    assert lengths == pytest.approx([4.0, params.range_min_m, 29.0], rel=1e-6)
    assert np.hypot(*found[0].ends_W[0, :2]) == pytest.approx(params.range_max_m)
    assert len(found[0].ends_W) == 1


def test_a_scan_is_where_the_vehicle_was_then():
    """Between two poses: half the way, half the turn; beyond them the nearest."""
    poses = PoseHistory()
    with pytest.raises(MessageError, match="no pose yet"):
        poses.at(0)
    half = math.radians(40.0)
    poses.take(100, (0.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0))
    poses.take(300, (2.0, 0.0, 1.0), (-math.cos(half), 0.0, 0.0, -math.sin(half)))
    p_W, (w, x, y, z) = poses.at(200)
    assert p_W == pytest.approx([1.0, 0.0, 1.0])
    assert Rotation.from_quat([x, y, z, w]).magnitude() == pytest.approx(half)
    assert poses.at(50)[0] == pytest.approx([0.0, 0.0, 1.0])
    assert poses.at(900)[0] == pytest.approx([2.0, 0.0, 1.0])
    poses.take(10, (7.0, 0.0, 1.0), (1.0, 0.0, 0.0, 0.0))  # time went back
    assert poses.at(200)[0] == pytest.approx([7.0, 0.0, 1.0])


def test_the_simulated_lidar_and_its_reader_agree(monkeypatch):
    """The whole way: rays of the device into a scene, messages, points on its surface."""
    params = load_device("lidar", "ideal_lidar")
    centre_W, radius_m = np.array([3.0, 0.5, 2.0]), 1.0
    scene = scene_of([Obstacle("ball", Sphere(radius_m), Pose(tuple(centre_W)))])
    device = simulate("lidar", params, EnvironmentParams(), 1, "quad", scene)
    truth = new_record(KINEMATICS)
    truth.p_W[:], truth.q_WB[:] = (0.0, 0.0, 2.0), (1.0, 0.0, 0.0, 0.0)
    scan = None
    for k in range(1, 40):
        truth.stamp_ns = k * 5_000_000
        scan = device.measure(truth) or scan
    found = []
    node = SimpleNamespace(listen=lambda *_, **__: None)
    monkeypatch.setattr(scan_input, "declare", lambda *_: MountParams())
    points = ScanInput(node, found.append)
    points.poses.take(0, truth.p_W, truth.q_WB)
    points._on_scan(ScanWriter("lidar_link", params).message(scan))
    distance_m = np.linalg.norm(found[0].points_W - centre_W, axis=1)
    assert len(distance_m) > 30
    assert distance_m == pytest.approx(np.full(len(distance_m), radius_m), abs=2e-5)
