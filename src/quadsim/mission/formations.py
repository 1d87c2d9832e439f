"""Places of several vehicles: rows, grids, circles and vees, and items of a mission made of them.

In a scenario::

    - formation: {shape: circle, center_W_m: [0.0, 0.0, 5.0], spacing_m: 4.0}
    - gather: {}

At a *formation* each vehicle flies to a place of its own, straight, and all of them arrive at the
same time; before it they wait for each other. At *gather* they only wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.elementary import cos, each, sin
from quadsim.base.parameters import Spec
from quadsim.mission.waypoint import Acceleration, Height, Place, Speed, Yaw

SHAPES = ("row", "grid", "circle", "vee")
#: Angle of a vee's arms to its course, as birds' and aircraft's, deg.
ARM_DEG = 45.0
#: Who flies to which place: by the vehicles' order, or so that no two ways cross.
ASSIGNMENTS = ("nearest", "own")


@dataclass(frozen=True)
class Gather:
    """Wait until every vehicle of the swarm is here in its mission."""


@dataclass(frozen=True)
class Formation:
    """Fly to a place of one's own among the others'; one vehicle alone flies to the middle.

    Attributes:
        shape: of the places.
        center_W_m: middle; of a vee its tip.
        spacing_m: between neighbours.
        heading_deg: where it points; on a circle, where its first place is.
        assign: which place is whose.
        yaw_deg: heading of every vehicle.
        speed_mps: of the one with the longest way.
        acceleration_mps2: most on the way.
        height: what z counts from.
    """

    shape: Annotated[str, Spec("of the places", choices=SHAPES)]
    center_W_m: Place
    spacing_m: Annotated[float, Spec("between neighbours", "m", gt=0.0, le=1000.0)] = 5.0
    heading_deg: Yaw = 0.0
    assign: Annotated[str, Spec("by the shortest ways, or in order", choices=ASSIGNMENTS)] = (
        "nearest"
    )
    yaw_deg: Yaw = 0.0
    speed_mps: Speed = 0.0
    acceleration_mps2: Acceleration = 0.0
    height: Height = "absolute"


def places(shape: str, count: int, spacing_m: float, heading_rad: float = 0.0) -> Array:
    """Places of a formation about its middle, in the order of the vehicles.

    Args:
        shape: one of :data:`SHAPES`.
        count: of the vehicles.
        spacing_m: between neighbours; on a circle along the chord.
        heading_rad: where it points; on a circle, where its first place is.

    Returns:
        (count, 2) east and north, m.
    """
    k: Array = np.arange(count, dtype=float)
    forward: Array = np.zeros(count)
    left: Array = np.zeros(count)
    if shape == "row":
        left = spacing_m * (0.5 * (count - 1) - k)
    elif shape == "grid":
        columns = math.ceil(math.sqrt(count))
        rows = math.ceil(count / columns)
        forward = spacing_m * (0.5 * (rows - 1) - k // columns)
        left = spacing_m * (0.5 * (columns - 1) - k % columns)
    elif shape == "circle" and count > 1:
        radius_m = 0.5 * spacing_m / sin(math.pi / count)
        angles = 2.0 * math.pi * k / count
        forward, left = radius_m * each(cos, angles), radius_m * each(sin, angles)
    elif shape == "vee":
        behind = spacing_m * np.ceil(0.5 * k)
        side = np.where(k % 2 == 1.0, 1.0, -1.0)
        arm = math.radians(ARM_DEG)
        forward, left = -cos(arm) * behind, sin(arm) * side * behind
    c, s = cos(heading_rad), sin(heading_rad)
    return np.stack([c * forward - s * left, s * forward + c * left], axis=1)
