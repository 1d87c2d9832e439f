"""The helicopter against closed forms, and the autopilot that flies it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.analysis.summary import summarize
from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import from_mapping, load, new, pack
from quadsim.base.records import ATTITUDE_COMMAND, MAX_ROTORS, ODOMETRY
from quadsim.control.airframe import AirframeParams, known_airframe, pack_airframe
from quadsim.control.attitude import attitude_control, thrust_limits
from quadsim.control.mixer import equal_speeds, stick
from quadsim.control.parameters import AutopilotParams
from quadsim.control.records import AttitudeControl
from quadsim.geometry.rotation import from_euler
from quadsim.sim.closed_loop import run
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import FORMALISMS, PhysicsParams
from quadsim.world.environment import EnvironmentParams

THESIS = load(VehicleParams, find("vehicles", "thesis_helicopter"))
LAGGING = replace(THESIS, helicopter=replace(THESIS.helicopter, rate_time_constant_s=0.08))
X500 = load(VehicleParams, find("vehicles", "x500"))
GRAVITY = 9.80665
HOVER = 1.0 / 1.7
#: The thesis: rho A C_D of its drag, in kg/m.
DRAG = 1.204 * 0.1 * 0.2 * 1.0
SECOND_NS = 1_000_000_000


def flown(params, command, seconds=1.0, environment=None, physics=None, torque_B_Nm=None, **start):
    """A fleet of one after some seconds under one command, from 100 m of height."""
    fleet = Fleet(params, environment or EnvironmentParams(), physics=physics)
    fleet.set_motion(0, (0.0, 0.0, 100.0), **start)
    fleet.set_motor_command(0, command)
    if torque_B_Nm is not None:
        fleet.set_external_wrench(0, (0.0, 0.0, 0.0), torque_B_Nm)
    fleet.step_to(round(seconds * 1e9))
    return fleet


@pytest.mark.parametrize("throttle", [0.0, HOVER, 1.0])
def test_lift_is_1_7_weights_at_full_throttle(throttle):
    truth = flown(THESIS, (0.0, 0.0, 0.0, throttle), seconds=0.001).truth(0)
    # within one step from rest the drag comes to 1.2e-6 N
    expected = GRAVITY * (1.7 * throttle - 1.0)
    assert truth.a_W[2] == pytest.approx(expected, abs=1.2e-6 / THESIS.mass_kg)


def test_it_falls_towards_its_terminal_velocity_as_the_closed_form_says():
    """From rest, m v_dot = m g - rho/2 A C_D v^2 gives v = v_T tanh(g t / v_T)."""
    final = math.sqrt(2.0 * THESIS.mass_kg * GRAVITY / DRAG)
    truth = flown(THESIS, (0.0, 0.0, 0.0, 0.0), seconds=4.0).truth(0)
    expected = final * math.tanh(4.0 * GRAVITY / final)
    # the area in the file has six digits
    assert truth.v_W[2] == pytest.approx(-expected, rel=1e-5)


def test_top_speed_of_80_km_per_hour():
    """The thesis chose C_D = 1 for it: at full throttle and level, tilted by acos(1 / 1.7)."""
    tilt = math.acos(1.0 / 1.7)
    fleet = Fleet(THESIS, EnvironmentParams())
    fleet.set_motion(0, (0.0, 0.0, 100.0), q_WB=from_euler(0.0, tilt, 0.0))
    fleet.set_motor_command(0, (0.0, 0.0, 0.0, 1.0))
    fleet.step_to(20 * SECOND_NS)
    truth = fleet.truth(0)
    closed_form_mps = math.sqrt(THESIS.mass_kg * GRAVITY * math.sqrt(1.7**2 - 1.0) / (0.5 * DRAG))
    # 20 s are 13 time constants m v / (rho A C_D v^2): what is left is below 1e-5
    assert truth.v_W[0] == pytest.approx(closed_form_mps, rel=1e-4)
    assert truth.v_W[2] == pytest.approx(0.0, abs=1e-3)
    assert 3.6 * closed_form_mps == pytest.approx(80.0, abs=0.5)  # "around 80 km/h"


def test_wind_carries_it_by_the_air_relative_velocity():
    wind = EnvironmentParams(wind_W_mps=(6.0, -8.0, 0.0))
    truth = flown(THESIS, (0.0, 0.0, 0.0, HOVER), seconds=0.001, environment=wind).truth(0)
    push = 0.5 * DRAG * 10.0**2 / THESIS.mass_kg
    np.testing.assert_allclose(truth.a_W[:2], (0.6 * push, -0.8 * push), rtol=1e-3)


def test_the_body_turns_as_the_stick_says():
    rates = (0.7, -0.4, 0.5)
    fleet = flown(THESIS, (*rates, HOVER), seconds=1.5)
    truth = fleet.truth(0)
    assert tuple(truth.w_B) == rates
    assert tuple(truth.w_dot_B) == (0.0, 0.0, 0.0)
    expected = Rotation.from_rotvec(np.array(rates) * 1.5)
    error = expected.inv() * Rotation.from_quat(np.roll(truth.q_WB, -1))
    # RK4 on a rotation of 0.95 rad/s in steps of 1 ms: below 1e-12 a second, and rounding
    assert error.magnitude() < 1e-9
    assert tuple(fleet.motor_speeds(0)) == (*rates, HOVER)


def test_no_torque_turns_it_without_a_lag():
    truth = flown(THESIS, (0.0, 0.0, 0.0, HOVER), seconds=0.1, torque_B_Nm=(1.0, 1.0, 1.0)).truth(0)
    assert tuple(truth.w_B) == (0.0, 0.0, 0.0)


def test_with_a_lag_the_rates_follow_the_stick_exponentially_and_torques_turn_it():
    """T w_dot = stick - w + T I^-1 torque on each axis: no axis feels another."""
    rates, torque = np.array((2.0, -1.0, 1.5)), np.array((0.03, 0.02, -0.04))
    lag_s = LAGGING.helicopter.rate_time_constant_s
    final = rates + lag_s * torque / np.array(LAGGING.inertia_kg_m2)
    for seconds in (0.05, 0.2):
        truth = flown(LAGGING, (*rates, HOVER), seconds=seconds, torque_B_Nm=torque).truth(0)
        expected = final * (1.0 - math.exp(-seconds / lag_s))
        # RK4 with a step of T / 80: (1/80)^4 / 120 relative a time constant
        np.testing.assert_allclose(truth.w_B, expected, rtol=1e-8)
        np.testing.assert_allclose(truth.w_dot_B, (final - expected) / lag_s, rtol=1e-6)


def test_commands_are_cut_to_the_stick_and_to_full_throttle():
    most = np.array(THESIS.helicopter.stick_rate_max_radps)
    fleet = flown(THESIS, (100.0, -100.0, 100.0, 2.0), seconds=0.002)
    np.testing.assert_array_equal(fleet.motor_speeds(0), [most[0], -most[1], most[2], 1.0])
    fleet.set_motor_command(0, (math.nan, 0.0, 0.0, -1.0))
    fleet.step_to(4_000_000)
    np.testing.assert_array_equal(fleet.motor_speeds(0), np.zeros(4))


@pytest.mark.parametrize("params", [THESIS, LAGGING], ids=["direct", "lagging"])
def test_every_formalism_flies_it_alike(params):
    positions, attitudes = [], []
    for formalism in FORMALISMS:
        physics = PhysicsParams(formalism=formalism)
        truth = flown(params, (0.3, 0.2, -0.5, 0.65), seconds=2.0, physics=physics).truth(0)
        positions.append(np.array(truth.p_W))
        attitudes.append(Rotation.from_quat(np.roll(truth.q_WB, -1)))
    for position, attitude in zip(positions, attitudes, strict=True):
        # each integrates to fourth order in steps of 1 ms
        np.testing.assert_allclose(position, positions[0], atol=1e-8)
        assert (attitude.inv() * attitudes[0]).magnitude() < 1e-8


def test_every_figure_changes_the_flight():
    def end(**changes):
        params = replace(THESIS, helicopter=replace(THESIS.helicopter, **changes))
        truth = flown(params, (5.0, 4.0, 2.0, 0.7), seconds=0.2).truth(0)
        return np.concatenate([truth.v_W, truth.q_WB])

    plain = end()
    for changes in (
        {"lift_ratio": 1.8},
        {"stick_rate_max_radps": (4.0, 6.0, 3.0)},
        {"stick_rate_max_radps": (6.0, 3.0, 3.0)},
        {"stick_rate_max_radps": (6.0, 6.0, 1.0)},
        {"rate_time_constant_s": 0.02},
    ):
        assert np.abs(end(**changes) - plain).max() > 1e-3, changes


def test_its_inertia_counts_where_torques_turn_it():
    x, y, z = LAGGING.inertia_kg_m2
    slow = replace(LAGGING, inertia_kg_m2=(2.0 * x, y, z))
    rates = [
        flown(params, (0.0, 0.0, 0.0, HOVER), seconds=1.0, torque_B_Nm=(0.01, 0.0, 0.0))
        .truth(0)
        .w_B[0]
        for params in (LAGGING, slow)
    ]
    assert rates[0] == pytest.approx(2.0 * rates[1], rel=1e-5)


BASE = {"name": "h", "mass_kg": 1.0, "inertia_kg_m2": [0.1, 0.1, 0.1], "kind": "helicopter"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "airship"}, "kind: 'airship' is not known; allowed: one of multirotor"),
        ({"rotor_speed_max_radps": 900.0}, "rotor_speed_max_radps: a helicopter has none"),
        ({"rotor_directions": [1.0, -1.0]}, "rotor_directions: a helicopter has none"),
        ({"helicopter": {"lift_ratio": 1.0}}, "lift_ratio: 1 does not lift the weight"),
        ({"helicopter": {"lift_ratio": 0.0}}, "lift_ratio: 0.0 is out of range"),
        ({"helicopter": {"collective": 1.0}}, "unknown key 'collective'"),
        ({"kind": "multirotor"}, "thrust_coefficient_N_s2: 0.0; a multirotor needs one, > 0"),
    ],
)
def test_helicopters_that_cannot_be_are_refused(change, words):
    with pytest.raises(InputError) as refusal:
        from_mapping(VehicleParams, BASE | change, "file")
    assert words in str(refusal.value)


def test_a_multirotor_has_no_stick():
    with pytest.raises(InputError, match="helicopter: this is a multirotor"):
        replace(X500, helicopter=replace(X500.helicopter, lift_ratio=2.0))


# ---- the autopilot -----------------------------------------------------------------------------

AIRFRAME = pack_airframe(known_airframe(THESIS))
GAINS = AutopilotParams()


def commanded(thrust=GRAVITY, q_command=(1.0, 0.0, 0.0, 0.0), yaw_rate=0.0, **odometry_fields):
    """The helicopter's command for an attitude command."""
    odometry, command = new_record(ODOMETRY), new_record(ATTITUDE_COMMAND)
    odometry.q_WB[:] = odometry_fields.get("q_WB", (1.0, 0.0, 0.0, 0.0))
    odometry.w_B[:] = odometry_fields.get("w_B", (0.0, 0.0, 0.0))
    command.q_WB[:] = q_command
    command.thrust, command.yaw_rate = thrust, yaw_rate
    result = np.full(MAX_ROTORS, np.nan)
    attitude_control(new(AttitudeControl), pack(GAINS), AIRFRAME, odometry, command, 0.002, result)
    return result


