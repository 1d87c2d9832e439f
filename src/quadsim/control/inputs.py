"""Whether numbers that came from outside can be computed with."""

from __future__ import annotations

from collections.abc import Sequence

from quadsim.base.compiled import Array, kernel

#: Sum of sizes that nothing which flies exceeds; squares and products of such numbers are finite.
LARGEST = 1e9


@kernel
def size(values: Sequence[float] | Array) -> float:
    """Sum of the sizes of three numbers; not finite if one of them is not."""
    return float(abs(values[0]) + abs(values[1]) + abs(values[2]))


@kernel
def is_within_limits(total: float) -> bool:
    """Whether a sum of sizes is a number and not absurd."""
    return total < LARGEST


@kernel
def is_attitude(q: Sequence[float] | Array) -> bool:
    """Whether four numbers are near a unit quaternion."""
    if not abs(q[0]) + size((q[1], q[2], q[3])) < 4.0:
        return False
    norm2 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]
    return norm2 > 0.25
