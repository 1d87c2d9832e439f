"""Compiled loops over calls of the error-state filter, for :mod:`quadsim_bench.estimator`."""

from __future__ import annotations

from typing import Any

from quadsim.base.compiled import kernel
from quadsim.estimation.eskf.gnss import fuse_gnss_position
from quadsim.estimation.eskf.heights import fuse_pressure
from quadsim.estimation.eskf.magnetic_field import fuse_magnetic_field
from quadsim.estimation.eskf.mechanisation import ImuInput, predict_or_align


@kernel
def predictions(lines: Any, count: int) -> None:
    """So many IMU samples."""
    state, params = lines[0].state, lines[0].params
    for k in range(count):
        f_S = (0.1, -0.1 + 1e-6 * k, 9.8)
        predict_or_align(
            state, params, state.imu_stamp_ns + 2_000_000, ImuInput(f_S, (0.01, 0.02, -0.01),
            (1e-2, 1e-2, 1e-2), (1e-4, 1e-4, 1e-4)),
        )  # fmt: skip


@kernel
def pressures(lines: Any, count: int) -> None:
    """So many scalar updates, all accepted."""
    state, params = lines[0].state, lines[0].params
    for _ in range(count):
        fuse_pressure(state, params, 95000.0, 1e6)


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
        fuse_magnetic_field(state, params, (0.0, 2.15e-5, -4.3e-5), 0.01, 1e-14)


@kernel
def copies(lines: Any, count: int) -> None:
    """So many copies of the filter, of which the horizon keeps one each 10 ms."""
    line = lines[0]
    for k in range(count):
        line.state.stamp_ns += 1  # one that stays would be read once, into thousands of registers
        line.snapshots[k % 64] = line.state
