"""Noise of our devices as Gazebo makes it (gz-sensors, ``GaussianNoiseModel``).

A reading is ``value + bias + N(mean, stddev)``, rounded to ``precision``. The bias is drawn once,
``N(bias_mean, bias_stddev)``, and its sign by chance. Where the sensor tells the time between its
readings (the IMU alone does) the bias wanders as a Gauss-Markov process: with the
``dynamic_bias_stddev`` S and the ``dynamic_bias_correlation_time`` T it keeps exp(-dt/T) of itself
and gains S sqrt(T/2 (1 - exp(-2 dt/T))). So S is the density of a random walk for short times, and
S sqrt(T/2) the deviation for long ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymap3d.rcurve

from quadsim.geometry.geodesy import Datum
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.rangefinder import EchoParams

#: Gazebo takes a smaller precision for none.
LEAST_PRECISION = 1e-6

#: Correlation time in s at which Gazebo's wandering bias is a random walk for any flight.
WALK_S = 1e6


@dataclass(frozen=True)
class Noise:
    """``<noise>`` of one quantity, in the quantity's unit.

    Attributes:
        stddev: white noise of a reading.
        bias_mean, bias_stddev: of the constant bias.
        dynamic_bias_stddev: density of what the bias wanders with, unit sqrt(Hz).
        dynamic_bias_correlation_time: of that, s.
        precision: step of the readings, 0 for none.
    """

    stddev: float = 0.0
    bias_mean: float = 0.0
    bias_stddev: float = 0.0
    dynamic_bias_stddev: float = 0.0
    dynamic_bias_correlation_time: float = 0.0
    precision: float = 0.0

    @property
    def kind(self) -> str:
        """``type`` of the element."""
        return "gaussian_quantized" if self.precision else "gaussian"

    def content(self) -> dict[str, float]:
        """Children of the element that are not zero; Gazebo wants mean and stddev in any case."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"mean": 0.0, "stddev": self.stddev} | {k: v for k, v in values.items() if v}


def _stepped(variance: float, step: float, **bias: float) -> Noise:
    """Noise with a step; one that Gazebo ignores counts as noise, step^2 / 12."""
    if step < LEAST_PRECISION:
        return Noise(math.sqrt(variance + step**2 / 12.0), **bias)
    return Noise(math.sqrt(variance), precision=step, **bias)


def wandering(instability: float, time_s: float, walk: float) -> tuple[float, float]:
    """Gazebo's wandering bias for a Gauss-Markov process and a random walk.

    Both together keep what they gain in short times.

    Args:
        instability: stationary deviation of the Gauss-Markov process.
        time_s: its correlation time.
        walk: density of the random walk.

    Returns:
        dynamic_bias_stddev and dynamic_bias_correlation_time, zero where nothing wanders.
    """
    density = math.hypot(walk, instability * math.sqrt(2.0 / time_s))
    if density == 0.0:
        return 0.0, 0.0
    return density, WALK_S if walk else time_s


def imu_noise(params: ImuParams) -> dict[str, tuple[Noise, Noise, Noise]]:
    """Noise of ``angular_velocity`` and ``linear_acceleration``, x, y, z.

    White noise of a density N at the rate f has the deviation N sqrt(f) in a sample, behind the
    device's low-pass less; the vibration's floor counts at its reference speed.
    """

    def axes(name: str, variance: Any) -> tuple[Noise, Noise, Noise]:
        def of(key: str) -> Any:
            return getattr(params, f"{name}_{key}")

        step = of("step")
        white = np.maximum(variance - step**2 / 12.0, 0.0)
        made = []
        for k in range(3):
            density, time_s = wandering(
                of("instability")[k], of("instability_time_s"), of("bias_walk")[k]
            )
            made.append(
                _stepped(
                    float(white[k]),
                    step,
                    bias_mean=of("bias")[k],
                    bias_stddev=of("turn_on_sigma"),
                    dynamic_bias_stddev=density,
                    dynamic_bias_correlation_time=time_s,
                )
            )
        return made[0], made[1], made[2]

    return {
        "angular_velocity": axes("gyro", params.gyro_variance()),
        "linear_acceleration": axes("accel", params.accel_variance()),
    }


def field_noise(params: Any) -> tuple[Noise, Noise, Noise]:
    """Noise of x, y, z in T."""
    x, y, z = (
        _stepped(
            params.noise_sigma_T[k] ** 2,
            params.step_T,
            bias_mean=params.hard_iron_T[k],
            bias_stddev=params.turn_on_sigma_T,
        )
        for k in range(3)
    )
    return x, y, z


def barometer_noise(params: BarometerParams) -> Noise:
    """Noise of the pressure in Pa."""
    return _stepped(
        params.noise_sigma_pa**2,
        params.step_pa,
        bias_mean=params.bias_pa,
        bias_stddev=params.turn_on_sigma_pa,
    )


def degrees_per_metre(datum: Datum) -> float:
    """By which a deviation in m is that of latitude and longitude in degrees, alike for both.

    gz-sensors adds the noise of the horizontal position to latitude and longitude in degrees (one
    number for both), though the format states metres: gz-sensors issue 325, sdformat issue 1572.
    With M and N the radii of curvature at the datum, a degree is (M + h) pi/180 north and
    (N + h) cos(latitude) pi/180 east; this gives the two errors together the right variance.
    """
    latitude_deg = datum.latitude_deg
    north_m = pymap3d.rcurve.meridian(latitude_deg) + datum.height_m
    east_m = pymap3d.rcurve.transverse(latitude_deg) + datum.height_m
    east_m *= math.cos(math.radians(latitude_deg))
    return math.degrees(math.sqrt(2.0) / math.hypot(float(north_m), float(east_m)))


def gnss_noise(params: GnssParams, datum: Datum) -> dict[tuple[str, str], Noise]:
    """Noise by ``position_sensing`` or ``velocity_sensing`` and ``horizontal`` or ``vertical``.

    Gazebo knows no correlated error here: that part of the variance becomes a constant offset.
    """
    east_m, _, up_m = params.position_sigma_m()
    east_mps, _, up_mps = params.velocity_sigma_mps()
    level = east_m * degrees_per_metre(datum)
    white, constant = math.sqrt(1.0 - params.correlated_share), math.sqrt(params.correlated_share)
    return {
        ("position_sensing", "horizontal"): Noise(white * level, bias_stddev=constant * level),
        ("position_sensing", "vertical"): Noise(white * up_m, bias_stddev=constant * up_m),
        ("velocity_sensing", "horizontal"): Noise(east_mps),
        ("velocity_sensing", "vertical"): Noise(up_mps),
    }


def echo_noise(params: EchoParams) -> Noise:
    """Noise of a range in m; what grows with the distance is taken at half the largest range.

    Lidars of Gazebo have white noise alone, and no step.
    """
    sigma_m = math.hypot(params.noise_sigma_m, 0.5 * params.range_max_m * params.noise_share)
    return Noise(math.hypot(sigma_m, params.step_m / math.sqrt(12.0)))
