"""Sensor models; every error is made here."""

from __future__ import annotations

from typing import Any

from quadsim.sensors import barometer, gnss, imu, lidar, magnetometer, rangefinder
from quadsim.sensors.lidar_pattern import LidarParams
from quadsim.sensors.model import SensorModel

#: Every kind of sensor by its name, in the order in which the closed loop samples them.
SENSORS: dict[str, SensorModel] = {
    module.MODEL.name: module.MODEL for module in (imu, gnss, magnetometer, barometer, rangefinder)
}

#: Parameter class of every kind of device: of the sensors, and of what only the graph has.
DEVICES: dict[str, type[Any]] = {
    **{kind: model.params_type for kind, model in SENSORS.items()},
    lidar.KIND: LidarParams,
}
