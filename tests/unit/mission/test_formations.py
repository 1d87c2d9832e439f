"""Places of several vehicles, and what each of them flies."""

import math
from itertools import permutations

import numpy as np
import pytest

from quadsim.control.parameters import FlightParams
from quadsim.mission.formations import SHAPES, Formation, Gather, places
from quadsim.mission.items import Goto, Hover, Land, Takeoff, items_from
from quadsim.mission.reference.legs import rest_duration
from quadsim.mission.swarms import formation_ways, missions_of, moved
from quadsim.mission.trajectories.items import Circle, MinimumSnap
from quadsim.sim.start import StartParams

FLIGHT = FlightParams()


def apart_m(points):
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    return apart[np.triu_indices(len(points), 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [2, 3, 7, 12, 50])
def test_neighbours_stand_so_far_apart(shape, count):
    """The nearest two are a spacing apart; but for a circle's chords, to rounding."""
    assert apart_m(places(shape, count, 4.0)).min() == pytest.approx(4.0, rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_turns_with_its_heading(shape):
    straight, turned = places(shape, 9, 3.0), places(shape, 9, 3.0, math.radians(90.0))
    np.testing.assert_allclose(turned, np.stack([-straight[:, 1], straight[:, 0]], 1), atol=1e-12)


def test_they_stand_about_the_middle_and_a_vee_behind_its_tip():
    for shape in ("row", "circle"):
        np.testing.assert_allclose(places(shape, 8, 4.0).mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(places("grid", 9, 4.0).mean(axis=0), 0.0, atol=1e-12)
    vee = places("vee", 5, 4.0)
    assert vee[0].tolist() == [0.0, 0.0]
    assert (vee[1:, 0] < 0.0).all()
    np.testing.assert_allclose(vee[1::2] * (1.0, -1.0), vee[2::2])


def test_ways_are_the_least_of_all_and_do_not_cross():
    """Five vehicles: every assignment tried; at equal shares of the way they keep apart."""
    item = Formation("circle", (3.0, -2.0, 5.0), 4.0)
    generator = np.random.default_rng(4)
    here_W = np.zeros((5, 3))
    here_W[:, :2] = places("grid", 5, 4.0) + generator.uniform(-0.3, 0.3, (5, 2))
    here_W[:, 2] = 5.0
    goals_W, speeds_mps = formation_ways(item, here_W, FLIGHT)
    squares = ((goals_W - here_W) ** 2).sum()
    least = min(((goals_W[list(order)] - here_W) ** 2).sum() for order in permutations(range(5)))
    assert squares == pytest.approx(least)
    for share in np.linspace(0.0, 1.0, 101):
        at = here_W + share * (goals_W - here_W)
        # Turpin et al., theorem 4.1: by the least of the spacings over sqrt(2)
        assert apart_m(at).min() > apart_m(here_W).min() / math.sqrt(2.0) - 1e-9
    lengths_m = np.linalg.norm(goals_W - here_W, axis=1)
    takes_s = [
        rest_duration(length, speed, FLIGHT.acceleration_mps2)
        for length, speed in zip(lengths_m, speeds_mps, strict=True)
    ]
    assert max(takes_s) - min(takes_s) < 1e-9


def test_own_places_are_those_of_the_order():
    item = Formation("circle", (0.0, 0.0, 5.0), 4.0, heading_deg=180.0, assign="own")
    start_W = np.zeros((6, 3))
    start_W[:, :2], start_W[:, 2] = places("circle", 6, 4.0), 5.0
    goals_W, _ = formation_ways(item, start_W, FLIGHT)
    np.testing.assert_allclose(goals_W[:, :2], -start_W[:, :2], atol=1e-12)


def test_each_gets_a_leg_of_its_own_and_waits_before_it():
    items = items_from(
        [
            {"takeoff": {"height_m": 3.0}},
            {"formation": {"shape": "row", "center_W_m": [0.0, 0.0, 3.2], "yaw_deg": 90.0}},
            {"goto": {"position_W_m": [1.0, 2.0, 3.0]}},
            {"gather": None},
            {"land": {}},
        ],
        "here",
    )
    starts = [(0.0, 0.0, 0.2), (0.0, -5.0, 0.2)]
    offsets = [(0.0, 0.0, 0.0), (0.0, -5.0, 0.0)]
    first, second = missions_of(items, starts, offsets, FLIGHT)
    assert [type(item) for item in second] == [Takeoff, Gather, Goto, Goto, Gather, Land]
    assert first[2].position_W_m == pytest.approx((0.0, 2.5, 3.2))
    assert second[2].position_W_m == pytest.approx((0.0, -2.5, 3.2))
    assert second[2].yaw_deg == 90.0
    assert second[3].position_W_m == (1.0, -3.0, 3.0)
    (alone,) = missions_of(items, starts[:1], offsets[:1], FLIGHT)
    assert [type(item) for item in alone] == [Takeoff, Goto, Goto, Land]
    assert alone[1].position_W_m == (0.0, 0.0, 3.2)


def test_who_flies_a_formation_alone_takes_the_stated_speed():
    """A long way and a short one: nobody has to arrive with it."""
    for given, wanted in (({"speed_mps": 1.5}, 1.5), ({}, 0.0)):
        for far_m in (0.5, 100.0):
            where = {"shape": "row", "center_W_m": [far_m, 0.0, 3.0], **given}
            items = items_from([{"takeoff": {}}, {"formation": where}], "here")
            ((_, leg),) = missions_of(items, [(0.0, 0.0, 0.0)], [(0.0, 0.0, 0.0)], FLIGHT)
            assert leg.speed_mps == wanted  # 0: as of any other leg, the autopilot's


def test_places_of_other_items_are_moved():
    circle = Circle(center_W_m=(1.0, 0.0, 3.0), radius_m=2.0)
    assert moved(circle, (0.0, -5.0, 0.0)).center_W_m == (1.0, -5.0, 3.0)
    snap = MinimumSnap(waypoints=((0.0, 0.0, 2.0), (3.0, 0.0, 2.0)))
    assert moved(snap, (1.0, 1.0, 0.0)).waypoints == ((1.0, 1.0, 2.0), (4.0, 1.0, 2.0))
    hover = Hover()
    assert moved(hover, (1.0, 0.0, 0.0)) is hover


def test_they_start_where_the_layout_says():
    line = StartParams(x_m=1.0, y_m=2.0, spacing_m=3.0)
    assert line.poses(3) == [(1.0, 2.0, 0.0), (1.0, -1.0, 0.0), (1.0, -4.0, 0.0)]
    circle = StartParams(x_m=1.0, y_m=2.0, layout="circle", spacing_m=3.0)
    assert circle.poses(1) == [(1.0, 2.0, 0.0)]
    points = np.array(circle.poses(7))[:, :2]
    assert apart_m(points).min() == pytest.approx(3.0)
    np.testing.assert_allclose(points.mean(axis=0), (1.0, 2.0), atol=1e-12)
