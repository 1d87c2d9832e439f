"""Barometer: static pressure of the standard atmosphere with drift and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel, record_dtype
from quadsim.parameters import Spec
from quadsim.sensors.delivery import sample_dtype
from quadsim.sensors.model import SensorModel, read_out
from quadsim.sensors.timing import Latency, LossProbability, StampJitter
from quadsim.world.atmosphere import pressure_at


@dataclass(frozen=True)
class BarometerParams:
    """One static pressure sensor; zero switches an error off."""

    rate_hz: Annotated[float, Spec("sample rate", "Hz", ge=1.0, le=500.0)] = 50.0
    latency_s: Latency = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
    noise_sigma_pa: Annotated[float, Spec("white noise of a sample", "Pa", ge=0.0, le=1e4)] = 0.0
    bias_pa: Annotated[float, Spec("constant error", "Pa", ge=-1e4, le=1e4)] = 0.0
    bias_walk: Annotated[float, Spec("random walk of the error", "Pa/sqrt(s)", ge=0.0)] = 0.0
    step_pa: Annotated[float, Spec("quantisation, 0 for none", "Pa", ge=0.0, le=1e4)] = 0.0

    def variance(self) -> float:
        """Variance of one sample in Pa^2."""
        return self.noise_sigma_pa**2 + self.step_pa**2 / 12.0


BAROMETER_STATE = record_dtype([("bias_pa", np.float64)])
BAROMETER_SAMPLE = sample_dtype([("pressure_pa", 1)])


def start(state: np.record, params: BarometerParams, generator: np.random.Generator) -> None:
    """Begin with the constant error."""
    state.bias_pa = params.bias_pa


@kernel
def barometer_step(
    states: Any,
    params: Any,
    environments: Any,
    scene: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    samples: Any,
) -> None:
    """One sample of the pressure in Pa; the datum's height counts as height above the sea."""
    state, device, true, sample = states[0], params[0], now[0], samples[0]
    before = previous[0]
    root_dt = math.sqrt((true.stamp_ns - before.stamp_ns) * 1e-9)
    state.bias_pa += device.bias_walk * root_dt * white[1]
    true_pa = pressure_at(environments[0].datum.height_m + true.p_W[2])
    sample.pressure_pa = read_out(
        true_pa + state.bias_pa + device.noise_sigma_pa * white[0], device.step_pa, 0.0
    )


MODEL = SensorModel(
    "barometer", BarometerParams, BAROMETER_STATE, BAROMETER_SAMPLE, 2, start, barometer_step
)
