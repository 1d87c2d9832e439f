"""Directions that a user gives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3

#: A rotor's axis is no further than this from body z; and the cosine of that.
MOST_TILT_DEG, LEAST_UP = 60.0, 0.5
#: A baseline of two antennas that is shorter across the vertical tells no heading, m.
LEAST_BASELINE_M = 0.1


def unit_axes(axes_B: Sequence[Vec3], count: int) -> tuple[Vec3, ...]:
    """Axes of ``count`` rotors as unit vectors; none where all of them are body z.

    Raises:
        InputError: there are more or fewer, or one does not lift.
    """
    if len(axes_B) not in (0, count):
        raise InputError(f"rotor_axes_B: {len(axes_B)} for {count} rotors; give one each, or none")
    found = []
    for i, (x, y, z) in enumerate(axes_B):
        length = math.sqrt(x * x + y * y + z * z)
        if not z > LEAST_UP * length:
            raise InputError(
                f"rotor_axes_B[{i}]: {x:g}, {y:g}, {z:g}; allowed: within {MOST_TILT_DEG:g} deg of"
                " body z"
            )
        found.append((x / length, y / length, z / length))
    return tuple(found) if any(axis != (0.0, 0.0, 1.0) for axis in found) else ()


def refuse_steep_baseline(name: str, baseline_B_m: Vec3) -> None:
    """Refuse two antennas at one place, or one above the other.

    Raises:
        InputError: naming the baseline.
    """
    if math.hypot(baseline_B_m[0], baseline_B_m[1]) < LEAST_BASELINE_M:
        raise InputError(
            f"{name}: {list(baseline_B_m)} is shorter than {LEAST_BASELINE_M:g} m across the"
            " vertical; a heading needs two antennas with a horizontal baseline"
        )
