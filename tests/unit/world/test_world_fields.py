"""Obstacle fields: their ways are checked, and the check errs to the safe side."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadsim.base.errors import InputError
from quadsim.geometry.rotation import from_euler
from quadsim.world.scene.obstacle_fields import (
    CELL_M,
    CLEAR_M,
    FIELDS,
    HALF_WIDTH_M,
    ROOM_M,
    clearances,
    has_way,
    make_field,
)
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Pose, Sphere

START, GOAL = (0.0, 0.0, 2.0), (40.0, 0.0, 2.0)


def outline(obstacle, count=2000):
    """(N, 2) points all around an upright cylinder or box."""
    around = 2.0 * math.pi * np.arange(count) / count
    if isinstance(obstacle.shape, Cylinder):
        local = obstacle.shape.radius_m * np.stack([np.cos(around), np.sin(around)], axis=1)
    else:
        x, y = 0.5 * obstacle.shape.size_m[0], 0.5 * obstacle.shape.size_m[1]
        corners = np.array([(x, y), (-x, y), (-x, -y), (x, -y), (x, y)])
        at = np.linspace(0.0, 4.0, count)
        local = np.stack([np.interp(at, np.arange(5), corners[:, k]) for k in (0, 1)], axis=1)
    axes = obstacle.pose_W.axes()
    return np.array(obstacle.pose_W.p_A[:2]) + local @ axes[:2, :2]


@settings(max_examples=12, deadline=None)
@given(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.booleans())
def test_distances_are_those_to_the_outline(x, y, yaw, round_one):
    shape = Cylinder(0.7, 6.0) if round_one else Box((1.2, 2.5, 6.0))
    obstacle = Obstacle("o", shape, Pose((x, y, 3.0), from_euler(0.0, 0.0, yaw)))
    points = np.array([(4.0, 0.0, 2.0), (-3.9, 2.0, 2.0), (0.0, -5.0, 2.0)])
    gaps = np.array([np.hypot(*(outline(obstacle) - p[:2]).T).min() for p in points])
    found = clearances([obstacle], points)
    outside = found > 0.0
    assert found[outside] == pytest.approx(gaps[outside], abs=4e-3)  # between points of it
    assert -found[~outside] == pytest.approx(gaps[~outside], abs=4e-3)


def wall(gap_m, y=0.0):
    """Two walls across, as far as ways are looked for, with a gap between."""
    length_m = 60.0
    return [
        Obstacle(
            f"wall_{side}",
            Box((0.4, length_m, 6.0)),
            Pose((20.0, y + side * 0.5 * (gap_m + length_m), 3.0)),
        )
        for side in (-1.0, 1.0)
    ]


def test_a_way_is_found_where_there_is_room_and_never_where_there_is_not():
    assert not has_way(wall(0.0), START, GOAL)
    # the cells of a free row are half a diagonal away on each side, and one cell wide
    sure_m = 2.0 * ROOM_M + (math.sqrt(2.0) + 1.0) * CELL_M + 1e-6
    for y in np.linspace(0.0, 0.2, 5):  # wherever the gap lies between the cells
        assert not has_way(wall(2.0 * ROOM_M - 0.01, y), START, GOAL)
        assert has_way(wall(sure_m, y), START, GOAL)
    assert has_way([], START, GOAL)


@pytest.mark.parametrize("kind", FIELDS)
def test_fields_have_a_way_and_free_ends(kind):
    fields = [make_field(kind, seed) for seed in range(2)]
    for field in fields:
        ends = np.array([field.start_W, field.goal_W])
        assert clearances(field.obstacles, ends).min() > CLEAR_M
        standing = [o for o in field.movers if o.speed_mps == 0.0]
        there = [Obstacle(m.name, m.shape, Pose(m.way_W[0])) for m in standing]
        assert has_way([*field.obstacles, *there], field.start_W, field.goal_W)
        assert all(abs(o.pose_W.p_A[1]) < HALF_WIDTH_M + 2.0 for o in field.obstacles)
    assert make_field(kind, 1) == fields[1]
    assert len({field.obstacles for field in fields}) == 2


def test_a_field_without_a_way_is_drawn_again(monkeypatch):
    draws = [wall(0.0), wall(0.5), wall(3.0)]
    monkeypatch.setitem(FIELDS, "row", lambda rng: (draws.pop(0), []))
    assert make_field("row", 0).obstacles == tuple(wall(3.0))
    assert draws == []


def test_what_appears_or_moves_is_in_the_way():
    """Each appears on the straight way; vehicles cross it."""
    for seed in range(2):
        (mover,) = make_field("appearing", seed).movers
        assert abs(mover.way_W[0][1]) < mover.radius_m
        assert mover.ahead_s == 2.0
        for vehicle in make_field("moving_vehicle", seed).movers:
            assert vehicle.way_W[0][1] * vehicle.way_W[-1][1] < 0.0
            assert 1.0 <= vehicle.speed_mps <= 2.0


def test_bad_input():
    with pytest.raises(InputError, match="forest, row, dead_end, moving_vehicle, appearing"):
        make_field("jungle", 0)
    with pytest.raises(InputError, match="seed: -1"):
        make_field("row", -1)
    with pytest.raises(InputError, match="ball"):
        clearances([Obstacle("ball", Sphere(1.0))], np.zeros((1, 3)))
