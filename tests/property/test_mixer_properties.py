"""What the mixer promises for every airframe and every wrench."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadsim.control.airframe import AirframeParams, effectiveness, pack_airframe
from quadsim.control.mixer import mix
from quadsim.records import MAX_ROTORS


def ring(rotors: int, first_deg: float) -> AirframeParams:
    """Rotors evenly around the centre, directions alternating."""
    angles = [math.radians(first_deg + 360.0 * i / rotors) for i in range(rotors)]
    return AirframeParams(
        mass_kg=1.5,
        inertia_kg_m2=(0.02, 0.02, 0.035),
        rotor_positions_B_m=tuple((0.25 * math.cos(a), 0.25 * math.sin(a), 0.02) for a in angles),
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
PACKED = {name: pack_airframe(params) for name, params in AIRFRAMES.items()}
torques = st.floats(-6.0, 6.0)


@pytest.mark.parametrize("name", AIRFRAMES)
@given(
    thrust_N=st.floats(-10.0, 100.0),
    torque_B=st.tuples(torques, torques, st.floats(-1.0, 1.0)),
)
def test_output_gives_the_wrench_back_or_says_what_was_cut(name, thrust_N, torque_B):
    params = AIRFRAMES[name]
    rotors = len(params.rotor_directions)
    speeds = np.full(MAX_ROTORS, np.nan)
    reached_N, tilt, yaw = mix(PACKED[name], thrust_N, torque_B, speeds)

    assert np.all(speeds[:rotors] >= params.rotor_speed_min_radps)
    assert np.all(speeds[:rotors] <= params.rotor_speed_max_radps)
    assert not speeds[rotors:].any()

    wrench = effectiveness(params) @ (params.thrust_coefficient_N_s2 * speeds[:rotors] ** 2)
    told = [reached_N, tilt * torque_B[0], tilt * torque_B[1], yaw * torque_B[2]]
    # rounding of sums of numbers up to 100
    np.testing.assert_allclose(wrench, told, atol=1e-11)
    assert 0.0 <= tilt <= 1.0
    assert 0.0 <= yaw <= 1.0
    least_N = rotors * params.thrust_coefficient_N_s2 * params.rotor_speed_min_radps**2
    most_N = rotors * params.thrust_coefficient_N_s2 * params.rotor_speed_max_radps**2
    assert reached_N == pytest.approx(np.clip(thrust_N, least_N, most_N), rel=1e-12)


@pytest.mark.parametrize("name", AIRFRAMES)
@given(
    thrust_N=st.floats(5.0, 25.0),
    torque_B=st.tuples(torques, torques, st.floats(-1.0, 1.0)),
)
def test_what_is_cut_could_not_have_been_given(name, thrust_N, torque_B):
    params = AIRFRAMES[name]
    speeds = np.zeros(MAX_ROTORS)
    reached_N, tilt, yaw = mix(PACKED[name], thrust_N, torque_B, speeds)
    lowest = params.thrust_coefficient_N_s2 * params.rotor_speed_min_radps**2
    highest = params.thrust_coefficient_N_s2 * params.rotor_speed_max_radps**2
    inverse = np.linalg.pinv(effectiveness(params))
    for tilt_more, yaw_more, is_cut in ((1e-6, 0.0, tilt < 1.0), (0.0, 1e-6, yaw < 1.0)):
        if not is_cut:
            continue
        yaw_wanted = 0.0 if tilt_more else yaw + yaw_more
        share = tilt + tilt_more
        wanted = [reached_N, share * torque_B[0], share * torque_B[1], yaw_wanted * torque_B[2]]
        forces = inverse @ wanted
        assert forces.min() < lowest + 1e-12 or forces.max() > highest - 1e-12
