"""The flight manager: requests from outside, and one step per tick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_DESCEND, MODE_IDLE, MODE_STOP
from quadsim.mission.flight.estimate_check import GOOD, MISSING, refusal
from quadsim.mission.flight.piloting import PILOTED, PilotedStates
from quadsim.mission.flight.states import ERROR, OK, STATES, WARN, FlightEvent
from quadsim.mission.formations import Gather
from quadsim.mission.items import corners, name_of
from quadsim.mission.reference.guidance import ZERO
from quadsim.mission.reference.legs import write_setpoint
from quadsim.mission.trajectories.course import Plan
from quadsim.mission.trajectories.limits import excess
from quadsim.mission.trajectories.timed import TrajectoryPoint, course_of

__all__ = ["ERROR", "OK", "STATES", "WARN", "FlightEvent", "FlightManager"]

#: A command that is refused for the same reason is told again after this, ns.
TELL_AGAIN_NS = 5_000_000_000
#: Between two points of a trajectory that are held against the fence, s.
LOOK_S = 0.2


class FlightManager(PilotedStates):
    """Decides what the vehicle does next; one call of :meth:`step` per tick, 50 times a second.

    Requests (:meth:`arm` and so on) return None when they are obeyed, else the reason of their
    refusal. Times are of the clock that :meth:`step` is given. Arguments and attributes as in
    :class:`quadsim.mission.flight.states.FlightStates`.
    """

    #: How many commands were not obeyed for what was in them.
    commands_refused = 0

    _refused = ""
    _told = ""  # of a command that was refused
    _told_ns = 0

    @property
    def has_reference(self) -> bool:
        """Whether the setpoint's position is one that the vehicle is to follow."""
        return self.flying and not self._blind and self.state not in ("velocity", "manual")

    def waypoints(self) -> NDArray[np.float64]:
        """Corners of the mission, (K, 3) in W."""
        return np.array(corners(self._items, self._params), dtype=float).reshape(-1, 3)

    def take_events(self) -> list[FlightEvent]:
        """Events (stamp_ns, level, name, message) since the last call."""
        events, self._events = self._events, []
        return events

    def status(self) -> dict[str, str]:
        """State, item and reason as texts, for ``mission/status``."""
        going = self._started and self._index < len(self._items)
        return {
            "state": self.state,
            "armed": str(self.armed).lower(),
            "item": str(self._index) if going else "",
            "item_name": name_of(self._items[self._index]) if going else "",
            "items": str(len(self._items)),
            "height": "above ground" if self._guidance.above else "absolute",
            "ground": "" if not self.ground.used else "known" if self.ground.known else "lost",
            "reason": self.reason,
            "finished": str(self.finished).lower(),
        }

    def arm(self) -> str | None:
        """Start the motors at idle, if the estimate is good and the vehicle stands level."""
        if self.armed:
            return "armed already"
        reason = (
            self._refuse_measurements()
            or refusal(self._watch, self._params.arming, self._battery.charge)
            or self._refuse_arming()
        )
        if reason is not None:
            if self._verdict != MISSING and reason.split(":")[0] != self._refused:
                self._refused = reason.split(":")[0]
                self._event(WARN, "arming refused", reason)
            return reason
        self._refused = ""
        self._reset()
        self._guidance.stand(self._stamp_ns, *self._guidance.estimate)
        self._enter("armed", "motors idle")
        return None

    def disarm(self, force: bool = False) -> str | None:
        """Stop the motors; in the air only by force."""
        if self.flying and not force:
            return "in the air; land first, or force it"
        if self.flying:
            self._stop("disarmed by force in the air")
        elif self.armed:
            self._enter("disarmed", "motors stopped")
        return None

    def start(self) -> str | None:
        """Begin the mission, or go on with one that was paused."""
        if not self._items:
            return "there is no mission"
        if self.state == "armed":
            self._started = True
            return None
        if self.state not in ("hover", "guided", "velocity", "returning", *PILOTED):
            return f"not while {self.state}" + ("" if self.armed else "; arm first")
        if not self._started or self._index >= len(self._items):
            return "the mission is over"
        self._begin_item()
        return None

    def pause(self) -> str | None:
        """Stop and hover; :meth:`start` goes on with the mission."""
        if self.state in PILOTED:
            return self._come_to_rest()
        if self.state not in ("mission", "guided", "velocity", "returning"):
            return f"not while {self.state}"
        self._suspend()
        self._guidance.brake(self._stamp_ns)
        self._enter("hover", "paused")
        return None

    def hover(self) -> str | None:
        """Hover here: brake, and fly back to where this was told, however fast the vehicle was.

        In a hover it moves that here, where the vehicle was pushed to.
        """
        if self.state not in ("mission", "hover", "guided", "velocity", "returning"):
            return f"not while {self.state}"
        self._suspend()
        self._guidance.hold(self._stamp_ns, estimated=self.state == "hover")
        self._enter("hover", "here, as told")
        return None

    def return_home(self) -> str | None:
        """Fly back above the place of take-off and land there."""
        if self.state not in ("mission", "hover", "guided", "velocity"):
            return f"not while {self.state}"
        self._suspend()
        self._enter("returning", "home, as told")
        self._begin_way_home(self._params.home_height_m, 0.0)
        return None

    def abort(self) -> str | None:
        """Give the mission up: stop and land here."""
        refused = self.land()
        if refused is None:
            self._index = len(self._items)
            self._event(WARN, "aborted", "the mission was given up")
        return refused

    def land(self) -> str | None:
        """Stop and land here."""
        if not self.flying or "landing" in self.state:
            return f"not while {self.state}"
        self._suspend()
        self._begin_landing(self._params.landing_speed_mps, "here, as told")
        return None

    def command_pose(self, p_W: Vec3, yaw: float) -> str | None:
        """Fly to a pose and hover there.

        Args:
            p_W: position in m.
            yaw: in rad.
        """
        refused = self._refuse_command((*p_W, yaw), p_W)
        if refused is None:
            self._suspend()
            self._guidance.approach(self._stamp_ns, p_W, yaw)
            if self.state != "guided":
                self._enter("guided", "flies to commanded poses")
        return refused

    def command_velocity(self, v_W: Vec3, yaw_rate: float) -> str | None:
        """Fly a velocity until the next command, or until commands stay away.

        Args:
            v_W: in m/s.
            yaw_rate: about the vertical, in rad/s.
        """
        refused = self._refuse_command((*v_W, yaw_rate))
        if refused is None:
            self._suspend()
            self._asked = (v_W, yaw_rate)
            self._guidance.fly_velocity(self._stamp_ns, self._cut(v_W), yaw_rate)
            self._commanded_ns = self._stamp_ns
            if self.state != "velocity":
                self._enter("velocity", "flies commanded velocities")
        return refused

    @property
    def gathers_at(self) -> int | None:
        """Index of the item at which it waits for the other vehicles of the swarm; else None."""
        waits = self.state == "mission" and not self._released
        return self._index if waits and isinstance(self._items[self._index], Gather) else None

    @property
    def on_its_way(self) -> bool:
        """Whether it is armed, and its mission still to come to where others may wait for it."""
        return not self.finished and self.state in ("armed", "takeoff", "mission")

    @property
    def may_fly(self) -> bool:
        """Whether it stands disarmed with its mission before it, and every motor turns."""
        return self.state == "disarmed" and not (self.finished or self._crippled)

    def release(self) -> None:
        """Go on from where it waits for the others: all are here."""
        self._released = True

    def give_way(self, delay_ns: int) -> None:
        """Let the reference wait; who leaves its way for another vehicle is not off course."""
        self._off_ns = None
        self._guidance.fall_behind(delay_ns)

    def source_changed(self) -> None:
        """Odometries come from elsewhere from now on: a step of the position is no jump."""
        self._watch["known"] = 0

    def take_range(
        self, stamp_ns: int, range_m: float, variance_m2: float, half_beam_rad: float = 0.0
    ) -> None:
        """Take a reading of the range finder that looks down.

        Args:
            stamp_ns: of the reading, by the odometry's clock.
            range_m: along body -z in m; +inf: nothing within reach, -inf: too near, NaN: nothing
                known.
            variance_m2: of it; not above 0: not stated.
            half_beam_rad: half the width of the beam, 0 for a ray.
        """
        self.ground.take(stamp_ns, range_m, variance_m2, half_beam_rad)

    def command_trajectory(
        self, points: Sequence[TrajectoryPoint], begin_ns: int | None = None
    ) -> str | None:
        """Fly timed points, entered from the present motion, and hover at the end.

        Args:
            points: at least two, in W; their times count from the first. See
                :func:`quadsim.mission.trajectories.timed.course_of` for what lies between them.
            begin_ns: the time of the first point; None: now.
        """
        numbers = [
            number
            for point in points
            for part in (point.t_s, point.p_W, point.yaw, point.v_W, point.a_W, point.yaw_rate)
            if part is not None
            for number in (part if isinstance(part, tuple) else (part,))
        ]
        broken = tuple(number for number in numbers if not math.isfinite(number))[:1]
        refused = self._refuse_command(broken)
        if refused is not None:
            return refused
        late_s = 0.0 if begin_ns is None else self._since_s(begin_ns)
        timeout_s = self._params.failsafe.command_timeout_s
        if abs(late_s) > timeout_s:
            when = "old" if late_s > 0.0 else "ahead of the clock"
            return self._refuse_trajectory(f"{abs(late_s):.2f} s {when}; allowed: {timeout_s:g} s")
        try:
            plan = Plan(course_of(points))
        except InputError as error:
            return self._refuse_trajectory(str(error))
        begin_s = max(late_s, 0.0)
        first = plan.at(begin_s)[0]
        apart_m = min(
            math.dist(first, p_W)
            for p_W in (self._guidance.estimate[0], self._guidance.motion(self._stamp_ns)[0])
        )
        radius_m = self._params.arrival_radius_m
        if apart_m > radius_m:
            return self._refuse_trajectory(
                f"begins {apart_m:.2f} m from the vehicle; allowed: {radius_m:g} m"
            )
        floor_m = self._ground_m + self._params.failsafe.floor_m
        found = excess(plan, self._position, floor_m) or self._refuse_ways(plan)
        if found:
            return self._refuse_trajectory(found)
        self._suspend()
        self._guidance.join(self._stamp_ns, plan, begin_s)
        if self.state != "guided":
            self._enter("guided", "flies a commanded trajectory")
        return None

    def _refuse_ways(self, plan: Plan) -> str:
        """What of the fence a trajectory breaks, in words."""
        if not self._fence.bounds_anything:
            return ""
        count = math.ceil(plan.duration_s / LOOK_S) + 1
        return self._fence.ways_fault([plan.at(k * LOOK_S)[0] for k in range(count + 1)])

    def _refuse_trajectory(self, reason: str) -> str:
        self._event(WARN, "trajectory refused", reason)
        return reason

    def _refuse_command(self, numbers: tuple[float, ...], p_W: Vec3 | None = None) -> str | None:
        """Why a command is not obeyed; counted, and told once."""
        refused = None
        if not all(map(math.isfinite, numbers)):
            refused = f"a number in it is not finite: {numbers}"
        elif self.state not in ("mission", "hover", "guided", "velocity", "returning"):
            return f"not while {self.state}"
        elif p_W is not None:
            refused = self._refuse_place(p_W)
        if refused is not None:
            self.commands_refused += 1
            if self._stamp_ns >= self._told_ns + TELL_AGAIN_NS or self._told != refused:
                self._told, self._told_ns = refused, self._stamp_ns
                self._event(WARN, "command refused", refused)
        return refused

    def step(self, stamp_ns: int, odometries: Any, setpoints: Any, thrust: float = 0.0) -> None:
        """Advance to a time and write what is wanted now; every number written is finite.

        Args:
            stamp_ns: the flight's time in ns.
            odometries: (1,) ODOMETRY, the newest, or None if there has been none yet.
            setpoints: (1,) SETPOINT, the result.
            thrust: last commanded collective specific thrust in m/s^2, by which touch-down is felt.
        """
        self._stamp_ns = stamp_ns
        self._thrust = thrust
        guidance = self._guidance
        if odometries is not None:
            self._odometry = odometries
        if self._odometry is not None:
            (
                self._verdict, self._good_s, p_W, self._v_W, yaw, self._growth_m, self._sigma_m,
                self._sigma_z_m,
            ) = guidance.look(self._watch, self._limits, stamp_ns, self._odometry)  # fmt: skip
            self._v_up = self._v_W[2]
            guidance.estimate = (p_W, yaw)
            guidance.velocity = self._v_W
            if self._verdict == GOOD and self.ground.used and not guidance.above:
                self.ground.step(self._odometry)
        guidance.update(stamp_ns)
        if self._ground_lost or (guidance.above and self._following.lost):
            self._tell_ground()
        self._watch_over()
        handler = self._handlers.get(self.state)
        if handler is not None:
            handler()
        if self._blind:
            p_W, yaw = guidance.estimate
            v_W = (0.0, 0.0, -self._params.failsafe.descent_mps)
            write_setpoint(setpoints, MODE_DESCEND, p_W, v_W, ZERO, yaw, 0.0)
            return
        guidance.write(stamp_ns, setpoints)
        self._sway(setpoints)
        self._relax(setpoints)
        if not self.flying:
            setpoints["mode"] = MODE_IDLE if self.armed else MODE_STOP
