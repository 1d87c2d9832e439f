"""The flight manager: requests from outside, one step per tick, and what leads where.

The states are listed in ``states``. What all parts share is in ``context``, what ends or bends a
flight in ``rules``, commands in ``commands``, those of a Crazyflie in ``commander``, the mission in
``mission_items``, sticks in ``pilot``, ways back to the mission in ``detours`` and ``way_home``,
the end in ``landing``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_DESCEND, MODE_IDLE, MODE_STOP
from quadsim.control.parameters import DEFAULT_POSITION, FlightParams, PositionParams
from quadsim.mission.flight import states
from quadsim.mission.flight.commander import Commander
from quadsim.mission.flight.commands import Commands, Pilot, Swaying
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.detours import Hold, Recovery
from quadsim.mission.flight.estimate_check import MISSING, ZERO
from quadsim.mission.flight.fence import Fence, mission_fault
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.rules import Failsafes
from quadsim.mission.flight.states import ERROR, OK, STATES, WARN, FlightEvent
from quadsim.mission.flight.way_home import WayHome
from quadsim.mission.formations import Gather
from quadsim.mission.items import Goto, Item, check_order, corners, name_of
from quadsim.mission.reference.legs import write_setpoint
from quadsim.mission.waypoint import Waypoint
from quadsim.world.scene.raycast_terrain import NO_TERRAIN, TerrainArrays

__all__ = ["ERROR", "OK", "STATES", "WARN", "FlightEvent", "FlightManager"]

#: What the estimate of a vehicle that takes off may be corrected by before its reference moves too,
#: m, and within which time, s.
CORRECTED_M, CORRECTED_S = 0.3, 2.0
#: Time within which estimators start: until then a missing one is no event.
START_NS = 10_000_000_000


class FlightManager(FlightContext):
    """Decides what the vehicle does next; one call of :meth:`step` per tick, 50 times a second.

    Requests (:meth:`arm` and so on) return None when they are obeyed, else the reason of their
    refusal. Times are of the clock that :meth:`step` is given. ``command_pose``,
    ``command_velocity`` and ``command_trajectory`` are those of :class:`Commands`; ``take_off``,
    ``assist``, ``fly_manually`` and ``take_sticks`` of :class:`Pilot`; ``take_range`` is the
    ground's. Each part acts on the flight's record and on the parts below it.

    Args:
        params: how the vehicle takes off, moves and lands, and its failsafes.
        items: the mission; may be empty.
        terrain: elevation data, which ``flight.ground.map`` lets it use.
        flat_m: height of the ground outside of them, m.
        position: the position loop's; its limits are those of a trajectory, and by its navigation
            places are flown to with or without a leg.

    Attributes:
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
        super().__init__(params, terrain, flat_m, position.navigation != "trajectory")
        self._items = tuple(items)
        self.landing = Landing(self)
        self.way_home = WayHome(self, self.landing)
        self.mission = MissionItems(self, self._items, self.landing, self.way_home)
        self.hold = Hold(self, self.landing, self.way_home, self.mission)
        self.recovery = Recovery(self, self.landing, self.way_home, self.mission)
        self.pilot = Pilot(self, self.landing, self.mission)
        self.commands = Commands(self, self.landing, self.mission, position)
        self.commander = Commander(self, self.mission, position, self.arm)
        self._swaying = Swaying(self, self.landing)
        self._failsafes = Failsafes(
            self, self.landing, self.way_home, self.mission, self.hold, self.recovery
        )
        self.take_off, self.assist = self.pilot.take_off, self.pilot.assist
        self.fly_manually, self.take_sticks = self.pilot.fly_manually, self.pilot.take_sticks
        self.command_pose, self.command_velocity = self.commands.pose, self.commands.velocity
        self.command_trajectory, self.take_range = self.commands.trajectory, self.ground.take
        if any(getattr(item, "height", "") == "above_ground" for item in items):
            self.ground.use()
        self.goes_along = False
        self._arming_refused = self.refused = ""
        self._rejected: Sequence[str] = ()
        self._repeating: Sequence[str] = ()
        self._noisy: Sequence[str] = ()
        self._forget()
        #: What each state does by itself.
        self._ticks: dict[str, Callable[[], None]] = {
            "armed": self._spool_up,
            "takeoff": self._take_off,
            "mission": self.mission.tick,
            "hover": self._hover,
            "guided": self._come_to_rest,
            "velocity": self.commands.velocity_tick,
            "commanded": self.commander.tick,
            "returning": self.way_home.tick,
            "hold": self.hold.tick,
            "assisted": self.pilot.assisted_tick,
            "manual": self.pilot.manual_tick,
            "recovery": self.recovery.tick,
            "failsafe_return": self.way_home.tick,
            "landing": self.landing.tick,
            "failsafe_landing": self.landing.failsafe_tick,
            "landed": self._spool_down,
        }

    def _forget(self) -> None:
        """Forget the last flight."""
        self.clear()
        for part in (self.landing, self.mission, self._swaying, self._failsafes):
            part.reset()
        self.way_home.places, self.pilot.lifts = [], False
        self._rising: tuple[int, Vec3, Vec3] | None = None  # stamp, position and velocity
        self._corrected_W = ZERO
        self._ground_lost = False

    # what it is

    @property
    def has_reference(self) -> bool:
        """Whether the setpoint's position is one that the vehicle is to follow."""
        follows = self.flying and not (self.blind or self.goes_along)
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
        return self.state == "disarmed" and not (self.finished or self.crippled)

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
        words = f"{self.state} for {self.since_s(self.entered_ns):.0f} s: {self.entered_as}"
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

    def waypoints(self) -> NDArray[np.float64]:
        """Corners of the mission, (K, 3) in W."""
        return np.array(corners(self._items, self.params), dtype=float).reshape(-1, 3)

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
        noisy = ", ".join(self._noisy)
        reason = (
            (f"sensors repeat one value: {repeating}" if repeating else None)
            or (f"noise far beyond what is stated: {noisy}" if noisy else None)
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
        self._forget()
        self.reference.stand()
        self.enter("armed", "motors idle")
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
        self.mission.suspend()
        self.reference.brake()
        self.enter("hover", "paused")
        return None

    def hover(self) -> str | None:
        """Hover here: brake, and fly back to where this was told, however fast the vehicle was.

        In a hover it moves that here, where the vehicle was pushed to.
        """
        if refused := self._refusal(*states.STEERED):
            return refused
        self.mission.suspend()
        self.reference.hold(estimated=self.state == "hover")
        self.enter("hover", "here, as told")
        return None

    def return_home(self) -> str | None:
        """Fly back above the place of take-off and land there."""
        if refused := self._refusal("mission", "hover", "guided", "velocity"):
            return refused
        self.mission.suspend()
        self.enter("returning", "home, as told")
        self.way_home.begin(self.params.home_height_m)
        return None

    def land(self) -> str | None:
        """Stop and land here; on the ground, stop the motors."""
        if self.state == "armed":
            return self.disarm()
        if not self.flying or self.state in states.LANDINGS:
            return f"not while {self.state}"
        self.mission.suspend()
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
        self._failsafes.forgive()
        self.reference.fall_behind(delay_ns)

    def source_changed(self) -> None:
        """Odometries come from elsewhere from now on: a step of the position is no jump."""
        self.estimate.forget()

    def take_battery(self, stamp_ns: int, charge: float, voltage_V: float) -> None:
        """Take note of the battery: its charge, 0 to 1 or NaN, and its voltage under load."""
        self.battery.take(stamp_ns, charge, voltage_V, self.flying)

    def take_rejected(
        self, sensors: Sequence[str], repeating: Sequence[str] = (), noisy: Sequence[str] = ()
    ) -> None:
        """Take note of which sensors the estimator rejects, repeat one value, or are noisy.

        With any it does not arm. In the air it lands without a whole IMU, level without a
        gyroscope, as nothing tells the attitude any more. Of noise it tells; the estimate's
        deviations grow by it.
        """
        begun = [name for name in repeating if name not in self._repeating]
        new = [name for name in noisy if name not in self._noisy]
        if self.armed and new:
            words = f"{' and '.join(new)}: noise far beyond what is stated"
            self.event(WARN, "sensor noisy", words)
        self._rejected, self._repeating, self._noisy = sensors, repeating, noisy
        if not (begun and self.armed):
            return
        reason = f"{' and '.join(begun)}: one value again and again"
        self.event(WARN, "sensor repeats", reason)
        level = "gyroscope" in begun
        if self.state == "armed":
            self.enter("disarmed", reason, WARN)
        elif self.flying and not self.blind and (level or "accelerometer" in begun):
            self.mission.suspend()
            self.landing.fail(reason, blind=level)

    def motor_lost(self, index: int) -> None:
        """Land here: a motor (from 0) gives no thrust any more."""
        reason = f"motor {index} is lost"
        self.crippled = True
        if self.state == "armed":
            self.reason = reason
            self.enter("disarmed", reason, ERROR)
        elif self.state == "failsafe_landing":
            self.event(ERROR, "motor lost", reason)
        elif self.flying:
            self.mission.suspend()
            self.landing.fail(reason, placed=self.state != "hold")

    # what leads where

    def begin_in_air(self, odometries: Any, ground_m: float) -> None:
        """Hover where the vehicle is, which begins in the air; :meth:`start` begins the mission.

        Args:
            odometries: (1,) ODOMETRY, the first.
            ground_m: height in W of the ground beneath, from which heights count.
        """
        self.estimate.look(self.now_ns, odometries)
        self._forget()
        self.leave_ground()
        self.ground_m, (x, y) = ground_m, self.home
        self.ground.set_level(ground_m)
        self.fence = Fence(self.params.fence, (x, y, ground_m))
        self.mission.started = True
        self.enter("hover", "begins in the air")

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
        self._failsafes.watch_over()
        if self.state in self._ticks:
            self._ticks[self.state]()
        if self.blind:
            p_W, yaw = self.estimate.p_W, self.estimate.yaw
            v_W = (0.0, 0.0, -self.params.failsafe.descent_mps)
            write_setpoint(setpoints, MODE_DESCEND, p_W, v_W, ZERO, yaw, 0.0)
            return
        self.reference.write(setpoints)
        self._swaying.write(setpoints)
        self.landing.relax(setpoints)
        if not self.flying:
            setpoints["mode"] = MODE_IDLE if self.armed else MODE_STOP

    # what a state does by itself

    def _spool_up(self) -> None:
        """Take off once the rotors turn, if that was asked for."""
        spooled = self.since_s(self.entered_ns) >= states.SPOOL_UP_S
        if not spooled or not (self.mission.started or self.pilot.lifts):
            return
        self.leave_ground()
        if self.pilot.lifts:
            self.mission.skip_takeoff()
            self.ground.use()
            self.climb(self.params.assisted.takeoff_m)
        else:
            self.mission.begin()

    def _take_off(self) -> None:
        """Climb, to the mission's next item or to the hands of a pilot."""
        if self.pilot.lifts:
            self.pilot.lift_tick()
        else:
            self.mission.tick()

    def _hover(self) -> None:
        """Stay, and land after a while where nobody commands any more."""
        if self.land_at_ns is not None and self.now_ns >= self.land_at_ns:
            self.land_at_ns = None
            self.landing.begin("no new command")

    def _come_to_rest(self) -> None:
        """Come to rest at the end of a commanded trajectory that ends in motion."""
        if self.reference.kind == "plan" and self.reference.is_over:
            self.reference.brake()

    def _spool_down(self) -> None:
        """Idle for a while, then stop the motors."""
        if self.since_s(self.entered_ns) >= states.SPOOL_DOWN_S:
            self.finished = True
            self.enter("disarmed", "motors stopped")

    # corrections and ground

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
        share = max(1.0 - dt_s / CORRECTED_S, 0.0)
        x, y, z = (
            share * self._corrected_W[i]
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
