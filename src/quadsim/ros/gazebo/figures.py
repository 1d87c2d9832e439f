"""What Gazebo's messages do not say of its sensors: the figures that made the model's SDF."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from quadsim.base.parameters import Spec, Vec3
from quadsim.sensors.barometer import BarometerParams
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.magnetometer import MagnetometerParams
from quadsim.sensors.rangefinder import RangefinderParams

Deviation = Annotated[Vec3, Spec("deviation of a sample on each axis; 0: unknown", ge=0.0)]


@dataclass(frozen=True)
class ImuFigures:
    """Deviations of one sample of Gazebo's IMU."""

    accel_sigma_mps2: Deviation = (0.0, 0.0, 0.0)
    gyro_sigma_radps: Deviation = (0.0, 0.0, 0.0)
    rotation_deg: Annotated[Vec3, Spec("roll, pitch, yaw of imu_link in base_link", "deg")] = (
        0.0,
        0.0,
        0.0,
    )


@dataclass(frozen=True)
class GnssFigures:
    """Deviations of Gazebo's NavSat, east, north, up, and where its antenna is."""

    position_sigma_m: Deviation = (0.0, 0.0, 0.0)
    velocity_sigma_mps: Deviation = (0.0, 0.0, 0.0)
    position_B_m: Annotated[Vec3, Spec("of the antenna in base_link", "m")] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class RangeFigures:
    """What the scan of one ray does not say of a range finder."""

    sigma_m: Annotated[float, Spec("deviation of a reading; 0: unknown", "m", ge=0.0)] = 0.0
    sigma_share: Annotated[float, Spec("the same, over the distance", "1", ge=0.0, le=1.0)] = 0.0
    field_of_view_deg: Annotated[float, Spec("width of the beam", "deg", gt=0.0, le=90.0)] = 2.0
    radiation: Annotated[str, Spec("what it sends", choices=("ultrasound", "infrared"))] = (
        "infrared"
    )


@dataclass(frozen=True)
class GazeboFigures:
    """What Gazebo's messages do not say of its sensors; the model's SDF has the same figures."""

    imu: ImuFigures = field(default_factory=ImuFigures)
    gnss: GnssFigures = field(default_factory=GnssFigures)
    magnetometer_sigma_T: Deviation = (0.0, 0.0, 0.0)
    barometer_sigma_pa: Annotated[
        float, Spec("deviation of a sample; 0: unknown", "Pa", ge=0.0)
    ] = 0.0
    rangefinder: RangeFigures = field(default_factory=RangeFigures)


def _vec3(values: Any) -> Vec3:
    x, y, z = (float(value) for value in values)
    return x, y, z


def figures_of(devices: Mapping[str, Any], field_W_T: Vec3) -> GazeboFigures:
    """Figures of the devices of a suite.

    Args:
        devices: kind to parameters, as of a scenario.
        field_W_T: magnetic flux density, on which a magnetometer's deviation depends.
    """
    figures = GazeboFigures()
    for device in devices.values():
        if isinstance(device, ImuParams):
            imu = ImuFigures(
                _vec3(np.sqrt(device.accel_variance())),
                _vec3(np.sqrt(device.gyro_variance())),
                device.rotation_deg,
            )
            figures = replace(figures, imu=imu)
        elif isinstance(device, GnssParams):
            gnss = GnssFigures(
                device.position_sigma_m(), device.velocity_sigma_mps(), device.position_B_m
            )
            figures = replace(figures, gnss=gnss)
        elif isinstance(device, MagnetometerParams):
            sigma_T = _vec3(np.sqrt(device.variance(field_W_T)))
            figures = replace(figures, magnetometer_sigma_T=sigma_T)
        elif isinstance(device, BarometerParams):
            figures = replace(figures, barometer_sigma_pa=math.sqrt(device.variance()))
        elif isinstance(device, RangefinderParams):
            # as echo_variance: noise, count, and the spread of offset and scale
            constant2 = device.noise_sigma_m**2 + device.turn_on_sigma_m**2 + device.step_m**2 / 12
            rangefinder = RangeFigures(
                math.sqrt(constant2),
                math.hypot(device.noise_share, device.scale_sigma),
                device.field_of_view_deg,
                device.radiation,
            )
            figures = replace(figures, rangefinder=rangefinder)
    return figures
