"""A sequence of EuRoC's micro aerial vehicles, a folder ``mav0`` as ASL writes it.

``imu0/data.csv`` has ns, rate (rad/s) and specific force (m/s^2), and ``data.csv`` of
``state_groundtruth_estimate0`` ns, position, quaternion w first, velocity and biases. The body is
the IMU's, x up, as the benchmark has it; the world has z up.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from quadsim.bag.logs.log_file import LogFile
from quadsim.bag.logs.motion import Array, add_odometry, no_attitude
from quadsim.base.errors import InputError

TRUTH = "state_groundtruth_estimate0"


def _table(path: Path, least: int) -> tuple[Array, Array] | None:
    """Stamps in ns and the other columns of a data.csv; None: it is not there."""
    file = path / "data.csv"
    if not file.is_file():
        return None
    try:
        stamp_ns = np.loadtxt(file, np.int64, delimiter=",", usecols=0, ndmin=1)
        rows = np.loadtxt(file, delimiter=",", ndmin=2)[:, 1:]
    except (ValueError, IndexError) as error:
        raise InputError(f"{file}: no table of EuRoC ({error})") from None
    if rows.shape[1] < least:
        raise InputError(f"{file}: {rows.shape[1] + 1} columns, at least {least + 1} expected")
    return stamp_ns, rows


def read(path: Path, columns: str) -> LogFile:
    """Read a sequence: its folder, or ``mav0`` in it.

    Raises:
        InputError: a table is not what it should be.
    """
    folder = path / "mav0" if (path / "mav0").is_dir() else path
    log = LogFile(path, {"log": "EuRoC sequence"})
    imu = _table(folder / "imu0", 6)
    if imu is not None:
        stamp_ns, rows = imu
        w_S, f_S = rows[:, :3], rows[:, 3:6]
        log.add("imu/data_raw", stamp_ns, f=f_S, w=w_S, q_covariance=no_attitude())
    truth = _table(folder / TRUTH, 10)
    if truth is not None:
        stamp_ns, rows = truth
        place = (stamp_ns, rows[:, :3], rows[:, 7:10])
        add_odometry(log, "ground_truth/odom", (stamp_ns, rows[:, 3:7]), place)
    for other in sorted(folder.glob("*/data.csv")):
        if other.parent.name not in ("imu0", TRUTH):
            with other.open(errors="replace") as lines:
                count = sum(1 for line in lines if not line.startswith("#"))
            log.leave(f"sensor {other.parent.name}", count)
    return log
