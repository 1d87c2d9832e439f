"""Pushes, motors, dropped mass and wind: what they do, when, and what is refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from quadsim.base.compiled import Record
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import dtype_of, load
from quadsim.vehicle.disturbances import (
    MAX_DISTURBANCES,
    LoadRelease,
    MassDrop,
    MotorChange,
    Push,
    WindChange,
    apply_disturbances,
    change_wind,
    changes,
    check_disturbances,
    disturbances_from,
    disturbances_from_text,
    disturbances_to_text,
    pack_disturbances,
)
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import ContactParams, LoadParams, VehicleParams
from quadsim.vehicle.propulsion.parameters import RotorParams
from quadsim.vehicle.state import Held, Suspension
from quadsim.world.environment import EnvironmentParams

X500 = load(VehicleParams, find("vehicles", "x500"))
MS = 1_000_000


class Holding(Record):
    """What of a vehicle disturbances act on."""

    held: Held
    suspension: Suspension


class Flight:
    """What is held over the steps of a vehicle that is only disturbed."""

    def __init__(self, *disturbances, step_ns=MS, vehicle=1):
        self.vehicle = np.zeros(1, dtype_of(Holding)).view(np.recarray)[0]
        self.held = self.vehicle.held
        self.held.mass_kg = 2.0
        self.held.effectiveness[:] = 1.0
        self.table = pack_disturbances(disturbances, vehicle)
        self.step_ns, self.now_ns = step_ns, 0
        self.wind = np.zeros(3)

    def step(self):
        to_ns = self.now_ns + self.step_ns
        apply_disturbances(self.vehicle, self.table, self.now_ns, to_ns)
        change_wind(self.wind, self.table, self.now_ns, to_ns)
        self.now_ns = to_ns


@pytest.mark.parametrize("step_ns", [MS, 2 * MS, 700_000])
def test_the_impulse_of_a_push_is_its_force_times_its_time_whatever_the_step(step_ns):
    push = Push(0.0103, 0.0501, force_W_N=(2.0, -1.0, 0.5), torque_B_Nm=(0.0, 0.1, 0.0))
    flight, impulse, turn = Flight(push, step_ns=step_ns), np.zeros(3), np.zeros(3)
    for _ in range(120):
        flight.step()
        impulse += flight.held.push_W_N * step_ns * 1e-9
        turn += flight.held.push_B_Nm * step_ns * 1e-9
    # rounding of 120 sums
    np.testing.assert_allclose(impulse, 0.0501 * np.array(push.force_W_N), rtol=1e-12)
    np.testing.assert_allclose(turn, 0.0501 * np.array(push.torque_B_Nm), rtol=1e-12)
    assert not flight.held.push_W_N.any()


def test_a_push_acts_from_its_stamp_to_its_end_and_pushes_add_up():
    flight = Flight(
        Push(0.010, 0.004, force_W_N=(1.0, 0.0, 0.0)), Push(0.012, 0.004, force_W_N=(0.0, 3.0, 0.0))
    )
    seen = []
    for _ in range(20):
        flight.step()
        seen.append(tuple(flight.held.push_W_N))
    assert seen[9] == (0.0, 0.0, 0.0)
    assert seen[10:12] == [(1.0, 0.0, 0.0)] * 2
    assert seen[12:14] == [(1.0, 3.0, 0.0)] * 2
    assert seen[14:16] == [(0.0, 3.0, 0.0)] * 2
    assert seen[16:] == [(0.0, 0.0, 0.0)] * 4


def test_a_motor_changes_and_mass_drops_once_in_the_step_of_their_stamp():
    flight = Flight(
        MotorChange(0.005, 2, 0.4), MassDrop(0.0054, 0.5), MotorChange(0.008, 2), MassDrop(0.0, 0.1)
    )
    masses, shares = [], []
    for _ in range(12):
        flight.step()
        masses.append(float(flight.held.mass_kg))
        shares.append(float(flight.held.effectiveness[2]))
    assert masses == [1.9] * 5 + [1.4] * 7  # 0.0054 s is in the sixth step
    assert shares == [1.0] * 5 + [0.4] * 3 + [0.0] * 4
    assert flight.held.effectiveness.sum() == 7.0


def test_what_is_for_another_vehicle_does_not_act():
    first, second = (
        Flight(MassDrop(0.0, 0.25, vehicle=2), MotorChange(0.0, 1), vehicle=number)
        for number in (1, 2)
    )
    for flight in (first, second):
        flight.step()
    assert (first.held.mass_kg, second.held.mass_kg) == (2.0, 1.75)
    assert first.held.effectiveness[1] == second.held.effectiveness[1] == 0.0


@pytest.mark.parametrize("step_ns", [MS, 3 * MS])
def test_wind_changes_along_half_a_cosine(step_ns):
    flight = Flight(WindChange(0.03, (4.0, 0.0, -1.0), rise_s=0.06), step_ns=step_ns)
    flight.wind[:] = 1.0, 2.0, 0.0
    while flight.now_ns < 120 * MS:
        flight.step()
        share = np.clip((flight.now_ns * 1e-9 - 0.03) / 0.06, 0.0, 1.0)
        rise = 0.5 * (1.0 - math.cos(math.pi * share))
        expected = np.array([1.0, 2.0, 0.0]) + rise * np.array([3.0, -2.0, -1.0])
        # what is left is divided by what was left, some 60 times
        np.testing.assert_allclose(flight.wind, expected, atol=1e-11)
    assert tuple(flight.wind) == (4.0, 0.0, -1.0)


def test_the_wind_that_was_asked_for_last_counts_and_one_without_rise_jumps():
    flight = Flight(
        WindChange(0.0, (9.0, 0.0, 0.0), rise_s=0.1),
        WindChange(0.02, (0.0, 5.0, 0.0)),
        WindChange(0.06, (0.0, 0.0, 0.0), rise_s=0.02),
    )
    for _ in range(20):
        flight.step()
    assert 0.0 < flight.wind[0] < 2.0
    flight.step()
    assert tuple(flight.wind) == (0.0, 5.0, 0.0)
    for _ in range(39):
        flight.step()
        assert tuple(flight.wind) == (0.0, 5.0, 0.0)
    for _ in range(20):
        flight.step()
    assert tuple(flight.wind) == (0.0, 0.0, 0.0)


def test_a_wind_set_from_outside_stays_when_no_change_is_under_way():
    flight = Flight(WindChange(0.0, (1.0, 0.0, 0.0), rise_s=0.002))
    for _ in range(5):
        flight.step()
    flight.wind[:] = 7.0, 7.0, 7.0
    flight.step()
    assert tuple(flight.wind) == (7.0, 7.0, 7.0)


EVENTS = """
- {kind: push, at_s: 1.0, duration_s: 0.5, force_W_N: [1.0, 0.0, 0.0]}
- {kind: motor, at_s: 2.0, index: 3}
- {kind: motor, at_s: 4.0, index: 3, effectiveness: 0.7}
- {kind: drop, at_s: 1.2, mass_kg: 0.3}
- {kind: wind, at_s: 3.0, wind_W_mps: [5.0, 0.0, 0.0], rise_s: 2.0}
"""


def test_events_are_told_in_order_and_survive_as_text():
    events = disturbances_from_text(EVENTS, "x")
    check_disturbances(events, X500, 1, "x")
    assert disturbances_from_text(disturbances_to_text(events), "x") == events
    assert disturbances_from_text("", "x") == ()
    assert changes(events) == [
        (1_000_000_000, "push of 1 0 0 N begins"),
        (1_200_000_000, "0.3 kg of the body dropped"),
        (1_500_000_000, "push of 1 0 0 N ends"),
        (2_000_000_000, "motor 3 lost"),
        (3_000_000_000, "wind becomes 5 0 0 m/s"),
        (4_000_000_000, "motor 3 at 70 %"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "shove"}, "events[0]: kind: 'shove' is not known; allowed: push, motor"),
        ({"kind": "push", "at_s": 1.0, "duration_s": 1.0}, "a push needs a force or a torque"),
        ({"kind": "push", "at_s": 1.0, "force_W_N": [1.0, 0.0, 0.0]}, "'duration_s' is missing"),
        ({"kind": "motor", "at_s": 1.0, "index": 0, "mass_kg": 1.0}, "unknown key 'mass_kg'"),
        ({"kind": "motor", "at_s": 1.0, "index": 0, "effectiveness": 1.1}, "effectiveness: 1.1"),
        ({"kind": "drop", "at_s": -1.0, "mass_kg": 1.0}, "at_s: -1.0 is out of range"),
        ({"kind": "drop", "at_s": 1.0, "mass_kg": math.nan}, "mass_kg: nan is out of range"),
        ({"kind": "motor", "at_s": 1.0, "index": 4}, "index: 4; motors of this vehicle: 0 to 3"),
        ({"kind": "motor", "at_s": 1.0, "index": 0, "vehicle": 3}, "vehicle: 3; allowed: 1 to 2"),
        ({"kind": "drop", "at_s": 1.0, "mass_kg": 3.0}, "mass_kg: 3 leaves -0.9357 kg of 2.0643"),
        ("push", "events[0]: expected keys and values, found 'push'"),
    ],
)
def test_what_cannot_happen_is_refused_in_one_line(change, words):
    with pytest.raises(InputError) as refusal:
        check_disturbances(disturbances_from([change], "file"), X500, 2, "file")
    assert words in str(refusal.value)
    assert str(refusal.value).startswith("file: events[0]")
    assert "\n" not in str(refusal.value)


def test_drops_count_together_for_each_vehicle():
    halves = [MassDrop(1.0, 1.5, vehicle=1), MassDrop(2.0, 1.5, vehicle=2)]
    check_disturbances(halves, X500, 2, "file")
    with pytest.raises(InputError, match=r"events\[1\]: mass_kg: 1.5 leaves -0.9357 kg"):
        check_disturbances([halves[0], replace(halves[1], vehicle=0)], X500, 2, "file")


def test_a_helicopter_has_no_motor_to_lose():
    helicopter = VehicleParams(
        name="h", mass_kg=1.0, inertia_kg_m2=(0.1, 0.1, 0.1), kind="helicopter"
    )
    with pytest.raises(InputError, match="index: 0; motors of this vehicle: none"):
        check_disturbances([MotorChange(1.0, 0)], helicopter, 1, "file")


def test_too_many_are_refused():
    many = [{"kind": "drop", "at_s": 1.0, "mass_kg": 0.001}] * (MAX_DISTURBANCES + 1)
    with pytest.raises(InputError, match="17 items; allowed: at most 16"):
        disturbances_from(many, "file")
    with pytest.raises(InputError, match="expected a list"):
        disturbances_from({"kind": "drop"}, "file")


# ---- on a vehicle ------------------------------------------------------------------------------

GRAVITY = 9.80665
#: Without drag and feet: what is left is Newton's law.
FREE = replace(
    X500,
    contact=ContactParams(points_B_m=()),
    body_drag_N_s_m=(0.0, 0.0, 0.0),
    drag_area_m2=(0.0, 0.0, 0.0),
    rotor=RotorParams(radius_m=X500.rotor.radius_m),
)


def fallen(*disturbances, until_s=0.1, params=FREE, count=1, speeds=()):
    """A fleet that falls from 50 m, its vehicles far apart, rotors turning at the speeds given."""
    poses = [(100.0 * i, 0.0, 0.0) for i in range(count)]
    fleet = Fleet(params, EnvironmentParams(), poses, disturbances=disturbances)
    for i in range(count):
        fleet.set_motion(i, (100.0 * i, 0.0, 50.0), rotor_speeds_radps=speeds)
        fleet.set_motor_command(i, speeds or (0.0,) * 4)
    fleet.step_to(round(until_s * 1e9))
    return fleet


def test_a_push_gives_its_momentum_and_its_spin():
    push = Push(0.02, 0.03, force_W_N=(4.0, -2.0, 1.0), torque_B_Nm=(0.0, 0.0, 0.02))
    truth = fallen(push).truth(0)
    fall = np.array([0.0, 0.0, -GRAVITY * 0.1])
    expected = fall + 0.03 * np.array(push.force_W_N) / FREE.mass_kg
    np.testing.assert_allclose(truth.v_W, expected, rtol=1e-12)
    assert truth.w_B[2] == pytest.approx(0.03 * 0.02 / FREE.inertia_kg_m2[2], rel=1e-9)


HOVER_RADPS = math.sqrt(FREE.mass_kg * GRAVITY / (4.0 * FREE.thrust_coefficient_N_s2))


def test_dropped_mass_lets_the_same_thrust_lift_more():
    truth = fallen(MassDrop(0.05, 0.5), speeds=(HOVER_RADPS,) * 4).truth(0)
    left_kg = FREE.mass_kg - 0.5
    # what the rotors lose at the speed of the climb stays below a hundredth
    assert truth.a_W[2] == pytest.approx(GRAVITY * (FREE.mass_kg / left_kg - 1.0), rel=1e-2)
    untouched = fallen(speeds=(HOVER_RADPS,) * 4).truth(0)
    assert abs(untouched.a_W[2]) < 1e-2


def test_a_released_load_falls_and_its_vehicle_is_free_of_it():
    slung = replace(FREE, load=LoadParams(mass_kg=0.4, rope_length_m=1.0))
    poses, release = [(0.0, 0.0, 0.0)], [LoadRelease(0.2)]
    fleet = Fleet(slung, EnvironmentParams(), poses, disturbances=release)
    fleet.set_motion(0, (0.0, 0.0, 50.0), rotor_speeds_radps=(HOVER_RADPS,) * 4)
    fleet.set_motor_command(0, (HOVER_RADPS,) * 4)
    fleet.step_to(199 * MS)
    assert fleet.truth(0).a_W[2] < -1.0  # hover thrust without the load's weight: both sink
    height, sinking = fleet.load_position(0)[2], fleet.truth(0).v_W[2]
    fleet.step_to(700 * MS)
    fallen_m = 0.5 * GRAVITY * 0.5**2 - sinking * 0.5  # without drag
    assert height - fleet.load_position(0)[2] == pytest.approx(fallen_m, rel=2e-2)
    assert abs(fleet.truth(0).a_W[2]) < 0.1 * GRAVITY * 0.4 / FREE.mass_kg
    rope = np.array(fleet.truth(0).p_W) - fleet.load_position(0)
    assert np.linalg.norm(rope) > 1.5


def test_a_release_needs_a_load():
    with pytest.raises(InputError, match="release: this vehicle has no load"):
        check_disturbances([LoadRelease(1.0)], FREE, 1, "here")


@pytest.mark.parametrize("effectiveness", [0.0, 0.6])
def test_a_weak_motor_slows_down_to_its_share_of_thrust_and_torque(effectiveness):
    """Its speed goes to the root of the share with the motor's lag; thrust and torque follow."""
    index, after_s = 1, 0.006
    change = MotorChange(0.002, index, effectiveness)
    fleet = fallen(change, until_s=0.002 + after_s, speeds=(HOVER_RADPS,) * 4)
    left = math.sqrt(effectiveness)
    ratio = left + (1.0 - left) * math.exp(-after_s / FREE.time_constant_down_s)
    expected = np.full(4, HOVER_RADPS)
    expected[index] *= ratio
    # RK4 with a step of a 25th of the motor's time constant
    np.testing.assert_allclose(fleet.motor_speeds(0), expected, rtol=1e-7)
    lost_N = (1.0 - ratio**2) * FREE.mass_kg * GRAVITY / 4.0
    truth, (x, y, _) = fleet.truth(0), FREE.rotor_positions_B_m[index]
    # what 6 ms of turning and falling do to the other rotors stays below 2 %
    assert truth.a_W[2] == pytest.approx(-lost_N / FREE.mass_kg, rel=2e-2)
    turn = np.array([-y * lost_N, x * lost_N]) / np.array(FREE.inertia_kg_m2[:2])
    np.testing.assert_allclose(truth.w_dot_B[:2], turn, rtol=2e-2)


