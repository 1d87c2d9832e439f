"""Parameters of the linear GPS/INS filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quadsim.base.parameters import Choice, Spec

#: Where the attitude comes from.
COMPLEMENTARY, EXTERNAL = range(2)
ATTITUDES = ("complementary", "external")

#: Of the floating-point numbers of its inertial navigation.
DOUBLE, SINGLE = range(2)
PRECISIONS = ("double", "single")


@dataclass(frozen=True)
class GpsInsParams:
    """The attitude it is given; noise is that of the messages, or of ``noise`` where unknown."""

    attitude: Annotated[
        Choice,
        Spec("from gyroscope, accelerometer and heading, or the external pose", choices=ATTITUDES),
    ] = "complementary"
    precision: Annotated[
        Choice,
        Spec("floating-point numbers of the inertial navigation", choices=PRECISIONS),
    ] = "double"
    attitude_tau_s: Annotated[
        float, Spec("roll and pitch follow the accelerometer so slowly", "s", gt=0.0)
    ] = 2.0
    heading_tau_s: Annotated[
        float, Spec("yaw follows the magnetic heading so slowly", "s", gt=0.0)
    ] = 2.0
    attitude_sigma_rad: Annotated[
        float, Spec("error of the attitude, each axis", "rad", ge=0.0, le=3.0)
    ] = 0.035
    attitude_correlation_s: Annotated[
        float, Spec("how long that error stays as it is", "s", ge=0.0, le=1000.0)
    ] = 1.0
