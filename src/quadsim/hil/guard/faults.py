"""What is wrong in flight, in words, the worst first; and what forbids to begin."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.geometry.rotation import yaw_of
from quadsim.hil.guard.frames import AutopilotWatch
from quadsim.hil.guard.parameters import BEYOND_M, GuardParams
from quadsim.hil.guard.pose import PoseWatch
from quadsim.hil.guard.sight import Sight

#: For so long, and the flight ends, s.
DISOBEY_S = 1.0
#: Largest angle between commands and motion, or between the motions of pose and autopilot, rad.
MOTION_ANGLE_RAD = 0.26
#: Most that the headings of pose and autopilot differ, rad: 10 deg, a sixth of the way.
HEADING_MISMATCH_RAD = 0.17
#: Beyond a limit by this factor (and for tilts so much more) a vehicle is not in command.
FAR_BEYOND = 1.5
BEYOND_RAD = 0.35
#: Poses come without a jump for so long before a flight begins, s.
SETTLED_S = 0.5
#: Of the least rate of poses so much is enough: one in ten may be lost.
RATE_SHARE = 0.9
#: A flight begins no faster.
BEGIN_MPS = 1.0


@dataclass(frozen=True)
class Fault:
    """Something wrong.

    Attributes:
        words: what.
        lands: whether the flight ends as soon as the vehicle stands; otherwise it holds first.
        blind: whether there is no pose to hold on.
        silent: whether only commands are missing, so that the vehicle may still give way.
    """

    words: str
    lands: bool = False
    blind: bool = False
    silent: bool = False


class Watched:
    """All that is watched in a flight: poses, sight, people and programs, by the watchdogs' clock.

    Attributes:
        wish_ns: of the last request; None before the first.
        button_ns: of the dead-man button's last word; None before it.
        held: what that was.
        late_s: time between the last two steps.
        disobeyed_s: for how long the velocity has not been that of any command.
        rotated: how the motion is rotated against the commands, in words; empty: it is not.
        not_ready: why the way to the vehicle is not in order, in words; empty: it is.
        reset: how the autopilot has reset its estimate in flight, in words; empty: it has not.
        rivals, pose_rivals: who else gives a word to stop by, or the pose; empty: nobody.
    """

    def __init__(self, params: GuardParams) -> None:
        self.params = params
        self.poses, self.sight = PoseWatch(params), Sight(params)
        self.autopilot = AutopilotWatch(HEADING_MISMATCH_RAD, MOTION_ANGLE_RAD)
        self.button_ns: int | None = None
        self.held, self.not_ready = False, ""
        self.rivals = self.pose_rivals = ""
        self.begin()

    def begin(self) -> None:
        """As at the beginning of a flight: a request of before is none."""
        self.wish_ns: int | None = None
        self.late_s = self.disobeyed_s = 0.0
        self.rotated = self.reset = ""

    def _button(self, now_ns: int) -> str:
        """Why the dead-man button does not count as held; empty if it does."""
        watch = self.params.watch
        if not watch.dead_man:
            return ""
        if self.button_ns is None:
            return "dead-man button: not heard"
        if not self.held:
            return "dead-man button released"
        age_s = (now_ns - self.button_ns) * 1e-9
        late = age_s > watch.dead_man_timeout_s
        return f"dead-man button: not heard for {age_s:.2f} s" if late else ""

    def outside(self, p_W: NDArray[np.float64], beyond_m: float) -> str:
        """How a place is outside height band or fence by more than that; empty if it is not."""
        limits = self.params.limits
        x, y, z = p_W.tolist()
        low, high = limits.height_min_m, limits.height_max_m
        if not low - beyond_m <= z <= high + beyond_m:
            return f"height {z:.2f} m; allowed: {low:g} to {high:g}"
        (west, south), (east, north) = limits.fence_min_W_m, limits.fence_max_W_m
        across = west - beyond_m <= x <= east + beyond_m
        if across and south - beyond_m <= y <= north + beyond_m:
            return ""
        corners = f"({west:g}, {south:g}) to ({east:g}, {north:g})"
        return f"({x:.1f}, {y:.1f}) is outside the fence {corners}"

    @property
    def misled(self) -> str:
        """Why places cannot be relied on, in words; empty: they can."""
        found = (
            self.pose_rivals, self.poses.mismatch, self.rotated, self.reset, self.autopilot.fault
        )  # fmt: skip
        return next(filter(None, found), "")

    def fault(self, now_ns: int) -> Fault | None:
        """The worst of what is wrong in flight, or None."""
        watch, limits, poses = self.params.watch, self.params.limits, self.poses
        pose, age_s = poses.pose, poses.age_s(now_ns)
        if pose is None or age_s > watch.pose_stale_s:
            words = poses.jump or poses.frozen or f"pose lost: none for {age_s:.2f} s"
            return Fault(words, lands=age_s > watch.pose_lost_s, blind=True)
        if words := self.outside(pose.p_W, BEYOND_M) or self.misled:
            return Fault(words, lands=True)
        if pose.tilt_rad > limits.tilt_max_rad + BEYOND_RAD:
            return Fault(f"tilted by {math.degrees(pose.tilt_rad):.0f} deg")
        fastest = math.hypot(limits.speed_max_mps, max(limits.climb_max_mps, limits.sink_max_mps))
        if pose.speed_mps > FAR_BEYOND * fastest:
            return Fault(f"{pose.speed_mps:.1f} m/s; allowed: {fastest:.1f}")
        if self.disobeyed_s > DISOBEY_S:
            return Fault("the vehicle does not follow the commands", lands=True)
        if self.late_s > watch.late_s:
            return Fault(f"late loop: {self.late_s:.3f} s between two steps")
        if words := self.rivals or self._button(now_ns) or self.sight.fault(now_ns):
            return Fault(words)
        silent_s = 0.0 if self.wish_ns is None else (now_ns - self.wish_ns) * 1e-9
        if silent_s > watch.wish_timeout_s:
            return Fault(f"wish lost: none for {silent_s:.2f} s", silent=True)
        return None

    def refusal(self, now_ns: int) -> str:
        """Why a flight shall not begin, with the remedy; empty if it may.

        The button comes first, so that it can be tried where the rest is not in order yet.
        """
        if words := self.rivals or self.pose_rivals:
            return f"{words}; allowed: one"
        if words := self._button(now_ns) or self.not_ready:
            return words
        params, watch, poses = self.params, self.params.watch, self.poses
        pose, age_s = poses.pose, poses.age_s(now_ns)
        if pose is None:
            return "no pose has come"
        if age_s > watch.pose_stale_s:
            return poses.frozen or f"no pose for {age_s:.2f} s; allowed: {watch.pose_stale_s:g}"
        if poses.settled_s(now_ns) < SETTLED_S:
            return f"poses have come without a jump for less than {SETTLED_S:g} s"
        if poses.rate_hz < RATE_SHARE * watch.pose_rate_min_hz:
            return (
                f"{poses.rate_hz:.0f} poses a second; needed: {watch.pose_rate_min_hz:g}. Set the"
                " rate of the stream (docs/hil.md)"
            )
        if place := self.outside(pose.p_W, 0.0):
            return (
                f"{place}; take off by the vehicle's own autopilot first, and see that the pose is"
                " in map (ENU, z up)"
            )
        if pose.tilt_rad > params.limits.tilt_max_rad:
            tilt_deg = math.degrees(pose.tilt_rad)
            return f"tilted by {tilt_deg:.0f} deg; is the attitude of body FLU in ENU?"
        misled = poses.mismatch or self.autopilot.refusal(
            now_ns, yaw_of(pose.q_WB), watch.pose_stale_s
        )
        if misled:
            return misled
        if pose.speed_mps > BEGIN_MPS:
            return f"moving at {pose.speed_mps:.1f} m/s; hover first (at most {BEGIN_MPS:g})"
        if words := self.sight.fault(now_ns) or self.sight.blind(now_ns):
            return words
        if words := self.sight.neighbours.near(pose.p_W):
            return words
        near_m = self.sight.clearance_m(pose.p_W) - params.vehicle.pose_uncertainty_m
        for path in self.sight.paths(now_ns, pose.p_W, 0.0, 0.0):
            near_m = min(near_m, math.hypot(*path.start_W) - path.keep_out_m)
        if near_m < 0.0:
            return (
                f"an obstacle {near_m + params.keep_out_m:.2f} m from the vehicle's centre;"
                f" allowed: {params.keep_out_m:.2f}"
            )
        return ""
