"""Search and speeds along ways, against octile distances, relaxation and the law of braking."""

import math
from itertools import pairwise

import numpy as np
import pytest

from quadsim.hil.planner.following import (
    ROUNDING_M,
    SAMPLE_M,
    follow,
    nearest_on,
    rounded,
    sampled,
    speeds_along,
)
from quadsim.hil.planner.occupancy import TimesToGoal
from quadsim.hil.planner.parameters import BESIDE_S, LEAST_MPS, SpeedParams

PARAMS = SpeedParams()


def test_in_the_open_the_time_is_that_of_the_octile_distance():
    times_s = TimesToGoal(np.full((40, 30), 0.5), (7, 11)).times_s
    i, j = np.abs(np.mgrid[:40, :30] - np.array([7, 11])[:, None, None])
    octile = np.maximum(i, j) + (math.sqrt(2.0) - 1.0) * np.minimum(i, j)
    assert times_s == pytest.approx(0.5 * octile, rel=1e-12)


def relaxed(cost_s, goal):
    """Times to a goal by relaxing every edge until nothing changes (Bellman and Ford)."""
    times_s = np.full(cost_s.shape, math.inf)
    times_s[goal] = 0.0
    while True:
        before = times_s.copy()
        padded, cost = (
            np.pad(times_s, 1, constant_values=math.inf),
            np.pad(cost_s, 1, constant_values=math.inf),
        )
        for di in (-1, 0, 1):
            for dj in (-1, 0, 1):
                if di == dj == 0:
                    continue
                there = (
                    slice(1 + di, 1 + di + len(cost_s)),
                    slice(1 + dj, 1 + dj + cost_s.shape[1]),
                )
                edge = 0.5 * math.hypot(di, dj) * (cost_s + cost[there])
                times_s = np.minimum(times_s, padded[there] + edge)
        if np.array_equal(times_s, before):
            return times_s


@pytest.mark.parametrize("seed", range(3))
def test_times_and_ways_among_obstacles(seed):
    rng = np.random.default_rng(seed)
    cost_s = rng.uniform(0.1, 1.0, (25, 32))
    cost_s[rng.random(cost_s.shape) < 0.25] = math.inf
    goal = (12, 16)
    cost_s[goal] = 0.3
    found = TimesToGoal(cost_s, goal)
    times_s = relaxed(cost_s, goal)
    assert found.times_s == pytest.approx(times_s, rel=1e-9)
    for start in np.argwhere(np.isfinite(times_s))[::40]:
        way = found.way(tuple(start))
        assert tuple(way[0]) == tuple(start)
        assert tuple(way[-1]) == goal
        steps = np.abs(np.diff(way, axis=0))
        assert steps.max(initial=0) <= 1
        costs = cost_s[way[:, 0], way[:, 1]]
        along_s = np.sum(np.hypot(*steps.T) * 0.5 * (costs[1:] + costs[:-1]))
        assert along_s == pytest.approx(times_s[tuple(start)], rel=1e-9, abs=1e-12)


def test_straight_pieces_cross_no_obstacle_and_leave_the_steps_out():
    cost_s = np.full((60, 60), 0.1)
    cost_s[30, :45] = math.inf
    found = TimesToGoal(cost_s, (55, 5))
    way = found.way((5, 5))
    corners = found.straightened(way)
    assert tuple(corners[0]) == (5, 5)
    assert tuple(corners[-1]) == (55, 5)
    assert 3 <= len(corners) < len(way) / 4
    for a, b in pairwise(corners):
        share = np.linspace(0.0, 1.0, 400)[:, None]
        cells = np.round(a + share * (b - a)).astype(int)
        inside = np.isfinite(cost_s[cells[:, 0], cells[:, 1]])
        assert inside.mean() > 0.99  # samples are half a cell apart: a corner may be touched
    straight = sum(np.hypot(*(b - a)) for a, b in pairwise(corners))
    assert straight <= found.times_s[5, 5] / 0.1 + 1e-9


