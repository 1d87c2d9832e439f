"""Another estimator over the very samples of a flight in the closed loop."""

from __future__ import annotations

import numpy as np

from quadsim.base.records import KINEMATICS, ODOMETRY
from quadsim.estimation import ESTIMATORS
from quadsim.estimation.eskf.parameters import LINEAR
from quadsim.estimation.interface import Estimator
from quadsim.estimation.reference_filters.gps_ins import gps_ins_begin_at
from quadsim.sensors import SENSORS
from quadsim.sensors.model import Readings
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import Track, track_of


def rerun_estimator(loop: ClosedLoop, name: str, blind_from_ns: int = -1) -> Track:
    """Run an estimator over what the sensors published in a flight, in the order of the stamps.

    Args:
        loop: after the flight; made with ``keep_samples``.
        name: of :data:`quadsim.estimation.ESTIMATORS`.
        blind_from_ns: from then on nothing corrects it, and it goes on by the IMU alone, and by the
            attitude that the linear filter is given; that one is told the true motion then. -1:
            it is never blind.

    Returns:
        Its estimate at the stamps of the flight's log; shorter where it started late.
    """
    scenario = loop.scenario
    estimator = ESTIMATORS[name](scenario.estimator, scenario.environment.datum)
    kinds = [
        Readings(SENSORS[kind], loop.samples(kind), slot["stated"])
        for kind, slots in loop.devices.items()
        for slot in slots
    ]
    samples = [
        (stamp_ns, order, i)
        for order, readings in enumerate(kinds)
        for i, stamp_ns in enumerate(readings.stamps_ns.tolist())
    ]
    logged = set(loop.rows()["stamp_ns"].tolist())
    rows = np.zeros(len(logged), ODOMETRY)
    count = 0
    last_ns = 0

    def store() -> None:
        """The estimate with everything up to the last stamp in it, where the log has a row."""
        nonlocal count
        if estimator.running and last_ns in logged:
            rows[count] = estimator.odometry()
            count += 1

    for stamp_ns, order, i in sorted(samples):
        if 0 <= blind_from_ns < stamp_ns:
            go_blind(estimator, loop, last_ns)
            blind_from_ns = -1
        if order == 0:
            store()
            last_ns = stamp_ns
        for kind, _, values in kinds[order].at(i):
            estimator.take(kind, stamp_ns, values)
    store()
    return track_of(rows[:count])


def go_blind(estimator: Estimator, loop: ClosedLoop, stamp_ns: int) -> None:
    """Let an estimator go on without corrections from the log's last row up to a stamp on."""
    estimator.lines["blind"] = 1
    if loop.scenario.estimator.filter != LINEAR:
        return
    rows = loop.rows()
    row = rows[np.searchsorted(rows["stamp_ns"], stamp_ns, side="right") - 1]
    truth = np.zeros(1, KINEMATICS)
    truth["stamp_ns"] = row["stamp_ns"]
    for name in ("p_W", "v_W", "q_WB", "w_B"):
        truth[name] = row[name]
    gps_ins_begin_at(estimator.lines, truth, loop.setup.imu_period_ns)
