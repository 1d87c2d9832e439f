"""Barometer: static pressure of the standard atmosphere, of the air that flows past it, and errors.

The air that meets the vehicle presses on the static port: dp = k rho v^2 / 2 for each body axis, as
PX4 (EKF2_PCOEF_XP, ...) and ArduPilot (BARO1_WCF_FWD, ...) correct it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from quadsim.base.compiled import Array, Over, Record, Records, kernel
from quadsim.base.elementary import exp
from quadsim.base.errors import InputError
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.rotation import quat, unrotate
from quadsim.geometry.vector import subtract, vec3
from quadsim.sensors.error_terms import (
    Constant,
    Lag,
    Quantisation,
    RandomWalk,
    Rate,
    TurnOn,
    WarmedParams,
    White,
    warmth_K,
)
from quadsim.sensors.model import Reading, SensorModel, read_out
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.samples import pressure_messages
from quadsim.world.air.atmosphere import air_pressure, density_at, pressure_at, pressure_slope
from quadsim.world.environment import EnvironmentParams

ZERO: Vec3 = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class BarometerParams(WarmedParams):
    """One static pressure sensor; zero switches an error off."""

    rate_hz: Annotated[float, Rate("sample rate", "Hz", ge=1.0, le=500.0)] = 50.0
    noise_sigma_pa: Annotated[float, White("white noise of a sample", "Pa", ge=0.0, le=1e4)] = 0.0
    bias_pa: Annotated[float, Constant("constant error", "Pa", ge=-1e4, le=1e4)] = 0.0
    turn_on_sigma_pa: Annotated[
        float, TurnOn("deviation of the error drawn at switch-on", "Pa", ge=0.0, le=1e4)
    ] = 0.0
    bias_walk: Annotated[float, RandomWalk("random walk of the error", "Pa/sqrt(s)", ge=0.0)] = 0.0
    temperature_bias: Annotated[
        float, Constant("change of the error", "Pa/K", ge=-100.0, le=100.0)
    ] = 0.0
    ahead_error: Annotated[
        Vec3, Constant("error over dynamic pressure, flying along +x, +y, +z", "1", ge=-5.0, le=5.0)
    ] = ZERO
    back_error: Annotated[
        Vec3, Constant("error over dynamic pressure, flying along -x, -y, -z", "1", ge=-5.0, le=5.0)
    ] = ZERO
    response_time_s: Annotated[
        float, Lag("time constant of a first-order lag, 0 for none", "s", ge=0.0, le=10.0)
    ] = 0.0
    step_pa: Annotated[float, Quantisation("quantisation, 0 for none", "Pa", ge=0.0, le=1e4)] = 0.0
    range_min_pa: Annotated[float, Constant("least reading", "Pa", ge=0.0, le=2e5)] = 0.0
    range_max_pa: Annotated[float, Constant("largest reading", "Pa", ge=0.0, le=2e5)] = 2e5

    def __post_init__(self) -> None:
        """Refuse an empty range."""
        if self.range_min_pa >= self.range_max_pa:
            raise InputError("range_min_pa: not below range_max_pa")

    def variance(self) -> float:
        """Variance of one sample about the sensor's own lasting errors, Pa^2."""
        return self.noise_sigma_pa * self.noise_sigma_pa + self.step_pa * self.step_pa / 12.0


class BarometerState(Record):
    """What it remembers."""

    bias_pa: float
    felt_pa: float  # behind the lag
    age_s: float  # since switch-on


class BarometerSample(Record):
    """A static pressure."""

    stamp_ns: int
    pressure_pa: float
    values: Annotated[Array, 1, Over("pressure_pa")]


BarometerSlot = Slot[BarometerParams, BarometerState, BarometerSample]


def start_barometer(
    state: BarometerState, params: BarometerParams, generator: np.random.Generator
) -> None:
    """Begin with the constant error and that of this switch-on."""
    state.bias_pa = params.bias_pa + params.turn_on_sigma_pa * float(draw_normals(generator, 1)[0])


@kernel
def port_pressure(
    device: BarometerParams, environment: EnvironmentParams, true: Kinematics
) -> float:
    """Pressure at the static port in Pa; the datum's height counts as height above the sea."""
    height_m = environment.datum.height_m + true.p_W[2]
    static_pa = air_pressure(environment, true.p_W[2])
    v_B = unrotate(quat(true.q_WB), subtract(vec3(true.v_W), vec3(true.wind_W)))
    shares = 0.0
    for i in range(3):
        ratio = device.ahead_error[i] if v_B[i] > 0.0 else device.back_error[i]
        shares += ratio * v_B[i] * v_B[i]
    density = density_at(height_m, static_pa, environment.temperature_offset_K)
    return float(static_pa + 0.5 * density * shares)


@kernel
def lagged(
    state: BarometerState, device: BarometerParams, before_pa: float, now_pa: float, dt_s: float
) -> float:
    """Pressure behind a first-order lag, exact where the pressure changes evenly in between."""
    tau_s = device.response_time_s
    if tau_s <= 0.0:
        return now_pa
    if state.age_s == 0.0:
        state.felt_pa = before_pa
    decay = exp(-dt_s / tau_s)
    behind_pa = (now_pa - before_pa) / dt_s * tau_s
    state.felt_pa = now_pa - behind_pa + (state.felt_pa - before_pa + behind_pa) * decay
    return float(state.felt_pa)


@kernel
def barometer_step(
    slots: Records[BarometerSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One sample of the pressure in Pa."""
    slot, true = slots[0], nows[0]
    state, device, sample = slot.state, slot.params, slot.sample
    before, environment = slot.previous, world.environments[0]
    dt_s = (true.stamp_ns - before.stamp_ns) * 1e-9
    before_pa = port_pressure(device, environment, before)
    reading = lagged(state, device, before_pa, port_pressure(device, environment, true), dt_s)
    state.age_s += dt_s
    state.bias_pa += device.bias_walk * math.sqrt(dt_s) * white[1]
    reading += state.bias_pa + device.noise_sigma_pa * white[0]
    reading += device.temperature_bias * warmth_K(
        device.ambient_offset_K, device.warm_up_K, device.warm_up_s, state.age_s
    )
    reading = read_out(reading, device.step_pa, 0.0)
    sample.pressure_pa = min(max(reading, device.range_min_pa), device.range_max_pa)


def told_of_barometer(device: BarometerParams, environment: EnvironmentParams) -> dict[str, Any]:
    """What an installer tells the estimator of it."""
    height_m = environment.datum.height_m
    slope = abs(pressure_slope(pressure_at(height_m), height_m))
    return {"noise.pressure_walk": device.bias_walk * slope}


MODEL = SensorModel(
    "barometer",
    BarometerSlot,
    2,
    start_barometer,
    barometer_step,
    needs=lambda params: frozenset({"wind"} if any(params.ahead_error + params.back_error) else ()),
    readings=(Reading("pressure"),),
    stated=lambda params, _: ([params.variance()],),
    messages=(lambda frame, params, _: pressure_messages(frame, params.variance()),),
    told=told_of_barometer,
)
