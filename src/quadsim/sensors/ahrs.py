"""An attitude that comes from elsewhere (AHRS): the true one with an error that is held for a time.

A. Larsen's thesis (NTNU, 2010) gives its filter the attitude with white noise on it, drawn anew now
and then; how often, it does not say. The device flies in the closed loop, for the filter that takes
an attitude (:mod:`quadsim.estimation.reference_filters.gps_ins`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.parameters import Spec
from quadsim.geometry.rotation import exp, multiply, normalize, quat
from quadsim.geometry.vector import scale, store, vec3
from quadsim.sensors.delivery import sample_dtype
from quadsim.sensors.model import SensorModel
from quadsim.sensors.timing import Latency, LossProbability, StampJitter

KIND = "ahrs"


@dataclass(frozen=True)
class AhrsParams:
    """One attitude and heading reference; it measures the attitude of ``base_link``."""

    rate_hz: Annotated[float, Spec("sample rate", "Hz", ge=1.0, le=1000.0)] = 500.0
    latency_s: Latency = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
    attitude_sigma_deg: Annotated[
        float, Spec("error about each axis of the world", "deg", ge=0.0, le=90.0)
    ] = 0.0
    redraw_s: Annotated[
        float, Spec("an error is held so long; 0: another one in each sample", "s", ge=0.0, le=3600)
    ] = 0.0


AHRS_STATE = record_dtype([("drawn", np.int64), ("error_W", np.float64, (3,))])
AHRS_SAMPLE = sample_dtype([("q_WB", 4)])


def start(state: np.record, params: AhrsParams, generator: np.random.Generator) -> None:
    """Nothing has been drawn yet."""
    state.drawn = -1


@kernel
def ahrs_step(
    states: Any,
    params: Any,
    environments: Any,
    scene: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    samples: Any,
) -> None:
    """The attitude with its error: q = exp(e) q_true, e a rotation in the world."""
    state, device, true = states[0], params[0], now[0]
    held_ns = round(device.redraw_s * 1e9)
    turn = true.stamp_ns // held_ns if held_ns > 0 else true.stamp_ns
    if turn != state.drawn:
        state.drawn = turn
        sigma = device.attitude_sigma_deg * math.pi / 180.0
        store(state.error_W, scale(sigma, vec3(white)))
    store(samples[0].q_WB, normalize(multiply(exp(vec3(state.error_W)), quat(true.q_WB))))


MODEL = SensorModel(KIND, AhrsParams, AHRS_STATE, AHRS_SAMPLE, 3, start, ahrs_step)
