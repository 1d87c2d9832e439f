"""Range finder that looks down: slant range along its axis to the flat ground."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel, record_dtype
from quadsim.errors import InputError
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, vec3
from quadsim.parameters import Spec
from quadsim.sensors.delivery import sample_dtype
from quadsim.sensors.model import SensorModel, read_out
from quadsim.sensors.mount import MOUNT_FIELD, Position, Rotation, set_mount
from quadsim.sensors.timing import Latency, LossProbability, StampJitter


@dataclass(frozen=True)
class RangefinderParams:
    """One range finder; its x axis (``range_link``, REP-117 and sensor_msgs/Range) is the beam."""

    rate_hz: Annotated[float, Spec("sample rate", "Hz", ge=1.0, le=500.0)] = 50.0
    latency_s: Latency = 0.0
    stamp_jitter_s: StampJitter = 0.0
    loss_probability: LossProbability = 0.0
    position_B_m: Position = (0.0, 0.0, 0.0)
    rotation_deg: Rotation = (0.0, 90.0, 0.0)
    noise_sigma_m: Annotated[float, Spec("white noise of a sample", "m", ge=0.0, le=10.0)] = 0.0
    step_m: Annotated[float, Spec("resolution, 0 for none", "m", ge=0.0, le=1.0)] = 0.0
    range_min_m: Annotated[float, Spec("below it the reading is -inf", "m", ge=0.0)] = 0.1
    range_max_m: Annotated[float, Spec("beyond it the reading is +inf", "m", gt=0.0)] = 8.0
    field_of_view_deg: Annotated[float, Spec("width of the beam", "deg", gt=0.0, le=90.0)] = 2.0

    def __post_init__(self) -> None:
        """Refuse an empty interval."""
        if self.range_min_m >= self.range_max_m:
            raise InputError("range_min_m: not below range_max_m")

    def variance(self) -> float:
        """Variance of one sample in m^2."""
        return self.noise_sigma_m**2 + self.step_m**2 / 12.0


RANGEFINDER_STATE = record_dtype([MOUNT_FIELD])
RANGEFINDER_SAMPLE = sample_dtype([("range_m", 1)])


def start(state: np.record, params: RangefinderParams, generator: np.random.Generator) -> None:
    """Mount the sensor."""
    set_mount(state, params.rotation_deg)


@kernel
def rangefinder_step(
    states: Any,
    params: Any,
    environments: Any,
    scene: Any,
    previous: Any,
    now: Any,
    white: NDArray[np.float64],
    samples: Any,
) -> None:
    """One slant range in m: height of the sensor over the cosine of the beam's tilt."""
    state, device, true, sample = states[0], params[0], now[0], samples[0]
    q_WB = quat(true.q_WB)
    height = add(vec3(true.p_W), rotate(q_WB, vec3(device.position_B_m)))[2]
    height -= environments[0].ground_height_m
    beam_W = rotate(q_WB, rotate(quat(state.q_BS), (1.0, 0.0, 0.0)))
    reading = math.inf
    if beam_W[2] < 0.0:
        reading = max(0.0, height) / -beam_W[2] + device.noise_sigma_m * white[0]
        reading = read_out(reading, device.step_m, 0.0)
    if reading > device.range_max_m:
        reading = math.inf
    elif reading < device.range_min_m:
        reading = -math.inf
    sample.range_m = reading


def needs(params: RangefinderParams) -> frozenset[str]:
    """It sees the world."""
    return frozenset({"scene"})


MODEL = SensorModel(
    "rangefinder",
    RangefinderParams,
    RANGEFINDER_STATE,
    RANGEFINDER_SAMPLE,
    1,
    start,
    rangefinder_step,
    needs=needs,
)
