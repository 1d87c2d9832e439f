"""Elementary functions against numpy's extended precision, a thousand times finer."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quadsim.base import elementary
from quadsim.base.compiled import kernel

COUNT = 50_000


def both_signs(*numbers: float) -> list[float]:
    return [sign * number for number in numbers for sign in (1.0, -1.0)]


HARD = both_signs(
    0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-17, 2.0**-54, 2.0**-27, 0.25, 0.4375,
    0.5, 0.6744, 0.6875, 0.75, 0.975, 1.0, 1.1875, 2.4375, math.inf, math.nan, 1e300,
    1.7976931348623157e308,
)  # fmt: skip
#: Next to multiples of pi/2: of those below 1e308 the last is the nearest (Kahan).
NEAR_QUARTERS = both_signs(
    *(k * math.pi / 2 for k in (1, 2, 3, 4, 5, 100, 1001, 636_619, 636_620, 10**7, 10**12)),
    1e6, 1.0000001e6, 2.0**60, 1e22, 6381956970095103.0 * 2.0**797,
)  # fmt: skip


def spread(low: float, high: float) -> np.ndarray:
    """Both signs, evenly between the logarithms of two sizes, and evenly within five."""
    rng = np.random.default_rng(1)
    sizes = np.exp(rng.uniform(math.log(low), math.log(high), COUNT))
    near = rng.uniform(-5.0, 5.0, COUNT)
    return np.concatenate([sizes * rng.choice([-1.0, 1.0], COUNT), near, HARD])


def over(low: float, high: float) -> np.ndarray:
    return np.concatenate([np.random.default_rng(1).uniform(low, high, COUNT), HARD])


ANGLES = np.concatenate([spread(1e-10, 1e300), NEAR_QUARTERS])
#: Function, numpy's, arguments, largest error in units of the last place.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], np.ndarray, float]] = {
    "sin": (elementary.sin, np.sin, ANGLES, 0.9),
    "cos": (elementary.cos, np.cos, ANGLES, 0.9),
    "tan": (elementary.tan, np.tan, ANGLES, 1.0),
    "atan": (elementary.atan, np.arctan, spread(1e-20, 1e20), 1.0),
    "asin": (elementary.asin, np.arcsin, over(-1.0, 1.0), 1.0),
    "acos": (elementary.acos, np.arccos, over(-1.0, 1.0), 1.0),
    "exp": (elementary.exp, np.exp, np.concatenate([over(-745.5, 710.0), over(-2, 2)]), 1.0),
    "expm1": (elementary.expm1, np.expm1, np.concatenate([over(-60.0, 710.0), over(-2, 2)]), 1.0),
    "log": (elementary.log, np.log, np.abs(spread(5e-324, 1.7e308)), 1.0),
    "log1p": (elementary.log1p, np.log1p, np.concatenate([over(-1, 4), spread(1e-20, 1e300)]), 1.0),
}


def units_off(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Error in units of the last place; infinite where one is special and the other is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = exact.astype(np.float64)
        special = ~np.isfinite(rounded) | ~np.isfinite(found)
        same = (rounded == found) | (np.isnan(rounded) & np.isnan(found))
        zeros = (rounded == 0.0) & (found == 0.0) & (np.signbit(rounded) != np.signbit(found))
        off = np.abs(found - exact) / np.spacing(np.abs(rounded))
    return np.asarray(np.where(special | zeros, np.where(same & ~zeros, 0.0, np.inf), off), float)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    @kernel
    def fill(x: Any, found: Any) -> None:
        for i in range(x.shape[0]):
            found[i] = function(x[i])

    return fill


def compiled_of_two(function: Callable[..., Any]) -> Callable[..., Any]:
    @kernel
    def fill(x: Any, y: Any, found: Any) -> None:
        for i in range(x.shape[0]):
            found[i] = function(x[i], y[i])

    return fill


def bits(numbers: Any) -> np.ndarray:
    array = np.array(numbers, np.float64)
    return np.where(np.isnan(array), np.nan, array).view(np.int64)


@pytest.mark.parametrize("name", CASES)
def test_error_is_below_a_unit_and_python_has_the_same_bits(name):
    function, exact, x, most = CASES[name]
    found = np.zeros_like(x)
    compiled(function)(x, found)
    with np.errstate(all="ignore"):
        off = units_off(found, exact(x.astype(np.longdouble)))
    assert off.max() < most, x[np.argmax(off)]
    some = np.r_[: x.size : 97, x.size - len(HARD) : x.size]
    assert np.array_equal(bits([function(value) for value in x[some].tolist()]), bits(found[some]))


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Points near the axes, far and near, and all pairs of hard numbers."""
    rng = np.random.default_rng(2)
    x, y = spread(1e-300, 1e300), spread(1e-300, 1e300)
    hard_x, hard_y = np.meshgrid(HARD, HARD)
    return (
        np.concatenate([x, rng.normal(size=COUNT), hard_x.ravel()]),
        np.concatenate([rng.permutation(y), rng.normal(size=COUNT), hard_y.ravel()]),
    )


def test_angle_of_a_point_is_within_two_units():
    x, y = pairs()
    found = np.zeros_like(x)
    compiled_of_two(elementary.atan2)(y, x, found)
    off = units_off(found, np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble)))
    # fdlibm's: the arc tangent's error and that of a rounded quotient
    assert off.max() < 1.6, (y[np.argmax(off)], x[np.argmax(off)])
    plain = [
        elementary.atan2(*pair) for pair in zip(y[-2000:].tolist(), x[-2000:].tolist(), strict=True)
    ]
    assert np.array_equal(bits(plain), bits(found[-2000:]))


def test_power():
    rng = np.random.default_rng(3)
    x, y = pairs()
    x = np.concatenate(
        [np.exp(rng.uniform(-30.0, 30.0, COUNT)), 1.0 + rng.normal(0.0, 1e-3, COUNT), x]
    )
    y = np.concatenate([rng.uniform(-30.0, 30.0, COUNT), rng.uniform(-5e5, 5e5, COUNT), y])
    whole = np.repeat([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 9007199254740993.0], len(HARD))
    x, y = np.concatenate([x, np.tile(HARD, 7)]), np.concatenate([y, whole])
    found = np.zeros_like(x)
    compiled_of_two(elementary.power)(x, y, found)
    with np.errstate(all="ignore"):
        off = units_off(found, x.astype(np.longdouble) ** y.astype(np.longdouble))
    assert off.max() < 1.0, (x[np.argmax(off)], y[np.argmax(off)])
    plain = [
        elementary.power(*pair) for pair in zip(x[-2500:].tolist(), y[-2500:].tolist(), strict=True)
    ]
    assert np.array_equal(bits(plain), bits(found[-2500:]))


def test_cosine_and_sine_together_are_those_alone():
    for angle in ANGLES[::53].tolist() + NEAR_QUARTERS:
        alone = elementary.cos(angle), elementary.sin(angle)
        assert np.array_equal(bits(elementary.cos_sin(angle)), bits(alone))
