"""Rays against one shape at a time, where the answer is known in closed form."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.errors import InputError
from quadsim.geometry.rotation import from_euler
from quadsim.world.scene.obstacles import Box, Cylinder, Mesh, Obstacle, Plane, Pose, Sphere
from quadsim.world.scene.scene import EMPTY_SCENE, cast_ray, scene_of

# A dozen double operations on numbers below 100.
ROUNDING = 1e-13
DEEP = -1e6  # flat ground out of the way
RIGHT, LEFT, DOWN, UP = (1.0, 0.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 0.0, 1.0)
NONE = (math.inf, 0.0)
INSIDE = (0.0, 1.0)


def scene_with(shape, p_W=(0.0, 0.0, 0.0), rpy=(0.0, 0.0, 0.0)):
    return scene_of([Obstacle("it", shape, Pose(p_W, from_euler(*rpy)))])


def cast(scene, origin, direction, range_max_m=100.0, ground=DEEP):
    return cast_ray(scene, ground, origin, direction, range_max_m)


def near(distance, cosine):
    return pytest.approx((distance, cosine), abs=ROUNDING)


def octahedron():
    """Closed: |x| + |y| + |z| <= 1, corners counter-clockwise from outside."""
    corners = []
    for sx, sy, sz in np.array(np.meshgrid(*3 * [[-1.0, 1.0]])).T.reshape(-1, 3):
        triangle = [[sx, 0, 0], [0, sy, 0], [0, 0, sz]]
        corners.append(triangle if sx * sy * sz > 0 else triangle[::-1])
    return np.array(corners)


def test_flat_ground():
    slant = (0.6, 0.0, -0.8)
    assert cast(EMPTY_SCENE, (5.0, 6.0, 7.0), DOWN, ground=2.0) == near(5.0, 1.0)
    assert cast(EMPTY_SCENE, (5.0, 6.0, 7.0), slant, ground=3.0) == near(5.0, 0.8)
    assert cast(EMPTY_SCENE, (0.0, 0.0, 7.0), DOWN, range_max_m=7.0, ground=0.0) == (7.0, 1.0)
    assert cast(EMPTY_SCENE, (0.0, 0.0, 7.0), DOWN, range_max_m=6.9, ground=0.0) == NONE
    assert cast(EMPTY_SCENE, (0.0, 0.0, 7.0), RIGHT, ground=0.0) == NONE
    assert cast(EMPTY_SCENE, (0.0, 0.0, 7.0), UP, ground=0.0) == NONE
    assert cast(EMPTY_SCENE, (0.0, 0.0, -1e-9), UP, ground=0.0) == INSIDE
    assert cast(EMPTY_SCENE, (0.0, 0.0, 0.0), UP, ground=0.0) == NONE  # it stands on it


def test_a_plane_is_the_face_of_a_half_space():
    wall = scene_with(Plane((1.0, 0.0, 0.0)), (3.0, 0.0, 0.0), (0.0, 0.0, math.pi))
    assert cast(wall, (-1.0, 5.0, 5.0), RIGHT) == near(4.0, 1.0)
    oblique = (math.cos(1.0), math.sin(1.0), 0.0)
    assert cast(wall, (-1.0, 5.0, 5.0), oblique) == near(4.0 / math.cos(1.0), math.cos(1.0))
    assert cast(wall, (-1.0, 5.0, 5.0), LEFT) == NONE
    assert cast(wall, (-1.0, 5.0, 5.0), UP) == NONE  # parallel
    assert cast(wall, (3.5, 0.0, 0.0), LEFT) == INSIDE
    slope = scene_with(Plane(), (0.0, 0.0, 1.0), (0.0, 0.3, 0.0))
    assert cast(slope, (0.0, 0.0, 5.0), DOWN) == near(4.0, math.cos(0.3))


def test_a_box():
    box = scene_with(Box((2.0, 4.0, 6.0)), (10.0, 0.0, 0.0))
    assert cast(box, (0.0, 1.9, 2.9), RIGHT) == near(9.0, 1.0)
    assert cast(box, (10.0, 1.0, 9.0), DOWN) == near(6.0, 1.0)
    assert cast(box, (0.0, 2.1, 0.0), RIGHT) == NONE
    assert cast(box, (0.0, 2.0, 0.0), RIGHT) == near(9.0, 1.0)  # along a face: it belongs to it
    assert cast(box, (20.0, 0.0, 0.0), RIGHT) == NONE  # behind the origin
    assert cast(box, (10.5, 1.0, -2.0), RIGHT) == INSIDE
    assert cast(box, (0.0, 0.0, 0.0), RIGHT, range_max_m=8.99) == NONE
    diagonal = (math.sqrt(0.5), math.sqrt(0.5), 0.0)
    expected = near(2.0 * math.sqrt(2.0), math.sqrt(0.5))
    assert cast(box, (7.0, -3.0, 0.0), diagonal) == expected


def test_a_sphere():
    ball = scene_with(Sphere(2.0), (10.0, 0.0, 0.0))
    for offset in (0.0, 0.5, 1.0, 1.999):
        half = math.sqrt(4.0 - offset**2)
        assert cast(ball, (0.0, offset, 0.0), RIGHT) == near(10.0 - half, half / 2.0)
    assert cast(ball, (0.0, 2.0, 0.0), RIGHT) == near(10.0, 0.0)  # grazed
    assert cast(ball, (0.0, 2.0 + 1e-12, 0.0), RIGHT) == NONE
    assert cast(ball, (20.0, 0.0, 0.0), RIGHT) == NONE
    assert cast(ball, (11.0, 1.0, 0.5), LEFT) == INSIDE


def test_a_small_sphere_far_away_is_as_round():
    ball = scene_with(Sphere(0.01), (1e4, 0.0, 0.0))
    distance, cosine = cast(ball, (0.0, 0.006, 0.0), RIGHT, range_max_m=1e5)
    assert distance == pytest.approx(1e4 - 0.008, abs=1e-11)  # a few units of 1e4's last place
    assert cosine == pytest.approx(0.8, abs=1e-12)


def test_a_cylinder():
    mast = scene_with(Cylinder(0.5, 4.0), (10.0, 0.0, 0.0))
    assert cast(mast, (0.0, 0.3, 1.9), RIGHT) == near(9.6, 0.8)
    assert cast(mast, (0.0, 0.5, 0.0), RIGHT) == near(10.0, 0.0)  # grazed
    assert cast(mast, (0.0, 0.51, 0.0), RIGHT) == NONE
    assert cast(mast, (0.0, 0.0, 2.0), RIGHT) == near(9.5, 1.0)  # in the plane of its cap
    assert cast(mast, (0.0, 0.0, 2.01), RIGHT) == NONE
    assert cast(mast, (10.2, 0.3, 9.0), DOWN) == near(7.0, 1.0)  # along its axis
    assert cast(mast, (10.4, 0.4, 9.0), DOWN) == NONE
    assert cast(mast, (10.0, 0.0, -9.0), UP) == near(7.0, 1.0)
    assert cast(mast, (10.1, 0.1, 1.0), UP) == INSIDE
    assert cast(mast, (20.0, 0.0, 0.0), RIGHT) == NONE
    climbing = (0.8, 0.0, 0.6)
    assert cast(mast, (6.0, 0.0, -2.625), climbing) == near(3.5 / 0.8, 0.8)  # the side
    assert cast(mast, (8.0, 0.0, -3.5), climbing) == near(2.5, 0.6)  # the lower cap
    assert cast(mast, (0.0, 0.0, 5.0), climbing) == NONE
    lying = scene_with(Cylinder(0.5, 4.0), (10.0, 0.0, 0.0), (0.0, math.pi / 2, 0.0))
    assert cast(lying, (0.0, 0.4, 0.0), RIGHT) == near(8.0, 1.0)
    assert cast(lying, (9.0, 0.3, 9.0), DOWN) == near(8.6, 0.8)


@pytest.mark.parametrize("closed", [True, False])
def test_a_mesh(closed):
    rock = scene_with(Mesh(octahedron(), closed), (10.0, 0.0, 0.0))
    slope = 1.0 / math.sqrt(3.0)
    assert cast(rock, (0.0, 0.2, 0.3), RIGHT) == near(9.5, slope)
    assert cast(rock, (0.0, 0.0, 0.0), RIGHT) == near(9.0, slope)  # where four triangles meet
    assert cast(rock, (0.0, 0.0, 0.5), RIGHT) == near(9.5, slope)  # where two meet
    assert cast(rock, (0.0, 0.7, 0.4), RIGHT) == NONE
    assert cast(rock, (20.0, 0.0, 0.0), RIGHT) == NONE
    assert cast(rock, (10.9, 0.3, 0.3), RIGHT) == NONE  # in its box, outside of it
    inside = (10.0, 0.2, 0.3)
    assert cast(rock, inside, RIGHT) == (INSIDE if closed else near(0.5, slope))
    assert cast(rock, inside, RIGHT, range_max_m=0.1) == (INSIDE if closed else NONE)
    assert cast(rock, (9.0, 1.0, 0.0), RIGHT)[0] in (1.0, math.inf)  # it touches the tip


def test_a_sheet_is_met_from_both_sides():
    sheet = np.array([[[0.0, -1.0, -1.0], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0]]])
    scene = scene_with(Mesh(sheet, closed=False), (5.0, 0.0, 0.0))
    assert cast(scene, (0.0, 0.0, 0.0), RIGHT) == near(5.0, 1.0)
    assert cast(scene, (9.0, 0.0, 0.0), LEFT) == near(4.0, 1.0)
    assert cast(scene, (0.0, 0.9, 0.9), RIGHT) == NONE
    assert cast(scene, (5.0, 0.0, 9.0), DOWN) == NONE  # in its plane


def test_poses_chain_as_rotations_and_translations_do():
    rng = np.random.default_rng(2)
    a, b = Rotation.random(rng=rng), Rotation.random(rng=rng)
    p, q = rng.standard_normal(3), rng.standard_normal(3)

    def pose(place, turn):
        x, y, z, w = turn.as_quat()
        return Pose(tuple(place), (w, x, y, z))

    chained = pose(p, a) @ pose(q, b)
    assert chained.p_A == pytest.approx(p + a.apply(q), abs=1e-14)
    assert chained.axes() == pytest.approx((a * b).as_matrix().T, abs=1e-14)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", range(6))
def test_a_ray_that_is_not_finite_meets_nothing(bad, place):
    ray = [0.0, 0.0, 5.0, 0.0, 0.6, -0.8]
    ray[place] = bad
    assert cast(EMPTY_SCENE, tuple(ray[:3]), tuple(ray[3:]), ground=0.0) == NONE


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Sphere(0.0), "radius"),
        (lambda: Sphere(math.nan), "radius"),
        (lambda: Box((1.0, -1.0, 1.0)), "size"),
        (lambda: Cylinder(1.0, math.inf), "length"),
        (lambda: Plane((0.0, 0.0, 2.0)), "normal"),
        (lambda: Mesh(np.zeros((0, 3, 3)), False), "triangles"),
        (lambda: Mesh(np.full((1, 3, 3), math.nan), False), "finite"),
        (lambda: Mesh(np.zeros((1, 3, 3)), False), "area"),
    ],
)
def test_impossible_shapes_are_refused(make, word):
    with pytest.raises(InputError, match=word):
        make()
