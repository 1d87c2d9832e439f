"""Inertial measurement unit: the four steps of Laechele et al., *SwarmSimX* (SIMPAR 2012).

1. the motion of the body; 2. moved to the sensor: ``f = R (a + w x (w x T) + w_dot x T - a_G)``,
``w = R w``; 3. scale, bias and noise on each axis; 4. quantised and limited.
Noise: IEEE Std 952-1997, annex C: white noise of a density N has the deviation N / sqrt(dt) in a
sample that averages over dt, a random walk K grows by K sqrt(dt).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel, record_dtype
from quadsim.geometry.rotation import conjugate, exp, log, multiply, quat, rotate, unrotate
from quadsim.geometry.vector import add, cross, scale, subtract, vec3
from quadsim.parameters import Spec, Vec3
from quadsim.sensors.delivery import sample_dtype
from quadsim.sensors.model import SensorModel, read_out
from quadsim.sensors.mount import MOUNT_FIELD, Position, Rotation, set_mount
from quadsim.sensors.timing import Latency, LossProbability, StampJitter

ZERO: Vec3 = (0.0, 0.0, 0.0)
ONE: Vec3 = (1.0, 1.0, 1.0)
WHITE_COUNT = 12  # noise of accelerometer and gyroscope, steps of their bias


@dataclass(frozen=True)
class ImuParams:
    """One inertial measurement unit; zero switches an error off."""

    rate_hz: Annotated[float, Spec("sample rate", "Hz", ge=1.0, le=1000.0)] = 500.0
    latency_s: Latency = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
    sampling: Annotated[
        str, Spec("mean over the interval, or the value at its end", choices=("average", "point"))
    ] = "average"
    position_B_m: Position = ZERO
    rotation_deg: Rotation = ZERO
    accel_scale: Annotated[Vec3, Spec("output over input", "1", gt=0.0, le=2.0)] = ONE
    gyro_scale: Annotated[Vec3, Spec("output over input", "1", gt=0.0, le=2.0)] = ONE
    accel_bias: Annotated[Vec3, Spec("constant bias", "m/s^2", ge=-50.0, le=50.0)] = ZERO
    gyro_bias: Annotated[Vec3, Spec("constant bias", "rad/s", ge=-10.0, le=10.0)] = ZERO
    accel_turn_on_sigma: Annotated[
        float, Spec("deviation of the bias drawn at switch-on", "m/s^2", ge=0.0, le=50.0)
    ] = 0.0
    gyro_turn_on_sigma: Annotated[
        float, Spec("deviation of the bias drawn at switch-on", "rad/s", ge=0.0, le=10.0)
    ] = 0.0
    accel_noise_density: Annotated[Vec3, Spec("white noise", "m/s^2/sqrt(Hz)", ge=0.0)] = ZERO
    gyro_noise_density: Annotated[Vec3, Spec("white noise", "rad/s/sqrt(Hz)", ge=0.0)] = ZERO
    accel_bias_walk: Annotated[Vec3, Spec("random walk of the bias", "m/s^3/sqrt(Hz)", ge=0.0)] = (
        ZERO
    )
    gyro_bias_walk: Annotated[Vec3, Spec("random walk of the bias", "rad/s^2/sqrt(Hz)", ge=0.0)] = (
        ZERO
    )
    accel_step: Annotated[float, Spec("quantisation, 0 for none", "m/s^2", ge=0.0)] = 0.0
    gyro_step: Annotated[float, Spec("quantisation, 0 for none", "rad/s", ge=0.0)] = 0.0
    accel_range: Annotated[float, Spec("largest reading, 0 for no limit", "m/s^2", ge=0.0)] = 0.0
    gyro_range: Annotated[float, Spec("largest reading, 0 for no limit", "rad/s", ge=0.0)] = 0.0

    def accel_variance(self) -> NDArray[np.float64]:
        """White-noise variance of one sample with its quantisation, (3,) (m/s^2)^2."""
        return np.square(self.accel_noise_density) * self.rate_hz + self.accel_step**2 / 12.0

    def gyro_variance(self) -> NDArray[np.float64]:
        """White-noise variance of one sample with its quantisation, (3,) (rad/s)^2."""
        return np.square(self.gyro_noise_density) * self.rate_hz + self.gyro_step**2 / 12.0


IMU_STATE = record_dtype(
    [MOUNT_FIELD, ("accel_bias", np.float64, (3,)), ("gyro_bias", np.float64, (3,))]
)
IMU_SAMPLE = sample_dtype([("f_S", 3), ("w_S", 3)])


def start(state: np.record, params: ImuParams, generator: np.random.Generator) -> None:
    """Mount the sensor and draw the biases of this switch-on."""
    set_mount(state, params.rotation_deg)
    state.accel_bias[:] = params.accel_bias
    state.gyro_bias[:] = params.gyro_bias
    drawn = generator.standard_normal(6)
    state.accel_bias[:] += params.accel_turn_on_sigma * drawn[:3]
    state.gyro_bias[:] += params.gyro_turn_on_sigma * drawn[3:]


@kernel
def point_sample(now: Any, gravity_mps2: float, r_B: Vec3) -> tuple[Vec3, Vec3]:
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


@kernel
def average_sample(previous: Any, now: Any, gravity_mps2: float, r_B: Vec3) -> tuple[Vec3, Vec3]:
    """Mean specific force and rate at a point of the body over an interval, body axes.

    The change of the point's velocity, seen from the attitude in the middle of the interval, and
    the rotation vector between its ends: an integrator that uses the same mean attitude gets the
    velocity and the attitude at the interval's end exactly.

    Args:
        previous, now: KINEMATICS records at the interval's ends.
        gravity_mps2: gravity, downwards.
        r_B: the point in base_link, m.
    """
    rate_hz = 1e9 / (now.stamp_ns - previous.stamp_ns)
    q0, q1 = quat(previous.q_WB), quat(now.q_WB)
    turn = log(multiply(conjugate(q0), q1))
    v0 = add(vec3(previous.v_W), rotate(q0, cross(vec3(previous.w_B), r_B)))
    v1 = add(vec3(now.v_W), rotate(q1, cross(vec3(now.w_B), r_B)))
    a_W = scale(rate_hz, subtract(v1, v0))
    q_mid = multiply(q0, exp(scale(0.5, turn)))
    f_B = unrotate(q_mid, (a_W[0], a_W[1], a_W[2] + gravity_mps2))
    return f_B, scale(rate_hz, turn)


@kernel
def imu_step(
    states: Any,
    params: Any,
    environments: Any,
    scene: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    samples: Any,
) -> None:
    """One sample of the IMU; see :mod:`quadsim.sensors.model` for the arguments."""
    state, device, true, sample = states[0], params[0], now[0], samples[0]
    before = previous[0]
    dt_s = (true.stamp_ns - before.stamp_ns) * 1e-9
    root_dt = math.sqrt(dt_s)
    r_B = vec3(device.position_B_m)
    if device.sampling == 0:
        f_B, w_B = average_sample(before, true, environments[0].gravity_mps2, r_B)
    else:
        f_B, w_B = point_sample(true, environments[0].gravity_mps2, r_B)
    q_BS = quat(state.q_BS)
    f_S, w_S = unrotate(q_BS, f_B), unrotate(q_BS, w_B)
    for i in range(3):
        accel_noise = device.accel_noise_density[i] / root_dt * white[i]
        gyro_noise = device.gyro_noise_density[i] / root_dt * white[3 + i]
        state.accel_bias[i] += device.accel_bias_walk[i] * root_dt * white[6 + i]
        state.gyro_bias[i] += device.gyro_bias_walk[i] * root_dt * white[9 + i]
        f = f_S[i] * device.accel_scale[i] + state.accel_bias[i] + accel_noise
        w = w_S[i] * device.gyro_scale[i] + state.gyro_bias[i] + gyro_noise
        sample.f_S[i] = read_out(f, device.accel_step, device.accel_range)
        sample.w_S[i] = read_out(w, device.gyro_step, device.gyro_range)


def needs(params: ImuParams) -> frozenset[str]:
    """A point sample needs the acceleration of its instant."""
    return frozenset({"accel"} if params.sampling == "point" else ())


MODEL = SensorModel(
    "imu",
    ImuParams,
    IMU_STATE,
    IMU_SAMPLE,
    WHITE_COUNT,
    start,
    imu_step,
    {"accel": (0, 3), "gyro": (3, 3)},
    needs,
)
