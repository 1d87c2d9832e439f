"""How a flight came down: figures of the true motion over its last bit."""

from __future__ import annotations

import numpy as np

from quadsim.analysis.metrics import body_z
from quadsim.sim.disk_arrays import forget_track, slices
from quadsim.sim.log import FlightLog, Track

#: The last stretch of a descent, m above where it ended.
LAST_M = 0.3
#: What is slower stands.
STILL_MPS = 0.1


def landing(log: FlightLog) -> dict[str, float] | None:
    """Figures of the landing; None where the vehicle never flew, or still moves at the end.

    Returns:
        ``speed_mps``: fastest sink over the last 0.3 m; ``slide_mps``: fastest horizontal speed
        there; ``tilt_rad``: tilt at rest; ``away_m``: horizontal distance from the start.
    """
    truth = log.truth
    if len(truth) < 2 or np.linalg.norm(truth.v_W[-1]) > STILL_MPS:
        return None
    last = _last_above(truth, float(truth.p_W[-1, 2]) + LAST_M)
    if last is None:
        return None
    v_W = truth.v_W[last:]
    cosine = float(body_z(truth.q_WB[-1:])[0, 2])
    return {
        "speed_mps": float(max(-v_W[:, 2].min(), 0.0)),
        "slide_mps": float(np.hypot(v_W[:, 0], v_W[:, 1]).max()),
        "tilt_rad": float(np.arccos(np.clip(cosine, -1.0, 1.0))),
        "away_m": float(np.hypot(*(truth.p_W[-1] - truth.p_W[0])[:2])),
    }


def _last_above(truth: Track, height_m: float) -> int | None:
    """The last row higher than something; None where there is none."""
    for rows in reversed(list(slices(len(truth)))):
        above = np.flatnonzero(truth.p_W[rows, 2] > height_m)
        forget_track(truth)
        if len(above):
            return int(rows.start + above[-1])
    return None
