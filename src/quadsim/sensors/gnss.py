"""Satellite navigation receiver: position and velocity of its antenna in the datum's ENU axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel, record_dtype
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, cross, vec3
from quadsim.parameters import Spec, Vec3
from quadsim.sensors.delivery import sample_dtype
from quadsim.sensors.model import SensorModel
from quadsim.sensors.mount import Position
from quadsim.sensors.timing import Latency, LossProbability, StampJitter

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class GnssParams:
    """One receiver with its antenna; zero switches an error off."""

    rate_hz: Annotated[float, Spec("fix rate", "Hz", ge=0.1, le=50.0)] = 10.0
    latency_s: Latency = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
    position_B_m: Position = ZERO
    position_sigma_m: Annotated[
        Vec3, Spec("white noise of a fix, east, north, up", "m", ge=0.0, le=1000.0)
    ] = ZERO
    velocity_sigma_mps: Annotated[
        Vec3, Spec("white noise of the velocity, east, north, up", "m/s", ge=0.0, le=100.0)
    ] = ZERO
    position_walk: Annotated[
        Vec3, Spec("random walk of the position error", "m/sqrt(s)", ge=0.0, le=100.0)
    ] = ZERO


GNSS_STATE = record_dtype([("offset_W", np.float64, (3,))])
GNSS_SAMPLE = sample_dtype([("p_W", 3), ("v_W", 3)], [("p_variance", 3), ("v_variance", 3)])


def start(state: np.record, params: GnssParams, generator: np.random.Generator) -> None:
    """No error has wandered yet."""
    state.offset_W[:] = 0.0


@kernel
def gnss_step(
    states: Any,
    params: Any,
    environments: Any,
    scene: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    samples: Any,
) -> None:
    """One fix: antenna position and velocity with white noise and a wandering offset."""
    state, device, true, sample = states[0], params[0], now[0], samples[0]
    before = previous[0]
    root_dt = math.sqrt((true.stamp_ns - before.stamp_ns) * 1e-9)
    q_WB = quat(true.q_WB)
    r_B = vec3(device.position_B_m)
    p_W = add(vec3(true.p_W), rotate(q_WB, r_B))
    v_W = add(vec3(true.v_W), rotate(q_WB, cross(vec3(true.w_B), r_B)))
    for i in range(3):
        state.offset_W[i] += device.position_walk[i] * root_dt * white[6 + i]
        sample.p_W[i] = p_W[i] + state.offset_W[i] + device.position_sigma_m[i] * white[i]
        sample.v_W[i] = v_W[i] + device.velocity_sigma_mps[i] * white[3 + i]
        sample.p_variance[i] = device.position_sigma_m[i] ** 2
        sample.v_variance[i] = device.velocity_sigma_mps[i] ** 2


MODEL = SensorModel(
    "gnss",
    GnssParams,
    GNSS_STATE,
    GNSS_SAMPLE,
    9,
    start,
    gnss_step,
    {"position": (0, 3), "velocity": (3, 3)},
)
