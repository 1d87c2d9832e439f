"""The flight state machine with a vehicle that does what it is told."""

import math

import numpy as np
import pytest
from obedient import TICK_NS, Rig

from quadsim.base.records import (
    MODE_ATTITUDE,
    MODE_IDLE,
    MODE_POSITION,
    MODE_STOP,
    MODE_VELOCITY,
    SETPOINT,
)
from quadsim.control.parameters import FlightParams
from quadsim.geometry.rotation import from_euler
from quadsim.mission.flight.flight import ERROR, STATES, WARN, FlightManager
from quadsim.mission.flight.states import SPOOL_UP_S
from quadsim.mission.items import Follow, Goto, Hover, Land, Takeoff

PARAMS = FlightParams()
SQUARE = (
    Takeoff(height_m=1.5),
    Goto(position_W_m=(4.0, 0.0, 1.5), yaw_deg=90.0),
    Hover(duration_s=1.0),
    Land(),
)


class Flight(Rig):
    """A vehicle that follows at once, and a ground at z = 0.2 in the estimate."""

    GROUND = 0.2

    def __init__(self, items=SQUARE, params=PARAMS):
        super().__init__(items, params)
        self.odometry.p_W[2] = self.GROUND
        self.odometry.v_variance[:] = 0.01
        self.thrust, self.track = 0.0, []

    def move(self):
        setpoint, odometry = self.setpoint, self.odometry
        self.track.append((self.state, setpoint.copy()))
        self.thrust = {MODE_STOP: 0.0, MODE_IDLE: 1e-3}.get(int(setpoint.mode), 9.8)
        self.follow()
        if setpoint.mode == MODE_VELOCITY:
            odometry.v_W[:] = setpoint.v_W
            odometry.p_W += 0.02 * setpoint.v_W
        elif setpoint.mode == MODE_ATTITUDE:  # level, on the ground
            self.thrust = float(setpoint.thrust)
        if odometry.p_W[2] < self.GROUND:  # the ground carries the vehicle
            odometry.p_W[2], odometry.v_W[:], self.thrust = self.GROUND, 0.0, 5.0


def test_a_mission_is_flown_from_standing_to_standing():
    flight = Flight().take_off().until("disarmed")
    assert flight.manager.finished
    assert flight.names() == [
        "armed", "takeoff", "mission", "mission", "landing", "landed", "disarmed",
    ]  # fmt: skip
    assert set(flight.names()) <= set(STATES)
    assert all(level == 0 for _, level, _, _ in flight.events)
    assert flight.setpoint.mode == MODE_STOP
    np.testing.assert_allclose(flight.odometry.p_W, [4.0, 0.0, flight.GROUND], atol=1e-9)


def test_the_reference_never_jumps_and_keeps_its_limits():
    flight = Flight().take_off().until("disarmed")
    flown = [setpoint for state, setpoint in flight.track if setpoint.mode == MODE_POSITION]
    p, v, a = (np.array([setpoint[name] for setpoint in flown]) for name in ("p_W", "v_W", "a_W"))
    assert np.linalg.norm(np.diff(p, axis=0), axis=1).max() < 0.02 * PARAMS.speed_mps * 1.001
    assert np.linalg.norm(v, axis=1).max() <= PARAMS.speed_mps * 1.001
    assert np.linalg.norm(a, axis=1).max() <= PARAMS.acceleration_mps2 * 1.001
    assert v[:, 2].max() <= PARAMS.ascent_mps * 1.001


def test_the_references_velocity_is_the_derivative_of_its_position():
    flight = Flight().take_off().until("landed")
    flown = [s for state, s in flight.track if s.mode == MODE_POSITION and s.p_W[2] > 0.25]
    p, v = (np.array([setpoint[name] for setpoint in flown]) for name in ("p_W", "v_W"))
    # the mean of two velocities over a tick: error dt^2/12 times the jerk, below 12 m/s^3 on a leg,
    # and dt/4 times the step of the acceleration, 1.2 m/s^2, where the descent begins and settles
    np.testing.assert_allclose(np.diff(p, axis=0) / 0.02, 0.5 * (v[1:] + v[:-1]), atol=7e-3)


def test_legs_climb_and_sink_at_their_own_limits():
    flight = Flight((Takeoff(),)).take_off()
    for height_m, limit in ((20.0, PARAMS.ascent_mps), (2.0, -PARAMS.descent_mps)):
        flight.manager.command_pose((0.0, 0.0, height_m), 0.0)
        begun = len(flight.track)
        flight.run(45.0)
        fastest = max((s.v_W[2] for _, s in flight.track[begun:]), key=abs)
        assert fastest == pytest.approx(limit, rel=1e-3)


