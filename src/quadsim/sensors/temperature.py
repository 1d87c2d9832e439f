"""How warm a sensor is: the air's temperature and its own warmth after switch-on."""

from __future__ import annotations

from typing import Annotated

from quadsim.base.compiled import kernel
from quadsim.base.elementary import exp
from quadsim.base.parameters import Spec

AmbientOffset = Annotated[
    float, Spec("air, over the temperature of the calibration", "K", ge=-100.0, le=100.0)
]
WarmUp = Annotated[
    float, Spec("how far the sensor warms itself after switch-on", "K", ge=0.0, le=100.0)
]
WarmUpTime = Annotated[float, Spec("time constant of that", "s", gt=0.0, le=1e5)]


@kernel
def warmth_K(ambient_offset_K: float, warm_up_K: float, warm_up_s: float, age_s: float) -> float:
    """Temperature of a sensor over that of its calibration, ``age_s`` after switch-on."""
    if warm_up_K == 0.0:
        return ambient_offset_K
    return ambient_offset_K + warm_up_K * (1.0 - exp(-age_s / warm_up_s))
