"""Node ``imu``: the truth in, ``imu/data_raw`` out."""

from __future__ import annotations

from typing import Any

from rclpy.context import Context

from quadsim.ros.parts.sensor import SensorNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import main_of
from quadsim.wire import samples


class ImuNode(SensorNode):
    """The inertial measurement unit."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("imu", "adis16448", **kwargs)
        self._publisher = self.offer(topics.IMU_RAW, needed=True)
        self.make_writers()

    def make_writers(self) -> None:
        """Write the noise of these parameters into the messages."""
        self._messages = samples.imu_messages(
            self.frame("imu_link"), self.params.accel_variance(), self.params.gyro_variance()
        )

    def publish_sample(self, sample: Any) -> None:
        """Publish specific force and angular rate."""
        self._publisher.publish(self._messages.payload(sample))


def make(context: Context, **kwargs: Any) -> ImuNode:
    """Make the node in a context."""
    return ImuNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
