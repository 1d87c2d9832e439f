"""Frames that do not agree: headings before a flight, and motion beside commands in it."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from point_mass import Flight, PointMass, fly

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.geometry.rotation import from_euler, multiply
from quadsim.hil.guard.frames import MotionAlignment
from quadsim.hil.guard.guard import Guard, GuardParams
from quadsim.hil.guard.pose import PoseWatch
from quadsim.hil.rehearsal.flight import RehearsalFlight as Rehearsed
from quadsim.hil.rehearsal.rehearsal import load_rehearsal

PARAMS = load(GuardParams, find("guards", "default"))
KEEP_OUT_M = 0.5  # docs/guard.md: radius 0.4 m and uncertainty 0.1 m
TICK_NS = 20_000_000
#: The lidar's walls: pillars shoulder to shoulder around a room of 4 m to each side.
WALL = np.arange(-4.0, 4.01, 0.25)
ROOM = np.array(
    [(x, y, 0.15) for x in WALL for y in (-4.15, 4.15)]
    + [(x, y, 0.15) for y in WALL for x in (-4.15, 4.15)]
)


@dataclass
class TurnedMass(PointMass):
    """It flies commands in a frame that is turned to the left about up, or in one that is y up."""

    angle_rad: float = 0.0
    gust_mps: float = 0.0

    def command(self, now_ns, v_W):
        x, y, z = v_W
        cos, sin = math.cos(self.angle_rad), math.sin(self.angle_rad)
        super().command(now_ns, np.array((cos * x - sin * y, sin * x + cos * y, z)))


def mass(**given) -> TurnedMass:
    vehicle = PARAMS.vehicle
    return TurnedMass(
        np.array((0.0, 0.0, 1.5)), brake_mps2=vehicle.brake_mps2,
        answer_s=0.6 * vehicle.latency_s, pose_s=0.4 * vehicle.latency_s, **given,
    )  # fmt: skip


def errors(flight: Flight) -> list[str]:
    return [e.words for output in flight.outputs for e in output.events if e.level == 2]


@pytest.mark.parametrize(
    ("angle_deg", "speed_mps"), [(45, 0.5), (45, 4.0), (-90, 1.0), (180, 0.5), (180, 4.0)]
)
def test_a_turned_frame_of_commands_is_named_and_landed_at_any_speed(speed_mps, angle_deg):
    """A wish towards a wall 4 m away; the vehicle never comes nearer to any wall than promised."""
    vehicle = mass(angle_rad=math.radians(angle_deg))
    goal_W = np.array((3.0, 0.0))

    def wish(_t_s, one):
        """To and fro along the room by what the pose says, as a planner would."""
        nonlocal goal_W
        off = goal_W - one.p_W[:2]
        if np.linalg.norm(off) < 0.5:
            goal_W = -goal_W
        return np.array((*(speed_mps * off / np.linalg.norm(off)), 0.0))

    flight = fly(Guard(PARAMS), vehicle, wish, 25.0, ROOM)
    named = [words for words in errors(flight) if "turned from the commands" in words]
    assert f"{abs(angle_deg)} deg" in named[0].replace("179", "180") or angle_deg == 45
    assert flight.outputs[-1].land
    assert flight.least_m > KEEP_OUT_M


@pytest.mark.parametrize("speed_mps", [0.5, 4.0])
@pytest.mark.parametrize("angle_deg", [0, 10])
def test_small_angles_and_gusts_are_no_turned_frame(speed_mps, angle_deg):
    """Wishes of any direction that change each half second, and a wind that carries by 0.2 m/s."""
    random = np.random.default_rng(7)
    vehicle = mass(angle_rad=math.radians(angle_deg))
    wanted = np.zeros(3)

    def wish(t_s, one):
        nonlocal wanted
        if round(t_s * 50) % 25 == 0:
            wanted = np.append(random.normal(0.0, speed_mps, 2) - 0.3 * one.p_W[:2], 0.0)
        one.p_W = one.p_W + np.array((0.004 * math.sin(t_s), 0.004 * math.cos(0.7 * t_s), 0.0))
        return wanted

    flight = fly(Guard(PARAMS), vehicle, wish, 30.0)
    assert errors(flight) == []


def test_the_angle_is_that_of_the_rotation():
    """Random commands turned by 70 degrees about up, 0.3 s late; then about east."""
    random = np.random.default_rng(1)
    alignment = MotionAlignment(0.44, 1.0, 30.0)
    for rotation, axis in ((from_euler(0.0, 0.0, 1.2), "up"), (from_euler(1.2, 0.0, 0.0), "east")):
        alignment.forget()
        commands = np.repeat(random.normal(0.0, 1.0, (20, 3)), 5, axis=0)
        q = np.array(rotation)
        for k in range(3, len(commands)):
            pure = multiply(multiply(tuple(q), (0.0, *commands[k - 3])), tuple(q * (1, -1, -1, -1)))
            alignment.take(commands[k], np.array(pure[1:]), 0.1)
        angle_rad, about = alignment.turn
        assert (angle_rad, about) == (pytest.approx(1.2, abs=0.02), axis)


class Standing:
    """A vehicle in motion capture that hovers, beside what its autopilot estimates."""

    def __init__(self, params=PARAMS, rate_hz=50.0) -> None:
        self.guard = Guard(params)
        self.guard.expect_autopilot()
        self.now_ns, self.period_ns = 10**9, round(1e9 / rate_hz)
        self.p_W, self.own_W = np.array((0.0, 0.0, 1.5)), np.array((7.0, -3.0, 1.5))
        self.yaw_rad, self.own_yaw_rad = 0.5, 0.5
        self.own = True
        self.events: list[str] = []

    def run(self, seconds, v_W=(0.0, 0.0, 0.0), own_W=(0.0, 0.0, 0.0)):
        """Poses come, and the autopilot's odometry."""
        output = None
        for _ in range(round(seconds * 1e9 / self.period_ns)):
            self.now_ns += self.period_ns
            dt_s = self.period_ns * 1e-9
            self.p_W = self.p_W + dt_s * np.array(v_W)
            self.own_W = self.own_W + dt_s * np.array(own_W)
            now, guard = self.now_ns, self.guard
            if self.own:
                own = from_euler(0.0, 0.0, self.own_yaw_rad)
                guard.take_autopilot(now - 3_000_000, now, tuple(self.own_W), own)
            seen = from_euler(0.0, 0.0, self.yaw_rad)
            self.refused = guard.take_pose(now, now, tuple(self.p_W), seen, v_W)
            guard.take_scan(now, now, tuple(self.p_W), np.array([(6.0, 0.0, 1.5)]))
            guard.take_wish(now, (0.0, 0.0, 0.0), 0.0)
            guard.take_dead_man(now, True)
            output = guard.step(now)
            self.events += [event.words for event in output.events]
        return output

    def enable(self):
        return self.guard.enable(self.now_ns)


