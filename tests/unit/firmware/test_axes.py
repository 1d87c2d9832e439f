"""Axes, units and rotor numbers, against transforms3d and first principles."""

import math
from dataclasses import replace

import numpy as np
import pytest
from transforms3d.euler import euler2mat, euler2quat
from transforms3d.quaternions import quat2mat

from quadsim.base.errors import InputError
from quadsim.firmware import axes
from quadsim.firmware.betaflight import QUAD_X as BETAFLIGHT_X
from quadsim.sim.scenario import load_scenario

#: NED axes in ENU, FRD axes in FLU, as columns.
NED = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1.0]])
FRD = np.diag([1.0, -1, -1])


@pytest.mark.parametrize(
    "angles", [(0, 0, 0), (0.3, -0.2, 1.0), (-1.2, 0.7, -3.0), (3.0, 0.1, 2.0)]
)
def test_attitudes_are_turned_in_world_and_body(angles):
    q_WB = euler2quat(*angles)
    R = quat2mat(axes.attitude_out(tuple(q_WB)))
    np.testing.assert_allclose(R, NED.T @ quat2mat(q_WB) @ FRD, atol=1e-12)
    back = quat2mat(axes.attitude_in(axes.attitude_out(tuple(q_WB))))
    np.testing.assert_allclose(back, quat2mat(q_WB), atol=1e-12)


def test_vectors_are_turned():
    v = (1.0, 2.0, 3.0)
    assert axes.swapped(v) == tuple(NED.T @ v)
    assert axes.flipped(v) == tuple(FRD.T @ v)


@pytest.mark.parametrize("yaw", [0.0, 0.5, 2.0, -3.0])
def test_a_heading_counts_from_north_clockwise(yaw):
    east, north, _ = euler2mat(0, 0, yaw)[:, 0]
    assert math.isclose(axes.heading_of(yaw), math.atan2(east, north), abs_tol=1e-12)


def airframe(vehicle="x500"):
    return load_scenario("hover", vehicle=vehicle).airframe


@pytest.mark.parametrize("frames", [axes.FRAMES, {4: BETAFLIGHT_X}])
def test_a_motor_is_the_rotor_at_its_place_that_turns_as_it_does(frames):
    x500 = airframe()
    order = axes.rotor_order(x500, frames, "it")
    assert sorted(order) == [0, 1, 2, 3]
    for motor, rotor in zip(frames[4], order, strict=True):
        x, y, _ = x500.rotor_positions_B_m[rotor]
        right = motor.azimuth_deg > 0
        front = abs(motor.azimuth_deg) < 90
        assert (x > 0, y < 0) == (front, right)
        assert x500.rotor_directions[rotor] == motor.turns


def test_rotors_that_turn_the_other_way_are_refused():
    x500 = airframe()
    other = replace(x500, rotor_directions=tuple(-d for d in x500.rotor_directions))
    with pytest.raises(InputError, match=r"motor 1 .* turns counter-clockwise; .* other way"):
        axes.rotor_order(other, axes.FRAMES, "it")
    with pytest.raises(InputError, match="flies 4 rotors, the vehicle has 6"):
        axes.rotor_order(airframe("hexacopter"), {4: BETAFLIGHT_X}, "it")
