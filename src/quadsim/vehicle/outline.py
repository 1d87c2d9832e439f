"""How large a vehicle is."""

from __future__ import annotations

import math

from quadsim.vehicle.parameters import VehicleParams


def outline_m(params: VehicleParams) -> tuple[float, float]:
    """Radius and height in m of the upright cylinder around all of a level vehicle's points."""
    contact = params.packed_as().contact
    points = (*contact.points_B_m, *contact.hull_B_m)
    if not points:
        return 0.0, 0.0
    heights = [z for _, _, z in points]
    return max(math.hypot(x, y) for x, y, _ in points), max(heights) - min(heights)
