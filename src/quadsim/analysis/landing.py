"""How a flight came down: figures of the true motion over its last bit."""

from __future__ import annotations

import numpy as np

from quadsim.analysis.kept import taken
from quadsim.analysis.metrics import body_z
from quadsim.sim.log import FlightLog

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
    above = np.flatnonzero(taken(truth.p_W[:, 2]) - truth.p_W[-1, 2] > LAST_M)
    if not len(above):
        return None
    v_W = truth.v_W[above[-1] :]
    cosine = float(body_z(truth.q_WB[-1:])[0, 2])
    return {
        "speed_mps": float(max(-v_W[:, 2].min(), 0.0)),
        "slide_mps": float(np.hypot(v_W[:, 0], v_W[:, 1]).max()),
        "tilt_rad": float(np.arccos(np.clip(cosine, -1.0, 1.0))),
        "away_m": float(np.hypot(*(truth.p_W[-1] - truth.p_W[0])[:2])),
    }
