"""Trajectories flown: by the flight manager with a vehicle that obeys, and in the closed loop."""

import math
from dataclasses import replace

import numpy as np
import pytest
from geometry_msgs.msg import Transform, Twist
from obedient import Rig
from trajectory_msgs.msg import MultiDOFJointTrajectory, MultiDOFJointTrajectoryPoint

from quadsim.analysis.metrics import at_stamps, tracking_rmse_m
from quadsim.base.records import MODE_POSITION
from quadsim.control.parameters import FlightParams
from quadsim.mission.flight.flight import WARN, FlightManager
from quadsim.mission.items import Takeoff, corners
from quadsim.mission.trajectories.items import Circle, FigureOfEight
from quadsim.mission.trajectories.timed import TrajectoryPoint
from quadsim.ros.messages.cdr import MessageError
from quadsim.ros.messages.missions import read_trajectory_command
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import load_scenario

TICK_S = 0.02
PARAMS = FlightParams()
EIGHT = FigureOfEight(
    center_W_m=(1.0, 2.0, 3.0), half_length_m=2.0, half_width_m=1.0, yaw="along", heading_deg=90.0
)


class Flight(Rig):
    """A manager in the air, with a vehicle that is where the reference is."""

    def __init__(self, *items):
        super().__init__((Takeoff(height_m=2.0), *items))
        self.track = []
        self.take_off("takeoff")

    def move(self):
        self.follow()
        if self.setpoint.mode == MODE_POSITION:
            self.track.append(self.setpoint.copy())

    def hovering(self):
        return self.until("hover", most_s=100.0)

    def smooth(self, acceleration):
        """That the reference moves as it says, within an acceleration."""
        p, v, a = (np.array([each[name] for each in self.track]) for name in ("p_W", "v_W", "a_W"))
        # a step of the trapezoid rule is off by the jerk's tick cubed over 12: 50 m/s^3 is 3e-5 m
        moved = 0.5 * TICK_S * (v[1:] + v[:-1])
        np.testing.assert_allclose(np.diff(p, axis=0), moved, atol=4e-4)
        assert np.linalg.norm(a, axis=1).max() < acceleration
        yaw = np.unwrap([float(each["yaw"]) for each in self.track])
        rate = np.array([float(each["yaw_rate"]) for each in self.track])
        np.testing.assert_allclose(np.diff(yaw), 0.5 * TICK_S * (rate[1:] + rate[:-1]), atol=4e-4)


def test_an_item_is_entered_flown_and_left_without_a_jump():
    flight = Flight(EIGHT).hovering()
    flight.smooth(1.05 * PARAMS.acceleration_mps2)
    p = np.array([each["p_W"] for each in flight.track])
    for tip in ((1.0, 4.0, 3.0), (1.0, 0.0, 3.0)):
        assert np.linalg.norm(p - tip, axis=1).min() < 0.05
    np.testing.assert_allclose(p[-1], EIGHT.center_W_m, atol=1e-9)


def test_a_pause_in_the_middle_brakes_and_the_rest_is_flown():
    flight = Flight(EIGHT)
    flight.until("mission")
    flight.run(4.0)
    assert flight.manager.pause() is None
    left = len(flight.track)
    flight.run(3.0)
    assert np.linalg.norm(flight.setpoint.v_W) == 0.0
    assert flight.manager.start() is None
    flight.until("hover", most_s=100.0)
    # the leg back to where it was left is short and slow
    flight.smooth(1.15 * PARAMS.acceleration_mps2)
    p = np.array([each["p_W"] for each in flight.track])
    for path in (p[:left], p[left:]):  # one tip before the pause, the other after it
        assert np.linalg.norm(path - EIGHT.center_W_m, axis=1).max() > 1.95
    np.testing.assert_allclose(p[-1], EIGHT.center_W_m, atol=1e-9)


def test_the_map_shows_the_whole_way():
    points = np.array(corners((Takeoff(), EIGHT))) - EIGHT.center_W_m
    x, y = points[:, 1] / 2.0, -points[:, 0] / 1.0
    np.testing.assert_allclose(y**2, 4 * x**2 * (1 - x**2), atol=1e-12)
    assert len(points) > 40


