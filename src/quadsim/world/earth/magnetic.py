"""The Earth's magnetic field: World Magnetic Model 2025 of NOAA NCEI and BGS, by pygeomag."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.geometry.geodesy import Datum

#: Years in which the model holds.
FIRST_YEAR, LAST_YEAR = 2025.0, 2030.0
#: Deviation of a field at a place from the model, each axis, T: the error model's of WMM2025 (137,
#: 89 and 141 nT north, east and down), and ours for iron in ground and houses: 0.5 uT, which is 1.4
#: degrees of declination at 20 uT. Declinations off by 3 or 4 degrees are two or three of it.
FIELD_SIGMA_T = 5.2e-7
#: Years that this and the models before it cover, for flights that were recorded then.
MODEL_YEARS = (2010.0, LAST_YEAR)
#: First year of each model, and its name in pygeomag.
MODELS = ((2010.0, "2010"), (2015.0, "2015v2"), (2020.0, "2020"), (FIRST_YEAR, "2025"))


def check_date(date_year: float) -> None:
    """Refuse a decimal year at which the model does not hold.

    Raises:
        InputError: with what to set instead.
    """
    if not FIRST_YEAR <= date_year <= LAST_YEAR:
        raise InputError(
            f"magnetic_date_year: {date_year!r}; allowed: {FIRST_YEAR:g} to {LAST_YEAR:g}, in which"
            " the World Magnetic Model 2025 holds; for another date set magnetic_field: fixed and"
            " magnetic_field_W_T"
        )


@lru_cache(maxsize=64)
def field_W_T(datum: Datum, date_year: float) -> Vec3:
    """Magnetic flux density at a place.

    Args:
        datum: the place; its height is above the ellipsoid, as the model wants it.
        date_year: decimal year.

    Returns:
        East, north, up, in T.

    Raises:
        InputError: a date at which the model does not hold.
    """
    check_date(date_year)
    return model_field_W_T(datum, date_year)


@lru_cache(maxsize=64)
def model_field_W_T(datum: Datum, date_year: float) -> Vec3:
    """The same at a date in the past, by the model of its time; see :data:`MODEL_YEARS`.

    Raises:
        InputError: a date that no model covers.
    """
    if not MODEL_YEARS[0] <= date_year <= MODEL_YEARS[1]:
        raise InputError(
            f"{date_year:.1f}: the World Magnetic Models cover {MODEL_YEARS[0]:g} to"
            f" {MODEL_YEARS[1]:g}"
        )
    from pygeomag import GeoMag  # needed only where the field is measured

    name = next(name for first, name in reversed(MODELS) if date_year >= first)
    coefficients = getattr(import_module(f"pygeomag.wmm.wmm_{name}"), f"WMM_{name}")
    found = GeoMag(coefficients_data=coefficients).calculate(
        datum.latitude_deg, datum.longitude_deg, datum.height_m * 1e-3, date_year
    )
    return found.y * 1e-9, found.x * 1e-9, -found.z * 1e-9  # nT north, east, down
