"""Arrays of a fixed size on the stack of a kernel: nothing allocates them, also on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import NDArray

_alloca: Any = cgutils.alloca_once
_populate: Any = populate_array

#: Those that were made, for compilers other than Numba's own.
MADE: list[Any] = []


def scratch(*shape: int, dtype: type = np.float64) -> Callable[[], NDArray[Any]]:
    """A function that gives a kernel an array, whose content is arbitrary, until it returns."""
    kind, item = types.Array(numba.from_dtype(np.dtype(dtype)), len(shape), "C"), 8
    count = math.prod(shape)
    strides = [item * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    assert np.dtype(dtype).itemsize == item

    def room(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            data = _alloca(builder, context.get_data_type(kind.dtype), size=count)
            shapes = [context.get_constant(types.intp, n) for n in shape]
            apart = [context.get_constant(types.intp, n) for n in strides]
            size = context.get_constant(types.intp, item)
            _populate(array, data, shapes, apart, size, meminfo=None)
            return array._getvalue()

        return kind(), generate

    if getattr(numba.config, "DISABLE_JIT"):  # noqa: B009
        return lambda: np.empty(shape, dtype)
    found = cast(Callable[[], NDArray[Any]], intrinsic(room))
    MADE.append(found)
    return found
