"""Node ``barometer``: publishes ``imu/static_pressure`` from the true motion."""

from __future__ import annotations

from quadsim.ros.parts.sensor import Messages, SensorNode, sensor_kind
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.barometer import MODEL
from quadsim.wire import samples


def barometer_messages(node: SensorNode) -> Messages:
    """Static pressure, with the variance of the parameters."""
    writer = samples.pressure_messages(node.frame("base_link"), node.params.variance())
    return [(topics.PRESSURE, writer.payload)]


BAROMETER = sensor_kind(MODEL, "bmp390", barometer_messages)

make, main = entry_points(BAROMETER.make)
