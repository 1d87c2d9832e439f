"""Node ``autopilot``: an odometry, a mission and commands in, ``command_attitude`` out.

It steps on the odometry's stamps, 50 times a second, and on ROS time when no odometry comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from std_msgs.msg import String
from std_srvs.srv import SetBool

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import Spec, Vec3, new, pack, read_yaml
from quadsim.base.records import ODOMETRY, SETPOINT, AttitudeCommand
from quadsim.control.airframe import AirframeParams, pack_airframe
from quadsim.control.joystick import GAP_S, RELEASED, Joystick, load_joystick
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import new_position_control, position_control
from quadsim.mission.flight.flight import FlightManager
from quadsim.mission.items import Item, items_from, name_of
from quadsim.mission.script import Command, Script, commands_from
from quadsim.mission.swarms import missions_of, moved_command
from quadsim.mission.trajectories.limits import check_trajectories
from quadsim.ros.messages import missions
from quadsim.ros.messages.cdr import MessageError, stamp_ns_of, stamp_of
from quadsim.ros.messages.conversion import OdometryReader, read_variances
from quadsim.ros.messages.markers import mission_markers
from quadsim.ros.parts.control_params import (
    MOTOR_LOST,
    changed_controller,
    declare_controller,
    read_controller,
)
from quadsim.ros.parts.odometry import OdometrySource
from quadsim.ros.parts.scene_params import SCENE, DeclaredScene
from quadsim.ros.parts.vehicle_commands import VehicleCommands
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import QuadsimNode, values_of
from quadsim.ros.runtime.params import ON_RESET, current, declare, declare_one, on_reset
from quadsim.ros.runtime.reset_times import Ahead, Behind
from quadsim.ros.runtime.resets import FILES, Resets
from quadsim.ros.runtime.runtime import entry_points
from quadsim.sensors.error_terms import due
from quadsim.wire import samples
from quadsim.wire.encode import attitude_template
from quadsim.wire.samples import SampleMessages
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.raycast_terrain import NO_TERRAIN

#: What the buttons of a joystick ask of the flight manager.
REQUESTS = {
    "arm": "arm",
    "disarm": "disarm",
    "take_off": "take_off",
    "land": "land",
    "hover": "pause",
    "start": "start",
    "assisted": "assist",
    "manual": "fly_manually",
}
#: Which of them count though several publish ``joy``: those that end something.
ENDING = ("disarm", "land", "hover")
#: Odometry later than so many steps counts as none.
PATIENCE = 3


@dataclass(frozen=True)
class MissionParams:
    """Where a vehicle flies the mission of several."""

    mission_offset_W_m: Annotated[
        Vec3, Spec("added to the places of the mission's file", "m", ge=-1e6, le=1e6)
    ] = (0.0, 0.0, 0.0)


def mission_items(
    name: str, autopilot: AutopilotParams, offset_W_m: Vec3 = (0.0, 0.0, 0.0)
) -> tuple[tuple[Item, ...], tuple[Command, ...]]:
    """Mission of a scenario's file, and the commands given on the way; none for an empty name."""
    if not name:
        return (), ()
    path = find("scenarios", name)
    content = read_yaml(path)
    items = items_from(content.get("mission", []), str(path))
    ground_m = (content.get("environment") or {}).get("ground_height_m", 0.0)
    check_trajectories(items, [name_of(item) for item in items], autopilot, ground_m, str(path))
    (items,) = missions_of(items, [offset_W_m], [offset_W_m], autopilot.flight)
    given = commands_from(content.get("commands", []), str(path))
    return items, tuple(moved_command(command, offset_W_m) for command in given)


