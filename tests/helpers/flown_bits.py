"""Prints the digest of each flight named: what a test runs as another processor would."""

import hashlib
import json
import math
import sys
from collections.abc import Sequence

import numpy as np

from quadsim.control.parameters import FlightParams
from quadsim.mission.trajectories.items import MinimumSnap, TimedFollow
from quadsim.mission.trajectories.timed import TrajectoryPoint
from quadsim.sim.scenario import load_scenario
from quadsim.sim.swarm import run_all


def courses() -> str:
    """SHA-256 of courses through waypoints, and through points with derivatives and without."""
    turns = [0.3 * k for k in range(12)]
    places = [(2.0 * math.sqrt(1.0 + t), t * t - t, 2.0 + 0.1 * t) for t in turns]
    speeds = [(1.0 / math.sqrt(1.0 + t), 2.0 * t - 1.0, 0.1) for t in turns]
    bare = [TrajectoryPoint(t, p, 0.2 * t) for t, p in zip(turns, places, strict=True)]
    moving = [point._replace(v_W=v) for point, v in zip(bare, speeds, strict=True)]
    content = hashlib.sha256()
    for item in (
        MinimumSnap(waypoints=tuple(places), yaw="along"),
        MinimumSnap(waypoints=tuple(places[:5]), optimise=True),
        TimedFollow(points=tuple(bare)),
        TimedFollow(points=tuple(moving)),
    ):
        plan = item.plan(FlightParams())
        for t_s in np.linspace(0.0, plan.duration_s, 200):
            p, v, a, yaw, rate = plan.at(float(t_s))
            content.update(np.array([*p, *v, *a, yaw, rate]).tobytes())
    return content.hexdigest()


def digests(names: Sequence[str]) -> dict[str, str]:
    """Fly scenarios: their digests and that of the courses."""
    return {name: run_all(load_scenario(name))[1] for name in names} | {"courses": courses()}


if __name__ == "__main__":
    print(json.dumps(digests(sys.argv[1:])))
