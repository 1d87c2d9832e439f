"""Vehicles that give way to each other, as points that move as they are told."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from quadsim.control.reciprocal import (
    MOST_NEIGHBOURS,
    give_way,
    half_plane,
    least_violation,
    nearest_velocity,
    outside,
)

RADIUS_M, SPEED_MPS, DT_S = 1.0, 3.0, 0.02


def told(p_W, v_W, wish_W, yields=None, radius_m=RADIUS_M, right_deg=25.0, height_m=3.0):
    """Velocities that they are given, and to whom they give way."""
    count = len(p_W)
    flies = np.ones(count, bool)
    yields = flies if yields is None else yields
    given_W, whom = np.zeros((count, 3)), np.zeros(count, np.int64)
    give_way(
        p_W, v_W, wish_W, flies, yields, SPEED_MPS, radius_m, 3.0, height_m,
        math.radians(right_deg), given_W, whom,
    )  # fmt: skip
    return given_W, whom


def flown(starts_W, goals_W, lag_s=0.0, within_s=60.0, yields=None):
    """Positions over time of points that fly to their goals, until all are there."""
    p_W, v_W = np.array(starts_W, float), np.zeros((len(starts_W), 3))
    track = [p_W]
    for _ in range(round(within_s / DT_S)):
        to_go_W = goals_W - p_W
        away_m = np.linalg.norm(to_go_W, axis=1, keepdims=True)
        wish_W = to_go_W * np.minimum(SPEED_MPS, 1.8 * away_m) / np.maximum(away_m, 1e-9)
        given_W, _ = told(p_W, v_W, wish_W, yields)
        v_W = given_W if not lag_s else v_W + DT_S / lag_s * (given_W - v_W)
        p_W = p_W + DT_S * v_W
        track.append(p_W)
        if (away_m < 0.3).all():
            break
    return np.array(track), bool((away_m < 0.3).all())


def least_apart_m(track):
    """Smallest level distance of any two over a flight."""
    apart = np.linalg.norm(track[:, :, None, :2] - track[:, None, :, :2], axis=3)
    return float((apart + np.diag(np.full(track.shape[1], 1e9))).min())


def on_circle(count, radius_m):
    angles = 2.0 * math.pi * np.arange(count) / count
    return np.stack([radius_m * np.cos(angles), radius_m * np.sin(angles), 0.0 * angles], axis=1)


def test_a_half_plane_is_that_of_the_velocity_obstacle_itself():
    """Sampled: a relative velocity is allowed if the ball is not met within the horizon."""
    generator = np.random.default_rng(1)
    horizon_s, reach_m = 2.0, 2.0
    times_s = np.linspace(0.0, horizon_s, 2001)[1:]
    for _ in range(50):
        p = generator.uniform(-1.0, 1.0, 2)
        p *= generator.uniform(2.2, 8.0) / np.linalg.norm(p)
        v = generator.uniform(-4.0, 4.0, 2)

        def least_m(velocity, p=p):
            return np.hypot(*(p[:, None] - velocity[:, None] * times_s)).min()

        ux, uy, dx, dy = half_plane(p[0], p[1], v[0], v[1], reach_m, horizon_s)
        border = v + np.array((ux, uy))
        assert np.hypot(dx, dy) == pytest.approx(1.0)
        # u leads straight to the border, where the ball is just touched
        assert ux * dx + uy * dy == pytest.approx(0.0, abs=1e-9)
        assert least_m(border) == pytest.approx(reach_m, abs=0.02)
        met = least_m(v) < reach_m - 0.02
        outwards = dx * uy - dy * ux
        if met:
            assert outwards > 0.0  # to the left of the line is what is allowed
        elif least_m(v) > reach_m + 0.02:
            assert outwards < 0.0


def test_the_nearest_velocity_is_that_of_a_search():
    generator = np.random.default_rng(2)
    angles = np.linspace(0.0, 2.0 * math.pi, 721)
    sizes = np.linspace(0.0, SPEED_MPS, 301)
    grid = np.stack(
        [np.outer(sizes, np.cos(angles)).ravel(), np.outer(sizes, np.sin(angles)).ravel()]
    )
    compared = 0
    for _ in range(15):
        count = int(generator.integers(1, 7))
        directions = generator.uniform(0.0, 2.0 * math.pi, count)
        lines = np.stack(
            [*generator.uniform(-2.0, 2.0, (2, count)), np.cos(directions), np.sin(directions)],
            axis=1,
        )
        wish = generator.uniform(-3.0, 3.0, 2)
        failed, x, y = nearest_velocity(lines, count, SPEED_MPS, wish[0], wish[1], False)
        normals = np.stack([lines[:, 3], -lines[:, 2]], axis=1)  # to the right of each line
        offsets = np.einsum("ki,ki->k", normals, lines[:, :2])
        free = (normals @ grid <= offsets[:, None]).all(axis=0)
        if failed < count:
            assert not free.any()
            x, y = least_violation(lines, lines.copy(), count, failed, SPEED_MPS, x, y)
            # the same as a linear program: least t with all outside <= t, within the circle
            ring = np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1)
            planes = np.hstack([normals, -np.ones((count, 1))])
            exact = linprog(
                (0.0, 0.0, 1.0),
                np.vstack([planes, ring]),
                np.concatenate([offsets, np.full(len(angles), SPEED_MPS)]),
                bounds=[(None, None)] * 3,
            )
            worst = max(outside(lines, k, x, y) for k in range(count))
            assert worst == pytest.approx(exact.fun, abs=1e-3)
            continue
        compared += 1
        assert math.hypot(x, y) <= SPEED_MPS + 1e-9
        assert all(outside(lines, k, x, y) <= 1e-9 for k in range(count))
        away = np.hypot(x - wish[0], y - wish[1])
        nearest = np.hypot(*(grid[:, free] - wish[:, None])).min() if free.any() else math.inf
        assert away <= nearest + 1e-9
    assert compared > 4


def test_a_wish_that_meets_nobody_stays_to_the_bit():
    p_W = np.array([[0.0, 0.0, 5.0], [40.0, 0.0, 5.0], [2.0, 0.0, 9.0]])
    v_W = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    wish_W = np.array([[2.0, 0.1, 0.3], [-2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    given_W, whom = told(p_W, v_W, wish_W)  # too far away, and too high above
    assert (whom == -1).all()
    assert given_W.tobytes() == wish_W.tobytes()


@pytest.mark.parametrize("count", [2, 8, 16])
def test_who_changes_places_across_a_circle_keeps_apart(count):
    """Half-planes are kept exactly by who flies what it is told: 2 radii, less one step's curve."""
    starts_W = on_circle(count, 15.0)
    track, arrived = flown(starts_W, -starts_W)
    assert arrived
    assert least_apart_m(track) > 2.0 * RADIUS_M - 1e-3
    again, _ = flown(starts_W, -starts_W)
    assert again.tobytes() == track.tobytes()


