"""Node ``imu``: publishes ``imu/data_raw`` from the true motion."""

from __future__ import annotations

from quadsim.ros.parts.sensor import Messages, SensorNode, sensor_kind
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.imu import MODEL
from quadsim.wire import samples


def raw_imu_messages(node: SensorNode) -> Messages:
    """Specific force and angular rate, with the noise of the parameters as covariances."""
    accel, gyro = node.params.accel_variance(), node.params.gyro_variance()
    return [(topics.IMU_RAW, samples.imu_messages(node.frame("imu_link"), accel, gyro).payload)]


IMU = sensor_kind(MODEL, "adis16448", raw_imu_messages, fixed=("rate_hz",))

make, main = entry_points(IMU.make)
