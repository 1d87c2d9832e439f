"""The closed loop with everything stored that the graph would have published."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import record_dtype
from quadsim.base.records import ATTITUDE_COMMAND, MAX_ROTORS, SETPOINT
from quadsim.sim.closed_loop import LOG_HZ, ClosedLoop
from quadsim.sim.scenario import Scenario
from quadsim.sim.vehicles import Vehicles
from quadsim.vehicle.state import LOAD_P

#: What is stored at each mission tick: the reference at its begin, the vehicle at its end.
TICK = record_dtype(
    [
        ("begin_ns", np.int64),
        ("end_ns", np.int64),
        ("wished", np.int64),  # whether the setpoint is a reference
        ("setpoint", SETPOINT),
        ("command", ATTITUDE_COMMAND),
        ("a_W", np.float64, (3,)),
        ("w_dot_B", np.float64, (3,)),
        ("wind_W", np.float64, (3,)),
        ("load_W", np.float64, (3,)),
        ("contact", np.int64),
        ("current_A", np.float64, (MAX_ROTORS,)),
        ("battery_V", np.float64),
        ("charge", np.float64),  # 0 to 1
    ]
)


class RecordedLoop(ClosedLoop):
    """A flight of which every sample and every row at the IMU's rate is stored.

    Its log and its digest are those of a :class:`ClosedLoop` of the same scenario.

    Args:
        scenario: what flies.
        vehicle: its name.
        vehicles, index: as of :class:`ClosedLoop`; they keep every sample, and rows at the IMU's
            rate.
    """

    def __init__(
        self, scenario: Scenario, vehicle: str, vehicles: Vehicles | None = None, index: int = 0
    ) -> None:
        super().__init__(
            scenario,
            keep_samples=True,
            log_hz=scenario.imu.rate_hz,
            vehicle=vehicle,
            vehicles=vehicles,
            index=index,
        )
        self._ticks: NDArray[np.record] = np.zeros(len(self._reference), TICK)
        self._tick = 0
        # by views and arrays of one: a field of a record takes microseconds to find
        states, ticks = self._states, self._ticks
        body, true = states["vehicle"], states["truth"][:, 0]
        now = {
            "setpoint": self._setpoints,
            "command": states["command"],
            "a_W": true["a_W"],
            "w_dot_B": true["w_dot_B"],
            "wind_W": true["wind_W"],
            "load_W": body["x"][:, LOAD_P : LOAD_P + 3],
            "contact": body["contact"],
            "current_A": body["held"]["motor_current_A"],
            "battery_V": body["held"]["battery_V"],
        }
        self._columns = [(ticks[name], array) for name, array in now.items()]
        self._begins_ns, self._ends_ns = ticks["begin_ns"], ticks["end_ns"]
        self._wished, self._charges = ticks["wished"], ticks["charge"]
        #: Stamp and content of ``mission/status``, at each change.
        self.status: list[tuple[int, dict[str, str]]] = [(0, self.manager.status())]
        #: Stamp, and whether the truth is flown on, at each change.
        self.sources: list[tuple[int, bool]] = [(0, self.use_truth)]
        self.waypoints = self.manager.waypoints()

    def notice(self, until_ns: int) -> None:
        """End a mission tick, and keep it."""
        begin_ns = self.stamp_ns
        super().notice(until_ns)
        row = slice(self._tick, self._tick + 1)
        for column, now in self._columns:
            column[row] = now
        self._begins_ns[row], self._ends_ns[row] = begin_ns, self.stamp_ns
        self._wished[row] = self.manager.has_reference
        self._charges[row] = max(0.0, self._charge_now.item() / self._capacity_C)
        self._tick += 1
        status = self.manager.status()
        if status != self.status[-1][1]:
            self.status.append((begin_ns, status))
        if self.use_truth != self.sources[-1][1]:
            self.sources.append((begin_ns, self.use_truth))

    def ticks(self) -> NDArray[np.record]:
        """(N,) TICK records so far."""
        return self._ticks[: self._tick]

    def all_rows(self) -> NDArray[np.record]:
        """(N,) LOG_ROW records so far, at the IMU's rate."""
        return super().rows()

    def rows(self) -> NDArray[np.record]:
        """Those of them that a plain closed loop logs."""
        rows = self.all_rows()
        period_ns = round(1e9 / LOG_HZ)
        now_ns = rows["stamp_ns"]
        return rows[now_ns // period_ns > (now_ns - self._imu_period_ns) // period_ns]

    def arrivals_ns(self, kind: str) -> NDArray[np.int64]:
        """When each sample of a sensor was published, ns.

        The loop does not say, but what was taken at an IMU stamp arrives at the first one after its
        latency, never before an older one (:func:`quadsim.sensors.slot.send`).
        """
        params = self.scenario.sensors[kind]
        period_ns, imu_ns = round(1e9 / params.rate_hz), self._imu_period_ns
        stamp_ns = self.samples(kind)["stamp_ns"]
        # a jitter is less than half a period, so the nearest time of sampling is the right one
        near = stamp_ns[:, None] // period_ns + np.array([0, 1])
        taken_ns = -(-near * period_ns // imu_ns) * imu_ns
        best = np.argmin(np.abs(taken_ns - stamp_ns[:, None]), axis=1)
        sampled_ns = taken_ns[np.arange(len(best)), best]
        latency_s = np.full(len(best), params.latency_s)
        for fault in self.scenario.faults.get(kind, ()):
            if fault.fault == "delay":
                since_s = sampled_ns * 1e-9 - fault.at_s
                acts = (since_s >= 0.0) & (since_s < (fault.duration_s or math.inf))
                latency_s[acts] += fault.value[0]
        arrival_ns = np.maximum.accumulate(sampled_ns + np.rint(latency_s * 1e9).astype(np.int64))
        return np.asarray(-(-arrival_ns // imu_ns) * imu_ns)