class AutopilotNode(QuadsimNode):
    """Flight manager and position loop."""

    manager: FlightManager
    _position: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("autopilot", **kwargs)
        self._gains, self._airframe = declare_controller(self, "autopilot")
        mission = declare_one(self, "mission", "", "a scenario whose mission is flown")
        self._auto_start = declare_one(self, "auto_start", False, "arm and start when possible")
        reliable = declare_one(self, "odometry_reliable", True, "ask for a reliable odometry")
        use_truth = declare_one(
            self, "use_truth", False, "begin on the truth, not the estimate", ON_RESET
        )
        words = "a mapping of config/joysticks, or a path; empty: joy is not heard"
        joystick = declare_one(self, "joystick", "", words)
        self._joy_rivals = ""
        self._params: Any = pack(self._gains)
        self._period_ns = round(1e9 / self._gains.position.rate_hz)
        self._declare_map()
        self._terrain, self._flat_m = self._map_of({})
        self._mission_name = mission
        self._offset_W_m = declare(self, MissionParams()).mission_offset_W_m
        self._filed, script = mission_items(mission, self._gains, self._offset_W_m)
        self._items = self._filed
        self._odometries: NDArray[np.record] = np.zeros(1, ODOMETRY)
        self._commands = VehicleCommands(self, self.get_namespace())
        self._odometry = self._commands.odometry = self._odometries[0]
        self._begin_flight(script, 0)
        self._stepped_ns = self._odometry_ns = 0
        self._offer_all()
        self._reader = OdometryReader(self._odometry)
        self._source = OdometrySource(self, self._on_odometry, reliable)
        if use_truth:
            self._source.switch("truth")
        self._publish_mission()
        self._source_output.publish(String(data=self._source.name))
        self._commands.tell(())
        self._listen()
        if joystick:
            self._joystick = Joystick(load_joystick(joystick))
            self._joy = self.listen(
                topics.JOY, self._on_joy, raw=False, reliable=False, note_publishers=True
            )
        self.create_service(SetBool, "use_truth", self._on_use_truth)
        self._resets = Resets(
            self, "autopilot", partial(read_controller, self), self._take, self._restart
        )
        self.listen(topics.EVENTS, self._on_event, raw=False)
        self._ahead, self._behind = Ahead(), Behind()
        self.when_time_goes_back(self._on_time_back, "disarmed, the mission begins anew")
        self.wall_timer(self._period_ns * 1e-9, self._watch)

    def _apply(self, gains: AutopilotParams, airframe: AirframeParams) -> None:
        """What holds from the next step on; another way to fly begins on the ground."""
        flight = gains.flight != self._gains.flight
        self._gains, self._airframe = gains, airframe
        self._params = pack(gains)
        anew = new_position_control(gains, pack_airframe(airframe))
        for limit in ("thrust_min", "thrust_max"):
            self._position[limit] = anew[limit]
        if flight and not self.manager.armed:
            finished = self.manager.finished
            self._make_manager()
            self.manager.finished = finished  # else auto_start would fly again

    def _take(self, changed: dict[str, Any], reset: bool) -> Callable[[], None]:
        """Gains, the map of the ground, and what is flown on."""
        turning = None if reset else self.manager.armed
        apply_gains = changed_controller(self, "autopilot", changed, turning, self._apply)
        in_scene = any(name.startswith(SCENE) for name in changed)
        ground = self._map_of(changed) if in_scene else (self._terrain, self._flat_m)

        def apply() -> None:
            self._terrain, self._flat_m = ground
            apply_gains()
            if "use_truth" in changed:
                self._switch_source("truth" if changed["use_truth"] else "estimate")

        return apply

    def _restart(self, reset_ns: int, read: bool) -> None:
        """Fly the mission again, as its file states now; one given by somebody else stays."""
        script = self._script_commands
        if read:
            try:
                items, script = mission_items(self._mission_name, self._gains, self._offset_W_m)
            except InputError as error:
                self.tell_event(1, FILES, f"{self.get_name()}: the mission stays: {error}")
            else:
                self._items = items if self._items == self._filed else self._items
                self._filed = items
        self._begin_flight(script, reset_ns)
        self._publish_mission()
        self._commands.tell(())

    def _on_time_back(self) -> None:
        """Disarmed at the mission's beginning, as a node that starts, in simulation only."""
        self._resets.forget()
        self._stepped_ns = self._odometry_ns = 0
        self._begin_flight(self._script_commands, 0)
        self._commands.tell(())

    def _begin_flight(self, script: Sequence[Command], begin_ns: int) -> None:
        """Disarmed, at the mission's beginning; commands count from here."""
        self._make_manager()
        self._script_commands, self._begun_ns = script, begin_ns
        self._script = Script(script)
        self._position = new_position_control(self._gains, pack_airframe(self._airframe))
        self._setpoints: NDArray[np.record] = np.zeros(1, SETPOINT)
        self._setpoint, self._command = self._setpoints[0], new(AttitudeCommand)

    def _on_event(self, message: Any) -> None:
        """Of the other nodes: the world was reset, a motor is lost."""
        self._resets.hear(message)
        values = values_of(message)
        if message.name == MOTOR_LOST and "motor" in values:
            if not values["motor"].isdecimal():
                raise MessageError(f"motor: {values['motor']!r} is no number of a motor")
            self.manager.motor_lost(int(values["motor"]))
            self._report_events()

    def _declare_map(self) -> None:
        """What the map of the ground is made of, where the autopilot has one."""
        if self._gains.flight.ground.map:
            declare(self, EnvironmentParams(), "environment.", on_reset)
            self._make_scene = DeclaredScene(self)

    def _map_of(self, changed: dict[str, Any]) -> tuple[Any, float]:
        """The map of the ground and the height around it, of parameters that change and others."""
        if not self._gains.flight.ground.map:
            return NO_TERRAIN, 0.0
        environment = current(self, EnvironmentParams, "environment.", changed)
        return self._make_scene(changed).terrain, environment.ground_height_m

    def _make_manager(self) -> None:
        flight, position = self._gains.flight, self._gains.position
        self.manager = self._commands.manager = FlightManager(
            flight, self._items, self._terrain, self._flat_m, position
        )

    def _offer_all(self) -> None:
        self._attitude = self.offer(topics.COMMAND_ATTITUDE, needed=True)
        self._velocity = self.offer(topics.COMMAND_VELOCITY)
        self._reference = self.offer(topics.REFERENCE)
        self._source_output = self.offer(topics.STATE_SOURCE)
        self._markers = self.offer(topics.MARKERS)
        body = self.frame("base_link")
        self._attitude_messages = SampleMessages(attitude_template(body), samples.attitude_numbers)
        self._wish, self._where = samples.velocity_command_messages(), samples.reference_messages()

    def _listen(self) -> None:
        self.listen(topics.MISSION, self._on_mission)
        self.listen(topics.RANGE, self._on_range, raw=False)
        self.listen(topics.BATTERY, self._on_battery, raw=False)
        self.listen(topics.DIAGNOSTICS, self._on_reports, raw=False)

    # ---- requests ------------------------------------------------------------------------------

    def _on_use_truth(self, request: Any, response: Any) -> Any:
        self._switch_source("truth" if request.data else "estimate")
        return self._commands.answer(response, None)

    def _switch_source(self, name: str) -> None:
        self._source.switch(name)
        self.manager.source_changed()
        self._source_output.publish(String(data=self._source.name))

    def _on_button(self, name: str) -> None:
        """Obey a button of the joystick; a refusal is an event."""
        rivals = "" if name in ENDING else self._joy_rivals
        if name == "source" and not rivals:
            self._switch_source("estimate" if self._source.name == "truth" else "truth")
            return
        refused = rivals or getattr(self.manager, REQUESTS[name])()
        if refused:
            self.tell_event(1, "button refused", f"{name}: {refused}")
            self.get_logger().info(f"joystick: {name} refused: {refused}")
        self._report_events()

    def _on_joy(self, message: Any) -> None:
        """Obey buttons, and fly by the sticks in the states in which somebody may.

        Buttons are timed by the node's clock: a driver's stamps are of its own.
        """
        now_ns = self.get_clock().now().nanoseconds
        try:
            reading = self._joystick.read(message.axes, message.buttons, now_ns)
        except InputError as error:
            raise MessageError(str(error)) from None
        self._joy_rivals = self.rivals(topics.JOY.name, self._joy.heard, GAP_S)
        for name in reading.asked:
            self._on_button(name)
        self.manager.take_sticks(RELEASED if self._joy_rivals else reading.sticks)

    def _on_range(self, message: Any) -> None:
        """Hand a reading on; what its sensor cannot see is too near or too far (REP 117)."""
        range_m = message.range
        if range_m < message.min_range:
            range_m = -math.inf
        elif 0.0 < message.max_range < range_m:
            range_m = math.inf
        stamp_ns, variance_m2 = stamp_ns_of(message.header.stamp), getattr(message, "variance", 0.0)
        self.manager.take_range(stamp_ns, range_m, variance_m2, 0.5 * message.field_of_view)

    def _on_battery(self, message: Any) -> None:
        """Charge and voltage; a charge that is not known is NaN."""
        stamp_ns = stamp_ns_of(message.header.stamp)
        self.manager.take_battery(stamp_ns, float(message.percentage), float(message.voltage))

    def _on_reports(self, message: Any) -> None:
        """Which sensors the estimator of this vehicle rejects, and which repeat one value."""
        estimator = f"{self.get_namespace().rstrip('/')}/estimator"
        for status in message.status:
            if status.name == estimator:
                values = values_of(status)
                self.manager.estimate.awaited = partial(str, values.get("awaited", ""))
                rejected, repeating = values.get("rejected", ""), values.get("repeating", "")
                noisy = values.get("noisy", "")
                self.manager.take_rejected(
                    [rejected] if rejected else [],
                    repeating.split(", ") if repeating else [],
                    noisy.split(", ") if noisy else [],
                )

    def _on_mission(self, payload: bytes) -> None:
        """Take a new mission, disarmed; its own comes back on the same topic."""
        if payload in self._commands.own:
            return
        if self.manager.armed:
            raise MessageError("a new mission is taken disarmed only")
        self._items = missions.mission_of(payload)
        self._make_manager()
        self._publish_mission()

    # ---- steps ---------------------------------------------------------------------------------

    def _on_odometry(self, payload: bytes) -> None:
        """Step when it is time; other odometries are not even read."""
        stamp_ns = stamp_of(payload)
        self._ahead.check(stamp_ns, self._odometry_ns)
        if not self._resets.settled(stamp_ns):
            return
        if self.simulated and self._behind.seen(stamp_ns, self._odometry_ns):
            self._on_time_back()
        if stamp_ns <= self._odometry_ns:
            raise MessageError("repeats or jumps back in time")
        self._odometry_ns = stamp_ns
        if due(self._period_ns, self._stepped_ns, stamp_ns):
            read_variances(self._reader.read(payload), self._odometry)
            self._step(stamp_ns, self._odometries)

    def _watch(self) -> None:
        """Step without an odometry when none comes."""
        now_ns = self.get_clock().now().nanoseconds
        if now_ns - max(self._stepped_ns, self._odometry_ns) > PATIENCE * self._period_ns:
            self._step(now_ns, None)

    def _step(self, stamp_ns: int, odometries: Any) -> None:
        self._stepped_ns = stamp_ns
        self._script.give(self.manager, stamp_ns - self._begun_ns)
        thrust = float(self._command.thrust)
        self.manager.step(stamp_ns, odometries, self._setpoints, thrust)
        if self._odometry_ns:
            position_control(
                self._position, self._params, self._odometry, self._setpoint,
                self._period_ns * 1e-9, self._command,
            )  # fmt: skip
            self._attitude.publish(self._attitude_messages.payload(self._command))
        if self.manager.has_reference:
            self._reference.publish(self._where.payload(self._setpoint, stamp_ns))
            request = self._wish.payload(self._setpoint, stamp_ns)
            self._commands.own.append(request)
            self._velocity.publish(request)
        waiting = self.manager.state == "disarmed" and not self.manager.finished
        if self._auto_start and waiting and self.manager.arm() is None:
            self.manager.start()
        self._report_events()

    # ---- status -------------------------------------------------------------------------------

    def _report_events(self) -> None:
        """Publish new events, and the status if it changed."""
        self._commands.tell(self.manager.take_events())

    def _publish_mission(self) -> None:
        self._commands.tell_mission()
        self._markers.publish(mission_markers(self.manager.waypoints()))

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """State of the flight and height."""
        status = self.manager.status()
        values = {
            "height_m": float(self._odometry.p_W[2]),
            "state_source": self._source.name,
            "commands_refused": self.manager.commands_refused,
            "unfinished": self.manager.unfinished(),
        }
        words = "; ".join(filter(None, (status["state"], self._joy_rivals)))
        return int(bool(status["reason"] or self._joy_rivals)), words, values | status


make, main = entry_points(AutopilotNode)
