"""The law and the certificate of the guard, against scipy and against sampled flights."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial import ConvexHull

from quadsim.control.avoidance import (
    Obstacles,
    balls,
    half_spaces,
    project,
    reach,
    reach_braking,
    room,
    speed_of,
    stop_m,
    stop_point,
    velocity_of,
)

BRAKE, ANSWER_S, PERIOD_S = 3.0, 0.25, 0.05


def test_the_way_to_a_stop_is_that_of_a_delay_and_a_steady_braking() -> None:
    """4 m/s, 0.25 s, 3 m/s^2: 1 m before it answers, 8/3 m of braking."""
    assert stop_m(4.0, 0.25, 3.0) == pytest.approx(1.0 + 16.0 / 6.0)
    v = np.array((1.0, -2.0, 0.5))
    x = stop_point(v, ANSWER_S, BRAKE)
    assert x == pytest.approx(v / np.linalg.norm(v) * stop_m(np.linalg.norm(v), ANSWER_S, BRAKE))
    assert velocity_of(x, ANSWER_S, BRAKE) == pytest.approx(v)
    assert speed_of(stop_m(2.5, 0.0, BRAKE), 0.0, BRAKE) == pytest.approx(2.5)


def _nearest(wanted: np.ndarray, normal: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """The nearest point of a polytope, by trying all faces, edges and corners."""
    best, found = math.inf, wanted
    for count in range(4):
        for which in map(list, itertools.combinations(range(len(bound)), count)):
            n, b = normal[which], bound[which]
            x = wanted - np.linalg.pinv(n) @ (n @ wanted - b) if which else wanted
            distance = float(np.linalg.norm(x - wanted))
            if distance < best and np.max(normal @ x - bound) < 1e-9:
                best, found = distance, x
    return found


@pytest.mark.parametrize("seed", range(4))
def test_projection_is_the_nearest_point_of_the_polytope(seed: int) -> None:
    """As the trial of all its faces, edges and corners finds it."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(12, 3))
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    bound, wanted = rng.uniform(0.2, 2.0, 12), rng.uniform(-3.0, 3.0, 3)
    found = project(wanted, normal, bound)
    assert found == pytest.approx(_nearest(wanted, normal, bound), abs=1e-5)


def test_an_empty_polytope_has_no_projection() -> None:
    """Two half-spaces that exclude each other."""
    normal = np.array(((1.0, 0.0, 0.0), (-1.0, 0.0, 0.0)))
    assert project(np.zeros(3), normal, np.array((-1.0, 0.5))) is None


def test_a_projection_that_is_not_found_within_the_solvers_steps_is_none(monkeypatch) -> None:
    """Scipy raises then; a guard brakes for it, and lives."""

    def give_up(*_: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("quadsim.control.avoidance.nnls", give_up)
    assert project(np.ones(3), np.array(((1.0, 0.0, 0.0),)), np.array((0.5,))) is None


@pytest.mark.parametrize("column", [True, False])
def test_each_half_space_holds_the_start_and_no_obstacle(column: bool) -> None:
    """Between them the straight way is free; the whole way is inside where it meets nothing."""
    rng = np.random.default_rng(4)
    obstacles = balls(rng.uniform(-5.0, 5.0, (300, 3)), 0.4, column)
    obstacles = obstacles.chosen(obstacles.distance_m > 0.4)
    end = np.array((3.0, 1.0, 0.3))
    normal, bound = half_spaces(obstacles, end)
    assert (bound >= 0.0).all()
    nearest = np.einsum("ij,ij->i", normal, obstacles.o_W) - 0.4
    assert nearest == pytest.approx(bound, abs=1e-9)  # the plane touches the ball
    share = np.linspace(0.0, 1.0, 2001)[:, None]
    for o, n, b, upright in zip(obstacles.o_W, normal, bound, obstacles.upright, strict=True):
        way = share * end * (1.0, 1.0, upright)
        if np.min(np.linalg.norm(way - o, axis=1)) > 0.401:
            assert n @ end <= b + 1e-6


def test_within_the_keep_out_no_half_space_leads_nearer() -> None:
    """Its normal leads to the obstacle, its bound is 0."""
    normal, bound = half_spaces(balls(np.array([(0.3, 0.0, 1.0)]), 0.4, True), np.ones(3))
    assert normal[0] == pytest.approx((1.0, 0.0, 0.0))
    assert bound[0] == 0.0


def _distance(points: np.ndarray, o_W: np.ndarray) -> float:
    """From a point to the hull of points, by SLSQP over their weights."""
    count = len(points)
    found = minimize(
        lambda w: float(np.sum((w @ points - o_W) ** 2)),
        np.full(count, 1.0 / count),
        jac=lambda w: 2.0 * points @ (w @ points - o_W),
        bounds=[(0.0, 1.0)] * count,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 300},
    )
    return math.sqrt(found.fun)


