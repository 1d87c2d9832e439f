"""Turbulence with the spectra of Dryden and of von Karman, stepped exactly.

Spectra, scale lengths and intensities after MIL-F-8785C, *Flying Qualities of Piloted Airplanes*
(1980), sections 3.7.1 to 3.7.3, low altitudes. MIL-HDBK-1797 (1997) writes them with lengths half
as long across the wind and upwards, and comes to the same velocities.

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
from quadsim.base.elementary import exp, expm1, power
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import norm, subtract, vec3
from quadsim.world.air.wind_parameters import TURBULENCES

Array = NDArray[np.float64]

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
