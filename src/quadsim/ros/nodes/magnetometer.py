"""Node ``magnetometer``: the truth in, ``imu/mag`` out."""

from __future__ import annotations

from typing import Any

from rclpy.context import Context

from quadsim.ros.parts.sensor import SensorNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import main_of
from quadsim.wire import samples


class MagnetometerNode(SensorNode):
    """The magnetometer, in the axes of ``imu_link``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("magnetometer", "ist8310", **kwargs)
        self._publisher = self.offer(topics.MAGNETIC_FIELD, needed=True)
        self.make_writers()

    def make_writers(self) -> None:
        """Write the noise of these parameters into the messages."""
        variance = self.params.variance(self.environment.field_W_T())
        self._messages = samples.field_messages(self.frame("imu_link"), variance)

    def publish_sample(self, sample: Any) -> None:
        """Publish one sample."""
        self._publisher.publish(self._messages.payload(sample))


def make(context: Context, **kwargs: Any) -> MagnetometerNode:
    """Make the node in a context."""
    return MagnetometerNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
