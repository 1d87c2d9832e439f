"""Elementary functions whose bits are the same on every machine.

The C library picks its sine by the processor (with fused multiply-add or without), numpy does so
for arrays, and each has another last bit. These use +, -, *, /, the square root and exact scaling
alone, which IEEE 754 rounds in one way. In a kernel they are compiled into it; in Python they are
plain functions with the same bits.

Algorithms and coefficients are those of fdlibm 5.3 (Sun Microsystems 1993, *Developed at SunPro, a
Sun Microsystems, Inc. business. Permission to use, copy, modify, and distribute this software is
freely granted, provided that this notice is preserved*). The reduction of large angles is that of
Payne and Hanek (*Radian reduction for trigonometric functions*, 1983). The power is an exponential
of a logarithm of twice the digits (Dekker, *A floating-point technique for extending the available
precision*, 1971). Errors are below one unit in the last place; that of :func:`atan2`, which begins
with a rounded quotient, is below 1.6. Outside its domain a function is NaN; nothing raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.base.compiled import portable

_INF, _NAN = math.inf, math.nan

#: pi/2 in parts of 33 bits, and what each leaves.
_INVERSE_PIO2 = 0.6366197723675814
_PIO2_1, _PIO2_1_LEFT = 1.5707963267341256, 6.077100506506192e-11
_PIO2_2, _PIO2_2_LEFT = 6.077100506303966e-11, 2.0222662487959506e-21
_PIO2_3, _PIO2_3_LEFT = 2.0222662487111665e-21, 8.4784276603689e-32
#: pi/2 and pi/4 and their next digits.
_PIO2, _PIO2_LOW = 1.5707963267948966, 6.123233995736766e-17
_PIO4, _PIO4_LOW = 0.7853981633974483, 3.061616997868383e-17
#: ln 2 in 32 bits and what they leave; in 53 bits and what they leave.
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_LN2, _LN2_LEFT = 0.6931471805599453, 2.3190468138462996e-17
#: 1.5 * 2^52: added and removed, it rounds to the nearest whole number.
_ROUND = 6755399441055744.0
#: 2^27 + 1, by which a number is split into halves whose products are exact (Veltkamp 1968).
_SPLIT = 134217729.0
#: Angles up to here are reduced by pi/2 in three parts.
_LARGE_RAD = 1.0e6

#: 2/pi in digits of 24 bits.
_TWO_OVER_PI = (
    10680707, 7228996, 1387004, 2578385, 16069853, 12639074, 9804092, 4427841, 16666979, 11263675,
    12935607, 2387514, 4345298, 14681673, 3074569, 13734428, 16653803, 1880361, 10960616, 8533493,
    3062596, 8710556, 7349940, 6258241, 3772886, 3769171, 3798172, 8675211, 12450088, 3874808,
    9961438, 366607, 15675153, 9132554, 7151469, 3571407, 2607881, 12013382, 4155038, 6285869,
    7677882, 13102053, 15825725, 473591, 9065106, 15363067, 6271263, 9264392, 5636912, 4652155,
)  # fmt: skip
_DIGIT = (1 << 24) - 1

# coefficients by fdlibm's names
_S1, _S2, _S3 = -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04
_S4, _S5, _S6 = 2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10
_C1, _C2, _C3 = 4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05
_C4, _C5, _C6 = -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11
_T0, _T1, _T2 = 3.33333333333334091986e-01, 1.33333333333201242699e-01, 5.39682539762260521377e-02
_T3, _T4, _T5 = 2.18694882948595424599e-02, 8.86323982359930005737e-03, 3.59207910759131235356e-03
_T6, _T7, _T8 = 1.45620945432529025516e-03, 5.88041240820264096874e-04, 2.46463134818469906812e-04
_T9, _T10 = 7.81794442939557092300e-05, 7.14072491382608190305e-05
_T11, _T12 = -1.85586374855275456654e-05, 2.59073051863633712884e-05
_AT0, _AT1, _AT2 = (
    3.33333333333329318027e-01,
    -1.99999999998764832476e-01,
    1.42857142725034663711e-01,
)
_AT3, _AT4, _AT5 = (
    -1.11111104054623557880e-01,
    9.09088713343650656196e-02,
    -7.69187620504482999495e-02,
)
_AT6, _AT7, _AT8 = (
    6.66107313738753120669e-02,
    -5.83357013379057348645e-02,
    4.97687799461593236017e-02,
)
_AT9, _AT10 = -3.65315727442169155270e-02, 1.62858201153657823623e-02
_PS0, _PS1, _PS2 = (
    1.66666666666666657415e-01,
    -3.25565818622400915405e-01,
    2.01212532134862925881e-01,
)
_PS3, _PS4, _PS5 = (
    -4.00555345006794114027e-02,
    7.91534994289814532176e-04,
    3.47933107596021167570e-05,
)
_QS1, _QS2 = -2.40339491173441421878e00, 2.02094576023350569471e00
_QS3, _QS4 = -6.88283971605453293030e-01, 7.70381505559019352791e-02
_P1, _P2, _P3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_P4, _P5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08
_Q1, _Q2, _Q3 = -3.33333333333331316428e-02, 1.58730158725481460165e-03, -7.93650757867487942473e-05
_Q4, _Q5 = 4.00821782732936239552e-06, -2.01099218183624371326e-07
_LG1, _LG2, _LG3 = 6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01
_LG4, _LG5, _LG6 = 2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01
_LG7 = 1.479819860511658591e-01


def each(function: Callable[..., float], *arguments: ArrayLike) -> NDArray[np.float64]:
    """A function of each number of arrays; in Python, for the few of a flight's setup."""
    return np.asarray(np.vectorize(function, otypes=[np.float64])(*arguments), np.float64)


