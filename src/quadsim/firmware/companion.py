"""A companion that flies the mission of one vehicle through MAVLink.

It is what a computer next to the autopilot would be: it arms, sends places and velocities
(SET_POSITION_TARGET_LOCAL_NED), asks for a landing, and takes the firmware's own estimate as the
odometry on which the mission is decided. ArduPilot's and PX4's ways differ in modes and take-off.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from quadsim.base.compiled import plain
from quadsim.base.errors import FlightError
from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_ATTITUDE, MODE_POSITION, MODE_VELOCITY
from quadsim.firmware.axes import attitude_in, attitude_out, degrees_e7, flipped, swapped
from quadsim.firmware.bridge import ODOMETRY_NS, Craft, state_sigmas
from quadsim.firmware.mavlink import Message, Port
from quadsim.firmware.seeing import UNKNOWN, pose_covariance
from quadsim.firmware.targets import TargetSender, Throttle
from quadsim.firmware.upload import Upload
from quadsim.geometry.rotation import Quat, to_euler
from quadsim.mission.flight.states import LANDINGS

TICK_NS, SECOND_NS = 20_000_000, 1_000_000_000
#: If by then another autopilot was heard alone, its number is wrong.
STRANGE_NS = 5 * SECOND_NS
#: Deviations that are taken for the firmware's, m, m/s, rad: it states none of its own.
SIGMAS = (0.3, 0.2, 0.03)
#: Those while motion capture shows it where it is.
SEEN_SIGMAS = (0.03, 0.1, 0.02)
#: So far it may be from the reference before that waits, in height, m.
APART_M = 0.2
FORCE = 21196.0  # of MAV_CMD_COMPONENT_ARM_DISARM
MODE_NUMBERED, ARMED = 1, 128  # MAV_MODE_FLAG
ACCEPTED = 0
AUTOPILOT_ID = 1  # MAV_COMP_ID_AUTOPILOT1: others on board say heartbeats and poses, too


class Ways(NamedTuple):
    """How an autopilot differs: (base, main, sub) of its modes, and whether take-off is a command.

    Attributes:
        guided: mode that obeys our setpoints.
        land: that lands here.
        auto: that flies an uploaded mission.
        takes_off: by MAV_CMD_NAV_TAKEOFF, not by a setpoint in the air.
        throttle: what it makes of thrusts.
    """

    guided: tuple[int, int]
    land: tuple[int, int]
    auto: tuple[int, int]
    takes_off: bool
    throttle: Throttle


#: Modes GUIDED, LAND and AUTO (ArduCopter/mode.h).
ARDUPILOT = Ways((4, 0), (9, 0), (3, 0), True, Throttle(0.15, 0.95, True))
#: Main modes OFFBOARD, and AUTO with its sub modes LAND and MISSION (px4_custom_mode.h).
PX4 = Ways((6, 0), (4, 6), (4, 4), False, Throttle(0.0, 1.0, False))


class Companion:
    """Flies the mission of one vehicle through MAVLink.

    Args:
        upload: the mission that the autopilot flies itself; None: it is sent setpoints.

    Attributes:
        ready: whether it would arm and gives an odometry.
        armed: as its heartbeat reports.
    """

    def __init__(
        self, port: Port, craft: Craft, ways: Ways, system: int = 1, upload: Upload | None = None
    ) -> None:
        self._port, self._craft, self._ways, self._system = port, craft, ways, system
        self._upload = upload
        self._targets = TargetSender(port, system, craft.airframe, ways.throttle)
        craft.manager.goes_along = upload is not None
        self.armed = self.ready = self._heard = self._prearmed = False
        self._mode: tuple[int, int] | None = None
        self._origin_W: tuple[float, float, float] | None = None
        self._motion: tuple[Any, ...] | None = None  # stamp, p_ned, v_ned
        self._turn: Any = None  # attitude and rate
        self._boot_ns: int | None = None  # of its clock at our zero
        self._told_ns = 0
        self._asks: dict[int, int] = {}
        self._taken_off = self._left = self._lost_track = False
        self._ticks_ns = self._resets = 0

    def step(self, now_ns: int) -> None:
        """Take what has arrived; at each tick command, and tell where the vehicle is."""
        for message in self._port.receive():
            self.take(message, now_ns)
        for pose in self._craft.poses:
            self._send_pose(*pose)
        self._craft.poses.clear()
        odometry = self._craft.devices.fresh("visual_odometry")
        if odometry is not None:
            self._send_odometry(odometry[0])
        if now_ns >= self._told_ns:
            self._told_ns = now_ns + ODOMETRY_NS
            self._tell(now_ns)
        if now_ns >= self._ticks_ns:
            self._ticks_ns = now_ns + TICK_NS
            self._command(now_ns)

    # what it reports

    def take(self, message: Message, now_ns: int) -> None:
        """Take a message of the autopilot.

        Raises:
            FlightError: another autopilot speaks, and not this one.
        """
        system, component = message.get_srcSystem(), message.get_srcComponent()
        if (system, component) != (self._system, AUTOPILOT_ID):
            if component == AUTOPILOT_ID and not self._heard and now_ns > STRANGE_NS:
                raise FlightError(
                    f"{self._craft.name}: it is number {system}, {self._system} wanted:"
                    " set MAV_SYSID (ArduPilot 4.6: SYSID_THISMAV, PX4: MAV_SYS_ID)"
                )
            return
        take = getattr(self, f"_take_{message.get_type().lower()}", None)
        if take is not None:
            take(message, now_ns)
        elif self._upload is not None:
            self._upload.take(message)

    def _take_heartbeat(self, message: Message, now_ns: int) -> None:
        self._heard, number = True, message.custom_mode
        self.armed = bool(message.base_mode & ARMED)
        px4 = self._ways is PX4
        self._mode = ((number >> 16) & 255, number >> 24) if px4 else (number, 0)

    def _take_sys_status(self, message: Message, now_ns: int) -> None:
        bit = self._port.messages.MAV_SYS_STATUS_PREARM_CHECK
        self._prearmed = bool(message.onboard_control_sensors_health & bit)

    def _take_statustext(self, message: Message, now_ns: int) -> None:
        self._craft.tell(now_ns, message.text, message.severity <= 4)

    def _take_gps_global_origin(self, message: Message, now_ns: int) -> None:
        place = message.latitude * 1e-7, message.longitude * 1e-7, message.altitude * 1e-3
        x, y, z = self._craft.datum.to_enu(*place).tolist()
        self._origin_W = (x, y, z)

    def _take_local_position_ned(self, message: Message, now_ns: int) -> None:
        boot_ns = now_ns - message.time_boot_ms * 1_000_000
        self._boot_ns = boot_ns if self._boot_ns is None else min(self._boot_ns, boot_ns)
        place = swapped((message.x, message.y, message.z))
        speed = swapped((message.vx, message.vy, message.vz))
        self._motion = (message.time_boot_ms * 1_000_000, place, speed)

    def _take_attitude_quaternion(self, message: Message, now_ns: int) -> None:
        q_WB = attitude_in((message.q1, message.q2, message.q3, message.q4))
        self._turn = (q_WB, flipped((message.rollspeed, message.pitchspeed, message.yawspeed)))

    def _take_command_ack(self, message: Message, now_ns: int) -> None:
        takeoff = self._port.messages.MAV_CMD_NAV_TAKEOFF
        if message.command == takeoff and message.result == ACCEPTED:
            self._taken_off = True

    def _tell(self, now_ns: int) -> None:
        """Write the odometry, carried on to now; before it is ready there is none."""
        known = self._origin_W and self._motion and self._turn
        self.ready = self.ready or bool(known and self._prearmed)
        if not self.ready or not known:
            return
        stamp_ns, place, v_W = self._motion  # type: ignore[misc]
        late_s = (now_ns - stamp_ns - (self._boot_ns or 0)) * 1e-9
        if late_s > 1.0:  # it states nothing any more: the odometry grows old
            return
        p_W = [o + p + late_s * v for o, p, v in zip(self._origin_W, place, v_W, strict=True)]  # type: ignore[arg-type]
        self._craft.tell_odometry(now_ns, p_W, v_W, *self._turn)
        counted = {"gnss", "optical_flow"} & self._craft.sensors.keys()
        sigmas = SIGMAS if counted else SEEN_SIGMAS
        state_sigmas(self._craft.odometries, *sigmas)

    # what it is told

    def _send_pose(self, stamp_ns: int, p_W: Vec3, q_WB: Quat) -> None:
        """Send where motion capture saw it, NED about the datum (mavros' mocap/pose).

        EKF2 of PX4 takes it as external vision alone (mavros' vision_pose/pose), in Euler angles.
        """
        place, q = swapped(p_W), attitude_out(q_WB)
        if self._ways is PX4:
            angles, stamp_us = plain(to_euler)(q), stamp_ns // 1000
            self._port.send("vision_position_estimate", stamp_us, *place, *angles, UNKNOWN)
        else:
            self._port.send("att_pos_mocap", stamp_ns // 1000, q, *place)

    def _send_odometry(self, sample: np.record) -> None:
        """Send a pose in a frame of its own, with its deviations; where track is lost, none.

        PX4 takes it as ODOMETRY of MAV_FRAME_LOCAL_FRD without velocities, ArduPilot as
        VISION_POSITION_ESTIMATE: of an ODOMETRY it would take velocities, too. The count of resets
        goes on where track is found again, which no filter may take for motion.
        """
        names, q_FB = self._port.messages, tuple(sample["q_FB"].tolist())
        p_F, stamp_us = sample["p_F"].tolist(), int(sample["stamp_ns"]) // 1000
        if not math.isfinite(sum(p_F)):
            self._lost_track = True
            return
        self._resets = (self._resets + self._lost_track) % 256
        self._lost_track = False
        place, q, variances = swapped(p_F), attitude_out(q_FB), sample["variances"].tolist()
        covariance = pose_covariance(variances)
        if self._ways is PX4:
            frames = names.MAV_FRAME_LOCAL_FRD, names.MAV_FRAME_BODY_FRD
            self._port.send(
                "odometry", stamp_us, *frames, *place, q, *(math.nan,) * 6, covariance, UNKNOWN,
                self._resets, names.MAV_ESTIMATOR_TYPE_VIO, 0,
            )  # fmt: skip
        else:
            angles = plain(to_euler)(q)
            self._port.send(
                "vision_position_estimate", stamp_us, *place, *angles, covariance, self._resets
            )

    def _due(self, what: int, now_ns: int, period_ns: int = SECOND_NS // 2) -> bool:
        """Whether something is asked for anew."""
        if now_ns < self._asks.get(what, 0):
            return False
        self._asks[what] = now_ns + period_ns
        return True

    def _long(self, command: int, *values: float) -> None:
        padded = (*values, *(0.0,) * (7 - len(values)))
        self._port.send("command_long", self._system, 1, command, 0, *padded)

    def _command(self, now_ns: int) -> None:
        names, manager = self._port.messages, self._craft.manager
        if self._due(-1, now_ns, SECOND_NS):
            station = (names.MAV_TYPE_ONBOARD_CONTROLLER, names.MAV_AUTOPILOT_INVALID, 0, 0, 4, 3)
            self._port.send("heartbeat", *station)
        if not self._heard:
            return
        if not self.ready:
            self._ask_for_messages(now_ns)
            return
        if not manager.armed:
            self._taken_off = False
            if self.armed and self._due(names.MAV_CMD_COMPONENT_ARM_DISARM, now_ns):
                self._long(names.MAV_CMD_COMPONENT_ARM_DISARM, 0.0, FORCE)
        elif manager.state in LANDINGS:
            if not (self._flies_itself and self._upload.lands):  # type: ignore[union-attr]
                self._set_mode(self._ways.land, now_ns)
            self._wait_for_it()
        elif self._flies_itself:
            self._go_along()
        elif self._mode != self._ways.guided and self._left_by_itself(now_ns):
            manager.land()
        else:
            self._fly(now_ns)

    @property
    def _flies_itself(self) -> bool:
        """Whether it flies the uploaded mission."""
        return self._upload is not None and self._mode == self._ways.auto

    def _go_along(self) -> None:
        """Let our mission want what the autopilot does, until that lands."""
        manager, upload = self._craft.manager, self._upload
        if manager.state == "takeoff":
            self._wait_for_it()
        elif upload is not None and upload.lands:
            manager.land()
        else:
            x, y, z = self._craft.odometries["v_W"][0].tolist()
            manager.command_velocity((x, y, z), 0.0)

    def _left_by_itself(self, now_ns: int) -> bool:
        """Whether the firmware has left our mode in flight: it has its reasons."""
        if not self._left:
            return False
        self._left = False
        self._craft.tell(now_ns, f"flies mode {self._mode} by itself", True)
        return True

    def _fly(self, now_ns: int) -> None:
        """Mode, arming, take-off, and a setpoint."""
        names, manager, ways = self._port.messages, self._craft.manager, self._ways
        if not ways.takes_off:
            self._set_target()
        if self._upload is not None and not self._upload.accepted:
            if self._due(names.MAVLINK_MSG_ID_MISSION_COUNT, now_ns, SECOND_NS):
                self._upload.offer()
            return
        if not self._set_mode(ways.guided, now_ns):
            return
        if not self.armed:
            if self._due(names.MAV_CMD_COMPONENT_ARM_DISARM, now_ns):
                self._long(names.MAV_CMD_COMPONENT_ARM_DISARM, 1.0)
            return
        if not manager.flying:
            return
        self._left = True
        if self._upload is not None:
            if self._due(names.MAV_CMD_MISSION_START, now_ns):
                self._long(names.MAV_CMD_MISSION_START)
        elif ways.takes_off and not self._taken_off:
            if self._due(names.MAV_CMD_NAV_TAKEOFF, now_ns):
                item, assisted = manager.mission.item, manager.params.assisted
                height_m = getattr(item, "height_m", assisted.takeoff_m)
                self._long(names.MAV_CMD_NAV_TAKEOFF, *(0.0,) * 6, height_m)
        elif ways.takes_off and manager.state != "takeoff":
            self._set_target()
        if manager.state == "takeoff":
            self._wait_for_it()

    def _wait_for_it(self) -> None:
        """Let the mission's reference wait for a firmware that climbs and sinks as it will."""
        craft = self._craft
        apart_m = craft.setpoints["p_W"][0, 2] - craft.odometries["p_W"][0, 2]
        if abs(apart_m) > APART_M:
            craft.manager.give_way(TICK_NS)

    def _set_mode(self, mode: tuple[int, int], now_ns: int) -> bool:
        """Ask for a mode until it is flown; whether it is."""
        names = self._port.messages
        if self._mode == mode:
            return True
        if self._due(names.MAV_CMD_DO_SET_MODE, now_ns):
            self._left = False
            self._long(names.MAV_CMD_DO_SET_MODE, MODE_NUMBERED, *map(float, mode))
        return False

    def _ask_for_messages(self, now_ns: int) -> None:
        """Ask for what the odometry is made of, at 50 Hz, and for where its origin is."""
        names = self._port.messages
        if not self._due(-2, now_ns, SECOND_NS):
            return
        for number, rate_hz in (
            (names.MAVLINK_MSG_ID_LOCAL_POSITION_NED, 50.0),
            (names.MAVLINK_MSG_ID_ATTITUDE_QUATERNION, 50.0),
            (names.MAVLINK_MSG_ID_SYS_STATUS, 2.0),
            *([(names.MAVLINK_MSG_ID_MISSION_CURRENT, 10.0)] if self._upload else []),
        ):
            self._long(names.MAV_CMD_SET_MESSAGE_INTERVAL, number, 1e6 / rate_hz)
        if self._origin_W is None:
            if "gnss" not in self._craft.sensors:  # nothing else tells it where its zero is
                datum = self._craft.datum
                place = degrees_e7(datum.latitude_deg), degrees_e7(datum.longitude_deg)
                height_mm = round(1000.0 * datum.height_m)
                self._port.send("set_gps_global_origin", self._system, *place, height_mm)
            origin = names.MAVLINK_MSG_ID_GPS_GLOBAL_ORIGIN
            self._long(names.MAV_CMD_REQUEST_MESSAGE, origin)

    def _set_target(self) -> None:
        """Send the mission's request; on the ground: stay."""
        setpoint, craft = self._craft.setpoints[0], self._craft
        if self._origin_W is None:
            return
        mode = int(setpoint["mode"])
        if mode != MODE_VELOCITY:
            craft.thrust = None
        if craft.thrust is not None:
            self._targets.send_thrust(craft.thrust)
        elif mode == MODE_ATTITUDE:
            self._targets.send_thrust(craft.thrust_wanted())
        else:
            known = mode in (MODE_POSITION, MODE_VELOCITY)
            self._targets.send_motion(setpoint if known else craft.here(), self._origin_W)
