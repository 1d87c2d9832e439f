"""The position and velocity loops: directions, limits, modes, and what is never passed on."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cross_airframe import CROSS
from scipy.spatial.transform import Rotation

from quadsim.base.compiled import new_record
from quadsim.base.files import find, known
from quadsim.base.parameters import load, pack
from quadsim.base.records import (
    ATTITUDE_COMMAND,
    MODE_DESCEND,
    MODE_IDLE,
    MODE_POSITION,
    MODE_STOP,
    MODE_VELOCITY,
    ODOMETRY,
    SETPOINT,
)
from quadsim.control.airframe import pack_airframe
from quadsim.control.attitude import thrust_limits
from quadsim.control.parameters import AutopilotParams, PositionParams
from quadsim.control.position import approach_speed, new_position_control, position_control
from quadsim.geometry.rotation import from_euler, to_euler

G = 9.80665
DT = 0.02
AIRFRAME = pack_airframe(replace(CROSS, rotor_speed_max_radps=700.0))
#: Without integral or lead, so that one step is a closed form.
PLAIN = PositionParams(
    position_gain_xy=1.0, position_gain_z=1.0, velocity_gain_xy=2.0, velocity_gain_z=3.0,
    velocity_integral_xy=0.0, velocity_integral_z=0.0, attitude_lag_s=0.0,
)  # fmt: skip


class Loop:
    """A position loop with its records."""

    def __init__(self, position=PLAIN, mode=MODE_POSITION):
        autopilot = AutopilotParams(position=position)
        self.params = pack(autopilot)
        self.state = new_position_control(autopilot, AIRFRAME)
        self.odometry = new_record(ODOMETRY)
        self.odometry.q_WB[0] = 1.0
        self.setpoint = new_record(SETPOINT)
        self.setpoint.mode = mode
        self.command = new_record(ATTITUDE_COMMAND)

    def step(self, steps=1):
        for _ in range(steps):
            position_control(
                self.state, self.params, self.odometry, self.setpoint, DT, self.command
            )
        return self.command

    def force(self):
        """Specific force in W that the command asks for at the present heading."""
        roll, pitch, yaw = to_euler(tuple(self.command.q_WB))
        z_W = Rotation.from_euler("ZYX", [yaw, pitch, roll]).apply([0.0, 0.0, 1.0])
        return z_W * self.command.thrust


@pytest.mark.parametrize("yaw", [0.0, 0.8, -2.5, math.pi])
def test_the_force_points_along_the_errors_in_the_world_whatever_the_heading(yaw):
    loop = Loop()
    loop.odometry.q_WB[:] = from_euler(0.0, 0.0, yaw)
    loop.setpoint.yaw = yaw
    loop.odometry.v_W[:] = (0.1, -0.2, 0.05)
    loop.setpoint.p_W[:] = (0.5, 0.3, -0.1)
    loop.setpoint.v_W[:] = (0.2, 0.1, 0.0)
    loop.setpoint.a_W[:] = (0.4, -0.5, 0.6)
    loop.step()
    a = np.array([0.4, -0.5, 0.6])
    v_wanted = np.array([0.2 + 0.5, 0.1 + 0.3, 0.0 - 0.1])
    a += np.array([2, 2, 3]) * (v_wanted - [0.1, -0.2, 0.05])
    force = loop.force()
    # level vehicle: the thrust is the vertical part, the direction that of the whole
    np.testing.assert_allclose(force / force[2], np.add(a, [0, 0, G]) / (a[2] + G), atol=1e-12)
    assert loop.command.thrust == pytest.approx(a[2] + G)


@pytest.mark.parametrize("tilt", [0.2, 0.5, -0.6])
def test_tilt_is_compensated_in_the_thrust(tilt):
    loop = Loop()
    loop.odometry.q_WB[:] = from_euler(tilt, 0.0, 1.0)
    loop.setpoint.yaw = 1.0
    assert loop.step().thrust * math.cos(tilt) == pytest.approx(G)


def test_upside_down_it_gives_the_least_thrust():
    loop = Loop()
    loop.odometry.q_WB[:] = from_euler(3.0, 0.0, 0.0)
    assert loop.step().thrust == pytest.approx(thrust_limits(0.05, AIRFRAME)[0])


def test_tilt_stays_within_its_limit_and_height_has_the_first_claim_on_the_thrust():
    loop = Loop(replace(PLAIN, acceleration_max_mps2=50.0, tilt_max_rad=0.6, speed_max_mps=50.0))
    loop.setpoint.p_W[:] = (300.0, -400.0, 0.0)
    loop.step()
    force = loop.force()
    assert math.acos(force[2] / loop.command.thrust) == pytest.approx(0.6)
    assert force[1] / force[0] == pytest.approx(-4.0 / 3.0)
    loop.setpoint.p_W[2] = 100.0  # all the thrust is wanted upwards
    loop.step()
    _, most = thrust_limits(0.05, AIRFRAME)
    np.testing.assert_allclose(loop.force(), [0.0, 0.0, most], atol=1e-9)


def test_speed_limits_bound_the_wanted_velocity():
    loop = Loop(replace(PLAIN, speed_max_mps=2.0, ascent_max_mps=1.0, descent_max_mps=0.5))
    loop.setpoint.p_W[:] = (30.0, 0.0, -30.0)
    loop.odometry.v_W[:] = (2.0, 0.0, -0.5)  # already at both limits
    command = loop.step()
    np.testing.assert_allclose(command.q_WB, [1, 0, 0, 0], atol=1e-12)
    assert command.thrust == pytest.approx(G)


def test_approach_speed_joins_smoothly_and_brakes_at_the_given_rate():
    gain, braking = 2.0, 4.0
    edge = braking / gain**2
    assert approach_speed(edge, gain, braking) == pytest.approx(gain * edge)
    for distance in (1.5, 4.0, 20.0):
        h = 1e-5
        slope = approach_speed(distance + h, gain, braking) / (2 * h)
        slope -= approach_speed(distance - h, gain, braking) / (2 * h)
        # v dv/dd = braking
        assert slope * approach_speed(distance, gain, braking) == pytest.approx(braking, rel=1e-6)


def test_yaw_goes_the_shortest_way_and_within_its_rate():
    loop = Loop(replace(PLAIN, yaw_gain=2.0, yaw_rate_max_radps=1.5))
    loop.odometry.q_WB[:] = from_euler(0.0, 0.0, 3.0)
    loop.setpoint.yaw = -3.0  # 0.283 rad to the left of 3.0
    assert loop.step().yaw_rate == pytest.approx(2.0 * (2 * math.pi - 6.0))
    loop.setpoint.yaw_rate = 0.3
    assert loop.step().yaw_rate == pytest.approx(0.3 + 2.0 * (2 * math.pi - 6.0))
    loop.setpoint.yaw = 1.0
    assert loop.step().yaw_rate == -1.5


def test_feed_forward_leads_by_the_lag_of_the_attitude():
    loop = Loop(replace(PLAIN, attitude_lag_s=0.1))
    for k in range(3):  # 5 m/s^3
        loop.setpoint.a_W[0] = 0.1 * k
        loop.step()
    assert math.tan(to_euler(tuple(loop.command.q_WB))[1]) == pytest.approx((0.2 + 0.5) / G)


def test_the_integral_carries_a_heavy_vehicle_and_does_not_wind_up_at_the_limit():
    integrating = replace(PLAIN, velocity_integral_z=2.0, velocity_integral_xy=2.0)
    loop = Loop(integrating)
    loop.odometry.v_W[2] = -0.1
    loop.step(50)
    assert loop.state.integral[2] == pytest.approx(2.0 * 0.1 * 1.0)
    loop = Loop(integrating)
    loop.setpoint.p_W[:] = (500.0, 0.0, 500.0)  # out of reach of thrust and tilt
    loop.step(200)
    np.testing.assert_array_equal(loop.state.integral, 0.0)


def test_velocity_mode_follows_velocity_and_yaw_rate_and_ignores_the_position():
    loop = Loop(mode=MODE_VELOCITY)
    loop.setpoint.p_W[:] = (9.0, 9.0, 9.0)
    loop.setpoint.v_W[:] = (1.0, 0.0, 0.0)
    loop.odometry.v_W[:] = (1.0, 0.0, 0.0)
    loop.setpoint.yaw, loop.setpoint.yaw_rate = 2.0, 0.4
    command = loop.step()
    np.testing.assert_allclose(command.q_WB, [1, 0, 0, 0], atol=1e-12)
    assert (command.thrust, command.yaw_rate) == (pytest.approx(G), 0.4)


def test_stop_is_exactly_zero_and_idle_just_above():
    assert Loop(mode=MODE_STOP).step().thrust == 0.0
    assert 0.0 < Loop(mode=MODE_IDLE).step().thrust < 0.01


def test_stop_and_idle_forget_the_integral():
    loop = Loop(replace(PLAIN, velocity_integral_xy=2.0))
    loop.setpoint.p_W[0] = 1.0
    loop.step(5)
    assert loop.state.integral[0] > 0.0
    loop.setpoint.mode = MODE_IDLE
    loop.step()
    assert loop.state.integral[0] == 0.0


def descent(v_estimated, seconds=10.0):
    """True vertical velocity over time of a point mass under the descent mode."""
    loop, v, history = Loop(mode=MODE_DESCEND), 0.0, []
    loop.setpoint.v_W[2] = -0.7
    for k in range(int(seconds / DT)):
        loop.odometry.v_W[2] = v_estimated(k * DT, v)
        command = loop.step()
        np.testing.assert_allclose(command.q_WB, [1, 0, 0, 0], atol=1e-12)
        v += (command.thrust - G) * DT
        history.append(v)
    return np.array(history)


def test_descend_reaches_its_speed_on_a_good_estimate():
    assert descent(lambda t, v: v)[-1] == pytest.approx(-0.7, abs=1e-3)


@pytest.mark.parametrize("wrong", [-50.0, -3.0, 0.0, 5.0, math.nan, math.inf])
def test_no_estimate_of_the_vertical_velocity_can_make_the_descent_climb(wrong):
    assert descent(lambda t, v: wrong).max() <= 1e-9


def test_without_an_estimate_the_descent_keeps_its_speed_by_its_own_model():
    assert descent(lambda t, v: math.nan)[-1] == pytest.approx(-0.7, abs=1e-3)


@pytest.mark.parametrize("field", ["p_W", "v_W", "q_WB"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_odometry_with_a_number_missing_is_answered_by_a_level_descent(field, bad):
    loop = Loop()
    loop.step(5)
    loop.odometry[field][1] = bad
    command = loop.step(10)
    assert loop.state.mode == MODE_DESCEND
    np.testing.assert_allclose(command.q_WB, [1, 0, 0, 0], atol=1e-12)
    assert 0.7 * G < command.thrust <= G
    assert command.yaw_rate == 0.0


@pytest.mark.parametrize("field", ["p_W", "v_W", "a_W"])
def test_a_setpoint_with_a_number_missing_likewise(field):
    loop = Loop()
    loop.setpoint[field][2] = math.nan
    command = loop.step(10)
    assert loop.state.mode == MODE_DESCEND
    assert math.isfinite(command.thrust)


def test_the_default_file_states_the_defaults_and_every_file_loads():
    assert load(AutopilotParams, find("autopilots", "default")) == AutopilotParams()
    for name in known("autopilots"):
        assert load(AutopilotParams, find("autopilots", name)).name
