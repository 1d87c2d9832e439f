"""Legs against their closed forms, finite differences and the limits they promise."""

import math

import numpy as np
import pytest

from quadsim.base.records import MODE_POSITION, SETPOINT
from quadsim.mission.reference.legs import (
    PEAK_ACCELERATION,
    PEAK_BRAKING,
    PEAK_SPEED,
    brake_duration,
    leg_setpoint,
    new_leg,
    plan_leg,
    rest_duration,
)

ZERO = (0.0, 0.0, 0.0)


def sample(start, goal, yaw, duration_s, times):
    """Position (N, 3), v, a, yaw and yaw rate (N,) of a leg."""
    leg, setpoints = new_leg(), np.zeros(1, SETPOINT)
    setpoint = setpoints[0]
    plan_leg(leg, start, goal, yaw, duration_s)
    rows = []
    for t in times:
        leg_setpoint(leg, float(t), 1.0, 0.0, 0.0, setpoints)
        assert setpoint.mode == MODE_POSITION
        rows.append([*setpoint.p_W, *setpoint.v_W, *setpoint.a_W, setpoint.yaw, setpoint.yaw_rate])
    rows = np.array(rows)
    return rows[:, :3], rows[:, 3:6], rows[:, 6:9], rows[:, 9], rows[:, 10]


def test_from_rest_to_rest_it_is_the_minimum_snap_polynomial():
    times = np.linspace(0.0, 2.0, 41)
    p, *_ = sample((ZERO, ZERO, ZERO, 0.0, 0.0), (4.0, -2.0, 1.0), 0.0, 2.0, times)
    tau = times / 2.0
    s = 35 * tau**4 - 84 * tau**5 + 70 * tau**6 - 20 * tau**7
    np.testing.assert_allclose(p, np.outer(s, [4.0, -2.0, 1.0]), atol=1e-13)


def test_no_other_polynomial_of_its_ends_has_less_snap():
    # adding any c tau^4 (1 - tau)^4 keeps the ends and adds to the integral of snap squared
    poly = np.polynomial.Polynomial
    leg = poly([0, 0, 0, 0, 35, -84, 70, -20])

    def snap(p):
        square = p.deriv(4) ** 2
        return square.integ()(1.0) - square.integ()(0.0)

    for c in (1e-3, -1e-3):
        bump = c * poly([0, 0, 0, 0, 1]) * poly([1, -1]) ** 4
        assert snap(leg + bump) > snap(leg)


def test_velocity_and_acceleration_are_the_derivatives_also_from_a_moving_start():
    start = ((1.0, 2.0, 3.0), (1.0, -0.5, 0.2), (0.3, 0.1, -0.4), 0.5, 0.7)
    h, times = 1e-4, np.linspace(0.1, 2.9, 15)
    _, v, a, _, rate = sample(start, (4.0, 0.0, 2.0), -0.5, 3.0, times)
    before = sample(start, (4.0, 0.0, 2.0), -0.5, 3.0, times - h)
    after = sample(start, (4.0, 0.0, 2.0), -0.5, 3.0, times + h)
    # central differences: error h^2/6 times the third derivative (below 100) and rounding 1e-15/h^2
    np.testing.assert_allclose((after[0] - before[0]) / (2 * h), v, atol=1e-6)
    np.testing.assert_allclose((after[1] - before[1]) / (2 * h), a, atol=1e-6)
    np.testing.assert_allclose((after[3] - before[3]) / (2 * h), rate, atol=1e-6)
    first = sample(start, (4.0, 0.0, 2.0), -0.5, 3.0, [0.0])
    for value, wanted in zip(first, start, strict=True):
        np.testing.assert_allclose(value[0], wanted, atol=1e-12)


def test_after_its_end_it_stands_at_the_goal():
    start = (ZERO, (2.0, 0.0, 0.0), ZERO, 0.0, 0.0)
    p, v, a, yaw, rate = sample(start, (1.0, 2.0, 3.0), 0.4, 1.5, [1.5, 1.6, 100.0])
    np.testing.assert_allclose(p, [[1.0, 2.0, 3.0]] * 3, atol=1e-13)
    np.testing.assert_array_equal([v, a], 0.0)
    np.testing.assert_allclose(yaw, 0.4, atol=1e-13)
    np.testing.assert_array_equal(rate, 0.0)


def test_a_leg_of_no_duration_is_at_its_goal_at_once():
    p, v, *_ = sample((ZERO, (9.0, 0.0, 0.0), ZERO, 0.0, 0.0), (1.0, 2.0, 3.0), 0.0, 0.0, [0.0])
    np.testing.assert_array_equal(p, [[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(v, 0.0)


@pytest.mark.parametrize(("yaw_from", "yaw_to"), [(3.0, -3.0), (-3.0, 3.0), (0.0, 7.0)])
def test_yaw_goes_the_shortest_way(yaw_from, yaw_to):
    times = np.linspace(0.0, 2.0, 101)
    *_, yaw, rate = sample((ZERO, ZERO, ZERO, yaw_from, 0.0), ZERO, yaw_to, 2.0, times)
    assert np.all(np.abs(yaw) <= math.pi)
    turned = np.unwrap(yaw)
    way = math.remainder(yaw_to - yaw_from, math.tau)
    assert turned[-1] - turned[0] == pytest.approx(way)
    assert np.all(rate * rate[50] >= 0.0)


@pytest.mark.parametrize(
    ("distance", "speed", "acceleration"), [(4.0, 3.0, 4.0), (40.0, 3.0, 4.0), (0.1, 3.0, 4.0)]
)
def test_rest_duration_is_the_shortest_within_both_limits(distance, speed, acceleration):
    duration_s = rest_duration(distance, speed, acceleration)
    times = np.linspace(0.0, duration_s, 20_001)
    _, v, a, *_ = sample((ZERO, ZERO, ZERO, 0.0, 0.0), (distance, 0.0, 0.0), 0.0, duration_s, times)
    shares = np.abs(v).max() / speed, np.abs(a).max() / acceleration
    # the peak lies between two of 20 001 samples: short of it by less than 1e-7
    assert max(shares) == pytest.approx(1.0, abs=1e-6)


def test_constants_are_the_peaks_of_the_polynomials():
    tau = np.linspace(0.0, 1.0, 200_001)
    s = np.polynomial.Polynomial([0, 0, 0, 0, 35, -84, 70, -20])
    assert s.deriv(1)(tau).max() == pytest.approx(PEAK_SPEED, rel=1e-9)
    assert s.deriv(2)(tau).max() == pytest.approx(PEAK_ACCELERATION, rel=1e-9)


def test_braking_straight_ahead_keeps_its_deceleration_and_never_turns_back():
    duration_s = brake_duration(3.0, 4.0)
    times = np.linspace(0.0, duration_s, 2001)
    goal = (0.5 * 3.0 * duration_s, 0.0, 0.0)
    _, v, a, *_ = sample((ZERO, (3.0, 0.0, 0.0), ZERO, 0.0, 0.0), goal, 0.0, duration_s, times)
    assert -a[:, 0].min() == pytest.approx(4.0, rel=1e-5)
    assert v[:, 0].min() >= -1e-12
    assert PEAK_BRAKING * 3.0 / duration_s == pytest.approx(4.0)
