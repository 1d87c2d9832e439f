"""A lidar on its bench."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.records import KINEMATICS
from quadsim.lab.sensor_check.bench import Bench, Truth
from quadsim.sensors.lidar import Scan, SimulatedLidar
from quadsim.world.environment import EnvironmentParams


class LidarBench(Bench):
    """A lidar over flat ground.

    Args:
        environment: the world it measures.
        seed: of all its streams.
    """

    def __init__(self, environment: EnvironmentParams, seed: int = 1) -> None:
        self.environment, self._seed = environment, seed

    def scans(
        self, params: Any, experiment: str, count: int, truth: Truth, apart_ns: int = 0
    ) -> list[tuple[int, Scan]]:
        """Switch a lidar on once and take what it publishes.

        Args:
            params: of the lidar.
            experiment: name of its noise.
            count: of scans that are taken, lost ones with them.
            truth: where it is; it does not move.
            apart_ns: between two truths; 0: the period.

        Returns:
            Time of publication in ns, and scan.
        """
        lidar = SimulatedLidar(params, self.environment, self._seed, f"bench/{experiment}")
        record: NDArray[np.record] = np.zeros(1, KINEMATICS)
        record[0] = truth.now[0]
        step_ns = apart_ns or lidar.period_ns
        shown = record.view(np.recarray)[0]
        found = []
        # the first truth only begins; then the last scan ends and comes through
        last_ns = (count + 1) * lidar.period_ns + round(params.latency_s * 1e9) + step_ns
        for now_ns in range(0, last_ns + step_ns, step_ns):
            shown.stamp_ns = now_ns
            scan = lidar.measure(shown)
            while scan is not None:
                found.append((now_ns, scan))
                scan = lidar.published(now_ns)
        return found[:count] if params.loss_probability == 0.0 else found
