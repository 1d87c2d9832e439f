"""Kernels borrow their arrays, and those that make some say so."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import NumbaError

from quadsim.compiled import kernel, owning_kernel


def doubled(values):
    found = np.empty(values.size)
    for i in range(values.size):
        found[i] = 2.0 * values[i]
    return found


def part(values):
    return values[1:]


def test_an_array_is_made_by_who_may():
    np.testing.assert_array_equal(owning_kernel(doubled)(np.arange(3.0)), [0.0, 2.0, 4.0])


@pytest.mark.parametrize("function", [doubled, part])
def test_a_kernel_that_counts_no_owners_is_refused_an_array(function):
    with pytest.raises(NumbaError):
        kernel(function)(np.arange(3.0))
