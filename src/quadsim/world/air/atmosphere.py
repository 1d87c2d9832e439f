"""International Standard Atmosphere, troposphere (ISO 2533:1975), below 11 km."""

from __future__ import annotations

from typing import Any

from quadsim.base.compiled import kernel, portable
from quadsim.base.elementary import power

SEA_LEVEL_PRESSURE_PA = 101325.0
SEA_LEVEL_TEMPERATURE_K = 288.15
LAPSE_RATE_K_PER_M = 0.0065
GAS_CONSTANT_J_PER_KG_K = 287.05287
STANDARD_GRAVITY_MPS2 = 9.80665
#: Radius of the earth by which ISO 2533 makes geopotential heights of geometric ones, in m.
EARTH_RADIUS_M = 6356766.0
#: Depth below which heights of pressures do not go, so that they stay finite.
DEEPEST_M = 1e6
_EXPONENT = STANDARD_GRAVITY_MPS2 / (GAS_CONSTANT_J_PER_KG_K * LAPSE_RATE_K_PER_M)


@portable
def temperature_at(height_m: float, offset_K: float) -> float:
    """Temperature of the air in K at a height above mean sea level in m.

    Args:
        height_m: geometric height.
        offset_K: over the standard atmosphere, alike at all heights.
    """
    # of the geopotential height, ISO 2533, eq. 8
    lost_K = LAPSE_RATE_K_PER_M * (EARTH_RADIUS_M * height_m / (EARTH_RADIUS_M + height_m))
    return float(SEA_LEVEL_TEMPERATURE_K + offset_K - lost_K)


@portable
def pressure_at(height_m: float, offset_K: float = 0.0) -> float:
    """Static pressure in Pa at a height above mean sea level in m; see :func:`temperature_at`.

    Hydrostatic balance, dp/dH = -g_0 p / (R T), under the standard pressure at sea level.
    """
    ratio = temperature_at(height_m, offset_K) / (SEA_LEVEL_TEMPERATURE_K + offset_K)
    return float(SEA_LEVEL_PRESSURE_PA * power(ratio, _EXPONENT))


@portable
def height_of(pressure_pa: float) -> float:
    """Geometric height above mean sea level in m at a static pressure in Pa.

    The inverse of `pressure_at` in the standard atmosphere, whatever the air's temperature.
    """
    ratio = power(pressure_pa / SEA_LEVEL_PRESSURE_PA, 1.0 / _EXPONENT)
    geopotential_m = SEA_LEVEL_TEMPERATURE_K / LAPSE_RATE_K_PER_M * (1.0 - ratio)
    if geopotential_m < -DEEPEST_M:  # of a pressure that cannot be; NaN stays
        geopotential_m = -DEEPEST_M
    return float(EARTH_RADIUS_M * geopotential_m / (EARTH_RADIUS_M - geopotential_m))


@portable
def density_at(height_m: float, pressure_pa: float, offset_K: float = 0.0) -> float:
    """Density of the air in kg/m^3 at a height in m, where the static pressure is known."""
    return float(pressure_pa / (GAS_CONSTANT_J_PER_KG_K * temperature_at(height_m, offset_K)))


@kernel
def air_pressure(environment: Any, z_m: float) -> float:
    """Static pressure in Pa under the weather of a world.

    Args:
        environment: packed EnvironmentParams.
        z_m: height in ``map``; that of the datum counts as height above the sea.
    """
    weather = environment.sea_level_pressure_pa / SEA_LEVEL_PRESSURE_PA
    height_m = environment.datum.height_m + z_m
    return float(pressure_at(height_m, environment.temperature_offset_K) * weather)


@kernel
def air_density(environment: Any, z_m: float) -> float:
    """Density of the air in kg/m^3 in a world, at a height in ``map``; see :func:`air_pressure`."""
    height_m, pressure_pa = environment.datum.height_m + z_m, air_pressure(environment, z_m)
    return density_at(height_m, pressure_pa, environment.temperature_offset_K)


@portable
def pressure_slope(pressure_pa: float, height_m: float) -> float:
    """Derivative of the standard atmosphere's height by pressure, m/Pa (hydrostatic balance)."""
    over_geopotential = 1.0 + height_m / EARTH_RADIUS_M
    gas = GAS_CONSTANT_J_PER_KG_K * temperature_at(height_m, 0.0)
    gas *= over_geopotential * over_geopotential
    return -gas / (STANDARD_GRAVITY_MPS2 * pressure_pa)
