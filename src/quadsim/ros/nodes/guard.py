"""Node ``guard``: the last before a real vehicle; ``command_velocity`` from anybody in, safe out.

It steps when a pose comes, and by the steady clock when none does. A command carries the stamp of
the pose that it was made of, or, where that is old, the time that it would be there; stamps of
commands never go back.
"""

from __future__ import annotations

import time
import traceback
from functools import partial
from typing import Any

import numpy as np
from std_srvs.srv import SetBool, Trigger

from quadsim.base.compiled import new_record
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.base.records import KINEMATICS
from quadsim.hil.guard.emergency import Emergency
from quadsim.hil.guard.guard import Guard, GuardOutput, GuardParams, Shape
from quadsim.hil.guard.parameters import PERIOD_S
from quadsim.hil.guard.setpoints import ATTITUDE, KINDS, POSITION, RATES
from quadsim.ros.messages.cdr import MessageError, brief, deserialize, refuse, stamp_of
from quadsim.ros.messages.commands import read_pose_command, read_velocity_command
from quadsim.ros.messages.conversion import OdometryReader
from quadsim.ros.messages.setpoint_messages import READERS, make_setpoint
from quadsim.ros.parts.guard_neighbours import GuardNeighbours
from quadsim.ros.parts.other_vehicles import Others
from quadsim.ros.parts.pose_input import PoseInput
from quadsim.ros.parts.scan_input import PlacedScan, ScanInput
from quadsim.ros.runtime import topics
from quadsim.ros.runtime.base import LEVELS as STATUS_LEVELS
from quadsim.ros.runtime.base import QuadsimNode
from quadsim.ros.runtime.latency import Latencies
from quadsim.ros.runtime.params import declare, declare_one, declare_texts
from quadsim.ros.runtime.runtime import entry_points
from quadsim.wire.encode import Template

#: A step made for a pose comes no sooner after the last than this share of the period: a pose that
#: has to wait for the next step is answered late.
SOON = 0.2
#: Until the vehicle reports that it lands it is asked again after this time, s; an answer that does
#: not come is waited for so long; and what still obeys setpoints after the last is named.
ASK_AGAIN_S, ANSWER_S, DEAF_S = 1.0, 8.0, 10.0
#: Handling times that are stored for the report: of 20 s at 50 Hz.
KEPT = 1000
#: By kind, where setpoints come and where they go.
SETPOINT_TOPICS = {
    ATTITUDE: (topics.COMMAND_ATTITUDE, topics.ATTITUDE_SAFE),
    RATES: (topics.COMMAND_RATES, topics.RATES_SAFE),
}
#: Level and words of ``vehicle/ready`` before it comes.
NOT_SAID = (0, "")
#: Level of /diagnostics of each state.
LEVELS = {"braking": 2, "landing": 2, "limiting": 1}


OWN_ODOMETRY = (
    "own: the pose is the autopilot's own; beside: the autopilot's own comes as odometry/autopilot,"
    " and has to agree with the pose; none: nobody gives it"
)