def test_land_on_the_ground_stops_the_motors():
    flight = Flight((Takeoff(),))
    flight.tick()
    assert flight.manager.arm() is None
    assert flight.state == "armed"
    assert flight.manager.land() is None
    assert flight.state == "disarmed"
    assert flight.manager.land() == "not while disarmed"


def test_low_thrust_in_a_fast_descent_is_no_touch_down():
    flight = Flight((Takeoff(height_m=10.0),)).take_off()
    flight.manager.land()
    flight.run(1.0)  # to its speed
    for _ in range(200):
        flight.thrust = 5.0
        flight.tick()
    assert flight.state == "landing"


def test_take_off_waits_for_the_rotors_and_climbs_straight_up_from_the_estimate():
    flight = Flight()
    flight.odometry.p_W[:2] = (3.0, -2.0)
    flight.odometry.q_WB[:] = from_euler(0.0, 0.0, 1.0)
    flight.tick()
    flight.manager.arm()
    flight.tick()
    assert (flight.state, flight.setpoint.mode) == ("armed", MODE_IDLE)
    flight.manager.start()
    flight.until("takeoff")
    assert (flight.stamp_ns - TICK_NS) * 1e-9 >= SPOOL_UP_S
    flight.until("mission")
    climb = [setpoint for state, setpoint in flight.track if state == "takeoff"]
    np.testing.assert_allclose([s.p_W[:2] for s in climb], [[3.0, -2.0]] * len(climb), atol=1e-9)
    np.testing.assert_allclose([s.yaw for s in climb], 1.0, atol=1e-9)
    assert flight.odometry.p_W[2] == pytest.approx(flight.GROUND + 1.5, abs=1e-3)


def test_start_before_arming_and_arming_twice_are_refused():
    flight = Flight()
    flight.tick()
    assert "arm first" in flight.manager.start()
    assert flight.manager.arm() is None
    assert flight.manager.arm() == "armed already"
    assert FlightManager(PARAMS, ()).start() == "there is no mission"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("p_variance", (16.0, 0.1, 0.1), "position uncertain: 4 m, at most 3"),
        ("p_variance", (0.1, 0.1, 36.0), "height uncertain"),
        ("v_variance", (0.0, 1.0, 0.0), "velocity uncertain"),
        ("attitude_variance", (0.04, 0.0, 0.0), "tilt uncertain"),
        ("attitude_variance", (0.0, 0.0, 0.2), "yaw uncertain"),
        ("q_WB", from_euler(0.2, 0.0, 1.0), "not level: 0.2 rad"),
        ("v_W", (0.0, 0.0, -1.0), "in motion: 1 m/s"),
    ],
)
def test_arming_is_refused_with_its_reason(field, value, words):
    flight = Flight()
    flight.odometry[field][:] = value
    flight.tick()
    assert words in flight.manager.arm()
    assert words in flight.manager.arm()
    flight.tick()
    assert flight.state == "disarmed"
    assert [(level, name) for _, level, name, _ in flight.events] == [(WARN, "arming refused")]


def test_arming_needs_an_estimate_and_a_fresh_one():
    manager, setpoints = FlightManager(PARAMS, SQUARE), np.zeros(1, SETPOINT)
    manager.step(TICK_NS, None, setpoints)
    assert manager.arm() == "there is no estimate"
    assert setpoints[0].mode == MODE_STOP
    flight = Flight()
    flight.tick()
    flight.estimate = False
    flight.run(0.6)
    assert flight.manager.arm() == "the estimate is too old"


def test_an_estimate_lost_before_take_off_disarms():
    flight = Flight()
    flight.tick()
    flight.manager.arm()
    flight.estimate = False
    flight.run(0.6)
    assert flight.state == "disarmed"
    assert flight.setpoint.mode == MODE_STOP


def test_disarming_in_the_air_needs_force():
    flight = Flight().take_off()
    assert "in the air" in flight.manager.disarm()
    assert flight.manager.disarm(force=True) is None
    flight.tick()
    assert (flight.state, flight.setpoint.mode) == ("stopped", MODE_STOP)
    assert flight.manager.finished
    assert ERROR in [level for _, level, _, _ in flight.events]


def test_disarming_on_the_ground_stops_the_motors():
    flight = Flight()
    flight.tick()
    flight.manager.arm()
    assert flight.manager.disarm() is None
    flight.tick()
    assert (flight.state, flight.setpoint.mode) == ("disarmed", MODE_STOP)


