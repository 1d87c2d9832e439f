"""Magnetometer: the world's field in the axes of the sensor, bent by iron, currents and the sensor.

m_S = M R_SW B_W + h + c I + b + noise, with soft iron M, hard iron h and the current I of the
motors (Renaudin, Afzal and Lachapelle, *Complete triaxis magnetometer calibration in the magnetic
domain*, J. Sensors 2010), then counts and range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Over, Quaternion, Record, Records, Vector, kernel
from quadsim.base.errors import InputError
from quadsim.base.normals import draw_normals
from quadsim.base.parameters import Vec3
from quadsim.base.records import Kinematics
from quadsim.geometry.linear import product
from quadsim.geometry.rotation import exp, quat, rotate, unrotate
from quadsim.geometry.vector import dot, vec3
from quadsim.sensors.error_terms import (
    Constant,
    Quantisation,
    RandomWalk,
    Rate,
    Rotation,
    TurnOn,
    WarmedParams,
    White,
    set_mount,
    warmth_K,
)
from quadsim.sensors.model import Reading, SensorModel, read_out
from quadsim.sensors.slot import SensorWorld, Slot
from quadsim.wire.samples import field_messages
from quadsim.world.earth.magnetic import FIELD_SIGMA_T
from quadsim.world.environment import EnvironmentParams

#: Least deviation of the vertical part of a field without white noise.
LEAST_FIELD_SIGMA_T = 5e-9
ZERO: Vec3 = (0.0, 0.0, 0.0)
Vec6 = tuple[float, float, float, float, float, float]


@dataclass(frozen=True)
class MagnetometerParams(WarmedParams):
    """One three-axis magnetometer on a vehicle; zero (soft iron: one) switches an error off."""

    rate_hz: Annotated[float, Rate("sample rate", "Hz", ge=1.0, le=1000.0)] = 100.0
    rotation_deg: Rotation = ZERO
    noise_sigma_T: Annotated[Vec3, White("white noise of a sample", "T", ge=0.0, le=1e-3)] = ZERO
    heading_sigma_rad: Annotated[
        float, White("noise that turns the field about the vertical (FCND)", "rad", ge=0.0, le=3.0)
    ] = 0.0
    soft_iron: Annotated[
        Vec6,
        Constant("symmetric matrix on the field: xx, yy, zz, xy, xz, yz", "1", ge=-10.0, le=10.0),
    ] = (1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
    scale_sigma: Annotated[
        float, TurnOn("deviation of the scale of an axis among units", "1", ge=0.0, le=0.3)
    ] = 0.0
    cross_axis_sigma: Annotated[
        float, TurnOn("deviation of what an axis reads of another among units", "1", ge=0.0, le=0.3)
    ] = 0.0
    hard_iron_T: Annotated[Vec3, Constant("constant offset", "T", ge=-1e-3, le=1e-3)] = ZERO
    turn_on_sigma_T: Annotated[
        float, TurnOn("deviation of the offset drawn at switch-on", "T", ge=0.0, le=1e-3)
    ] = 0.0
    bias_walk: Annotated[
        Vec3, RandomWalk("random walk of the offset", "T/sqrt(s)", ge=0.0, le=1e-3)
    ] = ZERO
    temperature_bias: Annotated[
        Vec3, Constant("change of the offset", "T/K", ge=-1e-4, le=1e-4)
    ] = ZERO
    motor_current_T_per_A: Annotated[
        Vec3, Constant("field of the current of all motors", "T/A", ge=-1e-3, le=1e-3)
    ] = ZERO
    step_T: Annotated[float, Quantisation("quantisation, 0 for none", "T", ge=0.0, le=1e-3)] = 0.0
    range_T: Annotated[float, Constant("largest reading, 0 for no limit", "T", ge=0.0)] = 0.0

    def __post_init__(self) -> None:
        """Refuse soft iron from which no calibration finds the field again."""
        xx, yy, zz, xy, xz, yz = self.soft_iron
        level = xx * yy - xy * xy
        whole = zz * level - xz * (xz * yy - xy * yz) - yz * (yz * xx - xy * xz)
        if min(xx, level, whole) <= 0.0:  # positive eigenvalues (Sylvester)
            raise InputError(
                f"soft_iron: {list(self.soft_iron)}; allowed: a matrix of positive eigenvalues"
            )

    def soft_iron_matrix(self) -> NDArray[np.float64]:
        """(3, 3) of the six numbers."""
        xx, yy, zz, xy, xz, yz = self.soft_iron
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    def variance(self, field_W_T: Vec3) -> NDArray[np.float64]:
        """Variance of one sample's whole error, (3,) T^2: what a user of the reading has to expect.

        White noise, counts, and what varies from unit to unit and from switch-on to switch-on: the
        offset, and scale and cross-axis of a field that lies anywhere to the axes (a third of its
        square on each). Turned noise counts on every axis: a sensor does not know its tilt, and a
        variance of zero on one axis would claim a perfect reading there.

        Args:
            field_W_T: the world's field.
        """
        total: NDArray[np.float64] = (
            np.square(self.noise_sigma_T)
            + np.square(self.step_T) / 12.0
            + self.turned_variance(field_W_T)
            + self.constant_variance(field_W_T)
        )
        return total

    def turned_variance(self, field_W_T: Vec3) -> float:
        """The part of it that turns the field about the vertical, T^2."""
        east, north, _ = field_W_T
        return self.heading_sigma_rad * self.heading_sigma_rad * (east * east + north * north)

    def matrix_sigma(self) -> float:
        """Deviation of an axis's error of scale and cross-axis, over a field that lies anywhere."""
        unit = np.square(self.scale_sigma) + 2.0 * np.square(self.cross_axis_sigma)
        return math.sqrt(unit / 3.0)

    def constant_variance(self, field_W_T: Vec3) -> float:
        """The part of it that stays: offset, and scale and cross-axis at one attitude, T^2."""
        strength2 = sum(part * part for part in field_W_T)
        return float(np.square(self.turn_on_sigma_T) + np.square(self.matrix_sigma()) * strength2)


