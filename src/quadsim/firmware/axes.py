"""Axes, units and rotor numbers of firmware: NED and FRD, degrees times 1e7, throttles.

W is ``map`` (ENU), B is ``base_link`` (FLU). Firmware counts north, east and down, and forward,
right and down. Vectors are tuples: one at a time is converted, hundreds of times a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.control.airframe import AirframeParams
from quadsim.geometry.rotation import Quat

_HALF_SQRT2 = math.sqrt(0.5)

CLOCKWISE, COUNTER_CLOCKWISE = -1, 1

#: A rotor may be so far next to the direction that the firmware expects, degrees.
AZIMUTH_DEG = 25.0


class Rotor(NamedTuple):
    """A motor as firmware numbers it: degrees clockwise from the nose, and how it turns."""

    azimuth_deg: float
    turns: int


#: Motors 1 to 4 of ArduPilot (AP_MotorsMatrix, quad X) and of PX4 (rotors of x500).
QUAD_X = (
    Rotor(45.0, COUNTER_CLOCKWISE),
    Rotor(-135.0, COUNTER_CLOCKWISE),
    Rotor(-45.0, CLOCKWISE),
    Rotor(135.0, CLOCKWISE),
)
#: Motors 1 to 6 of ArduPilot (AP_MotorsMatrix, hexa X) and of PX4.
HEXA_X = (
    Rotor(90.0, CLOCKWISE),
    Rotor(-90.0, COUNTER_CLOCKWISE),
    Rotor(-30.0, CLOCKWISE),
    Rotor(150.0, COUNTER_CLOCKWISE),
    Rotor(30.0, COUNTER_CLOCKWISE),
    Rotor(-150.0, CLOCKWISE),
)
FRAMES = {4: QUAD_X, 6: HEXA_X}


def swapped(v: Sequence[float]) -> Vec3:
    """Turn ENU into NED and back."""
    return (v[1], v[0], -v[2])


def flipped(v: Sequence[float]) -> Vec3:
    """Turn FLU into FRD and back."""
    return (v[0], -v[1], -v[2])


def attitude_in(q: Quat) -> Quat:
    """Attitude q_WB of FLU in ENU, out of that of FRD in NED; and back.

    The product Q_ENU_NED q Q_FLU_FRD of :mod:`quadsim.wire.axes`, but for its sign.
    """
    w, x, y, z = q
    return (
        _HALF_SQRT2 * (w + z), _HALF_SQRT2 * (x + y), _HALF_SQRT2 * (x - y), _HALF_SQRT2 * (w - z)
    )  # fmt: skip


def attitude_out(q_WB: Quat) -> Quat:
    """Attitude of FRD in NED, w first and not negative."""
    w, x, y, z = attitude_in(q_WB)
    return (w, x, y, z) if w >= 0.0 else (-w, -x, -y, -z)


def heading_of(yaw: float) -> float:
    """Heading from north, clockwise, of a yaw from east, counter-clockwise; and back, rad."""
    return math.remainder(0.5 * math.pi - yaw, 2.0 * math.pi)


def heading_degrees(yaw_deg: float) -> float:
    """Likewise in degrees, 0 to 360."""
    return (90.0 - yaw_deg) % 360.0


def degrees_e7(degrees: float) -> int:
    """An angle as MAVLink has latitudes and longitudes."""
    return round(degrees * 1e7)


def _azimuth_deg(p_B: Vec3) -> float:
    """Degrees clockwise from the nose."""
    return math.degrees(math.atan2(-p_B[1], p_B[0]))


def rotor_order(
    airframe: AirframeParams, frames: Mapping[int, tuple[Rotor, ...]], firmware: str
) -> list[int]:
    """Which of our rotors each motor of a firmware is.

    Args:
        frames: number of rotors to the motors as the firmware numbers them.

    Returns:
        For each of the firmware's motors the index of the rotor.

    Raises:
        InputError: the vehicle has other rotors, or one of them turns the other way.
    """
    places, turns = airframe.rotor_positions_B_m, airframe.rotor_directions
    if len(places) not in frames:
        known = " or ".join(map(str, sorted(frames)))
        raise InputError(f"{firmware}: flies {known} rotors, the vehicle has {len(places)}")
    order = []
    for number, motor in enumerate(frames[len(places)], 1):
        alongside = [
            abs(math.remainder(_azimuth_deg(p_B) - motor.azimuth_deg, 360.0)) for p_B in places
        ]
        nearest = min(range(len(places)), key=alongside.__getitem__)
        where = f"{firmware}: motor {number} is {motor.azimuth_deg:g} deg from the nose"
        if alongside[nearest] > AZIMUTH_DEG:
            raise InputError(f"{where}; the vehicle has no rotor there")
        if turns[nearest] != motor.turns:
            words = {1: "counter-clockwise", -1: "clockwise"}
            raise InputError(
                f"{where} and turns {words[motor.turns]}; the vehicle's turns the other way"
            )
        order.append(nearest)
    return order
