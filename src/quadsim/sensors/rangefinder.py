"""Range finder: a cone of rays, of which the nearest that gives an echo is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Over, Records, kernel
from quadsim.base.elementary import cos, each, sin
from quadsim.base.parameters import Spec
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, vec3
from quadsim.sensors.chance import uniform
from quadsim.sensors.delivery import Sample, Slot
from quadsim.sensors.echo import (
    EchoParams,
    EchoState,
    echo_variance,
    is_missed,
    read_echo,
    start_echo,
)
from quadsim.sensors.model import SensorModel
from quadsim.sensors.mount import Position, Rotation, set_mount
from quadsim.sensors.timing import Latency, LossProbability, StampJitter
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene, cast_ray

MAX_RAYS = 64
#: Turn from one ray of the cone to the next: pi (3 - sqrt(5)).
GOLDEN_ANGLE = math.pi * (3.0 - math.sqrt(5.0))


@dataclass(frozen=True)
class RangefinderParams(EchoParams):
    """One range finder; its x axis (``range_link``, REP-117 and sensor_msgs/Range) is the beam."""

    rate_hz: Annotated[float, Spec("sample rate", "Hz", ge=1.0, le=500.0)] = 50.0
    latency_s: Latency = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
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


class RangefinderSample(Sample):
    """A slant range."""

    range_m: float
    variance_m2: float
    values: Annotated[Array, 1, Over("range_m")]


def flat_ground_height(range_m: float, tilt_rad: float, half_beam_rad: float = 0.0) -> float:
    """Height of a range finder above flat ground.

    A cone's nearest point of the ground is straight below while the vertical is inside the cone,
    and on the cone's lowest edge beyond: h = r cos(max(0, tilt - half beam)).

    Args:
        range_m: what it reads.
        tilt_rad: angle between its axis and the vertical, [0, pi/2).
        half_beam_rad: half the width of its beam; 0 for a ray, h = r cos(tilt).

    Returns:
        Height in m.
    """
    return range_m * cos(max(0.0, tilt_rad - half_beam_rad))


def cone(rays: int, field_of_view_rad: float) -> NDArray[np.float64]:
    """Rays that fill a cone about x evenly, axis and edge included.

    Sunflower: equal steps in cos(angle to the axis), that is in solid angle, each turned by the
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


def start(
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
    states: Records[RangefinderState],
    params: Records[RangefinderParams],
    environments: Records[EnvironmentParams],
    scene: Scene,
    previous: Records[Kinematics],
    now: Records[Kinematics],
    white: NDArray[np.float64],
    samples: Records[RangefinderSample],
) -> None:
    """One slant range in m, off the nearest echo in the cone."""
    state, device, true, sample = states[0], params[0], now[0], samples[0]
    q_WB = quat(true.q_WB)
    origin_W = add(vec3(true.p_W), rotate(q_WB, vec3(device.position_B_m)))
    nearest, nearest_cos = math.inf, 1.0
    for k in range(device.rays):
        distance, cosine = cast_ray(
            scene,
            environments[0].ground_height_m,
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


def needs(params: RangefinderParams) -> frozenset[str]:
    """It sees the world."""
    return frozenset({"scene"})


MODEL = SensorModel(
    "rangefinder",
    Slot[RangefinderParams, RangefinderState, RangefinderSample],
    3,
    start,
    rangefinder_step,
    needs=needs,
)