def test_only_the_vehicle_that_is_meant_is_pushed():
    fleet = fallen(Push(0.0, 0.1, force_W_N=(1.0, 0.0, 0.0), vehicle=2), count=2)
    assert fleet.truth(0).v_W[0] == 0.0
    assert fleet.truth(1).v_W[0] == pytest.approx(0.1 / FREE.mass_kg, rel=1e-12)


def test_a_push_of_a_list_that_is_replaced_ends():
    fleet = fallen(Push(0.0, 1.0, force_W_N=(1.0, 0.0, 0.0)))
    fleet.set_disturbances(())
    fleet.step_to(200_000_000)
    assert fleet.truth(0).v_W[0] == pytest.approx(0.1 / FREE.mass_kg, rel=1e-12)


def test_the_wind_of_the_world_changes_for_all():
    change = WindChange(0.01, (3.0, -1.0, 0.0), rise_s=0.05)
    fleet = fallen(change, params=X500, count=2)
    for i in range(2):
        assert tuple(fleet.truth(i).wind_W) == (3.0, -1.0, 0.0)
    fleet.reset()
    assert tuple(fleet.truth(0).wind_W) == (0.0, 0.0, 0.0)


def test_a_reset_makes_vehicles_whole():
    fleet = fallen(MassDrop(0.0, 1.0), MotorChange(0.0, 0))
    fleet.reset(fleet.stamp_ns)
    held = fleet._vehicles[0].held
    assert held.mass_kg == FREE.mass_kg
    assert (held.effectiveness == 1.0).all()
