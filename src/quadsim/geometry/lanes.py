"""Four numbers at a time: what the processor does in one instruction and Numba does not see itself.

Numba's compiler makes vectors of loops over arrays, not of tuples. Sums and products of tuples of
four are vectors here; each number is what it would be by itself, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from quadsim.base.compiled import lane_kernel

Four = tuple[float, float, float, float]
#: Three rows of four: a matrix of nine, and what lies beside it.
Rows = tuple[Four, Four, Four]

_uniform: Any = types.UniTuple
_FOUR: Any = _uniform(types.float64, 4)
_VECTOR: Any = ir.VectorType(ir.DoubleType(), 4)


def _vector(builder: Any, numbers: list[Any]) -> Any:
    """The LLVM vector of four LLVM numbers."""
    vector = ir.Constant(_VECTOR, ir.Undefined)
    for i, number in enumerate(numbers):
        vector = builder.insert_element(vector, number, ir.Constant(ir.IntType(32), i))
    return vector


def _tuple(context: Any, builder: Any, vector: Any) -> Any:
    """The tuple of an LLVM vector."""
    parts = [builder.extract_element(vector, ir.Constant(ir.IntType(32), i)) for i in range(4)]
    return context.make_tuple(builder, _FOUR, parts)


def _add(typing_context: Any, a: Any, b: Any) -> Any:
    """Signature and code of :func:`plus`, for Numba."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = (_vector(builder, [builder.extract_value(arg, i) for i in range(4)]) for arg in args)
        return _tuple(context, builder, builder.fadd(a, b))

    return _FOUR(_FOUR, _FOUR), generate


def _multiply(typing_context: Any, factor: Any, a: Any) -> Any:
    """Signature and code of :func:`times`, for Numba."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        factors = _vector(builder, [args[0]] * 4)
        a = _vector(builder, [builder.extract_value(args[1], i) for i in range(4)])
        return _tuple(context, builder, builder.fmul(factors, a))

    return _FOUR(types.float64, _FOUR), generate


def _plain_plus(a: Four, b: Four) -> Four:
    """What :func:`plus` is in plain Python."""
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3])


def _plain_times(factor: float, a: Four) -> Four:
    """What :func:`times` is in plain Python."""
    return (factor * a[0], factor * a[1], factor * a[2], factor * a[3])


_compiled_plus: Any = intrinsic(_add)
_compiled_times: Any = intrinsic(_multiply)
_is_plain = bool(getattr(numba.config, "DISABLE_JIT"))  # noqa: B009

#: Sum of two fours.
plus: Callable[[Four, Four], Four] = _plain_plus if _is_plain else _compiled_plus
#: A number times four.
times: Callable[[float, Four], Four] = _plain_times if _is_plain else _compiled_times


@lane_kernel
def rows_at(matrix: Any, i: int, k: int) -> Rows:
    """Three rows of a matrix from ``i`` on, of four columns from ``k`` on."""
    return (
        (matrix[i, k], matrix[i, k + 1], matrix[i, k + 2], matrix[i, k + 3]),
        (matrix[i + 1, k], matrix[i + 1, k + 1], matrix[i + 1, k + 2], matrix[i + 1, k + 3]),
        (matrix[i + 2, k], matrix[i + 2, k + 1], matrix[i + 2, k + 2], matrix[i + 2, k + 3]),
    )


@lane_kernel
def combined(factors: Any, B: Rows) -> Four:
    """Sum of three rows, each times one of three factors."""
    return plus(plus(times(factors[0], B[0]), times(factors[1], B[1])), times(factors[2], B[2]))


@lane_kernel
def gained(A: Rows, F: Any, B: Rows) -> Rows:
    """A + F B, with F three rows of at least three numbers."""
    return (
        plus(A[0], combined(F[0], B)),
        plus(A[1], combined(F[1], B)),
        plus(A[2], combined(F[2], B)),
    )


@lane_kernel
def added(A: Rows, factor: float, B: Rows) -> Rows:
    """A + factor B."""
    return (
        plus(A[0], times(factor, B[0])),
        plus(A[1], times(factor, B[1])),
        plus(A[2], times(factor, B[2])),
    )


@lane_kernel
def columns(A: Any) -> Rows:
    """The transpose of a matrix of nine, as rows; the fourth of each is zero."""
    a, b, c = A
    return ((a[0], b[0], c[0], 0.0), (a[1], b[1], c[1], 0.0), (a[2], b[2], c[2], 0.0))


@lane_kernel
def upper_mirrored(A: Rows) -> Rows:
    """A symmetric matrix of nine by its upper half; the fourth of each row is zero."""
    a, b, c = A
    return ((a[0], a[1], a[2], 0.0), (a[1], b[1], b[2], 0.0), (a[2], b[2], c[2], 0.0))
