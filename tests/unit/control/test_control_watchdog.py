"""The inner loop under its watchdog: what it does when inputs stay away or are broken."""

import math
from dataclasses import replace

import numpy as np
import pytest
from cross_airframe import CROSS

from quadsim.base.compiled import new_record
from quadsim.base.parameters import pack
from quadsim.base.records import ATTITUDE_COMMAND, MAX_ROTORS, ODOMETRY
from quadsim.control.airframe import effectiveness, pack_airframe
from quadsim.control.attitude import IDLE_THRUST
from quadsim.control.inner_loop import (
    COMMAND_LOST,
    FLYING,
    ODOMETRY_LOST,
    PHASES,
    STOPPED,
    WAITING,
    inner_loop,
    inner_loop_from_python,
    new_inner_loop,
)
from quadsim.control.parameters import AutopilotParams
from quadsim.geometry.rotation import from_euler

G = 9.80665
DT = 0.01
AIRFRAME = replace(CROSS, rotor_speed_max_radps=900.0)
PACKED = pack_airframe(AIRFRAME)
PARAMS = pack(AutopilotParams())


class Inner:
    """An inner loop with its inputs and their ages; a level vehicle that moves vertically."""

    def __init__(self):
        self.state = new_inner_loop()
        self.odometry, self.command = new_record(ODOMETRY), new_record(ATTITUDE_COMMAND)
        self.odometry.q_WB[0] = self.command.q_WB[0] = 1.0
        self.odometry_age = self.command_age = math.inf
        self.speeds = np.zeros(MAX_ROTORS)

    def step(self):
        phase = inner_loop(
            self.state, PARAMS, PACKED, self.odometry, self.odometry_age, self.command,
            self.command_age, DT, self.speeds,
        )  # fmt: skip
        assert np.isfinite(self.speeds).all()
        return phase

    def run(self, seconds, lost=(), physics=False):
        """Steps; inputs named in ``lost`` grow older, others are fresh. Returns the last phase."""
        phase = WAITING
        for _ in range(round(seconds / DT)):
            self.odometry_age = self.odometry_age + DT if "odometry" in lost else 0.0
            self.command_age = self.command_age + DT if "command" in lost else 0.0
            phase = self.step()
            if physics:
                force_N = self.wrench()[0]
                self.odometry.v_W[2] += (force_N / AIRFRAME.mass_kg - G) * DT
                self.odometry.p_W[2] += self.odometry.v_W[2] * DT
                if self.odometry.p_W[2] <= 0.0:
                    self.odometry.p_W[2] = self.odometry.v_W[2] = 0.0
        return phase

    def wrench(self):
        forces = AIRFRAME.thrust_coefficient_N_s2 * self.speeds[:4] ** 2
        return effectiveness(AIRFRAME) @ forces

    def hover(self, height_m=2.0):
        """Idle on the ground, then hover at a height."""
        self.command.thrust = IDLE_THRUST
        self.run(0.1)
        self.odometry.p_W[2] = height_m
        self.command.thrust = G
        assert self.run(1.0) == FLYING
        return self


def test_nothing_received_keeps_the_rotors_still():
    inner = Inner()
    for _ in range(10):
        assert inner.step() == WAITING
    assert not inner.speeds.any()
    assert PHASES[WAITING] == "waiting"


def test_commands_are_obeyed_while_both_inputs_are_fresh():
    inner = Inner().hover()
    assert inner.wrench()[0] == pytest.approx(G)
    inner.command.thrust = 12.0
    inner.command.q_WB[:] = from_euler(0.1, 0.0, 0.0)
    inner.run(DT)
    assert inner.wrench()[0] == pytest.approx(12.0)
    assert inner.wrench()[1] > 0.0


