"""What surrounds the vehicles: datum, gravity, wind, magnetic field and the ground."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from quadsim.geometry.geodesy import Datum
from quadsim.parameters import Spec, Vec3


@dataclass(frozen=True)
class EnvironmentParams:
    """The world of a scenario, in ``map`` (ENU)."""

    datum: Datum = field(default_factory=Datum)
    gravity_mps2: Annotated[float, Spec("gravity, downwards", "m/s^2", ge=0.0, le=30.0)] = 9.80665
    wind_W_mps: Annotated[Vec3, Spec("velocity of the air", "m/s", ge=-100.0, le=100.0)] = (
        0.0,
        0.0,
        0.0,
    )
    magnetic_field_W_T: Annotated[
        Vec3, Spec("magnetic flux density, east, north, up", "T", ge=-1e-3, le=1e-3)
    ] = (0.0, 2.15e-5, -4.3e-5)
    ground_height_m: Annotated[
        float, Spec("height of the flat ground in map", "m", ge=-1000.0, le=10000.0)
    ] = 0.0