# ---- commanded trajectories --------------------------------------------------------------------


def way(p_W, v_mps=1.0, seconds=4.0, count=9):
    """Points on a straight line north, at a steady speed, with all derivatives."""
    times = np.linspace(0.0, seconds, count)
    return [
        TrajectoryPoint(
            float(t), (p_W[0], p_W[1] + v_mps * float(t), p_W[2]), 0.5,
            (0.0, v_mps, 0.0), (0.0, 0.0, 0.0), 0.0,
        )
        for t in times
    ]  # fmt: skip


def test_a_commanded_trajectory_is_joined_flown_and_braked_at_its_end():
    flight = Flight().hovering()
    begin = tuple(map(float, flight.setpoint.p_W))
    flight.track.clear()
    assert flight.manager.command_trajectory(way(begin)) is None
    assert flight.manager.state == "guided"
    flight.run(3.0)  # what was apart at the start has gone: from rest to 1 m/s
    assert flight.setpoint.p_W[1] == pytest.approx(begin[1] + 3.0, abs=0.03)
    assert flight.setpoint.v_W[1] == pytest.approx(1.0, abs=1e-6)
    assert flight.setpoint.yaw == pytest.approx(0.5, abs=1e-6)
    flight.run(4.0)
    assert np.linalg.norm(flight.setpoint.v_W) == 0.0
    # 15/8 of the speed over the acceleration is the time of braking, and half of it the way
    assert flight.setpoint.p_W[1] == pytest.approx(begin[1] + 4.0 + 15 / 64, abs=0.03)
    flight.smooth(PARAMS.acceleration_mps2)


def test_a_trajectory_replaces_one_that_is_being_flown():
    flight = Flight().hovering()
    begin = tuple(map(float, flight.setpoint.p_W))
    assert flight.manager.command_trajectory(way(begin)) is None
    flight.run(2.0)
    flight.track.clear()
    now = tuple(map(float, flight.setpoint.p_W))
    assert flight.manager.command_trajectory(way(now, v_mps=1.3), flight.stamp_ns) is None
    flight.run(3.0)
    flight.smooth(PARAMS.acceleration_mps2)
    assert flight.setpoint.v_W[1] == pytest.approx(1.3, abs=1e-6)


def test_a_late_trajectory_is_entered_where_it_would_be_by_now():
    flight = Flight().hovering()
    begin = tuple(map(float, flight.setpoint.p_W))
    begun_ns = flight.stamp_ns - 300_000_000
    assert flight.manager.command_trajectory(way(begin), begun_ns) is None
    flight.run(2.5)
    assert flight.setpoint.p_W[1] == pytest.approx(begin[1] + 2.8, abs=0.03)


@pytest.mark.parametrize(
    ("change", "delay_s", "said"),
    [
        (lambda p: [p[0], p[1]._replace(p_W=(math.nan, 0.0, 2.0)), *p[2:]], 0.0, "not finite"),
        (lambda p: [p[0], p[1]._replace(a_W=(0.0, math.inf, 0.0)), *p[2:]], 0.0, "not finite"),
        (lambda p: [p[0], p[2], p[1]], 0.0, "is not after"),
        (lambda p: p[:1], 0.0, "at least two"),
        (lambda p: [p[0], p[1]._replace(v_W=None, a_W=None), *p[2:]], 0.0, "every point"),
        (lambda p: p, 0.6, "0.60 s old"),
        (lambda p: p, -0.6, "0.60 s ahead of the clock"),
        (lambda p: [point._replace(p_W=(3.0, *point.p_W[1:])) for point in p], 0.0,
         "begins 3.00 m from the vehicle"),
        (lambda p: [*p[:4], p[4]._replace(p_W=(40.0, 0.0, 2.0)), *p[5:]], 0.0, "horizontal speed"),
        (lambda p: [point._replace(v_W=(0.0, 9.0, 0.0)) for point in p], 0.0, "horizontal speed"),
        (lambda p: [point._replace(p_W=(0.0, 0.0, 2.0 - 0.45 * point.t_s), v_W=(0.0, 0.0, -0.45))
                    for point in p], 0.0, ">= 0.3, the ground"),
    ],
)  # fmt: skip
def test_what_cannot_be_flown_is_refused_and_the_flight_goes_on(change, delay_s, said):
    flight = Flight().hovering()
    points = change(way(tuple(map(float, flight.setpoint.p_W))))
    refused = flight.manager.command_trajectory(points, flight.stamp_ns - round(delay_s * 1e9))
    assert said in refused
    flight.run(1.0)
    assert flight.manager.state == "hover"
    assert np.isfinite(flight.setpoint.p_W).all()
    assert [level for _, level, name, _ in flight.events if "refused" in name] == [WARN]