def test_the_autopilot_gives_rates_and_the_throttle_that_lifts():
    command = commanded(1.2 * GRAVITY, from_euler(0.02, -0.03, 0.0), yaw_rate=0.4)
    gain = GAINS.attitude.tilt_gain
    # a tilt of 0.036 rad; its square is what the small angles leave out
    np.testing.assert_allclose(command[:3], (gain * 0.02, gain * -0.03, 0.4), atol=2e-3)
    assert command[3] == pytest.approx(1.2 / 1.7, rel=1e-12)
    assert not command[4:].any()


def test_the_rates_are_not_controlled_again():
    assert (commanded(w_B=(1.0, -2.0, 3.0)) == commanded()).all()


def test_thrust_keeps_a_reserve_and_zero_stops():
    least, most = thrust_limits(GAINS.attitude.thrust_reserve, AIRFRAME)
    assert (least, most) == pytest.approx((0.05 * 1.7 * GRAVITY, 0.95 * 1.7 * GRAVITY))
    assert commanded(100.0)[3] == pytest.approx(0.95)
    assert commanded(0.5)[3] == pytest.approx(0.05)
    assert not commanded(0.0).any()


def test_the_stick_stays_in_its_range_and_a_number_that_is_missing_counts_as_zero():
    command = np.full(MAX_ROTORS, np.nan)
    stick(AIRFRAME, 1e3, (50.0, -50.0, 50.0), command)
    np.testing.assert_array_equal(command, [6.0, -6.0, 3.0, 1.0, 0, 0, 0, 0])
    stick(AIRFRAME, math.nan, (math.nan, math.inf, -1.0), command)
    np.testing.assert_array_equal(command, [0.0, 0.0, -1.0, 0.0, 0, 0, 0, 0])
    equal_speeds(AIRFRAME, THESIS.mass_kg * GRAVITY, command)
    np.testing.assert_allclose(command, [0, 0, 0, HOVER, 0, 0, 0, 0], rtol=1e-12)
    equal_speeds(AIRFRAME, 0.0, command)
    assert not command.any()


