"""Timed points smoothed over a window, against the convolution done by numerical integration."""

import numpy as np
import pytest

from quadsim.base.records import SETPOINT
from quadsim.control.parameters import FlightParams
from quadsim.mission.flight.estimate_check import EstimateCheck
from quadsim.mission.flight.mission_items import PointsPlan, smoothed
from quadsim.mission.items import Follow
from quadsim.mission.reference.ground import Ground
from quadsim.mission.reference.reference import Reference

#: Corners of any kind: a stand, legs of different speed, one that turns back, uneven times.
POINTS = (
    (0.5, 0.0, 1.0, 2.0, 0.0),
    (1.0, 0.0, 1.0, 2.0, 0.0),
    (1.3, 3.0, 0.0, 2.5, 0.0),
    (2.7, 3.0, -4.0, 2.0, 90.0),
    (2.9, 1.0, -4.0, 2.0, 90.0),
    (6.0, 1.0, 2.0, 4.0, 90.0),
)
HALF_S = 0.4
TIMES = np.arange(-0.5, 7.5, 0.1)


def convolved(t_s):
    """The mean of the points under a raised cosine around a time, by the midpoint rule."""
    x = (np.arange(20_000) + 0.5) / 10_000 - 1.0
    weight = 0.5 * (1.0 + np.cos(np.pi * x)) / 10_000
    table = np.array(POINTS)
    at = t_s + HALF_S * x
    return [float(weight @ np.interp(at, table[:, 0], table[:, k])) for k in (1, 2, 3)]


def test_the_position_is_the_convolution_with_the_window():
    for t_s in TIMES:
        p, _, _ = smoothed(POINTS, t_s, HALF_S)
        # midpoint rule over 20 000 panels, corners inside: below 1e-6
        np.testing.assert_allclose(p, convolved(t_s), atol=1e-6)


def test_velocity_and_acceleration_are_its_derivatives():
    step_s = 1e-4
    for t_s in TIMES:
        before, now, after = (smoothed(POINTS, t_s + k * step_s, HALF_S) for k in (-1, 0, 1))
        v = (np.array(after[0]) - before[0]) / (2 * step_s)
        a = (np.array(after[1]) - before[1]) / (2 * step_s)
        np.testing.assert_allclose(now[1], v, atol=1e-5)  # the third derivative is below 500
        np.testing.assert_allclose(now[2], a, atol=2e-2)  # its rate jumps at the window's ends


def test_far_from_a_corner_the_points_are_left_as_they_are():
    p, v, a = smoothed(POINTS, 4.0, HALF_S)
    np.testing.assert_allclose(p, [1.0, -4.0 + 6.0 * 1.1 / 3.1, 2.0 + 2.0 * 1.1 / 3.1], atol=1e-12)
    np.testing.assert_allclose(v, [0.0, 6.0 / 3.1, 2.0 / 3.1], atol=1e-12)
    np.testing.assert_allclose(a, 0.0, atol=1e-12)


@pytest.mark.parametrize("preview_s", [0.0, 0.3])
def test_the_reference_stays_and_says_how_it_moves_only_with_a_preview(preview_s):
    params = FlightParams(preview_s=preview_s)
    reference = Reference(params, EstimateCheck(params), Ground(params))
    points = Follow(POINTS)
    reference.follow(PointsPlan(points, preview_s))
    reference.now_ns = 1_200_000_000
    setpoints = np.zeros(1, SETPOINT)
    reference.write(setpoints)
    setpoint = setpoints[0]
    np.testing.assert_allclose(setpoint.p_W, points.at(1.2)[0], atol=1e-12)
    wanted = smoothed(POINTS, 1.2, preview_s)[1:] if preview_s else np.zeros((2, 3))
    np.testing.assert_allclose([setpoint.v_W, setpoint.a_W], wanted, rtol=1e-12)