def test_on_the_ground_no_trajectory_is_flown():
    manager = FlightManager(PARAMS, ())
    assert manager.command_trajectory(way((0.0, 0.0, 2.0))) == "not while disarmed"


def message(count=2):
    found = MultiDOFJointTrajectory()
    found.header.frame_id = "map"
    for i in range(count):
        transform = Transform()
        transform.translation.x, transform.translation.z = float(i), 2.0
        transform.rotation.w = transform.rotation.z = math.sqrt(0.5)
        point = MultiDOFJointTrajectoryPoint(transforms=[transform])
        point.time_from_start.sec, point.time_from_start.nanosec = i, 500_000_000
        found.points.append(point)
    return found


def test_a_message_is_read_with_what_it_has():
    points, begin_ns = read_trajectory_command(message())
    assert begin_ns is None
    assert points[1] == TrajectoryPoint(1.5, (1.0, 0.0, 2.0), pytest.approx(math.pi / 2))
    full = message()
    full.header.stamp.sec = 7
    for point in full.points:
        twist = Twist()
        twist.linear.y, twist.angular.z = 3.0, 0.25
        point.velocities = [twist]
        point.accelerations = [twist]
    points, begin_ns = read_trajectory_command(full)
    assert begin_ns == 7_000_000_000
    assert points[0].v_W == points[0].a_W == (0.0, 3.0, 0.0)
    assert points[0].yaw_rate == 0.25


def test_a_message_that_is_none_is_refused_at_the_border():
    wrong = message()
    wrong.header.frame_id = "odom"
    with pytest.raises(MessageError, match="'odom'; give map"):
        read_trajectory_command(wrong)
    wrong = message()
    wrong.points[1].transforms = []
    with pytest.raises(MessageError, match=r"points\[1\]: no transform"):
        read_trajectory_command(wrong)
    wrong = message()
    wrong.points[1].transforms[0].rotation.w = math.nan
    with pytest.raises(MessageError):
        read_trajectory_command(wrong)


# ---- in the closed loop ------------------------------------------------------------------------


def test_a_nose_along_the_way_does_not_disturb_the_tracking():
    scenario = load_scenario("figure_of_eight_fcnd")
    circle = Circle(center_W_m=(0.0, 0.0, 2.0), radius_m=2.0, turns=3.0, speed_mps=3.0, yaw="along")
    log, _ = run(replace(scenario, items=(Takeoff(height_m=2.0), circle)), use_truth=True)
    (begin_ns,) = [event.stamp_ns for event in log.events if event.message == "item 1: circle"]
    known, wanted = at_stamps(log.reference, log.truth.stamp_ns)
    rows = wanted.stamp_ns > begin_ns
    apart = length(log.truth.p_W[known][rows] - wanted.p_W[rows])
    # it turns at 1.5 rad/s and tilts by 0.43 rad: were the tilt turned along for the lag of 0.11 s,
    # it would be 0.7 m/s^2 off, which the loops make 0.1 m
    assert np.sqrt(np.mean(apart**2)) < 0.03


def length(vectors):
    return np.linalg.norm(vectors, axis=1)


@pytest.mark.parametrize(
    ("scenario", "limit_m"), [("figure_of_eight", 0.10), ("figure_of_eight_fcnd", 0.35)]
)
def test_the_figure_of_eight_is_tracked(scenario, limit_m):
    log, _ = run(load_scenario(scenario))
    assert tracking_rmse_m(log) < limit_m
    assert not any(event.level for event in log.events)
