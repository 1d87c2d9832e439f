"""Collisions of two vehicles: momentum, energy, and what is out of reach."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.geometry.rotation import from_euler
from quadsim.vehicle.contact.points import NO_CRASH, VEHICLES_STRUCK
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.state import P, Q, V, W
from quadsim.world.environment import EnvironmentParams

SECOND_NS = 1_000_000_000
SPACE = EnvironmentParams(ground_height_m=-1000.0, gravity_mps2=0.0)
X500 = load(VehicleParams, find("vehicles", "x500"))
BARE = replace(
    X500, rotor_drag_N_s2=0.0, body_drag_N_s_m=(0.0, 0.0, 0.0), drag_area_m2=(0.0, 0.0, 0.0)
)


def meeting(states, params=BARE, environment=SPACE):
    """Vehicles in space: position, velocity, roll-pitch-yaw and body rates of each."""
    fleet = Fleet(params, environment, poses=[(10.0 * k, 0.0, 0.0) for k in range(len(states))])
    for vehicle, (p, v, rpy, w) in zip(fleet._vehicles, states, strict=True):
        x = vehicle.x
        x[P : P + 3], x[V : V + 3], x[W : W + 3] = p, v, w
        x[Q : Q + 4] = from_euler(*map(float, rpy))
    return fleet


def run(fleet, seconds):
    fleet.step_to(fleet.stamp_ns + round(seconds * SECOND_NS))
    return [fleet.truth(i) for i in range(fleet.count)]


def totals(fleet, params=BARE):
    """Momentum, angular momentum about the origin, and energy of motion of all."""
    momentum, spin, energy = np.zeros(3), np.zeros(3), 0.0
    inertia = np.array(params.inertia_kg_m2)
    for i in range(fleet.count):
        truth = fleet.truth(i)
        p, v, w = (np.array(truth[name]) for name in ("p_W", "v_W", "w_B"))
        momentum += params.mass_kg * v
        turn = Rotation.from_quat(np.roll(truth.q_WB, -1))
        spin += params.mass_kg * np.cross(p, v) + turn.apply(inertia * w)
        energy += 0.5 * params.mass_kg * v @ v + 0.5 * inertia @ np.square(w)
    return momentum, spin, energy


STILL = ((0, 0, 0), (0, 0, 0))
PAIRS = {
    "head on": [((0, 0, 0), (1.5, 0, 0), *STILL), ((1.5, 0, 0), (0, 0, 0), *STILL)],
    "off centre": [
        ((0, 0.2, 0.1), (2.0, 0, 0), (0.1, 0.2, 0.3), (0, 0, 0)),
        ((1.5, 0, 0), (-1.0, 0, 0), (0, 0, 0.5), (1, -2, 3)),
    ],
    "from above": [
        ((0.1, 0.1, 1.0), (0, 0, -2.0), (0, 0.1, 0.2), (0, 0, 0)),
        ((0, 0, 0), (0, 0, 0), *STILL),
    ],
}


@pytest.mark.parametrize("states", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("damping_ratio", [0.1, 0.7])
def test_momentum_is_kept_and_energy_does_not_grow(states, damping_ratio):
    """Forces are equal and opposite to rounding.

    Their torques are those of the middle of each step, so that the sum of the angular momenta
    about the origin is off by (w dt)^2 of what is exchanged; w dt of the springs is 0.1 to 0.4.
    """
    contact = replace(BARE.contact, damping_ratio=damping_ratio, hull_sag_m=0.003)
    params = replace(BARE, contact=contact)
    fleet = meeting(states, params)
    run(fleet, 0.0)
    momentum, spin, energy = totals(fleet, params)
    for _ in range(150):
        run(fleet, 0.01)
        now = totals(fleet, params)
        assert now[0] == pytest.approx(momentum, abs=1e-12)
        assert now[1] == pytest.approx(spin, abs=5e-3)
        assert now[2] <= energy * (1.0 + 1e-9)
    gone = np.array(fleet.truth(0).v_W) - fleet.truth(1).v_W
    apart = np.array(fleet.truth(0).p_W) - fleet.truth(1).p_W
    assert gone @ apart > 0.0  # they part
    assert now[2] < 0.95 * energy


def test_head_on_they_swap_their_speeds_without_a_damper():
    """Met at the height of the centre of mass, so that none of it goes into spin."""
    ring = tuple((0.3 * np.cos(a), 0.3 * np.sin(a), 0.0) for a in np.arange(8) * np.pi / 4)
    contact = replace(BARE.contact, damping_ratio=0.0, hull_sag_m=0.003, hull_B_m=ring)
    fleet = meeting(
        PAIRS["head on"], replace(BARE, contact=replace(contact, points_B_m=((0, 0, 0),)))
    )
    first, second = run(fleet, 2.0)
    # (w dt)^2 / 6 of the energy, where the springs set in
    assert first.v_W == pytest.approx([0.0, 0.0, 0.0], abs=0.02)
    assert second.v_W == pytest.approx([1.5, 0.0, 0.0], abs=0.02)


@pytest.mark.parametrize(("speed", "crash"), [(0.8, NO_CRASH), (1.2, VEHICLES_STRUCK)])
def test_a_fast_touch_is_a_crash_of_both(speed, crash):
    fleet = meeting(
        [((0, 0, 0), (speed, 0, 0), *STILL), ((1.5, 0, 0), (0, 0, 0), *STILL)],
    )
    run(fleet, 3.0)
    assert [fleet.crash(0), fleet.crash(1)] == [crash, crash]
    assert fleet.truth(1).v_W[0] > 0.1


def test_who_is_first_does_not_matter():
    forward = meeting(PAIRS["off centre"])
    backward = meeting(PAIRS["off centre"][::-1])
    for _ in range(20):
        run(forward, 0.05)
        run(backward, 0.05)
        # the same sums in another order
        assert forward.truth(0).v_W == pytest.approx(backward.truth(1).v_W, abs=1e-9)
        assert forward.truth(1).w_B == pytest.approx(backward.truth(0).w_B, abs=1e-9)


def test_a_turned_and_moved_pair_does_the_same():
    shift, turn = np.array([3.0, -2.0, 5.0]), Rotation.from_euler("xyz", [0.4, -0.3, 1.0])
    moved = []
    for p, v, rpy, w in PAIRS["off centre"]:
        own = turn * Rotation.from_euler("ZYX", rpy[::-1])
        moved.append((turn.apply(p) + shift, turn.apply(v), own.as_euler("ZYX")[::-1], w))
    plain, turned = meeting(PAIRS["off centre"]), meeting(moved)
    run(plain, 0.8)
    run(turned, 0.8)
    for i in range(2):
        assert turned.truth(i).v_W == pytest.approx(turn.apply(plain.truth(i).v_W), abs=1e-7)
        assert turned.truth(i).w_B == pytest.approx(np.array(plain.truth(i).w_B), abs=1e-6)


def test_one_lands_on_the_other():
    """It rests on the body below, or slides off: in neither case through it."""
    fleet = Fleet(X500, EnvironmentParams(), poses=[(0.0, 0.0, 0.0), (3.0, 0.0, 0.0)])
    fleet._vehicles[1].x[P : P + 3] = 0.05, 0.0, 0.75
    lowest = 1.0
    for _ in range(100):
        low, high = run(fleet, 0.01)
        if np.hypot(*(high.p_W - low.p_W)[:2]) < 0.2:
            lowest = min(lowest, high.p_W[2])
    # the body of the lower one ends with its rotors, 0.284 m above the ground
    assert lowest > 0.284 + 0.229 - 0.05