def test_enable_is_refused_while_the_headings_differ():
    flight = Standing()
    flight.own_yaw_rad = 0.5 + math.pi / 4
    flight.run(1.0)
    refused = flight.enable()
    assert "heading of the pose is 29 deg, the autopilot's 74 deg" in refused
    assert "allowed: 10 deg apart" in refused
    flight.own_yaw_rad = 0.5 - 2.0 * math.pi + 0.1  # the same but for a turn and 6 degrees
    flight.run(0.1)
    assert flight.enable() is None


def test_enable_is_refused_while_the_autopilot_is_not_heard():
    flight = Standing()
    flight.own = False
    flight.run(1.0)
    assert "the autopilot's own odometry is not heard" in flight.enable()
    other = Guard(PARAMS)  # where nobody gives it, it is not asked for
    flight.guard = other
    flight.run(1.0)
    assert flight.enable() is None


def test_a_world_that_is_y_up_is_found_at_the_take_off():
    """The headings agree and the place is in the height band: only the climb tells."""
    flight = Standing()
    flight.run(3.0, v_W=(0.0, 0.5, 0.0), own_W=(0.0, 0.0, 0.5))
    flight.run(60.0)  # it hovers for a minute
    assert "90 deg about east: is the world of the pose z up" in flight.enable()
    well = Standing()
    well.run(3.0, v_W=(0.0, 0.0, 0.4), own_W=(0.0, 0.0, 0.4))
    well.run(1.0)
    assert well.enable() is None


