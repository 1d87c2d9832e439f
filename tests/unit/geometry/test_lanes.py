"""Sums and products of four numbers at a time: each is what it would be by itself."""

from __future__ import annotations

import numpy as np
import pytest

from quadsim.base.compiled import kernel
from quadsim.geometry.lanes import (
    added,
    columns,
    gained,
    plus,
    rows_at,
    times,
    upper_mirrored,
)


@kernel
def sum_of(a, b):
    return plus(a, b)


@kernel
def product_of(factor, a):
    return times(factor, a)


@pytest.mark.parametrize("seed", range(5))
def test_each_number_is_what_it_would_be_by_itself(seed):
    draw = np.random.default_rng(seed).standard_normal
    a, b = tuple(draw(4)), tuple(1e-3 * draw(4))
    assert sum_of(a, b) == tuple(x + y for x, y in zip(a, b, strict=True))
    assert product_of(b[0], a) == tuple(b[0] * x for x in a)


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
