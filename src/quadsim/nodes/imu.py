"""Node ``imu``: the truth in, ``imu/data_raw`` out."""

from __future__ import annotations

from typing import Any

from rclpy.context import Context

from quadsim.nodes import topics
from quadsim.nodes.cdr import Reader, stamp_of
from quadsim.nodes.conversion import read_accel
from quadsim.nodes.runtime import main_of
from quadsim.nodes.sensor import SensorNode
from quadsim.nodes.sensor_messages import ImuWriter


class ImuNode(SensorNode):
    """The inertial measurement unit; a point sample waits for the acceleration of its stamp."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("imu", "adis16448", **kwargs)
        self._publisher = self.offer(topics.IMU_RAW, needed=True)
        self._writer = ImuWriter(
            self.frame("imu_link"), self.params.accel_variance(), self.params.gyro_variance()
        )
        self._accel_reader = Reader(topics.ACCEL.type_name)
        self._truth: bytes | None = None
        self._accel: bytes | None = None
        if self.params.sampling == "point":
            self.listen(topics.ACCEL, self._on_accel, needed=True)

    def on_truth(self, payload: bytes) -> None:
        """Sample at once, or keep the truth until its acceleration is there."""
        if self.params.sampling == "point":
            self._truth = payload
            self._sample_pair()
        else:
            super().on_truth(payload)

    def _on_accel(self, payload: bytes) -> None:
        self._accel = payload
        self._sample_pair()

    def _sample_pair(self) -> None:
        """Sample when truth and acceleration of one stamp are there."""
        truth, accel = self._truth, self._accel
        if truth is None or accel is None or stamp_of(truth) != stamp_of(accel):
            return
        self._truth = self._accel = None
        self.reader.read(truth)
        read_accel(self._accel_reader.read(accel), self.truth)
        sample = self.sensor.measure(self.truth)
        if sample is not None:
            self.publish_sample(sample)

    def publish_sample(self, sample: Any) -> None:
        """Publish specific force and angular rate."""
        self._publisher.publish(self._writer.payload(sample))


def make(context: Context, **kwargs: Any) -> ImuNode:
    """Make the node in a context."""
    return ImuNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
