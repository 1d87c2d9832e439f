"""Nodes of the sensors in the table; what carries lidar, depth camera and range finder."""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Any

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import from_euler, quat, yaw_of
from quadsim.ros.messages.transforms import StaticTransforms
from quadsim.ros.parts.other_vehicles import Others
from quadsim.ros.parts.sensor import Health, Messages, SensorKind, SensorNode
from quadsim.ros.parts.truth_input import POSES, TruthInput, declare_pose_frame
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.params import declare_one
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors import SECOND, TABLE, TWICE, module_of
from quadsim.sensors.model import SensorModel, SimulatedSensor
from quadsim.wire.samples import SampleMessages
from quadsim.world.scene.moving_scene import scene_with

#: Roll, pitch and yaw of an optical frame in that of its camera, rad.
OPTICAL_RPY = (-0.5 * math.pi, 0.0, -0.5 * math.pi)


def kind_of(kind: str) -> SensorKind:
    """What the node of a kind of sensor publishes, by the table of sensors."""
    model: SensorModel = module_of(kind).MODEL

    def messages(node: SensorNode) -> Messages:
        return [
            (topics.SENSORS[topic.name], partial(_written, made))
            for topic, made in model.outputs(
                node.params, node.environment, node.frame(""), kind + SECOND * node.second
            )
        ]

    def health(node: SensorNode) -> Health:
        assert model.health is not None
        return model.health(node.params, node.sample)

    return SensorKind(
        kind,
        TABLE[kind].device,
        model.params_type,
        model.needs,
        partial(SimulatedSensor, model),
        messages,
        fixed=model.fixed,
        platform=Carrier if model.carried else None,
        health=health if model.health is not None else None,
        twice=kind in TWICE,
    )


def _written(messages: SampleMessages, sample: Any) -> bytes | None:
    """The message of a sample, if it has one."""
    return messages.payload(sample) if messages.exist is None or messages.exist(sample) else None


class sensor_module:
    """What a module of ``ros/nodes`` would give of the node of a kind of sensor."""

    def __init__(self, kind: str) -> None:
        self.make, self.main = entry_points(kind_of(kind).make)


class Carrier:
    """Any vehicle, real or simulated, that carries a sensor which sees other vehicles.

    Parameters: ``pose_type``, ``level``, ``frames.pose``, ``others.*``.
    """

    def __init__(self, node: SensorNode) -> None:
        self._node = node
        words = "where the vehicle is: odometry (ground_truth/odom), pose (external/pose_stamped)"
        self._pose_type = declare_one(node, "pose_type", "odometry", words, choices=tuple(POSES))
        words = "the rays keep level whatever the tilt, as those of no real sensor can"
        self._level = declare_one(node, "level", False, words)
        self._frame = declare_pose_frame(node)
        self._others = Others(node, self._frame)

    def listen(self, reliable: bool) -> TruthInput:
        """Subscribe to the vehicle's pose."""
        node = self._node
        return TruthInput(
            node, node.truth, node.needs, node.on_truth, reliable, self._pose_type, self._frame
        )

    def show_mount(self, frame: str, position_B_m: Vec3, rotation_deg: Vec3) -> None:
        """Publish where on the vehicle the sensor sits."""
        roll, pitch, yaw = map(math.radians, rotation_deg)
        self._transforms.publish({frame: (position_B_m, (roll, pitch, yaw))})

    def show_optical(self, camera: str, frame: str) -> None:
        """Publish the optical frame of a camera: z ahead, x right, y down (REP-103)."""
        self._transforms.publish({frame: ((0.0, 0.0, 0.0), OPTICAL_RPY)}, camera)

    @cached_property
    def _transforms(self) -> StaticTransforms:
        return StaticTransforms(self._node)

    def prepare(self, stamp_ns: int) -> None:
        """Put the other vehicles where they are, and the rays level if they keep level."""
        q_WB = self._node.truth["q_WB"]
        if self._level:
            q_WB[:] = from_euler(0.0, 0.0, yaw_of(quat(q_WB)))
        if self._others.tracks:
            obstacles = self._others.obstacles(stamp_ns)
            self._node.sensor.see(scene_with(self._node.scene, obstacles))
