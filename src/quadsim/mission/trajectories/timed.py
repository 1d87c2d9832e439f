"""Courses through timed points, of a file or a command, with or without their derivatives."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.files import read_limited
from quadsim.base.parameters import Vec3
from quadsim.mission.trajectories.polynomials import (
    Polynomials,
    cubic_slopes,
    rest_spline,
    segments,
)

#: Largest file of points.
MOST_BYTES = 20_000_000

COLUMNS = ("t", "x", "y", "z")
VELOCITY, ACCELERATION, YAW = ("vx", "vy", "vz"), ("ax", "ay", "az"), "yaw_deg"


class TrajectoryPoint(NamedTuple):
    """A point of a trajectory.

    Attributes:
        t_s: since its start.
        p_W: position, m.
        yaw: rad.
        v_W: velocity, m/s; None where it is not known.
        a_W: acceleration, m/s^2; None where it is not known.
        yaw_rate: rad/s; None where it is not known.
    """

    t_s: float
    p_W: Vec3
    yaw: float = 0.0
    v_W: Vec3 | None = None
    a_W: Vec3 | None = None
    yaw_rate: float | None = None

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of them that there are."""
        rate = () if self.yaw_rate is None else (self.yaw_rate,)
        return (self.t_s, *self.p_W, self.yaw, *(self.v_W or ()), *(self.a_W or ()), *rate)


def check_points(points: Sequence[TrajectoryPoint]) -> None:
    """Refuse points between which no motion can be.

    Raises:
        InputError: fewer than two, a number that is none, times that do not rise, or a derivative
            that only some have.
    """
    if len(points) < 2:
        raise InputError(f"points: {len(points)}; give at least two")
    for i, point in enumerate(points):
        if not all(map(math.isfinite, point.numbers)):
            raise InputError(f"points[{i}]: a number in it is not finite")
        if (point.v_W is None) != (points[0].v_W is None):
            raise InputError(f"points[{i}]: give every point its velocity, or none")
        if point.v_W is None and point.a_W is not None:
            raise InputError(f"points[{i}]: an acceleration without a velocity")
        if (point.a_W is None) != (points[0].a_W is None):
            raise InputError(f"points[{i}]: give every point its acceleration, or none")
    for i, (before, after) in enumerate(pairwise(points)):
        if after.t_s <= before.t_s:
            raise InputError(f"points[{i + 1}]: its time {after.t_s:g} is not after {before.t_s:g}")


def course_of(points: Sequence[TrajectoryPoint]) -> Polynomials:
    """The course through timed points.

    With velocity and acceleration, quintics between them. With the velocity alone the acceleration
    at the points is that of the cubic spline through the velocities. With neither it is the
    quintic spline, from rest to rest, continuous to the fourth derivative. The yaw goes the
    shortest way, by its rates where all have one.

    Raises:
        InputError: as :func:`check_points`.
    """
    check_points(points)
    times = np.array([point.t_s for point in points])
    times -= times[0]
    steps_s = np.diff(times)
    values = np.array([point.p_W for point in points])
    if points[0].v_W is None:
        position = rest_spline(values, steps_s, 3)
    else:
        first = np.array([point.v_W for point in points], dtype=float)
        if points[0].a_W is None:
            second = cubic_slopes(times, first)
        else:
            second = np.array([point.a_W for point in points], dtype=float)
        position = np.stack([values, first, second], axis=1)
    yaws = np.array(np.unwrap([point.yaw for point in points]), dtype=float)[:, None]
    rates = [point.yaw_rate for point in points]
    if any(rate is None for rate in rates):
        heading = rest_spline(yaws, steps_s, 3)
    else:
        turn = np.array(rates, dtype=float)
        heading = np.stack([yaws[:, 0], turn, np.gradient(turn, times)], axis=1)[..., None]
    knots = np.concatenate([position, heading], axis=2)
    return Polynomials(times, segments(knots, steps_s))


def stated_points(
    points: Sequence[tuple[float, float, float, float, float]],
    velocities: Sequence[Vec3],
    accelerations: Sequence[Vec3],
) -> tuple[TrajectoryPoint, ...]:
    """Points of a YAML file (t in s, x, y, z in m, yaw in deg), with derivatives or none."""
    return tuple(
        TrajectoryPoint(
            point[0],
            point[1:4],
            math.radians(point[4]),
            velocities[i] if velocities else None,
            accelerations[i] if accelerations else None,
        )
        for i, point in enumerate(points)
    )


def _number(cell: str, where: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"{where}: {cell!r} is not a number") from None


def read_csv(path: Path) -> tuple[TrajectoryPoint, ...]:
    """Points of a CSV file with a header.

    Its columns, in any order: t in s, x, y, z in m, and as it has them yaw_deg, vx, vy, vz in m/s,
    ax, ay, az in m/s^2.

    Raises:
        InputError: one line that names the file, the row, the column and what is allowed.
    """
    try:
        text = read_limited(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file") from None
    rows = [row for row in csv.reader(io.StringIO(text)) if any(map(str.strip, row))]
    names = [name.strip() for name in rows[0]] if rows else []
    known = (*COLUMNS, YAW, *VELOCITY, *ACCELERATION)
    wrong = [name for name in names if name not in known or names.count(name) > 1]
    missing = [name for name in COLUMNS if name not in names]
    for group in (VELOCITY, ACCELERATION):
        if any(name in names for name in group):
            missing += [name for name in group if name not in names]
    if wrong or missing:
        raise InputError(
            f"{path}: header: {', '.join(names) or 'none'}; wanted: {', '.join(COLUMNS)}, and as"
            f" it has them {YAW}, {', '.join(VELOCITY)}, {', '.join(ACCELERATION)}, each once"
        )
    points = []
    for i, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise InputError(f"{path}: row {i}: {len(row)} values; the header has {len(names)}")
        cells = {
            name: _number(cell, f"{path}: row {i}: {name}")
            for name, cell in zip(names, row, strict=True)
        }
        v, a = (
            (cells[group[0]], cells[group[1]], cells[group[2]]) if group[0] in cells else None
            for group in (VELOCITY, ACCELERATION)
        )
        position = (cells["x"], cells["y"], cells["z"])
        yaw = math.radians(cells.get(YAW, 0.0))
        points.append(TrajectoryPoint(cells["t"], position, yaw, v, a))
    return tuple(points)
