"""Node ``rangefinder``: publishes ``range/down`` from a vehicle's pose."""

from __future__ import annotations

from quadsim.ros.parts.ray_sensor import Carrier
from quadsim.ros.parts.scene_params import DeclaredScene
from quadsim.ros.parts.sensor import Messages, SensorNode, sensor_kind
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.rangefinder import MODEL
from quadsim.wire import samples


def rangefinder_messages(node: SensorNode) -> Messages:
    """The distance along the beam."""
    return [(topics.RANGE, samples.range_messages(node.frame("range_link"), node.params).payload)]


RANGEFINDER = sensor_kind(
    MODEL, "tf_luna", rangefinder_messages, scene=DeclaredScene, platform=Carrier
)

make, main = entry_points(RANGEFINDER.make)
