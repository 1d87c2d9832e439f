"""Parameters of the wind: key ``wind`` of a world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3

Gust = tuple[float, float, float, float, float, float]
ZERO: Vec3 = (0.0, 0.0, 0.0)
SHEARS = ("none", "power", "log")
TURBULENCES = ("none", "dryden", "von_karman")
MAX_GUSTS = 8
FASTEST_WIND_MPS = 100.0


@dataclass(frozen=True)
class WindParams:
    """What the air does besides its mean velocity, ``wind_W_mps`` of the world."""

    shear: Annotated[
        str, Spec("how the horizontal mean wind grows with height above ground", choices=SHEARS)
    ] = "none"
    reference_height_m: Annotated[
        float, Spec("with shear: where the mean wind holds", "m", ge=0.1, le=300.0)
    ] = 10.0
    power_exponent: Annotated[
        float, Spec("of shear: power; 1/7 over open land", "1", gt=0.0, le=1.0)
    ] = 1.0 / 7.0
    roughness_m: Annotated[
        float, Spec("of shear: log; 0.03 over grass, 0.0002 over water", "m", ge=1e-5, le=3.0)
    ] = 0.03
    gusts: Annotated[
        tuple[Gust, ...],
        Spec(
            "start s, rise s, hold s, east, north, up m/s; 1-cosine, it falls as it rose",
            max_items=MAX_GUSTS,
        ),
    ] = ()
    turbulence: Annotated[str, Spec("its spectrum", choices=TURBULENCES)] = "none"
    w20_mps: Annotated[
        float,
        Spec(
            "wind 20 ft (6.1 m) up, which sets MIL-F-8785C's intensities: 7.7 light, 15.4 moderate,"
            " 23.2 severe; 0: the mean wind there",
            "m/s",
            ge=0.0,
            le=50.0,
        ),
    ] = 0.0
    sigma_mps: Annotated[
        Vec3,
        Spec("instead: deviation along, across the wind and upwards", "m/s", ge=0.0, le=20.0),
    ] = ZERO
    length_m: Annotated[
        Vec3, Spec("with sigma_mps: scale lengths, as MIL-F-8785C has them", "m", ge=0.0, le=2000.0)
    ] = ZERO
    file: Annotated[str, Spec("a .csv of velocities by time, added to the mean wind")] = ""

    def __post_init__(self) -> None:
        """Refuse gusts that cannot be, and values that would not be used."""
        for i, gust in enumerate(self.gusts):
            if (
                min(gust[:3]) < 0.0
                or max(gust[:3]) > 1e6
                or max(map(abs, gust[3:])) > FASTEST_WIND_MPS
            ):
                raise InputError(
                    f"gusts[{i}]: {gust!r}; allowed: start, rise and hold of 0 to 1e6 s, a"
                    " velocity of -100 to 100 m/s on each axis"
                )
        self._refuse_beside("shear", "none", "reference_height_m", "power_exponent", "roughness_m")
        self._refuse_beside("shear", "power", "roughness_m")
        self._refuse_beside("shear", "log", "power_exponent")
        self._refuse_beside("turbulence", "none", "w20_mps", "sigma_mps", "length_m")
        if self.shear == "log" and self.roughness_m >= self.reference_height_m:
            raise InputError(
                f"roughness_m: {self.roughness_m!r}; allowed: below reference_height_m"
                f" ({self.reference_height_m:g} m)"
            )
        if (self.sigma_mps != ZERO) != (self.length_m != ZERO) or (
            self.length_m != ZERO and min(self.length_m) < 0.1
        ):
            raise InputError(
                f"length_m: {self.length_m!r} with sigma_mps: {self.sigma_mps!r}; allowed: both"
                " zero, or lengths of at least 0.1 m with a deviation"
            )
        if self.sigma_mps != ZERO and self.w20_mps != 0.0:
            raise InputError(f"w20_mps: {self.w20_mps!r} with sigma_mps; allowed: one of the two")

    def _refuse_beside(self, key: str, choice: str, *unused: str) -> None:
        """Refuse values that a choice leaves without effect."""
        for name in unused if getattr(self, key) == choice else ():
            if getattr(self, name) != getattr(type(self), name):
                raise InputError(f"{name}: {getattr(self, name)!r} has no effect: {key}: {choice}")
