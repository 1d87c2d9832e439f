"""Parameters of the 7-state EKF: the FCND project's own figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quadsim.base.parameters import Spec


@dataclass(frozen=True)
class Ekf7Params:
    """The figures of its QuadEstimatorEKF.txt, whose names are in brackets.

    Its dtIMU is not among them: the time between two stamps takes its place.
    """

    position_walk_xy: Annotated[
        float, Spec("process noise, horizontal (QPosXYStd)", "m/sqrt(s)", ge=0.0, le=100.0)
    ] = 0.01
    position_walk_z: Annotated[
        float, Spec("process noise, vertical (QPosZStd)", "m/sqrt(s)", ge=0.0, le=100.0)
    ] = 0.05
    velocity_walk_xy: Annotated[
        float, Spec("process noise, horizontal (QVelXYStd)", "m/s/sqrt(s)", ge=0.0, le=100.0)
    ] = 0.2
    velocity_walk_z: Annotated[
        float, Spec("process noise, vertical (QVelZStd)", "m/s/sqrt(s)", ge=0.0, le=100.0)
    ] = 0.5
    yaw_walk: Annotated[float, Spec("process noise (QYawStd)", "rad/sqrt(s)", ge=0.0, le=10.0)] = (
        0.15
    )
    gps_position_xy_m: Annotated[
        float, Spec("GPS position, horizontal (GPSPosXYStd)", "m", gt=0.0, le=1000.0)
    ] = 1.0
    gps_position_z_m: Annotated[
        float, Spec("GPS position, vertical (GPSPosZStd)", "m", gt=0.0, le=1000.0)
    ] = 15.0
    gps_velocity_xy_mps: Annotated[
        float, Spec("GPS velocity, horizontal (GPSVelXYStd)", "m/s", gt=0.0, le=100.0)
    ] = 0.4
    gps_velocity_z_mps: Annotated[
        float, Spec("GPS velocity, vertical (GPSVelZStd)", "m/s", gt=0.0, le=100.0)
    ] = 0.3
    mag_yaw_rad: Annotated[float, Spec("magnetic heading (MagYawStd)", "rad", gt=0.0, le=3.0)] = 0.1
    attitude_tau_s: Annotated[
        float,
        Spec("roll and pitch follow the accelerometer so slowly (attitudeTau)", "s", gt=0.0),
    ] = 100.0
    attitude_sigma_rad: Annotated[
        float, Spec("roll and pitch as published, for no covariance of theirs", "rad", gt=0.0)
    ] = 0.1
