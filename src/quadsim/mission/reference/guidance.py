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
from quadsim.mission.flight.estimate_check import Observation, observe
from quadsim.mission.items import Follow
from quadsim.mission.reference.legs import (
    Motion,
    Pose,
    brake_duration,
    leg_above_setpoint,
    leg_setpoint,
    new_leg,
    plan_leg,
    rest_duration,
    write_setpoint,
)
from quadsim.mission.reference.preview import smoothed
from quadsim.mission.reference.terrain_following import LEAST_MPS, TerrainFollowing
from quadsim.mission.trajectories.course import Flyable, Joined, Plan

ZERO: Vec3 = (0.0, 0.0, 0.0)

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
#: Slowest limit of speed on the way to a goal, m/s.
STANDING_MPS = 0.05


def _vec3(array: NDArray[np.float64]) -> Vec3:
    x, y, z = array.tolist()
    return (x, y, z)


class Guidance:
    """The reference and its kind: leg, goal, points, plan, descent, velocity, pull-up, or given.

    Each new one begins in the motion of the last, so that the reference never jumps, except where
    the mission says so (timed points) or after a loss of the estimate (:meth:`stand`).

    While ``above`` is set, heights of the reference count from the ground beneath; what goes in
    and out as a motion is in W all the same. A leg is flown in its own time, which goes on slower
    than time does where the ground allows no more speed.

    Args:
        params: limits of speed and acceleration.
        following: the level that heights above ground count from.
        goals: places are flown to without a leg: the setpoint is the goal itself.

    Attributes:
        estimate: estimated position and yaw, kept up to date by the owner; a descent stays beside
            it, and a velocity is flown from it.
    """

    def __init__(
        self, params: FlightParams, following: TerrainFollowing, goals: bool = False
    ) -> None:
        self.estimate: Pose = (ZERO, 0.0)
        self.velocity: Vec3 = ZERO
        self.above = False
        self._following = following
        self._goals = goals
        self._pace = 1.0
        self._paced_ns = 0
        self._most_mps = math.inf
        self._course: tuple[float, float] | None = None  # as found by this tick's look
        self._params = params
        self._leg = new_leg()
        self._now: NDArray[np.record] = np.zeros(1, SETPOINT)
        # views, as finding a field of a record takes longer than reading it
        now = self._now
        self._p_now, self._v_now, self._a_now = (now[name][0] for name in ("p_W", "v_W", "a_W"))
        self._yaw_now, self._yaw_rate_now = now["yaw"], now["yaw_rate"]
        self._leg_s = self._leg["duration_s"]
        self._kind = "leg"
        self._start_ns = 0
        self._leg_ns = 0  # of the leg that leads to a plan
        self._points: Follow | None = None
        self._plan: Flyable | None = None
        self._origin: Pose = (ZERO, 0.0)
        self._speed = 0.0
        self._velocity: tuple[Vec3, float] = (ZERO, 0.0)
        self._wanted: tuple[Vec3, float] = (ZERO, 0.0)
        self._goal: Vec3 = ZERO
        self._last_ns = 0
        self._given: Any = None

    @property
    def away_m(self) -> float:
        """Distance of the estimate from where the leg or the goal is."""
        (x, y, z), _ = self.estimate
        level = self._following.level_m if self.above else 0.0
        return math.dist((x, y, z - level), self._goal)

    def look(self, watches: Any, limits: Any, stamp_ns: int, odometries: Any) -> Observation:
        """Observe an estimate as :func:`observe` does; where heights count from it, the ground."""
        self._course = None
        if not self.above:
            return observe(watches, limits, stamp_ns, odometries)
        observation, self._course = self._following.look(
            watches, limits, stamp_ns, odometries, self._leg, self._leg_time_s(stamp_ns), self._goal
        )
        return observation

    def _leg_time_s(self, stamp_ns: int) -> float:
        """Time since the leg's start; not a number where none is flown."""
        return (stamp_ns - self._start_ns) * 1e-9 if self._kind == "leg" else math.nan

    def update(self, stamp_ns: int) -> None:
        """Move on to the present estimate: the level of the ground, and the pace that it allows."""
        if not self.above:
            self._pace, self._paced_ns, self._most_mps = 1.0, stamp_ns, math.inf
            return
        dt_s = min(max(stamp_ns - self._paced_ns, 0) * 1e-9, 0.1)
        self._paced_ns = stamp_ns
        length, most = self._course or self._following.advance(
            stamp_ns,
            self.estimate[0],
            self.velocity,
            self._leg,
            self._leg_time_s(stamp_ns),
            self._goal,
        )
        if length < LEAST_MPS:
            return
        self._most_mps = most
        if self._kind == "leg":
            wanted, step = min(1.0, most / length), self._params.acceleration_mps2 * dt_s / length
            self._pace += min(max(wanted - self._pace, -step), step)
            self._start_ns += round((1.0 - self._pace) * dt_s * 1e9)
        elif self._kind == "goal":  # a limited speed is no delay
            share = min(1.0, most / (self._speed or self._params.speed_mps))
            self._start_ns += round((1.0 - share) * dt_s * 1e9)

    def place(self, stamp_ns: int) -> Vec3:
        """Where the reference is at a time, in W."""
        self.write(stamp_ns, self._now)
        return self.estimate[0] if self._kind == "goal" else _vec3(self._p_now)

    def motion(self, stamp_ns: int) -> Motion:
        """The reference at a time: position, velocity, acceleration, yaw, yaw rate."""
        p = self.place(stamp_ns)
        if self._kind == "goal":
            return (p, self.velocity, ZERO, self.estimate[1], 0.0)
        v, a = _vec3(self._v_now), _vec3(self._a_now)
        return (p, v, a, self._yaw_now.item(), self._yaw_rate_now.item())

    def _begin_frame(self, stamp_ns: int, above: bool, height_m: float = 0.0) -> Motion:
        """Change what heights count from; gives the present motion in the new frame.

        Args:
            stamp_ns: now.
            above: whether heights count from the ground.
            height_m: that will be held, if so.
        """
        (x, y, z), (vx, vy, vz), a, yaw, yaw_rate = self.motion(stamp_ns)
        if not above:
            self.above = False
            return ((x, y, z), (vx, vy, vz), a, yaw, yaw_rate)
        following = self._following
        if not self.above:
            self.above = True
            following.begin(stamp_ns, self.estimate[0], self.velocity, height_m)
        p, v = (x, y, z - following.level_m), (vx, vy, vz - following.climb_mps)
        return (p, v, a, yaw, yaw_rate)

    def stand(self, stamp_ns: int, p_W: Vec3, yaw: float) -> None:
        """Rest at a pose at once, whatever came before."""
        self.above = False
        self._begin_leg(stamp_ns, (p_W, ZERO, ZERO, yaw, 0.0), p_W, yaw, 0.0)

    def go(
        self,
        stamp_ns: int,
        goal_W: Vec3,
        yaw: float,
        speed_mps: float = 0.0,
        acceleration_mps2: float = 0.0,
        above: bool = False,
    ) -> None:
        """Fly straight to rest at a pose, as fast as the limits allow.

        Args:
            stamp_ns: now.
            goal_W: position in m; its height in W, or above the ground.
            yaw: in rad.
            speed_mps: limit; 0 for the autopilot's.
            acceleration_mps2: limit; 0 for the autopilot's.
            above: whether the goal's height counts from the ground.
        """
        p, v, a, yaw_now, yaw_rate = start = self._begin_frame(stamp_ns, above, goal_W[2])
        params = self._params
        speed = speed_mps or params.speed_mps
        acceleration = acceleration_mps2 or params.acceleration_mps2
        climb = goal_W[2] - p[2]
        vertical = min(speed, params.ascent_mps if climb > 0.0 else params.descent_mps)
        duration_s = max(
            rest_duration(math.dist(p, goal_W), speed, acceleration),
            rest_duration(abs(climb), vertical, acceleration),
            rest_duration(
                abs(wrap(yaw - yaw_now)), params.yaw_rate_radps, params.yaw_acceleration_radps2
            ),
        )
        duration_s += 2.0 * self._brake_duration(v, a, yaw_rate)
        if ASIDE_SHARE * math.hypot(*a) * duration_s * duration_s > MOST_ASIDE_M:
            start = (p, v, ZERO, yaw_now, yaw_rate)
        self._begin_leg(stamp_ns, start, goal_W, yaw, duration_s)

    def approach(
        self,
        stamp_ns: int,
        goal_W: Vec3,
        yaw: float,
        speed_mps: float = 0.0,
        acceleration_mps2: float = 0.0,
        above: bool = False,
    ) -> None:
        """Fly to a place by a leg, or with the place itself as setpoint; as :meth:`go`."""
        self.go(stamp_ns, goal_W, yaw, speed_mps, acceleration_mps2, above)
        if self._goals:
            self._kind, self._origin, self._speed = "goal", (goal_W, yaw), speed_mps

    def hold(self, stamp_ns: int, estimated: bool = False) -> None:
        """Come to rest, and back to where the reference, or the estimate, is now."""
        if estimated:
            self._kind = "goal"  # whose motion is the estimate's
        p, v, a, yaw, yaw_rate = start = self._begin_frame(stamp_ns, self.above)
        duration_s = RETURN_SHARE * self._brake_duration(v, a, yaw_rate)
        self._begin_leg(stamp_ns, start, p, yaw, duration_s)

    def brake(self, stamp_ns: int) -> None:
        """Come to rest straight ahead."""
        p, v, a, yaw, yaw_rate = start = self._begin_frame(stamp_ns, self.above)
        duration_s = self._brake_duration(v, a, yaw_rate)
        ahead = 0.5 * duration_s
        goal = (p[0] + ahead * v[0], p[1] + ahead * v[1], p[2] + ahead * v[2])
        self._begin_leg(stamp_ns, start, goal, yaw + ahead * yaw_rate, duration_s)

    def _brake_duration(self, v: Vec3, a: Vec3, yaw_rate: float) -> float:
        params = self._params
        speed = math.hypot(*v) + 0.1 * math.hypot(*a)
        return max(
            brake_duration(speed, params.acceleration_mps2),
            brake_duration(abs(yaw_rate), params.yaw_acceleration_radps2),
        )

    def _begin_leg(
        self, stamp_ns: int, start: Motion, goal_W: Vec3, yaw: float, duration_s: float
    ) -> None:
        plan_leg(self._leg, start, goal_W, yaw, duration_s)
        self._kind, self._start_ns, self._goal = "leg", stamp_ns, goal_W

    def follow(self, stamp_ns: int, points: Follow, from_s: float = 0.0) -> None:
        """Follow timed points, from a time within them on."""
        self.above = False
        self._kind, self._points = "follow", points
        self._start_ns = stamp_ns - round(from_s * 1e9)
        self._goal = points.points[-1][1:4]

    def fly(self, stamp_ns: int, plan: Flyable) -> None:
        """Fly a plan, after a leg to its beginning where the reference is elsewhere."""
        p, _, _, yaw, _ = plan.at(0.0)
        self.go(stamp_ns, p, yaw)
        self._kind, self._plan = "plan", plan
        self._start_ns = stamp_ns + round(self._leg_s.item() * 1e9)
        self._leg_ns = stamp_ns
        self._goal = plan.at(plan.duration_s)[0]

    def join(self, stamp_ns: int, plan: Plan, begin_s: float) -> None:
        """Fly a plan from a time within it on, entered from the present motion without a jump."""
        motion = self._begin_frame(stamp_ns, above=False)
        p, v, a, yaw, yaw_rate = plan.at(begin_s)
        params = self._params
        speed = math.dist(motion[1], v) + 0.1 * math.dist(motion[2], a)
        apart_s = max(
            rest_duration(math.dist(motion[0], p), params.speed_mps, params.acceleration_mps2),
            rest_duration(
                abs(wrap(yaw - motion[3])), params.yaw_rate_radps, params.yaw_acceleration_radps2
            ),
        )
        moving_s = max(
            brake_duration(speed, params.acceleration_mps2),
            brake_duration(abs(yaw_rate - motion[4]), params.yaw_acceleration_radps2),
        )
        blend_s = max(2.0 * apart_s, RETURN_SHARE * moving_s)
        self._plan = Joined(plan, begin_s, motion, blend_s)
        self._kind, self._start_ns, self._leg_ns = "plan", stamp_ns, stamp_ns
        self._goal = plan.at(plan.duration_s)[0]

    def progress_s(self, stamp_ns: int) -> float:
        """How far timed points or a plan have been flown, in their own time."""
        t_s = self.elapsed_s(stamp_ns)
        if self._kind == "plan" and self._plan is not None:
            return self._plan.progress(t_s)
        return t_s

    def fall_behind(self, delay_ns: int) -> None:
        """Let a leg, a plan or timed points be later; nothing else has a course of time."""
        if self._kind in ("leg", "follow", "plan"):
            self._start_ns += delay_ns
            self._leg_ns += delay_ns

    @property
    def flies_plan(self) -> bool:
        """Whether the reference is a plan."""
        return self._kind == "plan"

    def sink(self, stamp_ns: int, speed_mps: float) -> None:
        """Descend vertically until told otherwise."""
        p, _, _, yaw, _ = self._begin_frame(stamp_ns, above=False)
        self._origin = (p, yaw)
        self._kind, self._start_ns, self._speed = "sink", stamp_ns, speed_mps

    def drift(self, stamp_ns: int, sink_mps: float) -> None:
        """Keep the velocity at zero, wherever that leads, and the height, or sink."""
        p, _, _, yaw, _ = self._begin_frame(stamp_ns, above=False)
        self._origin = (p if self._kind == "drift" else self.estimate[0], yaw)
        self._kind, self._start_ns, self._speed = "drift", stamp_ns, sink_mps

    def pull_up(self, stamp_ns: int, climb_mps: float) -> None:
        """Climb, level and with all thrust there is, until told otherwise."""
        yaw = self.estimate[1]
        self._origin = (self._begin_frame(stamp_ns, above=False)[0], yaw)
        self._kind, self._start_ns, self._speed = "pull_up", stamp_ns, climb_mps

    @property
    def pulls_up(self) -> bool:
        """Whether it was told to pull up, and nothing since."""
        return self._kind == "pull_up"

    def fly_velocity(self, stamp_ns: int, v_W: Vec3, yaw_rate: float) -> None:
        """Take up a velocity, within the acceleration, and a yaw rate in rad/s."""
        if self._kind != "velocity":
            _, v, _, _, rate = self.motion(stamp_ns)
            self._velocity, self._last_ns = (v, rate), stamp_ns
        self.above = False
        self._kind, self._wanted = "velocity", (v_W, yaw_rate)

    def borrow(self, given: Any) -> None:
        """Take the reference from a (1,) SETPOINT that somebody else writes, tick by tick."""
        self.above = False
        self._kind, self._given = "given", given

    def elapsed_s(self, stamp_ns: int) -> float:
        """Time since the reference's start."""
        return (stamp_ns - self._start_ns) * 1e-9

    def is_over(self, stamp_ns: int) -> bool:
        """Whether a leg or the timed points have come to their end; descents never do.

        A goal has no way to be on: being there is all that counts.
        """
        if self._kind == "leg":
            return bool(self.elapsed_s(stamp_ns) >= self._leg_s.item())
        if self._kind == "follow" and self._points is not None:
            return self.elapsed_s(stamp_ns) >= self._points.points[-1][0]
        if self._kind == "plan" and self._plan is not None:
            return self.elapsed_s(stamp_ns) >= self._plan.duration_s
        return self._kind == "goal"

    def late_s(self, stamp_ns: int) -> float:
        """Time since the end of a leg, or since one to the goal would have ended."""
        return float(self.elapsed_s(stamp_ns) - self._leg_s.item())

    def write(self, stamp_ns: int, setpoints: Any) -> None:
        """Write the reference into a (1,) SETPOINT array."""
        t_s = (stamp_ns - self._start_ns) * 1e-9
        if self._kind == "leg":
            if self.above:
                level_m, climb_mps = self._following.level_m, self._following.climb_mps
                leg_above_setpoint(self._leg, t_s, self._pace, level_m, climb_mps, setpoints)
                return
            leg_setpoint(self._leg, t_s, setpoints)
            if self._pace < 1.0:
                setpoints["v_W"] *= self._pace
                setpoints["a_W"] *= self._pace * self._pace
        elif self._kind == "goal":
            p, wanted_yaw = self._origin
            write_setpoint(setpoints, MODE_POSITION, p, ZERO, ZERO, wanted_yaw, 0.0)
            most = min(self._speed or self._params.speed_mps, self._most_mps)
            setpoints["speed_mps"] = max(most, STANDING_MPS)
        elif self._kind == "follow" and self._points is not None:
            p, wanted_yaw = self._points.at(t_s)
            v, a = ZERO, ZERO
            if self._params.preview_s > 0.0:
                _, v, a = smoothed(self._points.points, t_s, self._params.preview_s)
            write_setpoint(setpoints, MODE_POSITION, p, v, a, wanted_yaw, 0.0)
        elif self._kind == "plan" and self._plan is not None:
            if t_s < 0.0:
                leg_setpoint(self._leg, (stamp_ns - self._leg_ns) * 1e-9, setpoints)
            else:
                write_setpoint(setpoints, MODE_POSITION, *self._plan.at(t_s))
        elif self._kind in ("sink", "drift"):
            self._write_sink(t_s, setpoints)
        elif self._kind == "pull_up":
            p_W = (*self.estimate[0][:2], self._origin[0][2])
            v_W, a_W = (0.0, 0.0, self._speed), (0.0, 0.0, PULL_UP_MPS2)
            write_setpoint(setpoints, MODE_VELOCITY, p_W, v_W, a_W, self._origin[1], 0.0)
        elif self._kind == "given":
            setpoints[0] = self._given[0]
        else:
            self._slew(stamp_ns)
            v_W, yaw_rate = self._velocity
            p_W, yaw = self.estimate
            write_setpoint(setpoints, MODE_VELOCITY, p_W, v_W, ZERO, yaw, yaw_rate)
        if self.above:
            setpoints["p_W"][0, 2] += self._following.level_m
            setpoints["v_W"][0, 2] += self._following.climb_mps

    def _write_sink(self, t_s: float, setpoints: Any) -> None:
        (x, y, z), yaw = self._origin
        if self._kind == "drift":
            x, y = self.estimate[0][:2]
        ramp = min(t_s / SINK_RAMP_S, 1.0)
        sunk = self._speed * (t_s - SINK_RAMP_S * ramp * (1.0 - 0.5 * ramp))
        v_W = (0.0, 0.0, -self._speed * ramp)
        p_W = (x, y, max(z - sunk, self.estimate[0][2] - SINK_LEAD_M))
        write_setpoint(setpoints, MODE_POSITION, p_W, v_W, ZERO, yaw, 0.0)

    def _slew(self, stamp_ns: int) -> None:
        """Move the velocity towards the wanted one."""
        dt_s = max(stamp_ns - self._last_ns, 0) * 1e-9
        self._last_ns = stamp_ns
        v, rate = self._velocity
        v_wanted, rate_wanted = self._wanted
        change = math.dist(v_wanted, v)
        most = self._params.acceleration_mps2 * dt_s
        share = 1.0 if change <= most else most / change
        turn = self._params.yaw_acceleration_radps2 * dt_s
        self._velocity = (
            (
                v[0] + share * (v_wanted[0] - v[0]),
                v[1] + share * (v_wanted[1] - v[1]),
                v[2] + share * (v_wanted[2] - v[2]),
            ),
            rate + min(max(rate_wanted - rate, -turn), turn),
        )
