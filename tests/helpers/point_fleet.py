"""Several vehicles as their guards' guarantee assumes them, each towards its goal."""

import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from point_mass import LEVEL, STEP_NS, PointMass

from quadsim.hil.guard.guard import Guard, GuardOutput, GuardParams
from quadsim.hil.guard.reaches import HEIGHT_RATIO, growth_mps

Array = NDArray[np.float64]


def goes_to(goal_W: Array, speed_mps: float) -> Callable[[PointMass], Array]:
    """A wish that leads straight to a goal, whoever is in the way."""

    def wish(mass: PointMass) -> Array:
        off = goal_W - mass.p_W
        size = max(math.sqrt(off @ off), 1e-9)
        return np.asarray(off / size * min(speed_mps, 1.2 * size))

    return wish


@dataclass
class Member:
    """One vehicle: its guard, what it wishes, and what came of it."""

    guard: Guard
    mass: PointMass
    wish: Callable[[PointMass], Array]
    phase: int
    outputs: list[GuardOutput] = field(default_factory=list)
    late: deque[tuple[int, Array, Array]] = field(default_factory=deque)


class PointFleet:
    """Fly vehicles whose guards tell each other their reach, 50 times a second, each in its turn.

    Args:
        params: of every guard, or of each.
        places_W: where they begin.
        wishes: of each.
        seed: of when in a period each guard steps.

    Attributes:
        least_m: least distance of two centres so far, a height divided by ``HEIGHT_RATIO``.
        silent: names that are not heard any more.
    """

    def __init__(
        self,
        params: GuardParams | list[GuardParams],
        places_W: Array,
        wishes: list[Callable[[PointMass], Array]],
        seed: int = 0,
    ) -> None:
        each = params if isinstance(params, list) else [params] * len(wishes)
        rng = np.random.default_rng(seed)
        self.now_ns, self.least_m = 1_000_000_000, math.inf
        self.silent: set[str] = set()
        self._metric = np.array((1.0, 1.0, 1.0 / HEIGHT_RATIO))
        self.members = {
            f"quad{k + 1}": Member(
                Guard(own),
                PointMass(
                    np.array(place, dtype=float),
                    brake_mps2=own.vehicle.brake_mps2,
                    answer_s=0.6 * own.vehicle.latency_s,
                    pose_s=0.4 * own.vehicle.latency_s,
                ),
                wish,
                int(rng.integers(4)),
            )
            for k, (own, place, wish) in enumerate(zip(each, places_W, wishes, strict=True))
        }
        for name, member in self.members.items():
            others = {
                other: beside.guard.params
                for other, beside in self.members.items()
                if other != name
            }
            member.guard.expect_neighbours(
                {other: own.keep_out_m for other, own in others.items()},
                {other: growth_mps(own) for other, own in others.items()},
            )
        self.run(1.0, flies=False)
        for member in self.members.values():
            refusal = member.guard.enable(self.now_ns)
            assert refusal is None, refusal

    def run(self, duration_s: float, flies: bool = True) -> None:
        """Fly on for a time."""
        for k in range(round(duration_s * 1e9) // STEP_NS):
            self.now_ns += STEP_NS
            for name, member in self.members.items():
                if k % 4 == member.phase:
                    self._step(name, member, flies)
            for member in self.members.values():
                member.mass.step(self.now_ns)
            for a, b in itertools.combinations(self.members.values(), 2):
                off = (a.mass.p_W - b.mass.p_W) * self._metric
                self.least_m = min(self.least_m, math.sqrt(off @ off))

    def _step(self, name: str, member: Member, flies: bool) -> None:
        guard, mass, now_ns = member.guard, member.mass, self.now_ns
        member.late.append((now_ns, mass.p_W, mass.v_W))
        while member.late and member.late[0][0] <= now_ns - round(mass.pose_s * 1e9):
            stamp_ns, p, v = member.late.popleft()
            guard.take_pose(stamp_ns, now_ns, tuple(p), LEVEL, tuple(v))
        guard.take_dead_man(now_ns, True)
        guard.take_wish(now_ns, tuple(member.wish(mass)), 0.0)
        if flies:
            output = guard.step(now_ns)
            member.outputs.append(output)
            if output.send:
                mass.command(now_ns, output.v_W)
        reach_W = guard.reach(now_ns)
        for other, beside in self.members.items():
            if reach_W is not None and other != name and name not in self.silent:
                beside.guard.take_neighbour(name, now_ns, now_ns, reach_W)

    def words(self, name: str) -> str:
        """All that a guard told."""
        outputs = self.members[name].outputs
        return "\n".join(event.words for output in outputs for event in output.events)
