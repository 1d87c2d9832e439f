"""What surrounds the vehicles: datum, gravity, wind, weather, magnetic field and the ground."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3
from quadsim.geometry.geodesy import Datum
from quadsim.world.air.atmosphere import SEA_LEVEL_PRESSURE_PA, STANDARD_GRAVITY_MPS2
from quadsim.world.air.wind_parameters import FASTEST_WIND_MPS, WindParams
from quadsim.world.earth.gravity import datum_gravity
from quadsim.world.earth.magnetic import check_date, field_W_T

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class EnvironmentParams:
    """The world of a scenario, in ``map`` (ENU)."""

    datum: Datum = field(default_factory=Datum)
    gravity: Annotated[
        str, Spec("fixed, or normal gravity at the datum and above", choices=("fixed", "model"))
    ] = "fixed"
    gravity_mps2: Annotated[
        float, Spec("where it is fixed: at z = 0, downwards", "m/s^2", ge=0.0, le=30.0)
    ] = STANDARD_GRAVITY_MPS2
    gravity_gradient_per_s2: Annotated[
        float, Spec("where it is fixed: what it loses with each metre up", "1/s^2", ge=0.0, le=1e-3)
    ] = 0.0
    wind_W_mps: Annotated[
        Vec3,
        Spec(
            "mean velocity of the air; with shear, at wind.reference_height_m",
            "m/s",
            ge=-FASTEST_WIND_MPS,
            le=FASTEST_WIND_MPS,
        ),
    ] = ZERO
    wind: WindParams = field(default_factory=WindParams)
    sea_level_pressure_pa: Annotated[
        float, Spec("weather: pressure at sea level", "Pa", ge=85000.0, le=110000.0)
    ] = SEA_LEVEL_PRESSURE_PA
    temperature_offset_K: Annotated[
        float,
        Spec("weather: air, over the standard atmosphere's at its height", "K", ge=-60.0, le=60.0),
    ] = 0.0
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
        """Refuse a date that the model does not know, and values that would not be used."""
        if self.gravity == "model":
            for name in ("gravity_mps2", "gravity_gradient_per_s2"):
                if getattr(self, name) != getattr(type(self), name):
                    raise InputError(
                        f"{name}: {getattr(self, name)!r} with gravity: model; allowed: with"
                        " gravity: fixed"
                    )
        if self.magnetic_field == "fixed":
            return
        check_date(self.magnetic_date_year)
        if self.magnetic_field_W_T != ZERO:
            raise InputError(
                f"magnetic_field_W_T: {self.magnetic_field_W_T!r} with magnetic_field: model;"
                " allowed: with magnetic_field: fixed"
            )

    def field_W_T(self) -> Vec3:
        """Magnetic flux density that holds, east, north, up, in T."""
        if self.magnetic_field == "fixed":
            return self.magnetic_field_W_T
        return field_W_T(self.datum, self.magnetic_date_year)

    def gravity_and_gradient(self) -> tuple[float, float]:
        """Gravity that holds at z = 0, in m/s^2, and what it loses with each metre up, in 1/s^2."""
        if self.gravity == "fixed":
            return self.gravity_mps2, self.gravity_gradient_per_s2
        return datum_gravity(self.datum)

    def packed_as(self) -> EnvironmentParams:
        """What kernels take: the same world with gravity and magnetic field written out."""
        gravity_mps2, gradient_per_s2 = self.gravity_and_gradient()
        return replace(
            self,
            gravity="fixed",
            gravity_mps2=gravity_mps2,
            gravity_gradient_per_s2=gradient_per_s2,
            magnetic_field="fixed",
            magnetic_field_W_T=self.field_W_T(),
        )
