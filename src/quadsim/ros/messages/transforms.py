"""Transforms on ``/tf`` and ``/tf_static``, where ``tf2_msgs`` is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geometry_msgs.msg import Transform, TransformStamped

from quadsim.geometry.rotation import conjugate, from_euler, multiply, quat, rotate
from quadsim.geometry.vector import subtract, vec3
from quadsim.ros.messages.cdr import put_xyz
from quadsim.ros.messages.world import make_time
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.qos import LATCHED, RELIABLE


def make_transform(p: Any, q: Any) -> Transform:
    """Transform message of a translation in m and a quaternion, w first."""
    message = Transform()
    rotation = message.rotation
    put_xyz(message.translation, p)
    rotation.w, rotation.x, rotation.y, rotation.z = map(float, q)
    return message


def map_to_odom(filtered: Any, odom: Any) -> tuple[Any, Any]:
    """Where ``odom`` is in ``map``: T_map_body T_odom_body^-1 (REP 105).

    Args:
        filtered, odom: ODOMETRY records of one stamp, in ``map`` and in ``odom``.

    Returns:
        Translation (3,) in m and quaternion of odom in map.
    """
    q = multiply(quat(filtered.q_WB), conjugate(quat(odom.q_WB)))
    return subtract(vec3(filtered.p_W), rotate(q, vec3(odom.p_W))), q


#: Frame to (position in m, roll, pitch, yaw in rad) in ``base_link``.
Mounts = Mapping[str, tuple[Any, tuple[float, float, float]]]


def _tf_message(node: QuadsimNode) -> Any:
    """The message class of transforms, or None where ``tf2_msgs`` is missing."""
    try:
        from tf2_msgs.msg import TFMessage
    except ImportError:
        node.get_logger().info("tf2_msgs is not installed: no /tf and no /tf_static")
        return None
    return TFMessage


def _stamped(stamp_ns: int, parent: str, child: str, p: Any, q: Any) -> TransformStamped:
    message = TransformStamped(child_frame_id=child, transform=make_transform(p, q))
    message.header.frame_id = parent
    message.header.stamp = make_time(stamp_ns)
    return message


class StaticTransforms:
    """The mounts of sensors on ``/tf_static``."""

    def __init__(self, node: QuadsimNode) -> None:
        self._kind, self._node = _tf_message(node), node
        if self._kind is not None:
            self._publisher = node.create_publisher(self._kind, "/tf_static", LATCHED)

    def publish(self, mounts: Mounts, parent: str = "base_link") -> None:
        """Say where the frames are in another, which is the body's by default."""
        if self._kind is None:
            return
        node = self._node
        self._publisher.publish(
            self._kind(
                transforms=[
                    _stamped(0, node.frame(parent), node.frame(frame), p, from_euler(*angles))
                    for frame, (p, angles) in mounts.items()
                ]
            )
        )


class Transforms:
    """map -> odom -> base_link, and the mounts of the sensors."""

    def __init__(self, node: QuadsimNode, mounts: Mounts) -> None:
        self._body, self._odom = node.frame("base_link"), node.frame("odom")
        self._message = _tf_message(node)
        if self._message is not None:
            self._publisher = node.create_publisher(self._message, "/tf", RELIABLE)
            self._mounts = StaticTransforms(node)
            self._mounts.publish(mounts)

    def move(self, mounts: Mounts) -> None:
        """Say anew where the sensors are."""
        if self._message is not None:
            self._mounts.publish(mounts)

    def publish(self, filtered: Any, odom: Any) -> None:
        """Publish where ``odom`` and the body are, from ODOMETRY records of one stamp."""
        if self._message is None:
            return
        stamp_ns = int(filtered.stamp_ns)
        p, q = map_to_odom(filtered, odom)
        self._publisher.publish(
            self._message(
                transforms=[
                    _stamped(stamp_ns, "map", self._odom, p, q),
                    _stamped(stamp_ns, self._odom, self._body, odom.p_W, odom.q_WB),
                ]
            )
        )


class WorldTransforms:
    """Bodies in one frame."""

    def __init__(self, node: QuadsimNode, frame: str) -> None:
        self._message, self._frame = _tf_message(node), frame
        if self._message is not None:
            self._publisher = node.create_publisher(self._message, "/tf", RELIABLE)

    def publish(self, stamp_ns: int, poses: Mapping[str, tuple[Any, Any]]) -> None:
        """Publish position in m and quaternion of each body, by the name of its frame."""
        if self._message is not None and poses:
            moved = [_stamped(stamp_ns, self._frame, body, *pose) for body, pose in poses.items()]
            self._publisher.publish(self._message(transforms=moved))
