"""Node ``rangefinder``: publishes ``range/down`` from a vehicle's pose."""

from __future__ import annotations

from collections.abc import Mapping

from quadsim.ros.messages.sensors import RangeWriter
from quadsim.ros.parts.ray_sensor import Carrier
from quadsim.ros.parts.scene_params import declare_scene
from quadsim.ros.parts.sensor import SensorNode, Write, kind_of
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic
from quadsim.sensors.rangefinder import MODEL


def messages(node: SensorNode) -> Mapping[Topic, Write]:
    """The distance along the beam."""
    return {topics.RANGE: RangeWriter(node.frame("range_link"), node.params).payload}


RANGEFINDER = kind_of(MODEL, "tf_luna", messages, scene=declare_scene, platform=Carrier)

make, main = entry_points(RANGEFINDER.make)

if __name__ == "__main__":
    main()
