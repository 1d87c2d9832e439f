"""What the error-state filter costs, on one core.

``python benchmarks/estimator.py [bag]`` prints one JSON object: processor time, median of the runs
and the fastest one, which others disturb least; and the load of the machine when it began.

- ``prediction_us``: one IMU sample, nominal state and covariance, in a compiled loop.
- ``scalar_us``: one pressure; ``vector_us``: one fix, three numbers with their covariance.
- ``field_us``: one magnetic field, heading and vertical part: two numbers, one after the other.
- ``..._all``: the same with every state that parameters can ask for, 28 instead of 17.
- ``copy_us``: one copy of the filter, of which the horizon keeps one each 8 ms.
- ``late_us_per_100_ms``: a measurement late by 200 ms, the IMU at 500 Hz, over two.
- ``call_us``: one IMU sample through ``ErrorStateEkf``, the call from Python included.
- ``messages_times_real_time``: a flight of IMU at 500 Hz, field at 100 Hz, pressure at 50 Hz, fixes
  at 5 Hz, message by message from Python, nothing read.
- ``bag_times_real_time``: with a bag named, its replay, reading included.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.analysis.replay import Settings, load_kernels, replay
from quadsim.analysis.surroundings import machine, versions
from quadsim.compiled import kernel
from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf import eskf_imu, eskf_magnetic_field, eskf_pressure
from quadsim.estimation.measurements import fuse_gnss_position
from quadsim.estimation.parameters import FusionParams, NoiseParams, StartParams
from quadsim.geometry.geodesy import Datum
from quadsim.world.atmosphere import pressure_at

G = 9.80665
RUNS, CALLS, SAMPLES = 21, 2000, 2000
PERIOD_NS = 2_000_000
FIELD_W = (0.0, 2.15e-5, -4.3e-5)
F_COVARIANCE, W_COVARIANCE = 1e-2 * np.eye(3), 1e-4 * np.eye(3)
DATUM = Datum()
DEFAULT = EstimatorParams()
EVERYTHING = EstimatorParams(
    start=StartParams(field_bias_T=1e-7, field_T=1e-7),
    noise=NoiseParams(gnss_correlated_share=0.5),
    fusion=FusionParams(drag_per_s=0.3),
)


@kernel
def predictions(lines: Any, count: int) -> None:
    """So many IMU samples."""
    state, params = lines[0].state, lines[0].params
    for k in range(count):
        f_S = (0.1, -0.1 + 1e-6 * k, 9.8)
        eskf_imu(
            state, params, state.imu_stamp_ns + 2_000_000, f_S, (0.01, 0.02, -0.01),
            (1e-2, 1e-2, 1e-2), (1e-4, 1e-4, 1e-4),
        )  # fmt: skip


@kernel
def pressures(lines: Any, count: int) -> None:
    """So many scalar updates, all accepted."""
    state, params = lines[0].state, lines[0].params
    for _ in range(count):
        eskf_pressure(state, params, 95000.0, 1e6)


@kernel
def fixes(lines: Any, count: int) -> None:
    """So many updates of three numbers."""
    state, params = lines[0].state, lines[0].params
    for _ in range(count):
        p_W = (state.p_W[0], state.p_W[1], state.p_W[2])
        fuse_gnss_position(state, params, p_W, (1.0, 0.1, 0.0, 1.0, 0.1, 2.0))


@kernel
def fields(lines: Any, count: int) -> None:
    """So many magnetic fields."""
    state, params = lines[0].state, lines[0].params
    for _ in range(count):
        eskf_magnetic_field(state, params, (0.0, 2.15e-5, -4.3e-5), 0.01, 1e-14)


@kernel
def copies(lines: Any, count: int) -> None:
    """So many copies of the filter."""
    line = lines[0]
    for k in range(count):
        line.snapshots[k % 64] = line.state


def level(k: int) -> tuple[int, np.ndarray, np.ndarray]:
    """Stamp, force and rate of a hover's k-th sample."""
    return k * PERIOD_NS, np.array([0.0, 0.0, G]), np.zeros(3)


