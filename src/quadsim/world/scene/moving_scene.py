"""A scene with things in it that move, such as other vehicles: made anew for every look at it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quadsim.world.scene.obstacles import Obstacle
from quadsim.world.scene.raycast_tree import MeshArrays, ShapeArrays
from quadsim.world.scene.scene import BESIDE_ID, FIRST_ID, LAST_ID, Scene, scene_of

#: Where no ray ends: boxes of leaves that hold nothing lie here, m.
NOWHERE_M = 1e12


def _levels(boxes: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The boxes of a perfect tree, level by level, the root first."""
    depth = (len(boxes) + 1).bit_length() - 1
    return [boxes[2**k - 1 : 2 ** (k + 1) - 1] for k in range(depth)]


def _deepened(
    shapes: ShapeArrays, leaves: int, rows: int
) -> tuple[list[NDArray[np.float64]], NDArray[np.int64]]:
    """A tree with more leaves, and more rows in each; those that are new hold nothing.

    Returns:
        Its boxes by level, the root first, and for each of its rows the row in the shapes.
    """
    old_leaves = (len(shapes.boxes) + 1) // 2
    old_rows = len(shapes.kinds) // old_leaves
    held = np.arange(len(shapes.kinds)).reshape(old_leaves, old_rows)
    # a leaf's first row stands for those it lacks: to meet a shape twice changes nothing
    held = np.hstack([held, np.repeat(held[:, :1], rows - old_rows, axis=1)])
    levels = _levels(shapes.boxes)
    while old_leaves < leaves:
        # a new root; its other half is empty
        empty = np.full((1, 6), NOWHERE_M)
        levels = [
            levels[0],
            *(np.vstack([level, np.repeat(empty, len(level), axis=0)]) for level in levels),
        ]
        held = np.vstack([held, np.repeat(held[:1], old_leaves, axis=0)])
        old_leaves *= 2
    return levels, held.ravel()


def _joined(first: ShapeArrays, second: ShapeArrays) -> ShapeArrays:
    """Two trees under one root."""
    leaves = max(len(first.boxes), len(second.boxes)) // 2 + 1
    rows = max(len(shapes.kinds) * 2 // (len(shapes.boxes) + 1) for shapes in (first, second))
    parts = [_deepened(shapes, leaves, rows) for shapes in (first, second)]
    levels = [np.vstack(pair) for pair in zip(parts[0][0], parts[1][0], strict=True)]
    root = np.concatenate([levels[0][:, :3].min(axis=0), levels[0][:, 3:].max(axis=0)])

    first_rows, second_rows = parts[0][1], parts[1][1]
    return ShapeArrays(
        np.vstack([first.kinds[first_rows], second.kinds[second_rows]]),
        np.vstack([first.poses[first_rows], second.poses[second_rows]]),
        np.vstack([first.sizes[first_rows], second.sizes[second_rows]]),
        np.vstack([root[None], *levels]),
    )


def _joined_meshes(first: MeshArrays, second: MeshArrays) -> MeshArrays:
    """The meshes of two scenes, those of the second after those of the first."""
    behind = np.array([len(first.boxes), 0, len(first.triangles), 0, 0])
    return MeshArrays(
        np.vstack([first.rows, second.rows + behind]),
        np.vstack([first.boxes, second.boxes]),
        np.vstack([first.triangles, second.triangles]),
    )


def scene_with(scene: Scene, others: Sequence[Obstacle]) -> Scene:
    """A scene and what else is there at one time.

    The tree of the scene stays as it is; the others get one of their own next to it, so that this
    takes a fraction of a millisecond whatever the scene holds.

    Args:
        scene: what stands still.
        others: bounded shapes where they are now.
    """
    if not others:
        return scene
    _, shapes, meshes, *_ = scene_of(others)
    if len(meshes.rows):
        shapes.kinds[shapes.kinds[:, 1] >= 0, 1] += len(scene.meshes.rows)
        meshes = _joined_meshes(scene.meshes, meshes)
    else:
        meshes = scene.meshes
    first = max(BESIDE_ID, 1 + int(scene.shapes.kinds[:, 2].max(initial=0)))
    shapes.kinds[:, 2] = np.minimum(shapes.kinds[:, 2] + (first - FIRST_ID), LAST_ID)
    if len(scene.shapes.boxes):
        shapes = _joined(scene.shapes, shapes)
    return scene._replace(shapes=shapes, meshes=meshes)