def line(length_m):
    return sampled(np.array([(0.0, 0.0), (length_m, 0.0)]))


def flown(points, beside_m=10.0, known=True, end_mps=0.0, params=PARAMS):
    count = len(points)
    known = np.full(count, known) if isinstance(known, bool) else known
    return speeds_along(points, np.full(count, beside_m), known, end_mps, params)


def test_it_brakes_for_the_end_as_it_can():
    way = flown(line(12.0))
    left_m = 12.0 - way.along_m
    wanted = np.minimum(4.0, np.sqrt(2.0 * PARAMS.braking_mps2 * left_m))
    assert way.speeds_mps == pytest.approx(wanted, abs=1e-9)
    assert flown(line(12.0), end_mps=2.0).speeds_mps[-1] == 2.0


def test_it_can_stop_before_what_was_not_seen():
    points = line(12.0)
    known = points[:, 0] < 5.0
    known[points[:, 0] > 7.0] = True  # seen behind: that does not help
    way = flown(points, known=known)
    first_m = way.along_m[np.argmin(known)]
    allowed = np.sqrt(2.0 * PARAMS.braking_mps2 * np.maximum(first_m - way.along_m, 0.0))
    assert (way.speeds_mps <= np.minimum(allowed, 4.0) + 1e-9).all()
    assert way.speeds_mps[0] == pytest.approx(4.0)
    assert follow(way, np.array([4.8, 0.0]), np.zeros(2), PARAMS)[1] == "not seen free yet"


def test_bends_are_flown_with_the_acceleration_that_is_allowed():
    angle = np.linspace(0.0, math.pi, 60)
    circle = 3.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    way = flown(circle, end_mps=10.0)
    inside = way.speeds_mps[5:-5]
    assert inside**2 / 3.0 == pytest.approx(np.full(inside.shape, 2.5), rel=1e-3)


def test_narrow_places_are_flown_slowly():
    assert flown(line(8.0), beside_m=0.5).speeds_mps[0] == pytest.approx(0.5 / BESIDE_S)
    assert flown(line(8.0), beside_m=-0.1).speeds_mps[0] == LEAST_MPS


def test_corners_are_rounded_and_ends_stay():
    points = sampled(np.array([(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)]))
    smooth = rounded(points)
    assert smooth[0] == pytest.approx(points[0], abs=1e-9)
    assert smooth[-1] == pytest.approx(points[-1], abs=1e-9)
    assert smooth[:8] == pytest.approx(points[:8], abs=0.02)  # far from the corner
    turns = np.abs(np.diff(np.unwrap(np.arctan2(*np.diff(smooth, axis=0).T[::-1]))))
    assert turns.sum() == pytest.approx(math.pi / 2, abs=0.05)
    # heading atan2(Phi, 1 - Phi) of a corner between two axes: its slope is 2 phi(0) in the middle
    steepest = 2.0 / (math.sqrt(2.0 * math.pi) * ROUNDING_M / SAMPLE_M)
    assert turns.max() == pytest.approx(steepest, rel=0.02)
    assert np.hypot(*(smooth - (5.0, 0.0)).T).min() < 0.6
    straight = line(6.0)
    assert rounded(straight) == pytest.approx(straight, abs=1e-9)


def test_following_leads_along_and_back():
    way = flown(line(20.0), end_mps=10.0)
    velocity, _ = follow(way, np.array([5.0, 0.0]), np.array([4.0, 0.0]), PARAMS)
    assert velocity == pytest.approx([4.0, 0.0], abs=1e-9)
    velocity, _ = follow(way, np.array([5.0, 0.5]), np.array([4.0, 0.0]), PARAMS)
    assert velocity[1] < -0.3
    assert np.hypot(*velocity) <= 4.0 + 1e-9
    assert nearest_on(way, np.array([5.03, 0.5])) == pytest.approx(5.03)
    assert nearest_on(way, np.array([25.0, 0.5])) == pytest.approx(20.0)
