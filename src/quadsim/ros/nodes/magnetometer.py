"""Node ``magnetometer``: publishes ``imu/mag`` from the true motion."""

from __future__ import annotations

from quadsim.ros.parts.sensor import Messages, SensorNode, sensor_kind
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.magnetometer import MODEL
from quadsim.wire import samples


def magnetometer_messages(node: SensorNode) -> Messages:
    """Magnetic field in the axes of ``imu_link``, with the variance of the parameters."""
    variance = node.params.variance(node.environment.field_W_T())
    writer = samples.field_messages(node.frame("imu_link"), variance)
    return [(topics.MAGNETIC_FIELD, writer.payload)]


MAGNETOMETER = sensor_kind(MODEL, "ist8310", magnetometer_messages)

make, main = entry_points(MAGNETOMETER.make)
