"""Figures of docs/guard.md: how the rehearsals' vehicle stops, and how near the guard lets it come.

``python docs/make_guard_figures.py`` prints the tables.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))

from point_mass import PointMass, fly

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.hil.guard.guard import Guard, GuardParams
from quadsim.hil.rehearsal.rehearsal import TAKEOFF_S, load_rehearsal
from quadsim.hil.rehearsal.stand_in import StandIn, VehicleCommand

#: From the guard's output to the vehicle: the rehearsals' mean delay of a radio link.
LINK_S = 0.03
PARAMS = load(GuardParams, find("guards", "default"))


def stop(speed_mps: float) -> tuple[float, float, float]:
    """True speed when zero is sent, and way and time from then until 0.1 m/s."""
    rehearsal = load_rehearsal("pillars", seed=1)
    vehicle = StandIn(
        rehearsal.scenario, rehearsal.params.motion_capture, rehearsal.params.dead_reckoning_s
    )
    queue: list[tuple[int, float]] = []
    sent_ns, at_W, speed = 0, np.zeros(3), 0.0
    begin_ns, brake_ns = (round(t * 1e9) for t in (TAKEOFF_S, TAKEOFF_S + 5.0))
    while True:
        vehicle.tick()
        now_ns, truth = vehicle.stamp_ns, vehicle.state["truth"][0]
        if now_ns >= begin_ns and now_ns % 20_000_000 == 0:
            queue.append((now_ns, speed_mps if now_ns < brake_ns else 0.0))
        if now_ns >= brake_ns and not sent_ns:
            sent_ns, at_W = now_ns, truth["p_W"].copy()
            speed = float(np.linalg.norm(truth["v_W"][:2]))
        while queue and queue[0][0] <= now_ns - LINK_S * 1e9:
            vehicle.obey(VehicleCommand(now_ns, (queue.pop(0)[1], 0.0, 0.0), 0.0))
        if sent_ns and np.linalg.norm(truth["v_W"][:2]) < 0.1:
            way_m = float(np.linalg.norm(truth["p_W"][:2] - at_W[:2]))
            return speed, way_m, (now_ns - sent_ns) * 1e-9


def brakes() -> None:
    """Way to a stop against what the guard counts on."""
    assumed = PARAMS.vehicle
    print("| m/s | way, m | v latency + v²/2a, m | time, s |\n| --- | --- | --- | --- |")
    for wish in (1.0, 2.0, 3.0, 4.0):
        v, way_m, t_s = stop(wish)
        counted = v * assumed.latency_s + v * v / (2.0 * assumed.brake_mps2)
        print(f"| {v:.2f} | {way_m:.2f} | {counted:.2f} | {t_s:.2f} |")


def nearness() -> None:
    """Least distance from pillars to the centre, with wishes that know nothing of them."""
    least, margins, steps_s = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        count = rng.integers(5, 40)
        pillars = np.column_stack(
            (rng.uniform(-12.0, 12.0, (count, 2)), rng.uniform(0.1, 0.6, count))
        )
        pillars = pillars[np.hypot(pillars[:, 0], pillars[:, 1]) - pillars[:, 2] > 1.0]
        share, brake = rng.uniform(0.0, 1.0), rng.uniform(1.0, 3.0)
        mass = PointMass(
            np.array((0.0, 0.0, 1.5)),
            brake_mps2=brake * PARAMS.vehicle.brake_mps2,
            answer_s=share * PARAMS.vehicle.latency_s,
            pose_s=(1.0 - share) * PARAMS.vehicle.latency_s,
        )
        lasts_s = rng.uniform(0.3, 4.0)

        def wish(
            t_s: float, _: PointMass, seed: int = seed, lasts_s: float = lasts_s
        ) -> np.ndarray:
            chance = np.random.default_rng((seed, max(int(t_s / lasts_s), 0)))
            angle, speed = chance.uniform(-np.pi, np.pi), chance.uniform(0.0, 6.0)
            return speed * np.array((np.cos(angle), np.sin(angle), 0.0))

        guard = Guard(PARAMS)
        step = guard.step

        def timed(now_ns: int, step=step):
            begun_s = time.process_time()
            output = step(now_ns)
            steps_s.append(time.process_time() - begun_s)
            return output

        guard.step = timed
        flight = fly(guard, mass, wish, 12.0, pillars)
        least.append(flight.least_m)
        margins.append(min(output.margin_m for output in flight.outputs))
    print(f"{len(least)} flights: nearest {min(least):.3f} m, least margin {min(margins):.3f} m")
    print(f"median step {1e3 * np.median(steps_s):.2f} ms of processor time")


if __name__ == "__main__":
    brakes()
    nearness()
