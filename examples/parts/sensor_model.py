"""Altimeter: the height over the flat ground, with a constant error and white noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from quadsim.base.compiled import Array, Over, Record, Records, kernel
from quadsim.base.normals import draw_normals
from quadsim.base.records import Kinematics
from quadsim.sensors.error_terms import DeliveredParams, Quantisation, Rate, TurnOn, White
from quadsim.sensors.model import SensorModel, read_out
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.encode import Template
from quadsim.wire.samples import SampleMessages
from quadsim.wire.standard import RANGE


@dataclass(frozen=True)
class AltimeterParams(DeliveredParams):
    """One altimeter; zero switches an error off. Latency and loss are those of any sensor."""

    rate_hz: Annotated[float, Rate("sample rate", "Hz", ge=1.0, le=500.0)] = 20.0
    noise_sigma_m: Annotated[float, White("white noise of a sample", "m", ge=0.0, le=10.0)] = 0.0
    turn_on_sigma_m: Annotated[
        float, TurnOn("deviation of the error drawn at switch-on", "m", ge=0.0, le=10.0)
    ] = 0.0
    step_m: Annotated[float, Quantisation("quantisation, 0 for none", "m", ge=0.0, le=1.0)] = 0.0


class AltimeterState(Record):
    """What it remembers."""

    bias_m: float


class AltimeterSample(Record):
    """A height."""

    stamp_ns: int
    height_m: float
    values: Annotated[Array, 1, Over("height_m")]


AltimeterSlot = Slot[AltimeterParams, AltimeterState, AltimeterSample]


def start_altimeter(
    state: AltimeterState, params: AltimeterParams, generator: np.random.Generator
) -> None:
    """Draw the error of this switch-on."""
    state.bias_m = params.turn_on_sigma_m * float(draw_normals(generator, 1)[0])


@kernel
def altimeter_step(
    slots: Records[AltimeterSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One height in m."""
    device, sample = slots[0].params, slots[0].sample
    height_m = nows[0].p_W[2] - world.environments[0].ground_height_m
    height_m += slots[0].state.bias_m + device.noise_sigma_m * white[0]
    sample.height_m = read_out(height_m, device.step_m, 0.0)


def altimeter_messages(frame: str) -> SampleMessages:
    """Range messages of a wide beam."""
    template = Template.of(RANGE, frame, field_of_view=0.5 * math.pi, max_range=1000.0)
    return SampleMessages(template, lambda sample: {"range": sample["height_m"]})


MODEL = SensorModel(
    "altimeter",
    AltimeterSlot,
    1,
    start_altimeter,
    altimeter_step,
    messages=(lambda frame, params, environment: altimeter_messages(frame),),
)
