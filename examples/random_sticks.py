"""Random sticks above hills: does assisted control keep a vehicle in the air?

``python examples/random_sticks.py`` flies an hour; see docs/piloting.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.noise import stream
from quadsim.control.joystick import RELEASED, Sticks
from quadsim.lab.campaign.batch import Progress, run_batch
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import Event
from quadsim.sim.scenario import load_scenario
from quadsim.vehicle.contact.contact import CRASHES
from quadsim.world.scene.raycast_terrain import TerrainArrays, terrain_height

Array = NDArray[np.float64]

#: Gives the sticks from what it sees in the closed loop; None: nothing is heard from it.
Pilot = Callable[[ClosedLoop], Sticks | None]

#: A target of the sticks holds so long, s.
SHORTEST_S, LONGEST_S = 1.0, 5.0
#: Shares of the targets that let go of everything, and of the single sticks that go to their stop.
RELEASED_SHARE, FULL_SHARE = 0.15, 0.3
#: Heights above ground between which the throttle stick may have any sign, m.
BAND_M = (1.5, 2.5)
#: Rows of the log a second.
LOG_HZ = 50.0


def heights_above(terrain: TerrainArrays, flat_m: float, p_W: Array) -> Array:
    """Heights (N,) of points (N, 3) above the ground right beneath."""
    ground = [terrain_height(terrain, flat_m, float(x), float(y)) for x, y, _ in p_W]
    return np.asarray(p_W[:, 2] - np.array(ground))


class RandomSticks:
    """A pilot who knows nothing: every 1 to 5 s new targets, full deflection and release included.

    The throttle stick alone is turned round where it would leave :data:`BAND_M`, so that the flight
    stays near the ground.

    Args:
        generator: of the targets.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._until_s = 0.0
        self._sticks: Sticks = RELEASED

    def __call__(self, loop: ClosedLoop) -> Sticks | None:
        """The sticks now; none before the vehicle is in the air."""
        if loop.manager.state not in ("hover", "mission", "assisted"):
            return None
        now_s = loop.stamp_ns * 1e-9
        if now_s >= self._until_s:
            self._until_s = now_s + self._generator.uniform(SHORTEST_S, LONGEST_S)
            self._sticks = self._target()
        forward, left, up, yaw = self._sticks
        height_m = height_above_ground(loop)
        if height_m > BAND_M[1]:
            up = -abs(up)
        elif height_m < BAND_M[0]:
            up = abs(up)
        return (forward, left, up, yaw)

    def _target(self) -> Sticks:
        released, *full = self._generator.random(5)
        deflections = self._generator.uniform(-1.0, 1.0, 4)
        if released < RELEASED_SHARE:
            return RELEASED
        forward, left, up, yaw = (
            math.copysign(1.0, deflection) if chance < FULL_SHARE else float(deflection)
            for chance, deflection in zip(full, deflections, strict=True)
        )
        return (forward, left, up, yaw)


def height_above_ground(loop: ClosedLoop) -> float:
    """True height of base_link above the ground right beneath, m."""
    x, y, z = map(float, loop.state["truth"]["p_W"][0])
    flat_m = loop.scenario.environment.ground_height_m
    return z - float(terrain_height(loop.scenario.scene.terrain, flat_m, x, y))


@dataclass(frozen=True)
class Job:
    """One flight.

    Attributes:
        seed: of everything: hills, noise and sticks.
        duration_s: of the flight by sticks.
        scenario: whose vehicle, sensors and hills.
        changes: of the autopilot's ``flight.assisted``.
    """

    seed: int
    duration_s: float
    scenario: str = "hills"
    changes: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Flown:
    """What a flight by random sticks gave.

    Attributes:
        seed: as of the job.
        flown_s: time in assisted control.
        crash: what it was; empty: none.
        heights_m: above ground while in assisted control, (N,).
        speeds_mps: horizontal, (N,).
        climbs_mps: vertical, (N,).
        position_max_m: largest error of the estimate.
        events: of level WARN and above.
    """

    seed: int
    flown_s: float
    crash: str
    heights_m: NDArray[np.float64]
    speeds_mps: NDArray[np.float64]
    climbs_mps: NDArray[np.float64]
    position_max_m: float
    events: tuple[Event, ...]


