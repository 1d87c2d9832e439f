"""What a vehicle does best about timed points whose velocity jumps: it begins before they do.

Points joined by straight lines ask for infinite acceleration at their corners. Smoothed over a
window around now (half a period of a raised cosine, of weight 1), they have a velocity and an
acceleration that can be flown; the part of the window that lies ahead is the preview. On a straight
stretch longer than the window the smoothed points are the points.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from quadsim.base.elementary import cos, sin
from quadsim.base.parameters import Vec3
from quadsim.mission.items import Follow, TimedPoint
from quadsim.mission.reference.legs import Motion


def window_weight(x: float) -> float:
    """Raised cosine (1 + cos(pi x)) / 2 on [-1, 1], 0 outside; its integral is 1."""
    return 0.5 * (1.0 + cos(math.pi * x)) if abs(x) < 1.0 else 0.0


def window_share(x: float) -> float:
    """Integral of :func:`window_weight` from -1 to ``x``."""
    x = min(max(x, -1.0), 1.0)
    return 0.5 * (1.0 + x + sin(math.pi * x) / math.pi)


def window_moment(x: float) -> float:
    """Integral of :func:`window_share` from -1 to ``x``; ``x`` beyond 1."""
    inside = min(max(x, -1.0), 1.0)
    bell = (1.0 + cos(math.pi * inside)) / (math.pi * math.pi)
    area = 0.25 * (1.0 + inside) * (1.0 + inside) - 0.5 * bell
    return area + max(x - 1.0, 0.0)


def smoothed(points: Sequence[TimedPoint], t_s: float, half_s: float) -> tuple[Vec3, Vec3, Vec3]:
    """Position, velocity and acceleration in W of timed points under the window around a time.

    Before the first and after the last point they stand there.

    Args:
        points: time in s, x, y, z in m, yaw in deg; times rise.
        t_s: time since their start.
        half_s: half the window's width, > 0.

    Returns:
        Position in m, velocity in m/s, acceleration in m/s^2.
    """
    first = max(bisect_right(points, t_s - half_s, key=lambda point: point[0]) - 1, 0)
    p, v, a = list(points[first][1:4]), [0.0] * 3, [0.0] * 3
    for before, after in zip(points[first:], points[first + 1 :], strict=False):
        if before[0] >= t_s + half_s:
            break
        entered, left = (t_s - before[0]) / half_s, (t_s - after[0]) / half_s
        slope = [(after[k] - before[k]) / (after[0] - before[0]) for k in (1, 2, 3)]
        way_s = half_s * (window_moment(entered) - window_moment(left))
        share = window_share(entered) - window_share(left)
        weight = (window_weight(entered) - window_weight(left)) / half_s
        for i in range(3):
            p[i] += slope[i] * way_s
            v[i] += slope[i] * share
            a[i] += slope[i] * weight
    return (p[0], p[1], p[2]), (v[0], v[1], v[2]), (a[0], a[1], a[2])


@dataclass(frozen=True)
class PointsPlan:
    """Timed points as a reference, which states how it moves only with a preview.

    Attributes:
        item: the points.
        preview_s: half the window of :func:`smoothed`; 0: velocity and acceleration are zero.
    """

    item: Follow
    preview_s: float

    @property
    def duration_s(self) -> float:
        """Time of the last point."""
        return self.item.points[-1][0]

    def progress(self, t_s: float) -> float:
        """Time within the points that is reached at a time."""
        return t_s

    def at(self, t_s: float) -> Motion:
        """Motion that is wanted at a time since the start."""
        p, yaw = self.item.at(t_s)
        v: Vec3 = (0.0, 0.0, 0.0)
        a = v
        if self.preview_s > 0.0:
            _, v, a = smoothed(self.item.points, t_s, self.preview_s)
        return p, v, a, yaw, 0.0
