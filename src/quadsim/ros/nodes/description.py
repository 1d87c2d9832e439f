"""Node ``description``: ``robot_description`` of a vehicle whose physics is not ours.

In a simulation ``dynamics`` publishes it for each of its vehicles.
"""

from __future__ import annotations

from typing import Any

from std_msgs.msg import String

from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.gazebo.urdf import robot_description
from quadsim.ros.graph.vehicles import frame_prefix
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.params import declare_one
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import full_name
from quadsim.sensors.devices import load_suite
from quadsim.vehicle.parameters import VehicleParams


class Description:
    """The latched topic of one vehicle."""

    def __init__(self, node: QuadsimNode, namespace: str) -> None:
        topic = topics.ROBOT_DESCRIPTION
        self._prefix = frame_prefix(namespace)
        self._output = node.offer(topic, full_name(namespace, topic.name))
        self._told = ""

    def tell(self, vehicle: VehicleParams, sensors: str) -> None:
        """Publish what a vehicle with a suite looks like, unless that has been stated already.

        Raises:
            InputError: the suite cannot be read.
        """
        text = robot_description(vehicle, load_suite(sensors), self._prefix)
        if text != self._told:
            self._told = text
            self._output.publish(String(data=text))


def declare_sensors(node: Any, when: str = "") -> str:
    """Declare the parameter that names the suite; its value."""
    doc = "a file of config/sensors/suites, or a path: for robot_description"
    return declare_one(node, "sensors", "default", doc, when)


class DescriptionNode(QuadsimNode):
    """Says once what the vehicle looks like, and stays for those who come later."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("description", **kwargs)
        vehicle = declare_one(self, "vehicle", "x500", "a file of config/vehicles, or a path")
        self._description = Description(self, self.get_namespace())
        params = load(VehicleParams, find("vehicles", vehicle))
        self._description.tell(params, declare_sensors(self))


make, main = entry_points(DescriptionNode)
