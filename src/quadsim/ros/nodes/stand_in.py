"""Node ``stand_in``: what a real vehicle's driver publishes and takes, of a vehicle that is none.

It stands where mavros and a motion-capture system would: their topics, by the system's clock, at
the end of a radio link that is late and loses messages. Behind it the vehicle of a rehearsal flies
in real time (:mod:`quadsim.hil.rehearsal.stand_in`), and a judge who sees the truth. Nothing in
this node is known to the nodes that fly it, but for what it publishes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sensor_msgs.msg import Imu
from std_msgs.msg import Bool
from std_srvs.srv import SetBool, Trigger

from quadsim.base.compiled import new_record
from quadsim.base.files import find_world
from quadsim.base.parameters import Vec3
from quadsim.base.records import KINEMATICS
from quadsim.firmware.targets import ThrustTarget
from quadsim.hil.rehearsal.rehearsal import load_rehearsal, refuse_on_dds
from quadsim.hil.rehearsal.stand_in import Telemetry, VehicleCommand
from quadsim.hil.rehearsal.stopping import Stop
from quadsim.hil.rehearsal.vehicle_side import VehicleSide
from quadsim.ros.graph.options import FirmwareSource
from quadsim.ros.messages.cdr import MessageError, stamp_ns_of, stamp_of, xyz
from quadsim.ros.messages.commands import read_velocity_command
from quadsim.ros.messages.conversion import OdometryWriter
from quadsim.ros.runtime import qos, topics
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.latency import Latency
from quadsim.ros.runtime.params import declare, declare_one
from quadsim.ros.runtime.runtime import entry_points
from quadsim.ros.runtime.topics import Topic
from quadsim.wire.encode import Template
from quadsim.world.scene.scene import Scene, scene_of
from quadsim.world.sdf.world_file import load_world

#: How often the wall clock is looked at.
TURN_S = 0.004
#: How often the mode is published, apart from its changes.
MODE_S = 0.5
#: Real time that is made up for; beyond it the vehicle's clock is set forward.
CATCH_UP_NS = 200_000_000
#: Topics of mavros and of vrpn_mocap, as in config/drivers/mavros.yaml and mocap.yaml.
DRIVER = qos.profile(5, reliable=False)
ODOMETRY = Topic("mavros/local_position/odom", "nav_msgs/msg/Odometry", DRIVER, DRIVER, ())
POSE = Topic("mavros/local_position/pose", "geometry_msgs/msg/PoseStamped", DRIVER, DRIVER, ())
TRACKER = Topic("vrpn_mocap/quad/pose", "geometry_msgs/msg/PoseStamped", DRIVER, DRIVER, ())
OFFBOARD = Topic("mavros/offboard", "std_msgs/msg/Bool", qos.RELIABLE, qos.RELIABLE, ())
SETPOINT = Topic(
    "mavros/setpoint_velocity/cmd_vel", "geometry_msgs/msg/TwistStamped", qos.RELIABLE,
    qos.best_effort(qos.RELIABLE), (),
)  # fmt: skip
THRUST = Topic(
    "mavros/setpoint_raw/attitude", "sensor_msgs/msg/Imu", qos.RELIABLE,
    qos.best_effort(qos.RELIABLE), (),
)  # fmt: skip


def _standing(world: str) -> Scene:
    """The obstacles of a world; its ground is none."""
    obstacles = load_world(find_world(world)).obstacles
    return scene_of([obstacle for obstacle in obstacles if not obstacle.is_level_ground()])


def _poses_in(frame: str) -> Callable[[int, Vec3, Any], bytes]:
    """What makes PoseStamped messages in a frame, of stamp, place and quaternion, w first."""
    template = Template.of(POSE.type_name, frame)

    def payload(stamp_ns: int, p_W: Vec3, q_WB: Any) -> bytes:
        return template.payload(stamp_ns, p=p_W, q_xyzw=(*q_WB[1:], q_WB[0]))

    return payload


class Other:
    """One of a rehearsal's movers, as another vehicle publishes itself.

    Args:
        name: of it; its topic is ``/others/NAME/odom``.
    """

    def __init__(self, node: QuadsimNode, name: str) -> None:
        self._record = new_record(KINEMATICS)
        self._record["q_WB"][0] = 1.0
        self._writer = OdometryWriter("map", f"{name}/base_link", self._record)
        self._publisher = node.offer(
            Topic(ODOMETRY.name, ODOMETRY.type_name, DRIVER, DRIVER, ()), f"/others/{name}/odom"
        )

    def publish(self, stamp_ns: int, p_W: Vec3, v_W: Vec3) -> None:
        """Say where it is."""
        self._record["p_W"][:], self._record["v_W"][:] = p_W, v_W
        self._record["stamp_ns"] = stamp_ns
        self._publisher.publish(self._writer.payload())


class StandInNode(QuadsimNode):
    """A rehearsal's vehicle, its motion capture, its radio link, what moves next to it, its judge.

    Parameters: ``rehearsal`` (a file of ``config/rehearsals``), ``seed``, ``duration_s``, ``world``
    (whose obstacles the judge looks at; empty: those of the rehearsal), and which firmware flies it
    (:class:`~quadsim.ros.graph.options.FirmwareSource`).
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("stand_in", **kwargs)
        name = declare_one(self, "rehearsal", "pillars", "a file of config/rehearsals, or a path")
        seed = declare_one(self, "seed", 1, "of field, vehicle and noise", ge=0)
        firmware = declare(self, FirmwareSource()).choice
        self.rehearsal = rehearsal = load_rehearsal(name, seed, firmware=firmware)
        refuse_on_dds(rehearsal)
        last_s = declare_one(self, "duration_s", 600, "it is switched off after this time, s", ge=1)
        scenario = replace(
            rehearsal.scenario, file=replace(rehearsal.scenario.file, duration_s=float(last_s))
        )
        world = declare_one(self, "world", "", "what the judge sees; empty: as the rehearsal")
        scene = _standing(world) if world else rehearsal.scene
        self._side = VehicleSide(rehearsal, scenario, scene)
        self.when_destroyed(self._side.close)
        self._vehicle = self._side.vehicle
        self._vehicle.arms = False
        self._wait_for_firmware()
        self._offer_all()
        self._begun_ns = 0  # system's time at which the vehicle's clock began
        self._offboard = self._said_offboard = False
        self._said = ""
        self._latency = Latency()
        self.slips = 0
        self.wall_timer(TURN_S, self._turn)
        self.wall_timer(MODE_S, self._say_mode)

    def _wait_for_firmware(self) -> None:
        """Let firmware start, as quickly as it does."""
        side, vehicle = self._side, self._vehicle
        while vehicle.held and vehicle.stamp_ns * 1e-9 < self.rehearsal.takeoff_s:
            side.tick()
        side.poses.receive(vehicle.stamp_ns)  # nobody has heard them

    def _offer_all(self) -> None:
        self._odometry = self.offer(ODOMETRY)
        self._pose = self.offer(POSE)
        self._tracker = self.offer(TRACKER)
        self._mode = self.offer(OFFBOARD)
        self._true = self.offer(topics.TRUTH)
        self._estimate = new_record(KINEMATICS)
        self._truth = new_record(KINEMATICS)
        self._odometry_writer = OdometryWriter("map", "base_link", self._estimate)
        self._truth_writer = OdometryWriter("map", "base_link", self._truth)
        self._pose_writer, self._tracker_writer = _poses_in("map"), _poses_in("world")
        self._others = {
            mover.name: Other(self, mover.name) for mover in self.rehearsal.field.movers
        }
        self.listen(SETPOINT, self._on_setpoint)
        self.listen(THRUST, self._on_thrust, raw=False)
        self.create_service(SetBool, "mavros/cmd/arming", self._on_arm)
        self.create_service(Trigger, "mavros/set_mode/offboard", self._on_offboard)
        self.create_service(Trigger, "mavros/set_mode/land", self._on_land)

    # ---- what it is told -----------------------------------------------------------------------

    def _on_arm(self, request: Any, response: Any) -> Any:
        """Arm, and take off as a pilot would; or stop the motors on the ground."""
        manager = self._vehicle.manager
        if request.data:
            self._vehicle.arms = True
            response.success, response.message = True, "takes off"
        else:
            refused = manager.disarm()
            response.success, response.message = refused is None, refused or manager.state
        return response

    def _on_offboard(self, _: Any, response: Any) -> Any:
        """Obey setpoints from now on."""
        state = self._vehicle.manager.state
        response.success = self._offboard = state == "hover"
        response.message = "" if self._offboard else f"it is {state}; it must hover"
        return response

    def _on_land(self, _: Any, response: Any) -> Any:
        """Land by itself; or, as a message that was lost would have it, say so alone."""
        if self._vehicle.is_deaf:
            response.success, response.message = True, "lands"
            return response
        self._offboard = False
        manager = self._vehicle.manager
        if not (self._side.landing or manager.finished):
            refused = manager.land()
            if refused is not None:
                response.success, response.message = False, refused
                return response
            self._side.landing_began("told to")
        response.success, response.message = True, "lands"
        return response

    def _on_setpoint(self, payload: bytes) -> None:
        """A setpoint is at the transmitter; it is on its way through the air now."""
        self._latency.answered(stamp_of(payload), time.monotonic_ns())
        v_W, yaw_rate = read_velocity_command(payload, self._estimate["q_WB"])
        if not math.isfinite(sum(v_W) + yaw_rate):
            raise MessageError("a number in it is not finite")
        self._side.commands.send(self._now_ns(), VehicleCommand(stamp_of(payload), v_W, yaw_rate))

    def _on_thrust(self, message: Imu) -> None:
        """An attitude, or body rates, is at the transmitter."""
        stamp_ns = stamp_ns_of(message.header.stamp)
        self._latency.answered(stamp_ns, time.monotonic_ns())
        q, w_B = message.orientation, xyz(message.angular_velocity)
        rates = message.orientation_covariance[0] < 0.0
        target = ThrustTarget((q.w, q.x, q.y, q.z), w_B, message.linear_acceleration.z, rates)
        if not math.isfinite(sum(target.q_WB) + sum(w_B) + target.thrust_mps2):
            raise MessageError("a number in it is not finite")
        told = VehicleCommand(stamp_ns, (0.0, 0.0, 0.0), 0.0, thrust=target)
        self._side.commands.send(self._now_ns(), told)

    # ---- time ----------------------------------------------------------------------------------

    def _now_ns(self) -> int:
        """The vehicle's time: it has run since the node first spun."""
        return time.time_ns() - self._begun_ns

    def _turn(self) -> None:
        """Fly up to now, and pass on what is through the link by now."""
        vehicle = self._vehicle
        if not self._begun_ns:
            self._begun_ns = time.time_ns() - vehicle.stamp_ns
        now_ns = self._now_ns()
        behind_ns = now_ns - vehicle.stamp_ns
        if behind_ns > CATCH_UP_NS:
            self.slips += 1
            self._begun_ns += behind_ns
            now_ns = self._now_ns()
        while vehicle.stamp_ns + vehicle.tick_ns <= now_ns and not self._ended:
            self._tick()
            self._pass_on()  # behind time, poses do not wait for the last tick
        self._pass_on()
        if self.obeys != self._said_offboard:
            self._say_mode()
        if self._status() != self._said:
            self._said = self._status()
            self.report()

    def _pass_on(self) -> None:
        """Pass on what is through the link by now."""
        now_ns = self._now_ns()
        for command in self._side.commands.receive(now_ns):
            if self._offboard:
                self._obey(command)
        for stated in self._side.poses.receive(now_ns):
            self._publish(stated)

    @property
    def _ended(self) -> bool:
        """Whether the vehicle has landed or crashed, or is switched off."""
        return bool(self._side.reason) and self._vehicle.over

    @property
    def obeys(self) -> bool:
        """Whether it takes setpoints: it was told to, and does not land."""
        return self._offboard and not (self._side.landing or self._ended)

    def _say_mode(self) -> None:
        self._said_offboard = self.obeys
        self._mode.publish(Bool(data=self._said_offboard))

    def _obey(self, command: VehicleCommand) -> None:
        self._vehicle.obey(command)
        if not self._vehicle.refused:
            self._side.begin()

    def _tick(self) -> None:
        side, vehicle = self._side, self._vehicle
        is_due = side.tick()
        for name in side.appeared:
            self.tell_event(0, "appeared", name)
        side.appeared.clear()
        if side.begun_ns is not None and not side.reason and (reason := side.ending()):
            side.ended_ns, side.reason = vehicle.stamp_ns, reason
        for seen in vehicle.arrived:
            self._tracker.publish(
                self._tracker_writer(self._begun_ns + seen.stamp_ns, seen.p_W, seen.q_WB)
            )
        if is_due:
            self._show_truth()

    def _publish(self, stated: Telemetry) -> None:
        """A pose has come through the link: the driver states it."""
        stamp_ns = self._begun_ns + stated.stamp_ns
        estimate = self._estimate
        estimate["p_W"][:], estimate["v_W"][:] = stated.p_W, stated.v_W
        estimate["q_WB"][:], estimate["stamp_ns"] = stated.q_WB, stamp_ns
        payload = self._odometry_writer.payload()
        self._odometry.publish(payload)
        self._latency.asked(stamp_ns, time.monotonic_ns())
        self._pose.publish(self._pose_writer(stamp_ns, stated.p_W, stated.q_WB))

    def _show_truth(self) -> None:
        """Truth and the others, as of now."""
        stamp_ns, movers = self._begun_ns + self._vehicle.stamp_ns, self._side.movers
        true = self._vehicle.state["truth"][0]
        for key in ("p_W", "v_W", "q_WB", "w_B"):
            self._truth[key] = true[key]
        self._truth["stamp_ns"] = stamp_ns
        self._true.publish(self._truth_writer.payload())
        for obstacle, shape in zip(movers.obstacles(), movers.shapes(), strict=True):
            self._others[obstacle.name].publish(stamp_ns, shape.p_W, shape.v_W)

    # ---- status --------------------------------------------------------------------------------

    def _status(self) -> str:
        return self._side.reason or self._vehicle.manager.state

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """How the flight goes, by the truth."""
        side = self._side
        values = {
            "state": self._vehicle.manager.state,
            "over": side.reason,
            "offboard": str(self._offboard).lower(),
            "t_s": max(side.t_s, 0.0),
            "clearance_m": side.judge.clearance_m,
            "speed_mps": side.speed_mps,
            "way_m": side.way_m,
            "landing": side.landing,
            "refused": self._vehicle.refused,
            "slips": self.slips,
            "poses_lost": side.poses.lost,
            "setpoints": side.commands.sent,
            "setpoints_lost": side.commands.lost,
            **self._latency.values("setpoint_latency", time.monotonic_ns()),
            "flying": str(side.begun_ns is not None and not side.reason).lower(),
            **stop_values(side.stopping.stops),
        }
        return 0, self._status(), values


def stop_values(stops: Sequence[Stop]) -> dict[str, float | str]:
    """What each trouble led to, as values of a report."""
    return {
        f"stop {k} {key}": value
        for k, stop in enumerate(stops)
        for key, value in stop.row().items()
    }


make, main = entry_points(StandInNode)
