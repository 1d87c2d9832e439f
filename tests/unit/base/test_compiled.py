"""Kernels borrow their arrays, those that make some say so, and Python gets the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from numba import config
from numba.core.errors import NumbaError

from quadsim.base.compiled import kernel, owning_kernel, plain
from quadsim.geometry.rotation import multiply, rotate
from quadsim.geometry.vector import add


def doubled(values):
    found = np.empty(values.size)
    for i in range(values.size):
        found[i] = 2.0 * values[i]
    return found


def copied(values):
    return np.empty(values.size)


def part(values):
    return values[1:]


def test_an_array_is_made_by_who_may():
    np.testing.assert_array_equal(owning_kernel(doubled)(np.arange(3.0)), [0.0, 2.0, 4.0])


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="of compiled code")
@pytest.mark.parametrize("function", [copied, part])
def test_a_kernel_that_counts_no_owners_is_refused_an_array(function):
    with pytest.raises(NumbaError):
        kernel(function)(np.arange(3.0))


@pytest.mark.parametrize(
    ("function", "sizes"), [(multiply, (4, 4)), (rotate, (4, 3)), (add, (3, 3))]
)
def test_a_kernel_run_by_python_gives_the_same_bits(function, sizes):
    rng = np.random.default_rng(1)
    for _ in range(200):
        given = [tuple(rng.normal(size=size).tolist()) for size in sizes]
        compiled, plainly = function(*given), plain(function)(*given)
        assert np.array(compiled).tobytes() == np.array(plainly).tobytes()


def test_what_is_no_kernel_stays_itself():
    assert plain(len) is len