def test_a_lost_command_becomes_a_level_descent_that_lands_and_stops():
    inner = Inner().hover(2.0)
    inner.command.q_WB[:] = from_euler(0.2, 0.0, 0.0)
    assert inner.run(0.49, lost=["command"]) == FLYING
    rolling = inner.wrench()[1]
    assert inner.run(0.03, lost=["command"]) == COMMAND_LOST
    # level is wanted now: inertia times both gains times the 0.2 rad that were commanded
    assert rolling - inner.wrench()[1] == pytest.approx(0.01 * 32.0 * 10.0 * 0.2, abs=0.02)
    assert inner.run(1.5, lost=["command"], physics=True) == COMMAND_LOST
    # first-order with gain 4 1/s: after 1.5 s within exp(-6) of 0.7 m/s
    assert inner.odometry.v_W[2] == pytest.approx(-0.7, abs=0.01)
    assert inner.run(4.0, lost=["command"], physics=True) == STOPPED
    assert inner.odometry.p_W[2] == 0.0
    assert not inner.speeds.any()


def test_a_command_that_comes_back_is_obeyed_again():
    inner = Inner().hover()
    assert inner.run(0.8, lost=["command"], physics=True) == COMMAND_LOST
    inner.command.thrust = 11.0
    assert inner.run(DT) == FLYING
    assert inner.wrench()[0] == pytest.approx(11.0)


def test_after_the_watchdogs_landing_only_a_stop_command_makes_ready_for_another_flight():
    inner = Inner().hover(0.3)
    assert inner.run(5.0, lost=["command"], physics=True) == STOPPED
    inner.command.thrust = G
    assert inner.run(0.1) == STOPPED
    assert not inner.speeds.any()
    inner.command.thrust = 0.0
    assert inner.run(0.1) == WAITING
    inner.command.thrust = G
    assert inner.run(0.1) == FLYING


def test_a_lost_odometry_pauses_attitude_feedback_then_descends_open_loop_then_stops():
    inner = Inner().hover(2.0)
    inner.odometry.w_B[0] = 1.0  # a rate held for half a second would tumble the vehicle
    assert inner.run(0.04, lost=["odometry"]) == FLYING
    assert inner.wrench()[1] < -0.01
    assert inner.run(0.4, lost=["odometry"]) == FLYING
    np.testing.assert_allclose(inner.wrench(), [G, 0, 0, 0], atol=1e-9)
    assert inner.run(0.1, lost=["odometry"]) == ODOMETRY_LOST
    np.testing.assert_allclose(inner.wrench(), [0.97 * G, 0, 0, 0], atol=1e-9)
    falling_s = math.sqrt(2 * 2.0 / (0.03 * G)) + 1.0
    assert inner.run(falling_s - 0.2, lost=["odometry", "command"]) == ODOMETRY_LOST
    assert inner.run(0.3, lost=["odometry", "command"]) == STOPPED
    assert not inner.speeds.any()


def test_without_odometry_the_gyroscope_keeps_the_vehicle_level():
    """Upset by 0.3 rad as the odometry goes: linear angular motion, integrated here."""
    inner = Inner().hover(2.0)
    inner.odometry.q_WB[:] = from_euler(0.3, 0.0, 0.0)
    inner.run(DT)
    roll, rate = 0.3, 0.0
    for _ in range(150):
        inner.state.gyro_B[:] = [rate, 0.0, 0.0]
        phase = inner.run(DT, lost=["odometry"])
        rate += inner.wrench()[1] / AIRFRAME.inertia_kg_m2[0] * DT
        roll += rate * DT
    assert phase == ODOMETRY_LOST
    assert abs(roll) < 0.01
    # as before, a little less than hover, now along the vertical
    assert inner.wrench()[0] == pytest.approx(0.97 * G, rel=0.01)
    inner.state.gyro_B[:] = math.nan
    assert inner.run(DT, lost=["odometry"]) == ODOMETRY_LOST
    # no torque; the hover thrust was learned while it was tilted
    np.testing.assert_allclose(inner.wrench(), [0.97 * G, 0, 0, 0], rtol=0.01, atol=1e-9)


