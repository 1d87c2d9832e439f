"""The air's velocity at a vehicle: mean wind with shear, gusts, a recording, turbulence.

Called once per period (that of the IMU); between its ends the velocity is taken as linear.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.elementary import cos, log, power
from quadsim.base.parameters import Vec3
from quadsim.geometry.vector import add, scale, vec3
from quadsim.world.air.turbulence import (
    HIGHEST_M,
    REFERENCE_HEIGHT_M,
    SCALES,
    TURBULENCE,
    VON_KARMAN,
    WHITE_PER_SCALE,
    turbulence_step,
)
from quadsim.world.air.wind_parameters import SHEARS, TURBULENCES, WindParams

Array = NDArray[np.float64]

POWER, LOG = SHEARS.index("power"), SHEARS.index("log")

#: Standard normal numbers that a period takes at most; see :func:`white_width`.
WIND_WHITE = SCALES * WHITE_PER_SCALE

#: What the wind at one vehicle remembers.
WIND_STATE = record_dtype(
    [
        ("turbulence", TURBULENCE),
        ("row", np.int64),  # of the recording, before the newest time
    ]
)


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
        table: recording, as :func:`~quadsim.world.air.wind_file.read_wind` gives it.
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
