"""Items that lead to places: waypoints, and the way home.

A waypoint is reached within its radius. What follows is its type's: an *intermediate* one is passed
without stopping, at a *hover* the vehicle stays for a while, the *destination* ends the mission in
a hover, *land* ends it on the ground there.

::

    - waypoint: {position_W_m: [150.0, 120.0, 5.0], height: above_ground, radius_m: 5.0}
    - waypoint: {position_W_m: [128.0, 150.0, 5.0], type: hover, hold_s: 3.0, yaw_deg: 90.0}
    - return_home: {height_m: 10.0}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quadsim.base.parameters import Spec, Vec3

#: What happens at a waypoint.
TYPES = ("intermediate", "hover", "destination", "land")
#: What the height of a place counts from: z = 0 of the map, or the ground beneath.
HEIGHTS = ("absolute", "above_ground")
#: Heading on the way: as it is, along the way, or the one that is given.
HEADINGS = ("keep", "course", "given")


@dataclass(frozen=True)
class Waypoint:
    """A place to fly to."""

    position_W_m: Annotated[
        Vec3,
        Spec("in the map frame; its z may count from the ground", "m", ge=-1e5, le=1e5),
    ]
    type: Annotated[str, Spec("what happens there", choices=TYPES)] = "intermediate"
    radius_m: Annotated[
        float, Spec("how near is there; 0 for the autopilot's", "m", ge=0.0, le=1000.0)
    ] = 0.0
    speed_mps: Annotated[
        float, Spec("fastest on the way; 0 for the autopilot's", "m/s", ge=0.0, le=100.0)
    ] = 0.0
    hold_s: Annotated[float, Spec("stay at a hover or before landing", "s", ge=0.0, le=86400.0)] = (
        0.0
    )
    heading: Annotated[str, Spec("on the way there", choices=HEADINGS)] = "keep"
    yaw_deg: Annotated[
        float, Spec("the given one, 0 = east, 90 = north", "deg", ge=-360.0, le=360.0)
    ] = 0.0
    height: Annotated[str, Spec("what z counts from", choices=HEIGHTS)] = "absolute"


@dataclass(frozen=True)
class ReturnHome:
    """Climb, and fly back above the place of take-off."""

    height_m: Annotated[
        float, Spec("least height of the way, above home", "m", ge=0.0, le=1000.0)
    ] = 0.0
    speed_mps: Annotated[
        float, Spec("fastest on the way; 0 for the autopilot's", "m/s", ge=0.0, le=100.0)
    ] = 0.0
