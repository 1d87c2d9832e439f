"""Sensor models; every error is made here."""

from __future__ import annotations

from quadsim.sensors import barometer, gnss, imu, magnetometer, rangefinder
from quadsim.sensors.model import SensorModel

#: Every kind of sensor by its name, in the order in which the closed loop samples them.
SENSORS: dict[str, SensorModel] = {
    module.MODEL.name: module.MODEL for module in (imu, gnss, magnetometer, barometer, rangefinder)
}
