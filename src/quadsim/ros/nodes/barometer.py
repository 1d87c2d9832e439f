"""Node ``barometer``: publishes ``imu/static_pressure`` from the true motion."""

from __future__ import annotations

from collections.abc import Mapping

from quadsim.ros.messages.sensors import PressureWriter
from quadsim.ros.parts.sensor import SensorNode, Write, kind_of
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic
from quadsim.sensors.barometer import MODEL


def messages(node: SensorNode) -> Mapping[Topic, Write]:
    """Static pressure, with the variance of the parameters."""
    return {
        topics.PRESSURE: PressureWriter(node.frame("base_link"), node.params.variance()).payload
    }


BAROMETER = kind_of(MODEL, "bmp390", messages)

make, main = entry_points(BAROMETER.make)

if __name__ == "__main__":
    main()
