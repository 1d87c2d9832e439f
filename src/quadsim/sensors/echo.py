"""What becomes of an echo, the same for range finder and lidar: who hears it, and what is read.

An echo comes from a surface that is hit steeply enough, is missed by chance, and is read with
errors. Readings follow REP-117: -inf is too near, +inf too far or no echo.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from quadsim.base.compiled import Quaternion, Record, kernel
from quadsim.base.elementary import cos
from quadsim.base.errors import InputError
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Spec
from quadsim.geometry.length import hypot
from quadsim.sensors.model import read_out


class EchoState(Record):
    """What a device remembers: its mount, and the offset and scale drawn at switch-on."""

    q_BS: Quaternion
    offset_m: float
    scale: float
    cos_incidence_max: float


@dataclass(frozen=True)
class EchoParams:
    """How a device reads distances; zero switches an error off."""

    noise_sigma_m: Annotated[float, Spec("white noise of a reading", "m", ge=0.0, le=10.0)] = 0.0
    noise_share: Annotated[
        float, Spec("white noise that grows with the distance, its part of it", ge=0.0, le=1.0)
    ] = 0.0
    turn_on_sigma_m: Annotated[
        float, Spec("spread of the offset that is drawn at switch-on", "m", ge=0.0, le=10.0)
    ] = 0.0
    scale_sigma: Annotated[
        float, Spec("spread of the scale factor that is drawn at switch-on", ge=0.0, le=0.3)
    ] = 0.0
    step_m: Annotated[float, Spec("resolution, 0 for none", "m", ge=0.0, le=1.0)] = 0.0
    range_min_m: Annotated[float, Spec("below it the reading is -inf", "m", ge=0.0)] = 0.1
    range_max_m: Annotated[float, Spec("beyond it the reading is +inf", "m", gt=0.0)] = 8.0
    incidence_max_deg: Annotated[
        float,
        Spec("largest angle to a surface's normal that gives an echo", "deg", ge=1.0, le=90.0),
    ] = 90.0
    dropout_probability: Annotated[float, Spec("that an echo is missed", ge=0.0, le=1.0)] = 0.0
    grazing_dropout_probability: Annotated[
        float,
        Spec("added at incidence_max_deg; on the way there it grows as 1 - cos", ge=0.0, le=1.0),
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse an empty interval.

        Raises:
            InputError: the range has no inside.
        """
        if self.range_min_m >= self.range_max_m:
            raise InputError(
                f"range_min_m: {self.range_min_m!r} is not below range_max_m {self.range_max_m!r}"
            )


def start_echo(state: EchoState, params: EchoParams, generator: np.random.Generator) -> None:
    """Draw what a device has from switch-on."""
    offset, scale = draw_normals(generator, 2).tolist()
    state.offset_m = params.turn_on_sigma_m * offset
    state.scale = 1.0 + params.scale_sigma * scale
    state.cos_incidence_max = cos(math.radians(params.incidence_max_deg))


@kernel
def is_missed(device: EchoParams, state: EchoState, cosine: float, chance: float) -> bool:
    """Whether an echo is missed by chance.

    A diffuse surface sends back cos(incidence) of the light or sound (Lambert): with what is
    lacking of it, the misses grow.

    Args:
        device: the parameters.
        state: what it remembers.
        cosine: of the angle between ray and surface normal.
        chance: uniform in [0, 1].
    """
    lacking = (1.0 - cosine) / (1.0 - state.cos_incidence_max)
    probability = device.dropout_probability + device.grazing_dropout_probability * lacking
    return bool(chance < probability)


@kernel
def read_echo(device: EchoParams, state: EchoState, distance_m: float, white: float) -> float:
    """What is read off an echo, m: offset, scale, noise, counts, limits (REP-117).

    Args:
        device, state: as of :func:`is_missed`.
        distance_m: of what sent the echo; inf for none.
        white: a standard normal number.
    """
    if distance_m == math.inf:
        return math.inf
    sigma_m = hypot(device.noise_sigma_m, device.noise_share * distance_m)
    reading = state.scale * distance_m + state.offset_m + sigma_m * white
    reading = read_out(reading, device.step_m, 0.0)
    if reading > device.range_max_m:
        return math.inf
    if reading < device.range_min_m:
        return -math.inf
    return reading


@kernel
def echo_variance(device: EchoParams, reading_m: float) -> float:
    """Variance of a reading in m^2: noise, count, and the spread of offset and scale; 0 of none."""
    if math.isinf(reading_m):
        return 0.0
    share2 = device.noise_share**2 + device.scale_sigma**2
    constant = device.noise_sigma_m**2 + device.turn_on_sigma_m**2 + device.step_m**2 / 12.0
    return float(constant + share2 * reading_m * reading_m)
