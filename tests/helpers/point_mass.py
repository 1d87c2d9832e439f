"""A vehicle as the guard's guarantee assumes it, among pillars that a planar lidar sees."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from quadsim.hil.guard.guard import Guard, GuardOutput

Array = NDArray[np.float64]

STEP_NS = 5_000_000
LEVEL = (1.0, 0.0, 0.0, 0.0)
NO_PILLARS = np.zeros((0, 3))


@dataclass
class PointMass:
    """It answers each command after a delay, and goes to it on a straight line in velocity.

    Attributes:
        p_W: (3,) m.
        v_W: (3,) m/s.
        brake_mps2: how fast its velocity changes.
        answer_s: delay of a command.
        pose_s: delay of its pose.
    """

    p_W: Array
    v_W: Array = field(default_factory=lambda: np.zeros(3))
    brake_mps2: float = 3.0
    answer_s: float = 0.15
    pose_s: float = 0.1
    goal_W: Array = field(default_factory=lambda: np.zeros(3))
    queue: deque[tuple[int, Array]] = field(default_factory=deque)

    def command(self, now_ns: int, v_W: Array) -> None:
        """A command that is sent now."""
        self.queue.append((now_ns + round(self.answer_s * 1e9), v_W))

    def step(self, now_ns: int) -> None:
        """Advance by :data:`STEP_NS`."""
        while self.queue and self.queue[0][0] <= now_ns:
            self.goal_W = self.queue.popleft()[1]
        off = self.goal_W - self.v_W
        size = math.sqrt(off @ off)
        change = self.brake_mps2 * STEP_NS * 1e-9
        before = self.v_W
        self.v_W = self.goal_W if size <= change else self.v_W + off * (change / size)
        self.p_W = self.p_W + 0.5 * (before + self.v_W) * STEP_NS * 1e-9


def hits(p_W: Array, pillars: Array, rays: int = 360, range_m: float = 10.0) -> Array:
    """(N, 3) where the rays of a planar lidar meet pillars (K, 3), each x, y and radius."""
    angle = np.linspace(-math.pi, math.pi, rays, endpoint=False)
    towards = np.column_stack((np.cos(angle), np.sin(angle)))
    least = np.full(rays, np.inf)
    for x, y, radius in pillars:
        off = np.array((x, y)) - p_W[:2]
        along = towards @ off
        under = radius * radius - (off @ off - along * along)
        near = along - np.sqrt(np.maximum(under, 0.0))
        least = np.where((under >= 0.0) & (near > 0.0), np.minimum(least, near), least)
    seen = least <= range_m
    points = np.full((int(seen.sum()), 3), p_W[2])
    points[:, :2] = p_W[:2] + least[seen, None] * towards[seen]
    return points


@dataclass
class Flight:
    """What a flight was like: (T, 3) places and velocities, least distance, and the outputs."""

    p_W: Array
    v_W: Array
    least_m: float
    outputs: list[GuardOutput]


def clearance(p_W: Array, pillars: Array) -> float:
    """From a point to the nearest pillar's surface, m."""
    if not len(pillars):
        return math.inf
    return float((np.hypot(*(pillars[:, :2] - p_W[:2]).T) - pillars[:, 2]).min())


def fly(
    guard: Guard,
    mass: PointMass,
    wish: Callable[[float, PointMass], Array],
    duration_s: float,
    pillars: Array = NO_PILLARS,
    scan_ns: int = 50_000_000,
    before: Callable[[int, Guard, PointMass], None] = lambda *_: None,
    poses: Callable[[float], bool] = lambda _: True,
) -> Flight:
    """Fly a point mass by the guard: poses and steps at 50 Hz, scans at 20 Hz.

    Args:
        guard: not yet enabled.
        mass: the vehicle.
        wish: of the time in s and the vehicle; NaN: none comes.
        duration_s: of the flight.
        pillars: (K, 3) x, y, radius.
        scan_ns: period of the scans.
        before: called before each step of the guard, with its time.
        poses: of the time in s, whether poses come.
    """
    begin_ns = 1_000_000_000
    late: deque[tuple[int, Array, Array]] = deque()
    places, velocities, outputs = [], [], []
    least_m = math.inf
    for k in range(round((duration_s + 1.0) * 1e9) // STEP_NS):
        now_ns = begin_ns + k * STEP_NS
        t_s = (now_ns - begin_ns) * 1e-9 - 1.0
        if k % 4 == 0:
            late.append((now_ns, mass.p_W, mass.v_W))
            if (now_ns - begin_ns) % scan_ns == 0:
                guard.take_scan(now_ns, now_ns, tuple(mass.p_W), hits(mass.p_W, pillars), 10.0)
            while late and late[0][0] <= now_ns - round(mass.pose_s * 1e9):
                stamp_ns, p, v = late.popleft()
                if poses(t_s):
                    guard.take_pose(stamp_ns, now_ns, tuple(p), LEVEL, tuple(v))
            guard.take_dead_man(now_ns, True)
            wanted = wish(t_s, mass)
            if t_s >= 0.0 and np.isfinite(wanted).all():
                guard.take_wish(now_ns, tuple(wanted), 0.0)
            before(now_ns, guard, mass)
            if t_s >= 0.0 and not outputs:
                refusal = guard.enable(now_ns)
                assert refusal is None, refusal
            if t_s >= 0.0:
                output = guard.step(now_ns)
                outputs.append(output)
                if output.send:
                    mass.command(now_ns, output.v_W)
        mass.step(now_ns)
        places.append(mass.p_W)
        velocities.append(mass.v_W)
        least_m = min(least_m, clearance(mass.p_W, pillars))
    return Flight(np.array(places), np.array(velocities), least_m, outputs)
