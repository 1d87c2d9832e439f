"""What control promises for every state, command and breakage."""

import math
from dataclasses import replace

import numpy as np
from cross_airframe import CROSS
from hypothesis import given, settings
from hypothesis import strategies as st

from quadsim.base.compiled import new_record
from quadsim.base.parameters import pack
from quadsim.base.records import ATTITUDE_COMMAND, MAX_ROTORS, MODE_POSITION, ODOMETRY, SETPOINT
from quadsim.control.airframe import pack_airframe
from quadsim.control.attitude import thrust_limits
from quadsim.control.inner_loop import inner_loop, new_inner_loop
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import new_position_control, position_control
from quadsim.geometry.rotation import from_euler, multiply, to_euler

AIRFRAME = replace(CROSS, rotor_speed_max_radps=900.0)
PACKED = pack_airframe(AIRFRAME)
AUTOPILOT = AutopilotParams()
PARAMS = pack(AUTOPILOT)
DT = 0.02

lengths = st.floats(-20.0, 20.0)
vectors = st.tuples(lengths, lengths, lengths)
tilts = st.floats(-1.2, 1.2)
yaws = st.floats(-3.1, 3.1)
broken = st.one_of(lengths, st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -1e300]))


def turned(yaw, v):
    """A vector turned about the vertical."""
    c, s = math.cos(yaw), math.sin(yaw)
    return (c * v[0] - s * v[1], s * v[0] + c * v[1], v[2])


def command_of(p, v, q_WB, p_wanted, yaw_wanted, sign=1.0, turn=0.0):
    """Roll, pitch, yaw rate and thrust of one step, the world turned about the vertical."""
    odometry, setpoint = new_record(ODOMETRY), new_record(SETPOINT)
    odometry.p_W[:], odometry.v_W[:] = turned(turn, p), turned(turn, v)
    q_turned = multiply(from_euler(0.0, 0.0, turn), q_WB)
    odometry.q_WB[:] = sign * np.array(q_turned)
    setpoint.mode = MODE_POSITION
    setpoint.p_W[:], setpoint.yaw = turned(turn, p_wanted), yaw_wanted + turn
    command = new_record(ATTITUDE_COMMAND)
    state = new_position_control(AUTOPILOT, PACKED)
    position_control(state, PARAMS, odometry, setpoint, DT, command)
    roll, pitch, _ = to_euler(tuple(command.q_WB))
    return np.array([roll, pitch, command.yaw_rate, command.thrust])


@given(p=vectors, v=vectors, roll=tilts, pitch=tilts, yaw=yaws, goal=vectors, turn=yaws)
def test_turning_the_world_changes_no_command(p, v, roll, pitch, yaw, goal, turn):
    q_WB = from_euler(roll, pitch, yaw)
    still = command_of(p, v, q_WB, goal, yaw + 0.5)
    np.testing.assert_allclose(command_of(p, v, q_WB, goal, yaw + 0.5, turn=turn), still, atol=1e-9)


@given(p=vectors, v=vectors, roll=tilts, pitch=tilts, yaw=yaws, goal=vectors)
def test_q_and_minus_q_are_commanded_alike(p, v, roll, pitch, yaw, goal):
    q_WB = from_euler(roll, pitch, yaw)
    one = command_of(p, v, q_WB, goal, 0.3)
    np.testing.assert_array_equal(command_of(p, v, q_WB, goal, 0.3, sign=-1.0), one)


@given(p=vectors, v=vectors, roll=tilts, pitch=tilts, yaw=yaws, goal=vectors)
def test_commands_stay_within_every_limit(p, v, roll, pitch, yaw, goal):
    roll, pitch, yaw_rate, thrust = command_of(p, v, from_euler(roll, pitch, yaw), goal, 0.0)
    position = AUTOPILOT.position
    assert math.acos(math.cos(roll) * math.cos(pitch)) <= position.tilt_max_rad + 1e-9
    assert abs(yaw_rate) <= position.yaw_rate_max_radps
    least, most = thrust_limits(AUTOPILOT.attitude.thrust_reserve, PACKED)
    assert least <= thrust <= most


@settings(max_examples=400)  # what breaks it is rare
@given(
    numbers=st.lists(st.one_of(lengths, broken), min_size=21, max_size=21),
    mode=st.integers(-1, 7),
    dt_s=st.sampled_from([0.0, DT, 5.0]),
)
def test_no_number_in_the_inputs_makes_a_command_that_is_not_finite(numbers, mode, dt_s):
    odometry, setpoint = new_record(ODOMETRY), new_record(SETPOINT)
    odometry.p_W[:], odometry.v_W[:], odometry.q_WB[:] = numbers[:3], numbers[3:6], numbers[6:10]
    setpoint.p_W[:], setpoint.v_W[:] = numbers[10:13], numbers[13:16]
    setpoint.a_W[:], setpoint.mode = numbers[16:19], mode
    setpoint.yaw, setpoint.yaw_rate = numbers[19:21]
    state = new_position_control(AUTOPILOT, PACKED)
    command = new_record(ATTITUDE_COMMAND)
    for _ in range(2):
        position_control(state, PARAMS, odometry, setpoint, dt_s, command)
        assert np.isfinite([*command.q_WB, command.yaw_rate, command.thrust]).all()
        assert 0.0 <= command.thrust <= state.thrust_max


@given(
    steps=st.lists(
        st.tuples(
            st.lists(broken, min_size=19, max_size=19),
            st.floats(0.0, 2.0),
            st.one_of(st.floats(0.0, 2.0), st.sampled_from([math.nan, math.inf])),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_no_sequence_of_inputs_drives_a_rotor_out_of_its_limits(steps):
    state, speeds = new_inner_loop(), np.full(MAX_ROTORS, math.nan)
    odometry, command = new_record(ODOMETRY), new_record(ATTITUDE_COMMAND)
    for numbers, odometry_age_s, command_age_s in steps:
        odometry.p_W[:], odometry.v_W[:], odometry.w_B[:] = numbers[:3], numbers[3:6], numbers[6:9]
        odometry.q_WB[:], command.q_WB[:] = numbers[9:13], numbers[13:17]
        command.yaw_rate, command.thrust = numbers[17], numbers[18]
        inner_loop(
            state, PARAMS, PACKED, odometry, odometry_age_s, command, command_age_s, 0.002, speeds
        )
        running = speeds[:4]
        assert not running.any() or (
            running.min() >= AIRFRAME.rotor_speed_min_radps
            and running.max() <= AIRFRAME.rotor_speed_max_radps
        )
        assert not speeds[4:].any()
