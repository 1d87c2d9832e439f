"""Refuses trajectories that ask for more than the autopilot's limits or go below the ground."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from quadsim.base.elementary import atan2
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.control.parameters import GRAVITY_MPS2, AutopilotParams, PositionParams
from quadsim.mission.trajectories.course import Flyable
from quadsim.mission.trajectories.items import TrackItem, plan_of

#: Samples of a plan by which it is judged: as many a second, and within these numbers.
SAMPLES_HZ, LEAST_SAMPLES, MOST_SAMPLES = 100.0, 200, 4000
#: How much over a limit is its rounding.
ROUNDING = 1e-6

#: What a trajectory is measured by: in words, unit, field of PositionParams, and its value by
#: velocity, acceleration, yaw rate and gravity.
_MEASURES: tuple[tuple[str, str, str, Callable[[Vec3, Vec3, float, float], float]], ...] = (
    ("horizontal speed", "m/s", "speed_max_mps", lambda v, a, r, g: math.hypot(v[0], v[1])),
    ("climb", "m/s", "ascent_max_mps", lambda v, a, r, g: v[2]),
    ("descent", "m/s", "descent_max_mps", lambda v, a, r, g: -v[2]),
    ("horizontal acceleration", "m/s^2", "acceleration_max_mps2",
     lambda v, a, r, g: math.hypot(a[0], a[1])),
    ("tilt", "rad", "tilt_max_rad", lambda v, a, r, g: atan2(math.hypot(a[0], a[1]), g + a[2])),
    ("yaw rate", "rad/s", "yaw_rate_max_radps", lambda v, a, r, g: abs(r)),
)  # fmt: skip


def excess(
    plan: Flyable,
    limits: PositionParams,
    ground_m: float = -math.inf,
    gravity_mps2: float = GRAVITY_MPS2,
) -> str | None:
    """What a plan asks for that it may not, in words with value, time and limit; None if nothing.

    Args:
        ground_m: height in W below which it must not go.
        gravity_mps2: by which an acceleration is a tilt.
    """
    count = min(max(math.ceil(plan.duration_s * SAMPLES_HZ), LEAST_SAMPLES), MOST_SAMPLES)
    times = np.linspace(0.0, plan.duration_s, count + 1).tolist()
    motions = [plan.at(t_s) for t_s in times]
    for words, unit, key, value in _MEASURES:
        limit = getattr(limits, key)
        values = [value(v, a, rate, gravity_mps2) for _, v, a, _, rate in motions]
        most = max(values)
        if most > limit * (1.0 + ROUNDING):
            asked = f"{words} of {most:.3g} {unit} at {times[values.index(most)]:.2f} s"
            return f"{asked}; allowed: <= {limit:g} (position.{key})"
    heights = [p[2] for p, *_ in motions]
    if min(heights) < ground_m:
        asked = f"height of {min(heights):.3g} m at {times[heights.index(min(heights))]:.2f} s"
        return f"{asked}; allowed: >= {ground_m:g}, the ground"
    return None


def check_trajectories(
    items: Sequence[object],
    names: Sequence[str],
    autopilot: AutopilotParams,
    ground_m: float,
    where: str,
) -> None:
    """Refuse items whose trajectory no autopilot with these limits tracks.

    Args:
        names: of the items in a file.
        ground_m: height of the ground in W.
        where: the file that errors name.

    Raises:
        InputError: naming the item, the value and the limit.
    """
    for i, (item, name) in enumerate(zip(items, names, strict=True)):
        if not isinstance(item, TrackItem):
            continue
        plan = plan_of(item, autopilot.flight)
        found = excess(plan, autopilot.position, ground_m, autopilot.gravity_mps2)
        if found:
            raise InputError(f"{where}: mission[{i}]: {name}: {found}")
