"""Places, attitudes and rates behind the guard: what passes, and who flies when it may not."""

import math
from dataclasses import replace

import numpy as np
import pytest
from point_mass import LEVEL, hits

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.geometry.rotation import from_euler, to_euler, yaw_of
from quadsim.hil.guard.gate import CommandGateParams, Gate
from quadsim.hil.guard.guard import Guard, GuardParams
from quadsim.hil.guard.parameters import GRAVITY_MPS2
from quadsim.hil.guard.setpoints import (
    ATTITUDE,
    RATES,
    ThrustSetpoint,
    refused_setpoint,
    setpoint_reach,
)

PARAMS = load(GuardParams, find("guards", "default"))
LIMITS = PARAMS.limits
STEP_NS = 20_000_000
Z = 1.75
HOVERS = ThrustSetpoint(ATTITUDE, LEVEL, (0.0, 0.0, 0.0), GRAVITY_MPS2)
NO_PILLARS = np.zeros((0, 3))


class Hall:
    """A guard, and a vehicle that takes attitudes as accelerations and brakes as assumed.

    What is sent acts ``answer_s`` later, as the guard's file assumes.
    """

    def __init__(self, pillars=NO_PILLARS, params=PARAMS):
        self.guard, self.params, self.pillars = Guard(params), params, pillars
        self.now_ns = 10**9
        self.p_W, self.v_W = np.array((0.0, 0.0, Z)), np.zeros(3)
        self.queue, self.outputs = [], []
        self.near_m = math.inf
        for _ in range(50):
            self.step(None)
        assert self.guard.enable(self.now_ns) is None

    def step(self, wish):
        """One period; ``wish`` gives the guard what is asked for."""
        self.now_ns += STEP_NS
        now, place = self.now_ns, tuple(self.p_W)
        self.guard.take_pose(now, now, place, LEVEL, tuple(self.v_W))
        if (now // STEP_NS) % 3 == 0:
            self.guard.take_scan(now, now, place, hits(self.p_W, self.pillars), 10.0)
        self.guard.take_dead_man(now, True)
        if wish is not None:
            assert wish(now) is None
        self.outputs.append(self.guard.step(now))
        self.queue.append(
            (now + round(0.9 * self.params.vehicle.latency_s * 1e9), self.outputs[-1])
        )
        self._move()

    def _move(self):
        done = [output for due_ns, output in self.queue if due_ns <= self.now_ns]
        dt_s = STEP_NS * 1e-9
        if done and done[-1].send:
            said = done[-1].setpoint
            if said is not None:
                roll, pitch, _ = to_euler(said.q_WB)
                a_W = said.thrust_mps2 * np.array(
                    (math.sin(pitch) * math.cos(roll), -math.sin(roll),
                     math.cos(pitch) * math.cos(roll))
                ) - (0.0, 0.0, GRAVITY_MPS2)  # fmt: skip
                self.v_W = self.v_W + dt_s * a_W
            else:
                off = done[-1].v_W - self.v_W
                size, change = np.linalg.norm(off), self.params.vehicle.brake_mps2 * dt_s
                self.v_W = self.v_W + off * min(1.0, change / max(size, 1e-9))
        self.p_W = self.p_W + dt_s * self.v_W
        for x, y, radius_m in self.pillars:
            self.near_m = min(self.near_m, math.hypot(x - self.p_W[0], y - self.p_W[1]) - radius_m)

    def asks(self, setpoint):
        return lambda now: self.guard.take_setpoint(now, setpoint)


def leaning(pitch_rad):
    """An attitude that keeps its height."""
    thrust = GRAVITY_MPS2 / math.cos(pitch_rad)
    return ThrustSetpoint(ATTITUDE, from_euler(0.0, pitch_rad, 0.0), (0.0, 0.0, 0.0), thrust)


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setpoint", "words"),
    [
        (replace(HOVERS, thrust_mps2=math.nan), "not finite"),
        (replace(HOVERS, q_WB=(math.inf, 0.0, 0.0, 0.0)), "not finite"),
        (leaning(0.6), "tilt 0.6 rad; the guard's file allows: 0.5"),
        (replace(HOVERS, w_B=(0.0, 0.0, 1.6)), "yaw rate 1.6 rad/s; the guard's file allows: 1.5"),
        (replace(HOVERS, kind=RATES, w_B=(0.0, -2.5, 0.0)), "body rate 2.5 rad/s"),
        (replace(HOVERS, thrust_mps2=13.5), "thrust 13.5 m/s^2; the guard's file allows: 13"),
        (replace(HOVERS, thrust_mps2=5.0), "thrust 5 m/s^2; the guard's file allows: 7"),
    ],
)
def test_what_goes_beyond_the_limits_is_refused_by_guard_and_gate(setpoint, words):
    assert words in refused_setpoint(setpoint, LIMITS)
    assert words in (Guard(PARAMS).take_setpoint(0, setpoint) or "")
    gate = Gate(CommandGateParams(LIMITS, PARAMS.watch), "/quad/guard")
    assert gate.take_setpoint(0, 1, HOVERS, ["/quad/guard"])
    assert not gate.take_setpoint(1, 2, setpoint, ["/quad/guard"])
    assert words in gate.refused


