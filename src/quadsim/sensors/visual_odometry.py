"""Visual-inertial odometry: the pose of ``base_link`` in a frame of its own, without rendering.

What such an odometry gets wrong grows with the way (relative errors after Zhang and Scaramuzza, *A
tutorial on quantitative trajectory evaluation for visual(-inertial) odometry*, IROS 2018): from
image to image position and yaw walk, with the distance and with the rotation, and all ways are
too long or short by a scale. Roll and pitch are observed by gravity, and have noise alone.

It loses track by chance (darkness, bare walls), in fast turns, and under the fault ``outage``. Then
it is silent, and comes back with a jump of its frame (relocalisation). A loop closure takes the
drift back, which is a jump too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.base.compiled import Array, Over, Quaternion, Record, Records, Vector, kernel
from quadsim.base.elementary import cos, sin
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Spec, Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import (
    Quat,
    conjugate,
    exp,
    from_euler,
    log,
    multiply,
    normalize,
    quat,
)
from quadsim.geometry.vector import add, norm, scale, store, subtract, vec3
from quadsim.sensors.error_terms import (
    DeliveredParams,
    Rate,
    TurnOn,
    White,
    next_state,
    share_of_time,
    uniform,
)
from quadsim.sensors.faults import JUMP, FaultList, acts, in_outage
from quadsim.sensors.model import Reading, SensorModel
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.samples import own_frame_messages
from quadsim.world.environment import EnvironmentParams

DEGREE = math.pi / 180.0


@dataclass(frozen=True)
class VisualOdometryParams(DeliveredParams):
    """One odometry; zero switches an error off."""

    rate_hz: Annotated[float, Rate("poses a second", "Hz", ge=1.0, le=200.0)] = 30.0
    origin_sigma_m: Annotated[
        float, TurnOn("of the place of its origin in map", "m", ge=0.0, le=1e4)
    ] = 0.0
    frame_yaw_sigma_deg: Annotated[
        float, TurnOn("of its frame's yaw in map; from 180 on any", "deg", ge=0.0, le=180.0)
    ] = 0.0
    noise_sigma_m: Annotated[float, White("noise of a position", "m", ge=0.0, le=10.0)] = 0.0
    noise_yaw_sigma_deg: Annotated[float, White("of a yaw", "deg", ge=0.0, le=90.0)] = 0.0
    noise_tilt_sigma_deg: Annotated[
        float, White("of roll and pitch, each", "deg", ge=0.0, le=90.0)
    ] = 0.0
    position_walk: Annotated[
        float, Spec("drift of the position, each axis", "m/sqrt(m)", ge=0.0, le=10.0)
    ] = 0.0
    yaw_walk_deg: Annotated[
        float, Spec("drift of the yaw, over the way", "deg/sqrt(m)", ge=0.0, le=90.0)
    ] = 0.0
    turn_walk_deg: Annotated[
        float, Spec("drift of the yaw, over the rotation", "deg/sqrt(rad)", ge=0.0, le=90.0)
    ] = 0.0
    scale_sigma: Annotated[
        float, TurnOn("error of a way over it, drawn at each start", ge=0.0, le=0.5)
    ] = 0.0
    stated_ratio: Annotated[
        float, Spec("stated deviation over the true one; 0: nothing is stated", ge=0.0, le=1e6)
    ] = 1.0
    turn_rate_max_radps: Annotated[
        float, Spec("faster turns blur the images: it loses track; 0: none", "rad/s", ge=0.0)
    ] = 0.0
    loss_rate_hz: Annotated[
        float, Spec("losses of track by darkness or bare walls, a second", "1/s", ge=0.0, le=10.0)
    ] = 0.0
    loss_mean_s: Annotated[float, Spec("how long they last", "s", ge=0.0, le=1e4)] = 2.0
    relocalised_sigma_m: Annotated[
        float, Spec("jump after a loss, each axis", "m", ge=0.0, le=1e3)
    ] = 0.0
    relocalised_yaw_sigma_deg: Annotated[
        float, Spec("jump of its yaw after a loss", "deg", ge=0.0, le=180.0)
    ] = 0.0
    closure_rate_hz: Annotated[
        float, Spec("loop closures a second, which take the drift back", "1/s", ge=0.0, le=10.0)
    ] = 0.0


class VisualOdometryState(Record):
    """Its frame F in the world, and where it believes to be in it."""

    started: int
    lost: int
    origin_W: Vector
    yaw: float  # of F in the world
    scale: float
    p_F: Vector
    yaw_drift: float
    begin_F: Vector  # where it was last without drift
    way_m: float  # since then, and the rotation
    turned_rad: float
    jumped: int  # faults that have acted, one bit each


class VisualOdometrySample(Record):
    """A pose; NaN where track is lost. Variances of position, then rotation."""

    stamp_ns: int
    p_F: Vector
    q_FB: Quaternion
    values: Annotated[Array, 7, Over("p_F")]
    variances: Annotated[Array, 6]


VisualOdometrySlot = Slot[VisualOdometryParams, VisualOdometryState, VisualOdometrySample]


def start_visual_odometry(
    state: VisualOdometryState, params: VisualOdometryParams, generator: np.random.Generator
) -> None:
    """Draw its frame, scale, and whether it sees."""
    x, y, z, turn, scale_error = draw_normals(generator, 5).tolist()
    chance, any_yaw = generator.random(2).tolist()
    state.origin_W[:] = np.array([x, y, z]) * params.origin_sigma_m
    is_open = params.frame_yaw_sigma_deg >= 180.0
    state.yaw = (
        (2.0 * any_yaw - 1.0) * math.pi if is_open else (turn * params.frame_yaw_sigma_deg * DEGREE)
    )
    state.scale = 1.0 + params.scale_sigma * scale_error
    state.lost = int(chance < share_of_time(params.loss_rate_hz, params.loss_mean_s))


@kernel
def about_z(v: Vec3, angle: float) -> Vec3:
    """A vector rotated about z."""
    c, s = cos(angle), sin(angle)
    return (c * v[0] - s * v[1], s * v[0] + c * v[1], v[2])


@kernel
def add_ways(
    state: VisualOdometryState, device: VisualOdometryParams, before: Kinematics, true: Kinematics,
    white: Array,
) -> None:  # fmt: skip
    """Go on by the way since the last image, with its drift; ``white``: four numbers."""
    way_W = subtract(vec3(true.p_W), vec3(before.p_W))
    turned_rad = norm(log(multiply(conjugate(quat(before.q_WB)), quat(true.q_WB))))
    way_m = norm(way_W)
    walk = device.position_walk * math.sqrt(way_m)
    way_W = add(way_W, scale(walk, vec3(white)))
    over_way = device.yaw_walk_deg * device.yaw_walk_deg * way_m
    over_turn = device.turn_walk_deg * device.turn_walk_deg * turned_rad
    state.yaw_drift += DEGREE * math.sqrt(over_way + over_turn) * white[3]
    way_F = about_z(way_W, state.yaw_drift - state.yaw)
    store(state.p_F, add(vec3(state.p_F), scale(state.scale, way_F)))
    state.way_m += way_m
    state.turned_rad += turned_rad


@kernel
def place(state: VisualOdometryState, true: Kinematics) -> None:
    """Where it is indeed, and no drift."""
    store(state.p_F, about_z(subtract(vec3(true.p_W), vec3(state.origin_W)), -state.yaw))
    store(state.begin_F, vec3(state.p_F))
    state.yaw_drift = state.way_m = state.turned_rad = 0.0


@kernel
def jump(state: VisualOdometryState, step_F: Vec3, yaw_rad: float) -> None:
    """Turn and move what it believes."""
    store(state.p_F, add(vec3(state.p_F), step_F))
    state.yaw_drift += yaw_rad


@kernel
def jump_by_faults(state: VisualOdometryState, faults: FaultList, now_ns: int) -> None:
    """Jumps that faults ask for, each once."""
    for k in range(faults.count):
        fault, bit = faults.items[k], 1 << k
        if fault.kind == JUMP and state.jumped & bit == 0 and acts(fault, now_ns):
            state.jumped |= bit
            value = fault.value
            jump(state, (value[0], value[1], value[2]), DEGREE * value[3])


@kernel
def state_variances(
    state: VisualOdometryState, device: VisualOdometryParams, sample: VisualOdometrySample
) -> None:
    """Stated variances of its pose: drift since it had none, and noise, times the ratio stated."""
    ratio2 = device.stated_ratio * device.stated_ratio
    walked = device.position_walk * device.position_walk * state.way_m
    far_F = subtract(vec3(state.p_F), vec3(state.begin_F))
    yaw = device.yaw_walk_deg * device.yaw_walk_deg * state.way_m
    yaw += device.turn_walk_deg * device.turn_walk_deg * state.turned_rad
    yaw *= DEGREE * DEGREE
    tilt = DEGREE * device.noise_tilt_sigma_deg
    noise_m, noise_rad = device.noise_sigma_m, DEGREE * device.noise_yaw_sigma_deg
    turned_m2 = yaw * (far_F[0] * far_F[0] + far_F[1] * far_F[1]) / 3.0  # by a yaw that walks
    for i in range(3):
        scaled = device.scale_sigma * far_F[i]
        level = turned_m2 if i < 2 else 0.0
        sample.variances[i] = ratio2 * (noise_m * noise_m + walked + scaled * scaled + level)
    sample.variances[3] = sample.variances[4] = ratio2 * tilt * tilt
    sample.variances[5] = ratio2 * (noise_rad * noise_rad + yaw)


@kernel
def loses_track(slot: VisualOdometrySlot, true: Kinematics, dt_s: float, white: Array) -> bool:
    """Whether it sees nothing it knows: by chance (two numbers), in fast turns, by a fault."""
    state, device = slot.state, slot.params
    state.lost = next_state(
        state.lost, device.loss_rate_hz, device.loss_mean_s, dt_s, uniform(white[0], white[1])
    )
    fastest = device.turn_rate_max_radps
    blurred = fastest > 0.0 and norm(vec3(true.w_B)) > fastest
    return bool(state.lost != 0 or blurred or in_outage(slot.outbox.faults, true.stamp_ns))


@kernel
def attitude_F(state: VisualOdometryState, true: Kinematics, noise: Vec3) -> Quat:
    """The attitude in F; ``noise`` is a rotation about its axes."""
    turn = from_euler(0.0, 0.0, state.yaw_drift - state.yaw)
    return normalize(multiply(exp(noise), multiply(turn, quat(true.q_WB))))


@kernel
def visual_odometry_step(
    slots: Records[VisualOdometrySlot],
    world: SensorWorld,
    nows: Records[Kinematics],
    white: Array,
) -> None:
    """One pose, or NaN while it has lost track."""
    slot, true = slots[0], nows[0]
    state, device, sample = slot.state, slot.params, slot.sample
    dt_s = (true.stamp_ns - slot.previous.stamp_ns) * 1e-9
    if state.started == 0:
        state.started = 1
        place(state, true)
    else:
        add_ways(state, device, slot.previous, true, white[0:4])
    was_silent = sample.values[0] != sample.values[0]
    silent = loses_track(slot, true, dt_s, white[4:6])
    if was_silent and not silent:
        sigma, turn = device.relocalised_sigma_m, device.relocalised_yaw_sigma_deg
        jump(state, scale(sigma, vec3(white[6:9])), DEGREE * turn * white[9])
    if uniform(white[10], white[11]) < device.closure_rate_hz * dt_s and not silent:
        place(state, true)
    jump_by_faults(state, slot.outbox.faults, true.stamp_ns)
    state_variances(state, device, sample)
    if silent:
        sample.values[:] = math.nan
        return
    store(sample.p_F, add(vec3(state.p_F), scale(device.noise_sigma_m, vec3(white[12:15]))))
    tilt, yaw = device.noise_tilt_sigma_deg, device.noise_yaw_sigma_deg
    noise = (DEGREE * tilt * white[15], DEGREE * tilt * white[16], DEGREE * yaw * white[17])
    store(sample.q_FB, attitude_F(state, true, noise))


def told_of_visual_odometry(device: VisualOdometryParams, _: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it, no better than an estimator takes."""
    return {
        "noise.odometry_position_sigma_m": max(device.noise_sigma_m, 1e-3),
        "noise.odometry_yaw_sigma_rad": max(DEGREE * device.noise_yaw_sigma_deg, 1e-3),
        "noise.odometry_position_walk": device.position_walk,
        "noise.odometry_yaw_walk": DEGREE * device.yaw_walk_deg,
        "noise.odometry_turn_walk": DEGREE * device.turn_walk_deg,
        "noise.odometry_scale": device.scale_sigma,
    }


MODEL = SensorModel(
    "visual_odometry",
    VisualOdometrySlot,
    18,
    start_visual_odometry,
    visual_odometry_step,
    {"position": (0, 3), "attitude": (3, 4)},
    readings=(Reading("external_odometry", variance="variances", rows=6, absent=np.isnan),),
    messages=(lambda frame, *_: own_frame_messages(frame),),
    told=told_of_visual_odometry,
    carried=True,
)
