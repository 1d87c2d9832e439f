"""What leads on the way but the mission: commands, sticks of a pilot, swaying to find the heading.

Sticks fly assisted, or manual where that is allowed; see docs/piloting.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.elementary import cos, sin
from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3, pack
from quadsim.base.records import MODE_ATTITUDE, SETPOINT
from quadsim.control import assisted
from quadsim.control.joystick import RELEASED, Sticks
from quadsim.control.parameters import GRAVITY_MPS2, PositionParams
from quadsim.control.pid import clamp
from quadsim.mission.flight.context import FlightContext
from quadsim.mission.flight.estimate_check import ZERO
from quadsim.mission.flight.landing import Landing
from quadsim.mission.flight.mission_items import MissionItems
from quadsim.mission.flight.states import OK, STEERED, WARN
from quadsim.mission.reference.legs import write_setpoint
from quadsim.mission.reference.reference import YAW_ACCELERATION_RADPS2
from quadsim.mission.trajectories.course import Plan
from quadsim.mission.trajectories.limits import excess
from quadsim.mission.trajectories.timed import TrajectoryPoint, course_of

#: A command that is refused for the same reason is reported again after this, ns.
REPORT_AGAIN_NS = 5_000_000_000
#: Between two points of a trajectory that are held against the fence, s.
LOOK_S = 0.2
#: Time before a braking begins, s.
BRAKING_LAG_S = 0.3

#: Longest tick that the reference is advanced by, s.
MOST_TICK_S = 0.1


class Pilot:
    """The sticks of one flight.

    Args:
        flight: whose state and reference they lead.
        landing, mission: which they interrupt.

    Attributes:
        lifts: takes off without a mission.
    """

    def __init__(self, flight: FlightContext, landing: Landing, mission: MissionItems) -> None:
        self._flight, self._landing, self._mission = flight, landing, mission
        self._assisteds: Any = assisted.new_assisted()
        self._params = np.array([pack(flight.params.assisted)])
        self._given: NDArray[np.record] = np.zeros(1, SETPOINT)
        self.lifts = False
        self._stick_ns = 0  # when sticks were last heard
        self._stepped_ns = 0
        self._resting = ""  # why it is to come to rest and hover; empty: it is not
        self._lost = False
        self._wish = RELEASED  # forward, left, up, yaw rate
        self._attitude = (0.0, 0.0, 0.0, GRAVITY_MPS2)  # roll, pitch, yaw rate, thrust

    # requests

    def take_off(self) -> str | None:
        """Take off to ``assisted.takeoff_m`` and hover there."""
        flight = self._flight
        if flight.state != "armed":
            return f"not while {flight.state}" + ("" if flight.armed else "; arm first")
        self.lifts = True
        return None

    def assist(self) -> str | None:
        """Take the vehicle over in assisted control."""
        if self._flight.state not in (*STEERED, "manual"):
            return f"not while {self._flight.state}"
        self._begin("by request")
        return None

    def fly_manually(self) -> str | None:
        """Take the vehicle over without any help."""
        flight = self._flight
        if not flight.params.manual.allowed:
            return "manual flight is not allowed (flight.manual.allowed)"
        if flight.state not in (*STEERED, "assisted"):
            return f"not while {flight.state}"
        self._mission.suspend()
        self._attitude = (0.0, 0.0, 0.0, GRAVITY_MPS2)
        self._stick_ns = flight.now_ns
        flight.reference.borrow(self._given)
        flight.enter("manual", "by request")
        self.manual_tick()
        return None

    def take_sticks(self, sticks: Sticks) -> str | None:
        """Fly by sticks as the state has it: manual where that was asked for, else assisted.

        Args:
            sticks: forward, left, up, yaw; each in [-1, 1].
        """
        if self._flight.state == "manual":
            return self.command_manual(*assisted.manual_wish(self._flight.params.manual, sticks))
        return self.command_stick(*assisted.assisted_wish(self._flight.params.assisted, sticks))

    def command_stick(
        self, forward_mps: float, left_mps: float, up_mps: float, yaw_rate_radps: float
    ) -> str | None:
        """Fly by sticks in assisted control; a stick that is moved takes over.

        Args:
            forward_mps: velocity along the heading; all four 0: released, hover.
            left_mps: velocity to the left of it.
            up_mps: how fast the height held above ground grows.
            yaw_rate_radps: about the vertical.
        """
        flight, limits = self._flight, self._flight.params.assisted
        request = (forward_mps, left_mps, up_mps, yaw_rate_radps)
        if refused := self._refusal(request, (*STEERED, "assisted")):
            return refused
        moved = any(request)
        if flight.state != "assisted":
            if not moved:
                flight.land_at_ns = None  # somebody is there again
                return None
            self._begin("a stick was moved")
        up_mps = clamp(up_mps, -limits.climb_mps, limits.climb_mps)
        turn = clamp(yaw_rate_radps, -limits.yaw_rate_radps, limits.yaw_rate_radps)
        self._wish = (forward_mps, left_mps, up_mps, turn)
        self._stick_ns, self._lost = flight.now_ns, False
        if moved:
            self._resting = ""
        return None

    def command_manual(
        self, roll: float, pitch: float, yaw_rate: float, thrust: float
    ) -> str | None:
        """Fly by sticks in manual flight.

        Args:
            roll: wanted, in rad.
            pitch: wanted, in rad.
            yaw_rate: about the vertical, in rad/s.
            thrust: collective specific thrust in m/s^2.
        """
        request = (roll, pitch, yaw_rate, thrust)
        if refused := self._refusal(request, ("manual",)):
            return refused
        self._attitude, self._stick_ns = request, self._flight.now_ns
        return None

    def _refusal(self, numbers: tuple[float, ...], states: tuple[str, ...]) -> str | None:
        if not all(map(math.isfinite, numbers)):
            self._flight.event(WARN, "stick refused", f"not a number in {numbers}")
            return "a number in it is not finite"
        return None if self._flight.state in states else f"not while {self._flight.state}"

    def come_to_rest(self) -> None:
        """Brake by the sticks' own reference, which minds the ground; then hover."""
        if self._flight.state == "manual":
            self._begin("to come to rest")
        self._wish, self._resting = RELEASED, "paused"

    # assisted

    def _begin(self, why: str) -> None:
        flight = self._flight
        self._mission.suspend()
        flight.ground.use()
        assisted.begin_assisted(self._assisteds, *flight.reference.motion())
        assisted.write_assisted(self._assisteds, self._given)
        flight.reference.borrow(self._given)
        self._stick_ns = self._stepped_ns = flight.now_ns
        self._resting, self._lost, self._wish = "", False, RELEASED
        flight.took_over, flight.recoveries = True, 0
        flight.enter("assisted", why)

    def _below(self) -> assisted.Ground:
        """The ground, as far as it is known, and how fast one may fly above it."""
        flight, ground, params = self._flight, self._flight.ground, self._flight.params.assisted
        reference = self._assisteds[0]
        if ground.near:
            return (1, flight.estimate.p_W[2], 0.0, 0.0, 0.0)
        if ground.known:
            height_m, east, north = ground.at(float(reference.p_W[0]), float(reference.p_W[1]))
            return (1, height_m, east, north, params.speed_mps)
        if ground.far:
            return (0, -math.inf, 0.0, 0.0, params.speed_mps)
        if ground.never_seen:  # no range finder: as flat as the take-off point
            return (0, flight.ground_m, 0.0, 0.0, params.speed_mps)
        return (0, float(reference.held_m) - params.lowest_m, 0.0, 0.0, 0.0)

    def _inside(self, request: Sticks) -> Sticks:
        """A request, cut where it would lead across the fence."""
        flight, params = self._flight, self._flight.params.assisted
        if not flight.fence.bounds_anything:
            return request
        yaw = float(self._assisteds[0].yaw)
        c, s = cos(yaw), sin(yaw)
        forward, left, up, turn = request
        v_W = (c * forward - s * left, s * forward + c * left, up)
        east, north, up = flight.fence.cut(
            flight.estimate.p_W, v_W, params.acceleration_mps2, params.timeout_s
        )
        return (c * east + s * north, -s * east + c * north, up, turn)

    def assisted_tick(self) -> None:
        """Move the reference by the sticks; come to rest where they are missing."""
        flight, params = self._flight, self._flight.params
        silent_s = flight.since_s(self._stick_ns)
        if silent_s > params.assisted.timeout_s and not self._lost:
            self._lost, self._wish, self._resting = True, RELEASED, "the sticks stay away"
            words = f"nothing heard for {silent_s:.1f} s: stops and hovers"
            flight.event(WARN, "sticks lost", words)
        self._assisteds[0].request[:] = self._inside(self._wish)
        dt_s = min(flight.since_s(self._stepped_ns), MOST_TICK_S)
        self._stepped_ns = flight.now_ns
        assisted.assisted_step(
            self._assisteds, self._params, flight.estimate.p_W, self._below(),
            YAW_ACCELERATION_RADPS2, dt_s,
        )  # fmt: skip
        assisted.write_assisted(self._assisteds, self._given)
        if self._resting and assisted.at_rest(self._assisteds):
            flight.reference.brake()
            flight.enter("hover", self._resting, WARN if self._lost else OK)
            if self._lost:
                self._landing.begin_after(params.failsafe.command_land_s)

    # manual

    def manual_tick(self) -> None:
        """Pass the attitude on; assisted where the sticks are missing."""
        flight, given, estimate = self._flight, self._given, self._flight.estimate
        roll, pitch, yaw_rate, thrust = self._attitude
        write_setpoint(
            given, MODE_ATTITUDE, estimate.p_W, estimate.v_W, ZERO, estimate.yaw, yaw_rate
        )
        given["roll"], given["pitch"], given["thrust"] = roll, pitch, thrust
        if flight.since_s(self._stick_ns) > flight.params.assisted.timeout_s:
            stick_ns = self._stick_ns
            self._begin("no message from the sticks")
            self._stick_ns = stick_ns
            self.assisted_tick()
        elif self._landing.is_down():
            flight.enter("landed", "touch-down")

    # take-off

    def lift_tick(self) -> None:
        """Take over at the end of a take-off without a mission."""
        flight = self._flight
        if flight.reference.is_over and self._mission.is_reached(None):
            self.lifts = False
            if flight.state == "takeoff":
                self._begin("in the air")


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


#: Deviation of the heading beyond which it is lost, rad: position control diverges.
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

    With a heading that is off by more than a right angle, position control drives the vehicle from
    where it shall be. Attitude and height need no heading. So it tilts forth and back along
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