def test_the_gate_lets_the_guards_fresh_setpoints_out_alone():
    gate = Gate(CommandGateParams(LIMITS, PARAMS.watch), "/quad/guard")
    second = 10**9
    assert not gate.take_setpoint(0, 1, HOVERS, ["/somebody"])
    assert "command_attitude/safe comes from /somebody" in gate.refused
    assert gate.take_setpoint(0, 2, HOVERS, ["/quad/guard"])
    assert not gate.take_setpoint(second, 2, HOVERS, ["/quad/guard"])
    assert "goes back, or stays" in gate.refused
    # 0.3 s later than the first came after its stamp; a velocity follows the same stamps
    assert not gate.take_setpoint(second + 300_000_000, second, HOVERS, ["/quad/guard"])
    assert "a command is 0.30 s old" in gate.refused
    assert not gate.take(second, second - 1, (0.0, 0.0, 0.0), 0.0, ["/quad/guard"])


# ---- what passes -------------------------------------------------------------------------------


def test_the_reach_of_a_setpoint_holds_every_motion_that_it_may_lead_to():
    """Random accelerations within the limits for the time, and then braking on a straight line."""
    rng, force_s = np.random.default_rng(1), 0.45
    brake = PARAMS.vehicle.brake_mps2
    v0_W = np.array((2.0, -1.0, 0.3))
    points, fastest = setpoint_reach(PARAMS, v0_W, force_s)
    assert not points[0].any()
    low, high = points.min(axis=0), points.max(axis=0)
    dt_s = 0.005
    for _ in range(200):
        p, v = np.zeros(3), v0_W
        for _ in range(round(force_s / dt_s)):
            tilt, azimuth = LIMITS.tilt_max_rad * rng.random(), 2.0 * math.pi * rng.random()
            thrust = rng.uniform(LIMITS.thrust_min_mps2, LIMITS.thrust_max_mps2)
            level = thrust * math.sin(tilt)
            a = np.array((level * math.cos(azimuth), level * math.sin(azimuth),
                          thrust * math.cos(tilt) - GRAVITY_MPS2))  # fmt: skip
            p, v = p + dt_s * v + 0.5 * dt_s**2 * a, v + dt_s * a
        assert np.linalg.norm(v) <= fastest
        p = p + v * np.linalg.norm(v) / (2.0 * brake)
        assert np.all(p >= low - 1e-9)
        assert np.all(p <= high + 1e-9)


def test_an_attitude_passes_with_its_rate_and_the_heading_of_the_pose():
    hall = Hall()
    turned = ThrustSetpoint(ATTITUDE, from_euler(0.05, -0.02, 1.0), (0.0, 0.0, 0.4), 9.7)
    hall.step(hall.asks(turned))
    said = hall.outputs[-1].setpoint
    assert hall.outputs[-1].state == "passing"
    assert said is not None
    assert to_euler(said.q_WB) == pytest.approx((0.05, -0.02, 0.0))
    assert (said.w_B, said.thrust_mps2) == ((0.0, 0.0, 0.4), 9.7)


@pytest.mark.parametrize("pitch_rad", [0.1, 0.3, 0.5])
def test_one_who_leans_towards_a_pillar_is_stopped_before_the_keep_out(pitch_rad):
    """Whatever it asks for, for 8 s; and the guard stops it by a velocity of zero."""
    hall = Hall(np.array([(9.0, 0.3, 0.5)]))
    for _ in range(400):
        hall.step(hall.asks(leaning(pitch_rad)))
    told = [event.words for output in hall.outputs for event in output.events]
    assert any("takes over from attitude setpoints" in words for words in told)
    taken = next(o for o in hall.outputs if o.send and "may lead too near" in o.reason)
    assert taken.setpoint is None
    assert not taken.v_W.any()
    assert any(output.setpoint is not None for output in hall.outputs)
    assert hall.near_m > PARAMS.keep_out_m
    assert hall.p_W[0] > 0.5  # it came along


