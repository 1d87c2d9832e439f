"""What a mission is made of: items, in the order they are flown.

In a scenario each is one key with its values::

    mission:
      - takeoff: {height_m: 1.5}
      - goto: {position_W_m: [4.0, 0.0, 1.5], yaw_deg: 90.0}
      - hover: {duration_s: 2.0}
      - land: {}

Timed points that several scenarios follow are a file of ``config/trajectories``::

      - follow: {trajectory: fcnd_square}
      - follow: {trajectory: fcnd_square, until_s: 1.0, offset_W_m: [0.0, 0.0, 2.0]}

``until_s`` leaves out the later points, ``offset_W_m`` moves them all. Such a file, or a CSV file,
may also be joined smoothly (``interpolation: spline``); other items that track a trajectory are in
:mod:`quadsim.mission.trajectories.items`, waypoints in :mod:`quadsim.mission.waypoint`, what
several vehicles fly together in :mod:`quadsim.mission.formations`.

Items that come again and again are a loop, and a mission whose heights count from the ground states
so once::

    mission:
      height: above_ground
      items:
        - takeoff: {height_m: 5.0}
        - loop:
            times: 3
            items:
              - waypoint: {position_W_m: [20.0, 0.0, 5.0]}
              - waypoint: {position_W_m: [0.0, 0.0, 5.0]}
        - land: {}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, TypeAlias

from quadsim.base.errors import InputError, shown
from quadsim.base.files import find
from quadsim.base.parameters import Spec, Vec3, from_mapping, read_yaml
from quadsim.control.parameters import FlightParams
from quadsim.mission import waypoint as fields
from quadsim.mission.formations import Formation, Gather
from quadsim.mission.trajectories.items import (
    Circle,
    FigureOfEight,
    Helix,
    MinimumSnap,
    Spiral,
    TimedFollow,
    TrackItem,
    map_points,
)
from quadsim.mission.trajectories.timed import read_csv, stated_points
from quadsim.mission.waypoint import ReturnHome, Waypoint

TimedPoint = tuple[float, float, float, float, float]

#: Items of a mission, its loops written out.
MOST_ITEMS = 100_000


@dataclass(frozen=True)
class Takeoff:
    """Climb vertically from where the vehicle stands."""

    height_m: Annotated[float, Spec("above the take-off point", "m", gt=0.0, le=1000.0)] = 1.5
    speed_mps: fields.Speed = 0.0


@dataclass(frozen=True)
class Goto:
    """Fly straight to a position and stop there, turning on the way."""

    position_W_m: fields.Place
    yaw_deg: fields.Yaw = 0.0
    speed_mps: fields.Speed = 0.0
    acceleration_mps2: fields.Acceleration = 0.0
    height: fields.Height = "absolute"


@dataclass(frozen=True)
class Hover:
    """Stay."""

    duration_s: fields.Seconds = 5.0


@dataclass(frozen=True)
class Follow:
    """Points of time, joined by straight lines; velocity and acceleration wanted are zero.

    A reference that moves and states it stands, as the FCND project's trajectories do.
    """

    points: Annotated[
        tuple[TimedPoint, ...],
        Spec("time since the item began in s, x, y, z in m, yaw in deg", ge=-1e5, le=1e5),
    ]

    def __post_init__(self) -> None:
        """Refuse times that do not rise."""
        times = [point[0] for point in self.points]
        if not times or times[0] < 0.0:
            raise InputError("points: give at least one, at times from 0 on")
        for i, (before, after) in enumerate(pairwise(times)):
            if after <= before:
                raise InputError(f"points[{i + 1}]: its time {after:g} is not after {before:g}")

    def at(self, t_s: float) -> tuple[Vec3, float]:
        """Position in m and yaw in rad at a time since the start; the yaw goes the shortest way."""
        points = self.points
        if t_s <= points[0][0]:
            return points[0][1:4], math.radians(points[0][4])
        for before, after in pairwise(points):
            if t_s < after[0]:
                share = (t_s - before[0]) / (after[0] - before[0])
                turn = math.remainder(after[4] - before[4], 360.0)
                return (
                    before[1] + share * (after[1] - before[1]),
                    before[2] + share * (after[2] - before[2]),
                    before[3] + share * (after[3] - before[3]),
                ), math.radians(before[4] + share * turn)
        return points[-1][1:4], math.radians(points[-1][4])


@dataclass(frozen=True)
class TrajectoryFile:
    """Timed points that several scenarios follow (a file of ``config/trajectories``)."""

    points: Annotated[tuple[TimedPoint, ...], Spec("as of Follow", ge=-1e5, le=1e5)]
    description: Annotated[str, Spec("what it is")] = ""
    interpolation: Annotated[
        str,
        Spec("straight lines that state no velocity, or smooth", choices=("straight", "spline")),
    ] = "straight"
    velocities: Annotated[
        tuple[Vec3, ...], Spec("at the points, for splines", "m/s", ge=-1e3, le=1e3)
    ] = ()
    accelerations: Annotated[
        tuple[Vec3, ...], Spec("at the points, for splines", "m/s^2", ge=-1e3, le=1e3)
    ] = ()

    def __post_init__(self) -> None:
        """Refuse derivatives that do not belong to the points."""
        for name in ("velocities", "accelerations"):
            count = len(getattr(self, name))
            if count and self.interpolation == "straight":
                raise InputError(f"{name}: only with interpolation: spline")
            if count not in (0, len(self.points)):
                raise InputError(f"{name}: {count}; there are {len(self.points)} points")


@dataclass(frozen=True)
class Trajectory:
    """How a mission follows such a file."""

    trajectory: Annotated[str, Spec("a file of config/trajectories")]
    until_s: Annotated[float, Spec("points after this time are left out", "s", ge=0.0)] = 1e5
    offset_W_m: Annotated[Vec3, Spec("moves all points", "m", ge=-1e5, le=1e5)] = (0.0, 0.0, 0.0)

    def item(self, place: str, alongside: Path) -> Follow | TimedFollow:
        """The item that follows the points.

        Args:
            place: what errors name.
            alongside: folder in which a CSV file is looked for first.

        Raises:
            InputError: there is no such file, or it is not right.
        """
        near = alongside / self.trajectory
        is_csv = self.trajectory.endswith(".csv")
        try:
            if is_csv:
                smooth = read_csv(near if near.is_file() else Path(self.trajectory).expanduser())
            else:
                path = find("trajectories", self.trajectory)
        except InputError as error:
            raise InputError(f"{place}: trajectory: {error}") from None
        if not is_csv:
            file = from_mapping(TrajectoryFile, read_yaml(path), str(path))
            if file.interpolation == "straight":
                return Follow(tuple(self._moved(file.points)))
            smooth = stated_points(file.points, file.velocities, file.accelerations)
        east, north, up = self.offset_W_m
        moved = tuple(
            point._replace(p_W=(point.p_W[0] + east, point.p_W[1] + north, point.p_W[2] + up))
            for point in smooth
            if point.t_s <= self.until_s
        )
        try:
            return TimedFollow(points=moved)
        except InputError as error:
            raise InputError(f"{place}: {self.trajectory}: {error}") from None

    def _moved(self, points: Sequence[TimedPoint]) -> list[TimedPoint]:
        east, north, up = self.offset_W_m
        return [
            (t_s, x + east, y + north, z + up, yaw_deg)
            for t_s, x, y, z, yaw_deg in points
            if t_s <= self.until_s
        ]


@dataclass(frozen=True)
class Land:
    """Descend where the vehicle is until the ground carries it."""

    speed_mps: Annotated[
        float, Spec("of the descent; 0 for the autopilot's", "m/s", ge=0.0, le=3.0)
    ] = 0.0


Item: TypeAlias = (
    Takeoff | Goto | Waypoint | Hover | Follow | ReturnHome | Formation | Gather | Land | TrackItem
)

_Track: TypeAlias = Circle | FigureOfEight | Helix | Spiral | MinimumSnap
_Kind: TypeAlias = (
    Takeoff | Goto | Waypoint | Hover | Follow | ReturnHome | Formation | Gather | Land | _Track
)

_KINDS: dict[str, type[_Kind]] = {
    "takeoff": Takeoff,
    "goto": Goto,
    "waypoint": Waypoint,
    "hover": Hover,
    "follow": Follow,
    "return_home": ReturnHome,
    "formation": Formation,
    "gather": Gather,
    "circle": Circle,
    "figure_of_eight": FigureOfEight,
    "helix": Helix,
    "spiral": Spiral,
    "minimum_snap": MinimumSnap,
    "land": Land,
}
_NAMES: dict[type[Item], str] = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True)
class Loop:
    """How often its items are flown."""

    times: Annotated[int, Spec("how often", ge=1, le=MOST_ITEMS)] = 1


def name_of(item: Item) -> str:
    """The key of an item in a file."""
    return "follow" if isinstance(item, TimedFollow) else _NAMES[type(item)]


def check_order(items: Sequence[Item], where: str) -> None:
    """Refuse missions that cannot be flown: take-off comes first, landing last, each once.

    Raises:
        InputError: naming ``where`` and the item.
    """
    for i, item in enumerate(items):
        if isinstance(item, Takeoff) != (i == 0):
            raise InputError(f"{where}: mission[{i}]: {name_of(item)}; takeoff comes first, once")
        ends = isinstance(item, Land) or (isinstance(item, Waypoint) and item.type == "land")
        if ends and i != len(items) - 1:
            raise InputError(f"{where}: mission[{i}]: land must be the last item")
        if isinstance(item, Waypoint) and item.type == "destination" and i != len(items) - 1:
            raise InputError(
                f"{where}: mission[{i}]: waypoint: type: nothing comes after a destination;"
                " allowed before other items: intermediate, hover"
            )


def items_from(content: object, where: str, whole: bool = True) -> tuple[Item, ...]:
    """Read the items of a mission from the plain values of a file.

    Args:
        content: a list of mappings with one key each, or a mapping of ``items`` (that list) and
            ``height``, what heights of places count from; see the module.
        where: the file that errors name.
        whole: whether it must begin with the take-off and land last, if at all.

    Raises:
        InputError: naming the item, the key, the value and what is allowed.
    """
    height = "absolute"
    if isinstance(content, Mapping):
        wide = {key: value for key, value in content.items() if key != "items"}
        height = from_mapping(MissionWide, wide, f"{where}: mission").height
        content = content.get("items", [])
    items: list[Item] = []
    _read(content, f"{where}: mission", height, items)
    if whole:
        check_order(items, where)
    return tuple(items)


@dataclass(frozen=True)
class MissionWide:
    """What holds for all items that do not say it themselves."""

    height: fields.Height = "absolute"


def _read_loop(values: object, place: str, height: str, items: list[Item]) -> None:
    """Read a loop's items, and write them out as often as they are flown."""
    if not isinstance(values, Mapping) or "items" not in values:
        raise InputError(f"{place}: expected {{times: 3, items: [...]}}, found {shown(values)}")
    counted = {key: value for key, value in values.items() if key != "items"}
    times = from_mapping(Loop, counted, place).times
    round_: list[Item] = []
    _read(values["items"], f"{place}: items", height, round_)
    if len(items) + times * len(round_) > MOST_ITEMS:
        raise InputError(
            f"{place}: times: {times}; allowed: at most {MOST_ITEMS} items, loops written out"
        )
    items += times * round_


