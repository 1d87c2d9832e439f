"""Missions as files give them, and what is refused."""

import math

import pytest

from quadsim.base.errors import InputError
from quadsim.mission.items import Follow, corners, items_from

SQUARE = [
    {"takeoff": {"height_m": 2.0}},
    {"goto": {"position_W_m": [1.0, 2.0, 3.0], "yaw_deg": 90.0}},
    {"hover": None},
    {"follow": {"points": [[0.0, 1.0, 2.0, 3.0, 0.0], [2.0, 3.0, 2.0, 3.0, 90.0]]}},
    {"land": {}},
]


def test_corners_leave_repetitions_out():
    assert corners(items_from(SQUARE, "x")) == [(1.0, 2.0, 3.0), (3.0, 2.0, 3.0)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("fly", "expected a list"),
        (["fly"], r"mission\[0\]: expected one item"),
        ([{"takeoff": {}, "land": {}}], "expected one item"),
        ([{"fly": {}}], "unknown item 'fly'; allowed: takeoff, goto"),
        ([{"goto": {"position_W_m": [0.0, 0.0, 1.0]}}], "takeoff comes first"),
        ([{"takeoff": {}}, {"takeoff": {}}], r"mission\[1\]: takeoff; takeoff comes first, once"),
        ([{"takeoff": {}}, {"land": {}}, {"hover": {}}], "land must be the last"),
        ([{"takeoff": {}}, {"follow": {"points": []}}], "give at least one"),
        (
            [{"takeoff": {}}, {"follow": {"points": [[1.0, 0, 0, 1, 0], [1.0, 0, 0, 1, 0]]}}],
            r"points\[1\]: its time 1 is not after 1",
        ),
    ],
)
def test_missions_that_cannot_be_flown_are_refused(content, words):
    with pytest.raises(InputError, match=words) as error:
        items_from(content, "file.yaml")
    assert str(error.value).startswith("file.yaml: ")
    assert "\n" not in str(error.value)


def test_timed_points_are_joined_by_straight_lines_and_held_at_both_ends():
    points = Follow(points=((1.0, 0.0, 0.0, 1.0, 170.0), (3.0, 4.0, -2.0, 2.0, -170.0)))
    assert points.at(0.0) == ((0.0, 0.0, 1.0), math.radians(170.0))
    assert points.at(99.0) == ((4.0, -2.0, 2.0), math.radians(-170.0))
    position, yaw = points.at(1.5)
    assert position == pytest.approx((1.0, -0.5, 1.25))
    assert yaw == pytest.approx(math.radians(175.0))  # the short way, through 180
