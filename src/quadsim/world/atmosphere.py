"""International Standard Atmosphere, troposphere (ISO 2533:1975), below 11 km."""

from __future__ import annotations

from typing import Any

from quadsim.compiled import kernel
from quadsim.elementary import power

SEA_LEVEL_PRESSURE_PA = 101325.0
SEA_LEVEL_TEMPERATURE_K = 288.15
LAPSE_RATE_K_PER_M = 0.0065
GAS_CONSTANT_J_PER_KG_K = 287.05287
STANDARD_GRAVITY_MPS2 = 9.80665
_EXPONENT = STANDARD_GRAVITY_MPS2 / (GAS_CONSTANT_J_PER_KG_K * LAPSE_RATE_K_PER_M)


@kernel
def pressure_at(height_m: float) -> float:
    """Static pressure in Pa at a height above mean sea level in m."""
    return float(
        SEA_LEVEL_PRESSURE_PA
        * power(1.0 - LAPSE_RATE_K_PER_M * height_m / SEA_LEVEL_TEMPERATURE_K, _EXPONENT)
    )


@kernel
def height_of(pressure_pa: float) -> float:
    """Height above mean sea level in m at a static pressure in Pa: inverse of `pressure_at`."""
    ratio = power(pressure_pa / SEA_LEVEL_PRESSURE_PA, 1.0 / _EXPONENT)
    return float(SEA_LEVEL_TEMPERATURE_K / LAPSE_RATE_K_PER_M * (1.0 - ratio))


@kernel
def density_at(height_m: float, pressure_pa: float) -> float:
    """Density of the air in kg/m^3 at a height in m, where the static pressure is known."""
    temperature_K = SEA_LEVEL_TEMPERATURE_K - LAPSE_RATE_K_PER_M * height_m
    return float(pressure_pa / (GAS_CONSTANT_J_PER_KG_K * temperature_K))


@kernel
def air_pressure(environment: Any, z_m: float) -> float:
    """Static pressure in Pa under the weather of a world.

    Args:
        environment: packed EnvironmentParams.
        z_m: height in ``map``; that of the datum counts as height above the sea.
    """
    weather = environment.sea_level_pressure_pa / SEA_LEVEL_PRESSURE_PA
    return float(pressure_at(environment.datum.height_m + z_m) * weather)


@kernel
def air_density(environment: Any, z_m: float) -> float:
    """Density of the air in kg/m^3 in a world, at a height in ``map``; see :func:`air_pressure`."""
    return density_at(environment.datum.height_m + z_m, air_pressure(environment, z_m))