def test_a_heading_that_the_autopilot_resets_in_flight_ends_it():
    flight = Standing()
    flight.run(1.0)
    assert flight.enable() is None
    flight.run(0.5)
    flight.own_yaw_rad += 0.6
    output = flight.run(0.4)
    assert not output.land
    output = flight.run(0.5)
    assert output.land
    assert "headings of pose and autopilot differ by more than 10 deg" in output.reason


def test_a_pose_that_turns_at_once_is_a_jump():
    """30 degrees between two poses; a flip of 6 rad/s is none."""
    flight = Standing()
    flight.run(1.0)
    assert flight.enable() is None
    flight.yaw_rad += math.radians(30.0)
    flight.run(0.3)
    assert flight.refused.startswith("heading jumped by 30 deg")  # and none was taken since
    assert "heading jumped by 30 deg within 0.020 s" in flight.events
    assert flight.run(0.5).land
    watch = PoseWatch(PARAMS)
    for k in range(50):
        q = from_euler(6.0 * 0.02 * k, 0.0, 0.0)
        assert watch.take(k * TICK_NS, k * TICK_NS, (0.0, 0.0, 1.0), q, None, True) is None


def test_a_reset_that_the_autopilot_tells_brakes_and_lands():
    flight = Standing()
    flight.run(1.0)
    flight.guard.take_reset("of before the flight")
    assert flight.enable() is None
    flight.guard.take_reset("the autopilot has reset its estimate")
    output = flight.run(0.1)
    assert output.land
    assert "the autopilot has reset its estimate" in flight.events


@pytest.mark.parametrize(("rate_hz", "refused"), [(10.0, True), (20.0, True), (30.0, False)])
def test_a_flight_needs_poses_often_enough(rate_hz, refused):
    watch = replace(PARAMS.watch, pose_stale_s=0.2, pose_lost_s=0.5)
    flight = Standing(replace(PARAMS, watch=watch), rate_hz)
    flight.run(2.0)
    words = flight.enable() or ""
    assert (f"{rate_hz:.0f} poses a second; needed: 25" in words) is refused


@pytest.mark.parametrize("name", ["turned_45", "turned_90", "turned_180"])
def test_a_rehearsal_in_a_turned_frame_ends_named_and_landed(name):
    """The true vehicle, never nearer than 0.5 m from its centre to a pillar's surface."""
    flown = Rehearsed(load_rehearsal(name)).fly()
    assert flown.landed
    assert flown.reason.startswith("landed: guard: the motion is turned from the commands by")
    assert flown.clearance_m > KEEP_OUT_M - 0.394
    assert flown.speed_mps < 3.0  # of 4 that were wished


def test_motion_capture_that_is_y_up_is_refused_or_landed():
    flown = Rehearsed(load_rehearsal("y_up")).fly()
    assert flown.reason.startswith("landed: guard: ")
    assert flown.clearance_m > KEEP_OUT_M - 0.394
    rehearsal = load_rehearsal("row")
    troubles = load_rehearsal("y_up").params.troubles
    passes = replace(rehearsal.params.passes, arrivals=0.0)
    params = replace(rehearsal.params, troubles=troubles, duration_s=5.0, passes=passes)
    flown = Rehearsed(replace(rehearsal, params=params)).fly()
    assert flown.reason.startswith("not enabled: height")
    assert "ENU, z up" in flown.reason
