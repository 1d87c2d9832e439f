"""Blocks of a matrix, three rows of four at a time."""

import numpy as np

from quadsim.geometry.lanes import (
    added,
    columns,
    gained,
    rows_at,
    upper_mirrored,
)


def test_blocks_of_a_matrix():
    draw = np.random.default_rng(6).standard_normal
    matrix, F = draw((8, 9)), draw((3, 3))
    A, B = matrix[1:4, 2:6], matrix[4:7, 5:9]
    a, b, f = rows_at(matrix, 1, 2), rows_at(matrix, 4, 5), tuple(map(tuple, F))
    np.testing.assert_array_equal(a, A)
    # the order of the sums is that of its description: A + ((F0 B0 + F1 B1) + F2 B2)
    steps = [F[:, k : k + 1] * B[k] for k in range(3)]
    np.testing.assert_array_equal(gained(a, f, b), A + ((steps[0] + steps[1]) + steps[2]))
    np.testing.assert_array_equal(added(a, 0.3, b), A + 0.3 * B)
    np.testing.assert_array_equal(np.array(columns(a))[:, :3], A[:, :3].T)
    upper = np.triu(A[:, :3])
    np.testing.assert_array_equal(
        np.array(upper_mirrored(a))[:, :3], upper + np.triu(A[:, :3], 1).T
    )
