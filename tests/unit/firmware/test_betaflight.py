"""Betaflight: signs derived from its sources' constants and our vehicle's torques; a flight."""

import math

import betaflight_stand_in as sitl
import numpy as np
import pytest
from transforms3d.euler import euler2mat, euler2quat

from quadsim.base.errors import FlightError
from quadsim.firmware import betaflight
from quadsim.firmware.axes import rotor_order
from quadsim.sim.scenario import load_scenario

LEVEL = (1.0, 0.0, 0.0, 0.0)


def body_torque(pwm):
    """Torque about x, y, z (FLU) that motors of the firmware's numbers give x500."""
    frame = load_scenario("hover").airframe
    order = rotor_order(frame, {4: betaflight.QUAD_X}, "betaflight")
    speeds = np.zeros(4)
    for rotor, value in zip(order, pwm, strict=True):
        speeds[rotor] = (value - 1000) * 1e-3 * frame.rotor_speed_max_radps
    thrust = frame.thrust_coefficient_N_s2 * speeds**2
    p = np.array(frame.rotor_positions_B_m)
    # a rotor that turns counter-clockwise turns the body clockwise
    yaw = -frame.torque_ratio_m * np.array(frame.rotor_directions) * thrust
    return np.array([p[:, 1] @ thrust, -p[:, 0] @ thrust, yaw.sum()])


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_firmware_opposes_a_rate(axis, sign):
    """The sign of yaw, derived: packet, its mapping of gyros, its mixer, our rotors' reaction."""
    w_B = np.zeros(3)
    w_B[axis] = sign
    packet = betaflight.state_packet(
        1.0, (0.0, 0.0, 9.81), tuple(w_B), LEVEL, (0, 0, 0), (0, 0, 0), 1e5
    )
    gyro = sitl.gyro_of(sitl.struct.unpack("<18d", packet)[1:4])
    sums = [-0.1 * rate for rate in gyro]  # what a rate loop wants: less of it
    torque = body_torque(sitl.mix(0.6, sums))
    assert torque[axis] * sign < 0.0
    assert np.abs(np.delete(torque, axis)).max() < 1e-9


@pytest.mark.parametrize(
    ("angles", "channel", "sign"), [((0.2, 0, 0), 0, 1), ((0, 0.2, 0), 1, 1), ((0, 0, 0.2), 3, 0)]
)
def test_a_stick_asks_for_the_lean(angles, channel, sign):
    sticks = betaflight.sticks_of(tuple(euler2quat(*angles)), 0.0, 0.5)
    assert np.sign(sticks[channel] - 1500) == sign
    wanted = (sticks[channel] - 1500) / 500 * betaflight.LEAN_DEG
    assert wanted == pytest.approx(sign * math.degrees(0.2), abs=0.1)


def test_yaw_to_the_left_is_the_stick_to_the_left():
    assert betaflight.sticks_of(LEVEL, math.radians(100.0), 0.5)[3] == 1250


@pytest.mark.parametrize("angles", [(0.3, 0.0, 0.0), (0.0, 0.3, 0.0), (-0.2, 0.1, 1.0)])
def test_its_level_is_ours(angles):
    """At rest its angles (imu.c: roll by y over z, pitch by -x) are those of the attitude."""
    f_B = euler2mat(*angles).T @ [0, 0, 9.81]
    packet = betaflight.state_packet(1.0, tuple(f_B), (0, 0, 0), LEVEL, (0, 0, 0), (0, 0, 0), 1e5)
    x, y, z = sitl.acc_of(sitl.struct.unpack("<18d", packet)[4:7])
    assert math.atan2(y, z) == pytest.approx(angles[0])
    assert math.asin(-x / 9.81) == pytest.approx(angles[1])


@pytest.mark.parametrize("yaw", [0.0, 1.0, -2.5])
def test_its_compass_points_north(yaw):
    """Its quaternion, as sitl.c undoes the plug-in's, is FLU in north, west, up."""
    q_WB = euler2quat(0.1, -0.2, yaw)
    packet = betaflight.state_packet(
        1.0, (0, 0, 9.81), (0, 0, 0), tuple(q_WB), (0, 0, 0), (0, 0, 0), 1e5
    )
    w, x, y, z = sitl.struct.unpack("<18d", packet)[7:11]
    y, z = -y, -z
    k = math.sqrt(0.5)
    got = (k * (w - z), k * (x - y), k * (y + x), k * (z + w))
    from transforms3d.quaternions import quat2mat

    north_west_up = np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 1.0]])
    np.testing.assert_allclose(quat2mat(got), north_west_up @ quat2mat(q_WB), atol=1e-12)


def test_the_height_is_that_of_its_own_formula():
    for height_m in (0.0, 488.0, 2000.0):
        pressure_pa = 101325.0 * (1 - 2.25577e-5 * height_m) ** 5.25588
        assert betaflight.pressure_height_m(pressure_pa) == pytest.approx(height_m, abs=1e-6)


def test_an_answer_of_msp_is_taken_whole_or_not_at_all():
    answer = b"$M>\x02\x65\xe8\x03" + bytes((2 ^ 0x65 ^ 0xE8 ^ 3,))
    for cut in range(len(answer)):
        assert betaflight.msp_answer(answer[:cut], 101) is None
    assert betaflight.msp_answer(b"xx" + answer, 101) == b"\xe8\x03"
    assert betaflight.msp_answer(answer, 102) is None


@pytest.mark.alone
def test_it_flies_a_hover(stand_in, fly):
    logs, loops, firmware = fly("betaflight", stand_in("betaflight"), rate=3.0, duration_s=40.0)
    assert loops[0].manager.finished
    assert not loops[0].crashed
    truth = logs[0].truth
    wanted_m = loops[0].scenario.items[0].height_m + truth.p_W[0, 2]
    assert truth.p_W[:, 2].max() == pytest.approx(wanted_m, abs=0.3)
    assert np.abs(truth.p_W[:, :2]).max() < 0.5
    assert firmware[0].counts()["motor packets"] > 1000


def test_no_firmware_is_named(fly, monkeypatch):
    monkeypatch.setattr(betaflight, "ANSWER_S", 0.5)
    with pytest.raises(FlightError, match=r"betaflight: nothing on tcp 5761 in 0\.5 s"):
        fly("betaflight", None)
