"""What a vehicle looks like and where it touches: plain shapes at the places its file gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from quadsim.base.compiled import plain
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import from_euler, normalize
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.scene.obstacles import Box, Cylinder, Pose, Sphere

Color = tuple[float, float, float, float]
DARK: Color = (0.15, 0.15, 0.17, 1.0)
#: Rotors in front and behind, by which one sees where it heads.
FRONT: Color = (0.85, 0.25, 0.1, 0.5)
REAR: Color = (0.25, 0.3, 0.35, 0.5)

#: Over the distance of the farthest hub from the middle: half the width of the body and its height.
BODY_WIDTH, BODY_HEIGHT = 0.35, 0.25
#: Over the same: width of an arm, and radius of a leg.
ARM, LEG = 0.08, 0.03
#: Over a rotor's radius: thickness of its disc, width of its blade.
DISC, BLADE = 0.08, 0.12


@dataclass(frozen=True)
class Part:
    """One shape, in ``base_link``.

    Attributes:
        name: of it, unlike the others'.
        shape: in its own frame.
        pose_B: of that frame.
        color: red, green, blue, opacity.
        seen: whether it is drawn.
        touches: whether it collides.
    """

    name: str
    shape: Box | Cylinder | Sphere
    pose_B: Pose
    color: Color = DARK
    seen: bool = True
    touches: bool = False


def reach_m(vehicle: VehicleParams) -> float:
    """Level distance of the farthest hub, or foot, from the centre of mass."""
    points = vehicle.rotor_positions_B_m or vehicle.contact.points_B_m
    return max((math.hypot(x, y) for x, y, _ in points), default=0.1) or 0.1


def height_over_ground_m(vehicle: VehicleParams) -> float:
    """Height of the centre of mass where the vehicle stands."""
    feet = vehicle.contact.points_B_m
    return -min((foot[2] for foot in feet), default=0.0)


def deck_m(vehicle: VehicleParams) -> float:
    """Height of the top: that of the highest hub, as of the hull's top in our contacts."""
    hubs = vehicle.rotor_positions_B_m
    return max((hub[2] for hub in hubs), default=0.5 * BODY_HEIGHT * reach_m(vehicle))


def shape_parts(vehicle: VehicleParams) -> Iterator[Part]:
    """The body, an arm and a disc for each rotor, a leg and a round foot for each foot.

    Discs collide where rotors do with us, feet end at the file's points, and nothing reaches out
    of the hull: see :mod:`quadsim.vehicle.contact.hull`.
    """
    reach, top = reach_m(vehicle), deck_m(vehicle)
    height = BODY_HEIGHT * reach
    middle: Vec3 = (0.0, 0.0, top - 0.5 * height)
    width = 2.0 * BODY_WIDTH * reach
    yield Part("body", Box((width, width, height)), Pose(middle), touches=True)
    for i, hub in enumerate(vehicle.rotor_positions_B_m):
        yield from _rotor(vehicle, i, hub, reach)
    for i, foot in enumerate(vehicle.contact.points_B_m):
        yield from _leg(i, foot, middle[2], LEG * reach)


def rotor_pose(vehicle: VehicleParams, i: int) -> Pose:
    """Pose in B of a rotor's hub, whose z is its axis: the shortest turn out of body z."""
    hub = vehicle.rotor_positions_B_m[i]
    if not vehicle.rotor_axes_B:
        return Pose(hub)
    x, y, z = vehicle.rotor_axes_B[i]
    return Pose(hub, plain(normalize)((1.0 + z, -y, x, 0.0)))


def _rotor(vehicle: VehicleParams, i: int, hub: Vec3, reach: float) -> Iterator[Part]:
    x, y, z = hub
    radius, length = vehicle.rotor.radius_m, math.hypot(x, y)
    thickness, arm = DISC * radius, ARM * reach
    if length > 0.0:
        along = Pose((0.5 * x, 0.5 * y, z - 0.5 * arm), from_euler(0.0, 0.0, math.atan2(y, x)))
        yield Part(f"arm_{i}", Box((length, arm, arm)), along)
    color = FRONT if x > 1e-9 else REAR
    disc = Cylinder(radius, thickness)
    below = Pose((0.0, 0.0, -0.5 * thickness))
    yield Part(f"disc_{i}", disc, rotor_pose(vehicle, i) @ below, color, touches=True)


def _leg(i: int, foot: Vec3, hip_m: float, radius_m: float) -> Iterator[Part]:
    x, y, z = foot
    if hip_m > z:
        upright = Cylinder(radius_m, hip_m - z)
        yield Part(f"leg_{i}", upright, Pose((x, y, 0.5 * (z + hip_m))))
    ball = Pose((x, y, z + radius_m))
    yield Part(f"foot_{i}", Sphere(radius_m), ball, seen=False, touches=True)
