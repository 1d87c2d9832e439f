"""A trained policy of velocities in the planner's place, behind the guard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.base.records import ODOMETRY
from quadsim.geometry.rotation import Quat
from quadsim.hil.planner.parameters import PlannerOutput


class PolicyPlanner:
    """Asks a policy what the planner is asked. It sees no obstacles, which the guard does.

    Args:
        policy: with ``plan(now)``, as :class:`quadsim.gym.policy.Policy` of velocities.
        speed_mps: what it asks for is cut to this.
    """

    def __init__(self, policy: Any, speed_mps: float) -> None:
        self._policy, self._speed_mps = policy, speed_mps
        self._odometry: NDArray[np.record] = np.zeros(1, ODOMETRY)
        self._begun_ns = -1
        self._goal_W = np.zeros(3)

    def take_goals(self, goals_W: NDArray[np.float64]) -> None:
        """Fly to the last of (N, 3) places, m."""
        self._goal_W = goals_W[-1]

    def step(self, stamp_ns: int, p_W: Vec3, v_W: Vec3, q_WB: Quat) -> PlannerOutput:
        """What it asks for at a pose; body rates, which no pose tells, are zero to it."""
        if self._begun_ns < 0:
            self._begun_ns = stamp_ns
        for name, value in (("p_W", p_W), ("v_W", v_W), ("q_WB", q_WB)):
            self._odometry[name] = value
        self._odometry["stamp_ns"] = stamp_ns
        now = SimpleNamespace(
            mode="mission", time_s=(stamp_ns - self._begun_ns) * 1e-9, sensors={},
            setpoint=SimpleNamespace(mode="position", p_W=self._goal_W),
            records={"odometry": self._odometry},
        )  # fmt: skip
        x, y, z, yaw_rate = (float(number) for number in self._policy.plan(now))
        cut = min(1.0, self._speed_mps / max(float(np.linalg.norm((x, y, z))), 1e-9))
        return PlannerOutput((cut * x, cut * y, cut * z), yaw_rate, np.zeros((0, 3)), "flying")
