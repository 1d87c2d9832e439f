"""The planner: ways to its goals around what a lidar sees, as velocities for the guard.

It keeps a map of one height (:mod:`quadsim.mission.planning.occupancy`), looks for the way that
takes least time a few times a second (:mod:`~quadsim.mission.planning.search`) and follows it no
faster than it could stop in what was seen free (:mod:`~quadsim.mission.planning.following`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from quadsim.mission.planning.parameters import (
    STATES,
    MapParams,
    PlannerOutput,
    PlannerParams,
    SpeedParams,
)
from quadsim.parameters import Vec3

__all__ = ["STATES", "MapParams", "Planner", "PlannerOutput", "PlannerParams", "SpeedParams"]


class Planner:
    """Flies to goals, one after the other, around what it sees.

    Args:
        params: of it.
    """

    def __init__(self, params: PlannerParams) -> None:
        self.params = params
        self._goals_W: NDArray[np.float64] = np.zeros((0, 3))

    def take_scan(
        self,
        stamp_ns: int,
        origin_W: Vec3,
        points_W: NDArray[np.float64],
        ends_W: NDArray[np.float64],
    ) -> None:
        """Take one scan of a lidar.

        Args:
            stamp_ns: of the scan, by the odometry's clock.
            origin_W: where its rays begin, m.
            points_W: (N, 3) echoes, m.
            ends_W: (M, 3) how far the rays without an echo have seen, m.
        """

    def take_goals(self, goals_W: NDArray[np.float64]) -> None:
        """Fly to these from now on; none: stop.

        Args:
            goals_W: (K, 3) m.

        Raises:
            InputError: a goal is not finite, or outside of the area.
        """

    def step(self, stamp_ns: int, p_W: Vec3, v_W: Vec3, yaw: float = 0.0) -> PlannerOutput:
        """Say what is wanted now.

        Args:
            stamp_ns: of the odometry.
            p_W: position, m.
            v_W: velocity, m/s.
            yaw: heading in rad, to turn to where it flies.
        """
        return PlannerOutput((0.0, 0.0, 0.0), 0.0, np.zeros((0, 3)), "idle")
