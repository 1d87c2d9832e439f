"""Optical flow sensor: how far the ground beneath seems to turn, as a camera of few pixels sees it.

Over an interval the picture moves by the sensor's own rotation, and by its way over the distance
to what the middle of the picture shows: about x by (turn_x + way_y / distance), about y by
(turn_y - way_x / distance), in the axes of the sensor, which looks along its -z (Honegger et al.,
*An open source and open hardware embedded metric optical flow CMOS camera*, ICRA 2013; signs as of
MAVLink's OPTICAL_FLOW_RAD). Distances are those of the scene: ground, terrain and obstacles.

A chip compares pictures: with little contrast in them, what it reads scatters more. The quality is
that contrast, from 0 to 1: of the ground's texture, in that light, out of focus when too near,
smeared by the motion during the exposure. Below a least quality, or faster than it can follow, it
measures nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.base.compiled import Array, Over, Quaternion, Record, Records, Vector, kernel
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Spec, Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.length import hypot
from quadsim.geometry.rotation import (
    Quat,
    conjugate,
    exp,
    log,
    multiply,
    quat,
    rotate,
    unrotate,
)
from quadsim.geometry.vector import add, scale, subtract, vec3
from quadsim.sensors.error_terms import (
    Constant,
    DeliveredParams,
    Position,
    Quantisation,
    Rate,
    Rotation,
    White,
    set_mount,
)
from quadsim.sensors.model import Reading, SensorModel, read_out
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.samples import flow_messages
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import cast_ray


@dataclass(frozen=True)
class OpticalFlowParams(DeliveredParams):
    """One optical flow sensor; zero switches an error off."""

    rate_hz: Annotated[float, Rate("samples", "Hz", ge=1.0, le=500.0)] = 100.0
    position_B_m: Position = (0.0, 0.0, 0.0)
    rotation_deg: Rotation = (0.0, 0.0, 0.0)
    noise_sigma_rad: Annotated[
        float, White("white noise of a sample of half the quality or more", "rad", ge=0.0, le=1.0)
    ] = 0.0
    scale_sigma: Annotated[
        float, Spec("spread of the scale factor drawn at switch-on: lens", ge=0.0, le=0.3)
    ] = 0.0
    step_rad: Annotated[float, Quantisation("a count, 0 for none", "rad", ge=0.0, le=0.1)] = 0.0
    dead_band_rad: Annotated[
        float, Constant("a sample that moves less reads nothing", "rad", ge=0.0, le=0.1)
    ] = 0.0
    range_radps: Annotated[
        float, Spec("fastest flow that is followed; 0: any", "rad/s", ge=0.0, le=100.0)
    ] = 0.0
    distance_min_m: Annotated[
        float, Spec("nearest ground in focus; half the quality", "m", ge=0.0, le=10.0)
    ] = 0.0
    distance_max_m: Annotated[float, Spec("farthest ground", "m", gt=0.0, le=1e3)] = 1e3
    exposure_s: Annotated[float, Spec("of a picture: blur", "s", ge=0.0, le=0.1)] = 0.0
    pixel_rad: Annotated[float, Spec("angle of a pixel", "rad", gt=0.0, le=0.5)] = 0.02
    least_light_lux: Annotated[float, Spec("light of half the quality", "lx", ge=0.0, le=1e5)] = 0.0
    light_lux: Annotated[float, Spec("on the ground", "lx", ge=0.0, le=2e5)] = 500.0
    texture: Annotated[
        float, Spec("contrast of the ground: 1 gravel or carpet, 0 a plain floor", ge=0.0, le=1.0)
    ] = 1.0
    quality_min: Annotated[float, Spec("least quality that measures", gt=0.0, le=1.0)] = 0.1
    gyro: Annotated[bool, Spec("it has a gyroscope of its own")] = False
    gyro_noise_density: Annotated[
        float, Spec("white noise of that gyroscope", "rad/s/sqrt(Hz)", ge=0.0, le=1.0)
    ] = 0.0
    gyro_turn_on_sigma_radps: Annotated[
        float, Spec("deviation of its bias at switch-on", "rad/s", ge=0.0, le=1.0)
    ] = 0.0
    gyro_bias_walk: Annotated[
        float, Spec("random walk of its bias", "rad/s^2/sqrt(Hz)", ge=0.0, le=1.0)
    ] = 0.0


class OpticalFlowState(Record):
    """What it remembers."""

    q_BS: Quaternion
    scale: float
    gyro_bias_S: Vector


class OpticalFlowSample(Record):
    """A flow about x and y in rad and its interval in s, and the turn that its gyroscope felt."""

    stamp_ns: int
    flow: Vector
    turn: Vector
    variance_rad2: float
    quality: float
    values: Annotated[Array, 2, Over("flow")]
    variances: Annotated[Array, 1, Over("variance_rad2")]


OpticalFlowSlot = Slot[OpticalFlowParams, OpticalFlowState, OpticalFlowSample]


def start_optical_flow(
    state: OpticalFlowState, params: OpticalFlowParams, generator: np.random.Generator
) -> None:
    """Mount the sensor; draw its scale and its gyroscope's bias."""
    set_mount(state, params.rotation_deg)
    drawn = draw_normals(generator, 4)
    state.scale = 1.0 + params.scale_sigma * float(drawn[0])
    state.gyro_bias_S[:] = params.gyro_turn_on_sigma_radps * drawn[1:]


