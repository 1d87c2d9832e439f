"""The air's velocity at a vehicle: mean wind with shear, gusts, a recording, turbulence.

Called once per period (that of the IMU); between its ends the velocity is taken as linear.

Turbulence has the spectra of Dryden or of von Karman and is stepped exactly. Spectra, scale lengths
and intensities after MIL-F-8785C, *Flying Qualities of Piloted Airplanes* (1980), sections 3.7.1 to
3.7.3, low altitudes. MIL-HDBK-1797 (1997) writes them with lengths half as long across the wind and
upwards, and comes to the same velocities.

A Dryden process is a first-order lag of white noise along the wind, and across it and upwards

    v = sigma (sqrt(3) x1 + (1 - sqrt(3)) x2) / sqrt(2),  T x1' = n - x1,  T x2' = x1 - x2

with T = L/V, of which x1 has the variance 1. The spectra of von Karman are no rational functions,
but mixtures of Dryden's: (1 + y)^(-5/6) is a Stieltjes function, thus a sum of 1/(1 + t y) over
all t, and the spectrum across follows from that along by the same rule in both models (isotropy).
Four of them are within 2 % of all three spectra from 0 to a wave number of 300/L; above, they fall
faster.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.elementary import cos, exp, expm1, log, power
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import add, norm, scale, subtract, vec3
from quadsim.world.air.wind_parameters import SHEARS, TURBULENCES, WindParams

Array = NDArray[np.float64]

POWER, LOG = SHEARS.index("power"), SHEARS.index("log")

DRYDEN, VON_KARMAN = TURBULENCES.index("dryden"), TURBULENCES.index("von_karman")

#: Share of the variance and length over L of the Dryden processes that make up von Karman's: our
#: fit by least squares of high order to the ratio of the spectra.
VON_KARMAN_SHARES = (0.7947, 0.14988, 0.04273, 0.01269)
VON_KARMAN_LENGTHS = (1.20931, 0.255747, 0.038423, 0.005481)
SCALES = 4

#: Standard normal numbers of one Dryden process: one along, two across, two upwards.
WHITE_PER_SCALE = 5

#: The height at which intensities have their reference wind (20 ft), and the range in which the
#: standard's lengths and intensities hold (10 to 1000 ft); outside, those of its border count.
FOOT_M = 0.3048
REFERENCE_HEIGHT_M = 20.0 * FOOT_M
LOWEST_M, HIGHEST_M = 10.0 * FOOT_M, 1000.0 * FOOT_M

#: Coefficients follow height and air speed when one has changed by more than this share.
TUNING = 0.01

#: Filters of one vehicle; axes: along the wind, to the left of it, upwards.
TURBULENCE = record_dtype(
    [
        ("x", np.float64, (3, SCALES, 2)),
        ("keep", np.float64, (3, SCALES)),  # of x over one period
        ("pass_on", np.float64, (3, SCALES)),  # from the first to the second
        ("gain", np.float64, (3, SCALES, 3)),  # Cholesky factor 11, 21, 22 of what noise adds
        ("share", np.float64, (SCALES,)),  # square root of a process' variance
        ("scales", np.int64),  # 0 before the first step
        ("along_W", np.float64, (2,)),  # unit vector, east and north
        ("sigma_ratio", np.float64),  # horizontal over vertical
        ("period_s", np.float64),  # of the coefficients, as the next two
        ("height_m", np.float64),
        ("speed_mps", np.float64),
    ]
)

#: Standard normal numbers that a period takes at most; see :func:`white_width`.
WIND_WHITE = SCALES * WHITE_PER_SCALE

#: What the wind at one vehicle remembers.
WIND_STATE = record_dtype(
    [
        ("turbulence", TURBULENCE),
        ("row", np.int64),  # of the recording, before the newest time
    ]
)


@kernel
def transition(tau: float) -> tuple[float, float, float, float, float]:
    """Exact step of x1 and x2 over a time of tau T.

    x1 becomes keep x1 + g11 n1 and x2 keep x2 + pass_on x1 + g21 n1 + g22 n2, with

        Q11 = 1 - e, Q12 = 1/2 - (tau + 1/2) e, Q22 = 1/2 - (tau^2 + tau + 1/2) e, e = exp(-2 tau),

    the integrals of 2 exp(-2 s) (1, s, s^2) over s from 0 to tau.

    Returns:
        keep, pass_on, g11, g21, g22.
    """
    keep = exp(-tau)
    g11 = math.sqrt(-expm1(-2.0 * tau))
    if tau <= 0.0:
        return 1.0, 0.0, 0.0, 0.0, 0.0
    if tau < 1e-3:  # series: the closed forms lose their digits
        g21 = tau * tau * (1.0 - tau * (4.0 / 3.0 - tau)) / g11
        g22 = math.sqrt(tau * tau * tau * (1.0 - tau) / 6.0)
    else:
        left = keep * keep
        g21 = (0.5 - (tau + 0.5) * left) / g11
        g22 = math.sqrt(max(0.5 - (tau * tau + tau + 0.5) * left - g21 * g21, 0.0))
    return keep, tau * keep, g11, g21, g22


@kernel
def standard_scales(height_m: float) -> tuple[float, float, float]:
    """Scale lengths and the ratio of intensities of MIL-F-8785C at a height above ground.

    Returns:
        Length along and across the wind and length upwards in m; sigma_u over sigma_w.
    """
    height_m = min(max(height_m, LOWEST_M), HIGHEST_M)
    shape = 0.177 + 0.000823 * (height_m / FOOT_M)
    return height_m * power(shape, -1.2), height_m, power(shape, -0.4)


@kernel
def tune(state: Any, wind: Any, height_m: float, speed_mps: float, period_s: float) -> None:
    """Coefficients for a height above ground, a speed through the air and a period."""
    state.height_m, state.speed_mps, state.period_s = height_m, speed_mps, period_s
    across_m, up_m, state.sigma_ratio = standard_scales(height_m)
    lengths = (across_m, across_m, up_m)
    if wind.length_m[0] > 0.0:
        lengths = vec3(wind.length_m)
    von_karman = wind.turbulence == VON_KARMAN
    state.scales = SCALES if von_karman else 1
    for k in range(state.scales):
        state.share[k] = math.sqrt(VON_KARMAN_SHARES[k]) if von_karman else 1.0
        part = VON_KARMAN_LENGTHS[k] if von_karman else 1.0
        for axis in range(3):
            tau = speed_mps * period_s / (part * lengths[axis])
            keep, pass_on, g11, g21, g22 = transition(tau)
            state.keep[axis, k], state.pass_on[axis, k] = keep, pass_on
            state.gain[axis, k, 0] = g11
            state.gain[axis, k, 1] = g21
            state.gain[axis, k, 2] = g22


@kernel
def steer(state: Any, air_W_mps: Vec3, rate: float) -> None:
    """Turn the axes towards the wind by a share; which way along it they point is all one."""
    east, north = air_W_mps[0], air_W_mps[1]
    x, y = state.along_W[0], state.along_W[1]
    aside = x * north - y * east
    speed2 = east * east + north * north
    if aside * aside <= 1e-6 * speed2 or speed2 < 1e-4:
        return
    side = 1.0 if x * east + y * north >= 0.0 else -1.0
    pull = rate * side / math.sqrt(speed2)
    x, y = (1.0 - rate) * x + pull * east, (1.0 - rate) * y + pull * north
    size = math.sqrt(x * x + y * y)
    state.along_W[0], state.along_W[1] = x / size, y / size


@kernel
def begin(state: Any, air_W_mps: Vec3) -> None:
    """Coefficients with which the next step draws from what has gone on for ever."""
    state.along_W[0], state.along_W[1] = 1.0, 0.0
    steer(state, air_W_mps, 1.0)
    state.period_s = 0.0  # of no step: the one after next is tuned anew
    for axis in range(3):
        for k in range(state.scales):  # variances 1 and 1/2, covariance 1/2
            state.gain[axis, k, 0] = 1.0
            state.gain[axis, k, 1] = 0.5
            state.gain[axis, k, 2] = 0.5


@kernel
def second_order(state: Any, axis: int, k: int, n1: float, n2: float) -> float:
    """Step one Dryden process across the wind or upwards; its value, of variance 1."""
    x, gain = state.x[axis, k], state.gain[axis, k]
    x1 = state.keep[axis, k] * x[0] + gain[0] * n1
    x2 = state.keep[axis, k] * x[1] + state.pass_on[axis, k] * x[0] + gain[1] * n1 + gain[2] * n2
    x[0], x[1] = x1, x2
    return float((math.sqrt(3.0) * x1 + (1.0 - math.sqrt(3.0)) * x2) * math.sqrt(0.5))


@kernel
def intensities(state: Any, wind: Any, w20_mps: float) -> Vec3:
    """Deviations along, across and upwards in m/s, at the height of the coefficients."""
    if wind.length_m[0] > 0.0:
        return vec3(wind.sigma_mps)
    return (0.1 * w20_mps * state.sigma_ratio, 0.1 * w20_mps * state.sigma_ratio, 0.1 * w20_mps)


@kernel
def differs(value: float, tuned: float) -> bool:
    """Whether coefficients for another value are due."""
    return abs(value - tuned) > TUNING * tuned


@kernel
def turbulence_step(
    state: Any,
    wind: Any,
    air_W_mps: Vec3,
    w20_mps: float,
    v_W: Vec3,
    height_m: float,
    period_s: float,
    white: Array,
) -> Vec3:
    """Velocity of the turbulence at the end of a period, in W, m/s.

    Taylor's hypothesis: a field of eddies is carried along with the air and passed at the speed of
    the vehicle through it. Where that is less than the turbulence's own deviation, which changes
    the field as fast, the deviation counts instead (ours).

    Args:
        state: TURBULENCE record, zeroed before the first call.
        wind: packed WindParams.
        air_W_mps: velocity of the air that carries the turbulence.
        w20_mps: wind at :data:`REFERENCE_HEIGHT_M`, where sigma_mps is zero.
        v_W: velocity of the vehicle.
        height_m: above the ground.
        period_s: since the last call.
        white: standard normal numbers, WHITE_PER_SCALE for each process.
    """
    speed_mps = max(norm(subtract(v_W, air_W_mps)), *intensities(state, wind, w20_mps))
    height_m = min(max(height_m, LOWEST_M), HIGHEST_M)
    first = state.scales == 0
    if (
        period_s != state.period_s
        or differs(speed_mps, state.speed_mps)
        or differs(height_m, state.height_m)
    ):
        tune(state, wind, height_m, speed_mps, period_s)
    if first:
        begin(state, air_W_mps)
    steer(state, air_W_mps, 1.0 - state.keep[0, 0])
    u, v, w = 0.0, 0.0, 0.0
    for k in range(state.scales):
        n = k * WHITE_PER_SCALE
        x = state.keep[0, k] * state.x[0, k, 0] + state.gain[0, k, 0] * white[n]
        state.x[0, k, 0] = x
        u += state.share[k] * x
        v += state.share[k] * second_order(state, 1, k, white[n + 1], white[n + 2])
        w += state.share[k] * second_order(state, 2, k, white[n + 3], white[n + 4])
    sigma = intensities(state, wind, w20_mps)
    u, v, w = sigma[0] * u, sigma[1] * v, sigma[2] * w
    east, north = state.along_W[0], state.along_W[1]
    return (u * east - v * north, u * north + v * east, w)


def white_width(wind: WindParams) -> int:
    """Standard normal numbers that a period takes with these parameters."""
    if wind.turbulence == "none":
        return 0
    return WIND_WHITE if TURBULENCES.index(wind.turbulence) == VON_KARMAN else WHITE_PER_SCALE


@kernel
def wind_start(state: Any) -> None:
    """Forget everything: the next step draws the turbulence anew.

    Args:
        state: WIND_STATE record.
    """
    state.turbulence.scales = 0
    state.turbulence.period_s = 0.0
    state.turbulence.x[:, :, :] = 0.0
    state.row = 0


@kernel
def shear_factor(wind: Any, height_m: float) -> float:
    """Mean wind at a height above ground over that at the reference height.

    MIL-F-8785C section 3.7.3.1 (log) holds up to 1000 ft, as does what is held above that here.
    """
    height_m = min(height_m, HIGHEST_M)
    if wind.shear == POWER:
        return float(power(max(height_m / wind.reference_height_m, 0.0), wind.power_exponent))
    if wind.shear == LOG:
        if height_m <= wind.roughness_m:
            return 0.0
        reference = log(wind.reference_height_m / wind.roughness_m)
        return float(log(height_m / wind.roughness_m) / reference)
    return 1.0


@kernel
def gust_share(gust: Any, t_s: float) -> float:
    """Share in [0, 1] of a gust's velocity at a time: half a cosine, hold, half a cosine.

    MIL-F-8785C section 3.7.2.3: V = Vm/2 (1 - cos(pi x/dm)), over time instead of distance.
    """
    rise_s, hold_s = gust[1], gust[2]
    t_s -= gust[0]
    if t_s < 0.0 or t_s >= 2.0 * rise_s + hold_s:
        return 0.0
    if t_s < rise_s:
        return 0.5 - 0.5 * cos(math.pi * t_s / rise_s)
    if t_s <= rise_s + hold_s:
        return 1.0
    return 0.5 + 0.5 * cos(math.pi * (t_s - rise_s - hold_s) / rise_s)


@kernel
def at_level(table: Array, row: int, level: int, share: float) -> Vec3:
    """Velocity at one height of a recording between two rows."""
    a = vec3(table[row, level, 2:])
    b = vec3(table[min(row + 1, table.shape[0] - 1), level, 2:])
    return add(scale(1.0 - share, a), scale(share, b))


@kernel
def recorded(state: Any, table: Array, height_m: float, t_s: float) -> Vec3:
    """Velocity of a recording, linear in time and height; beyond its ends their value."""
    last = table.shape[0] - 1
    while state.row > 0 and t_s < table[state.row, 0, 0]:
        state.row -= 1
    while state.row < last and t_s >= table[state.row + 1, 0, 0]:
        state.row += 1
    row, share = state.row, 0.0
    if row < last and t_s > table[row, 0, 0]:
        share = (t_s - table[row, 0, 0]) / (table[row + 1, 0, 0] - table[row, 0, 0])
    top = table.shape[1] - 1
    level = 0
    while level < top and height_m >= table[row, level + 1, 1]:
        level += 1
    below = at_level(table, row, level, share)
    low_m = table[row, level, 1]
    if level == top or height_m <= low_m:
        return below
    up = (height_m - low_m) / (table[row, level + 1, 1] - low_m)
    return add(scale(1.0 - up, below), scale(up, at_level(table, row, level + 1, share)))


@kernel
def carrying_air(state: Any, environment: Any, table: Array, height_m: float, t_s: float) -> Vec3:
    """Velocity of the air without turbulence, at a height above the ground."""
    wind = environment.wind
    air = vec3(environment.wind_W_mps)
    if wind.shear != 0:
        factor = shear_factor(wind, height_m)
        air = (factor * air[0], factor * air[1], air[2])
    for i in range(wind.gusts_count):
        share = gust_share(wind.gusts[i], t_s)
        if share > 0.0:
            air = add(air, scale(share, vec3(wind.gusts[i, 3:])))
    if table.shape[0] > 0:
        air = add(air, recorded(state, table, height_m, t_s))
    return air


@kernel
def wind_at_20_ft(environment: Any) -> float:
    """Wind that sets the intensities: as given, or the mean wind at that height."""
    if environment.wind.w20_mps > 0.0:
        return float(environment.wind.w20_mps)
    east, north = environment.wind_W_mps[0], environment.wind_W_mps[1]
    speed_mps = math.sqrt(east * east + north * north)
    return float(speed_mps * shear_factor(environment.wind, REFERENCE_HEIGHT_M))


@kernel
def wind_step(
    state: Any,
    environment: Any,
    table: Array,
    p_W: Vec3,
    v_W: Vec3,
    ground_height_m: float,
    stamp_ns: int,
    period_s: float,
    white: Array,
) -> Vec3:
    """Velocity of the air in W at the end of a period, m/s.

    Args:
        state: WIND_STATE record, after :func:`wind_start`.
        environment: packed EnvironmentParams; its mean wind may change from call to call.
        table: recording, as :func:`~quadsim.world.build.read_wind` gives it.
        p_W: position of the vehicle, m.
        v_W: velocity of the vehicle, m/s.
        ground_height_m: of the ground below, in ``map``.
        stamp_ns: end of the period.
        period_s: length of the period.
        white: standard normal numbers, :func:`white_width` of them.
    """
    wind = environment.wind
    if wind.shear + wind.turbulence + wind.gusts_count + table.shape[0] == 0:
        return vec3(environment.wind_W_mps)
    height_m = max(p_W[2] - ground_height_m, 0.0)
    air_W = carrying_air(state, environment, table, height_m, stamp_ns * 1e-9)
    if wind.turbulence == 0:
        return air_W
    eddies_W = turbulence_step(
        state.turbulence, wind, air_W, wind_at_20_ft(environment), v_W, height_m, period_s, white
    )
    return add(air_W, eddies_W)
