"""Node ``barometer``: the truth in, ``imu/static_pressure`` out."""

from __future__ import annotations

from typing import Any

from rclpy.context import Context

from quadsim.ros.parts.sensor import SensorNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import main_of
from quadsim.wire import samples


class BarometerNode(SensorNode):
    """The static pressure sensor."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("barometer", "bmp390", **kwargs)
        self._publisher = self.offer(topics.PRESSURE, needed=True)
        self.make_writers()

    def make_writers(self) -> None:
        """Write the noise of these parameters into the messages."""
        self._messages = samples.pressure_messages(self.frame("base_link"), self.params.variance())

    def publish_sample(self, sample: Any) -> None:
        """Publish one sample."""
        self._publisher.publish(self._messages.payload(sample))


def make(context: Context, **kwargs: Any) -> BarometerNode:
    """Make the node in a context."""
    return BarometerNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
