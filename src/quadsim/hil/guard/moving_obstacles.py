"""Passing what moves: how near a command leads to shapes that fly on as they do.

A way to a stop is no safe end where something comes: a vehicle that stands in its path is hit. So
commands are compared by the smallest distance to each shape over the next seconds, both in motion
(the velocity obstacle of P. Fiorini and Z. Shiller, *Motion planning in dynamic environments using
velocity obstacles*, IJRR 17, 1998, with the vehicle's own lag in it).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quadsim.geometry.linear import lengths
from quadsim.hil.guard.sight import Path

Array = NDArray[np.float64]

#: Step of the look ahead, s.
STEP_S = 0.1
#: A request is passed on in front of a shape if it leaves so much room, m.
PASSING_M = 0.3
#: What is commanded already is left for what leaves so much more, m.
BETTER_M = 0.2


def least_gaps(
    v_W: Array,
    commands_W: Array,
    answer_s: float,
    rate_mps2: float,
    paths: Sequence[Path],
    horizon_s: float,
) -> Array:
    """Smallest level distance to the keep-out of any shape under each of several commands.

    Args:
        v_W: (3,) the vehicle's velocity, m/s.
        commands_W: (C, 3) velocities that are compared.
        answer_s: time until the vehicle answers.
        rate_mps2: rate at which its velocity goes to the command from then on.
        paths: of the shapes within the horizon; they keep their velocity.
        horizon_s: of the paths.

    Returns:
        (C,) m, negative where one is entered; inf without shapes.
    """
    place: Array = np.zeros((len(commands_W), 2))
    velocity: Array = np.tile(v_W[:2], (len(commands_W), 1))
    target = commands_W[:, :2]
    gaps = np.full(len(commands_W), math.inf)
    for k in range(math.ceil(horizon_s / STEP_S) + 1):
        t_s = k * STEP_S
        for path in paths:
            shape = path.start_W[:2] + min(t_s / horizon_s, 1.0) * path.way_W[:2]
            apart = place - shape
            gaps = np.minimum(gaps, lengths(apart[:, :2]) - path.keep_out_m)
        place = place + STEP_S * velocity
        if t_s >= answer_s:
            change = target - velocity
            size = lengths(change[:, :2])
            share = np.minimum(1.0, rate_mps2 * STEP_S / np.maximum(size, 1e-9))
            velocity = velocity + share[:, None] * change
    return gaps


def ways_out(wish_W: Array, last_W: Array, paths: Sequence[Path], speed_mps: float) -> Array:
    """(C, 3) level commands that may lead past shapes: ahead, on, and to either side of each.

    None but the request and the last command is faster than ``speed_mps``.
    """
    found = [wish_W, last_W]
    size = math.hypot(wish_W[0], wish_W[1])
    if 0.1 < size < speed_mps:
        found.append(np.array((wish_W[0], wish_W[1], 0.0)) * (speed_mps / size))
    for path in paths:
        across = np.array((-path.way_W[1], path.way_W[0], 0.0))
        size = math.hypot(across[0], across[1])
        if size > 0.1:
            found += [across * (speed_mps / size), across * (-speed_mps / size)]
    return np.array(found)
