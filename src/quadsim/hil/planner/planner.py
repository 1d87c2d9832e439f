"""The planner: ways to its goals around what a lidar sees, as velocities for the guard.

It keeps a map of one height (:mod:`quadsim.hil.planner.occupancy`), looks for the way that
takes least time a few times a second (:mod:`~quadsim.hil.planner.routes`) and follows it no
faster than it could stop in what was seen free (:mod:`~quadsim.hil.planner.following`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import wrap
from quadsim.hil.planner.following import UNSEEN, Way, follow, nearest_on, place_on
from quadsim.hil.planner.occupancy import OccupancyMap
from quadsim.hil.planner.parameters import (
    CROSS_GAIN_PER_S,
    LEAST_MPS,
    PASSING_RADIUS_M,
    PlannerOutput,
    PlannerParams,
)
from quadsim.hil.planner.routes import Routes
from quadsim.world.scene.movers import MovingShape

#: Climb per error of the height, 1/s.
HEIGHT_GAIN_PER_S = 1.0
#: Commands are no farther from the vehicle's velocity than it could change in this time, s.
AHEAD_S = 0.8
#: It turns to what is this far ahead on the way, m.
LOOK_M = 1.5
#: Where it turns before it flies, it looks at least so long ahead, s.
LOOK_S = 0.8
#: Slower it stands, m/s.
STILL_MPS = 0.1
#: Why it is slow meanwhile, or stands and turns once.
TURNING, LOOKING = "turns to where it flies", "looks around"
#: Pushed so many arrival radii off its goal, it looks for a way again.
LEAVING_RADII = 2.0
#: It plans on while time goes back by no more, and begins anew where it goes back farther, ns.
BACK_NS = 1_000_000_000
#: Why it stands where no scan comes.
NO_SCAN = "no scan"
NOWHERE: NDArray[np.float64] = np.zeros((0, 3))


class Planner:
    """Flies to goals, one after the other, around what it sees.

    Attributes:
        plans: how often it has looked for a way.
    """

    def __init__(self, params: PlannerParams) -> None:
        self.params = params
        self.plans = 0
        self._goals_W: NDArray[np.float64] = NOWHERE
        self._begin()

    def _begin(self) -> None:
        """Nothing is known yet."""
        self._routes = Routes(self.params)
        self._stamp_ns = self._scan_ns = self._planned_ns = -1
        self._command: NDArray[np.float64] = np.zeros(3)
        self._way: Way | None = None
        self._anew = True
        self._arrived = False
        self._look_rad = 0.0  # that it still turns to look around

    @property
    def goals_W(self) -> NDArray[np.float64]:
        """(K, 3) what it still flies to, m."""
        return self._goals_W

    @property
    def seen(self) -> OccupancyMap:
        """The map of what was seen; it is made when there is a goal."""
        return self._routes.map

    def take_scan(
        self,
        stamp_ns: int,
        origin_W: Vec3,
        points_W: NDArray[np.float64],
        ends_W: NDArray[np.float64],
    ) -> None:
        """Take one scan of a lidar; what is not finite in it is left out.

        Args:
            stamp_ns: of the scan, by the odometry's clock.
            origin_W: where its rays begin, m.
            points_W: (N, 3) echoes, m.
            ends_W: (M, 3) how far the rays without an echo have seen, m.
        """
        if self._stamp_ns < 0 or stamp_ns <= self._scan_ns or not all(map(math.isfinite, origin_W)):
            return
        self._scan_ns = stamp_ns
        points_W, ends_W = (rows[np.isfinite(rows).all(axis=1)] for rows in (points_W, ends_W))
        if self._routes.take_scan(stamp_ns * 1e-9, origin_W, points_W, ends_W):
            self._anew = True

    def take_shapes(self, stamp_ns: int, shapes: Sequence[MovingShape]) -> None:
        """Take what is known to move, such as other vehicles, in place of what was known before.

        Args:
            stamp_ns: of it, by the odometry's clock.
            shapes: with ``p_W`` (m), ``v_W`` (m/s), ``radius_m`` and ``half_height_m``; what is not
                finite is left out.
        """
        self._routes.take_shapes(
            stamp_ns * 1e-9,
            [
                shape
                for shape in shapes
                if np.isfinite([*shape.p_W, *shape.v_W, shape.radius_m, shape.half_height_m]).all()
            ],
        )

    def take_goals(self, goals_W: NDArray[np.float64]) -> None:
        """Fly to these from now on; none: stop.

        Args:
            goals_W: (K, 3) m.

        Raises:
            InputError: a goal is not finite, or outside of the area.
        """
        goals_W = np.asarray(goals_W, float).reshape(-1, 3)
        area = (self.params.area_min_W_m, self.params.area_max_W_m)
        for goal in goals_W:
            where = ", ".join(f"{x:g}" for x in goal)
            if not np.isfinite(goal).all():
                raise InputError(f"goal ({where}): a number is not finite")
            if not (np.all(goal[:2] > area[0]) and np.all(goal[:2] < area[1])):
                raise InputError(f"goal ({where}): outside of area_min_W_m, area_max_W_m")
        self._goals_W = goals_W
        self._routes.new_goal()
        self._way, self._anew, self._arrived = None, True, False

    def step(self, stamp_ns: int, p_W: Vec3, v_W: Vec3, yaw: float | None = None) -> PlannerOutput:
        """Say what is wanted now.

        Args:
            stamp_ns: of the odometry. Time that goes back by more than :data:`BACK_NS` begins anew
                with the same goals; what is a little older counts as of the last stamp.
            p_W: position, m.
            v_W: velocity, m/s.
            yaw: heading in rad, to turn to where it flies; None does not turn.
        """
        if stamp_ns < self._stamp_ns - BACK_NS:
            self._begin()
        stamp_ns = max(stamp_ns, self._stamp_ns)
        dt_s = 0.0 if self._stamp_ns < 0 else min((stamp_ns - self._stamp_ns) * 1e-9, 0.1)
        self._stamp_ns = stamp_ns
        if not all(map(math.isfinite, (*p_W, *v_W))):
            return self._output(np.zeros(3), np.array(v_W), dt_s, "blocked", "no pose")
        p, v = np.array(p_W, float), np.array(v_W, float)
        self._pass_goals(p)
        if len(self._goals_W) == 0:
            return self._output(np.zeros(3), v, dt_s, "idle", "")
        goal = self._goals_W[0]
        wanted = np.zeros(3)
        climb = HEIGHT_GAIN_PER_S * (goal[2] - p[2])
        wanted[2] = np.clip(climb, -self.params.speed.climb_mps, self.params.speed.climb_mps)
        age_s = (stamp_ns - self._scan_ns) * 1e-9
        blind = self._scan_ns < 0 or age_s > self.params.scan_timeout_s
        if self._arrived:
            if blind:
                return self._output(np.zeros(3), v, dt_s, "arrived", NO_SCAN)
            wanted[:2] = self._home(p[:2], goal[:2])
            return self._output(wanted, v, dt_s, "arrived", "")
        reason = self._plan(stamp_ns, p, v)
        if self._way is None:
            return self._output(np.zeros(3), v, dt_s, "blocked", reason)
        if blind:
            return self._output(np.zeros(3), v, dt_s, "flying", NO_SCAN, self._path(p, goal))
        wanted[:2], slow = follow(self._way, p[:2], v[:2], self.params.speed)
        rate, aside_rad = self._turn(p[:2], v[:2], yaw)
        if (look_rad := self.params.speed.look_rad) > 0.0:
            if slow == UNSEEN and aside_rad < look_rad and float(np.hypot(*wanted[:2])) < STILL_MPS:
                self._look_rad = self._look_rad or 2.0 * math.pi  # what is close at its sides, too
            if self._look_rad > 0.0:
                rate, slow = self.params.speed.yaw_rate_radps, LOOKING
                self._look_rad = max(self._look_rad - rate * dt_s, 0.0)
                wanted[:2] = 0.0
            elif aside_rad > 0.5 * look_rad:
                wanted[:2] *= max(2.0 * (1.0 - aside_rad / look_rad), 0.0)
                slow = TURNING
        return self._output(wanted, v, dt_s, "flying", slow, self._path(p, goal), rate)

    # ---- goals ---------------------------------------------------------------------------------

    def _pass_goals(self, p: NDArray[np.float64]) -> None:
        """Go on to the next goal where one is reached; notice the arrival, and being pushed off."""
        while len(self._goals_W) > 1:
            if np.linalg.norm(self._goals_W[0] - p) > PASSING_RADIUS_M:
                return
            self._goals_W = self._goals_W[1:]
            self._routes.new_goal()
            self._way, self._anew = None, True
        if len(self._goals_W) == 1:
            radii = LEAVING_RADII if self._arrived else 1.0
            away_m = float(np.linalg.norm(self._goals_W[0] - p))
            before = self._arrived
            self._arrived = away_m <= radii * self.params.arrival_radius_m
            if before and not self._arrived:
                self._way, self._anew = None, True

    def _home(self, p: NDArray[np.float64], goal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Velocity that stays at a goal."""
        wanted = CROSS_GAIN_PER_S * (goal - p)
        length = float(np.hypot(*wanted))
        most = LEAST_MPS
        return wanted if length <= most else wanted * (most / length)

    # ---- ways ----------------------------------------------------------------------------------

    def _plan(self, stamp_ns: int, p: NDArray[np.float64], v: NDArray[np.float64]) -> str:
        """Look for a way when it is time; states why there is none."""
        period_ns = 1e9 / self.params.rate_hz
        if self._anew or self._planned_ns < 0 or stamp_ns - self._planned_ns >= period_ns:
            last = len(self._goals_W) == 1
            self._way = self._routes.find(stamp_ns * 1e-9, p, v, self._goals_W[0], last)
            self._planned_ns, self._anew = stamp_ns, False
            self.plans += 1
        return self._routes.reason

    def _path(self, p: NDArray[np.float64], goal: NDArray[np.float64]) -> NDArray[np.float64]:
        """(K, 3) the way from here on; its height goes evenly to the goal's."""
        assert self._way is not None
        at_m = nearest_on(self._way, p[:2])
        points = self._way.points_W[self._way.along_m > at_m]
        points = np.vstack([p[:2], points])
        return np.column_stack([points, np.linspace(p[2], goal[2], len(points))])

    def _turn(
        self, p: NDArray[np.float64], v: NDArray[np.float64], yaw: float | None
    ) -> tuple[float, float]:
        """Yaw rate towards what is ahead on the way, and how far that is aside, rad."""
        if yaw is None or self._way is None:
            return 0.0, 0.0
        speed = self.params.speed
        look_m = LOOK_M if speed.look_rad == 0.0 else max(LOOK_M, LOOK_S * float(np.hypot(*v)))
        at_m = nearest_on(self._way, p) + look_m
        x, y = (place_on(self._way, at_m) - p).tolist()
        if math.hypot(x, y) < 0.5 * LOOK_M:  # at the end it stays as it is
            return 0.0, 0.0
        aside_rad = wrap(math.atan2(y, x) - yaw)
        rate = speed.yaw_gain * aside_rad
        return min(max(rate, -speed.yaw_rate_radps), speed.yaw_rate_radps), abs(aside_rad)

    def _output(
        self,
        wanted: NDArray[np.float64],
        v: NDArray[np.float64],
        dt_s: float,
        state: str,
        reason: str,
        path_W: NDArray[np.float64] = NOWHERE,
        yaw_rate_radps: float = 0.0,
    ) -> PlannerOutput:
        """Change the command towards what is wanted, no faster than the vehicle can follow."""
        speed = self.params.speed
        lead = self._command - np.nan_to_num(v)
        length = float(np.linalg.norm(lead))
        most = AHEAD_S * max(speed.acceleration_mps2, speed.braking_mps2)
        if length > most:  # somebody else, such as the guard, made it slower
            self._command = self._command - lead * (1.0 - most / length)
        change = wanted - self._command
        slower = np.linalg.norm(wanted) < np.linalg.norm(self._command)
        step = (speed.braking_mps2 if slower else speed.acceleration_mps2) * dt_s
        length = float(np.linalg.norm(change))
        self._command = (
            wanted.copy() if length <= step else self._command + change * (step / length)
        )
        x, y, z = self._command.tolist()
        return PlannerOutput((x, y, z), yaw_rate_radps, path_W, state, reason)


def load_kernels(params: PlannerParams) -> None:
    """Plan once: the first plan of a process, which loads them, takes longer than a guard waits."""
    planner = Planner(params)
    planner.take_goals(np.array([[4.0, 0.0, 1.0]]))
    for stamp_ns in (1, 2):
        planner.step(stamp_ns, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 0.0)
        planner.take_scan(
            stamp_ns, (0.0, 0.0, 1.0), np.array([[2.0, 0.0, 1.0]]), np.array([[2.0, 2.0, 1.0]])
        )
