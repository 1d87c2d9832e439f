"""What the mixer promises for every airframe and every wrench."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from quadsim.base.errors import InputError
from quadsim.base.records import MAX_ROTORS
from quadsim.control.airframe import AirframeParams, effectiveness, pack_airframe
from quadsim.control.mixer import mix


def ring(rotors: int, first_deg: float, radii=None, turns=None) -> AirframeParams:
    """Rotors around the centre, directions alternating; each moved by a factor and an angle."""
    radii = radii or [1.0] * rotors
    turns = turns or [0.0] * rotors
    angles = [math.radians(first_deg + 360.0 * i / rotors + turns[i]) for i in range(rotors)]
    return AirframeParams(
        mass_kg=1.5,
        inertia_kg_m2=(0.02, 0.02, 0.035),
        rotor_positions_B_m=tuple(
            (0.25 * r * math.cos(a), 0.25 * r * math.sin(a), 0.02)
            for r, a in zip(radii, angles, strict=True)
        ),
        rotor_directions=tuple(1.0 if i % 2 == 0 else -1.0 for i in range(rotors)),
        thrust_coefficient_N_s2=8e-6,
        torque_ratio_m=0.016,
        rotor_speed_min_radps=120.0,
        rotor_speed_max_radps=1000.0,
    )


AIRFRAMES = {
    "quad x": ring(4, 45.0),
    "quad plus": ring(4, 0.0),
    "hexa": ring(6, 30.0),
    "octo": ring(8, 22.5),
}


@st.composite
def airframes(draw):
    """Rotors of any number, moved by a fifth of the radius and by 15 degrees at most."""
    rotors = draw(st.integers(4, 8))
    radii = [draw(st.floats(0.8, 1.2)) for _ in range(rotors)]
    turns = [draw(st.floats(-15.0, 15.0)) for _ in range(rotors)]
    try:
        return ring(rotors, draw(st.floats(0.0, 90.0)), radii, turns)
    except InputError:  # five rotors, say, of which one would have to pull
        assume(False)


frames = st.one_of(st.sampled_from(list(AIRFRAMES.values())), airframes())
#: Ordinary, far outside, and no number at all.
thrusts = st.one_of(st.floats(-10.0, 100.0), st.floats(-1e6, 1e6), st.just(math.nan))
torques = st.one_of(st.floats(-6.0, 6.0), st.floats(-1e4, 1e4), st.just(math.nan))


def limits(params):
    """Least and most thrust of a rotor in N."""
    k = params.thrust_coefficient_N_s2
    return k * params.rotor_speed_min_radps**2, k * params.rotor_speed_max_radps**2


def whole(number):
    """What the mixer takes for a number that is not finite."""
    return number if math.isfinite(number) else 0.0


@given(params=frames, thrust_N=thrusts, torque_B=st.tuples(torques, torques, torques))
def test_output_gives_the_wrench_back_or_says_what_was_cut(params, thrust_N, torque_B):
    rotors = len(params.rotor_directions)
    speeds = np.full(MAX_ROTORS, np.nan)
    reached_N, tilt, yaw = mix(pack_airframe(params), thrust_N, torque_B, speeds)

    assert np.all(speeds[:rotors] >= params.rotor_speed_min_radps)
    assert np.all(speeds[:rotors] <= params.rotor_speed_max_radps)
    assert not speeds[rotors:].any()

    wrench = effectiveness(params) @ (params.thrust_coefficient_N_s2 * speeds[:rotors] ** 2)
    tx, ty, tz = map(whole, torque_B)
    told = [reached_N, tilt * tx, tilt * ty, yaw * tz]
    # rounding of sums of numbers up to 1e5, which a mean of least and most leaves: some 1e-10
    np.testing.assert_allclose(wrench, told, atol=1e-9)
    assert 0.0 <= tilt <= 1.0
    assert 0.0 <= yaw <= 1.0


@given(params=frames, thrust_N=thrusts, torque_B=st.tuples(torques, torques, torques))
def test_no_more_is_cut_than_must_be_and_in_the_order_of_the_priorities(params, thrust_N, torque_B):
    speeds = np.zeros(MAX_ROTORS)
    reached_N, tilt, yaw = mix(pack_airframe(params), thrust_N, torque_B, speeds)
    lowest, highest = limits(params)
    inverse = np.linalg.pinv(effectiveness(params))
    tx, ty, tz = map(whole, torque_B)
    turn = inverse[:, 1] * tx + inverse[:, 2] * ty
    # roll and pitch first: the largest share that any thrust allows, by linear programming
    table = np.column_stack([inverse[:, 0], turn])
    best = linprog(
        [0.0, -1.0],
        A_ub=np.vstack([table, -table]),
        b_ub=np.concatenate([np.full(len(turn), highest), np.full(len(turn), -lowest)]),
        bounds=[(None, None), (0.0, 1.0)],
    )
    assert tilt == pytest.approx(best.x[1], rel=1e-6, abs=1e-8)
    # then thrust: the nearest to the wish that this leaves
    least = np.max((lowest - tilt * turn) / inverse[:, 0])
    most = np.min((highest - tilt * turn) / inverse[:, 0])
    wish = thrust_N if math.isfinite(thrust_N) else -math.inf
    assert reached_N == pytest.approx(max(min(wish, most), least), rel=1e-9, abs=1e-9)
    # then yaw: any more of it is too much for a rotor
    if tz != 0.0 and yaw < 1.0:
        more = inverse[:, 0] * reached_N + tilt * turn + (yaw + 1e-6) * inverse[:, 3] * tz
        assert more.min() < lowest + 1e-9 or more.max() > highest - 1e-9
