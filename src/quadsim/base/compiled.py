"""How hot functions are compiled: one place, one set of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeVar, cast, overload

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R", bound="Record")
R_co = TypeVar("R_co", covariant=True)

Array = NDArray[np.float64]
#: Fields of a record: a vector of three; a quaternion, w first.
Vector = Annotated[Array, 3]
Quaternion = Annotated[Array, 4]

#: Strict IEEE arithmetic; cached; without the C wrapper, which nobody calls and takes time to make;
#: arrays are borrowed from the caller, as counting their owners takes a tenth of the closed loop.
OPTIONS: dict[str, Any] = {
    "cache": True,
    "fastmath": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,
}
#: Of kernels that make arrays.
OWNING: dict[str, Any] = OPTIONS | {"_nrt": True}


def kernel(function: F) -> F:
    """Compile a pure function with Numba: cached, strict IEEE arithmetic (no fastmath).

    It may neither make an array nor return one, which Numba refuses; see :func:`owning_kernel`.
    """
    return cast(F, numba.njit(**OPTIONS)(function))


def owning_kernel(function: F) -> F:
    """Compile a function that makes arrays."""
    return cast(F, numba.njit(**OWNING)(function))


def threaded(function: F) -> F:
    """Compile to run without Python's lock, so that Python's threads can share the work.

    It may make arrays.
    """
    return cast(F, numba.njit(**OWNING, nogil=True)(function))


def inline(function: F) -> F:
    """Compile into the machine code of each caller: for what is small and called everywhere."""
    return cast(F, numba.njit(**OPTIONS, forceinline=True)(function))


def template(function: F) -> F:
    """Write a function into each of its callers, which lets it take kernels as arguments.

    Numba cannot cache a caller that passes a function to another. Here nothing is passed. Also for
    what is large and has one caller: each kernel is optimised with all that it calls, so one on
    top of another takes the time twice.
    """
    return cast(F, numba.njit(**(OPTIONS | {"cache": False}), inline="always")(function))


def portable(function: F) -> F:
    """A function that kernels compile into themselves, and that Python runs as it stands.

    It has the same bits in both, and Python has nothing to load.
    """
    register: Any = numba.extending.register_jitable
    return cast(F, register(fastmath=False, error_model="numpy", _nrt=False)(function))


def argument(value: int) -> int:
    """A constant that kernels hand on: for a plain number Numba compiles what takes it anew."""
    return cast(int, np.int64(value))


def plain(function: F) -> F:
    """A kernel as Python runs it, for what is called once: the same bits, and nothing to load."""
    return cast(F, getattr(function, "py_func", function))


class Record:
    """What kernels remember or exchange, declared as a class; see :mod:`quadsim.base.records`.

    At run time it is a :class:`numpy.record` of the class's dtype. The class is what mypy sees.
    """

    if TYPE_CHECKING:

        @property
        def dtype(self) -> np.dtype[np.record]: ...  # noqa: D102

        def __getitem__(self, name: str) -> Any: ...

        def __setitem__(self, name: str, value: Any) -> None: ...

        def copy(self: R) -> R: ...  # noqa: D102


class Records(Protocol[R_co]):
    """An array of records, for mypy; at run time a structured :class:`numpy.ndarray`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many there are."""
        ...

    @overload
    def __getitem__(self, i: int, /) -> R_co: ...

    @overload
    def __getitem__(self, field: str, /) -> Any: ...

    def __setitem__(self, i: int, value: Any, /) -> None: ...


class Over(NamedTuple):
    """Places a field of a record over other fields of it, from this one on."""

    field: str


def record_dtype(fields: list[tuple[object, ...]]) -> np.dtype[np.record]:
    """Aligned structured type whose fields are attributes, in compiled and in plain Python."""
    plain: Any = np.dtype(fields, align=True)
    return cast("np.dtype[np.record]", np.dtype((np.record, plain)))


def new_record(dtype: np.dtype[np.record]) -> np.record:
    """One zeroed record of a structured type; kernels change it in place."""
    return cast(np.record, np.zeros(1, dtype)[0])
