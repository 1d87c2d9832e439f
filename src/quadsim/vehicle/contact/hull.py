"""Where a vehicle can touch things next to its feet: tips of the rotors, and the top."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quadsim.base.elementary import atan2, cos, sin
from quadsim.base.parameters import Vec3

#: Points on the rim of each rotor.
TIPS = 4

#: Feet, and points of the hull: four for each of eight rotors, and the top.
MAX_FEET, MAX_HULL = 8, 33


def hull_points(hubs_B_m: Sequence[Vec3], radius_m: float) -> tuple[Vec3, ...]:
    """Points of the hull in body axes: the rims of the rotors' discs, and the middle above them.

    Args:
        hubs_B_m: rotor hubs.
        radius_m: of the discs; the first of the points of each is the farthest from the middle.

    Returns:
        None for a vehicle without rotors.
    """
    if not hubs_B_m:
        return ()
    middle_x, middle_y = (sum(hub[k] for hub in hubs_B_m) / len(hubs_B_m) for k in (0, 1))
    points = []
    for x, y, z in hubs_B_m:
        outwards = atan2(y - middle_y, x - middle_x)
        for k in range(TIPS):
            angle = outwards + 2.0 * math.pi * k / TIPS
            points.append((x + radius_m * cos(angle), y + radius_m * sin(angle), z))
    return (*points, (middle_x, middle_y, max(hub[2] for hub in hubs_B_m)))
