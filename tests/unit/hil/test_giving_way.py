"""How near commands lead to what moves, against closest approaches in closed form."""

import math

import numpy as np
import pytest

from quadsim.hil.guard.sight import Path, least_gaps, ways_out

HORIZON_S = 4.0


def crossing(x, y, vx, vy, keep_out_m=0.8):
    """A shape at (x, y) from the vehicle with a velocity."""
    way_W = HORIZON_S * np.array((vx, vy, 0.0))
    return Path(np.array((x, y, 0.0)), way_W, keep_out_m)


def closest(o, u, t_s=HORIZON_S):
    """Smallest distance of a point at o with relative velocity u within a time."""
    o, u = np.array(o), np.array(u)
    at = min(max(-float(o @ u) / float(u @ u), 0.0), t_s)
    return float(np.linalg.norm(o + at * u))


@pytest.mark.parametrize(
    ("place", "velocity"),
    [((4.0, 3.0), (0.0, -2.0)), ((6.0, -1.0), (-1.0, 0.5)), ((-3.0, 0.0), (2.0, 0.0))],
)
def test_the_gap_is_the_closest_approach_of_two_straight_motions(place, velocity):
    """The vehicle flies what it is told already: no lag. In steps of 0.1 s at up to 5 m/s."""
    path = crossing(*place, *velocity)
    v_W = np.array((3.0, 0.5, 0.0))
    (gap_m,) = least_gaps(v_W, v_W[None], 0.3, 3.0, [path], HORIZON_S)
    expected = closest(place, np.array(velocity) - v_W[:2]) - 0.8
    relative_mps = float(np.linalg.norm(np.array(velocity) - v_W[:2]))
    apart = expected + 0.8
    # at most half a step from the closest point
    most = math.hypot(apart, 0.05 * relative_mps) - apart
    assert expected - 1e-9 <= gap_m <= expected + most + 1e-9


def test_standing_in_the_way_of_something_is_worse_than_going_on():
    """Something comes at 1.8 m/s along the strip that the vehicle is about to cross."""
    path = crossing(3.0, 4.0, 0.0, -1.8)
    v_W = np.array((3.8, 0.0, 0.0))
    commands_W = np.array((v_W, (0.0, 0.0, 0.0)))
    on, stop = least_gaps(v_W, commands_W, 0.3, 3.0, [path], HORIZON_S)
    assert on > 0.5
    assert stop < 0.0  # it stands 3.5 m on, in the strip of 0.8 m


def test_the_vehicle_goes_on_until_it_answers_and_then_changes_at_its_rate():
    """At 4 m/s towards a wall that stands: 0.5 s, then 4 m/s^2: it stands after 4 m."""
    path = Path(np.array((5.0, 0.0, 0.0)), np.zeros(3), 0.5)
    v_W = np.array((4.0, 0.0, 0.0))
    (gap_m,) = least_gaps(v_W, np.zeros((1, 3)), 0.5, 4.0, [path], HORIZON_S)
    assert gap_m == pytest.approx(5.0 - 4.0 - 0.5, abs=0.25)  # half a step at 4 m/s


def test_ways_out_lead_to_either_side_at_full_speed():
    wish_W, last_W = np.array((1.0, 0.0, 0.0)), np.array((0.0, 0.5, 0.0))
    ways = ways_out(wish_W, last_W, [crossing(0.0, 5.0, 0.0, -1.0)], 4.0)
    np.testing.assert_allclose(ways[:2], [wish_W, last_W])
    np.testing.assert_allclose(ways[2], [4.0, 0.0, 0.0])
    assert {tuple(way) for way in np.round(ways[3:], 9)} == {(4.0, 0.0, 0.0), (-4.0, 0.0, 0.0)}
