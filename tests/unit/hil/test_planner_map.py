"""The planner's map, against rays sampled densely and distances by brute force."""

import math

import numpy as np
import pytest

from quadsim.hil.planner.following import place_on
from quadsim.hil.planner.occupancy import OccupancyMap
from quadsim.hil.planner.parameters import MapParams, PlannerParams
from quadsim.hil.planner.routes import Routes

NOTHING = np.zeros((0, 3))
CELL = 0.25


def new_map(**given):
    made = OccupancyMap(MapParams(**given))
    assert made.cover(np.array([-8.0, -6.0]), np.array([8.0, 6.0]))
    made.at_height(2.0)
    return made


def cell_of(made, x, y):
    return tuple(made.cells_of(np.array([[x, y]]))[0])


@pytest.mark.parametrize("seed", range(3))
def test_rays_pass_the_cells_that_they_pass(seed):
    """Against points on the ray, 1 mm apart; a cell that is only grazed may be missed by these."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        made = new_map()
        origin_W = np.array([*rng.uniform(-5.0, 5.0, 2), 2.0])
        end_W = origin_W + np.array([*rng.uniform(-9.0, 9.0, 2), 0.0])  # some leave the map
        made.take(1.0, tuple(origin_W), NOTHING, end_W[None])
        share = np.linspace(0.0, 1.0, math.ceil(np.linalg.norm(end_W - origin_W) / 1e-3))
        cells = made.cells_of(origin_W + share[:, None] * (end_W - origin_W))
        cells = cells[((cells >= 0) & (cells < made.shape)).all(axis=1)]
        known = made.known(1.0)
        assert known[cells[:, 0], cells[:, 1]].all()
        # at most as long as two cells' corners are grazed
        assert known.sum() - len(np.unique(cells, axis=0)) <= 2


def test_echoes_are_obstacles_and_the_way_to_them_is_free():
    made = new_map()
    points_W = np.array([(4.1, 0.1, 2.0), (4.1, 0.3, 2.0)])
    made.take(1.0, (0.1, 0.1, 2.0), points_W, NOTHING)
    occupied = made.occupied(1.0)
    assert {tuple(cell) for cell in np.argwhere(occupied)} == {
        cell_of(made, 4.1, 0.1), cell_of(made, 4.1, 0.3),
    }  # fmt: skip
    seen = made.seen(1.0)
    assert seen[cell_of(made, 3.9, 0.1)] == 0
    assert seen[cell_of(made, 4.4, 0.1)] == -1
    assert (seen == 100).sum() == 2


def test_a_tilted_ray_counts_at_the_height_of_flight_alone():
    """It meets the ground 8 m ahead: no obstacle, and free no farther than it is at that height."""
    made = new_map()
    made.take(1.0, (-6.0, 0.1, 2.0), np.array([(2.0, 0.1, 0.0)]), NOTHING)
    assert not made.occupied(1.0).any()
    left_band_x = -6.0 + 8.0 * 0.5 / 2.0
    known = made.known(1.0)
    assert known[cell_of(made, left_band_x - 0.3, 0.1)]
    assert not known[cell_of(made, left_band_x + 0.3, 0.1)]
    made.take(1.0, (0.0, 0.0, 5.0), np.array([(2.0, 3.1, 5.0)]), NOTHING)  # far above
    assert not made.known(1.0)[cell_of(made, 1.0, 1.6)]


def test_what_has_moved_away_is_forgotten():
    made = new_map()
    origin_W, echo_W, behind_W = (0.1, 0.1, 2.0), np.array([[4.1, 0.1, 2.0]]), (7.9, 0.1, 2.0)
    at = cell_of(made, 4.1, 0.1)
    made.take(1.0, origin_W, echo_W, NOTHING)
    for rays in range(4):
        assert made.occupied(1.0)[at], rays
        made.take(1.1 + 0.1 * rays, origin_W, NOTHING, np.array([behind_W]))
    assert not made.occupied(1.5)[at]
    assert made.known(1.5)[at]


def test_an_echo_stays_among_many_rays_that_pass():
    """A thin pillar fills a part of its cell: most of the rays of one scan pass beside it."""
    made = new_map()
    past_W = np.column_stack([np.full(40, 7.9), np.full(40, 0.15), np.full(40, 2.0)])
    for scan in range(5):
        made.take(scan * 0.1, (0.1, 0.1, 2.0), np.array([[4.1, 0.1, 2.0]]), past_W)
        assert made.occupied(scan * 0.1)[cell_of(made, 4.1, 0.1)]


def test_what_nobody_looked_at_is_unknown_again():
    made = new_map()
    made.take(1.0, (0.1, 0.1, 2.0), np.array([[4.1, 0.1, 2.0]]), NOTHING)
    assert made.occupied(60.9).sum() == 1
    assert not made.occupied(61.1).any()
    assert not made.known(61.1).any()


def test_another_height_is_another_map():
    made = new_map()
    made.take(1.0, (0.1, 0.1, 2.0), np.array([[4.1, 0.1, 2.0]]), NOTHING)
    made.at_height(2.2)
    assert made.occupied(1.0).any()
    made.at_height(2.4)
    assert not made.known(1.0).any()


def test_a_map_that_grows_keeps_what_it_knew():
    made = new_map()
    made.take(1.0, (0.1, 0.1, 2.0), np.array([[4.1, 3.1, 2.0]]), NOTHING)
    before = {tuple(made.middles_of(cell[None])[0]) for cell in np.argwhere(made.known(1.0))}
    for lower, upper in (((-20.0, -3.3), (30.0, 9.1)), ((-1.0, -1.0), (4.6, 3.4))):
        assert made.cover(np.array(lower), np.array(upper))
        after = {tuple(made.middles_of(cell[None])[0]) for cell in np.argwhere(made.known(1.0))}
        assert after == before
        assert made.occupied(1.0)[cell_of(made, 4.1, 3.1)]
    assert not made.cover(np.array([-1e4, -1e4]), np.array([1e4, 1e4]))
    assert made.occupied(1.0)[cell_of(made, 4.1, 3.1)]


def test_a_map_that_was_widened_gets_small_again_where_it_would_be_too_large():
    """Around the end of a wall, with cells for the wide map at the start alone."""
    params = PlannerParams(map=MapParams(cell_m=0.5, around_m=6.0, cells_max=17_000))
    routes, goal_W = Routes(params), np.array([50.0, 0.0, 2.0])
    at_W, now_s, shapes = np.array([15.0, 0.0, 2.0]), 0.0, []
    y = np.arange(-30.0, 20.0, 0.2)
    wall_W = np.column_stack([np.full(len(y), 20.0), y, np.full(len(y), 2.0)])
    routes.find(now_s, at_W, np.zeros(3), goal_W, True)
    while math.dist(at_W, goal_W) > 0.5:
        now_s += 0.25
        assert now_s < 25.0
        routes.take_scan(now_s, tuple(at_W), wall_W, NOTHING)
        way = routes.find(now_s, at_W, np.zeros(3), goal_W, True)
        assert way is not None, (at_W, routes.reason)
        at_W = np.array([*place_on(way, 1.0), 2.0])
        shapes.append(routes.map.shape)
    cells = np.prod(shapes, axis=1)
    assert cells[0] < cells.max() > 15_000
    assert cells[-1] < 10_000


def test_clearances_are_the_distances_to_the_occupied_cells():
    rng = np.random.default_rng(1)
    made = new_map()
    echoes_W = np.column_stack([rng.uniform(-8.0, 8.0, 12), rng.uniform(-6.0, 6.0, 12), [2.0] * 12])
    made.take(1.0, (0.1, 0.1, 2.0), echoes_W, NOTHING)
    found = made.clearance_m(1.0)
    occupied = made.middles_of(np.argwhere(made.occupied(1.0)))
    for cell in rng.integers((0, 0), made.shape, (40, 2)):
        gap_m = np.hypot(*(occupied - made.middles_of(cell[None])[0]).T).min()
        assert found[tuple(cell)] == pytest.approx(max(gap_m - 0.5 * CELL, 0.0), abs=1e-12)
    assert np.isinf(new_map().clearance_m(1.0)).all()


def test_there_is_nothing_where_the_vehicle_is():
    made = new_map()
    made.take(1.0, (0.1, 0.1, 2.0), np.array([[2.1, 0.1, 2.0], [3.1, 0.1, 2.0]]), NOTHING)
    made.free_around(1.0, (2.1, 0.1, 2.0), 0.4)
    assert {tuple(cell) for cell in np.argwhere(made.occupied(1.0))} == {cell_of(made, 3.1, 0.1)}
    made.free_around(1.0, (7.9, 5.9, 2.0), 0.4)  # at the border
