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

#: What a trajectory is measured by: in words, its limit, and its value in a motion.
Measure = tuple[str, str, float, str, Callable[[Vec3, Vec3, float], float]]


def _measures(limits: PositionParams, gravity_mps2: float) -> list[Measure]:
    def tilt(_: Vec3, a: Vec3, __: float) -> float:
        return atan2(math.hypot(a[0], a[1]), gravity_mps2 + a[2])

    return [
        ("horizontal speed", "m/s", limits.speed_max_mps, "position.speed_max_mps",
         lambda v, a, r: math.hypot(v[0], v[1])),
        ("climb", "m/s", limits.ascent_max_mps, "position.ascent_max_mps",
         lambda v, a, r: v[2]),
        ("descent", "m/s", limits.descent_max_mps, "position.descent_max_mps",
         lambda v, a, r: -v[2]),
        ("horizontal acceleration", "m/s^2", limits.acceleration_max_mps2,
         "position.acceleration_max_mps2", lambda v, a, r: math.hypot(a[0], a[1])),
        ("tilt", "rad", limits.tilt_max_rad, "position.tilt_max_rad", tilt),
        ("yaw rate", "rad/s", limits.yaw_rate_max_radps, "position.yaw_rate_max_radps",
         lambda v, a, r: abs(r)),
    ]  # fmt: skip


def excess(
    plan: Flyable,
    limits: PositionParams,
    ground_m: float = -math.inf,
    gravity_mps2: float = GRAVITY_MPS2,
) -> str | None:
    """What a plan asks for that it may not, in words with value, time and limit; None if nothing.

    Args:
        plan: to be flown.
        limits: what the position loop gives.
        ground_m: height in W below which it must not go.
        gravity_mps2: by which an acceleration is a tilt.
    """
    count = min(max(math.ceil(plan.duration_s * SAMPLES_HZ), LEAST_SAMPLES), MOST_SAMPLES)
    times = np.linspace(0.0, plan.duration_s, count + 1).tolist()
    motions = [plan.at(t_s) for t_s in times]
    for words, unit, limit, key, value in _measures(limits, gravity_mps2):
        values = [value(v, a, rate) for _, v, a, _, rate in motions]
        most = max(values)
        if most > limit * (1.0 + ROUNDING):
            at_s = times[values.index(most)]
            return f"{words} of {most:.3g} {unit} at {at_s:.2f} s; allowed: <= {limit:g} ({key})"
    heights = [p[2] for p, *_ in motions]
    if min(heights) < ground_m:
        at_s = times[heights.index(min(heights))]
        return (
            f"height of {min(heights):.3g} m at {at_s:.2f} s; allowed: >= {ground_m:g}, the ground"
        )
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
        items: the mission.
        names: of the items in a file.
        autopilot: which flies it.
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