def hover(estimator: ErrorStateEkf, first: int, count: int) -> None:
    """Messages of a vehicle that stands in the air, one call each."""
    variance = (0.05 * FIELD_W[1]) ** 2 * np.eye(3)
    geodetic = DATUM.to_geodetic((0.0, 0.0, 5.0))
    for k in range(first, first + count):
        stamp_ns, f_S, w_S = level(k)
        estimator.imu(stamp_ns, f_S, w_S, F_COVARIANCE, W_COVARIANCE)
        if k % 5 == 0:
            estimator.magnetic_field(stamp_ns, np.array(FIELD_W), variance)
        if k % 10 == 0:
            estimator.pressure(stamp_ns, pressure_at(500.0), 36.0)
        if k % 100 == 0:
            estimator.gnss_position(stamp_ns, geodetic, np.eye(3))
            estimator.gnss_velocity(stamp_ns, np.zeros(3), 0.01 * np.eye(3))


def started(params: EstimatorParams) -> ErrorStateEkf:
    """A filter that runs."""
    estimator = ErrorStateEkf(params, DATUM)
    hover(estimator, 0, 1000)
    if not estimator.running:
        raise SystemExit("the filter did not start")
    return estimator


def measured(prepare: Callable[[], Any], act: Callable[[Any], None], scale: float) -> list[float]:
    """Processor time of each run over ``scale``; the first compiles and is left out."""
    result = []
    for run in range(RUNS + 1):
        subject = prepare()
        begin_s = time.process_time()
        act(subject)
        if run > 0:
            result.append((time.process_time() - begin_s) / scale)
    return result


def summary(times: list[float]) -> dict[str, float]:
    """Median and least, rounded to three figures."""
    return {
        "median": float(f"{statistics.median(times):.3g}"), "least": float(f"{min(times):.3g}")
    }  # fmt: skip


def late(estimator: ErrorStateEkf) -> None:
    """Pressures that come 200 ms late, one between two IMU samples each."""
    for k in range(1000, 1000 + SAMPLES // 10):
        stamp_ns, f_S, w_S = level(k)
        estimator.imu(stamp_ns, f_S, w_S, F_COVARIANCE, W_COVARIANCE)
        if estimator.pressure(stamp_ns - 201_000_000, pressure_at(500.0), 36.0) != "ok":
            raise SystemExit("a late pressure was refused")


def calls(estimator: ErrorStateEkf) -> None:
    """IMU samples alone."""
    for k in range(1000, 1000 + SAMPLES):
        stamp_ns, f_S, w_S = level(k)
        estimator.imu(stamp_ns, f_S, w_S, F_COVARIANCE, W_COVARIANCE)


def replayed(bag: Path) -> dict[str, float]:
    """Flown over elapsed time of five replays: the clock's, for reading waits for the disk."""
    settings = Settings(("eskf",), "/quad", EstimatorParams(), None)
    load_kernels(settings)
    factors = []
    for _ in range(5):
        result = replay(bag, settings)
        factors.append(result.flown_s / result.wall_s)
    return {"median": round(statistics.median(factors), 1), "most": round(max(factors), 1)}


def main() -> None:
    """Measure and print."""
    load = os.getloadavg()[0]
    result: dict[str, object] = {
        "machine": machine(),
        "versions": versions(),
        "load": round(load, 2),
    }
    lines = started(DEFAULT)._lines  # the record a compiled caller holds
    full = started(EVERYTHING)._lines
    for name, function in (
        ("prediction_us", predictions),
        ("scalar_us", pressures),
        ("vector_us", fixes),
        ("field_us", fields),
        ("copy_us", copies),
    ):
        for more, subject in (("", lines), ("_all", full)):
            times = measured(subject.copy, lambda own, f=function: f(own, CALLS), 1e-6 * CALLS)
            result[name + more] = summary(times)
    result["call_us"] = summary(measured(lambda: started(DEFAULT), calls, 1e-6 * SAMPLES))
    per_late = measured(lambda: started(DEFAULT), late, 1e-6 * (SAMPLES // 10))
    result["late_us_per_100_ms"] = summary([t / 2.0 for t in per_late])
    flights = measured(
        lambda: started(DEFAULT), lambda own: hover(own, 1000, SAMPLES), SAMPLES * PERIOD_NS * 1e-9
    )
    result["messages_times_real_time"] = round(1.0 / statistics.median(flights))
    if len(sys.argv) > 1:
        result["bag_times_real_time"] = replayed(Path(sys.argv[1]))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
