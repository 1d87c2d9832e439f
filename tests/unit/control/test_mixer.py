"""The mixer and the airframe against hand-made cases."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cross_airframe import ARM, CROSS

from quadsim.base.errors import InputError
from quadsim.base.records import MAX_ROTORS
from quadsim.control.airframe import effectiveness, pack_airframe
from quadsim.control.mixer import equal_speeds, mix


def thrusts(thrust_N, torque_B, params=CROSS):
    """Rotor thrusts in N and what mix returned."""
    speeds = np.full(MAX_ROTORS, np.nan)
    reached = mix(pack_airframe(params), thrust_N, torque_B, speeds)
    return params.thrust_coefficient_N_s2 * speeds**2, reached


def test_collective_thrust_is_shared_equally():
    forces, reached = thrusts(8.0, (0.0, 0.0, 0.0))
    np.testing.assert_allclose(forces, [2.0, 2.0, 2.0, 2.0, 0, 0, 0, 0], rtol=1e-12)
    assert reached == (8.0, 1.0, 1.0)


def test_roll_to_the_right_speeds_up_the_left_rotors():
    forces, _ = thrusts(8.0, (0.4, 0.0, 0.0))
    share = 0.4 / (4 * ARM)  # each rotor gives arm * change
    expected = [2.0 - share, 2.0 + share, 2.0 + share, 2.0 - share]
    np.testing.assert_allclose(forces[:4], expected, rtol=1e-12)


def test_pitch_down_speeds_up_the_rear_rotors():
    # positive rotation about y (left) lowers the nose
    forces, _ = thrusts(8.0, (0.0, 0.4, 0.0))
    share = 0.4 / (4 * ARM)
    expected = [2.0 - share, 2.0 + share, 2.0 - share, 2.0 + share]
    np.testing.assert_allclose(forces[:4], expected, rtol=1e-12)


def test_yaw_to_the_left_speeds_up_the_clockwise_rotors():
    forces, _ = thrusts(8.0, (0.0, 0.0, 0.04))
    share = 0.04 / (4 * 0.02)
    expected = [2.0 - share, 2.0 - share, 2.0 + share, 2.0 + share]
    np.testing.assert_allclose(forces[:4], expected, rtol=1e-12)


def test_yaw_is_given_up_before_thrust_and_thrust_before_roll():
    # at 8 N a rotor has 2 - 0.1 = 1.9 N to give downwards
    forces, (given, tilt, yaw) = thrusts(8.0, (4 * ARM * 1.8, 0.0, 10.0))
    assert (given, tilt) == (8.0, 1.0)
    assert yaw == pytest.approx(0.1 * 4 * 0.02 / 10.0)
    assert forces[:4].sum() == pytest.approx(8.0)
    # 3.8 N up and down: a mean of 3.9 N keeps the lower rotors at 0.1 N
    forces, (given, tilt, yaw) = thrusts(8.0, (4 * ARM * 3.8, 0.0, 10.0))
    assert (given, tilt, yaw) == pytest.approx((4 * 3.9, 1.0, 0.0), abs=1e-12)
    assert forces[:4].sum() == pytest.approx(4 * 3.9)
    # at 39.6 N a rotor has 0.1 N to give upwards; 3 N need a mean of 7 N
    _, (given, tilt, yaw) = thrusts(39.6, (4 * ARM * 3.0, 0.0, 0.0))
    assert (given, tilt, yaw) == pytest.approx((28.0, 1.0, 1.0), abs=1e-12)


def test_roll_and_pitch_are_cut_by_the_same_factor():
    # 0.1 to 10 N leave 4.95 N up and down of the mean
    _, (given, tilt, _) = thrusts(8.0, (4 * ARM * 6.0, 4 * ARM * 2.0, 0.0))
    assert tilt == pytest.approx(4.95 / 8.0)
    assert given == pytest.approx(4 * 5.05)


@pytest.mark.parametrize(("asked", "given"), [(1000.0, 40.0), (0.01, 0.4), (-5.0, 0.4)])
def test_thrust_stops_at_the_limits(asked, given):
    forces, reached = thrusts(asked, (0.0, 0.0, 0.1))
    assert reached == pytest.approx((given, 1.0, 0.0), abs=1e-12)
    assert forces[:4].sum() == pytest.approx(given)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_count_as_zero(bad):
    np.testing.assert_allclose(thrusts(8.0, (bad, bad, bad))[0][:4], 2.0, rtol=1e-12)
    np.testing.assert_allclose(thrusts(bad, (0.0, 0.0, 0.0))[0][:4], 0.1, rtol=1e-12)


def test_no_thrust_stops_the_rotors():
    speeds = np.full(MAX_ROTORS, 5.0)
    equal_speeds(pack_airframe(CROSS), 0.0, speeds)
    assert not speeds.any()


def test_effectiveness_is_the_sum_of_cross_products():
    forces = np.array([1.0, 2.0, 3.0, 4.0])
    torque = sum(
        np.add(np.cross(r, [0, 0, f]), [0, 0, -d * CROSS.torque_ratio_m * f])
        for r, d, f in zip(CROSS.rotor_positions_B_m, CROSS.rotor_directions, forces, strict=True)
    )
    np.testing.assert_allclose(effectiveness(CROSS) @ forces, [10.0, *torque], atol=1e-14)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rotor_directions": (1.0, 1.0, 1.0, 1.0)}, "by themselves"),
        ({"rotor_directions": (1.0, 1.0, -1.0)}, "give one each"),
        ({"rotor_positions_B_m": ((ARM, 0, 0), (-ARM, 0, 0), (ARM, 0, 0), (-ARM, 0, 0))}, "by t"),
        ({"rotor_speed_min_radps": 1000.0}, "not below"),
    ],
)
def test_airframes_that_cannot_be_flown_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        replace(CROSS, **change)