def test_an_odometry_that_comes_back_is_flown_on_again():
    inner = Inner().hover()
    assert inner.run(0.7, lost=["odometry"]) == ODOMETRY_LOST
    assert inner.run(DT) == FLYING
    assert inner.wrench()[0] == pytest.approx(G)


@pytest.mark.parametrize("name", ["odometry", "command"])
def test_inputs_with_a_nan_were_not_received(name):
    inner = Inner().hover()
    record = inner.odometry if name == "odometry" else inner.command
    record.q_WB[2] = math.nan
    assert inner.run(0.4) == FLYING
    assert inner.wrench()[0] == pytest.approx(G)
    expected = ODOMETRY_LOST if name == "odometry" else COMMAND_LOST
    assert inner.run(0.2) == expected
    record.q_WB[2] = 0.0
    assert inner.run(DT) == FLYING


def test_a_nan_in_any_field_never_reaches_the_rotors():
    for field in ("p_W", "v_W", "q_WB", "w_B"):
        inner = Inner().hover()
        inner.odometry[field][1] = math.nan
        inner.run(0.7)
    for field in ("thrust", "yaw_rate"):
        inner = Inner().hover()
        inner.command[field] = math.inf
        assert inner.run(0.7) == COMMAND_LOST


def test_on_the_ground_lost_inputs_stop_the_motors():
    for lost in ("command", "odometry"):
        inner = Inner()
        inner.command.thrust = IDLE_THRUST
        assert inner.run(0.2) == FLYING
        assert inner.speeds[0] == pytest.approx(100.0)
        assert inner.run(0.6, lost=[lost]) == WAITING
        assert not inner.speeds.any()


def test_a_stop_command_is_obeyed_even_without_an_odometry():
    inner = Inner().hover()
    inner.run(0.7, lost=["odometry"])
    inner.command.thrust = 0.0
    assert inner.run(DT, lost=["odometry"]) == WAITING
    assert not inner.speeds.any()


def test_the_descent_uses_the_thrust_that_was_learned_to_hover():
    inner = Inner()
    inner.command.thrust = IDLE_THRUST
    inner.run(0.1)
    inner.odometry.p_W[2] = 5.0
    inner.command.thrust = 1.1 * G  # a vehicle heavier than believed
    inner.run(10.0)
    # time constant 2 s: after 10 s within exp(-5) of it
    assert inner.state.hover == pytest.approx(1.1 * G, rel=1e-3)


def test_arrays_of_one_give_what_their_records_give():
    records, arrays = Inner().hover(), Inner().hover()
    states, odometries = np.array([arrays.state]), np.array([arrays.odometry])
    commands = np.array([arrays.command])
    for step in range(50):
        for odometry in (records.odometry, odometries[0]):
            odometry.w_B[:] = 0.1 * math.sin(step), 0.2, -0.1
        age_s = 0.02 * step  # until the odometry is lost
        records.odometry_age, records.command_age = age_s, 0.0
        phase = inner_loop_from_python(
            states, np.array([PARAMS]), np.array([PACKED]), odometries, age_s, commands,
            0.0, DT, arrays.speeds,
        )  # fmt: skip
        assert phase == records.step()
        assert arrays.speeds.tobytes() == records.speeds.tobytes()
    assert phase == ODOMETRY_LOST
    assert states[0].tobytes() == records.state.tobytes()


@pytest.mark.parametrize(("w_variance", "righted"), [(0.0, True), (0.25, False)])
def test_an_attitude_counts_unless_its_rates_are_guessed(w_variance, righted):
    """An odometry may leave its rates zero; with a deviation beside them nobody measures them."""
    inner = Inner().hover(2.0)
    inner.odometry.w_variance = w_variance
    inner.odometry.q_WB[:] = from_euler(0.3, 0.0, 0.0)
    inner.run(DT)
    # inertia times both gains times 0.3 rad, back to level; or none, as it was level before
    torque = -0.01 * 32.0 * 10.0 * 0.3 if righted else 0.0
    assert inner.wrench()[1] == pytest.approx(torque, abs=0.02)
