"""Perfect binary trees of boxes, for :mod:`quadsim.world.scene.raycast_tree`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: Boxes are this much larger than what they hold, of 1 m and of the largest coordinate: rounding
#: must not hide an item that touches its box.
MARGIN = 1e-9


def build_tree(
    lower: NDArray[np.float64], upper: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sort items into a tree: halved at the median of the widest axis, level by level.

    Args:
        lower: (N, 3) lower corners of the items' boxes, N > 0.
        upper: (N, 3) upper corners.

    Returns:
        (L W,) rows of the items, W for each of the L = 2^k leaves; to fill the leaves some items
        come twice, side by side. (2 L - 1, 6) boxes of the nodes, the root first.
    """
    count = len(lower)
    depth = max(0, (count - 1).bit_length() - 1)
    leaves = 2**depth
    order = np.resize(np.arange(count), leaves * math.ceil(count / leaves))
    center = 0.5 * (lower + upper)
    for level in range(depth):
        groups = order.reshape(2**level, -1)
        points = center[groups]
        widest = np.argmax(np.ptp(points, axis=1), axis=1)
        along = np.take_along_axis(points, widest[:, None, None], axis=2)[..., 0]
        halves = np.argpartition(along, along.shape[1] // 2, axis=1)
        order = np.take_along_axis(groups, halves, axis=1)
    margin = MARGIN * (1.0 + max(np.abs(lower).max(), np.abs(upper).max()))
    lower = lower[order].reshape(leaves, -1, 3).min(axis=1) - margin
    upper = upper[order].reshape(leaves, -1, 3).max(axis=1) + margin
    levels = [np.hstack([lower, upper])]
    while len(lower) > 1:
        lower, upper = lower.reshape(-1, 2, 3).min(axis=1), upper.reshape(-1, 2, 3).max(axis=1)
        levels.insert(0, np.hstack([lower, upper]))
    return order.ravel(), np.vstack(levels)
