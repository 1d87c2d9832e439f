"""Standard normal numbers as :meth:`numpy.random.Generator.standard_normal` draws them, faster.

numpy asks the bit generator for each word by a function pointer; compiled together, generator and
ziggurat take a third of that. Words and numbers are numpy's, but for the last bit of a few beyond
3.65, for which numpy calls the C library's logarithm: that has other bits on other processors.

The bit generator is SFC64 (Doty-Humphrey, *PractRand*), as ``base.noise.stream`` makes it;
the ziggurat is that of Marsaglia and Tsang (*The ziggurat method for generating random variables*,
2000) with 256 layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.np.random import _constants as layers  # copies of numpy's tables, which hides its own
from numpy.typing import NDArray

from quadsim.base.compiled import inline, kernel
from quadsim.base.elementary import exp, log1p

Words = NDArray[np.uint64]

#: Where the lowest layer's tail begins, and its inverse.
_TAIL, _INVERSE_TAIL = float(layers.ziggurat_nor_r), float(layers.ziggurat_nor_inv_r)
#: Of each layer: its width over 2^52, the share of it that lies under the curve, the curve there.
_WIDTHS, _INSIDE, _CURVE = layers.wi_double, layers.ki_double, layers.fi_double

_STEP, _LAYER, _SIGN = np.uint64(1), np.uint64(0xFF), np.uint64(1)
_MANTISSA = np.uint64((1 << 52) - 1)
_3, _8, _11, _24, _40 = (np.uint64(bits) for bits in (3, 8, 11, 24, 40))


def words_of(generator: np.random.Generator) -> Words:
    """State of a generator's SFC64, (4,), as :func:`fill_normals` takes it."""
    return np.array(generator.bit_generator.state["state"]["state"], np.uint64)


@inline
def _next(words: Any) -> tuple[Any, Any]:
    """The state after a word, and the word."""
    a, b, c, count = words
    word = a + b + count
    return (b ^ (b >> _11), c + (c << _3), ((c << _24) | (c >> _40)) + word, count + _STEP), word


@inline
def _unit(word: Any) -> float:
    """A word as a number from 0 up to, but not, 1."""
    return float((word >> _11) * (1.0 / 9007199254740992.0))


@kernel
def fill_normals(state: Any, numbers: Any) -> None:
    """Draw (N,) standard normal numbers from a (4,) state, which goes on."""
    words = (state[0], state[1], state[2], state[3])
    for i in range(numbers.size):
        while True:
            words, word = _next(words)
            layer, sign = word & _LAYER, (word >> _8) & _SIGN
            share = (word >> _8 >> _STEP) & _MANTISSA
            x = share * _WIDTHS[layer]
            if sign != 0:
                x = -x
            if share < _INSIDE[layer]:  # for 99 of a hundred
                break
            if layer == 0:
                words, x = _tail(words)
                if (share >> _8) & _SIGN != 0:
                    x = -x
                break
            words, word = _next(words)
            below, above = _CURVE[layer], _CURVE[layer - _STEP]
            if (above - below) * _unit(word) + below < exp(-0.5 * x * x):
                break
        numbers[i] = x
    state[0], state[1], state[2], state[3] = words


@kernel
def _tail(words: Any) -> tuple[Any, float]:
    """A number beyond the lowest layer, and the state after it (Marsaglia 1964)."""
    while True:
        words, word = _next(words)
        x = -_INVERSE_TAIL * log1p(-_unit(word))
        words, word = _next(words)
        y = -log1p(-_unit(word))
        if y + y > x * x:
            return words, _TAIL + x


def draw_normals(generator: np.random.Generator, shape: int | tuple[int, ...]) -> Any:
    """Standard normal numbers of a shape from a generator of :func:`quadsim.base.noise.stream`."""
    state: Any = generator.bit_generator.state
    numbers = np.empty(shape)
    fill_normals(state["state"]["state"], numbers.reshape(-1))
    generator.bit_generator.state = state
    return numbers
