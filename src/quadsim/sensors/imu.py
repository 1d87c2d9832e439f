"""Inertial measurement unit: the four steps of Laechele et al., *SwarmSimX* (SIMPAR 2012).

1. the motion of the body; 2. moved to the sensor: ``f = R (a + w x (w x T) + w_dot x T - a_G)``,
``w = R w`` (:mod:`quadsim.sensors.imu`); then the vibration of the propellers
(:mod:`quadsim.sensors.vibration`); 3. scale, bias and noise on each axis; 4. quantised and limited
(:mod:`quadsim.sensors.imu_channel`).

Steps 1 and 2 of an IMU: the motion of the body, moved to the sensor's place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Over, Quaternion, Record, Records, Vector, kernel
from quadsim.base.errors import InputError
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Choice, Spec, Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import (
    Quat,
    conjugate,
    log,
    multiply,
    normalize,
    quat,
    rotate,
    unrotate,
)
from quadsim.geometry.vector import add, cross, scale, subtract, vec3
from quadsim.sensors.error_terms import (
    Constant,
    GaussMarkov,
    Position,
    Quantisation,
    RandomWalk,
    Rate,
    Rotation,
    TurnOn,
    WarmedParams,
    WhiteDensity,
    deviation_S,
    set_mount,
    warmth_K,
)
from quadsim.sensors.imu_channel import (
    CHANNEL_DRAWN,
    CHANNEL_WHITE,
    ImuChannel,
    band_limit,
    noise_gain,
    pace,
    read_channel,
    settle_filter,
    start_channel,
)
from quadsim.sensors.model import Reading, SensorModel
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.sensors.vibration import VibrationParams, VibrationState, start_vibration, vibrate
from quadsim.wire.samples import imu_messages
from quadsim.world.earth.gravity import gravity_at
from quadsim.world.environment import EnvironmentParams

#: Least deviations of biases at the start: a filter that is certain of one never learns it.
LEAST_GYRO_BIAS_RADPS, LEAST_ACCEL_BIAS_MPS2 = 1e-4, 1e-3


@kernel
def gravity_there(now: Kinematics, environment: EnvironmentParams, r_B: Vec3) -> float:
    """Gravity at a point of the body in m/s^2.

    Args:
        now: KINEMATICS record.
        environment: packed EnvironmentParams.
        r_B: the point in base_link, m.
    """
    return gravity_at(environment, now.p_W[2] + rotate(quat(now.q_WB), r_B)[2])


@kernel
def point_sample(now: Kinematics, gravity_mps2: float, r_B: Vec3) -> tuple[Vec3, Vec3]:
    """Specific force and rate at a point of the body, body axes, at one instant (step 2).

    Args:
        now: KINEMATICS record.
        gravity_mps2: gravity, downwards.
        r_B: the point in base_link, m.

    Returns:
        f_B in m/s^2 ((0, 0, +9.81) level and at rest) and w_B in rad/s.
    """
    w_B = vec3(now.w_B)
    a_W = vec3(now.a_W)
    f_B = unrotate(quat(now.q_WB), (a_W[0], a_W[1], a_W[2] + gravity_mps2))
    f_B = add(f_B, add(cross(w_B, cross(w_B, r_B)), cross(vec3(now.w_dot_B), r_B)))
    return f_B, w_B


class Interval(NamedTuple):
    """How a point of the body moves over an interval, from the motion at its ends."""

    rate_hz: float
    q_mid: Quat  # half-way on the shortest turn between the ends
    turn: Vec3  # rotation vector between the ends, rad
    v0_W: Vec3  # velocity of the point at the ends, m/s
    v1_W: Vec3
    f_B: Vec3  # change of velocity less gravity, over the time, seen from q_mid, m/s^2


@kernel
def interval_of(previous: Kinematics, now: Kinematics, gravity_mps2: float, r_B: Vec3) -> Interval:
    """The motion between two truths; see :func:`average_sample` for the arguments."""
    rate_hz = 1e9 / (now.stamp_ns - previous.stamp_ns)
    q0, q1 = quat(previous.q_WB), quat(now.q_WB)
    relative = multiply(conjugate(q0), q1)
    turn = log(relative)
    v0 = add(vec3(previous.v_W), rotate(q0, cross(vec3(previous.w_B), r_B)))
    v1 = add(vec3(now.v_W), rotate(q1, cross(vec3(now.w_B), r_B)))
    a_W = scale(rate_hz, subtract(v1, v0))
    side = -1.0 if relative[0] < 0.0 else 1.0  # q and -q are one attitude
    q_mid = normalize(
        (q0[0] + side * q1[0], q0[1] + side * q1[1], q0[2] + side * q1[2], q0[3] + side * q1[3])
    )
    f_B = unrotate(q_mid, (a_W[0], a_W[1], a_W[2] + gravity_mps2))
    return Interval(rate_hz, q_mid, turn, v0, v1, f_B)


@kernel
def compensated_sample(
    previous: Kinematics, now: Kinematics, gravity_mps2: float, r_B: Vec3
) -> tuple[Vec3, Vec3]:
    """Delta velocity and delta angle over the interval's length, body axes.

    What a device gives that integrates inside at a high rate and corrects for coning and sculling:
    the change of the point's velocity, seen from the attitude half-way, and the rotation vector
    between the ends. An integrator that uses the same attitude gets velocity and attitude at the
    interval's end exactly. See :func:`average_sample` for the arguments.
    """
    motion = interval_of(previous, now, gravity_mps2, r_B)
    return motion.f_B, scale(motion.rate_hz, motion.turn)


@kernel
def average_sample(
    previous: Kinematics, now: Kinematics, gravity_mps2: float, r_B: Vec3
) -> tuple[Vec3, Vec3]:
    """Time average of specific force and rate at a point of the body, in the turning body axes.

    What a MEMS part gives that filters or sums its axes one by one; coning and sculling are in it.
    Between the ends the rate is a parabola with the ends' rates and the turn between them, and the
    point's acceleration in W a line with the ends' velocities and positions. The rotation vector p
    obeys ``p_dot = w + p x w / 2 + ...`` (Bortz, IEEE Trans. AES 7, 1971); to second order
    in the turn

        mean w = turn / dt - dt (w0 x w1 / 12 - (w1 - w0) x c / 10),
        mean f = f + dt/12 (w1 - w0) x f + dt^2/24 w x (w x f) - dt (w/6 + c/30) x d,

    c the mean rate less that of the ends, f as :func:`compensated_sample` has it, and d half of the
    change of the acceleration. A cone of 80 Hz is off by 0.4, 1.7 and 7 % of its drift at 1000, 500
    and 250 Hz; a vehicle moves slower.

    Args:
        previous, now: KINEMATICS records at the interval's ends.
        gravity_mps2: gravity, downwards.
        r_B: the point in base_link, m.
    """
    motion = interval_of(previous, now, gravity_mps2, r_B)
    w0, w1, rate_hz = vec3(previous.w_B), vec3(now.w_B), motion.rate_hz
    dt_s = 1.0 / rate_hz
    change, middle = subtract(w1, w0), scale(0.5, add(w0, w1))
    w_B = subtract(scale(rate_hz, motion.turn), scale(dt_s / 12.0, cross(w0, w1)))
    bend = subtract(w_B, middle)
    w_B = add(w_B, scale(0.1 * dt_s, cross(change, bend)))

    r0_W, r1_W = rotate(quat(previous.q_WB), r_B), rotate(quat(now.q_WB), r_B)
    way = add(subtract(vec3(now.p_W), vec3(previous.p_W)), subtract(r1_W, r0_W))
    short = subtract(scale(0.5 * dt_s, add(motion.v0_W, motion.v1_W)), way)
    half_B = unrotate(motion.q_mid, scale(6.0 * rate_hz * rate_hz, short))
    f_B = motion.f_B
    turning = cross(w_B, cross(w_B, f_B))
    mean_B = add(f_B, scale(dt_s / 12.0, cross(change, f_B)))
    mean_B = add(mean_B, scale(dt_s * dt_s / 24.0, turning))
    sculling = cross(add(scale(1.0 / 6.0, w_B), scale(1.0 / 30.0, bend)), half_B)
    return subtract(mean_B, scale(dt_s, sculling)), w_B


Vec6 = tuple[float, float, float, float, float, float]

ZERO: Vec3 = (0.0, 0.0, 0.0)
ONE: Vec3 = (1.0, 1.0, 1.0)
NO_CROSS: Vec6 = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

#: What a sample is; see :mod:`quadsim.sensors.imu`.
SAMPLINGS = ("average", "point", "compensated")
AVERAGE, POINT, COMPENSATED = range(3)

Scale = Annotated[Vec3, Constant("output over input", "1", gt=0.0, le=2.0)]
ScaleSigma = Annotated[float, TurnOn("deviation of the scale among units", "1", ge=0.0, le=0.2)]
CrossAxis = Annotated[
    Vec6,
    Constant("what x reads of y, x of z, y of x, y of z, z of x, z of y", "1", ge=-0.5, le=0.5),
]
CrossAxisSigma = Annotated[
    float, TurnOn("deviation of each cross-axis term among units", "1", ge=0.0, le=0.2)
]
InstabilityTime = Annotated[
    float, Spec("correlation time of the bias instability", "s", gt=0.0, le=1e6)
]
Bandwidth = Annotated[
    float, Spec("corner of the second-order low-pass, 0 for none", "Hz", ge=0.0, le=1e5)
]
Nonlinearity = Annotated[
    float, Constant("error at full scale over the range, a parabola", "1", ge=0.0, le=0.1)
]
TemperatureScale = Annotated[Vec3, Constant("change of the scale", "1/K", ge=-0.01, le=0.01)]


@dataclass(frozen=True)
class ImuParams(WarmedParams):
    """One inertial measurement unit; zero switches an error off.

    Bias instability is a Gauss-Markov process; its deviation is the stationary one. Temperatures
    count from that of the calibration.
    """

    rate_hz: Annotated[float, Rate("sample rate", "Hz", ge=1.0, le=1000.0)] = 500.0
    sampling: Annotated[
        Choice,
        Spec(
            "time average over the interval, the value at its end, or delta angle and velocity"
            " that the device corrected for coning and sculling",
            choices=SAMPLINGS,
        ),
    ] = "average"
    position_B_m: Position = ZERO
    rotation_deg: Rotation = ZERO

    accel_scale: Scale = ONE
    accel_scale_sigma: ScaleSigma = 0.0
    accel_cross_axis: CrossAxis = NO_CROSS
    accel_cross_axis_sigma: CrossAxisSigma = 0.0
    accel_bias: Annotated[Vec3, Constant("constant bias", "m/s^2", ge=-50.0, le=50.0)] = ZERO
    accel_turn_on_sigma: Annotated[
        float, TurnOn("deviation of the bias drawn at switch-on", "m/s^2", ge=0.0, le=50.0)
    ] = 0.0
    accel_noise_density: Annotated[Vec3, WhiteDensity("white noise", "m/s^2/sqrt(Hz)", ge=0.0)] = (
        ZERO
    )
    accel_instability: Annotated[
        Vec3, GaussMarkov("deviation of the bias instability", "m/s^2", ge=0.0, le=50.0)
    ] = ZERO
    accel_instability_time_s: InstabilityTime = 500.0
    accel_bias_walk: Annotated[
        Vec3, RandomWalk("random walk of the bias", "m/s^3/sqrt(Hz)", ge=0.0)
    ] = ZERO
    accel_bandwidth_hz: Bandwidth = 0.0
    accel_step: Annotated[float, Quantisation("quantisation, 0 for none", "m/s^2", ge=0.0)] = 0.0
    accel_range: Annotated[float, Constant("largest reading, 0 for no limit", "m/s^2", ge=0.0)] = (
        0.0
    )
    accel_nonlinearity: Nonlinearity = 0.0
    accel_temperature_bias: Annotated[
        Vec3, Constant("change of the bias", "m/s^2/K", ge=-1.0, le=1.0)
    ] = ZERO
    accel_temperature_scale: TemperatureScale = ZERO

    gyro_scale: Scale = ONE
    gyro_scale_sigma: ScaleSigma = 0.0
    gyro_cross_axis: CrossAxis = NO_CROSS
    gyro_cross_axis_sigma: CrossAxisSigma = 0.0
    gyro_bias: Annotated[Vec3, Constant("constant bias", "rad/s", ge=-10.0, le=10.0)] = ZERO
    gyro_turn_on_sigma: Annotated[
        float, TurnOn("deviation of the bias drawn at switch-on", "rad/s", ge=0.0, le=10.0)
    ] = 0.0
    gyro_noise_density: Annotated[Vec3, WhiteDensity("white noise", "rad/s/sqrt(Hz)", ge=0.0)] = (
        ZERO
    )
    gyro_instability: Annotated[
        Vec3, GaussMarkov("deviation of the bias instability", "rad/s", ge=0.0, le=10.0)
    ] = ZERO
    gyro_instability_time_s: InstabilityTime = 500.0
    gyro_bias_walk: Annotated[
        Vec3, RandomWalk("random walk of the bias", "rad/s^2/sqrt(Hz)", ge=0.0)
    ] = ZERO
    gyro_bandwidth_hz: Bandwidth = 0.0
    gyro_step: Annotated[float, Quantisation("quantisation, 0 for none", "rad/s", ge=0.0)] = 0.0
    gyro_range: Annotated[float, Constant("largest reading, 0 for no limit", "rad/s", ge=0.0)] = 0.0
    gyro_nonlinearity: Nonlinearity = 0.0
    gyro_temperature_bias: Annotated[
        Vec3, Constant("change of the bias", "rad/s/K", ge=-0.1, le=0.1)
    ] = ZERO
    gyro_temperature_scale: TemperatureScale = ZERO
    gyro_g_sensitivity: Annotated[
        Vec3,
        Constant("bias by specific force along the same axis", "(rad/s)/(m/s^2)", ge=-0.1, le=0.1),
    ] = ZERO

    vibration: VibrationParams = field(default_factory=VibrationParams)

    def __post_init__(self) -> None:
        """Refuse a share of a full scale that is not known."""
        for name in ("accel", "gyro"):
            if getattr(self, f"{name}_nonlinearity") > 0.0 and getattr(self, f"{name}_range") == 0:
                raise InputError(f"{name}_nonlinearity: a share of {name}_range; give that too")

    def bias_walk_density(self, name: str) -> float:
        """Density of the random walk as which the bias of "accel" or "gyro" wanders in short times.

        Its walk K with that of the Gauss-Markov process of deviation s and time T, s sqrt(2/T); the
        largest axis, in units of the walk.
        """
        walk = np.array(getattr(self, f"{name}_bias_walk"))
        time_s = getattr(self, f"{name}_instability_time_s")
        instability = np.array(getattr(self, f"{name}_instability")) * math.sqrt(2.0 / time_s)
        return float(np.sqrt(walk * walk + instability * instability).max())

    def floor_S(self, name: str) -> NDArray[np.float64]:
        """Vibration floor of "accel" or "gyro" at the reference speed, (3,) sensor axes."""
        return deviation_S(self.rotation_deg, getattr(self.vibration, f"{name}_floor"))

    def accel_variance(self) -> NDArray[np.float64]:
        """Variance of one sample, (3,) (m/s^2)^2.

        Its white noise and vibration floor (at the reference speed), behind the low-pass, and its
        quantisation.
        """
        density2 = np.square(self.accel_noise_density) + np.square(self.floor_S("accel"))
        gain = noise_gain(self.accel_bandwidth_hz, self.rate_hz)
        return np.asarray(density2 * self.rate_hz * gain + np.square(self.accel_step) / 12.0)

    def gyro_variance(self) -> NDArray[np.float64]:
        """The same of the gyroscope, (3,) (rad/s)^2."""
        density2 = np.square(self.gyro_noise_density) + np.square(self.floor_S("gyro"))
        gain = noise_gain(self.gyro_bandwidth_hz, self.rate_hz)
        return np.asarray(density2 * self.rate_hz * gain + np.square(self.gyro_step) / 12.0)


class ImuState(Record):
    """What it remembers."""

    q_BS: Quaternion
    accel: ImuChannel
    gyro: ImuChannel
    vibration: VibrationState
    age_s: float  # since switch-on
    dt_s: float  # the newest interval


class ImuSample(Record):
    """Specific force and angular rate."""

    stamp_ns: int
    f_S: Vector
    w_S: Vector
    values: Annotated[Array, 6, Over("f_S")]


ImuSlot = Slot[ImuParams, ImuState, ImuSample]


def start_imu(state: ImuState, params: ImuParams, generator: np.random.Generator) -> None:
    """Mount the sensor and draw what is by chance in this unit and this switch-on."""
    set_mount(state, params.rotation_deg)
    for name in ("accel", "gyro"):
        drawn = draw_normals(generator, CHANNEL_DRAWN)
        start_channel(state[name], params, name, params.floor_S(name), drawn)
    start_vibration(state["vibration"], params.vibration, generator)


@kernel
def go_on(state: ImuState, dt_s: float, f_B: Vec3, w_B: Vec3) -> None:
    """Begin an interval; the first one begins at rest with the motion that is there."""
    if dt_s != state.dt_s:
        if state.dt_s == 0.0:
            settle_filter(state.accel, f_B)
            settle_filter(state.gyro, w_B)
        state.dt_s = dt_s
        pace(state.accel, dt_s)
        pace(state.gyro, dt_s)
    state.age_s += dt_s


@kernel
def imu_step(
    slots: Records[ImuSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One sample of the IMU; see :mod:`quadsim.sensors.model` for the arguments."""
    slot, before, true = slots[0], slots[0].previous, nows[0]
    state, device, sample = slot.state, slot.params, slot.sample
    accel, gyro = state.accel, state.gyro
    dt_s = (true.stamp_ns - before.stamp_ns) * 1e-9
    r_B, average = vec3(device.position_B_m), device.sampling != POINT
    gravity_mps2 = gravity_there(true, world.environments[0], r_B)
    if average:
        gravity_mps2 = 0.5 * (gravity_mps2 + gravity_there(before, world.environments[0], r_B))
    if device.sampling == AVERAGE:
        f_B, w_B = average_sample(before, true, gravity_mps2, r_B)
    elif device.sampling == COMPENSATED:
        f_B, w_B = compensated_sample(before, true, gravity_mps2, r_B)
    else:
        f_B, w_B = point_sample(true, gravity_mps2, r_B)
    go_on(state, dt_s, f_B, w_B)
    f_B, w_B = band_limit(accel, f_B), band_limit(gyro, w_B)
    level = 0.0
    if state.vibration.on != 0:
        f_lines_B, w_lines_B, level = vibrate(
            state.vibration, device.vibration, before, true, dt_s, average, accel.corner_s,
            gyro.corner_s,
        )  # fmt: skip
        f_B, w_B = add(f_B, f_lines_B), add(w_B, w_lines_B)
    q_BS = quat(state.q_BS)
    f_S, w_S = unrotate(q_BS, f_B), unrotate(q_BS, w_B)
    delta_T_K = warmth_K(device.ambient_offset_K, device.warm_up_K, device.warm_up_s, state.age_s)
    g = device.gyro_g_sensitivity
    push = (g[0] * f_S[0], g[1] * f_S[1], g[2] * f_S[2])
    n = CHANNEL_WHITE
    read_channel(accel, f_S, ZERO, delta_T_K, level, white[:n], sample.f_S)
    read_channel(gyro, w_S, push, delta_T_K, level, white[n : 2 * n], sample.w_S)