def test_it_goes_no_faster_than_it_could_stop_in_what_is_seen():
    """An empty hall, of which 10 m are seen: v (T + m / 2a) and the box are less than that."""
    hall = Hall()
    for _ in range(300):
        hall.step(hall.asks(leaning(0.2)))
    passed = [hall.outputs[i].setpoint is not None for i in range(len(hall.outputs))]
    assert any(passed)
    assert not all(passed[1:])
    told = [event.words for output in hall.outputs for event in output.events]
    assert any("takes over" in words for words in told)


def test_what_was_taken_over_is_given_back_only_where_the_vehicle_stands():
    hall = Hall(np.array([(7.0, 0.0, 0.5)]))
    while hall.outputs[-1].setpoint is not None or not hall.guard.enabled or hall.v_W[0] < 0.5:
        hall.step(hall.asks(leaning(0.3)))
    passed = [(np.linalg.norm(hall.v_W), hall.outputs[-1].setpoint)]
    for _ in range(200):
        speed = np.linalg.norm(hall.v_W)
        hall.step(hall.asks(HOVERS))
        passed.append((speed, hall.outputs[-1].setpoint))
    first = next(i for i, (_, setpoint) in enumerate(passed) if setpoint is not None)
    assert first > 0
    assert passed[first][0] < 0.2


def test_a_velocity_after_a_setpoint_waits_until_that_acts_no_more():
    hall = Hall()
    for _ in range(20):
        hall.step(hall.asks(HOVERS))
    steps = []
    for _ in range(40):
        hall.step(lambda now: hall.guard.take_wish(now, (1.0, 0.0, 0.0), 0.0))
        steps.append(bool(hall.outputs[-1].v_W.any()))
    waited_s = steps.index(True) * STEP_NS * 1e-9
    force_s = PARAMS.vehicle.latency_s + PARAMS.watch.late_s
    assert waited_s == pytest.approx(force_s, abs=0.041)


def test_rates_that_would_turn_it_too_far_are_taken_over():
    """2 rad/s for the time that they may act, 0.41 s, is more than 0.5 + 0.35 rad: not from 0.1."""
    hall = Hall()
    hall.step(hall.asks(ThrustSetpoint(RATES, LEVEL, (1.9, 0.0, 0.0), GRAVITY_MPS2)))
    assert hall.outputs[-1].setpoint is not None
    hall.guard.take_pose(
        hall.now_ns + 1, hall.now_ns + 1, tuple(hall.p_W), from_euler(0.2, 0.0, 0.0), (0.0,) * 3
    )
    assert hall.guard.step(hall.now_ns + 2).setpoint is None


def test_setpoints_that_end_are_a_lost_wish():
    hall = Hall()
    hall.step(hall.asks(HOVERS))
    for _ in range(20):
        hall.step(None)
    assert hall.outputs[-1].setpoint is None
    assert hall.outputs[-1].reason.startswith("wish lost")


# ---- places ------------------------------------------------------------------------------------


def test_a_place_is_flown_to_as_a_velocity_and_reached():
    hall = Hall()
    for _ in range(400):
        hall.step(lambda now: hall.guard.take_position(now, (3.0, -2.0, 2.2), 0.5))
    assert hall.p_W == pytest.approx([3.0, -2.0, 2.2], abs=0.05)
    assert np.linalg.norm(hall.v_W) < 0.05
    assert all(output.setpoint is None for output in hall.outputs)
    assert hall.outputs[-1].yaw_rate_radps == pytest.approx(0.5 - yaw_of(LEVEL))


def test_a_place_behind_a_pillar_is_not_reached_through_it():
    hall = Hall(np.array([(4.0, 0.0, 0.5)]))
    for _ in range(300):
        hall.step(lambda now: hall.guard.take_position(now, (8.0, 0.0, Z), 0.0))
    assert hall.near_m > PARAMS.keep_out_m


@pytest.mark.parametrize("place", [(60.0, 0.0, Z), (0.0, 0.0, 9.0), (math.nan, 0.0, Z)])
def test_a_place_outside_the_fence_is_refused(place):
    assert Guard(PARAMS).take_position(0, place, 0.0)
