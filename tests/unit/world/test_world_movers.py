"""Obstacles that move or appear: against triangle waves, differences and a walk in small steps."""

import math

import numpy as np
import pytest

from quadsim.base.errors import InputError
from quadsim.world.scene.movers import VEHICLE_RADIUS_M, Mover, Movers, touched_in_s
from quadsim.world.scene.obstacles import Box, Cylinder, Sphere

STILL = (0.0, 0.0, 0.0)
CORNERS = ((0.0, 0.0, 1.0), (4.0, 0.0, 1.0), (4.0, 3.0, 1.0))


def test_it_goes_to_and_fro_like_a_triangle_wave():
    mover = Mover("to and fro", Sphere(0.5), ((1.0, 2.0, 3.0), (1.0, 8.0, 3.0)), 1.5)
    for t_s in np.linspace(0.0, 20.0, 81):
        phase = (1.5 * t_s / 6.0) % 2.0
        wave = 6.0 * (phase if phase <= 1.0 else 2.0 - phase)
        assert mover.at(t_s)[0] == pytest.approx((1.0, 2.0 + wave, 3.0), abs=1e-9)


def test_its_velocity_is_what_its_position_does():
    mover = Mover("around a corner", Sphere(0.5), CORNERS, 2.0)
    for t_s in (0.3, 1.1, 2.4, 3.3, 4.0, 6.2, 7.4):  # none of them at a corner
        before, after = (np.array(mover.at(t_s + dt)[0]) for dt in (-1e-4, 1e-4))
        assert mover.at(t_s)[1] == pytest.approx(tuple((after - before) / 2e-4), abs=1e-9)
        assert math.hypot(*mover.at(t_s)[1]) == pytest.approx(2.0)


def test_a_cylinder_around_it():
    box = Mover("box", Box((3.0, 4.0, 2.0)), ((0.0, 0.0, 0.0),))
    assert (box.radius_m, box.half_height_m) == (2.5, 1.0)
    pole = Mover("pole", Cylinder(0.3, 5.0), ((0.0, 0.0, 0.0),))
    assert (pole.radius_m, pole.half_height_m) == (0.3, 2.5)


@pytest.mark.parametrize("seed", range(8))
def test_when_a_vehicle_would_touch_it(seed):
    """A walk in steps of 1 ms ends where the formula says, or never."""
    rng = np.random.default_rng(seed)
    mover = Mover("pole", Cylinder(0.6, 4.0), ((*rng.uniform(-2.0, 2.0, 2), 0.0),))
    p_W, v_W = rng.uniform(-6.0, 6.0, 3), np.append(rng.uniform(-3.0, 3.0, 2), 0.3)
    t_s = np.arange(0.0, 30.0, 1e-3)
    walked = p_W[:2] + t_s[:, None] * v_W[:2]
    inside = np.hypot(*(walked - mover.way_W[0][:2]).T) <= 0.6 + VEHICLE_RADIUS_M
    first_s = t_s[np.argmax(inside)] if inside.any() else math.inf
    assert touched_in_s(mover, tuple(p_W), tuple(v_W)) == pytest.approx(first_s, abs=1.1e-3)


def test_it_appears_in_time_and_stays():
    mover = Mover("there", Cylinder(0.5, 4.0), ((10.0, 0.0, 2.0),), ahead_s=2.0)
    movers = Movers([mover])
    appears_x = 10.0 - 0.5 - VEHICLE_RADIUS_M - 2.0 * 4.0
    assert movers.update(0.1, (appears_x - 0.01, 0.0, 2.0), (4.0, 0.0, 0.0)) == ()
    assert movers.obstacles() == movers.shapes() == []
    assert movers.update(0.2, (appears_x + 0.01, 0.0, 2.0), (0.0, 4.0, 0.0)) == ()  # flies past
    assert movers.update(0.3, (appears_x + 0.01, 0.0, 2.0), (4.0, 0.0, 0.0)) == ("there",)
    assert movers.update(0.4, (-50.0, 0.0, 2.0), STILL) == ()
    assert [obstacle.name for obstacle in movers.obstacles()] == ["there"]
    (shape,) = movers.shapes()
    assert shape.p_W == (10.0, 0.0, 2.0)
    assert shape.v_W == STILL
    movers.reset()
    assert movers.obstacles() == []


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"way_W": ()}, "way_W"),
        ({"speed_mps": -1.0}, "speed_mps"),
        ({"speed_mps": math.nan}, "speed_mps"),
        ({"ahead_s": math.inf}, "ahead_s"),
        ({"speed_mps": 1.0, "way_W": (STILL, STILL)}, "no length"),
    ],
)
def test_what_cannot_move_is_refused(given, text):
    with pytest.raises(InputError, match=text):
        Mover("m", Sphere(0.5), **{"way_W": (STILL,), **given})
