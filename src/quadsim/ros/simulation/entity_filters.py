"""Which entities a request of simulation_interfaces means (EntityFilters)."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import shown
from quadsim.ros.simulation.interfaces import RefusedError

#: Longest expression, and how many repeats and alternatives it may hold: more could take hours.
LONGEST_FILTER, MOST_REPEATS, MOST_OTHERS = 200, 3, 8
#: Of Bounds.
EMPTY, BOX, CONVEX_HULL, SPHERE = range(4)


def name_filter(text: str) -> re.Pattern[str]:
    """A regular expression of a request.

    Raises:
        RefusedError: it is none, or one whose matching may not end.
    """
    bare = re.sub(r"\\.|\[\^?\]?[^]]*\]", "a", text)
    if (
        len(text) > LONGEST_FILTER
        or len(re.findall(r"[*+{?]", bare)) > MOST_REPEATS
        or bare.count("|") > MOST_OTHERS
        or re.search(r"\)[*+{]", bare)
    ):
        raise RefusedError(
            "RESULT_OPERATION_FAILED",
            f"filter {shown(text)}; allowed: {LONGEST_FILTER} characters, {MOST_OTHERS} times |,"
            f" {MOST_REPEATS} repeats (* + ? {{}}), none of a group",
        )
    try:
        return re.compile(text)
    except (re.error, OverflowError) as error:
        raise RefusedError("RESULT_OPERATION_FAILED", f"filter {shown(text)}: {error}") from None


def has_tags(tags: Collection[str], wanted: Any) -> bool:
    """Whether tags fit a TagsFilter."""
    if not wanted.tags:
        return True
    fits = all if wanted.filter_mode == wanted.FILTER_MODE_ALL else any
    return fits(tag in tags for tag in wanted.tags)


def overlaps(box: NDArray[np.float64], bounds: Any) -> bool:
    """Whether a box along the axes, (2, 3) m, reaches into Bounds.

    Raises:
        RefusedError: bounds of another kind, or that are none.
    """
    if bounds.type == EMPTY:
        return True
    if bounds.type not in (BOX, SPHERE):
        raise RefusedError("RESULT_FEATURE_UNSUPPORTED", "bounds; allowed: none, a box, a sphere")
    points = [(point.x, point.y, point.z) for point in bounds.points]
    if len(points) != 2 or not np.all(np.isfinite(points)):
        raise RefusedError("RESULT_OPERATION_FAILED", "bounds; allowed: two finite points")
    low, high = box
    if bounds.type == SPHERE:
        away_m = np.maximum(np.maximum(low - points[0], points[0] - high), 0.0)
        return math.hypot(*away_m) <= points[1][0]
    return bool(np.all(low <= np.max(points, axis=0)) and np.all(high >= np.min(points, axis=0)))
