"""Rotors at equal distances on a circle: quad, hexa and octo, X and +."""

from __future__ import annotations

import math

from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import Vec3

#: Shape and number of rotors; ``explicit`` reports that each rotor is given by itself.
LAYOUTS = ("explicit", "x4", "plus4", "x6", "plus6", "x8", "plus8")


def lay_out(
    layout: str, arm_m: float, height_m: float
) -> tuple[tuple[Vec3, ...], tuple[float, ...]]:
    """Hubs and directions of a layout.

    Rotors are counted counter-clockwise seen from above and turn in turns, the first
    counter-clockwise. ``plus``: the first is in front; ``x``: the first two are in front, the first
    of them on the right.

    Args:
        layout: one of LAYOUTS but ``explicit``.
        arm_m: radius of the circle.
        height_m: of the circle over the centre of mass.

    Returns:
        Positions in B in m and directions (+1 counter-clockwise, -1 clockwise) of the rotors.
    """
    count = int(layout[-1])
    start = 0.0 if layout.startswith("plus") else -math.pi / count
    angles = [start + 2.0 * math.pi * i / count for i in range(count)]
    hubs = tuple((arm_m * cos(a), arm_m * sin(a), height_m) for a in angles)
    return hubs, tuple((1.0, -1.0)[i % 2] for i in range(count))
