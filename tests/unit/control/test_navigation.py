"""The thesis's ways to navigate: the control laws, and flights of its helicopter."""

import math
from dataclasses import replace

import numpy as np
import pytest

from quadsim.base.compiled import new_record
from quadsim.base.files import find
from quadsim.base.parameters import load, pack
from quadsim.base.records import ATTITUDE_COMMAND, MODE_POSITION, ODOMETRY, SETPOINT
from quadsim.control.airframe import known_airframe, pack_airframe
from quadsim.control.navigation import cyclic
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import new_position_control, position_control
from quadsim.geometry.rotation import from_euler, quat, to_euler
from quadsim.mission.items import Takeoff
from quadsim.mission.waypoint import Waypoint
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.parameters import VehicleParams

THESIS = load(AutopilotParams, find("autopilots", "thesis"))
HELICOPTER = known_airframe(load(VehicleParams, find("vehicles", "thesis_helicopter")))
GRAVITY = THESIS.gravity_mps2
TILT = math.radians(10.0)


def autopilot(navigation):
    return replace(THESIS, position=replace(THESIS.position, navigation=navigation))


def records(goal, p=(0.0, 0.0, 0.0), v=(0.0, 0.0, 0.0), yaw=0.0, speed=0.0):
    odometry, setpoint = new_record(ODOMETRY), new_record(SETPOINT)
    odometry.p_W[:], odometry.v_W[:] = p, v
    odometry.q_WB[:] = from_euler(0.0, 0.0, yaw)
    setpoint.mode, setpoint.p_W[:], setpoint.speed_mps = MODE_POSITION, goal, speed
    return odometry, setpoint


def wanted(navigation, *args, yaw=0.0, **kwargs):
    odometry, setpoint = records(*args, yaw=yaw, **kwargs)
    return cyclic(pack(autopilot(navigation)), odometry, setpoint, yaw)


def test_acceleration_is_pd_on_the_body_axes():
    gains = THESIS.navigation
    forward, left, _, turning = wanted("acceleration", (1.0, -0.5, 0.0), v=(0.2, 0.3, 0.0))
    assert forward == pytest.approx(gains.gain_p * 1.0 - gains.gain_d * 0.2)
    assert left == pytest.approx(gains.gain_p * -0.5 - gains.gain_d * 0.3)
    assert not turning
    # nose north: east is to the right
    forward, left, _, _ = wanted("acceleration", (1.0, 0.0, 0.0), yaw=math.pi / 2)
    assert (forward, left) == pytest.approx((0.0, -gains.gain_p))


@pytest.mark.parametrize("navigation", ["acceleration", "nose_on"])
def test_turning_the_world_changes_nothing(navigation):
    goal, v = np.array([7.0, -3.0]), np.array([1.0, 2.0])
    for turn in (0.4, 2.0, -3.0):
        c, s = math.cos(turn), math.sin(turn)
        turned = np.array([[c, -s], [s, c]])
        np.testing.assert_allclose(
            wanted(navigation, (*turned @ goal, 0.0), v=(*turned @ v, 0.0), yaw=0.3 + turn),
            wanted(navigation, (*goal, 0.0), v=(*v, 0.0), yaw=0.3),
            atol=1e-12,
        )


def test_no_angle_exceeds_ten_degrees():
    for goal in ((1e3, 0.0, 0.0), (-300.0, 900.0, 0.0)):
        forward, left, _, _ = wanted("acceleration", goal, v=(-5.0, 9.0, 0.0))
        assert max(abs(forward), abs(left)) <= GRAVITY * math.tan(TILT) * (
            1.0 + 1e-7
        )  # as the file's digits


def test_far_off_the_pull_fades_at_the_speed_limit_whatever_the_direction():
    for angle in np.linspace(0.0, 6.0, 7):
        way = np.array([math.cos(angle), math.sin(angle), 0.0])
        forward, left, _, _ = wanted("acceleration", 500.0 * way, v=4.0 * way, speed=4.0)
        assert math.hypot(forward, left) == pytest.approx(0.0, abs=1e-9)


def test_nose_on_turns_first_and_pitches_then():
    _, _, yaw_rate, turning = wanted("nose_on", (0.0, 20.0, 0.0))
    assert turning
    assert yaw_rate == pytest.approx(THESIS.navigation.nose_gain * math.pi / 2)
    forward, left, _, _ = wanted("nose_on", (-20.0, 1.0, 0.0))  # behind: no pull
    assert (forward, left) == (0.0, 0.0)
    forward, left, yaw_rate, _ = wanted("nose_on", (20.0, 0.0, 0.0), v=(0.0, 1.0, 0.0))
    assert forward > 1.5
    assert left == pytest.approx(-THESIS.navigation.gain_d)  # drift alone
    assert yaw_rate == 0.0
    assert not wanted("nose_on", (0.0, 1.0, 0.0))[3]  # near: the heading is kept