def test_pause_brakes_and_hovers_and_start_goes_on_to_the_same_goal():
    flight = Flight().take_off().run(1.2)
    assert flight.odometry.v_W[0] > 1.0
    assert flight.manager.pause() is None
    flight.tick()
    assert flight.state == "hover"
    flight.run(3.0)
    held = flight.odometry.p_W.copy()
    assert np.linalg.norm(flight.odometry.v_W) == 0.0
    assert 0.0 < held[0] < 4.0
    flight.run(1.0)
    np.testing.assert_array_equal(flight.odometry.p_W, held)
    assert flight.manager.start() is None
    flight.until("disarmed")
    assert flight.odometry.p_W[0] == pytest.approx(4.0)
    p = np.array([s.p_W for _, s in flight.track if s.mode == MODE_POSITION])
    assert np.linalg.norm(np.diff(p, axis=0), axis=1).max() < 0.02 * PARAMS.speed_mps * 1.001


def test_timed_points_go_on_from_where_they_were_paused():
    points = Follow(points=((0.0, 0.0, 0.0, 1.7, 0.0), (4.0, 4.0, 0.0, 1.7, 0.0)))
    flight = Flight((Takeoff(), points)).take_off().run(1.0)
    reached = flight.setpoint.p_W[0]
    flight.manager.pause()
    flight.run(2.0)
    assert flight.setpoint.p_W[0] == pytest.approx(reached, abs=0.03)
    flight.manager.start()
    flight.run(1.0)
    assert flight.setpoint.p_W[0] == pytest.approx(reached + 1.0, abs=0.05)
    np.testing.assert_array_equal(flight.setpoint.v_W, 0.0)
    flight.until("hover")


def test_land_and_abort_stop_and_come_down_here():
    for request in ("land", "abort"):
        flight = Flight().take_off().run(1.0)
        assert getattr(flight.manager, request)() is None
        assert "not while" in flight.manager.pause()
        flight.until("disarmed")
        assert 0.3 < flight.odometry.p_W[0] < 3.5
        assert ("aborted" in flight.names()) == (request == "abort")
        assert "not while disarmed" in getattr(flight.manager, request)()


def test_without_a_landing_the_mission_ends_in_a_hover():
    flight = Flight((Takeoff(), Hover(duration_s=0.5))).take_off().until("hover")
    assert not flight.manager.finished
    assert flight.manager.start() == "the mission is over"
    flight.run(2.0)
    assert flight.state == "hover"


def test_a_commanded_pose_is_flown_to_and_the_mission_can_go_on():
    flight = Flight().take_off().run(0.5)
    assert flight.manager.command_pose((1.0, 1.0, 2.5), -1.0) is None
    flight.run(6.0)
    assert flight.state == "guided"
    np.testing.assert_allclose(flight.odometry.p_W, [1.0, 1.0, 2.5], atol=1e-9)
    assert flight.setpoint.yaw == pytest.approx(-1.0)
    assert flight.manager.start() is None
    flight.until("disarmed")
    np.testing.assert_allclose(flight.odometry.p_W[:2], [4.0, 0.0], atol=1e-9)


def test_a_commanded_velocity_is_taken_up_within_the_acceleration():
    flight = Flight((Takeoff(),)).take_off()
    assert flight.manager.command_velocity((2.0, 0.0, 0.0), 0.5) is None
    flight.tick()
    assert flight.setpoint.mode == MODE_VELOCITY
    speeds = [float(flight.setpoint.v_W[0])]
    for _ in range(40):
        assert flight.manager.command_velocity((2.0, 0.0, 0.0), 0.5) is None
        flight.tick()
        speeds.append(float(flight.setpoint.v_W[0]))
    assert np.diff(speeds).max() == pytest.approx(0.02 * PARAMS.acceleration_mps2)
    assert speeds[-1] == 2.0
    assert flight.setpoint.yaw_rate == 0.5
    assert not flight.manager.has_reference


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_commands_with_a_number_missing_are_refused(bad):
    flight = Flight().take_off()
    assert "not finite" in flight.manager.command_pose((0.0, bad, 1.0), 0.0)
    assert "not finite" in flight.manager.command_velocity((0.0, 0.0, 1.0), bad)
    flight.tick()
    assert flight.state == "mission"
    assert flight.names().count("command refused") == 2


def test_commands_on_the_ground_are_refused():
    flight = Flight()
    flight.tick()
    assert "not while disarmed" in flight.manager.command_pose((0.0, 0.0, 1.0), 0.0)
    assert "not while disarmed" in flight.manager.command_velocity((0.0, 0.0, 1.0), 0.0)


def test_a_second_flight_can_follow_the_first():
    flight = Flight().take_off().until("disarmed")
    flight.take_off().until("disarmed")
    assert flight.names().count("takeoff") == 2


def test_status_tells_state_item_and_reason():
    flight = Flight().take_off()
    status = flight.manager.status()
    assert status["state"] == "mission"
    assert (status["item"], status["item_name"], status["items"]) == ("1", "goto", "4")
    assert (status["armed"], status["reason"]) == ("true", "")
    assert all(isinstance(value, str) for value in status.values())