def needs_of_imu(params: ImuParams) -> frozenset[str]:
    """A point sample needs the acceleration of its instant, vibration the rotors."""
    wanted = {"accel": params.sampling == "point", "motors": params.vibration.on}
    return frozenset(name for name, is_wanted in wanted.items() if is_wanted)


def told_of_imu(imu: ImuParams, environment: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it."""
    gravity_mps2 = environment.gravity_and_gradient()[0]
    # in hover errors of scale and axes are a bias: of an axis that lies anywhere to gravity
    axes = math.sqrt(
        (np.square(imu.accel_scale_sigma) + 2.0 * np.square(imu.accel_cross_axis_sigma)) / 3.0
    )
    accel_bias_mps2 = math.hypot(
        imu.accel_turn_on_sigma, max(imu.accel_instability), axes * gravity_mps2
    )
    gyro_bias_radps = math.hypot(
        imu.gyro_turn_on_sigma,
        max(imu.gyro_instability),
        max(map(abs, imu.gyro_g_sensitivity)) * gravity_mps2,
    )
    return {
        "mount.imu_position_B_m": imu.position_B_m,
        "mount.imu_roll_pitch_yaw_deg": imu.rotation_deg,
        "noise.gyro_scale": imu.gyro_scale_sigma,
        "noise.gyro_axes": imu.gyro_cross_axis_sigma,
        "noise.accel_scale": imu.accel_scale_sigma,
        "noise.accel_axes": imu.accel_cross_axis_sigma,
        "noise.gyro_bias_walk": imu.bias_walk_density("gyro"),
        "noise.accel_bias_walk": imu.bias_walk_density("accel"),
        "start.gyro_bias_radps": max(gyro_bias_radps, LEAST_GYRO_BIAS_RADPS),
        "start.accel_bias_mps2": max(accel_bias_mps2, LEAST_ACCEL_BIAS_MPS2),
    }


MODEL = SensorModel(
    "imu",
    ImuSlot,
    2 * CHANNEL_WHITE,
    start_imu,
    imu_step,
    {"accel": (0, 3), "gyro": (3, 3)},
    needs_of_imu,
    (Reading("imu", parts=2),),
    lambda params, _: (params.accel_variance(), params.gyro_variance()),
    messages=(
        lambda frame, params, _: imu_messages(
            frame, params.accel_variance(), params.gyro_variance()
        ),
    ),
    fixed=("rate_hz",),
    told=told_of_imu,
)
