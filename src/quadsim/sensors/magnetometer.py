"""Magnetometer: the world's field in the axes of the sensor, with bias and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel, record_dtype
from quadsim.geometry.rotation import exp, quat, rotate, unrotate
from quadsim.geometry.vector import vec3
from quadsim.parameters import Spec, Vec3
from quadsim.sensors.delivery import sample_dtype
from quadsim.sensors.model import SensorModel, read_out
from quadsim.sensors.mount import MOUNT_FIELD, Rotation, set_mount
from quadsim.sensors.timing import Latency, LossProbability, StampJitter

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class MagnetometerParams:
    """One three-axis magnetometer; zero switches an error off."""

    rate_hz: Annotated[float, Spec("sample rate", "Hz", ge=1.0, le=1000.0)] = 100.0
    latency_s: Latency = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
    rotation_deg: Rotation = ZERO
    noise_sigma_T: Annotated[Vec3, Spec("white noise of a sample", "T", ge=0.0, le=1e-3)] = ZERO
    heading_sigma_rad: Annotated[
        float, Spec("noise that turns the field about the vertical (FCND)", "rad", ge=0.0, le=3.0)
    ] = 0.0
    bias_T: Annotated[Vec3, Spec("constant bias (hard iron)", "T", ge=-1e-3, le=1e-3)] = ZERO
    bias_walk: Annotated[Vec3, Spec("random walk of the bias", "T/sqrt(s)", ge=0.0, le=1e-3)] = ZERO
    step_T: Annotated[float, Spec("quantisation, 0 for none", "T", ge=0.0, le=1e-3)] = 0.0
    range_T: Annotated[float, Spec("largest reading, 0 for no limit", "T", ge=0.0)] = 0.0

    def variance(self, horizontal_field_T: float) -> NDArray[np.float64]:
        """Variance of one sample, (3,) T^2.

        Turned noise counts on every axis: a sensor does not know its tilt, and a variance of zero
        on one axis would claim a perfect reading there.
        """
        turned = (self.heading_sigma_rad * horizontal_field_T) ** 2
        own: NDArray[np.float64] = np.square(self.noise_sigma_T) + self.step_T**2 / 12.0
        return own + turned


MAGNETOMETER_STATE = record_dtype([MOUNT_FIELD, ("bias_T", np.float64, (3,))])
MAGNETOMETER_SAMPLE = sample_dtype([("m_S", 3)])


def start(state: np.record, params: MagnetometerParams, generator: np.random.Generator) -> None:
    """Mount the sensor with its constant bias."""
    set_mount(state, params.rotation_deg)
    state.bias_T[:] = params.bias_T


@kernel
def magnetometer_step(
    states: Any,
    params: Any,
    environments: Any,
    scene: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    samples: Any,
) -> None:
    """One sample of the field in tesla."""
    state, device, true, sample = states[0], params[0], now[0], samples[0]
    before = previous[0]
    root_dt = math.sqrt((true.stamp_ns - before.stamp_ns) * 1e-9)
    turned = rotate(
        exp((0.0, 0.0, device.heading_sigma_rad * white[6])),
        vec3(environments[0].magnetic_field_W_T),
    )
    field_S = unrotate(quat(state.q_BS), unrotate(quat(true.q_WB), turned))
    for i in range(3):
        state.bias_T[i] += device.bias_walk[i] * root_dt * white[3 + i]
        reading = field_S[i] + state.bias_T[i] + device.noise_sigma_T[i] * white[i]
        sample.m_S[i] = read_out(reading, device.step_T, device.range_T)


MODEL = SensorModel(
    "magnetometer",
    MagnetometerParams,
    MAGNETOMETER_STATE,
    MAGNETOMETER_SAMPLE,
    7,
    start,
    magnetometer_step,
)
