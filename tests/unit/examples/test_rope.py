"""The lecture's point mass on a rope against closed forms and a pendulum by scipy."""

import math
from dataclasses import replace

import numpy as np
import pytest
from rope import (
    IMPACT_J,
    STATE,
    TAUT,
    TENSION,
    TIME,
    RopeParams,
    V,
    X,
    energy_J,
    swing,
)
from scipy.integrate import solve_ivp

from quadsim.base.errors import InputError

pytestmark = pytest.mark.thorough  # half a minute of compilation for an example

LECTURE = RopeParams()
FREE = RopeParams(friction_N_s_m=0.0)
G = FREE.gravity_mps2
#: The lecture's mass falls until the rope is taut: sqrt(l^2 - (l/2)^2).
FALL_M = math.sqrt(0.75)


def position(motion):
    return motion[:, STATE + X : STATE + X + 2]


def velocity(motion):
    return motion[:, STATE + V : STATE + V + 2]


def length_error_m(motion, params):
    """How far a taut rope is off its length; 0 where it is slack."""
    distance = np.linalg.norm(position(motion) - params.anchor_m, axis=1)
    return np.where(motion[:, TAUT] > 0.0, distance - params.length_m, 0.0)


def test_the_lectures_rule_takes_all_of_a_straight_fall():
    """X_dot(2) = 0 at the first taut instant; ours keeps the tangential quarter of m v^2 / 2."""
    fallen_J = FREE.mass_kg * G * FALL_M
    for impact, share in (("vertical", 1.0), ("radial", 0.75)):
        params = replace(FREE, impact=impact)
        motion = swing(params, 3.0)
        assert motion[-1, STATE + IMPACT_J] == pytest.approx(share * fallen_J, rel=1e-6)
        assert np.ptp(energy_J(motion, params)) < 1e-6
        # what is left lifts it: the height of the pendulum's turn on the other side
        top = position(motion)[:, 1].max(initial=-1.0, where=motion[:, [TAUT]][:, 0] > 0.0)
        assert top == pytest.approx(-FALL_M + (1.0 - share) * FALL_M, abs=1e-5)


def pendulum(angle, **params):
    """Let go at rest, taut, at an angle from the vertical."""
    start = (0.5 + math.sin(angle), -math.cos(angle))
    return replace(FREE, start_m=start, **params)


def test_the_mass_falls_freely_until_the_rope_is_taut():
    motion = swing(FREE, 0.5)
    first = int(np.argmax(motion[:, TAUT] > 0.0))
    assert motion[first, TIME] == pytest.approx(math.sqrt(2.0 * FALL_M / G), abs=0.001)
    falling = motion[:first]
    np.testing.assert_allclose(position(falling)[:, 1], -0.5 * G * falling[:, TIME] ** 2, atol=1e-9)
    np.testing.assert_array_equal(falling[:, TENSION], 0.0)


def test_the_impact_takes_the_radial_velocity_and_no_more():
    """At 30 degrees from the vertical the fall has cos(30) of its speed along the rope."""
    lost_J = swing(FREE, 0.5)[-1, STATE + IMPACT_J]
    assert lost_J == pytest.approx(FREE.mass_kg * G * FALL_M * 0.75, rel=1e-9)


@pytest.mark.parametrize("params", [LECTURE, FREE, pendulum(2.5), pendulum(3.0)])
def test_energy_is_kept_but_for_friction_and_impacts(params):
    motion = swing(params, 10.0)
    total_J = energy_J(motion, params)
    # RK4 at 1 ms: its local error (w dt)^5/120 over 10^4 steps, with w below 20 rad/s
    np.testing.assert_allclose(total_J, total_J[0], atol=1e-6)


def test_the_swing_is_that_of_a_pendulum():
    """Friction f acts on the angle as f/m; scipy integrates the angle, not the constraint."""
    params = pendulum(1.2, friction_N_s_m=0.3, mass_kg=2.0)
    motion = swing(params, 3.0)
    wanted = solve_ivp(
        lambda _, y: [y[1], -G * math.sin(y[0]) - 0.15 * y[1]],
        (0.0, 3.0),
        [1.2, 0.0],
        t_eval=[1.0, 2.0, 3.0],
        rtol=1e-11,
        atol=1e-12,
    ).y
    reach = position(motion)[[1000, 2000, 3000]] - params.anchor_m
    np.testing.assert_allclose(np.arctan2(reach[:, 0], -reach[:, 1]), wanted[0], atol=1e-9)
    pull_N = params.mass_kg * (G * np.cos(wanted[0]) + wanted[1] ** 2)
    np.testing.assert_allclose(motion[[1000, 2000, 3000], TENSION], pull_N, rtol=1e-8)


def test_a_mass_too_slow_for_the_loop_leaves_the_circle_where_it_must():
    """Tension m (v^2/l - g cos a), a from the top, is gone at cos a = (v0^2/(g l) - 2)/3."""
    speed2 = 3.5 * G
    below = replace(FREE, start_m=(0.5, -1.0), start_velocity_mps=(math.sqrt(speed2), 0.0))
    motion = swing(below, 2.0)
    leaves = int(np.argmax(motion[:, TAUT] == 0.0))
    height = position(motion)[leaves, 1]
    speed = np.linalg.norm(velocity(motion)[leaves])
    assert height == pytest.approx(0.5, abs=0.001 * speed)  # seen at most a step later
    flight = motion[leaves : leaves + 50]
    t = flight[:, TIME] - flight[0, TIME]
    wanted = position(flight)[0] + np.outer(t, velocity(flight)[0])
    wanted[:, 1] -= 0.5 * G * t**2
    np.testing.assert_allclose(position(flight), wanted, atol=1e-12)
    again = int(np.argmax(motion[leaves:, TAUT] > 0.0))
    assert again > 50  # the parabola ends on the circle again
    assert np.all(motion[:, TENSION] >= 0.0)


def test_a_rope_holds_its_length_for_a_minute_when_it_is_stabilised():
    worst = {
        how: np.abs(length_error_m(swing(replace(FREE, stabilised=how), 60.0, 0.01), FREE)).max()
        for how in ("none", "baumgarte", "projection")
    }
    assert worst["none"] > 1e-5
    assert worst["baumgarte"] < 1e-6
    assert worst["projection"] < 1e-14


def test_a_start_beyond_the_rope_is_refused():
    with pytest.raises(InputError, match=r"start_m: 0\.5 m from the anchor; the rope is 0\.4 m"):
        RopeParams(length_m=0.4)
