"""Markers of a flight among virtual obstacles, and other vehicles between their messages."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from visualization_msgs.msg import Marker

from quadsim.ros.messages.markers import ARROW_S, arrow, passing, rays, words, world_markers
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose, Sphere
from quadsim.world.scene.vehicle_track import VehicleTrack

TURN = (0.5, 0.5, 0.5, 0.5)
TRIANGLE = np.array([[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.0]]])


def triple(vector):
    return (vector.x, vector.y, vector.z)


def test_each_obstacle_is_shown_in_its_place_and_size():
    place = Pose((1.0, -2.0, 3.0), TURN)
    shapes = [
        (Box((1.0, 2.0, 3.0)), Marker.CUBE, (1.0, 2.0, 3.0)),
        (Sphere(0.5), Marker.SPHERE, (1.0, 1.0, 1.0)),
        (Cylinder(0.5, 4.0), Marker.CYLINDER, (1.0, 1.0, 4.0)),
        (Mesh(TRIANGLE, closed=False), Marker.TRIANGLE_LIST, (1.0, 1.0, 1.0)),
    ]
    ground = Obstacle("ground", Plane())
    markers = world_markers(
        [ground, *(Obstacle("it", shape, place) for shape, *_ in shapes)]
    ).markers
    assert len({marker.id for marker in markers}) == len(markers) == len(shapes)
    for marker, (_, kind, size_m) in zip(markers, shapes, strict=True):
        assert (marker.type, triple(marker.scale)) == (kind, size_m)
        assert triple(marker.pose.position) == place.p_A
        q = marker.pose.orientation
        assert (q.w, q.x, q.y, q.z) == TURN
        assert marker.header.frame_id == "map"
        assert marker.color.a > 0.0
    assert [triple(point) for point in markers[-1].points] == [tuple(p) for p in TRIANGLE[0]]


def test_rays_go_from_the_lidar_to_each_hit_and_an_arrow_along_the_velocity():
    hits_W = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    ends = [triple(point) for point in rays(np.array([0.0, 0.0, 2.0]), hits_W).points]
    assert ends == [(0.0, 0.0, 2.0), (1.0, 2.0, 3.0), (0.0, 0.0, 2.0), (4.0, 5.0, 6.0)]
    shown = arrow("wish", (1.0, 0.0, 0.0, 1.0), (1.0, 1.0, 1.0), (2.0, 0.0, -1.0))
    tip = (1.0 + 2.0 * ARROW_S, 1.0, 1.0 - ARROW_S)
    assert [triple(point) for point in shown.points] == [(1.0, 1.0, 1.0), tip]


def test_what_moves_vanishes_when_nobody_says_it_any_longer():
    """The world stays: its lifetime is 0, which is for ever."""
    there = passing([words((0.0, 0.0, 1.0), "passing")]).markers
    assert [marker.lifetime.sec + 1e-9 * marker.lifetime.nanosec for marker in there] == [1.0]
    (stone,) = world_markers([Obstacle("it", Sphere(0.5), Pose((0.0, 0.0, 0.0)))]).markers
    assert (stone.lifetime.sec, stone.lifetime.nanosec) == (0, 0)


def test_another_vehicle_flies_on_for_a_while_and_then_stands():
    track = VehicleTrack()
    track.take(10**9, (1.0, 0.0, 2.0), (2.0, 0.0, -1.0))
    for t_s, place in ((0.25, (1.5, 0.0, 1.75)), (-0.1, (0.8, 0.0, 2.1)), (59.0, (2.0, 0.0, 1.5))):
        shape = track.shape(10**9 + round(t_s * 1e9), (0.4, 0.6), 0.5)
        assert shape.p_W == pytest.approx(place)
        assert (shape.radius_m, shape.half_height_m) == (0.4, 0.3)
    assert "back in time" in (track.take(10**9, (1.0, 0.0, 2.0), None) or "")


def test_a_velocity_comes_out_of_poses_where_none_is_said():
    """At 120 Hz with 1 mm of noise: a difference over 50 ms is right within sqrt(2) mm / 50 ms."""
    rng = np.random.default_rng(5)
    v_W, track = np.array([1.5, -0.5, 0.2]), VehicleTrack()
    for k in range(1, 60):
        stamp_ns = k * 8_333_333
        track.take(stamp_ns, v_W * stamp_ns * 1e-9 + rng.normal(0.0, 1e-3, 3), None)
    # five deviations of the difference on each axis
    assert track.v_W == pytest.approx(v_W, abs=5.0 * np.sqrt(2.0) * 1e-3 / 0.05)
