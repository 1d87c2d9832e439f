"""Ground effect: a rotor near the ground lifts more for the same speed."""

from __future__ import annotations

from typing import Any

from quadsim.compiled import kernel
from quadsim.geometry.rotation import Mat3


@kernel
def thrust_gain(i: int, R_WB: Mat3, vehicle: Any, params: Any) -> float:
    """Thrust of rotor ``i`` over its thrust far from the ground, at the same speed.

    Args:
        i: rotor.
        R_WB: attitude of the body.
        vehicle: VEHICLE record, for ``held.height_m`` of the centre of mass above the ground.
        params: packed VehicleParams.
    """
    return 1.0