def fly(job: Job, pilot: Pilot | None = None) -> Flown:
    """Fly by sticks for a time after the take-off, or to a crash.

    Args:
        job: the flight.
        pilot: gives the sticks before each tick of the closed loop; without one, random sticks.
    """
    scenario = load_scenario(job.scenario, seed=job.seed, duration_s=job.duration_s + 30.0)
    terrain = replace(scenario.file.terrain, seed=job.seed)
    scenario = load_scenario(
        job.scenario, seed=job.seed, duration_s=job.duration_s + 30.0, terrain=vars(terrain)
    )
    flight = scenario.autopilot.flight
    assisted = replace(flight.assisted, **dict(job.changes))
    autopilot = replace(scenario.autopilot, flight=replace(flight, assisted=assisted))
    scenario = replace(scenario, autopilot=autopilot)
    loop = ClosedLoop(
        scenario,
        log_hz=LOG_HZ,
        pilot=pilot or RandomSticks(stream(job.seed, "quad", "sticks")),
    )
    begin_ns = 0
    while not loop.over:
        loop.tick()
        manager = loop.manager
        if manager.state == "disarmed" and loop.stamp_ns > 0 and manager.arm() is None:
            manager.start()
        if manager.state == "assisted" and not begin_ns:
            begin_ns = loop.stamp_ns
        if begin_ns and loop.stamp_ns >= begin_ns + job.duration_s * 1e9:
            break
    rows = loop.rows()
    rows = rows[rows["stamp_ns"] >= begin_ns]
    flat_m = scenario.environment.ground_height_m
    heights = heights_above(scenario.scene.terrain, flat_m, rows["p_W"])
    crash = int(loop.state.vehicle.crash)
    return Flown(
        job.seed,
        (loop.stamp_ns - begin_ns) * 1e-9,
        CRASHES[crash] if crash else "",
        heights,
        np.hypot(rows["v_W"][:, 0], rows["v_W"][:, 1]),
        rows["v_W"][:, 2].copy(),
        float(np.linalg.norm(rows["estimate"]["p_W"] - rows["p_W"], axis=1).max()),
        tuple(event for event in loop.events if event.level > 0),
    )


def summarize(flights: Sequence[Flown]) -> dict[str, Any]:
    """Figures of several flights together."""
    heights = np.concatenate([flight.heights_m for flight in flights])
    speeds = np.concatenate([flight.speeds_mps for flight in flights])
    climbs = np.concatenate([flight.climbs_mps for flight in flights])
    return {
        "flights": len(flights),
        "flown_s": sum(flight.flown_s for flight in flights),
        "crashes": [f"seed {f.seed}: {f.crash}" for f in flights if f.crash],
        "height_m": {
            "least": heights.min(),
            "1 %": np.percentile(heights, 1),
            "median": np.median(heights),
            "largest": heights.max(),
        },
        "speed_mps": {
            "mean": speeds.mean(),
            "99 %": np.percentile(speeds, 99),
            "top": speeds.max(),
        },
        "climb_mps": {"least": climbs.min(), "top": climbs.max()},
        "way_m": float(speeds.sum() / LOG_HZ),
        "estimate_max_m": max(flight.position_max_m for flight in flights),
        "warnings": sum(len(flight.events) for flight in flights),
    }


def run(
    flights: int, duration_s: float, processes: int = 0, progress: Progress | None = None
) -> list[Flown]:
    """Fly several flights with the seeds from 1 on, each over hills of its own."""
    jobs = [Job(seed, duration_s) for seed in range(1, flights + 1)]
    return run_batch(fly, jobs, processes, progress)


def main() -> None:
    """Fly and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flights", type=int, default=9)
    # the x500's battery warns after 7.5 minutes
    parser.add_argument("--minutes", type=float, default=20.0 / 3.0)
    args = parser.parse_args()
    figures = summarize(run(args.flights, 60.0 * args.minutes))
    for key, value in figures.items():
        print(f"{key}: {value}")


if __name__ == "__main__":
    main()