def _read(content: object, where: str, height: str, items: list[Item]) -> None:
    """Read items and append them.

    Args:
        content: a list of mappings with one key each.
        where: file and place that errors name.
        height: what z of places counts from where they do not say it.
    """
    if not isinstance(content, list):
        raise InputError(f"{where}: expected a list of items, found {shown(content)}")
    for i, entry in enumerate(content):
        place = f"{where}[{i}]"
        if not isinstance(entry, Mapping) or len(entry) != 1:
            raise InputError(f"{place}: expected one item such as 'hover: {{duration_s: 2.0}}'")
        kind, values = next(iter(entry.items()))
        if kind == "loop":
            _read_loop(values, f"{place}: loop", height, items)
            continue
        if kind not in _KINDS:
            raise InputError(
                f"{place}: unknown item {shown(kind)}; allowed: {', '.join(_KINDS)}, loop"
            )
        values = {} if values is None else values
        if kind in ("goto", "waypoint", "formation") and isinstance(values, Mapping):
            values = {"height": height, **values}
            if kind == "waypoint" and "yaw_deg" in values:
                values = {"heading": "given", **values}
        if kind == "follow" and isinstance(values, Mapping) and "trajectory" in values:
            place = f"{place}: {kind}"
            follow = from_mapping(Trajectory, values, place)
            items.append(follow.item(place, Path(where).parent))
            continue
        items.append(from_mapping(_KINDS[kind], values, f"{place}: {kind}"))


def corners(items: Sequence[Item], flight: FlightParams | None = None) -> list[Vec3]:
    """Positions in W that a mission passes, in order, repetitions left out.

    Args:
        flight: how it is flown, if not by the default; of a trajectory there are many positions.
    """
    found: list[Vec3] = []
    for item in items:
        if isinstance(item, Goto | Waypoint):
            found.append(item.position_W_m)
        elif isinstance(item, Formation):
            found.append(item.center_W_m)
        elif isinstance(item, Follow):
            found += [point[1:4] for point in item.points]
        elif isinstance(item, TrackItem):
            found += map_points(item, flight or FlightParams())
    return [p for i, p in enumerate(found) if i == 0 or p != found[i - 1]]
