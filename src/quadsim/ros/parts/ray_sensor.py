"""What the nodes ``lidar`` and ``rangefinder`` share: they ride on any vehicle, and see others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from quadsim.base.parameters import Spec
from quadsim.geometry.rotation import from_euler, quat, yaw_of
from quadsim.ros.parts.other_vehicles import Others
from quadsim.ros.parts.sensor import SensorNode
from quadsim.ros.parts.truth_input import POSES, TruthInput
from quadsim.ros.runtime.params import declare
from quadsim.world.scene.moving_scene import scene_with


@dataclass(frozen=True)
class RideParams:
    """What a sensor that sees rides on."""

    pose_type: Annotated[
        str,
        Spec(
            "where the vehicle is: odometry (ground_truth/odom), pose (external/pose_stamped)",
            choices=tuple(POSES),
        ),
    ] = "odometry"
    level: Annotated[
        bool, Spec("the rays keep level whatever the tilt, as those of no real sensor can")
    ] = False


@dataclass(frozen=True)
class RideFrames:
    """Names of frames."""

    pose: Annotated[str, Spec("of the vehicle's pose, and of others'")] = "map"


class SeeingNode(SensorNode):
    """A sensor that casts rays from a vehicle, real or simulated.

    Parameters beside those of :class:`SensorNode`: ``pose_type``, ``level``, ``frames.pose``,
    ``others.*``.
    """

    def make_input(self, record: Any, reliable: bool) -> TruthInput:
        """Subscribe to the vehicle's pose, and to others'."""
        self.ride = ride = declare(self, RideParams())
        frame = declare(self, RideFrames(), "frames.").pose
        self._others = Others(self, frame)
        needs = self._needs
        return TruthInput(self, record, needs, self._on_truth, reliable, ride.pose_type, frame)

    def look_around(self, stamp_ns: int) -> None:
        """Put the others where they are; keep level."""
        if self.ride.level:
            self._truth["q_WB"][:] = from_euler(0.0, 0.0, yaw_of(quat(self._truth["q_WB"])))
        if self._others.tracks:
            self.sensor.see(scene_with(self._scene, self._others.obstacles(stamp_ns)))