@portable
def _upper(x: float) -> float:
    """The upper 26 of a number's 53 bits."""
    shifted = x * _SPLIT
    return shifted - (shifted - x)


@portable
def _two_sum(a: float, b: float) -> tuple[float, float]:
    """A sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@portable
def _two_product(a: float, b: float) -> tuple[float, float]:
    """A product and its rounding error (Dekker 1971)."""
    product = a * b
    a1, b1 = _upper(a), _upper(b)
    a2, b2 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


@portable
def _below_turn(digits: int, exponent: int) -> float:
    """The rest of digits 2^exponent after division by 4."""
    if exponent > 1:
        return 0.0
    if exponent > -60:
        digits &= (1 << (2 - exponent)) - 1
    return float(digits) * math.ldexp(1.0, exponent)


@portable
def _reduced_large(x: float) -> tuple[int, float, float]:
    """:func:`_reduced` for any finite x > 0: x times those digits of 2/pi that count."""
    mantissa, exponent = math.frexp(x)
    whole = int(mantissa * 9007199254740992.0)
    exponent -= 53
    m0, m1, m2 = whole & _DIGIT, (whole >> 24) & _DIGIT, whole >> 48
    first = max(0, (exponent - 3) // 24)  # what comes before adds whole turns
    t = _TWO_OVER_PI
    d = m0 * t[first + 7]
    d0, d = d & _DIGIT, (d >> 24) + m0 * t[first + 6] + m1 * t[first + 7]
    d1, d = d & _DIGIT, (d >> 24) + m0 * t[first + 5] + m1 * t[first + 6] + m2 * t[first + 7]
    d2, d = d & _DIGIT, (d >> 24) + m0 * t[first + 4] + m1 * t[first + 5] + m2 * t[first + 6]
    d3, d = d & _DIGIT, (d >> 24) + m0 * t[first + 3] + m1 * t[first + 4] + m2 * t[first + 5]
    d4, d = d & _DIGIT, (d >> 24) + m0 * t[first + 2] + m1 * t[first + 3] + m2 * t[first + 4]
    d5, d = d & _DIGIT, (d >> 24) + m0 * t[first + 1] + m1 * t[first + 2] + m2 * t[first + 3]
    d6, d = d & _DIGIT, (d >> 24) + m0 * t[first] + m1 * t[first + 1] + m2 * t[first + 2]
    d7, d = d & _DIGIT, (d >> 24) + m1 * t[first] + m2 * t[first + 1]
    d8, d9 = d & _DIGIT, (d >> 24) + m2 * t[first]
    # pairs of digits are exact; of the upper two, whole turns (4 quarters) go
    scale = exponent - 24 * (first + 8)
    a = _below_turn((d9 << 24) | d8, scale + 192)
    b = _below_turn((d7 << 24) | d6, scale + 144)
    c = float((d5 << 24) | d4) * math.ldexp(1.0, scale + 96)
    e = float((d3 << 24) | d2) * math.ldexp(1.0, scale + 48)
    f = float((d1 << 24) | d0) * math.ldexp(1.0, scale)
    quarters = math.floor(a + b + 0.5)
    a, a_low = _two_sum(a - quarters, b)
    a, b_low = _two_sum(a, c)
    a, c_low = _two_sum(a, e)
    high, low = _two_sum(a, a_low + (b_low + (c_low + f)))
    y, y_low = _two_product(high, _PIO2)
    y, y_low = _two_sum(y, y_low + (high * _PIO2_LOW + low * _PIO2))
    return int(quarters), y, y_low


@portable
def _reduced(x: float) -> tuple[int, float, float]:
    """Quarter turns n, and y and its next digits in rad, |y| <= pi/4, so that x = n pi/2 + y."""
    size = abs(x)
    if size <= _PIO4:
        return 0, x, 0.0
    if not size <= _LARGE_RAD:
        if not size < _INF:
            return 0, _NAN, 0.0
        n, y, low = _reduced_large(size)
        return (n, y, low) if x > 0.0 else (-n, -y, -low)
    turns = (x * _INVERSE_PIO2 + _ROUND) - _ROUND
    r, w = x - turns * _PIO2_1, turns * _PIO2_1_LEFT
    y = r - w
    if abs(y) < 1.5e-5 * size:  # 16 bits were lost
        t = r
        w = turns * _PIO2_2
        r = t - w
        w = turns * _PIO2_2_LEFT - ((t - r) - w)
        y = r - w
        if abs(y) < 1.7e-15 * size:  # 49 bits
            t = r
            w = turns * _PIO2_3
            r = t - w
            w = turns * _PIO2_3_LEFT - ((t - r) - w)
            y = r - w
    return int(turns), y, (r - y) - w


@portable
def _sin_near(x: float, low: float) -> float:
    """Sine of x + low, |x| <= pi/4."""
    z = x * x
    v = z * x
    r = (_S2 + z * (_S3 + z * _S4)) + z * (z * z) * (_S5 + z * _S6)
    return x - ((z * (0.5 * low - v * r) - low) - v * _S1)


@portable
def _cos_near(x: float, low: float) -> float:
    """Cosine of x + low, |x| <= pi/4."""
    z = x * x
    w = z * z
    r = z * (_C1 + z * (_C2 + z * _C3)) + w * w * (_C4 + z * (_C5 + z * _C6))
    half = 0.5 * z
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (z * r - x * low))


@portable
def sin(x: float) -> float:
    """Sine of an angle in rad."""
    n, y, low = _reduced(x)
    value = _cos_near(y, low) if n & 1 else _sin_near(y, low)
    return -value if n & 2 else value


@portable
def cos(x: float) -> float:
    """Cosine of an angle in rad."""
    n, y, low = _reduced(x)
    value = _sin_near(y, low) if n & 1 else _cos_near(y, low)
    return -value if (n + 1) & 2 else value


@portable
def cos_sin(x: float) -> tuple[float, float]:
    """Cosine and sine of an angle in rad, in the time of little more than one of them."""
    n, y, low = _reduced(x)
    s, c = _sin_near(y, low), _cos_near(y, low)
    if n & 1:
        s, c = c, s
    return (-c if (n + 1) & 2 else c), (-s if n & 2 else s)


@portable
def tan(x: float) -> float:
    """Tangent of an angle in rad."""
    if abs(x) < 7.450580596923828e-09:
        return x
    n, y, low = _reduced(x)
    odd, folded, negative = n & 1 != 0, abs(y) >= 0.6744, y < 0.0
    if folded:
        if negative:
            y, low = -y, -low
        y, low = (_PIO4 - y) + (_PIO4_LOW - low), 0.0
    z = y * y
    w = z * z
    r = _T1 + w * (_T3 + w * (_T5 + w * (_T7 + w * (_T9 + w * _T11))))
    v = z * (_T2 + w * (_T4 + w * (_T6 + w * (_T8 + w * (_T10 + w * _T12)))))
    s = z * y
    r = low + z * (s * (r + v) + low)
    r += _T0 * s
    w = y + r
    if folded:
        v = -1.0 if odd else 1.0
        value = v - 2.0 * (y - (w * w / (w + v) - r))
        return -value if negative else value
    if not odd:
        return w
    if w == 0.0:
        return _NAN
    # -1 / (y + r) to more digits than a division gives
    high = _upper(w)
    v = r - (high - y)
    a = -1.0 / w
    t = _upper(a)
    return t + a * ((1.0 + t * high) + t * v)


@portable
def atan(x: float) -> float:
    """Arc tangent in rad."""
    size = abs(x)
    if size < 7.450580596923828e-09:
        return x
    base, base_low, t = 0.0, 0.0, x
    if size >= 2.4375:
        base, base_low, t = _PIO2, _PIO2_LOW, -1.0 / size
    elif size >= 1.1875:
        base, base_low = 9.82793723247329054082e-01, 1.39033110312309984516e-17
        t = (size - 1.5) / (1.0 + 1.5 * size)
    elif size >= 0.6875:
        base, base_low, t = _PIO4, _PIO4_LOW, (size - 1.0) / (size + 1.0)
    elif size >= 0.4375:
        base, base_low = 4.63647609000806093515e-01, 2.26987774529616870924e-17
        t = (2.0 * size - 1.0) / (2.0 + size)
    z = t * t
    w = z * z
    even = z * (_AT0 + w * (_AT2 + w * (_AT4 + w * (_AT6 + w * (_AT8 + w * _AT10)))))
    odd = w * (_AT1 + w * (_AT3 + w * (_AT5 + w * (_AT7 + w * _AT9))))
    if base == 0.0:
        return t - t * (even + odd)
    value = base - ((t * (even + odd) - base_low) - t)
    return -value if x < 0.0 else value


@portable
def atan2(y: float, x: float) -> float:
    """Angle in rad of the point (x, y), within [-pi, pi]; signs of zeros count."""
    a, b = abs(y), abs(x)
    if a == _INF and b == _INF:
        value = _PIO4
    elif b == 0.0:
        value = _PIO2 if a != 0.0 else a
    else:
        value = atan(a / b)
    if math.copysign(1.0, x) < 0.0:
        value = 2.0 * _PIO2 - (value - 2.0 * _PIO2_LOW)
    return math.copysign(value, y) if x == x and y == y else _NAN


@portable
def _arc(z: float) -> float:
    """(asin(x) - x) / x, of z = x^2 <= 0.25."""
    p = z * (_PS0 + z * (_PS1 + z * (_PS2 + z * (_PS3 + z * (_PS4 + z * _PS5)))))
    return p / (1.0 + z * (_QS1 + z * (_QS2 + z * (_QS3 + z * _QS4))))


@portable
def asin(x: float) -> float:
    """Arc sine in rad."""
    size = abs(x)
    if size < 0.5:
        return x + x * _arc(x * x)
    if not size <= 1.0:
        return _NAN
    z = 0.5 * (1.0 - size)
    s, r = math.sqrt(z), _arc(z)
    if size >= 0.975:
        value = _PIO2 - (2.0 * (s + s * r) - _PIO2_LOW)
    else:
        f = _upper(s)
        c = (z - f * f) / (s + f)
        value = _PIO4 - ((2.0 * s * r - (_PIO2_LOW - 2.0 * c)) - (_PIO4 - 2.0 * f))
    return -value if x < 0.0 else value


@portable
def acos(x: float) -> float:
    """Arc cosine in rad."""
    if abs(x) < 0.5:
        return _PIO2 - (x - (_PIO2_LOW - x * _arc(x * x)))
    if not abs(x) <= 1.0:
        return _NAN
    z = 0.5 * (1.0 - abs(x))
    s, r = math.sqrt(z), _arc(z)
    if x < 0.0:
        return 2.0 * _PIO2 - 2.0 * (s + (r * s - _PIO2_LOW))
    if s == 0.0:
        return 0.0
    f = _upper(s)
    c = (z - f * f) / (s + f)
    return 2.0 * (f + (r * s + c))


@portable
def _scaled(x: float, exponent: int) -> float:
    """X 2^exponent, for x near 1, rounded once where it is subnormal."""
    if -63 < exponent < 63:
        power = float(1 << abs(exponent))
        return x * power if exponent >= 0 else x / power
    if exponent > 1000:  # beyond the largest number it is infinite, where ldexp would raise
        return x * math.ldexp(1.0, 1000) * math.ldexp(1.0, exponent - 1000)
    return math.ldexp(x, exponent)


@portable
def exp(x: float) -> float:
    """Exponential function."""
    if x > 709.782712893384:
        return _INF
    if x < -745.1332191019412:
        return 0.0
    if not abs(x) <= 746.0:
        return x
    turns = 0.0
    if abs(x) > 0.5 * _LN2:
        turns = (x * (1.0 / _LN2) + _ROUND) - _ROUND
    high, low = x - turns * _LN2_HIGH, turns * _LN2_LOW
    return _exp_near(high, low, turns)


@portable
def _exp_near(high: float, low: float, turns: float) -> float:
    """2^turns exp(high - low), for at most 0.35 in magnitude."""
    x = high - low
    t = x * x
    c = x - t * (_P1 + t * (_P2 + t * (_P3 + t * (_P4 + t * _P5))))
    return _scaled(1.0 - ((low - (x * c) / (2.0 - c)) - high), int(turns))


@portable
def expm1(x: float) -> float:
    """exp(x) - 1, to all digits of a small one."""
    if x > 709.782712893384:
        return _INF
    if x < -56.0 * _LN2:
        return -1.0
    if abs(x) < 5.551115123125783e-17 or x != x:
        return x
    k, c, y = 0, 0.0, x
    if abs(x) > 0.5 * _LN2:
        turns = (x * (1.0 / _LN2) + _ROUND) - _ROUND
        high, low = x - turns * _LN2_HIGH, turns * _LN2_LOW
        k, y = int(turns), high - low
        c = (high - y) - low
    half = 0.5 * y
    z = y * half
    r = 1.0 + z * (_Q1 + z * (_Q2 + z * (_Q3 + z * (_Q4 + z * _Q5))))
    t = 3.0 - r * half
    e = z * ((r - t) / (6.0 - y * t))
    if k == 0:
        return y - (y * e - z)
    e = (y * (e - c) - c) - z
    if k == -1:
        return 0.5 * (y - e) - 0.5
    if k == 1:
        return -2.0 * (e - (y + 0.5)) if y < -0.25 else 1.0 + 2.0 * (y - e)
    if k <= -2 or k > 56:
        return _scaled(1.0 - (e - y), k) - 1.0
    below = _scaled(1.0, -k)
    if k < 20:
        return _scaled((1.0 - below) - (e - y), k)
    return _scaled((y - (e + below)) + 1.0, k)


@portable
def _log_near(f: float, k: float, low: float) -> float:
    """K ln 2 + log(1 + f) + low, for 1 + f between the root of a half and that of two."""
    half, s = 0.5 * f * f, f / (2.0 + f)
    z = s * s
    w = z * z
    r = w * (_LG2 + w * (_LG4 + w * _LG6)) + z * (_LG1 + w * (_LG3 + w * (_LG5 + w * _LG7)))
    return k * _LN2_HIGH - ((half - (s * (half + r) + (k * _LN2_LOW + low))) - f)


@portable
def log(x: float) -> float:
    """Natural logarithm."""
    if x == 0.0:
        return -_INF
    if not 0.0 < x < _INF:
        return x if x == _INF else _NAN
    mantissa, k = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, k = 2.0 * mantissa, k - 1
    return _log_near(mantissa - 1.0, float(k), 0.0)


@portable
def log1p(x: float) -> float:
    """log(1 + x), to all digits of a small x."""
    if x == -1.0:
        return -_INF
    if not -1.0 < x < _INF:
        return x if x == _INF else _NAN
    if abs(x) < 1.1102230246251565e-16:
        return x
    if -0.2928 < x < 0.4142:
        return _log_near(x, 0.0, 0.0)
    u = 1.0 + x
    lost = (1.0 - (u - x) if x > 1.0 else x - (u - 1.0)) / u
    mantissa, k = math.frexp(u)
    if mantissa < 0.7071067811865476:
        mantissa, k = 2.0 * mantissa, k - 1
    return _log_near(mantissa - 1.0, float(k), lost)


@portable
def _log_long(x: float) -> tuple[float, float]:
    """Logarithm of a finite x > 0, to twenty digits, as a number and its next digits."""
    mantissa, k = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, k = 2.0 * mantissa, k - 1
    # log m = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1)
    f = mantissa - 1.0
    g, g_low = _two_sum(2.0, f)
    s = f / g
    p, p_low = _two_product(s, g)
    s_low = ((f - p) - p_low - s * g_low) / g
    z, z_low = _two_product(s, s)
    z_low += 2.0 * s * s_low
    # the sum's head, 1/3 + z/5, needs the digits; its tail does not
    tail = z * (
        1.0 / 7.0
        + z
        * (
            1.0 / 9.0
            + z
            * (
                1.0 / 11.0
                + z
                * (
                    1.0 / 13.0
                    + z
                    * (
                        1.0 / 15.0
                        + z * (1.0 / 17.0 + z * (1.0 / 19.0 + z * (1.0 / 21.0 + z / 23.0)))
                    )
                )
            )
        )
    )
    r, r_low = _two_sum(0.2, tail)
    h, h_low = _two_product(z, r)
    h_low += z * (r_low - 1.1102230246251566e-17) + z_low * r
    h, t = _two_sum(0.3333333333333333, h)
    h_low += t + 1.850371707708594e-17
    r, r_low = _two_product(z, h)
    r_low += z * h_low + z_low * h
    h, h_low = _two_product(s, r)
    h_low += s * r_low + s_low * r
    a, a_low = _two_sum(s, h)
    a_low += s_low + h_low
    b, b_low = _two_product(float(k), _LN2)
    high, low = _two_sum(b, 2.0 * a)
    return _two_sum(high, low + (2.0 * a_low + (b_low + k * _LN2_LEFT)))


@portable
def power(x: float, y: float) -> float:
    """X to the power y, as IEEE 754 and C define it; NaN for a negative x and a broken y."""
    if y == 0.0 or x == 1.0:
        return 1.0
    if x != x or y != y:
        return _NAN
    size, whole = abs(x), abs(y) >= 9007199254740992.0 or math.floor(y) == y
    odd = whole and abs(y) < 9007199254740992.0 and math.floor(0.5 * y) != 0.5 * y
    if abs(y) == _INF:
        if size == 1.0:
            return 1.0
        return _INF if (size > 1.0) == (y > 0.0) else 0.0
    sign = -1.0 if odd and math.copysign(1.0, x) < 0.0 else 1.0
    if size == 0.0 or size == _INF:
        return sign * (_INF if (size == 0.0) == (y < 0.0) else 0.0)
    if x < 0.0 and not whole:
        return _NAN
    if size == 1.0:
        return sign
    high, low = _log_long(size)
    if abs(y) * abs(high) > 800.0:
        return sign * (_INF if (high > 0.0) == (y > 0.0) else 0.0)
    p, p_low = _two_product(y, high)
    p_low += y * low
    if p > 709.79:
        return sign * _INF
    if p < -745.2:
        return sign * 0.0
    turns = (p * (1.0 / _LN2) + _ROUND) - _ROUND
    a, a_low = _two_sum(p - turns * _LN2_HIGH, p_low)
    return sign * _exp_near(a, turns * _LN2_LOW - a_low, turns)
