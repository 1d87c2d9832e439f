"""Range finder: a cone of rays, of which the nearest that gives an echo is read.

What becomes of an echo, the same for range finder and lidar: who hears it, and what is read.

An echo comes from a surface that is hit steeply enough, is missed by chance, and is read with
errors. Readings follow REP-117: -inf is too near, +inf too far or no echo.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Over, Quaternion, Record, Records, kernel
from quadsim.base.elementary import cos, each, sin
from quadsim.base.errors import InputError
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Spec
from quadsim.base.records import Kinematics
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, vec3
from quadsim.sensors.error_terms import (
    DeliveredParams,
    Dropout,
    Position,
    Quantisation,
    Rate,
    Rotation,
    TurnOn,
    White,
    set_mount,
    uniform,
)
from quadsim.sensors.model import Reading, SensorModel, read_out
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.samples import range_messages
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import cast_ray


class EchoState(Record):
    """What a device remembers: its mount, and the offset and scale drawn at switch-on."""

    q_BS: Quaternion
    offset_m: float
    scale: float
    cos_incidence_max: float


@dataclass(frozen=True)
class EchoParams(DeliveredParams):
    """How a device reads distances; zero switches an error off."""

    noise_sigma_m: Annotated[float, White("white noise of a reading", "m", ge=0.0, le=10.0)] = 0.0
    noise_share: Annotated[
        float, White("white noise that grows with the distance, its part of it", ge=0.0, le=1.0)
    ] = 0.0
    turn_on_sigma_m: Annotated[
        float, TurnOn("spread of the offset that is drawn at switch-on", "m", ge=0.0, le=10.0)
    ] = 0.0
    scale_sigma: Annotated[
        float, TurnOn("spread of the scale factor that is drawn at switch-on", ge=0.0, le=0.3)
    ] = 0.0
    step_m: Annotated[float, Quantisation("resolution, 0 for none", "m", ge=0.0, le=1.0)] = 0.0
    range_min_m: Annotated[float, Spec("below it the reading is -inf", "m", ge=0.0)] = 0.1
    range_max_m: Annotated[float, Spec("beyond it the reading is +inf", "m", gt=0.0)] = 8.0
    incidence_max_deg: Annotated[
        float,
        Spec("largest angle to a surface's normal that gives an echo", "deg", ge=1.0, le=90.0),
    ] = 90.0
    dropout_probability: Annotated[float, Dropout("that an echo is missed", ge=0.0, le=1.0)] = 0.0
    grazing_dropout_probability: Annotated[
        float,
        Dropout("added at incidence_max_deg; on the way there it grows as 1 - cos", ge=0.0, le=1.0),
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


MAX_RAYS = 64
#: Turn from one ray of the cone to the next: pi (3 - sqrt(5)).
GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))


@dataclass(frozen=True)
class RangefinderParams(EchoParams):
    """One range finder; its x axis (``range_link``, REP-117 and sensor_msgs/Range) is the beam."""

    rate_hz: Annotated[float, Rate("sample rate", "Hz", ge=1.0, le=500.0)] = 50.0
    position_B_m: Position = (0.0, 0.0, 0.0)
    rotation_deg: Rotation = (0.0, 90.0, 0.0)
    radiation: Annotated[
        str, Spec("what it sends, for its messages", choices=("ultrasound", "infrared"))
    ] = "infrared"
    field_of_view_deg: Annotated[float, Spec("width of the beam", "deg", gt=0.0, le=90.0)] = 2.0
    rays: Annotated[int, Spec("that stand for the beam; the first is its axis", ge=1, le=64)] = 1


class RangefinderState(EchoState):
    """What it remembers."""

    rays_B: Annotated[Array, MAX_RAYS, 3]


class RangefinderSample(Record):
    """A slant range."""

    stamp_ns: int
    range_m: float
    variance_m2: float
    values: Annotated[Array, 1, Over("range_m")]
    variances: Annotated[Array, 1, Over("variance_m2")]


def cone(rays: int, field_of_view_rad: float) -> NDArray[np.float64]:
    """Rays that fill a cone about x evenly, axis and edge included.

    Sunflower: equal steps in cos(angle to the axis), that is in solid angle, each rotated by the
    golden angle (Vogel, *A better way to construct the sunflower head*, 1979).

    Args:
        rays: how many; one is the axis.
        field_of_view_rad: full width of the cone.

    Returns:
        (rays, 3) unit vectors.
    """
    k = np.arange(rays)
    x = 1.0 - (1.0 - cos(0.5 * field_of_view_rad)) * k / max(rays - 1, 1)
    aside, turn = np.sqrt(1.0 - x * x), k * GOLDEN_ANGLE
    return np.stack([x, aside * each(cos, turn), aside * each(sin, turn)], axis=1)


RangefinderSlot = Slot[RangefinderParams, RangefinderState, RangefinderSample]


def start_rangefinder(
    state: RangefinderState, params: RangefinderParams, generator: np.random.Generator
) -> None:
    """Mount the sensor and its rays; draw its offset and scale."""
    set_mount(state, params.rotation_deg)
    start_echo(state, params, generator)
    q_BS = quat(state.q_BS)
    for k, ray_S in enumerate(cone(params.rays, math.radians(params.field_of_view_deg)).tolist()):
        state.rays_B[k] = rotate(q_BS, tuple(ray_S))


@kernel
def rangefinder_step(
    slots: Records[RangefinderSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One slant range in m, off the nearest echo in the cone."""
    slot, true = slots[0], nows[0]
    state, device, sample = slot.state, slot.params, slot.sample
    q_WB = quat(true.q_WB)
    origin_W = add(vec3(true.p_W), rotate(q_WB, vec3(device.position_B_m)))
    nearest, nearest_cos = math.inf, 1.0
    for k in range(device.rays):
        distance, cosine = cast_ray(
            world.scene,
            world.environments[0].ground_height_m,
            origin_W,
            rotate(q_WB, vec3(state.rays_B[k])),
            min(device.range_max_m, nearest),
        )
        if distance < nearest and cosine >= state.cos_incidence_max:
            nearest, nearest_cos = distance, cosine
    if is_missed(device, state, nearest_cos, uniform(white[1], white[2])):
        nearest = math.inf
    sample.range_m = read_echo(device, state, nearest, white[0])
    sample.variance_m2 = echo_variance(device, sample.range_m)


def told_of_rangefinder(device: RangefinderParams, _: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it."""
    return {
        "mount.rangefinder_position_B_m": device.position_B_m,
        "mount.rangefinder_beam_deg": device.field_of_view_deg if device.rays > 1 else 0.0,
        "noise.range_offset_m": device.turn_on_sigma_m,
        "noise.range_scale": device.scale_sigma,
    }


MODEL = SensorModel(
    "rangefinder",
    RangefinderSlot,
    3,
    start_rangefinder,
    rangefinder_step,
    needs=lambda _: frozenset({"scene"}),
    readings=(Reading("range", variance="variances", absent=np.isinf),),
    messages=(lambda frame, params, _: range_messages(frame, params),),
    carried=True,
    told=told_of_rangefinder,
)
