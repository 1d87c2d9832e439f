"""``odom``: the filter's motion without its corrections."""

import math

import numpy as np
import pytest

from quadsim.base.compiled import new_record
from quadsim.base.records import ODOMETRY
from quadsim.estimation.odom_frame import OdomFrame
from quadsim.geometry.rotation import exp, from_euler, multiply, yaw_of
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

STEP_NS = 20_000_000


def filtered(stamp_ns, p, v=(0.0, 0.0, 0.0), q=(1.0, 0.0, 0.0, 0.0), w=(0.0, 0.0, 0.0)):
    record = new_record(ODOMETRY)
    record.stamp_ns = stamp_ns
    record.p_W[:], record.v_W[:], record.q_WB[:], record.w_B[:] = p, v, q, w
    return record


def test_it_begins_as_map_and_a_jump_does_not_move_it():
    frame = OdomFrame()
    q = from_euler(0.1, -0.2, 2.0)
    start = frame.take(filtered(STEP_NS, (1.0, 2.0, 3.0), q=q), 1).copy()
    np.testing.assert_array_equal(start.p_W, (1.0, 2.0, 3.0))
    jumped = frame.take(filtered(2 * STEP_NS, (6.0, 1.0, 3.5), q=from_euler(0.1, -0.2, 2.7)), 1)
    np.testing.assert_allclose(jumped.p_W, start.p_W, atol=1e-12)
    # the turn about the vertical is a correction: the rates do not explain it
    np.testing.assert_allclose(jumped.q_WB, start.q_WB, atol=1e-12)
    again = frame.take(filtered(3 * STEP_NS, (99.0, 9.0, 9.0), q=from_euler(0.1, -0.2, 0.0)), 2)
    np.testing.assert_allclose(again.p_W, start.p_W, atol=1e-12)


def test_without_corrections_it_stays_map():
    """A helix in closed form: radius 2 m, 0.5 rad/s, climbing by 0.3 m/s, nose along the way."""
    frame, rate = OdomFrame(), 0.5
    for k in range(1, 1001):
        t = k * 0.02
        p = (2 * math.cos(rate * t), 2 * math.sin(rate * t), 0.3 * t)
        v = (-2 * rate * math.sin(rate * t), 2 * rate * math.cos(rate * t), 0.3)
        q = multiply(exp((0.0, 0.0, rate * t)), from_euler(0.2, 0.1, 0.0))
        level = from_euler(0.2, 0.1, 0.0)
        # the rate about the vertical, in the body
        w = np.array(level[1:]) * 0.0 + rate * up_in_body(level)
        odom = frame.take(filtered(k * STEP_NS, p, v, q, w), 1)
    # trapezoid: v'' dt^2 / 12 = 2 rate^3 dt^2 / 12 a second, 8e-6 m/s of error for 20 s
    np.testing.assert_allclose(odom.p_W, p, atol=2e-4)
    np.testing.assert_allclose(odom.q_WB, q, atol=1e-9)


def up_in_body(q):
    w, x, y, z = q
    return np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])


@pytest.fixture(scope="module")
def standing():
    """What the filter says at rest, unarmed, for 30 s, 50 times a second."""
    loop = ClosedLoop(load_scenario("hover", duration_s=30.0))
    found = []
    while not loop.over:
        loop.tick()
        odometry = loop.records["odometry"][0]
        if odometry["stamp_ns"]:
            found.append(odometry.copy())
    return found


def test_at_rest_it_stays_where_it_is_and_never_jumps(standing):
    frame = OdomFrame()
    places = np.array([frame.take(record, 1).p_W.copy() for record in standing])
    speeds = np.array([record.v_W for record in standing])
    steps = np.linalg.norm(np.diff(places, axis=0), axis=1)
    fastest = np.linalg.norm(speeds, axis=1)
    assert (steps <= 0.0201 * np.maximum(fastest[1:], fastest[:-1]) + 1e-12).all()
    assert np.linalg.norm(places[-1] - places[0]) < 0.02 * fastest.sum() < 30.0
    assert np.abs(places - places[0]).max() < 3.0
    yaws = [yaw_of(tuple(record.q_WB)) for record in standing]
    assert np.ptp(yaws) < 0.1