class GuardNode(QuadsimNode):
    """Passes what is safe; see :mod:`quadsim.hil.guard.guard`.

    Parameters: ``config`` (a file of config/guards) and every field of it, ``dead_man.button``,
    ``autopilot.odometry``, ``setpoints``; those of :class:`PoseInput`, :class:`ScanInput`,
    :class:`Others` and :class:`GuardNeighbours`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__("guard", **kwargs)
        config = declare_one(self, "config", "default", "a file of config/guards, or a path")
        self._params = declare(self, load(GuardParams, find("guards", config)))
        self._guard: Guard | Emergency = Guard(self._params)
        self._failed: Exception | None = None  # what nobody expected
        self._period_ns = round(PERIOD_S * 1e9)
        self._template = Template.of(topics.COMMAND_SAFE.type_name, "map")
        self._said: GuardOutput | None = None
        self._stamp_ns = self._came_ns = self._stepped_ns = self._sent_ns = 0
        self._asked_ns: int | None = None
        self._flights = 0  # begun
        self._lands = False  # it has answered that it does
        self._nobody_lands = self._deaf = False
        self._pending: tuple[int, Any] | None = None  # when a landing was asked for, and the answer
        self._landing_ns: int | None = None
        self._rivals = ""
        self._handled = Latencies(KEPT)
        self._least_m = np.inf
        self._command = self.offer(topics.COMMAND_SAFE, needed=True)
        _ = self.events  # made now: not between a fault and the next command
        self._scans = ScanInput(self, self._on_scan, self._params.sight.timeout_s)
        mount, vehicle = self._scans.mount, self._params.vehicle
        for name in ("radius_m", "half_height_m") if mount.self_radius_m > 0.0 else ():
            own_m, most_m = getattr(mount, f"self_{name}"), getattr(vehicle, name)
            if own_m > most_m:
                raise InputError(
                    f"node {self.get_fully_qualified_name()}: parameter lidar.self_{name}:"
                    f" {own_m:g}; allowed: at most vehicle.{name} ({most_m:g}), or it hides others"
                )
        self._pose = PoseInput(self, self._on_pose)
        self._others = Others(self, self._pose.frame, self._now_ns)
        words = "which of joy's buttons; -1: the topic dead_man (Bool) instead"
        self._button = declare_one(self, "dead_man.button", -1, words, ge=-1, le=63)
        self._neighbours = GuardNeighbours(self, lambda: self._guard, self._now_ns)
        self.listen(topics.COMMAND_VELOCITY, self._on_wish)
        self._setpoints = self._take_setpoints()
        button = topics.JOY if self._button >= 0 else topics.DEAD_MAN
        #: By their words somebody stops the vehicle, so none but one may say the opposite.
        self._stops = {
            topic.name: self.listen(topic, take, raw=raw, reliable=reliable, note_publishers=True)
            for topic, take, raw, reliable in (
                (button, self._on_button, True, button is topics.DEAD_MAN),
                (topics.OFFBOARD_STATE, self._on_offboard, False, True),
                (topics.VEHICLE_READY, self._on_ready, False, True),
            )
            if topic is not button or self._params.watch.dead_man
        }
        self.listen(
            topics.VEHICLE_RESET, lambda message: self._guard.take_reset(message.data), raw=False
        )
        self._autopilot = declare_one(
            self, "autopilot.odometry", "own", OWN_ODOMETRY, choices=("own", "beside", "none")
        )
        self._ready = NOT_SAID
        self._own = new_record(KINEMATICS)
        self._own_reader = OdometryReader(self._own)
        if self._autopilot == "beside":
            self.listen(topics.AUTOPILOT_ODOMETRY, self._on_autopilot, reliable=False)
        self._expect()
        self.create_service(SetBool, "enable", self._on_asked)
        self._land = self.create_client(Trigger, "vehicle/land")
        self.when_time_goes_back(self._on_time_back, "disabled; forgets what it has seen")
        self.be_alone()
        self.wall_timer(0.5 * PERIOD_S, self._watch)

    def _take_setpoints(self) -> dict[str, Any]:
        """Listen to what else than velocities is asked for; publishers of what passes."""
        offered = {}
        for kind in declare_texts(
            self, "setpoints", f"taken besides velocities: {', '.join(KINDS)}"
        ):
            if kind == POSITION:
                self.listen(topics.COMMAND_POSE, self._on_place, raw=False)
            elif kind in READERS:
                taken, passed = SETPOINT_TOPICS[kind]
                self.listen(taken, partial(self._on_setpoint, READERS[kind]), raw=False)
                offered[kind] = self.offer(passed)
            else:
                raise InputError(
                    f"node {self.get_fully_qualified_name()}: parameter setpoints: {kind!r};"
                    f" allowed: {', '.join(KINDS)}"
                )
        return offered

    def _expect(self) -> None:
        """Tell a new guard what it may count on."""
        if isinstance(self._guard, Guard):
            self._neighbours.expect()
            if self._others.tracks:
                self._guard.expect_shapes(self._others.missing(0, 0, 0.0))
            if self._autopilot == "beside":
                self._guard.expect_autopilot()
            elif self._autopilot == "none":
                self._guard.unknown["autopilot"] = (
                    "nobody gives odometry/autopilot, so the autopilot's heading is not compared"
                )
        self._guard.take_ready(*self._ready)

    def _now_ns(self) -> int:
        """The watchdogs' clock: ROS time in simulation, else one that nobody sets."""
        if self.simulated:
            return int(self.get_clock().now().nanoseconds)
        return time.monotonic_ns()

    def endures(self, error: Exception) -> bool:
        """Brake, ask to land, and end by the error only then; at once where nothing flies."""
        if self._failed is not None:
            self.count("exceptions")
            return error is not self._failed
        self._failed = error
        flies, now_ns = self._guard.enabled, self._now_ns()
        words = f"the guard has failed: {type(error).__name__}: {brief(str(error))}"
        self._guard = Emergency(self._params.watch, now_ns, words)
        self.count("exceptions")
        self._tell(2, words)
        if flies:
            self.get_logger().error("".join(traceback.format_exception(error)))
        self.report()
        return flies

    def _on_time_back(self) -> None:
        if self._failed is not None:
            return
        self._guard = Guard(self._params)
        self._others.forget()
        self._expect()
        self._said = None
        self._stamp_ns = self._came_ns = self._stepped_ns = self._sent_ns = 0

    # ---- inputs --------------------------------------------------------------------------------

    def _on_pose(self, stamp_ns: int) -> None:
        """Take a pose, and step when it is time."""
        began_s, now_ns = time.perf_counter(), self._now_ns()
        pose = self._pose.record
        v_W = tuple(pose["v_W"].tolist()) if self._pose.has_velocity else None
        p_W, q_WB = tuple(pose["p_W"].tolist()), tuple(pose["q_WB"].tolist())
        refuse(self._guard.take_pose(stamp_ns, now_ns, p_W, q_WB, v_W))
        self._scans.poses.take(stamp_ns, pose["p_W"], pose["q_WB"])
        if stamp_ns < self._stamp_ns:  # of a driver that has begun anew, before a flight
            self._sent_ns = 0
        self._stamp_ns, self._came_ns = stamp_ns, now_ns
        self._take_others(now_ns, stamp_ns)
        if now_ns - self._stepped_ns >= SOON * self._period_ns:
            self._step(now_ns)
            self._handled.add(time.perf_counter() - began_s)

    def _take_others(self, now_ns: int, stamp_ns: int) -> None:
        """Other vehicles, while all of them are heard, and stamped by our pose's clock."""
        if not self._others.tracks:
            return
        missing = self._others.missing(now_ns, stamp_ns, self._params.sight.timeout_s)
        if missing:
            self._guard.expect_shapes(missing)
            return
        shapes = [Shape(*shape) for shape in self._others.at(stamp_ns)]
        refusal = self._guard.take_shapes(now_ns, shapes)
        if refusal:
            self.fault("others", refusal)

    def _on_scan(self, scan: PlacedScan) -> None:
        seen = (scan.origin_W, scan.points_W, scan.range_m, scan.azimuths_W)
        refuse(self._guard.take_scan(scan.stamp_ns, self._now_ns(), *seen))

    def _on_wish(self, payload: bytes) -> None:
        v_W, yaw_rate = read_velocity_command(payload, self._guard.q_WB)
        refuse(self._guard.take_wish(self._now_ns(), v_W, yaw_rate))

    def _on_place(self, message: Any) -> None:
        refuse(self._guard.take_position(self._now_ns(), *read_pose_command(message)))

    def _on_setpoint(self, read: Any, message: Any) -> None:
        refuse(self._guard.take_setpoint(self._now_ns(), read(message)))

    def _on_button(self, payload: bytes) -> None:
        """What cannot be read counts as a released button."""
        held, of_joy = False, self._button >= 0
        try:
            message = deserialize(payload, (topics.JOY if of_joy else topics.DEAD_MAN).message)
            buttons = message.buttons if of_joy else [message.data]
            if self._button >= len(buttons):
                raise MessageError(f"{len(buttons)} buttons; dead_man.button {self._button}")
            held = bool(buttons[self._button])
        finally:
            self._guard.take_dead_man(self._now_ns(), held)

    def _on_offboard(self, message: Any) -> None:
        """Whether the vehicle obeys; nothing more is sent once it does not."""
        self._look_for_rivals()
        self._guard.take_offboard(bool(message.data))

    def _look_for_rivals(self) -> None:
        """Tell the guard who else publishes what one alone may: in flight of those who spoke."""
        within_s, flies = self._params.watch.dead_man_timeout_s, self._guard.enabled
        stops = {**self._stops, self._pose.topic: self._pose.listening}
        *words, pose = (
            self.rivals(name, listening.heard if flies else None, within_s)
            for name, listening in stops.items()
        )
        self._guard.take_rivals("; ".join(filter(None, words)), pose)

    def _on_ready(self, message: Any) -> None:
        """Whether the way to the vehicle is in order, as the node driver reports."""
        if message.level not in STATUS_LEVELS:
            raise MessageError(f"level {message.level!r} of the driver's status is unknown")
        self._ready = (STATUS_LEVELS.index(message.level), brief(message.message))
        self._guard.take_ready(*self._ready)

    def _on_autopilot(self, payload: bytes) -> None:
        """The autopilot's own estimate, besides the pose of somebody else."""
        self._own_reader.read(payload)
        p_W, q_WB = tuple(self._own["p_W"].tolist()), tuple(self._own["q_WB"].tolist())
        refuse(self._guard.take_autopilot(stamp_of(payload), self._now_ns(), p_W, q_WB))

    def _on_asked(self, request: Any, response: Any) -> Any:
        """As :meth:`_on_enable`, whatever goes wrong in it."""
        try:
            return self._on_enable(request, response)
        except Exception as error:
            if not self.endures(error):
                raise
            response.success, response.message = False, self._guard.enable(self._now_ns())
            return response

    def _on_enable(self, request: Any, response: Any) -> Any:
        """Begin or end; in words why it does not begin."""
        if request.data:
            begins = not self._guard.enabled
            self._look_for_rivals()
            if self._ready != NOT_SAID and not self.count_publishers(topics.VEHICLE_READY.name):
                self._guard.take_ready(
                    2, "the publisher of vehicle/ready is gone: is the driver running?"
                )
            refusal = self._guard.enable(self._now_ns())
            response.success, response.message = refusal is None, refusal or "enabled"
            if begins:
                self._asked_ns, self._lands = None, False
                self._landing_ns, self._deaf = None, False
                self._flights += 1
        else:
            self._guard.disable()
            response.success, response.message = True, "disabled"
        for event in self._guard.take_events():  # that it was enabled, before its first command
            self._tell(event.level, event.words)
        self._step(self._now_ns())
        return response

    # ---- steps ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Step where no pose has made it do so."""
        now_ns = self._now_ns()
        if isinstance(self._guard, Emergency) and self._guard.over(now_ns, self._lands):
            assert self._failed is not None
            raise self._failed
        if now_ns - self._stepped_ns > 1.25 * self._period_ns:
            self._step(now_ns)

    def _step(self, now_ns: int) -> None:
        self._stepped_ns = now_ns
        self._look_for_rivals()
        stated = self._said = self._guard.step(now_ns)
        if stated.send:
            stamp_ns = self._stamp_ns + now_ns - self._came_ns
            self._sent_ns = max(stamp_ns, self._sent_ns + 1)
            self._publish(stated)
        self._neighbours.tell(now_ns)
        if stated.margin_m < self._least_m:
            self._least_m = stated.margin_m
        for event in stated.events:
            self._tell(event.level, event.words)
        if stated.land:
            self._ask_to_land(now_ns)

    def _publish(self, stated: GuardOutput) -> None:
        """Send what passes: a setpoint, or a velocity."""
        if stated.setpoint is not None:
            made = make_setpoint(stated.setpoint, self._sent_ns)
            self._setpoints[stated.setpoint.kind].publish(made)
            return
        self._command.publish(
            self._template.payload(self._sent_ns, v=stated.v_W, w=(0.0, 0.0, stated.yaw_rate_radps))
        )

    def _tell(self, level: int, words: str) -> None:
        """Say something as an event, and in the log."""
        self.tell_event(level, "guard", words)
        if level == 0:  # a line of code has one severity
            self.get_logger().info(words)
        elif level == 1:
            self.get_logger().warning(words)
        else:
            self.get_logger().error(words)

    def _ask_to_land(self, now_ns: int) -> None:
        """Tell the vehicle's own autopilot to land, again and again until it reports that it does.

        Where the vehicle reports whether it obeys setpoints, no answer counts, but that it has left
        that mode: an answer may say no more than that the question was sent.
        """
        obeys = self._guard.offboard
        self._landing_ns = self._landing_ns if self._landing_ns is not None else now_ns
        if obeys and not self._deaf and now_ns - self._landing_ns > DEAF_S * 1e9:
            self._deaf = True
            self._tell(
                2,
                f"asked to land for {DEAF_S:g} s, and the vehicle still obeys setpoints: take over"
                " by its transmitter; it is asked again",
            )
        if self._lands and not obeys:
            return
        if self._asked_ns is not None and now_ns - self._asked_ns < ASK_AGAIN_S * 1e9:
            return
        if self._pending is not None and not self._pending[1].done():
            if now_ns - self._pending[0] < ANSWER_S * 1e9:
                return
            self._land.remove_pending_request(self._pending[1])
        self._asked_ns = now_ns
        if not self._land.service_is_ready():
            if not self._nobody_lands:
                self._nobody_lands = True
                self._tell(2, "nobody offers vehicle/land; only a descent is commanded")
            return
        asked = self._land.call_async(Trigger.Request())
        self._pending = (now_ns, asked)
        asked.add_done_callback(partial(self._on_land_answer, self._flights))

    def _on_land_answer(self, flight: int, future: Any) -> None:
        answer = future.result()
        self.count("land asked")
        if answer is not None and answer.success:
            self._lands = self._lands or flight == self._flights
        elif answer is not None:
            self.count("land refused")
            self._tell(2, f"vehicle/land: {answer.message}")

    def report(self) -> None:
        """Publish the node's health now, and tell who else requests."""
        found = [words for name in (*self._stops, self._pose.topic) if (words := self.rivals(name))]
        if wishes := self.rivals(topics.COMMAND_VELOCITY.name):
            found.append(f"{wishes}; the newest counts")
        rivals = "; ".join(found)
        if rivals != self._rivals:
            self._rivals = rivals
            self._tell(1 if rivals else 0, rivals or "one publisher of each topic")
        super().report()

    def health(self) -> tuple[int, str, dict[str, Any]]:
        """State and reason, margins and times; an error where it brakes or lands."""
        stated = self._said
        if stated is None:
            return 0, "no pose", {}
        values: dict[str, Any] = {
            "state": stated.state,
            "reason": stated.reason,
            "margin_m": float(stated.margin_m),
            "margin_least_m": float(self._least_m),
            "clearance_m": float(stated.clearance_m),
            "offboard": {None: "nobody says", True: "yes", False: "no"}[self._guard.offboard],
            "pose_age_ms": 1e3 * stated.latency_s,
            "wishes_from": self.count_publishers(topics.COMMAND_VELOCITY.name),
        }
        self._least_m = np.inf
        if self._handled.count:
            median, most = map(self._handled.percentile_ms, (50.0, 99.0))
            values |= {"handled_ms": median, "handled_99_ms": most}
        rivals = "" if self._rivals in stated.reason else self._rivals
        words = [f"{stated.state}: {stated.reason}".rstrip(": "), rivals]
        level = max(LEVELS.get(stated.state, 0), int(bool(self._rivals)))
        return level, "; ".join(filter(None, words)), values


make, main = entry_points(GuardNode)