def flown_as_a_point(navigation, start, seconds):
    """A point mass that accelerates as roll and pitch say, under the position loop."""
    params = autopilot(navigation)
    packed, airframe = pack(params), pack_airframe(HELICOPTER)
    state, command = new_position_control(params, airframe), new_record(ATTITUDE_COMMAND)
    p, v, dt = np.array([*start, 0.0]), np.zeros(3), 0.02
    way = []
    for _ in range(round(seconds / dt)):
        odometry, setpoint = records((0.0, 0.0, 0.0), p, v)
        position_control(state, packed, odometry, setpoint, dt, command)
        roll, pitch, _ = to_euler(quat(command.q_WB))
        assert max(abs(roll), abs(pitch)) <= TILT * math.sqrt(2.0) + 1e-6
        a = np.array([math.tan(pitch), -math.tan(roll) / math.cos(pitch), 0.0]) * GRAVITY
        p, v = p + dt * v + 0.5 * dt * dt * a, v + dt * a
        way.append(p.copy())
    return np.array(way)


def test_acceleration_is_critically_damped_near_the_target():
    way = flown_as_a_point("acceleration", (1.5, 0.0), 8.0)
    t = 0.02 * np.arange(1, len(way) + 1)
    w = math.sqrt(THESIS.navigation.gain_p)
    assert 2.0 * w == pytest.approx(THESIS.navigation.gain_d)
    # 0.02 s of hold against 1 / w = 1.7 s: a hundredth
    np.testing.assert_allclose(way[:, 0], 1.5 * (1.0 + w * t) * np.exp(-w * t), atol=0.02)


def test_velocity_falls_linearly_near_the_target_over_the_reaction_time():
    way = flown_as_a_point("velocity", (60.0, 0.0), 30.0)
    speed = -np.gradient(way[:, 0], 0.02)
    assert 0.8 * math.sqrt(60.0 * 1.5) < speed.max() <= THESIS.position.speed_max_mps
    # d'' = -3.5 (d' + d / 1 s) has its poles at -1.75 +- 0.66i: a pair of that damping passes
    # through rates from 1 / 1 s to 1.75 and a little more
    near = (way[:, 0] < 0.8) & (way[:, 0] > 0.2)
    rate = speed[near] / way[near, 0]
    assert rate.max() < 2.2
    assert rate.min() > 1.0 / THESIS.position.position_gain_xy * 0.8
    assert way[:, 0].min() > -0.01


def test_a_goals_speed_limits_the_velocity():
    params = autopilot("velocity")
    state = new_position_control(params, pack_airframe(HELICOPTER))
    command = new_record(ATTITUDE_COMMAND)
    for v_x, sign in ((1.8, 1.0), (2.2, -1.0)):
        odometry, setpoint = records((50.0, 0.0, 0.0), v=(v_x, 0.0, 0.0), speed=2.0)
        position_control(state, pack(params), odometry, setpoint, 0.02, command)
        assert math.copysign(1.0, to_euler(quat(command.q_WB))[1]) == sign


@pytest.mark.parametrize("navigation", ["nose_on", "acceleration", "velocity"])
def test_the_helicopter_flies_the_short_way_fast_and_does_not_overshoot(navigation):
    """The thesis's first scenario, 22 m: 17 m to its radius of 5 m took it 4.7 s."""
    scenario = load_scenario("square", vehicle="thesis_helicopter", autopilot="thesis")
    goal = Waypoint((22.0, 0.0, 5.0), "hover", radius_m=5.0, hold_s=12.0)
    scenario = replace(
        scenario,
        autopilot=autopilot(navigation),
        items=(Takeoff(height_m=5.0), goal),
        file=replace(scenario.file, fly_on="truth", duration_s=26.0),
    )
    log = ClosedLoop(scenario).fly()
    begin_ns = next(event.stamp_ns for event in log.events if event.name == "mission")
    t = (log.truth.stamp_ns - begin_ns) * 1e-9
    x = log.truth.p_W[:, 0]
    assert t[np.argmax(x > 17.0)] < 6.5
    assert x.max() < 22.0 * 1.02
    assert np.abs(log.truth.p_W[t > 0.0, 1]).max() < 0.2
    assert np.abs(log.truth.p_W[t > 2.0, 2] - 5.12).max() < 0.2
    assert np.linalg.norm(log.truth.p_W[-1, :2] - (22.0, 0.0)) < 0.3
