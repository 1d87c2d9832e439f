"""Node ``rangefinder``: a vehicle's pose in, ``range/down`` out."""

from __future__ import annotations

from typing import Any

from rclpy.context import Context

from quadsim.ros.parts.ray_sensor import SeeingNode
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import main_of
from quadsim.wire import samples


class RangefinderNode(SeeingNode):
    """The range finder that looks down."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("rangefinder", "tf_luna", **kwargs)
        self._publisher = self.offer(topics.RANGE, needed=True)
        self.make_writers()

    def make_writers(self) -> None:
        """Write the range of these parameters into the messages."""
        self._messages = samples.range_messages(self.frame("range_link"), self.params)

    def publish_sample(self, sample: Any) -> None:
        """Publish one sample."""
        self._publisher.publish(self._messages.payload(sample))


def make(context: Context, **kwargs: Any) -> RangefinderNode:
    """Make the node in a context."""
    return RangefinderNode(context=context, **kwargs)


def main() -> None:
    """Run the node."""
    main_of(make)


if __name__ == "__main__":
    main()