@kernel
def ideal_flow(
    state: OpticalFlowState,
    device: OpticalFlowParams,
    world: SensorWorld,
    before: Kinematics,
    now: Kinematics,
) -> tuple[Vec3, Vec3, float]:
    """What a perfect sensor would see between two moments.

    Returns:
        The turn of the sensor in its axes in rad, its way in the axes half-way in m, and the
        distance to the ground along its view half-way in m; inf: there is none in reach.
    """
    q_BS = quat(state.q_BS)
    q_0, q_1 = multiply(quat(before.q_WB), q_BS), multiply(quat(now.q_WB), q_BS)
    turn_S = log(multiply(conjugate(q_0), q_1))
    q_WS: Quat = multiply(q_0, exp(scale(0.5, turn_S)))
    place_B = vec3(device.position_B_m)
    p_0 = add(vec3(before.p_W), rotate(quat(before.q_WB), place_B))
    p_1 = add(vec3(now.p_W), rotate(quat(now.q_WB), place_B))
    distance_m, _ = cast_ray(
        world.scene,
        world.environments[0].ground_height_m,
        scale(0.5, add(p_0, p_1)),
        rotate(q_WS, (0.0, 0.0, -1.0)),
        device.distance_max_m,
    )
    return turn_S, unrotate(q_WS, subtract(p_1, p_0)), distance_m


@kernel
def quality_of(device: OpticalFlowParams, distance_m: float, rate_radps: float) -> float:
    """Contrast of what it sees, from 0 to 1, of the ground's best.

    Args:
        device: the parameters.
        distance_m: to the ground; inf: none.
        rate_radps: of the flow.
    """
    if distance_m == math.inf:
        return 0.0
    # a photodiode's signal over its noise in little light; a circle of confusion that grows as 1/d;
    # a blur of b pixels passes 1 / (1 + b^2) of a pattern of pixels' size
    light = device.light_lux / max(device.light_lux + device.least_light_lux, 1e-9)
    focus = distance_m * distance_m
    focus /= max(focus + device.distance_min_m * device.distance_min_m, 1e-12)
    blur = rate_radps * device.exposure_s / device.pixel_rad
    return float(device.texture * light * focus / (1.0 + blur * blur))


@kernel
def optical_flow_step(
    slots: Records[OpticalFlowSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One flow over the interval since the sample before."""
    slot, now = slots[0], nows[0]
    state, device, sample, before = slot.state, slot.params, slot.sample, slot.previous
    dt_s = (now.stamp_ns - before.stamp_ns) * 1e-9
    turn_S, way_S, distance_m = ideal_flow(state, device, world, before, now)
    near = 1.0 / max(distance_m, 1e-3)
    seen = (turn_S[0] + near * way_S[1], turn_S[1] - near * way_S[0])
    rate_radps = hypot(seen[0], seen[1]) / dt_s
    quality = quality_of(device, distance_m, rate_radps)
    followed = device.range_radps == 0.0 or rate_radps <= device.range_radps
    measures = followed and quality >= device.quality_min
    sigma_rad = device.noise_sigma_rad / min(2.0 * max(quality, device.quality_min), 1.0)
    for i in range(2):
        reading = state.scale * seen[i] + sigma_rad * white[i]
        if abs(reading) < device.dead_band_rad:
            reading = 0.0
        sample.flow[i] = read_out(reading, device.step_rad, 0.0) if measures else np.nan
    sample.flow[2] = dt_s
    sample.quality = quality if measures else 0.0
    sample.variance_rad2 = sigma_rad * sigma_rad + device.step_rad * device.step_rad / 12.0
    # what lies in the dead band may be anywhere in it
    sample.variance_rad2 += device.dead_band_rad * device.dead_band_rad / 3.0
    for i in range(3):
        state.gyro_bias_S[i] += device.gyro_bias_walk * math.sqrt(dt_s) * white[5 + i]
        felt = turn_S[i] + dt_s * state.gyro_bias_S[i]
        felt += device.gyro_noise_density * math.sqrt(dt_s) * white[2 + i]
        sample.turn[i] = felt if device.gyro else np.nan


def told_of_optical_flow(device: OpticalFlowParams, _: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it."""
    return {
        "mount.flow_position_B_m": device.position_B_m,
        "mount.flow_roll_pitch_yaw_deg": device.rotation_deg,
        "start.flow_scale": device.scale_sigma,
    }


MODEL = SensorModel(
    "optical_flow",
    OpticalFlowSlot,
    8,
    start_optical_flow,
    optical_flow_step,
    {"flow": (0, 2)},
    needs=lambda _: frozenset({"scene"}),
    readings=(Reading("optical_flow", "flow", "variances", rows=1, absent=np.isnan),),
    messages=(lambda frame, *_: flow_messages(frame),),
    carried=True,
    told=told_of_optical_flow,
)
