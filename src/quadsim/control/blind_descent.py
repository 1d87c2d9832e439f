"""A level descent that a wrong vertical velocity turns neither into a climb nor into a fall.

Beside the estimate, the descent keeps the vertical velocity that its own thrust commands would
give (``v_model``); the thrust may push that model neither above zero nor below twice the wanted
speed. Where there is no estimate, the model takes its place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quadsim.base.compiled import kernel, record_dtype
from quadsim.control.pid import clamp

#: State of a descent.
DESCENT = record_dtype([("v_model", np.float64)])  # upwards, m/s

#: Least tilt compensation: the cosine of 60 degrees.
LEAST_COSINE = 0.5


@kernel
def start_descent(descent: Any, v_up: float) -> None:
    """Begin at a vertical velocity (upwards, m/s) that is still trusted."""
    descent.v_model = v_up if math.isfinite(v_up) else 0.0


@kernel
def descent_force(
    descent: Any, params: Any, wanted: float, v_up: float, hover: float, dt_s: float
) -> float:
    """Vertical specific force in m/s^2 of one step of a descent.

    Args:
        descent: DESCENT record, advanced in place.
        params: packed AutopilotParams.
        wanted: vertical velocity, at most 0, in m/s.
        v_up: estimated vertical velocity in m/s; not finite means there is none.
        hover: vertical specific force that carries the vehicle, in m/s^2.
        dt_s: length of the step.
    """
    wanted = min(wanted, 0.0)
    v = v_up if math.isfinite(v_up) else descent.v_model
    gain = params.position.velocity_gain_z
    highest = hover - gain * descent.v_model
    lowest = min(hover + gain * (2.0 * wanted - descent.v_model), 0.95 * hover)
    force = clamp(hover + gain * (wanted - v), lowest, max(highest, lowest))
    force = clamp(
        force, params.position.blind_thrust_min * hover, params.position.blind_thrust_max * hover
    )
    descent.v_model = max(descent.v_model + (force - hover) * dt_s, 2.0 * wanted)
    return force


@kernel
def along_body_z(force_up: float, cosine: float, least: float, most: float) -> float:
    """Collective specific thrust whose vertical part is ``force_up``, within limits.

    Args:
        force_up: wanted vertical specific force in m/s^2.
        cosine: of the tilt, vertical part of body z; upside down, the least thrust is best.
        least: lowest thrust in m/s^2.
        most: highest thrust in m/s^2.
    """
    if cosine <= 0.0:
        return least
    return clamp(force_up / max(cosine, LEAST_COSINE), least, most)
