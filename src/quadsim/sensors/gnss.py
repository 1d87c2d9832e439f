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
from quadsim.sensors.model import SensorModel
from quadsim.sensors.mount import Position

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class GnssParams:
    """One receiver with its antenna; zero switches an error off."""

    rate_hz: Annotated[float, Spec("fix rate", "Hz", ge=0.1, le=50.0)] = 10.0
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
GNSS_SAMPLE = record_dtype(
    [("stamp_ns", np.int64), ("p_W", np.float64, (3,)), ("v_W", np.float64, (3,))]
)


def start(state: np.record, params: GnssParams, generator: np.random.Generator) -> None:
    """No error has wandered yet."""
    state.offset_W[:] = 0.0


@kernel
def gnss_step(
    state: Any,
    params: Any,
    environment: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    sample: Any,
) -> None:
    """One fix: antenna position and velocity with white noise and a wandering offset."""
    root_dt = math.sqrt((now.stamp_ns - previous.stamp_ns) * 1e-9)
    q_WB = quat(now.q_WB)
    r_B = vec3(params.position_B_m)
    p_W = add(vec3(now.p_W), rotate(q_WB, r_B))
    v_W = add(vec3(now.v_W), rotate(q_WB, cross(vec3(now.w_B), r_B)))
    sample.stamp_ns = now.stamp_ns
    for i in range(3):
        state.offset_W[i] += params.position_walk[i] * root_dt * white[6 + i]
        sample.p_W[i] = p_W[i] + state.offset_W[i] + params.position_sigma_m[i] * white[i]
        sample.v_W[i] = v_W[i] + params.velocity_sigma_mps[i] * white[3 + i]


MODEL = SensorModel("gnss", GnssParams, GNSS_STATE, GNSS_SAMPLE, 9, start, gnss_step)
