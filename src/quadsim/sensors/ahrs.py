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

from quadsim.base.compiled import Array, Over, Quaternion, Record, Records, Vector, kernel
from quadsim.base.parameters import Spec
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import exp, multiply, normalize, quat
from quadsim.geometry.vector import scale, store, vec3
from quadsim.sensors.error_terms import DeliveredParams
from quadsim.sensors.model import Reading, SensorModel
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.world.environment import EnvironmentParams


@dataclass(frozen=True)
class AhrsParams(DeliveredParams):
    """One attitude and heading reference; it measures the attitude of ``base_link``."""

    rate_hz: Annotated[float, Spec("sample rate", "Hz", ge=1.0, le=1000.0)] = 500.0
    attitude_sigma_deg: Annotated[
        float, Spec("error about each axis of the world", "deg", ge=0.0, le=90.0)
    ] = 0.0
    redraw_s: Annotated[
        float, Spec("an error is held so long; 0: another one in each sample", "s", ge=0.0, le=3600)
    ] = 0.0


class AhrsState(Record):
    """The error that is held until it is drawn anew."""

    drawn: int
    error_W: Vector


class AhrsSample(Record):
    """An attitude."""

    stamp_ns: int
    q_WB: Quaternion
    values: Annotated[Array, 4, Over("q_WB")]


AhrsSlot = Slot[AhrsParams, AhrsState, AhrsSample]


def start_ahrs(state: AhrsState, params: AhrsParams, generator: np.random.Generator) -> None:
    """Nothing has been drawn yet."""
    state.drawn = -1


@kernel
def ahrs_step(
    slots: Records[AhrsSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """The attitude with its error: q = exp(e) q_true, e a rotation in the world."""
    slot, true = slots[0], nows[0]
    state, device = slot.state, slot.params
    held_ns = round(device.redraw_s * 1e9)
    turn = true.stamp_ns // held_ns if held_ns > 0 else true.stamp_ns
    if turn != state.drawn:
        state.drawn = turn
        sigma = device.attitude_sigma_deg * math.pi / 180.0
        store(state.error_W, scale(sigma, vec3(white)))
    store(slot.sample.q_WB, normalize(multiply(exp(vec3(state.error_W)), quat(true.q_WB))))


def told_of_ahrs(device: AhrsParams, _: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it."""
    return {
        "gps_ins.attitude_sigma_rad": math.radians(device.attitude_sigma_deg),
        # held for T, an error has the density of one that is correlated over T/2
        "gps_ins.attitude_correlation_s": 0.5 * max(device.redraw_s, 1.0 / device.rate_hz),
    }


MODEL = SensorModel(
    "ahrs",
    AhrsSlot,
    3,
    start_ahrs,
    ahrs_step,
    readings=(Reading("external_attitude", rows=6, linear=True),),
    only_for="gps_ins",
    told=told_of_ahrs,
)
