"""The attitude and rate loops: directions, reduced attitude, limits, idle and stop."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cross_airframe import CROSS
from scipy.spatial.transform import Rotation

from quadsim.base.compiled import new_record
from quadsim.base.parameters import new, pack
from quadsim.base.records import ATTITUDE_COMMAND, MAX_ROTORS, ODOMETRY
from quadsim.control.airframe import effectiveness, pack_airframe
from quadsim.control.attitude import (
    IDLE_THRUST,
    attitude_control,
    thrust_limits,
    tilt_error,
    wanted_rates,
)
from quadsim.control.parameters import AttitudeParams, AutopilotParams
from quadsim.control.records import AttitudeControl
from quadsim.geometry.rotation import from_euler

#: Without integral, lead or filter delay, so that one step is a closed form.
PLAIN = AttitudeParams(
    tilt_gain=5.0,
    rate_gain=(10.0, 10.0, 4.0),
    rate_integral=(0.0, 0.0, 0.0),
    rate_lead_s=0.0,
    gyro_cutoff_hz=500.0,
)
DT = 0.002


def wrench(attitude=PLAIN, q_WB=(1.0, 0.0, 0.0, 0.0), w_B=(0.0, 0.0, 0.0), steps=1, **wanted):
    """Thrust in N and torque in N m after some steps in a held state."""
    odometry, command = new_record(ODOMETRY), new_record(ATTITUDE_COMMAND)
    odometry.q_WB[:] = q_WB
    odometry.w_B[:] = w_B
    command.q_WB[:] = wanted.get("q", (1.0, 0.0, 0.0, 0.0))
    command.yaw_rate = wanted.get("yaw_rate", 0.0)
    command.thrust = wanted.get("thrust", 9.8)
    state, speeds = new(AttitudeControl), np.zeros(MAX_ROTORS)
    params = pack(AutopilotParams(attitude=attitude))
    for _ in range(steps):
        attitude_control(state, params, pack_airframe(CROSS), odometry, command, DT, speeds)
    return effectiveness(CROSS) @ (CROSS.thrust_coefficient_N_s2 * speeds[:4] ** 2)


@pytest.mark.parametrize(("axis", "euler"), [(0, (0.05, 0.0)), (1, (0.0, 0.05))])
def test_torque_is_inertia_times_gains_times_the_attitude_error(axis, euler):
    force_N, *torque = wrench(q=from_euler(*euler, 0.0))
    expected = np.zeros(3)
    expected[axis] = CROSS.inertia_kg_m2[axis] * 10.0 * 5.0 * 0.05
    np.testing.assert_allclose(torque, expected, atol=1e-12)
    assert force_N == pytest.approx(9.8)


def test_rates_are_damped_and_the_gyroscopic_torque_is_fed_forward():
    w_B = np.array([0.6, -0.4, 0.5])
    inertia = np.array(CROSS.inertia_kg_m2)
    torque = wrench(w_B=w_B)[1:]
    damping = -inertia * [10.0, 10.0, 4.0] * w_B
    np.testing.assert_allclose(torque, damping + np.cross(w_B, inertia * w_B), atol=1e-12)


def test_a_commanded_yaw_rate_turns_about_the_vertical_not_about_body_z():
    roll = 0.5
    q_WB = from_euler(roll, 0.0, 0.3)
    rates = wanted_rates(pack(AutopilotParams(attitude=PLAIN)), q_WB, q_WB, 0.7)
    expected = Rotation.from_euler("ZYX", [0.3, 0.0, roll]).inv().apply([0.0, 0.0, 0.7])
    np.testing.assert_allclose(rates, expected, atol=1e-12)


def test_the_commanded_yaw_is_ignored():
    q_WB = from_euler(0.1, -0.2, 2.0)
    for yaw in (-3.0, 0.0, 1.0):
        error = tilt_error(q_WB, from_euler(0.1, -0.2, yaw))
        np.testing.assert_allclose(error, 0.0, atol=1e-12)


def test_the_tilt_error_is_the_shortest_rotation_to_the_commanded_direction():
    rng = np.random.default_rng(11)
    for _ in range(50):
        yaw, angles = rng.uniform(-3, 3), rng.uniform(-1.0, 1.0, 4)
        q_WB = from_euler(angles[0], angles[1], yaw)
        q_command = from_euler(angles[2], angles[3], yaw)
        R_WB = Rotation.from_euler("ZYX", [yaw, angles[1], angles[0]])
        z_wanted = Rotation.from_euler("ZYX", [yaw, angles[3], angles[2]]).apply([0, 0, 1])
        error = np.array(tilt_error(q_WB, q_command))
        z_reached = (R_WB * Rotation.from_rotvec(error)).apply([0, 0, 1])
        np.testing.assert_allclose(z_reached, z_wanted, atol=1e-12)
        angle = math.acos(np.clip(R_WB.apply([0, 0, 1]) @ z_wanted, -1, 1))
        assert np.linalg.norm(error) == pytest.approx(angle, abs=1e-7)


def test_upside_down_the_error_is_half_a_turn():
    assert np.linalg.norm(tilt_error((0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))) == math.pi


def test_a_large_error_asks_for_no_more_than_the_fastest_tilt_rate():
    params = pack(AutopilotParams(attitude=replace(PLAIN, tilt_rate_max_radps=2.0)))
    rates = wanted_rates(params, from_euler(1.0, 0.5, 0.0), (1.0, 0.0, 0.0, 0.0), 0.0)
    assert np.linalg.norm(rates) == pytest.approx(2.0)
    assert rates[0] < 0.0
    assert rates[1] < 0.0


def test_the_integral_grows_with_a_held_rate_error_and_stops_when_the_rotors_are_at_their_limit():
    integrating = replace(PLAIN, rate_integral=(20.0, 20.0, 0.0))
    first = wrench(integrating, w_B=(0.1, 0.0, 0.0))[1]
    later = wrench(integrating, w_B=(0.1, 0.0, 0.0), steps=51)[1]
    assert later - first == pytest.approx(-0.01 * 20.0 * 0.1 * 50 * DT, rel=1e-9)

    state, speeds = new(AttitudeControl), np.zeros(MAX_ROTORS)
    odometry, command = new_record(ODOMETRY), new_record(ATTITUDE_COMMAND)
    odometry.q_WB[0] = command.q_WB[0] = 1.0
    odometry.w_B[0], command.thrust = 300.0, 9.8
    params = pack(AutopilotParams(attitude=integrating))
    for _ in range(100):
        attitude_control(state, params, pack_airframe(CROSS), odometry, command, DT, speeds)
    # the first step knows of no limit yet
    assert state.integral[0] == pytest.approx(-20.0 * 300.0 * DT)


def test_the_lead_acts_against_the_change_of_the_low_passed_rate():
    leading = replace(PLAIN, rate_lead_s=0.01, gyro_cutoff_hz=20.0)
    state, speeds = new(AttitudeControl), np.zeros(MAX_ROTORS)
    odometry, command = new_record(ODOMETRY), new_record(ATTITUDE_COMMAND)
    odometry.q_WB[0] = command.q_WB[0] = 1.0
    command.thrust = 9.8
    params = pack(AutopilotParams(attitude=leading))
    for rate in (0.0, 0.1):
        odometry.w_B[0] = rate
        attitude_control(state, params, pack_airframe(CROSS), odometry, command, DT, speeds)
    low_passed = 0.1 * (1.0 - math.exp(-2.0 * math.pi * 20.0 * DT))
    torque = effectiveness(CROSS) @ (CROSS.thrust_coefficient_N_s2 * speeds[:4] ** 2)
    expected = -0.01 * 10.0 * (low_passed + 0.01 * low_passed / DT)
    assert torque[1] == pytest.approx(expected, rel=1e-9)


def test_thrust_keeps_a_reserve_for_roll_and_pitch_at_both_ends():
    least, most = thrust_limits(0.05, pack_airframe(CROSS))
    assert (least, most) == pytest.approx((0.4 + 0.05 * 39.6, 40.0 - 0.05 * 39.6))
    assert wrench(thrust=100.0)[0] == pytest.approx(most)
    assert wrench(thrust=0.5)[0] == pytest.approx(least)
    assert abs(wrench(thrust=100.0, q=from_euler(0.2, 0.0, 0.0))[1]) > 0.05


def test_idle_turns_the_rotors_at_their_lowest_speed_and_stop_stops_them():
    tilted = from_euler(0.4, 0.0, 0.0)
    force_N, *torque = wrench(q_WB=tilted, thrust=IDLE_THRUST)
    assert force_N == pytest.approx(4 * 1e-5 * 100.0**2)
    np.testing.assert_allclose(torque, 0.0, atol=1e-15)
    np.testing.assert_array_equal(wrench(q_WB=tilted, thrust=0.0), 0.0)
