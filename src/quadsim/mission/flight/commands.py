"""What leads on the way but the mission: commands of others, and swaying to find the heading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quadsim.base.elementary import cos
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_ATTITUDE
from quadsim.control.parameters import PositionParams
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.estimate_check import ZERO
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.states import OK, STEERED, WARN
from quadsim.mission.trajectories.course import Plan
from quadsim.mission.trajectories.limits import excess
from quadsim.mission.trajectories.timed import TrajectoryPoint, course_of

#: A command that is refused for the same reason is reported again after this, ns.
REPORT_AGAIN_NS = 5_000_000_000
#: Between two points of a trajectory that are held against the fence, s.
LOOK_S = 0.2
#: Time before a braking begins, s.
BRAKING_LAG_S = 0.3


class Commands:
    """Obeys commands, or states why not; as requests of the flight manager.

    Attributes:
        refused: how many were not obeyed for what was in them.
    """

    def __init__(
        self, flight: FlightContext, landing: Landing, mission: MissionItems, limits: PositionParams
    ) -> None:
        self._flight, self._limits = flight, limits
        self._landing, self._mission = landing, mission
        self.refused = 0
        self._velocity: tuple[Vec3, float] = (ZERO, 0.0)
        self._stamp_ns = 0  # of the velocity
        self._reported, self._reported_ns = "", 0

    def pose(self, p_W: Vec3, yaw: float) -> str | None:
        """Fly to a pose and hover there."""
        refused = self._refusal((*p_W, yaw), p_W)
        if refused is None:
            self._mission.suspend()
            self._flight.reference.approach(p_W, yaw)
            self._enter("guided", "flies to commanded poses")
        return refused

    def velocity(self, v_W: Vec3, yaw_rate: float) -> str | None:
        """Fly a velocity until the next command or until none comes."""
        flight = self._flight
        refused = self._refusal((*v_W, yaw_rate))
        if refused is None:
            self._mission.suspend()
            self._velocity, self._stamp_ns = (v_W, yaw_rate), flight.now_ns
            self._fly_velocity()
            self._enter("velocity", "flies commanded velocities")
        return refused

    def _fly_velocity(self) -> None:
        """Fly it, cut where it would lead across the fence."""
        flight, (v_W, yaw_rate) = self._flight, self._velocity
        braking_mps2 = flight.params.acceleration_mps2
        v_W = flight.fence.cut(flight.estimate.p_W, v_W, braking_mps2, BRAKING_LAG_S)
        flight.reference.fly_velocity(v_W, yaw_rate)

    def velocity_tick(self) -> None:
        """Go on with the velocity until commands are missing."""
        flight, failsafe = self._flight, self._flight.params.failsafe
        self._fly_velocity()
        if flight.since_s(self._stamp_ns) > failsafe.command_timeout_s:
            flight.reference.brake()
            flight.enter("hover", "the velocity commands stay away", WARN)
            self._landing.begin_after(failsafe.command_land_s)

    def trajectory(
        self, points: Sequence[TrajectoryPoint], begin_ns: int | None = None
    ) -> str | None:
        """Fly timed points, entered from the present motion, and hover at the end."""
        flight = self._flight
        numbers = (number for point in points for number in point.numbers)
        broken = tuple(number for number in numbers if not math.isfinite(number))
        refused = self._refusal(broken[:1])
        if refused is not None:
            return refused
        late_s = 0.0 if begin_ns is None else flight.since_s(begin_ns)
        try:
            plan = self._plan_of(points, late_s)
        except InputError as error:
            flight.event(WARN, "trajectory refused", str(error))
            return str(error)
        self._mission.suspend()
        flight.reference.join(plan, max(late_s, 0.0))
        self._enter("guided", "flies a commanded trajectory")
        return None

    def _plan_of(self, points: Sequence[TrajectoryPoint], late_s: float) -> Plan:
        """The plan of timed points.

        Raises:
            InputError: they come late, begin elsewhere, or break a limit, the floor or the fence.
        """
        flight, params = self._flight, self._flight.params
        timeout_s = params.failsafe.command_timeout_s
        if abs(late_s) > timeout_s:
            when = "old" if late_s > 0.0 else "ahead of the clock"
            raise InputError(f"{abs(late_s):.2f} s {when}; allowed: {timeout_s:g} s")
        plan = Plan(course_of(points))
        first, radius_m = plan.at(max(late_s, 0.0))[0], params.arrival_radius_m
        places_W = (flight.estimate.p_W, flight.reference.place)
        apart_m = min(math.dist(first, p_W) for p_W in places_W)
        if apart_m > radius_m:
            raise InputError(f"begins {apart_m:.2f} m from the vehicle; allowed: {radius_m:g} m")
        found = excess(plan, self._limits, flight.ground_m + params.failsafe.floor_m)
        if not found and flight.fence.bounds_anything:
            count = math.ceil(plan.duration_s / LOOK_S) + 2
            found = flight.fence.ways_fault([plan.at(k * LOOK_S)[0] for k in range(count)])
        if found:
            raise InputError(found)
        return plan

    def _enter(self, state: str, message: str) -> None:
        if self._flight.state != state:
            self._flight.enter(state, message)

    def _refusal(self, numbers: tuple[float, ...], p_W: Vec3 | None = None) -> str | None:
        """Why a command is not obeyed; counted, and reported once."""
        flight, refused = self._flight, None
        if not all(map(math.isfinite, numbers)):
            refused = f"a number in it is not finite: {numbers}"
        elif flight.state not in STEERED:
            return f"not while {flight.state}"
        elif p_W is not None:
            lowest_m = flight.ground_m + flight.params.failsafe.floor_m
            refused = flight.fence.way_fault(flight.estimate.p_W, p_W) or None
            if p_W[2] < lowest_m:
                refused = f"z = {p_W[2]:.2f} m is too low; allowed: >= {lowest_m:.2f}"
        if refused is not None:
            self.refused += 1
            again = flight.now_ns >= self._reported_ns + REPORT_AGAIN_NS
            if again or self._reported != refused:
                self._reported, self._reported_ns = refused, flight.now_ns
                flight.event(WARN, "command refused", refused)
        return refused


#: Deviation of the heading beyond which it is lost, rad: position control drives away.
LOST_RAD = 0.5 * math.pi
#: Tilt in each direction, rad, and the time of both, s. The latter is four of the intervals over
#: which the estimator takes accelerations; 2 m/s^2, 0.5 m/s, 0.13 m.
TILT_RAD, PERIOD_S = 0.2, 1.6
#: Longest time for it, s: three times what GNSS of 0.05 m/s needs.
MOST_S = 6.0
#: Height below which a tilt may strike the ground, m.
LEAST_M = 0.4
#: Gains that hold the height, 1/s^2 and 1/s.
HEIGHT_GAIN, CLIMB_GAIN = 1.0, 2.0
#: The heading is the pilot's matter, or there is a graver one.
UNSWAYED = ("manual", "recovery")


class Swaying:
    """A vehicle that does not know its heading: level, until GNSS has seen which way it sways.

    With a heading that is off by more than a right angle, position control drives the vehicle away
    from where it shall be. Attitude and height need no heading. So it tilts forth and back along
    its own x axis: the accelerations lie far above the noise of GNSS, and take it nowhere. The
    estimator compares both (:mod:`quadsim.estimation.eskf.heading`).
    """

    def __init__(self, flight: FlightContext, landing: Landing) -> None:
        self._flight, self._landing = flight, landing
        self.reset()

    def reset(self) -> None:
        """Forget the last flight."""
        self._begun_ns: int | None = None
        self._last_ns = 0
        self._height_m = self._thrust = 0.0

    def write(self, setpoints: Any) -> None:
        """Sway instead of what was written, while the heading is lost; in vain, land."""
        flight, landing = self._flight, self._landing
        lost = flight.estimate.yaw_sigma.item() > LOST_RAD
        if not lost or not flight.flying or flight.blind or flight.state in UNSWAYED:
            if self._begun_ns is not None and not lost:
                words = f"after {flight.since_s(self._begun_ns):.1f} s"
                flight.event(OK, "heading found", words)
            self._begun_ns = None
            return
        height_m = flight.height_m()
        if self._begun_ns is None:
            if height_m < LEAST_M:
                return
            self._begun_ns = self._last_ns = flight.now_ns
            self._height_m, self._thrust = height_m, flight.thrust
            flight.event(WARN, "heading lost", "sways until GNSS tells it")
        lasts_s = flight.since_s(self._begun_ns)
        if lasts_s > MOST_S:
            landing.fail("the heading is lost", blind=True)
            landing.trusted = False
            return
        pitch = TILT_RAD * cos(2.0 * math.pi * lasts_s / PERIOD_S)
        climb_mps = flight.estimate.v_W[2]
        up = HEIGHT_GAIN * (self._height_m - height_m) - CLIMB_GAIN * climb_mps
        setpoints["mode"] = MODE_ATTITUDE
        setpoints["roll"] = setpoints["yaw_rate"] = 0.0
        setpoints["pitch"] = pitch
        setpoints["thrust"] = (self._thrust + up) / cos(pitch)
        flight.reference.fall_behind(flight.now_ns - self._last_ns)
        self._last_ns = flight.now_ns
