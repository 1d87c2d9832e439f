"""The flight manager: requests from outside, one step per tick, and what leads where.

What each state does by itself is in ``states``, what ends a flight in ``rules``, the mission in
``mission_items``, sticks in ``pilot``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_DESCEND, MODE_IDLE, MODE_STOP
from quadsim.control.joystick import Sticks
from quadsim.control.parameters import DEFAULT_POSITION, FlightParams, PositionParams
from quadsim.mission.flight.battery import Battery
from quadsim.mission.flight.estimate_check import MISSING, ZERO, EstimateCheck
from quadsim.mission.flight.fence import Fence, mission_fault
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.pilot import Pilot
from quadsim.mission.flight.rules import watch_over
from quadsim.mission.flight.states import (
    ERROR,
    LANDINGS,
    OK,
    PILOTED,
    STATES,
    STEERED,
    WARN,
    FlightEvent,
)
from quadsim.mission.flight.touchdown import Touchdown
from quadsim.mission.formations import Gather
from quadsim.mission.items import Item, check, corners, name_of
from quadsim.mission.reference.ground import Ground
from quadsim.mission.reference.legs import write_setpoint
from quadsim.mission.reference.reference import Reference
from quadsim.mission.trajectories.course import Plan
from quadsim.mission.trajectories.limits import excess
from quadsim.mission.trajectories.timed import TrajectoryPoint, course_of
from quadsim.world.scene.raycast_terrain import NO_TERRAIN, TerrainArrays

__all__ = ["ERROR", "OK", "STATES", "WARN", "FlightEvent", "FlightManager"]

#: A command that is refused for the same reason is reported again after this, ns.
REPORT_AGAIN_NS = 5_000_000_000
#: Between two points of a trajectory that are held against the fence, s.
LOOK_S = 0.2
#: What a blind descent is given beyond the time that its height takes, s.
BLIND_MARGIN_S = 5.0
#: Time before a braking begins, s.
BRAKING_LAG_S = 0.3
#: One more dive below the floor than this ends the flight.
MOST_RECOVERIES = 3
#: Height above the floor to which a recovery climbs at least, m.
RECOVERY_CLIMB_M = 0.5
#: Height of a pilot above ground that is out of reach at least, m.
FAR_M = 5.0


class FlightManager:
    """Decides what the vehicle does next; one call of :meth:`step` per tick, 50 times a second.

    Requests (:meth:`arm` and so on) return None when they are obeyed, else the reason of their
    refusal. Times are of the clock that :meth:`step` is given.

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
        commands_refused: how many commands were not obeyed for what was in them.
    """

    def __init__(
        self,
        params: FlightParams,
        items: Sequence[Item],
        terrain: TerrainArrays = NO_TERRAIN,
        flat_m: float = 0.0,
        position: PositionParams = DEFAULT_POSITION,
    ) -> None:
        check(items, "the mission")
        self.params, self._items, self._position = params, tuple(items), position
        self.estimate = EstimateCheck(params)
        self.ground = Ground(params, terrain, flat_m)
        goals = position.navigation != "trajectory"
        self.reference = Reference(params, self.estimate, self.ground, goals)
        self.battery = Battery(params.failsafe)
        if any(getattr(item, "height", "") == "above_ground" for item in items):
            self.ground.use()
        self.state = "disarmed"
        self.armed = self.flying = False
        self.now_ns = self.entered_ns = 0
        self.thrust = 0.0
        self.commands_refused = 0
        self._events: list[FlightEvent] = []
        self._arming_refused = ""
        self._command_refused, self._refused_ns = "", 0
        self._begin()

    def _begin(self) -> None:
        """Forget the last flight; the fence is about here."""
        self.reason, self.finished = "", False
        self.mission: MissionItems = MissionItems(self, self._items)
        self.pilot: Pilot = Pilot(self)
        self.touchdown = Touchdown(self)
        self.fence = Fence(self.params.fence, self.estimate.p_W)
        self.battery.begin()
        self.takeoff_ns, self.ground_m = 0, 0.0
        self.home: tuple[float, float] = (0.0, 0.0)
        self.way: list[Vec3] = []  # places still to come on the way home
        self._way_mps = 0.0
        self.commanded: tuple[Vec3, float] = (ZERO, 0.0)  # velocity and yaw rate
        self.commanded_ns = self.looked_ns = self.blind_until_ns = 0
        self.land_at_ns: int | None = None
        self.sink_mps = self.params.landing_speed_mps
        self.blind = False  # descends without an estimate
        self.placed = True  # there is a position to hold
        self.trusted = True  # a good estimate may be flown on again
        self.crippled = False  # a motor is lost: no more thrust than control asks for
        self.recoveries = 0
        self._recovered_state = "hover"
        self._held: tuple[str, Vec3, float] = ("hover", ZERO, 0.0)
        self.fixed_ns: int | None = None  # since when the position has been fixed again
        self.off_ns: int | None = None  # since when the vehicle has been off course
        self.outside = self._ground_lost = False

    # what it is

    @property
    def has_reference(self) -> bool:
        """Whether the setpoint's position is one that the vehicle is to follow."""
        return self.flying and not self.blind and self.state not in ("velocity", "manual")

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
        reason = self.estimate.refusal(self.battery.charge)
        reason = reason or mission_fault(self._items, self.params, self.estimate.p_W)
        if reason is not None:
            kind = reason.split(":")[0]
            if self.estimate.verdict != MISSING and kind != self._arming_refused:
                self._arming_refused = kind
                self.event(WARN, "arming refused", reason)
            return reason
        self._arming_refused = ""
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
        if self.state not in ("hover", "guided", "velocity", "returning", *PILOTED):
            return f"not while {self.state}" + ("" if self.armed else "; arm first")
        if not self.mission.started or self.mission.item is None:
            return "the mission is over"
        self.mission.begin()
        return None

    def pause(self) -> str | None:
        """Stop and hover; :meth:`start` goes on with the mission."""
        if self.state in PILOTED:
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
        if refused := self._refusal(*STEERED):
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
        self.begin_way_home(self.params.home_height_m)
        return None

    def land(self) -> str | None:
        """Stop and land here."""
        if not self.flying or self.state in LANDINGS:
            return f"not while {self.state}"
        self.suspend()
        self.begin_landing("here, as told")
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
        if not self.flying or self.state in ("takeoff", "recovery", *LANDINGS):
            return f"not while {self.state}"
        self.pull_up("as told")
        return None

    def take_off(self) -> str | None:
        """Take off to ``assisted.takeoff_m`` and hover there, for whoever flies by sticks."""
        return self.pilot.take_off()

    def assist(self) -> str | None:
        """Give the vehicle to the sticks, in assisted control."""
        return self.pilot.assist()

    def fly_manually(self) -> str | None:
        """Give the vehicle to the sticks, without any help."""
        return self.pilot.fly_manually()

    def take_sticks(self, sticks: Sticks) -> str | None:
        """Fly by sticks: forward, left, up, yaw, each in [-1, 1]."""
        return self.pilot.take_sticks(sticks)

    def command_pose(self, p_W: Vec3, yaw: float) -> str | None:
        """Fly to a pose, in m and rad, and hover there."""
        refused = self._refuse_command((*p_W, yaw), p_W)
        if refused is None:
            self.suspend()
            self.reference.approach(p_W, yaw)
            self._guide("guided", "flies to commanded poses")
        return refused

    def command_velocity(self, v_W: Vec3, yaw_rate: float) -> str | None:
        """Fly a velocity in m/s, turning in rad/s, until the next command or until none comes."""
        refused = self._refuse_command((*v_W, yaw_rate))
        if refused is None:
            self.suspend()
            self.commanded, self.commanded_ns = (v_W, yaw_rate), self.now_ns
            self.reference.fly_velocity(self.cut(v_W), yaw_rate)
            self._guide("velocity", "flies commanded velocities")
        return refused

    def command_trajectory(
        self, points: Sequence[TrajectoryPoint], begin_ns: int | None = None
    ) -> str | None:
        """Fly timed points, entered from the present motion, and hover at the end.

        Args:
            points: at least two, in W; their times count from the first. See
                :func:`quadsim.mission.trajectories.timed.course_of` for what lies between them.
            begin_ns: the time of the first point; None: now.
        """
        numbers = (number for point in points for number in point.numbers)
        broken = tuple(number for number in numbers if not math.isfinite(number))
        refused = self._refuse_command(broken[:1])
        if refused is not None:
            return refused
        late_s = 0.0 if begin_ns is None else self.since_s(begin_ns)
        begin_s = max(late_s, 0.0)
        try:
            self._check_late(late_s)
            plan = Plan(course_of(points))
            self._check_trajectory(plan, begin_s)
        except InputError as error:
            self.event(WARN, "trajectory refused", str(error))
            return str(error)
        self.suspend()
        self.reference.join(plan, begin_s)
        self._guide("guided", "flies a commanded trajectory")
        return None

    def _check_late(self, late_s: float) -> None:
        timeout_s = self.params.failsafe.command_timeout_s
        if abs(late_s) > timeout_s:
            when = "old" if late_s > 0.0 else "ahead of the clock"
            raise InputError(f"{abs(late_s):.2f} s {when}; allowed: {timeout_s:g} s")

    def _check_trajectory(self, plan: Plan, begin_s: float) -> None:
        """Refuse one that begins elsewhere, or breaks a limit, the floor or the fence."""
        first, radius_m = plan.at(begin_s)[0], self.params.arrival_radius_m
        apart_m = min(math.dist(first, p_W) for p_W in (self.estimate.p_W, self.reference.place))
        if apart_m > radius_m:
            raise InputError(f"begins {apart_m:.2f} m from the vehicle; allowed: {radius_m:g} m")
        floor_m = self.ground_m + self.params.failsafe.floor_m
        found = excess(plan, self._position, floor_m)
        if not found and self.fence.bounds_anything:
            count = math.ceil(plan.duration_s / LOOK_S) + 2
            found = self.fence.ways_fault([plan.at(k * LOOK_S)[0] for k in range(count)])
        if found:
            raise InputError(found)

    def _guide(self, state: str, message: str) -> None:
        if self.state != state:
            self.enter(state, message)

    def _refusal(self, *states: str) -> str | None:
        return None if self.state in states else f"not while {self.state}"

    def _refuse_command(self, numbers: tuple[float, ...], p_W: Vec3 | None = None) -> str | None:
        """Why a command is not obeyed; counted, and reported once."""
        refused = None
        if not all(map(math.isfinite, numbers)):
            refused = f"a number in it is not finite: {numbers}"
        elif self.state not in STEERED:
            return f"not while {self.state}"
        elif p_W is not None:
            refused = self._refuse_place(p_W)
        if refused is not None:
            self.commands_refused += 1
            again = self.now_ns >= self._refused_ns + REPORT_AGAIN_NS
            if again or self._command_refused != refused:
                self._command_refused, self._refused_ns = refused, self.now_ns
                self.event(WARN, "command refused", refused)
        return refused

    def _refuse_place(self, p_W: Vec3) -> str | None:
        """Why a commanded position is not flown to, in words."""
        lowest_m = self.ground_m + self.params.failsafe.floor_m
        if p_W[2] < lowest_m:
            return f"z = {p_W[2]:.2f} m is too low; allowed: >= {lowest_m:.2f}"
        return self.fence.way_fault(self.estimate.p_W, p_W) or None

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

    def take_range(
        self, stamp_ns: int, range_m: float, variance_m2: float, half_beam_rad: float = 0.0
    ) -> None:
        """Take a reading of the range finder that looks down, as of ``Ground.take``."""
        self.ground.take(stamp_ns, range_m, variance_m2, half_beam_rad)

    def take_battery(self, stamp_ns: int, charge: float, voltage_V: float) -> None:
        """Take note of the battery: its charge, 0 to 1 or NaN, and its voltage under load."""
        self.battery.take(stamp_ns, charge, voltage_V, self.flying)

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
            self.suspend()
            self.fail(reason, placed=self.state != "hold")

    # what leads where

    def event(self, level: int, name: str, message: str) -> None:
        """Keep an event."""
        self._events.append((self.now_ns, level, name, message))

    def enter(self, state: str, message: str, level: int = OK) -> None:
        """Go over into a state, which is an event."""
        motors = STATES[state].motors
        self.state, self.armed, self.flying = state, motors != "off", motors == "on"
        self.entered_ns = self.now_ns
        self.touchdown.light_ns = None
        self.event(level, state, message)

    def stop(self, message: str) -> None:
        """Motors off, wherever the vehicle is."""
        self.reason, self.finished, self.blind = message, True, False
        self.enter("stopped", message, ERROR)

    def suspend(self) -> None:
        """Drop what was to come; the mission remembers how far it was flown."""
        self.land_at_ns = None
        if self.state == "mission":
            self.mission.suspend()

    def cut(self, v_W: Vec3) -> Vec3:
        """A commanded velocity, cut where it would lead across the fence."""
        braking_mps2 = self.params.acceleration_mps2
        return self.fence.cut(self.estimate.p_W, v_W, braking_mps2, BRAKING_LAG_S)

    def climb(self, height_m: float, speed_mps: float = 0.0) -> None:
        """Take off, straight up to a height above the ground here."""
        (x, y, _), _, _, yaw, _ = self.reference.motion()
        self.reference.go((x, y, self.ground_m + height_m), yaw, speed_mps)
        self.enter("takeoff", f"to {height_m:g} m")

    def fail(self, reason: str, blind: bool = False, placed: bool = True) -> None:
        """Begin a landing that nothing but its end, or force, ends.

        Args:
            reason: in words.
            blind: without any estimate: level, by thrust.
            placed: whether there is a position to land at; without, the velocity is kept at zero.
        """
        self.reason, self.blind, self.placed = reason, blind, placed
        descent_mps = self.params.failsafe.descent_mps
        if blind:
            down_s = max(self.height_m(), 0.0) / descent_mps + BLIND_MARGIN_S
            self.blind_until_ns = self.now_ns + round(down_s * 1e9)
        elif placed:
            self.sink_mps = self.params.landing_speed_mps
            self.reference.brake()
        else:
            self.reference.drift(descent_mps)
        self.enter("failsafe_landing", reason, ERROR)

    def begin_landing(self, message: str, speed_mps: float = 0.0) -> None:
        """Brake, then sink at a speed; 0 for the autopilot's."""
        self.sink_mps = speed_mps or self.params.landing_speed_mps
        self.reference.brake()
        self.enter("landing", message)

    def land_after(self, wait_s: float) -> None:
        """Land from the hover, if nobody commands anything until then."""
        self.land_at_ns = self.now_ns + round(wait_s * 1e9)

    def begin_way_home(self, height_m: float, speed_mps: float = 0.0) -> None:
        """Climb, then fly home; heights count from what they counted from before.

        Where a pilot flew above the ground as it comes, the way home does, too.

        Args:
            height_m: least height of the way, above home, or above the ground where one is held.
            speed_mps: fastest; 0 for the autopilot's.
        """
        x, y, z = self.estimate.p_W
        if self.pilot.took_over and self.ground.known:
            self.reference.go((x, y, self.height_m()), self.estimate.yaw, above=True)
            height_m = max(height_m, self.params.assisted.takeoff_m)
        above = self.reference.above
        base_m = self.ground.level_m if above else self.ground_m
        up_m = max(z - base_m, height_m) + (0.0 if above else self.ground_m)
        self.way = [(*self.home, up_m)]
        if z - base_m < height_m - self.params.arrival_radius_m:
            self.way.insert(0, (x, y, up_m))
        self._way_mps = speed_mps
        self.next_on_way()

    def next_on_way(self) -> None:
        """Fly to the next place on the way home."""
        above = self.reference.above
        self.reference.approach(self.way.pop(0), self.estimate.yaw, self._way_mps, above=above)

    def arrives(self) -> bool:
        """Whether the end of a leg is reached, or should have been a while ago."""
        reference, params = self.reference, self.params
        near = reference.away_m <= params.arrival_radius_m
        return reference.is_over and (near or reference.late_s > params.arrival_timeout_s)

    def go_home(self, reason: str) -> None:
        """Fly home and land there; nothing but its end, or a graver failsafe, ends it."""
        self.reason = reason
        self.enter("failsafe_return", reason, ERROR)
        self.begin_way_home(self.params.failsafe.floor_m + RECOVERY_CLIMB_M)

    def hold(self, message: str) -> None:
        """Stay by inertial navigation: velocity zero, height kept."""
        p_W, _, _, yaw, _ = self.reference.motion()
        self.suspend()
        self._held, self.fixed_ns = (self.state, p_W, yaw), None
        self.reference.drift(0.0)
        self.enter("hold", message, WARN)

    def end_hold(self) -> None:
        """Go on with what was held."""
        state, goal_W, yaw = self._held
        self.event(OK, "position fixed", f"after {self.since_s(self.entered_ns):.1f} s")
        self.reference.stand()
        if state in ("takeoff", "mission") and self.mission.item is not None:
            self.mission.begin()
        elif state == "failsafe_return":
            self.go_home(self.reason)
        else:
            self.reference.go(goal_W, yaw)
            self.enter("hover", "back to where it was told")

    def pull_up(self, message: str) -> None:
        """Level and full thrust until it climbs."""
        if self.state != "recovery":
            self.suspend()
            self._recovered_state = self.state
        self.recoveries += 1
        self.reference.pull_up(self.params.ascent_mps)
        self.enter("recovery", message, WARN)

    def recover_height(self, message: str) -> None:
        """Climb away from the ground; too often, land."""
        self.suspend()
        self.recoveries += 1
        if self.recoveries > MOST_RECOVERIES:
            self.fail("too low, again and again")
            return
        self._recovered_state = self.state
        self.climb_away()
        self.enter("recovery", message, WARN)

    def climb_away(self) -> None:
        """A leg straight up to the height that was wanted, or a safe one."""
        x, y, z = self.estimate.p_W
        wanted_m = self.reference.place[2]
        least_m = z - self.height_m() + self.params.failsafe.floor_m + RECOVERY_CLIMB_M
        self.reference.stand()
        self.reference.go((x, y, max(wanted_m, least_m)), self.estimate.yaw)

    def resume(self) -> None:
        """Go on with what came before a recovery."""
        state = self._recovered_state
        landing = state in (*LANDINGS, "failsafe_return")
        if self.recoveries > MOST_RECOVERIES and not landing:
            self.fail("too low, again and again")
        elif state in ("takeoff", "mission") and self.mission.item is not None:
            self.mission.begin()
        elif state == "landing":
            self.begin_landing("again", self.sink_mps)
        elif state == "failsafe_landing":
            self.fail(self.reason)
        elif state == "failsafe_return":
            self.go_home(self.reason)
        else:
            self.enter("hover", "recovered")

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
        self.reference.update()
        self._report_ground()
        watch_over(self)
        STATES[self.state].tick(self)
        if self.blind:
            p_W, yaw = self.estimate.p_W, self.estimate.yaw
            v_W = (0.0, 0.0, -self.params.failsafe.descent_mps)
            write_setpoint(setpoints, MODE_DESCEND, p_W, v_W, ZERO, yaw, 0.0)
            return
        self.reference.write(setpoints)
        self.touchdown.relax(setpoints)
        if not self.flying:
            setpoints["mode"] = MODE_IDLE if self.armed else MODE_STOP

    def _report_ground(self) -> None:
        """Report when the ground that is followed is lost, and when it is seen again."""
        above = self.reference.above
        told, self._ground_lost = self._ground_lost, above and self.ground.lost
        if self._ground_lost and not told:
            seen = "nothing within reach" if self.ground.far else "no reading"
            self.event(WARN, "ground lost", f"{seen}: the height is held, slower")
        elif told and above and not self._ground_lost:
            self.event(OK, "ground seen", "heights count from it again")
