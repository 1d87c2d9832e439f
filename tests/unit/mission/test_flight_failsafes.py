"""What the flight does when something is lost, wrong, too low or too late."""

import math
from dataclasses import replace

import numpy as np
import pytest
from obedient import LIMITS, MISSION, PARAMS, TICK_NS, Flight

from quadsim.base.records import MODE_DESCEND, MODE_POSITION, MODE_STOP, ODOMETRY, SETPOINT
from quadsim.mission.flight.estimate_check import ESTIMATE_RETURN_S, ESTIMATE_TIMEOUT_S
from quadsim.mission.flight.flight import ERROR, WARN, FlightManager
from quadsim.mission.items import Goto, Takeoff


def test_an_estimate_that_stays_away_ends_in_a_blind_descent_and_a_stop():
    flight = Flight()
    flight.estimate = False
    flight.run(ESTIMATE_TIMEOUT_S - 0.04)
    assert flight.manager.state == "mission"
    flight.run(0.1)
    assert flight.manager.state == "failsafe_landing"
    assert flight.setpoint.mode == MODE_DESCEND
    assert flight.setpoint.v_W[2] == -LIMITS.descent_mps
    assert flight.named("failsafe_landing") == [(ERROR, "the estimate is too old")]
    assert flight.manager.status()["reason"] == "the estimate is too old"
    flight.until("stopped")
    assert flight.p[2] == 0.0
    assert flight.setpoint.mode == MODE_STOP
    assert flight.manager.finished


def test_no_odometry_object_at_all_is_a_lost_estimate_too():
    flight = Flight()
    for _ in range(40):
        flight.stamp_ns += TICK_NS
        flight.manager.step(flight.stamp_ns, None, flight.setpoints, 9.8)
    assert flight.manager.state == "failsafe_landing"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("v_variance", 1.1 * LIMITS.velocity_sigma_mps**2, "the velocity has diverged"),
        ("attitude_variance", 1.1 * LIMITS.attitude_sigma_rad**2, "the attitude has diverged"),
    ],
)
def test_an_estimate_that_calls_itself_bad_is_not_flown_on(field, value, message):
    flight = Flight()

    def spoil(odometry):
        odometry[field][1] = value

    flight.spoil = spoil
    flight.run(0.02)
    assert flight.manager.state == "failsafe_landing"
    assert flight.setpoint.mode == MODE_DESCEND
    assert flight.named("failsafe_landing") == [(ERROR, message)]


def test_a_position_that_calls_itself_bad_is_not_held_but_its_velocity_is():
    flight = Flight().run(1.0)

    def spoil(odometry):
        odometry.p_variance[:2] = 1.1 * LIMITS.position_sigma_m**2

    flight.spoil = spoil
    flight.run(1.0)
    assert flight.named("failsafe_landing") == [(ERROR, "the position has diverged")]
    assert flight.setpoint.mode == MODE_POSITION
    np.testing.assert_array_equal(flight.setpoint.v_W[:2], 0.0)
    assert flight.setpoint.v_W[2] == pytest.approx(-LIMITS.descent_mps)
    flight.p[:2] += (5.0, -1.0)  # an estimate that drifts is not flown after
    flight.tick()
    flight.p[:2] += (0.3, -0.1)
    flight.tick()
    np.testing.assert_allclose(flight.setpoint.p_W[:2], flight.odometry.p_W[:2], atol=1e-9)
    flight.until("disarmed")
    assert flight.p[2] == 0.0


def test_an_estimate_that_jumps_is_not_flown_on():
    flight = Flight()

    def spoil(odometry):
        odometry.p_W[0] += LIMITS.jump_m + 0.5

    flight.spoil = spoil
    flight.run(0.02)
    assert flight.named("failsafe_landing") == [(ERROR, "the position has jumped")]


def test_a_step_of_the_estimate_that_motion_and_correction_explain_is_flown_on():
    flight = Flight()
    flight.estimate = False
    flight.run(0.4)
    flight.estimate = True
    flight.p[0] += 2.0
    flight.run(0.1)
    assert flight.manager.state == "mission"


