"""The reference that the vehicle is to follow now, and how it goes over into the next one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.base.records import MODE_POSITION, MODE_VELOCITY, SETPOINT
from quadsim.control.parameters import FlightParams
from quadsim.geometry.rotation import wrap
from quadsim.mission.flight.estimate_check import ZERO, EstimateCheck
from quadsim.mission.reference import legs
from quadsim.mission.reference.ground import LEAST_MPS, Ground
from quadsim.mission.reference.legs import Motion
from quadsim.mission.trajectories.course import Flyable, Joined, Plan

#: Most angular acceleration of a turn, rad/s^2.
YAW_ACCELERATION_RADPS2 = 3.0
#: How far below the estimate a descending reference may be, m: enough to press onto the ground.
SINK_LEAD_M = 0.3
#: Wanted upwards in a pull-up, m/s^2: more than any vehicle has, so that it is level and all.
PULL_UP_MPS2 = 100.0
#: Time in which a descent reaches its speed, s.
SINK_RAMP_S = 0.5
#: Duration of a leg back to where it began in motion, over that of braking: its peak acceleration,
#: 5.01 speed / duration, is the limit then.
RETURN_SHARE = 2.7
#: How far a leg is led aside by the acceleration that it begins with, over a T^2: the most of
#: tau^2 / 2 - 5 tau^4 + 10 tau^5 - 7.5 tau^6 + 2 tau^7. A long leg that would go farther aside
#: begins without it.
ASIDE_SHARE = 0.027
MOST_ASIDE_M = 0.3
#: A leg that takes longer begins so slowly that a vehicle would stand nearly without weight for
#: seconds, and tip over.
SLOW_LEG_S = 10.0
#: Slowest limit of speed on the way to a goal, m/s.
STANDING_MPS = 0.05


def _vec3(array: NDArray[np.float64]) -> Vec3:
    x, y, z = array.tolist()
    return (x, y, z)


def _step(value: float, wanted: float, most: float) -> float:
    """A value moved towards a wanted one, by no more than ``most``."""
    return value + min(max(wanted - value, -most), most)


class Reference:
    """The reference and its kind: leg, goal, plan, sink, drift, pull_up, velocity, or given.

    Each new one begins in the motion of the last, so that the reference never jumps, except where
    the mission jumps itself (timed points) or after a loss of the estimate (:meth:`stand`).

    While ``above`` is set, heights of the reference count from the ground beneath. What goes in
    and out as a motion is in W all the same. A leg is flown in its own time, which goes on slower
    than time does where the ground allows no more speed.

    Args:
        estimate: a descent stays next to it, and a velocity is flown from it.
        ground: the level that heights above ground count from.
        goals: places are flown to without a leg: the setpoint is the goal itself.

    Attributes:
        kind: one of the above.
        now_ns: the flight's time.
        above: whether heights count from the ground.
    """

    def __init__(
        self, params: FlightParams, estimate: EstimateCheck, ground: Ground, goals: bool = False
    ) -> None:
        self._params, self._estimate, self._ground, self._goals = params, estimate, ground, goals
        self.kind, self.now_ns, self.above = "leg", 0, False
        self._leg = legs.new_leg()
        self._leg_s = self._leg["duration_s"]
        self._now: NDArray[np.record] = np.zeros(1, SETPOINT)
        self._start_ns = 0
        self._lead_ns = 0  # start of the leg that leads to a plan
        self._pace, self._paced_ns, self._most_mps = 1.0, 0, math.inf
        self._goal: Vec3 = ZERO
        self._origin: tuple[Vec3, float] = (ZERO, 0.0)
        self._speed = 0.0
        self._plan: Any = None
        self._velocity: tuple[Vec3, float] = (ZERO, 0.0)
        self._wanted = self._velocity
        self._given: Any = None

    # what it is now

    @property
    def elapsed_s(self) -> float:
        """Time since the reference's start."""
        return (self.now_ns - self._start_ns) * 1e-9

    @property
    def is_over(self) -> bool:
        """Whether a leg or a plan has come to its end; descents never do.

        A goal has no way to be on: being there is all that counts.
        """
        if self.kind == "leg":
            return bool(self.elapsed_s >= self._leg_s.item())
        return self.kind == "goal" or (
            self.kind == "plan" and self.elapsed_s >= self._plan.duration_s
        )

    @property
    def late_s(self) -> float:
        """Time since the end of a leg, or since one to the goal would have ended."""
        return float(self.elapsed_s - self._leg_s.item())

    @property
    def progress_s(self) -> float:
        """How far a plan has been flown, in its own time."""
        t_s = self.elapsed_s
        return self._plan.progress(t_s) if self.kind == "plan" else t_s

    @property
    def away_m(self) -> float:
        """Distance of the estimate from where the leg or the goal is."""
        x, y, z = self._estimate.p_W
        level = self._ground.level_m if self.above else 0.0
        return math.dist((x, y, z - level), self._goal)

    @property
    def over_m(self) -> float:
        """Height of the estimate over where the leg or the goal is."""
        return self._estimate.p_W[2] - (self._ground.level_m if self.above else 0.0) - self._goal[2]

    @property
    def place(self) -> Vec3:
        """Where it is, in W."""
        return self.motion()[0]

    def motion(self) -> Motion:
        """Position, velocity, acceleration, yaw and yaw rate, in W."""
        self.write(self._now)
        estimate, now = self._estimate, self._now
        if self.kind == "goal":
            return (estimate.p_W, estimate.v_W, ZERO, estimate.yaw, 0.0)
        p, v, a = (_vec3(now[name][0]) for name in ("p_W", "v_W", "a_W"))
        return (p, v, a, now["yaw"].item(), now["yaw_rate"].item())

    def update(self) -> None:
        """Move on to the present estimate: the level of the ground, and the pace that it allows."""
        if not self.above:
            if self._estimate.good:
                self._ground.observe(self._estimate.odometries)
            self._pace, self._paced_ns, self._most_mps = 1.0, self.now_ns, math.inf
            return
        dt_s = min(max(self.now_ns - self._paced_ns, 0) * 1e-9, 0.1)
        self._paced_ns = self.now_ns
        leg_s = self.elapsed_s if self.kind == "leg" else math.nan
        length, most = self._ground.follow(
            self._estimate, self.now_ns, self._leg, leg_s, self._goal
        )
        if length < LEAST_MPS:
            return
        self._most_mps = most
        pace = 1.0
        if self.kind == "leg":
            step = self._params.acceleration_mps2 * dt_s / length
            pace = self._pace = _step(self._pace, min(1.0, most / length), step)
        elif self.kind == "goal":  # a limited speed is no delay
            pace = min(1.0, most / (self._speed or self._params.speed_mps))
        self._start_ns += round((1.0 - pace) * dt_s * 1e9)

    # what it becomes

    def _begin_frame(self, above: bool, height_m: float = 0.0) -> Motion:
        """Change what heights count from; gives the present motion in the new frame.

        Args:
            above: whether heights count from the ground.
            height_m: that will be held, if so.
        """
        p, v, a, yaw, yaw_rate = self.motion()
        ground = self._ground
        if above:
            if not self.above:
                ground.begin(self._estimate, self.now_ns, self._leg, height_m)
            p, v = (p[0], p[1], p[2] - ground.level_m), (v[0], v[1], v[2] - ground.climb_mps)
        self.above = above
        return (p, v, a, yaw, yaw_rate)

    def _begin(self, kind: str, p: Vec3 = ZERO, yaw: float = 0.0, speed_mps: float = 0.0) -> None:
        self.kind, self._start_ns = kind, self.now_ns
        self._origin, self._speed = (p, yaw), speed_mps

    def _begin_leg(self, start: Motion, goal: Vec3, yaw: float, duration_s: float) -> None:
        legs.plan_leg(self._leg, start, goal, yaw, duration_s)
        self._begin("leg")
        self._goal = goal

    def stand(self) -> None:
        """Rest where the estimate is at once, whatever came before."""
        self.above = False
        p_W, yaw = self._estimate.p_W, self._estimate.yaw
        self._begin_leg((p_W, ZERO, ZERO, yaw, 0.0), p_W, yaw, 0.0)

    def go(
        self,
        goal_W: Vec3,
        yaw: float,
        speed_mps: float = 0.0,
        acceleration_mps2: float = 0.0,
        above: bool = False,
        lift_mps: float = 0.0,
    ) -> None:
        """Fly straight to rest at a pose, as fast as the limits allow.

        Args:
            goal_W: position in m; its height in W, or above the ground.
            yaw: in rad.
            speed_mps: limit; 0 for the autopilot's.
            acceleration_mps2: limit; 0 for the autopilot's.
            above: whether the goal's height counts from the ground.
            lift_mps: speed upwards at which it begins.
        """
        p, v, a, yaw_now, yaw_rate = start = self._begin_frame(above, goal_W[2])
        speed = speed_mps or self._params.speed_mps
        acceleration = acceleration_mps2 or self._params.acceleration_mps2
        climb = goal_W[2] - p[2]
        vertical = min(speed, self._params.ascent_mps if climb > 0.0 else self._params.descent_mps)
        duration_s = max(
            legs.rest_duration(math.dist(p, goal_W), speed, acceleration),
            legs.rest_duration(abs(climb), vertical, acceleration),
            self._turn_duration(yaw - yaw_now),
        )
        duration_s += 2.0 * self._brake_duration(v, a, yaw_rate)
        if ASIDE_SHARE * math.hypot(*a) * duration_s * duration_s > MOST_ASIDE_M:
            start = (p, v, ZERO, yaw_now, yaw_rate)
        if lift_mps > 0.0 and duration_s > SLOW_LEG_S:
            start = (p, (v[0], v[1], lift_mps), *start[2:])
        self._begin_leg(start, goal_W, yaw, duration_s)

    def reach(self, start: Motion, goal_W: Vec3, yaw: float, duration_s: float) -> None:
        """Fly from a motion in W to rest at a pose in a given time, whatever the limits are."""
        self.above = False
        self._begin_leg(start, goal_W, yaw, duration_s)

    def approach(
        self,
        goal_W: Vec3,
        yaw: float,
        speed_mps: float = 0.0,
        acceleration_mps2: float = 0.0,
        above: bool = False,
    ) -> None:
        """Fly to a place by a leg, or with the place itself as setpoint; as :meth:`go`."""
        self.go(goal_W, yaw, speed_mps, acceleration_mps2, above)
        if self._goals:
            self._begin("goal", goal_W, yaw, speed_mps)

    def hold(self, estimated: bool = False) -> None:
        """Come to rest, and back to where the reference, or the estimate, is now."""
        if estimated:
            self.kind = "goal"  # whose motion is the estimate's
        p, v, a, yaw, yaw_rate = start = self._begin_frame(self.above)
        self._begin_leg(start, p, yaw, RETURN_SHARE * self._brake_duration(v, a, yaw_rate))

    def shift(self, change_W: Vec3) -> None:
        """Move a leg to where the estimate has moved without the vehicle."""
        for i in range(3):
            self._leg["coefficients"][0, i, 0] += change_W[i]
        x, y, z = self._goal
        self._goal = (x + change_W[0], y + change_W[1], z + change_W[2])

    def brake(self) -> None:
        """Come to rest straight ahead."""
        p, v, a, yaw, yaw_rate = start = self._begin_frame(self.above)
        duration_s = self._brake_duration(v, a, yaw_rate)
        ahead = 0.5 * duration_s
        goal = (p[0] + ahead * v[0], p[1] + ahead * v[1], p[2] + ahead * v[2])
        self._begin_leg(start, goal, yaw + ahead * yaw_rate, duration_s)

    def _turn_duration(self, angle: float) -> float:
        params = self._params
        return legs.rest_duration(abs(wrap(angle)), params.yaw_rate_radps, YAW_ACCELERATION_RADPS2)

    def _brake_duration(self, v: Vec3, a: Vec3, yaw_rate: float) -> float:
        speed = math.hypot(*v) + 0.1 * math.hypot(*a)
        return max(
            legs.brake_duration(speed, self._params.acceleration_mps2),
            legs.brake_duration(abs(yaw_rate), YAW_ACCELERATION_RADPS2),
        )

    def fly(self, plan: Flyable) -> None:
        """Fly a plan, after a leg to its beginning where the reference is elsewhere."""
        p, _, _, yaw, _ = plan.at(0.0)
        self.go(p, yaw)
        self._enter_plan(plan)
        self._start_ns += round(self._leg_s.item() * 1e9)

    def follow(self, plan: Flyable, from_s: float = 0.0) -> None:
        """Fly a plan from a time within it on, wherever the reference was."""
        self.above = False
        self._enter_plan(plan)
        self._start_ns -= round(from_s * 1e9)

    def join(self, plan: Plan, begin_s: float) -> None:
        """Fly a plan from a time within it on, entered from the present motion without a jump."""
        motion = self._begin_frame(above=False)
        p, v, a, yaw, yaw_rate = plan.at(begin_s)
        params = self._params
        apart_s = max(
            legs.rest_duration(math.dist(motion[0], p), params.speed_mps, params.acceleration_mps2),
            self._turn_duration(yaw - motion[3]),
        )
        speed = math.dist(motion[1], v) + 0.1 * math.dist(motion[2], a)
        moving_s = max(
            legs.brake_duration(speed, params.acceleration_mps2),
            legs.brake_duration(abs(yaw_rate - motion[4]), YAW_ACCELERATION_RADPS2),
        )
        self._enter_plan(Joined(plan, begin_s, motion, max(2.0 * apart_s, RETURN_SHARE * moving_s)))

    def _enter_plan(self, plan: Flyable) -> None:
        self._begin("plan")
        self._plan, self._lead_ns, self._goal = plan, self.now_ns, plan.at(plan.duration_s)[0]

    def fall_behind(self, delay_ns: int) -> None:
        """Let a leg or a plan be later; nothing else has a course of time."""
        if self.kind in ("leg", "plan"):
            self._start_ns += delay_ns
            self._lead_ns += delay_ns

    def sink(self, speed_mps: float) -> None:
        """Descend vertically until told otherwise."""
        p, _, _, yaw, _ = self._begin_frame(above=False)
        self._begin("sink", p, yaw, speed_mps)

    def drift(self, sink_mps: float) -> None:
        """Keep the velocity at zero, wherever that leads, and the height, or sink."""
        p, _, _, yaw, _ = self._begin_frame(above=False)
        self._begin("drift", p if self.kind == "drift" else self._estimate.p_W, yaw, sink_mps)

    def pull_up(self, climb_mps: float) -> None:
        """Climb, level and with all thrust there is, until told otherwise."""
        self._begin("pull_up", self._begin_frame(above=False)[0], self._estimate.yaw, climb_mps)

    def fly_velocity(self, v_W: Vec3, yaw_rate: float) -> None:
        """Take up a velocity, within the acceleration, and a yaw rate in rad/s."""
        if self.kind != "velocity":
            _, v, _, _, rate = self.motion()
            self._begin("velocity")
            self._velocity = (v, rate)
        self.above = False
        self._wanted = (v_W, yaw_rate)

    def borrow(self, given: Any) -> None:
        """Take the reference from a (1,) SETPOINT that somebody else writes, tick by tick."""
        self.above = False
        self._begin("given")
        self._given = given

    # how it is written

    def write(self, setpoints: Any) -> None:
        """Write the reference into a (1,) SETPOINT array."""
        t_s, kind = self.elapsed_s, self.kind
        level_m, climb_mps = 0.0, 0.0
        if self.above:
            level_m, climb_mps = self._ground.level_m, self._ground.climb_mps
        if kind == "leg":
            legs.leg_setpoint(self._leg, t_s, self._pace, level_m, climb_mps, setpoints)
        elif kind == "plan":
            if t_s < 0.0:
                lead_s = (self.now_ns - self._lead_ns) * 1e-9
                legs.leg_setpoint(self._leg, lead_s, 1.0, 0.0, 0.0, setpoints)
            else:
                legs.write_setpoint(setpoints, MODE_POSITION, *self._plan.at(t_s))
        elif kind == "given":
            setpoints[0] = self._given[0]
        elif kind == "velocity":
            self._slew()
            v_W, yaw_rate = self._velocity
            estimate = self._estimate
            legs.write_setpoint(
                setpoints, MODE_VELOCITY, estimate.p_W, v_W, ZERO, estimate.yaw, yaw_rate
            )
        else:
            self._write_simple(t_s, level_m, climb_mps, setpoints)

    def _write_simple(self, t_s: float, level_m: float, climb_mps: float, setpoints: Any) -> None:
        """Write a goal, a pull-up or a descent."""
        (x, y, z), yaw = self._origin
        here, speed = self._estimate.p_W, self._speed
        mode, v_W, a_W = MODE_POSITION, (0.0, 0.0, climb_mps), ZERO
        if self.kind == "goal":
            z += level_m
        elif self.kind == "pull_up":
            x, y = here[:2]
            mode, v_W, a_W = MODE_VELOCITY, (0.0, 0.0, speed), (0.0, 0.0, PULL_UP_MPS2)
        else:
            if self.kind == "drift":
                x, y = here[:2]
            ramp = min(t_s / SINK_RAMP_S, 1.0)
            sunk = speed * (t_s - SINK_RAMP_S * ramp * (1.0 - 0.5 * ramp))
            z, v_W = max(z - sunk, here[2] - SINK_LEAD_M), (0.0, 0.0, -speed * ramp)
        legs.write_setpoint(setpoints, mode, (x, y, z), v_W, a_W, yaw, 0.0)
        if self.kind == "goal":
            most = min(speed or self._params.speed_mps, self._most_mps)
            setpoints["speed_mps"] = max(most, STANDING_MPS)

    def _slew(self) -> None:
        """Move the velocity towards the wanted one."""
        dt_s = max(self.elapsed_s, 0.0)
        self._start_ns = self.now_ns
        v, rate = self._velocity
        v_wanted, rate_wanted = self._wanted
        change = math.dist(v_wanted, v)
        most = self._params.acceleration_mps2 * dt_s
        share = 1.0 if change <= most else most / change
        x, y, z = (now + share * (wanted - now) for now, wanted in zip(v, v_wanted, strict=True))
        turn = YAW_ACCELERATION_RADPS2 * dt_s
        self._velocity = ((x, y, z), _step(rate, rate_wanted, turn))