def test_without_it_they_meet():
    starts_W = on_circle(2, 15.0)
    track, _ = flown(starts_W, -starts_W, yields=np.zeros(2, bool))
    assert least_apart_m(track) < 0.1


def test_who_answers_late_keeps_apart_all_the_same():
    """A lag of 0.3 s, that of a quadrotor; the horizon is ten times as long."""
    starts_W = on_circle(8, 15.0)
    track, arrived = flown(starts_W, -starts_W, lag_s=0.3)
    assert arrived
    assert least_apart_m(track) > 1.9 * RADIUS_M


def test_random_places_are_changed_without_meeting():
    generator = np.random.default_rng(3)
    starts_W = np.zeros((20, 3))
    k = np.arange(20)
    starts_W[:, :2] = 6.0 * np.stack([k % 5, k // 5], axis=1) + generator.uniform(0.0, 1.0, (20, 2))
    track, arrived = flown(starts_W, starts_W[generator.permutation(20)])
    assert arrived
    assert least_apart_m(track) > 2.0 * RADIUS_M - 1e-3


def test_who_does_not_give_way_is_gone_around():
    starts_W = np.array([[0.0, 0.0, 0.0], [20.0, 0.0, 0.0]])
    yields = np.array([True, False])
    track, arrived = flown(starts_W, starts_W[::-1], yields=yields)
    assert arrived
    assert least_apart_m(track) > 2.0 * RADIUS_M - 1e-3
    assert abs(track[:, 1, 1]).max() == 0.0  # it flew straight on
    assert track[:, 0, 1].min() < -1.0  # the other passed on its right


def test_who_is_too_near_is_let_out():
    p_W = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    given_W, whom = told(p_W, np.zeros((2, 3)), np.zeros((2, 3)))
    assert whom.tolist() == [1, 0]
    assert given_W[0, 0] < -0.5 < 0.5 < given_W[1, 0]


def test_the_nearest_are_heeded_of_many():
    """One more beyond those that count is not."""
    count = MOST_NEIGHBOURS + 2
    p_W = np.zeros((count, 3))
    p_W[1:, 0] = 3.0 + 0.1 * np.arange(count - 1)
    v_W = np.zeros((count, 3))
    wish_W = np.zeros((count, 3))
    wish_W[0, 0] = 2.0
    yields = np.zeros(count, bool)
    yields[0] = True
    given_W, whom = told(p_W, v_W, wish_W, yields)
    farther = p_W.copy()
    farther[-1] = (2.9, 5.0, 0.0)  # farther than the twelfth
    other_W, _ = told(farther, v_W, wish_W, yields)
    assert whom[0] == 1
    assert other_W[0].tobytes() == given_W[0].tobytes()
