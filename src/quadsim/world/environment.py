"""What surrounds the vehicles: datum, gravity, wind, weather, magnetic field and the ground."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from quadsim.errors import InputError
from quadsim.geometry.geodesy import Datum
from quadsim.parameters import Spec, Vec3
from quadsim.world.atmosphere import SEA_LEVEL_PRESSURE_PA
from quadsim.world.magnetic import check_date, field_W_T

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class EnvironmentParams:
    """The world of a scenario, in ``map`` (ENU)."""

    datum: Datum = field(default_factory=Datum)
    gravity_mps2: Annotated[float, Spec("gravity, downwards", "m/s^2", ge=0.0, le=30.0)] = 9.80665
    wind_W_mps: Annotated[Vec3, Spec("velocity of the air", "m/s", ge=-100.0, le=100.0)] = ZERO
    sea_level_pressure_pa: Annotated[
        float, Spec("weather: pressure at sea level", "Pa", ge=85000.0, le=110000.0)
    ] = SEA_LEVEL_PRESSURE_PA
    magnetic_field: Annotated[
        str, Spec("the World Magnetic Model at the datum, or fixed", choices=("model", "fixed"))
    ] = "model"
    magnetic_date_year: Annotated[
        float, Spec("of the model, a decimal year", "a", ge=1900.0, le=2100.0)
    ] = 2026.0
    magnetic_field_W_T: Annotated[
        Vec3,
        Spec("where it is fixed: flux density, east, north, up", "T", ge=-1e-3, le=1e-3),
    ] = ZERO
    ground_height_m: Annotated[
        float, Spec("height of the flat ground in map", "m", ge=-1000.0, le=10000.0)
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse a date that the model does not know, and a field that would not be used."""
        if self.magnetic_field == "fixed":
            return
        check_date(self.magnetic_date_year)
        if self.magnetic_field_W_T != ZERO:
            raise InputError(
                f"magnetic_field_W_T: {self.magnetic_field_W_T!r} beside magnetic_field: model;"
                " allowed: with magnetic_field: fixed"
            )

    def field_W_T(self) -> Vec3:
        """Magnetic flux density that holds, east, north, up, in T."""
        if self.magnetic_field == "fixed":
            return self.magnetic_field_W_T
        return field_W_T(self.datum, self.magnetic_date_year)

    def packed_as(self) -> EnvironmentParams:
        """What kernels take: the same world with the field written out."""
        return replace(self, magnetic_field="fixed", magnetic_field_W_T=self.field_W_T())
