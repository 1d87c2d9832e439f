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

_MOST = "most on the way; 0 for the autopilot's"

#: What several items have.
Place = Annotated[Vec3, Spec("in the map frame; its z as of height", "m", ge=-1e5, le=1e5)]
Height = Annotated[str, Spec("what z counts from", choices=HEIGHTS)]
Speed = Annotated[float, Spec(_MOST, "m/s", ge=0.0, le=100.0)]
Acceleration = Annotated[float, Spec(_MOST, "m/s^2", ge=0.0, le=50.0)]
Yaw = Annotated[float, Spec("heading, 0 = east, 90 = north", "deg", ge=-360.0, le=360.0)]
Seconds = Annotated[float, Spec("how long it stays there", "s", ge=0.0, le=86400.0)]
Length = Annotated[float, Spec("0 for the autopilot's, or none", "m", ge=0.0, le=1000.0)]


@dataclass(frozen=True)
class Waypoint:
    """A place to fly to; within ``radius_m`` it is reached."""

    position_W_m: Place
    type: Annotated[str, Spec("what happens there", choices=TYPES)] = "intermediate"
    radius_m: Length = 0.0
    speed_mps: Speed = 0.0
    hold_s: Seconds = 0.0
    heading: Annotated[str, Spec("on the way there", choices=HEADINGS)] = "keep"
    yaw_deg: Yaw = 0.0
    height: Height = "absolute"


@dataclass(frozen=True)
class ReturnHome:
    """Climb to a least height above home, and fly back above the place of take-off."""

    height_m: Length = 0.0
    speed_mps: Speed = 0.0
