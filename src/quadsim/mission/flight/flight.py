"""The flight manager: requests from outside, one step per tick, and what leads where.

What each state does by itself is in ``states``, what ends or bends a flight in ``rules``, commands
in ``commands``, those of a Crazyflie in ``commander``, the mission in ``mission_items``, sticks in
``pilot``, the ways back to the mission in ``detours``, the end in ``landing``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_DESCEND, MODE_IDLE, MODE_STOP
from quadsim.control.parameters import DEFAULT_POSITION, FlightParams, PositionParams
from quadsim.mission.flight import states
from quadsim.mission.flight.battery import Battery
from quadsim.mission.flight.commander import Commander
from quadsim.mission.flight.commands import Commands
from quadsim.mission.flight.detours import Hold, Recovery, WayHome
from quadsim.mission.flight.estimate_check import MISSING, ZERO, EstimateCheck
from quadsim.mission.flight.fence import Fence, mission_fault
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.pilot import Pilot
from quadsim.mission.flight.rules import watch_over
from quadsim.mission.flight.states import ERROR, OK, STATES, WARN, FlightEvent
from quadsim.mission.flight.swaying import Swaying
from quadsim.mission.formations import Gather
from quadsim.mission.items import Goto, Item, check_order, corners, name_of
from quadsim.mission.reference.ground import Ground
from quadsim.mission.reference.legs import write_setpoint
from quadsim.mission.reference.reference import Reference
from quadsim.mission.waypoint import Waypoint
from quadsim.world.scene.raycast_terrain import NO_TERRAIN, TerrainArrays

__all__ = ["ERROR", "OK", "STATES", "WARN", "FlightEvent", "FlightManager"]

#: Height of a pilot above ground that is out of reach at least, m.
FAR_M = 5.0
#: What the estimate of a vehicle that takes off may be corrected by before its reference moves too,
#: m, and within which time, s.
CORRECTED_M, CORRECTED_S = 0.3, 2.0
#: Part of the fastest ascent with which a long climb leaves the ground.
LIFT_SHARE = 0.33
#: Time within which estimators start: until then a missing one is no event.
START_NS = 10_000_000_000


class FlightManager:
    """Decides what the vehicle does next; one call of :meth:`step` per tick, 50 times a second.

    Requests (:meth:`arm` and so on) return None when they are obeyed, else the reason of their
    refusal. Times are of the clock that :meth:`step` is given. ``command_pose``,
    ``command_velocity`` and ``command_trajectory`` are those of :class:`Commands`; ``take_off``,
    ``assist``, ``fly_manually`` and ``take_sticks`` of :class:`Pilot`; ``take_range`` is the
    ground's.

    Args:
        params: how the vehicle takes off, moves and lands, and its failsafes.
        items: the mission; may be empty.
        terrain: elevation data, which ``flight.ground.map`` lets it use.
        flat_m: height of the ground outside of them, m.
        position: the position loop's; its limits are those of a trajectory, and by its navigation
            places are flown to with or without a leg.

    Attributes:
        ground: the ground beneath, where something is held above it.
        state: one of STATES.
        armed: whether the motors turn.
        flying: whether the vehicle is, or should be, in the air.
        reason: why it is in a failsafe or was stopped; empty otherwise.
        finished: the motors have stopped after a flight.
        refused: why it was last not armed.
        goes_along: somebody else flies the vehicle, who does not know the setpoint.
    """

    def __init__(
        self,
        params: FlightParams,
        items: Sequence[Item],
        terrain: TerrainArrays = NO_TERRAIN,
        flat_m: float = 0.0,
        position: PositionParams = DEFAULT_POSITION,
    ) -> None:
        check_order(items, "the mission")
        self.params, self._items = params, tuple(items)
        self.estimate = EstimateCheck(params)
        self.ground = Ground(params, terrain, flat_m)
        goals = position.navigation != "trajectory"
        self.reference = Reference(params, self.estimate, self.ground, goals)
        self.battery = Battery(params.failsafe)
        self.commands: Commands = Commands(self, position)
        self.commander: Commander = Commander(self, position)
        self.command_pose, self.command_velocity = self.commands.pose, self.commands.velocity
        self.command_trajectory, self.take_range = self.commands.trajectory, self.ground.take
        if any(getattr(item, "height", "") == "above_ground" for item in items):
            self.ground.use()
        self.state = "disarmed"
        self.armed = self.flying = self.goes_along = False
        self.now_ns = self.entered_ns = 0
        self.thrust = 0.0
        self._events: list[FlightEvent] = []
        self._arming_refused = self.refused = self._entered_as = ""
        self._rejected: Sequence[str] = ()
        self._repeating: Sequence[str] = ()
        self._begin()

    def _begin(self) -> None:
        """Forget the last flight; the fence is about here."""
        self.reason, self.finished = "", False
        self.mission: MissionItems = MissionItems(self, self._items)
        self.pilot: Pilot = Pilot(self)
        self.take_off, self.assist = self.pilot.take_off, self.pilot.assist
        self.fly_manually, self.take_sticks = self.pilot.fly_manually, self.pilot.take_sticks
        self.landing: Landing = Landing(self)
        self.way_home: WayHome = WayHome(self)
        self.hold: Hold = Hold(self)
        self._swaying = Swaying(self)
        self.recovery: Recovery = Recovery(self)
        self.fence = Fence(self.params.fence, self.estimate.p_W)
        self.battery.begin()
        self.takeoff_ns = self.looked_ns = 0
        self._rising: tuple[int, Vec3, Vec3] | None = None  # stamp, position and velocity
        self._corrected_W = ZERO
        self.ground_m = 0.0
        self.home: tuple[float, float] = (0.0, 0.0)
        self.off_ns: int | None = None  # since when the vehicle has been off course
        self.outside = self._ground_lost = False

    # what it is

    @property
    def has_reference(self) -> bool:
        """Whether the setpoint's position is one that the vehicle is to follow."""
        follows = self.flying and not (self.landing.blind or self.goes_along)
        return follows and self.state not in ("velocity", "manual")

    @property
    def gathers_at(self) -> int | None:
        """Index of the item at which it waits for the other vehicles of the swarm; else None."""
        waits = self.state == "mission" and not self.mission.released
        return self.mission.index if waits and isinstance(self.mission.item, Gather) else None

    @property
    def on_its_way(self) -> bool:
        """Whether it is armed, and its mission still to come to where others may wait for it."""
        return not self.finished and self.state in ("armed", "takeoff", "mission")

    @property
    def may_fly(self) -> bool:
        """Whether it stands disarmed with its mission before it, and every motor turns."""
        return self.state == "disarmed" and not (self.finished or self.landing.crippled)

    @property
    def mission_done(self) -> bool:
        """Whether it flies on, or stays, behind the last item of its mission."""
        return self.mission.started and self.mission.item is None and self.state in states.STEERED

    def unfinished(self) -> str:
        """Why the flight is not over, in words; empty where it is, or only hovers on."""
        if self.finished or self.mission_done:
            return ""
        mission, item = self.mission, self.mission.item
        if not self.armed:
            return f"it did not arm: {self.refused or self.reason or 'nobody asked for it'}"
        if self.state == "armed":
            return "it is armed, and nobody started a mission"
        words = f"{self.state} for {self.since_s(self.entered_ns):.0f} s: {self._entered_as}"
        if self.gathers_at is not None:
            words += ": waits for the others"
        elif self.state == "mission" and isinstance(item, Goto | Waypoint):
            words += f", {self.reference.away_m:.1f} m short"
        if item is not None and mission.started:
            words += f" (item {mission.index + 1} of {len(self._items)})"
        return words

    @property
    def commands_refused(self) -> int:
        """How many commands were not obeyed for what was in them."""
        return self.commands.refused

    @property
    def pulls_up(self) -> bool:
        """Whether it is being pulled up: level, whatever the way."""
        return self.state == "recovery" and self.reference.kind == "pull_up"

    @property
    def sink_rate_mps(self) -> float:
        """Speed towards the ground: along a slope that is followed downhill, it is none."""
        climbs = self.reference.above and not self.ground.lost
        return (self.ground.climb_mps if climbs else 0.0) - self.estimate.v_W[2]

    def height_m(self) -> float:
        """Estimated height above the take-off point.

        While one is held above the ground, or a pilot flies and it is known, above the ground.
        """
        x, y, z = self.estimate.p_W
        if (self.reference.above or self.pilot.took_over) and self.ground.known:
            return z - self.ground.at(x, y)[0]
        far = self.pilot.took_over and self.ground.far
        return max(z - self.ground_m, FAR_M) if far else z - self.ground_m

    def since_s(self, stamp_ns: int) -> float:
        """Time since a stamp."""
        return (self.now_ns - stamp_ns) * 1e-9

    def waypoints(self) -> NDArray[np.float64]:
        """Corners of the mission, (K, 3) in W."""
        return np.array(corners(self._items, self.params), dtype=float).reshape(-1, 3)

    def take_events(self) -> list[FlightEvent]:
        """Events (stamp_ns, level, name, message) since the last call."""
        events, self._events = self._events, []
        return events

    def status(self) -> dict[str, str]:
        """State, item and reason as texts, for ``mission/status``."""
        item = self.mission.item if self.mission.started else None
        return {
            "state": self.state,
            "armed": str(self.armed).lower(),
            "item": "" if item is None else str(self.mission.index),
            "item_name": "" if item is None else name_of(item),
            "items": str(len(self._items)),
            "height": "above ground" if self.reference.above else "absolute",
            "ground": "" if not self.ground.used else "known" if self.ground.known else "lost",
            "reason": self.reason,
            "finished": str(self.finished).lower(),
        }

    # requests

    def arm(self) -> str | None:
        """Start the motors at idle, if the estimate is good and the vehicle stands level."""
        if self.armed:
            return "armed already"
        names, repeating = ", ".join(self._rejected), ", ".join(self._repeating)
        reason = (
            (f"sensors repeat one value: {repeating}" if repeating else None)
            or (f"measurements are rejected: {names}" if names else None)
            or self.estimate.refusal(self.battery.charge)
            or mission_fault(self._items, self.params, self.estimate.p_W)
        )
        if reason is not None:
            kind, self.refused = reason.split(":")[0], reason
            starting = self.estimate.verdict == MISSING and self.now_ns < START_NS
            if not starting and kind != self._arming_refused:
                self._arming_refused = kind
                self.event(WARN, "arming refused", reason)
            return reason
        self._arming_refused = self.refused = ""
        self._begin()
        self.reference.stand()
        self.enter("armed", "motors idle")
        return None

    def disarm(self, force: bool = False) -> str | None:
        """Stop the motors; in the air only by force."""
        if self.flying and not force:
            return "in the air; land first, or force it"
        if self.flying:
            self.stop("disarmed by force in the air")
        elif self.armed:
            self.enter("disarmed", "motors stopped")
        return None

    def start(self) -> str | None:
        """Begin the mission, or go on with one that was paused."""
        if not self._items:
            return "there is no mission"
        if self.state == "armed":
            self.mission.started = True
            return None
        if self.state not in ("hover", "guided", "velocity", "returning", *states.PILOTED):
            return f"not while {self.state}" + ("" if self.armed else "; arm first")
        if not self.mission.started or self.mission.item is None:
            return "the mission is over"
        self.mission.begin()
        return None

    def pause(self) -> str | None:
        """Stop and hover; :meth:`start` goes on with the mission."""
        if self.state in states.PILOTED:
            self.pilot.come_to_rest()
            return None
        if refused := self._refusal("mission", "guided", "velocity", "returning"):
            return refused
        self.suspend()
        self.reference.brake()
        self.enter("hover", "paused")
        return None

    def hover(self) -> str | None:
        """Hover here: brake, and fly back to where this was told, however fast the vehicle was.

        In a hover it moves that here, where the vehicle was pushed to.
        """
        if refused := self._refusal(*states.STEERED):
            return refused
        self.suspend()
        self.reference.hold(estimated=self.state == "hover")
        self.enter("hover", "here, as told")
        return None

    def return_home(self) -> str | None:
        """Fly back above the place of take-off and land there."""
        if refused := self._refusal("mission", "hover", "guided", "velocity"):
            return refused
        self.suspend()
        self.enter("returning", "home, as told")
        self.way_home.begin(self.params.home_height_m)
        return None

    def land(self) -> str | None:
        """Stop and land here; on the ground, stop the motors."""
        if self.state == "armed":
            return self.disarm()
        if not self.flying or self.state in states.LANDINGS:
            return f"not while {self.state}"
        self.suspend()
        self.landing.begin("here, as told")
        return None

    def abort(self) -> str | None:
        """Give the mission up: stop and land here."""
        refused = self.land()
        if refused is None:
            self.mission.index = len(self._items)
            self.event(WARN, "aborted", "the mission was given up")
        return refused

    def recover(self) -> str | None:
        """Level, full thrust, then a climb to a safe height; the mission goes on after it."""
        if not self.flying or self.state in ("takeoff", "recovery", *states.LANDINGS):
            return f"not while {self.state}"
        self.recovery.pull_up("as told")
        return None

    def _refusal(self, *states: str) -> str | None:
        return None if self.state in states else f"not while {self.state}"

    def release(self) -> None:
        """Go on from where it waits for the others: all are here."""
        self.mission.released = True

    def give_way(self, delay_ns: int) -> None:
        """Let the reference wait; who leaves its way for another vehicle is not off course."""
        self.off_ns = None
        self.reference.fall_behind(delay_ns)

    def source_changed(self) -> None:
        """Odometries come from elsewhere from now on: a step of the position is no jump."""
        self.estimate.forget()

    def take_battery(self, stamp_ns: int, charge: float, voltage_V: float) -> None:
        """Take note of the battery: its charge, 0 to 1 or NaN, and its voltage under load."""
        self.battery.take(stamp_ns, charge, voltage_V, self.flying)

    def take_rejected(self, sensors: Sequence[str], repeating: Sequence[str] = ()) -> None:
        """Take note of which sensors the estimator rejects, or which repeat one value.

        With any it does not arm. In the air it lands without a whole IMU, level without a
        gyroscope, as nothing tells the attitude any more.
        """
        begun = [name for name in repeating if name not in self._repeating]
        self._rejected, self._repeating = sensors, repeating
        if not (begun and self.armed):
            return
        reason = f"{' and '.join(begun)}: one value again and again"
        self.event(WARN, "sensor repeats", reason)
        level = "gyroscope" in begun
        if self.state == "armed":
            self.enter("disarmed", reason, WARN)
        elif self.flying and not self.landing.blind and (level or "accelerometer" in begun):
            self.suspend()
            self.landing.fail(reason, blind=level)

    def motor_lost(self, index: int) -> None:
        """Land here: a motor (from 0) gives no thrust any more."""
        reason = f"motor {index} is lost"
        self.landing.crippled = True
        if self.state == "armed":
            self.reason = reason
            self.enter("disarmed", reason, ERROR)
        elif self.state == "failsafe_landing":
            self.event(ERROR, "motor lost", reason)
        elif self.flying:
            self.suspend()
            self.landing.fail(reason, placed=self.state != "hold")

    # what leads where

    def event(self, level: int, name: str, message: str) -> None:
        """Keep an event."""
        self._events.append((self.now_ns, level, name, message))

    def enter(self, state: str, message: str, level: int = OK) -> None:
        """Go over into a state, which is an event."""
        motors = STATES[state].motors
        self.state, self.armed, self.flying = state, motors != "off", motors == "on"
        self.entered_ns, self._entered_as = self.now_ns, message
        self.landing.light_ns = None
        self.event(level, state, message)

    def stop(self, message: str) -> None:
        """Motors off, wherever the vehicle is."""
        self.reason, self.finished, self.landing.blind = message, True, False
        self.enter("stopped", message, ERROR)

    def suspend(self) -> None:
        """Drop what was to come; the mission remembers how far it was flown."""
        self.landing.at_ns = None
        if self.state == "mission":
            self.mission.suspend()

    def leave_ground(self) -> None:
        """Take note of where it stands: heights count from here, and home is here."""
        p_W = self.estimate.p_W
        self.takeoff_ns, self.home = self.now_ns, p_W[:2]
        self.ground_m = p_W[2]
        self.ground.set_level(p_W[2])
        self.reference.stand()

    def begin_in_air(self, odometries: Any, ground_m: float) -> None:
        """Hover where the vehicle is, which begins in the air; :meth:`start` begins the mission.

        Args:
            odometries: (1,) ODOMETRY, the first.
            ground_m: height in W of the ground beneath, from which heights count.
        """
        self.estimate.look(self.now_ns, odometries)
        self._begin()
        self.leave_ground()
        self.ground_m, (x, y) = ground_m, self.home
        self.ground.set_level(ground_m)
        self.fence = Fence(self.params.fence, (x, y, ground_m))
        self.mission.started = True
        self.enter("hover", "begins in the air")

    def climb(self, height_m: float, speed_mps: float = 0.0) -> None:
        """Take off, straight up to a height above the ground here."""
        (x, y, _), _, _, yaw, _ = self.reference.motion()
        goal_W = (x, y, self.ground_m + height_m)
        lift_mps = LIFT_SHARE * min(self.params.ascent_mps, speed_mps or math.inf)
        self.reference.go(goal_W, yaw, speed_mps, lift_mps=lift_mps)
        self.enter("takeoff", f"to {height_m:g} m")

    # a tick

    def step(self, stamp_ns: int, odometries: Any, setpoints: Any, thrust: float = 0.0) -> None:
        """Advance to a time and write what is wanted now; every number written is finite.

        Args:
            stamp_ns: the flight's time in ns.
            odometries: (1,) ODOMETRY, the newest, or None if there has been none yet.
            setpoints: (1,) SETPOINT, the result.
            thrust: last commanded collective specific thrust in m/s^2, by which touch-down is felt.
        """
        self.now_ns = self.reference.now_ns = stamp_ns
        self.thrust = thrust
        self.estimate.look(stamp_ns, odometries)
        if self.state == "takeoff" and self.estimate.good:
            self._rise_along()
        self.reference.update()
        self._report_ground()
        watch_over(self)
        STATES[self.state].tick(self)
        if self.landing.blind:
            p_W, yaw = self.estimate.p_W, self.estimate.yaw
            v_W = (0.0, 0.0, -self.params.failsafe.descent_mps)
            write_setpoint(setpoints, MODE_DESCEND, p_W, v_W, ZERO, yaw, 0.0)
            return
        self.reference.write(setpoints)
        self._swaying.write(setpoints)
        self.landing.relax(setpoints)
        if not self.flying:
            setpoints["mode"] = MODE_IDLE if self.armed else MODE_STOP

    def _rise_along(self) -> None:
        """Let a take-off's reference follow corrections of the estimate, which are no motion.

        At lift-off a range finder begins to measure, and an estimate whose receiver had the height
        by metres wrong jumps. The ground has not moved: a reference that stayed would press the
        vehicle onto it, or throw it up.
        """
        p_W, v_W, before = self.estimate.p_W, self.estimate.v_W, self._rising
        stamp_ns = int(self.estimate.odometries["stamp_ns"][0])
        self._rising = (stamp_ns, p_W, v_W)
        if before is None:
            return
        dt_s = (stamp_ns - before[0]) * 1e-9
        kept = max(1.0 - dt_s / CORRECTED_S, 0.0)
        x, y, z = (
            kept * self._corrected_W[i]
            + (p_W[i] - before[1][i])
            - 0.5 * dt_s * (v_W[i] + before[2][i])
            for i in range(3)
        )
        self._corrected_W = change_W = (x, y, z)
        if math.hypot(*change_W) < CORRECTED_M:
            return
        self._corrected_W = ZERO
        self.reference.shift(change_W)
        self.home = (self.home[0] + change_W[0], self.home[1] + change_W[1])
        self.ground_m += change_W[2]
        self.ground.set_level(self.ground_m)
        if abs(change_W[2]) >= CORRECTED_M:
            words = f"the height by {change_W[2]:+.1f} m: the take-off goes on from there"
            self.event(WARN, "estimate corrected", words)

    def _report_ground(self) -> None:
        """Report when the ground that is followed is lost, and when it is seen again."""
        above = self.reference.above
        told, self._ground_lost = self._ground_lost, above and self.ground.lost
        if self._ground_lost and not told:
            seen = "nothing within reach" if self.ground.far else "no reading"
            self.event(WARN, "ground lost", f"{seen}: the height is held, slower")
        elif told and above and not self._ground_lost:
            self.event(OK, "ground seen", "heights count from it again")