def test_what_the_controller_believes_is_checked():
    with pytest.raises(InputError, match=r"lift_ratio: 0\.9 does not lift"):
        replace(known_airframe(THESIS), lift_ratio=0.9)
    assert known_airframe(THESIS).commands == ("roll_rate", "pitch_rate", "yaw_rate", "throttle")
    assert known_airframe(X500).commands == ("rotor_0", "rotor_1", "rotor_2", "rotor_3")
    with pytest.raises(InputError, match=r"torque_ratio_m: 0\.0; a multirotor needs one"):
        AirframeParams(mass_kg=1.0, inertia_kg_m2=(1.0, 1.0, 1.0), thrust_coefficient_N_s2=1e-5)


@pytest.mark.parametrize("name", ["hover", "square"])
def test_the_autopilot_flies_it(name):
    scenario = load_scenario(name, vehicle="thesis_helicopter")
    log, _ = run(scenario)
    summary = summarize(log, scenario.criteria)
    assert summary["passed"], summary["criteria"]
    stick = np.array(THESIS.helicopter.stick_rate_max_radps)
    assert (np.abs(log.motor_speed_radps[:, :3]) <= stick).all()
    throttle = log.motor_speed_radps[:, 3]
    assert throttle.min() >= 0.0
    assert throttle.max() <= 1.0
    assert np.median(throttle) == pytest.approx(HOVER, rel=0.02)