class MagnetometerState(Record):
    """What it remembers."""

    q_BS: Quaternion
    matrix: Annotated[Array, 3, 3]
    bias_T: Vector
    age_s: float  # since switch-on


class MagnetometerSample(Record):
    """A magnetic field."""

    stamp_ns: int
    m_S: Vector
    values: Annotated[Array, 3, Over("m_S")]


MagnetometerSlot = Slot[MagnetometerParams, MagnetometerState, MagnetometerSample]


def start_magnetometer(
    state: MagnetometerState, params: MagnetometerParams, generator: np.random.Generator
) -> None:
    """Mount the sensor, and draw what is by chance in this unit and this switch-on."""
    set_mount(state, params.rotation_deg)
    drawn = draw_normals(generator, (4, 3))
    sensor = np.eye(3) + params.cross_axis_sigma * drawn[:3]
    np.fill_diagonal(sensor, 1.0 + params.scale_sigma * drawn[:3].diagonal())
    state.matrix[:] = product(sensor, params.soft_iron_matrix())
    state.bias_T[:] = params.hard_iron_T + params.turn_on_sigma_T * drawn[3]


@kernel
def magnetometer_step(
    slots: Records[MagnetometerSlot], world: SensorWorld, nows: Records[Kinematics], white: Array
) -> None:
    """One sample of the field in tesla."""
    slot, true = slots[0], nows[0]
    state, device, sample = slot.state, slot.params, slot.sample
    dt_s = (true.stamp_ns - slot.previous.stamp_ns) * 1e-9
    state.age_s += dt_s
    delta_T_K = warmth_K(device.ambient_offset_K, device.warm_up_K, device.warm_up_s, state.age_s)
    field_W_T = rotate(
        exp((0.0, 0.0, device.heading_sigma_rad * white[6])),
        vec3(world.environments[0].magnetic_field_W_T),
    )
    field_S = unrotate(quat(state.q_BS), unrotate(quat(true.q_WB), field_W_T))
    for i in range(3):
        state.bias_T[i] += device.bias_walk[i] * math.sqrt(dt_s) * white[3 + i]
        reading = dot(vec3(state.matrix[i]), field_S) + state.bias_T[i]
        reading += device.motor_current_T_per_A[i] * true.motor_current_A
        reading += device.temperature_bias[i] * delta_T_K + device.noise_sigma_T[i] * white[i]
        sample.m_S[i] = read_out(reading, device.step_T, device.range_T)


def told_of_magnetometer(
    device: MagnetometerParams, environment: EnvironmentParams
) -> dict[str, Any]:
    """What an installer tells the estimator of it."""
    field_W_T = environment.field_W_T()
    constant = device.constant_variance(field_W_T)
    stated = float(np.mean(device.variance(field_W_T)))
    of_heading = device.turned_variance(field_W_T)
    white = stated - constant - of_heading
    return {
        "noise.field_sigma_T": max(math.sqrt(max(white, 0.0)), LEAST_FIELD_SIGMA_T),
        # a fixed field is the scenario's, and no model's
        "start.field_T": FIELD_SIGMA_T if environment.magnetic_field == "model" else 0.0,
        "start.field_bias_T": device.turn_on_sigma_T,
        "noise.field_scale": device.scale_sigma,
        "noise.field_axes": device.cross_axis_sigma,
        "noise.field_bias_walk": max(device.bias_walk),
        "noise.field_lasting_share": constant / stated if stated > 0.0 else 0.0,
        "noise.field_turned_share": of_heading / stated if stated > 0.0 else 0.0,
    }


MODEL = SensorModel(
    "magnetometer",
    MagnetometerSlot,
    7,
    start_magnetometer,
    magnetometer_step,
    needs=lambda params: frozenset({"motors"} if any(params.motor_current_T_per_A) else ()),
    readings=(Reading("magnetic_field"),),
    stated=lambda params, environment: (params.variance(environment.field_W_T()),),
    messages=(
        lambda frame, params, environment: field_messages(
            frame, params.variance(environment.field_W_T())
        ),
    ),
    told=told_of_magnetometer,
)
