"""Kernels that Python runs have the bits of the compiled ones."""

import numpy as np
import pytest

from quadsim.base.compiled import plain
from quadsim.geometry.rotation import multiply, rotate
from quadsim.geometry.vector import add


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
