"""Length of a vector in the plane, to the last bit as :func:`math.hypot` has it.

The C library's ``hypot``, which compiled code calls, has another last bit for one pair in two
hundred: who compiled what had been Python would fly another flight.
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel

#: 2^27 + 1, by which a number is split into two halves whose products are exact (Veltkamp 1968).
_SPLIT = 134217729.0


@kernel
def _halves(x: float) -> tuple[float, float]:
    """The upper and the lower half of a number's digits."""
    shifted = x * _SPLIT
    upper = shifted - (shifted - x)
    return upper, x - upper


@kernel
def hypot(x: float, y: float) -> float:
    """Length of (x, y): CPython 3.11's, whose error is hardly ever above half a unit.

    Exact squares (Dekker 1971), a compensated sum, and one step of Newton on the root (Borges, *An
    improved algorithm for hypot(a, b)*, 2020). Finite numbers; below 1e-300 the larger of the two.
    """
    x, y = abs(x), abs(y)
    largest = max(x, y)
    if largest < 1e-300:
        return largest
    scale = math.ldexp(1.0, -math.frexp(largest)[1])
    total, lost_1, lost_2, lost_3 = 1.0, 0.0, 0.0, 0.0
    for side in (x, y):
        upper, lower = _halves(side * scale)
        part = upper * upper
        before, total = total, total + part
        lost_1 += (before - total) + part
        part = 2.0 * upper * lower
        before, total = total, total + part
        lost_2 += (before - total) + part
        lost_3 += lower * lower
    root = math.sqrt(total - 1.0 + (lost_1 + lost_2 + lost_3))
    upper, lower = _halves(root)
    part = -upper * upper
    before, total = total, total + part
    lost_1 += (before - total) + part
    part = -2.0 * upper * lower
    before, total = total, total + part
    lost_2 += (before - total) + part
    part = -lower * lower
    before, total = total, total + part
    lost_3 += (before - total) + part
    return (root + (total - 1.0 + (lost_1 + lost_2 + lost_3)) / (2.0 * root)) / scale
