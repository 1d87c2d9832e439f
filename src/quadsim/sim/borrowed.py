"""Arrays that compiled code borrows: handed from kernel to kernel without being counted.

Numba counts who holds an array, up and down at each call, by atomic operations: for the dozen
arrays of a scene that is a tenth of the closed loop's time. Who borrows relies on somebody else,
here the generator that took them from Python, to hold them longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core.cgutils import get_null_value
from numba.extending import intrinsic

_null: Any = get_null_value


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The LLVM value of an array, or of a tuple with arrays in it, without their owners."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = _null(array.meminfo.type)
        array.parent = _null(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        for i in range(len(kinds)):
            part = _without_owner(context, builder, kinds[i], builder.extract_value(value, i))
            value = builder.insert_value(value, part, i)
    return value


def _borrow(typing_context: Any, value: Any) -> Any:
    """Signature and code of :func:`borrowed`, for Numba."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], args[0])

    return value(value), generate


def _as_it_is(value: Any) -> Any:
    """What :func:`borrowed` is in plain Python, which counts in any case."""
    return value


_compiled: Any = intrinsic(_borrow)

#: An array, or a tuple with arrays in it, that is not counted; for kernels.
borrowed: Callable[[Any], Any] = _as_it_is if getattr(numba.config, "DISABLE_JIT") else _compiled  # noqa: B009