def test_fast_flight_through_a_gap_of_the_estimate_is_no_jump():
    flight = Flight()
    for speed in np.arange(0.0, 10.5, 0.5):  # 25 m/s^2
        flight.p[0] += 0.02 * speed
        flight.v = np.array([speed, 0.0, 0.0])
        flight.tick()
    flight.v = np.array([10.0, 0.0, 0.0])
    flight.tick()
    flight.estimate = False
    flight.run(0.4)
    flight.estimate = True
    flight.p[0] += 10.0 * 0.4  # more than jump_m, as the velocity says
    flight.v = np.array([10.0, 0.0, 0.0])
    flight.tick()
    assert flight.manager.state == "mission"


@pytest.mark.parametrize("field", ["p_W", "v_W", "q_WB", "w_B", "p_variance"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_estimate_with_a_nan_was_not_received(field, bad):
    flight = Flight()

    def spoil(odometry):
        odometry[field][2] = bad

    flight.spoil = spoil
    flight.run(0.4)
    assert flight.manager.state == "mission"
    flight.run(0.2)
    assert flight.named("failsafe_landing") == [(ERROR, "the estimate is too old")]


def test_an_estimate_that_comes_back_lands_under_position_control():
    flight = Flight()
    flight.estimate = False
    flight.run(0.8)
    flight.estimate = True
    flight.run(ESTIMATE_RETURN_S - 0.1)
    assert flight.setpoint.mode == MODE_DESCEND
    flight.run(0.2)
    assert flight.manager.state == "failsafe_landing"
    assert flight.setpoint.mode == MODE_POSITION
    assert [level for level, _ in flight.named("estimate is back")] == [WARN]
    flight.until("disarmed")
    assert flight.manager.finished
    assert flight.manager.status()["reason"] == "the estimate is too old"
    assert flight.p[2] == 0.0


def test_velocity_commands_that_stay_away_end_in_a_hover_and_then_a_landing():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    flight.manager.command_velocity((2.0, 0.0, 0.0), 0.0)
    flight.run(LIMITS.command_timeout_s - 0.04)
    assert flight.manager.state == "velocity"
    flight.run(0.1)
    assert flight.manager.state == "hover"
    assert flight.named("hover")[-1][0] == WARN
    flight.run(LIMITS.command_land_s - 0.2)
    assert flight.manager.state == "hover"
    np.testing.assert_array_equal(flight.setpoint.v_W, 0.0)
    flight.until("landing", most_s=0.5)
    flight.until("disarmed")


def test_a_new_velocity_command_calls_the_landing_off():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    flight.manager.command_velocity((1.0, 0.0, 0.0), 0.0)
    flight.run(1.0)
    assert flight.manager.state == "hover"
    assert flight.manager.command_velocity((0.0, 0.0, 0.0), 0.0) is None
    flight.run(0.02)
    flight.manager.pause()
    flight.run(LIMITS.command_land_s + 1.0)
    assert flight.manager.state == "hover"


def test_too_low_en_route_climbs_back_and_goes_on():
    flight = Flight()
    flight.run(2.0)
    flight.p[2] = 0.2  # a gust presses it down
    flight.tick()
    assert flight.manager.state == "recovery"
    assert flight.named("recovery") == [(WARN, "too low, 0.20 m")]
    flight.until("mission", most_s=6.0)
    assert flight.p[2] > 1.4  # back where the reference was
    flight.until("hover")
    np.testing.assert_allclose(flight.p, [30.0, 0.0, 2.0], atol=1e-9)


def test_diving_again_and_again_lands():
    flight = Flight(items=(Takeoff(height_m=2.0),))
    for _ in range(4):
        flight.until("hover")
        for _ in range(150):
            if flight.manager.state not in ("hover", "velocity"):
                break
            flight.manager.command_velocity((0.0, 0.0, -1.0), 0.0)
            flight.tick()
    flight.until("failsafe_landing")
    assert flight.named("failsafe_landing") == [(ERROR, "too low, again and again")]
    flight.until("disarmed")


def test_a_recovery_that_does_not_climb_lands():
    flight = Flight()
    flight.run(1.0)
    for _ in range(1000):
        flight.p[2] = 0.2
        flight.tick()
        if flight.manager.state == "failsafe_landing":
            break
    assert flight.named("failsafe_landing") == [(ERROR, "too low, and no recovery")]


def test_a_take_off_that_does_not_rise_is_given_up():
    manager = FlightManager(PARAMS, MISSION)
    setpoints, odometries = np.zeros(1, SETPOINT), np.zeros(1, ODOMETRY)
    odometry = odometries[0]
    odometry.q_WB[0] = 1.0
    events = []
    for k in range(1000):
        odometry.stamp_ns = k * TICK_NS
        manager.step(k * TICK_NS, odometries, setpoints, 5.0)
        if k == 0:
            manager.arm()
            manager.start()
        events += [(level, message) for _, level, _, message in manager.take_events()]
    assert (ERROR, "take-off failed, 2.00 m short") in events
    assert manager.state == "disarmed"


def test_a_take_off_that_overshoots_says_so():
    manager = FlightManager(PARAMS, MISSION)
    setpoints, odometries = np.zeros(1, SETPOINT), np.zeros(1, ODOMETRY)
    odometry, events = odometries[0], []
    odometry.q_WB[0] = 1.0
    for k in range(1000):
        odometry.stamp_ns = k * TICK_NS
        rising = 100 < k <= 250
        odometry.p_W[2] += 0.04 * rising
        odometry.v_W[2] = 2.0 * rising
        manager.step(k * TICK_NS, odometries, setpoints, 5.0)
        if k == 0:
            manager.arm()
            manager.start()
        events += [(level, message) for _, level, _, message in manager.take_events()]
    words = [message for _, message in events if "take-off failed" in message]
    assert words == ["take-off failed, it overshot by 4.00 m; its gains may not suit it (tune)"]


def test_a_waypoint_that_is_not_reached_is_told_and_left():
    params = replace(PARAMS, arrival_timeout_s=1.0)
    flight = Flight(params, (Takeoff(height_m=2.0), Goto(position_W_m=(1.0, 0.0, 2.0))))
    for _ in range(300):
        flight.p[0] = 0.0  # held by something
        flight.tick()
    assert flight.named("not reached") == [(WARN, "item 1, 1.00 m short")]
    assert flight.manager.state == "hover"


def test_a_mission_that_takes_too_long_ends_in_a_landing():
    params = replace(PARAMS, failsafe=replace(LIMITS, mission_timeout_s=5.0))
    flight = Flight(params).until("failsafe_landing", most_s=10.0)
    assert flight.named("failsafe_landing") == [(ERROR, "the mission takes too long")]
    assert flight.setpoint.mode == MODE_POSITION
    flight.until("disarmed")
    assert flight.p[0] < 30.0


def test_a_lost_motor_lands_here_and_gives_the_mission_up():
    flight = Flight().run(1.0)
    away_m = flight.p[0]
    flight.manager.motor_lost(2)
    flight.run(0.02)
    assert flight.manager.state == "failsafe_landing"
    assert flight.named("failsafe_landing") == [(ERROR, "motor 2 is lost")]
    assert flight.setpoint.mode == MODE_POSITION
    assert flight.manager.start() == "not while failsafe_landing"
    flight.manager.motor_lost(0)  # a second one changes nothing but the record
    flight.until("disarmed")
    assert flight.named("motor lost") == [(ERROR, "motor 0 is lost")]
    assert flight.p[0] - away_m < 5.0  # it braked
    assert flight.p[2] == 0.0
    assert flight.manager.status()["reason"] == "motor 2 is lost"


def test_a_motor_lost_on_the_ground_disarms():
    manager = FlightManager(PARAMS, MISSION)
    setpoints, odometries = np.zeros(1, SETPOINT), np.zeros(1, ODOMETRY)
    setpoint, odometry = setpoints[0], odometries[0]
    odometry.q_WB[0], odometry.stamp_ns = 1.0, TICK_NS
    manager.motor_lost(0)  # of a vehicle that stands disarmed: nothing
    manager.step(TICK_NS, odometries, setpoints)
    assert manager.arm() is None
    manager.motor_lost(1)
    manager.step(2 * TICK_NS, odometries, setpoints)
    assert manager.state == "disarmed"
    assert setpoint.mode == MODE_STOP
    assert [event[2:] for event in manager.take_events()][-1] == ("disarmed", "motor 1 is lost")


def test_failsafes_hold_in_every_state_of_the_flight():
    for prepare in ("pause", "land"):
        flight = Flight()
        flight.run(0.5)
        getattr(flight.manager, prepare)()
        flight.run(0.1)
        flight.estimate = False
        flight.until("failsafe_landing", most_s=1.0)
