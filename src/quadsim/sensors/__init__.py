"""Sensor models; every error is made here.

The tables are made when they are first asked for, so that who needs one sensor loads no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadsim.sensors.model import SensorModel

#: Every kind of sensor by its name, in the order in which the closed loop samples them.
SENSORS: dict[str, SensorModel]
#: Parameter class of every kind of device: of the sensors, and of what only the graph has.
DEVICES: dict[str, type[Any]]


def __getattr__(name: str) -> Any:
    if name not in ("SENSORS", "DEVICES"):
        raise AttributeError(f"module 'quadsim.sensors' has no attribute {name!r}")
    from quadsim.sensors import barometer, gnss, imu, lidar, magnetometer, rangefinder
    from quadsim.sensors.lidar import LidarParams

    modules = (imu, gnss, magnetometer, barometer, rangefinder)
    sensors = {module.MODEL.name: module.MODEL for module in modules}
    devices = {kind: model.params_type for kind, model in sensors.items()}
    globals().update(SENSORS=sensors, DEVICES={**devices, lidar.KIND: LidarParams})
    return globals()[name]
