"""Looking at the ground by one compiled call is looking at it step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from quadsim.base.parameters import pack
from quadsim.base.records import ODOMETRY
from quadsim.control.parameters import FlightParams
from quadsim.estimation.terrain import GroundParams
from quadsim.mission.flight.estimate_check import GOOD, new_watch, observe
from quadsim.mission.flight.ground import Ground
from quadsim.mission.reference.legs import new_leg, plan_leg
from quadsim.mission.reference.terrain_following import TerrainFollowing
from quadsim.world.scene.raycast_terrain import NO_TERRAIN
from quadsim.world.scene.terrain import Heightmap, terrain_arrays

TICK_NS = 20_000_000
GOAL = (40.0, 10.0, 5.0)


class Looking:
    """One who follows the ground, and what it remembers."""

    def __init__(self, params: FlightParams, terrain) -> None:
        self.watch, self.limits = new_watch(), np.array([pack(params.failsafe)])
        self.ground = Ground(params.ground, terrain)
        self.ground.use()
        self.following = TerrainFollowing(params, self.ground)
        rest = ((0.0, 0.0, 5.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, 0.0)
        self.leg = new_leg()
        plan_leg(self.leg, rest, GOAL, 0.0, 10.0)

    def begin(self) -> None:
        self.following.begin(0, (0.0, 0.0, 5.0), (0.0, 0.0, 0.0), 5.0)

    def at_once(self, stamp_ns, odometries, leg_s):
        observation, course = self.following.look(
            self.watch, self.limits, stamp_ns, odometries, self.leg, leg_s, GOAL
        )
        if course is None:
            course = self._advance(stamp_ns, observation, leg_s)
        return observation, course

    def step_by_step(self, stamp_ns, odometries, leg_s):
        observation = observe(self.watch, self.limits, stamp_ns, odometries)
        if observation[0] == GOOD:
            self.ground.step(odometries)
        return observation, self._advance(stamp_ns, observation, leg_s)

    def _advance(self, stamp_ns, observation, leg_s):
        return self.following.advance(stamp_ns, *observation[2:4], self.leg, leg_s, GOAL)

    @property
    def memory(self) -> bytes:
        ground, following = self.ground, self.following
        known = repr((ground.known, ground.is_far, ground.is_near, ground.age_s)).encode()
        records = (self.watch, ground.handed[0], following._now)
        return known + b"".join(record.tobytes() for record in records)


def hills():
    x = np.linspace(-50.0, 50.0, 51)
    return terrain_arrays(Heightmap(np.sin(0.2 * x)[:, None] + np.cos(0.1 * x), (100.0, 100.0)))


@pytest.mark.parametrize("on_leg", [True, False], ids=["leg", "goal"])
@pytest.mark.parametrize("mapped", [True, False], ids=["map", "felt"])
def test_at_once_is_step_by_step(mapped, on_leg):
    params = FlightParams(ground=GroundParams(map=mapped))
    terrain = hills() if mapped else NO_TERRAIN
    both = Looking(params, terrain), Looking(params, terrain)
    for one in both:
        one.begin()
    rng = np.random.default_rng(3)
    odometries = np.zeros(1, ODOMETRY)
    odometries["q_WB"][0, 0] = 1.0
    for part in ("p_variance", "v_variance", "attitude_variance"):
        odometries[part] = 1e-4
    seen = set()
    for tick in range(1, 800):
        stamp_ns, t_s = tick * TICK_NS, tick * 0.02
        odometries["stamp_ns"] = stamp_ns
        odometries["v_W"] = (2.0 + math.sin(t_s), 0.5, 0.3 * math.cos(t_s))
        odometries["p_W"] = (2.0 * t_s - math.cos(t_s), 0.5 * t_s, 5.0 + 0.3 * math.sin(t_s))
        if 600 <= tick < 620:
            odometries["p_variance"] = 1e4  # not good
        elif tick == 620:
            odometries["p_variance"] = 1e-4
        # one, none, several; early; lost for 1.4 s, and then far for as long
        count = int(rng.choice([1, 1, 1, 0, 2])) if tick // 70 % 3 != 1 else 0
        for k in range(count):
            height_m = 5.0 + 0.05 * rng.standard_normal()
            kinds = [height_m, height_m, height_m, math.inf, -math.inf, math.nan]
            range_m = math.inf if tick // 70 % 3 == 2 else float(rng.choice(kinds))
            late_ns = int(rng.integers(-1, 3)) * 3_000_000 - k
            for one in both:
                one.ground.take(stamp_ns - late_ns, range_m, 0.01)
        leg_s = t_s if on_leg else math.nan
        first = both[0].at_once(stamp_ns, odometries, leg_s)
        second = both[1].step_by_step(stamp_ns, odometries, leg_s)
        assert repr(first) == repr(second)
        assert both[0].memory == both[1].memory
        ground = both[0].ground
        seen |= {("known", ground.known), ("far", ground.is_far), ("good", first[0][0] == GOOD)}
    wanted = {("known", True), ("far", True), ("far", False), ("good", True), ("good", False)}
    assert seen >= wanted | (set() if mapped else {("known", False)})
