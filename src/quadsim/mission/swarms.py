"""One mission for a whole swarm: what each vehicle of it flies.

Who goes where in a formation is chosen so that the squares of all ways together are least. Flown
straight and at equal shares of the way, such ways do not cross, and vehicles whose places are 2
sqrt(2) radii apart do not touch (M. Turpin, N. Michael, V. Kumar, *CAPT: concurrent assignment and
planning of trajectories for multiple robots*, IJRR 33, 2014).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.parameters import Vec3
from quadsim.control.parameters import FlightParams
from quadsim.geometry.linear import lengths
from quadsim.mission.flight.fence import item_places
from quadsim.mission.formations import Formation, Gather, places
from quadsim.mission.items import Follow, Goto, Item, Takeoff
from quadsim.mission.reference.legs import PEAK_SPEED, rest_duration
from quadsim.mission.script import Command, ScriptedPose
from quadsim.mission.trajectories.items import FigureOfEight, MinimumSnap, Round, TimedFollow
from quadsim.mission.waypoint import Waypoint


def _shifted(p_W: Vec3, offset_W_m: Vec3) -> Vec3:
    return (p_W[0] + offset_W_m[0], p_W[1] + offset_W_m[1], p_W[2] + offset_W_m[2])


def moved(item: Item, offset_W_m: Vec3) -> Item:
    """An item whose places are all moved; a formation stays where it is."""
    if not any(offset_W_m):
        return item
    if isinstance(item, Goto | Waypoint):
        return replace(item, position_W_m=_shifted(item.position_W_m, offset_W_m))
    if isinstance(item, Round | FigureOfEight):
        return replace(item, center_W_m=_shifted(item.center_W_m, offset_W_m))
    if isinstance(item, MinimumSnap):
        corners = tuple(_shifted(corner, offset_W_m) for corner in item.waypoints)
        return replace(item, waypoints=corners)
    if isinstance(item, Follow):
        points = tuple(
            (t_s, *_shifted((x, y, z), offset_W_m), yaw) for t_s, x, y, z, yaw in item.points
        )
        return replace(item, points=points)
    if isinstance(item, TimedFollow):
        timed = tuple(p._replace(p_W=_shifted(p.p_W, offset_W_m)) for p in item.points)
        return replace(item, points=timed)
    return item


def moved_command(command: Command, offset_W_m: Vec3) -> Command:
    """A command whose place is moved."""
    if isinstance(command, ScriptedPose):
        return replace(command, position_W_m=_shifted(command.position_W_m, offset_W_m))
    return command


def formation_ways(item: Formation, from_W: Array, flight: FlightParams) -> tuple[Array, Array]:
    """Where each vehicle goes, and how fast, so that all of them arrive together.

    Args:
        from_W: (N, 3) where they are.
        flight: limits of legs, where the item states none.

    Returns:
        (N, 3) places in m, and (N,) peak speeds in m/s; of one alone the item's, or 0.
    """
    count = len(from_W)
    goals = np.empty((count, 3))
    goals[:] = item.center_W_m
    if count > 1:
        goals[:, :2] += places(item.shape, count, item.spacing_m, math.radians(item.heading_deg))
    if count == 1:
        return goals, np.array([item.speed_mps])  # nobody to arrive with
    if item.assign == "nearest":
        from scipy.optimize import (
            linear_sum_assignment,
        )  # a third of a second, for formations alone

        apart = from_W[:, None] - goals[None]
        goals = goals[linear_sum_assignment(np.einsum("ijk,ijk->ij", apart, apart))[1]]
    speed = item.speed_mps or flight.speed_mps
    acceleration = item.acceleration_mps2 or flight.acceleration_mps2
    length_m = lengths(goals - from_W)
    takes_s = 0.0
    for i in range(count):
        climb_m = float(goals[i, 2] - from_W[i, 2])
        vertical = min(speed, flight.ascent_mps if climb_m > 0.0 else flight.descent_mps)
        takes_s = max(
            takes_s,
            rest_duration(float(length_m[i]), speed, acceleration),
            rest_duration(abs(climb_m), vertical, acceleration),
        )
    share = PEAK_SPEED / takes_s if takes_s > 0.0 else 0.0
    return goals, np.minimum(share * length_m, speed)


def missions_of(
    items: Sequence[Item],
    starts_W_m: Sequence[Vec3],
    offsets_W_m: Sequence[Vec3],
    flight: FlightParams,
) -> list[tuple[Item, ...]]:
    """The mission of each vehicle.

    Args:
        starts_W_m: where each stands.
        offsets_W_m: by which the places of its items are moved, formations left out.
        flight: limits of legs.
    """
    count = len(starts_W_m)
    if not any(isinstance(item, Formation | Gather) for item in items):
        return [tuple(moved(item, offset) for item in items) for offset in offsets_W_m]
    missions: list[list[Item]] = [[] for _ in range(count)]
    here: Array = np.array(starts_W_m, dtype=float).reshape(count, 3)
    for item in items:
        if isinstance(item, Formation):
            goals, speeds = formation_ways(item, here, flight)
            for i, mission in enumerate(missions):
                x, y, z = (float(value) for value in goals[i])
                leg = Goto(
                    (x, y, z), item.yaw_deg, float(speeds[i]), item.acceleration_mps2, item.height
                )
                mission += [Gather(), leg] if count > 1 else [leg]
            here = goals
            continue
        if isinstance(item, Gather) and count == 1:
            continue
        for i, mission in enumerate(missions):
            own = moved(item, offsets_W_m[i])
            mission.append(own)
            if isinstance(own, Takeoff):
                here[i, 2] += own.height_m
            else:
                at = (float(here[i, 0]), float(here[i, 1]), float(here[i, 2]))
                for p_W in item_places(own, at, starts_W_m[i], flight):
                    here[i] = p_W
    return [tuple(mission) for mission in missions]