@pytest.mark.parametrize("upright", [0.0, 1.0])
def test_room_is_the_distance_to_the_hull_less_the_keep_out(upright: float) -> None:
    """Never more than scipy's distance, and less by no more than 5 % of it (MOST_STEPS)."""
    rng = np.random.default_rng(8)
    level = np.array((1.0, 1.0, upright))
    for _ in range(6):
        points = np.vstack((np.zeros(3), rng.normal(size=(8, 3))))
        o_W = rng.uniform(-4.0, 4.0, (1, 3)) * level
        found, whose = room(points, o_W, np.array((0.4,)), np.array((upright,)))
        expected = _distance(points * level, o_W[0])
        if expected > 0.05:
            assert found <= expected - 0.4 + 1e-6
            assert found >= 0.95 * expected - 0.4
        assert whose == 0


def test_room_is_that_of_the_nearest() -> None:
    """Of two, whatever their order; inf without any."""
    points = np.array(((0.0, 0.0, 0.0), (1.0, 0.0, 0.0)))
    o_W = np.array(((4.0, 0.0, 0.0), (1.0, 2.0, 0.0)))
    radii, upright = np.array((0.5, 0.5)), np.zeros(2)
    assert room(points, o_W, radii, upright) == (pytest.approx(1.5), 1)
    nothing = Obstacles(o_W[:0], radii[:0], upright[:0])
    assert room(points, nothing.o_W, nothing.keep_out_m, nothing.upright)[0] == math.inf


def _flown(
    rng: np.random.Generator, v_W: np.ndarray, timeline: list[tuple[float, np.ndarray]], rate: float
) -> np.ndarray:
    """Places of a point mass until it stands.

    Args:
        rng: how late each command is answered, in order.
        v_W: velocity at time 0.
        timeline: latest time at which each command is answered, and it.
        rate: at which the velocity goes to what is answered, m/s^2.
    """
    times = np.minimum.accumulate([t - rng.uniform(0.0, t) for t, _ in timeline][::-1])[::-1]
    p, places, dt_s = np.zeros(3), [], 0.005
    goal, t, v = v_W, 0.0, v_W
    for _ in range(4000):
        for start, command in zip(times, timeline, strict=True):
            if start <= t:
                goal = command[1]
        off = goal - v
        size = math.sqrt(off @ off)
        before, v = v, goal if size <= rate * dt_s else v + off * (rate * dt_s / size)
        p = p + 0.5 * (before + v) * dt_s
        places.append(p)
        t += dt_s
        if t > timeline[-1][0] and not v.any():
            break
    return np.array(places)


@pytest.mark.parametrize("change_mps", [0.3, 4.0])
def test_what_is_reached_is_within_the_hull(change_mps: float) -> None:
    """Random commands on their way, answered at any time and rate that the assumptions allow.

    The hull is scipy's; the tolerance is the integration's, half a step at 5 m/s.
    """
    rng = np.random.default_rng(3)
    for _ in range(12):
        first = rng.normal(size=3) * 2.0
        moving = first + rng.uniform(-1.0, 1.0, (4, 3)) * change_mps / 4.0
        command = first + rng.uniform(-1.0, 1.0, 3) * change_mps / 4.0
        points = reach(moving, command, ANSWER_S, PERIOD_S, BRAKE)
        hull = ConvexHull(points)
        for _ in range(3):
            old = [(rng.uniform(0.0, ANSWER_S), c) for c in moving[1:]]
            old.sort(key=lambda pair: pair[0])
            timeline = [*old, (ANSWER_S, command), (ANSWER_S + PERIOD_S, np.zeros(3))]
            places = _flown(rng, moving[0], timeline, BRAKE * rng.uniform(1.0, 3.0))
            beyond = hull.equations[:, :3] @ places.T + hull.equations[:, 3:]
            assert beyond.max() < 0.5 * 0.005 * 5.0


def test_braking_reaches_what_delay_and_brakes_give() -> None:
    """With one velocity, the two ends are here and the way to a stop."""
    points = reach_braking(np.array([(4.0, 0.0, 0.0)]), 0.25, 3.0)
    assert points == pytest.approx(np.array(((0, 0, 0), (stop_m(4.0, 0.25, 3.0), 0, 0))))
