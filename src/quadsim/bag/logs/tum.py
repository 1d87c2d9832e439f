"""Trajectories as TUM's RGB-D benchmark has them: stamp in s, position, quaternion x y z w.

They are ``ground_truth/odom`` without a twist; world and body are as whoever wrote them means them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from quadsim.bag.logs.log_file import LogFile
from quadsim.base.errors import InputError


def read(path: Path, columns: str) -> LogFile:
    """Read a trajectory of TUM.

    Raises:
        InputError: a line has not eight numbers.
    """
    try:
        rows = np.loadtxt(path, comments="#", ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: no trajectory of TUM ({error})") from None
    if rows.shape[1] != 8:
        raise InputError(f"{path}: {rows.shape[1]} numbers in a line; TUM's have 8")
    stamp_ns = np.rint(rows[:, 0] * 1e9).astype(np.int64)
    nothing = np.full((len(rows), 3), np.nan)
    log = LogFile(path, {"log": "TUM trajectory"})
    p_W, q_xyzw = rows[:, 1:4], rows[:, 4:8]
    log.add("ground_truth/odom", stamp_ns, p=p_W, q_xyzw=q_xyzw, v=nothing, w=nothing)
    return log
