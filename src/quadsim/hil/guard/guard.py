"""The guard: the last to see a velocity command before a real vehicle does.

It passes a command that is safe, else takes the nearest safe velocity, and brakes, holds and
lands when something is wrong. What it promises, on which assumptions: docs/guard.md.

World frame W is ``map`` (ENU). ``stamp_ns`` is a message's own time, ``now_ns`` the watchdogs';
the two need not be the same clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.control.avoidance import reach_braking, velocity_of
from quadsim.geometry.rotation import Quat, wrap, yaw_of
from quadsim.hil.guard.emergency import LAND_SINK_MPS
from quadsim.hil.guard.faults import MOTION_ANGLE_RAD, SETTLED_S, Fault, Watched
from quadsim.hil.guard.frames import Means, MotionAlignment, turned_words
from quadsim.hil.guard.law import BRAKE_SHARE, ZERO, Moment, Safe, entered, limited, safe_command
from quadsim.hil.guard.output import STATES, GuardEvent, GuardOutput, SentCommands
from quadsim.hil.guard.parameters import FASTEST_MPS, GuardParams
from quadsim.hil.guard.pose import AcceptedPose, refused_pose
from quadsim.hil.guard.setpoints import SetpointWatch, ThrustSetpoint, refused_setpoint
from quadsim.hil.guard.sight import Shape

#: All well again for so long, and the request is obeyed, s.
RECOVER_S = 0.3
#: Being blocked for so long is reported, s.
BLOCKED_S = 5.0

__all__ = ["STATES", "Guard", "GuardOutput", "GuardParams", "Shape"]

Array = NDArray[np.float64]

DISABLED, PASSING, LIMITING, BRAKING, HOLDING, LANDING = STATES

#: Slower, the vehicle stands.
STANDING_MPS = 0.2
#: Without a pose the vehicle counts as standing after this time at the latest, s.
BRAKED_S = 2.0
#: While motion and commands may be rotated against each other, no request is faster, m/s.
DOUBTFUL_MPS = 0.5
#: Motion as slow as that is compared with the commands for so long, s.
FORGET_S = 30.0
#: Yaw rate towards the heading of a place, rad/s per rad.
YAW_GAIN = 1.0
#: Slower, before another vehicle, it is held up by it, m/s; and a request that is none.
HELD_UP_MPS = 0.1
#: A vehicle that no guard flies is taken to fly on for so long before it brakes, s.
UNGUARDED_S = 1.0
#: A measured velocity answers to commands up to this much older than latency and brakes explain, s.
SLACK_S = 0.3


class Guard:
    """See the module.

    Each ``take_...`` gives why it did not take what it was given, or None.

    Args:
        params: a file of ``config/guards``.

    Attributes:
        offboard: whether the vehicle obeys setpoints, by its last report; None without one.
        unknown: what could not be checked before a flight, in words, which ``enable`` tells.
    """

    def __init__(self, params: GuardParams) -> None:
        self.params = params
        self._watched = Watched(params)
        self._poses, self._sight = self._watched.poses, self._watched.sight
        vehicle = params.vehicle
        braking_s = params.limits.speed_max_mps / vehicle.brake_mps2
        self._alignment = MotionAlignment(MOTION_ANGLE_RAD, vehicle.latency_s + braking_s, FORGET_S)
        self._means = Means()
        self._wish_W: Array = ZERO
        self._yaw_rate = 0.0
        self._place: tuple[Array, float] | None = None  # wished, and its heading
        self._setpoint: ThrustSetpoint | None = None  # wished
        self._events: list[GuardEvent] = []
        self._state = DISABLED
        self._now_ns: int | None = None
        self.offboard: bool | None = None
        self.unknown: dict[str, str] = {}
        self._begin(0)

    def _begin(self, now_ns: int) -> None:
        """As at the beginning of a flight."""
        longest_s = 2.0 * self.params.vehicle.latency_s + SLACK_S + 2.0 * BRAKED_S
        self._sent = SentCommands(now_ns, longest_s)
        self._step_ns: int | None = None
        self._fault_since_ns: int | None = None
        self._well_since_ns: int | None = None
        self._held_since_ns: int | None = None
        self._fault: Fault | None = None
        self._entered_ns: int | None = None  # since when hits are within the keep-out
        self._blocked_ns: int | None = None  # since when a neighbour is in the way
        self._told_blocked = False
        self._setpoints = SetpointWatch(self.params)
        self._watched.begin()
        self._alignment.forget()
        self._means.forget()

    # ---- input ---------------------------------------------------------------------------------

    def take_pose(
        self, stamp_ns: int, now_ns: int, p_W: Vec3, q_WB: Quat, v_W: Vec3 | None = None
    ) -> str | None:
        """The vehicle's pose in W; ``v_W`` None where the driver does not know it."""
        jumped = bool(self._poses.jump)
        flies = self._state != DISABLED
        before = self._poses.pose
        refused = self._poses.take(stamp_ns, now_ns, p_W, q_WB, v_W, flies)
        pose = self._poses.pose
        if pose is not None and pose is not before:
            dt_s = 0.0 if before is None else (stamp_ns - before.stamp_ns) * 1e-9
            if dt_s < 0.0 or self._poses.settled_s(now_ns) == 0.0:
                self._watched.autopilot.forget()
            self._watched.autopilot.compare(stamp_ns, pose.p_W, yaw_of(pose.q_WB), max(dt_s, 0.0))
        if self._poses.jump and not jumped:
            self._tell(2, self._poses.jump)
        return refused

    def expect_autopilot(self) -> None:
        """The autopilot's own odometry is to come, and without it there is no flight."""
        self._watched.autopilot.expected = True

    def take_autopilot(self, stamp_ns: int, now_ns: int, p_W: Vec3, q_WB: Quat) -> str | None:
        """What the autopilot believes of place and attitude, where the pose is somebody else's."""
        refusal = refused_pose(p_W, q_WB)
        if refusal:
            return refusal
        self._watched.autopilot.take(stamp_ns, now_ns, np.array(p_W, dtype=np.float64), q_WB)
        return None

    def take_ready(self, level: int, words: str) -> None:
        """Whether the way to the vehicle is in order: 0 it is, 1 not known, 2 no flight."""
        self._watched.not_ready = words if level == 2 else ""
        self.unknown["vehicle"] = words if level == 1 else ""

    def take_reset(self, words: str) -> None:
        """The autopilot has reset its estimate, so that its frame is another one from now on."""
        if self.enabled:
            self._watched.reset = self._watched.reset or words
        self._watched.autopilot.forget()

    def take_scan(
        self,
        stamp_ns: int,
        now_ns: int,
        origin_W: Vec3,
        points_W: Any,
        range_m: float | None = None,
        azimuths_W: Any = None,
    ) -> str | None:
        """Hits of one scan, (N, 3) in W.

        ``range_m``: how far that sensor sees. ``azimuths_W``: (K,) where its rays have looked, rad;
        None: all round.
        """
        pose, late_ns = self._poses.pose, 0
        if pose is not None:  # how much older it is than a pose that would come now
            late_ns = now_ns - pose.now_ns + pose.stamp_ns - stamp_ns
        late_s = min(max(late_ns * 1e-9, 0.0), self.params.sight.timeout_s)
        return self._sight.take_scan(now_ns, origin_W, points_W, range_m, late_s, azimuths_W)

    def take_shapes(self, now_ns: int, shapes: Sequence[Shape]) -> str | None:
        """All things whose place is known; replaces the last ones."""
        return self._sight.take_shapes(now_ns, shapes)

    def expect_shapes(self, missing: str = "") -> None:
        """There are such things, so without them there is no flight; ``missing``: why not now."""
        self._sight.expects_shapes, self._sight.missing = True, missing

    def expect_neighbours(
        self, radii_m: Mapping[str, float], growths_mps: Mapping[str, float] | None = None
    ) -> None:
        """There are vehicles with guards of their own; see :meth:`Neighbours.expect`."""
        self._sight.neighbours.expect(radii_m, growths_mps)

    def take_neighbour(self, name: str, stamp_ns: int, now_ns: int, points_W: Any) -> str | None:
        """The reach of one of them, (N, 3) in W; without a point: it does not know."""
        return self._sight.neighbours.take(name, stamp_ns, now_ns, points_W)

    def reach(self, now_ns: int) -> Array | None:
        """(M, 3) points in W whose hull holds where the vehicle will be if zero is commanded.

        Without a point where its place cannot be relied on; None before there is a pose.
        """
        pose, vehicle = self._poses.pose, self.params.vehicle
        if pose is None:
            return None
        age_s = self._poses.age_s(now_ns)
        if age_s > self.params.watch.pose_stale_s or self._watched.misled:
            return np.zeros((0, 3))
        if self.enabled and self._setpoints.in_force(now_ns, age_s):
            return self._setpoints.reach_W
        if self.enabled:
            moving_W, delay_s = self._moving(now_ns, pose.v_W, age_s), -self._sent.zero_s(now_ns)
        else:
            moving_W, delay_s = pose.v_W[None], UNGUARDED_S
        delay_s = max(age_s + vehicle.latency_s + delay_s, 0.0)
        points: Array = pose.p_W + reach_braking(moving_W, delay_s, vehicle.brake_mps2)
        return points

    def take_wish(self, now_ns: int, v_W: Vec3, yaw_rate_radps: float) -> str | None:
        """The velocity in W that somebody wants; it is as old as its coming, whatever its stamp."""
        numbers = (*v_W, yaw_rate_radps)
        if not all(map(math.isfinite, numbers)):
            return "a number in it is not finite"
        if max(map(abs, numbers)) > FASTEST_MPS:
            return f"more than {FASTEST_MPS:g} m/s or rad/s"
        self._wish_W, self._yaw_rate = np.array(v_W, dtype=np.float64), float(yaw_rate_radps)
        self._place = self._setpoint = None
        self._watched.wish_ns = now_ns
        return None

    def take_position(self, now_ns: int, p_W: Vec3, yaw_rad: float) -> str | None:
        """A place in W that somebody wants to be at, and the heading there.

        It counts as the velocity from which the vehicle comes to stand there.
        """
        if not math.isfinite(sum(p_W) + yaw_rad):
            return "a number in it is not finite"
        place = np.array(p_W, dtype=np.float64)
        if words := self._watched.outside(place, 0.0):
            return words
        self._place, self._setpoint = (place, yaw_rad), None
        self._watched.wish_ns = now_ns
        return None

    def take_setpoint(self, now_ns: int, setpoint: ThrustSetpoint) -> str | None:
        """An attitude or rates that somebody wants; passed on while braking would be in time."""
        if words := refused_setpoint(setpoint, self.params.limits):
            return words
        self._setpoint, self._place = setpoint, None
        self._watched.wish_ns = now_ns
        return None

    def take_dead_man(self, now_ns: int, held: bool) -> None:
        """Whether the dead-man button is held."""
        self._watched.button_ns, self._watched.held = now_ns, held

    def take_rivals(self, stops: str, poses: str) -> None:
        """Who else publishes whether the flight may go on, and where the vehicle is; empty: nobody.

        One of several who lets go is not overruled: while there are rivals, all have let go.
        """
        self._watched.rivals, self._watched.pose_rivals = stops, poses

    def take_offboard(self, inside: bool) -> None:
        """Whether the vehicle obeys setpoints; when it ceases to, somebody else flies it."""
        was, self.offboard = self.offboard, inside
        if was and not inside and self.enabled:
            whose = "it lands by itself" if self._state == LANDING else "somebody else flies it"
            told = self._watched.rivals and f"; or so says one of them: {self._watched.rivals}"
            self._tell(1, f"the vehicle has left offboard mode: {whose}{told}")
            self.disable()

    # ---- begin and end -------------------------------------------------------------------------

    @property
    def enabled(self) -> bool:
        """Whether commands are sent."""
        return self._state != DISABLED

    @property
    def q_WB(self) -> Quat:
        """Attitude of the pose that was taken last; level and east before there is one."""
        pose = self._poses.pose
        return pose.q_WB if pose is not None else (1.0, 0.0, 0.0, 0.0)

    def enable(self, now_ns: int) -> str | None:
        """Begin to send; None, or in words why not."""
        if self.enabled:
            return None if self._state != LANDING else "landing; disable first"
        refusal = self._watched.refusal(now_ns)
        if refusal:
            self._tell(1, f"not enabled: {refusal}")
            return refusal
        self._begin(now_ns)
        self._state = HOLDING
        self._tell(0, "enabled")
        for words in filter(None, self.unknown.values()):
            self._tell(1, words)
        fresh = self._poses.fresh
        same_s = self._since_s(None if fresh is None else fresh.now_ns, now_ns)
        if same_s > SETTLED_S:
            self._tell(1, f"the pose has been the same to the bit for {same_s:.1f} s")
        return None

    def disable(self) -> None:
        """Send nothing more; ends a landing too."""
        if self.enabled:
            self._tell(1, "disabled")
        self._state = DISABLED

    # ---- a step --------------------------------------------------------------------------------

    def step(self, now_ns: int) -> GuardOutput:
        """The command of this moment; call it every ``PERIOD_S``, and at each pose."""
        if self._now_ns is not None and now_ns < self._now_ns and self.enabled:
            self._tell(2, "the clock went back")
            self.disable()
        self._now_ns = now_ns
        if not self.enabled:
            reason = self._watched.refusal(now_ns) or "may be enabled"
            return self._output(now_ns, ZERO, 0.0, reason, self._margin(now_ns))
        dt_s = self._since_s(self._step_ns, now_ns)
        self._step_ns, self._watched.late_s = now_ns, dt_s
        self._watch_obedience(now_ns, dt_s)
        self._watch_direction(now_ns, dt_s)
        self._watch_repeats(now_ns, dt_s)
        if self._state == LANDING:
            return self._landing(now_ns)
        found = self._watched.fault(now_ns)
        if found is None or found.silent:
            found = self._cornered(now_ns) or found
        self._remember(found, now_ns)
        if self._fault is not None and not self._fault.silent:
            return self._stop(self._fault, now_ns)
        return self._fly(now_ns, dt_s)

    def _cornered(self, now_ns: int) -> Fault | None:
        """That no short way leads out of a keep-out, or that the way out does not lead out."""
        pose, params = self._poses.pose, self.params
        assert pose is not None
        age_s = self._poses.age_s(now_ns)
        inside, words = entered(params, self._sight, now_ns, pose.p_W, age_s)
        if not inside:
            self._entered_ns = None
            return None
        self._entered_ns = now_ns if self._entered_ns is None else self._entered_ns
        inside_s = self._since_s(self._entered_ns, now_ns)
        speed_mps = params.limits.evade_speed_mps
        leaves_s = params.keep_out_m / speed_mps if speed_mps > 0.0 else math.inf
        if not words and inside_s > leaves_s + params.vehicle.latency_s + BRAKED_S:
            words = (
                f"an obstacle has been within the keep-out for {inside_s:.1f} s and is not left"
                " behind; does the lidar see the vehicle itself (lidar.self_radius_m)?"
            )
        return Fault(words) if words else None

    def _remember(self, found: Fault | None, now_ns: int) -> None:
        """Keep a fault until all has been well for a while."""
        if found is None:
            if self._well_since_ns is None:
                self._well_since_ns = now_ns
            well_s = self._since_s(self._well_since_ns, now_ns)
            if self._fault is not None and well_s >= RECOVER_S:
                self._tell(0, f"well again after: {self._fault.words}")
                self._fault = self._fault_since_ns = self._held_since_ns = None
            return
        self._well_since_ns = None
        if self._fault is None:
            self._fault_since_ns, self._held_since_ns = now_ns, None
        if self._fault is None or _kind(found) != _kind(self._fault):
            self._tell(2, found.words)
        self._fault = found

    def _stop(self, fault: Fault, now_ns: int) -> GuardOutput:
        """Zero velocity; land when it is time."""
        watch, pose = self.params.watch, self._poses.pose
        since_s = self._since_s(self._fault_since_ns, now_ns)
        if fault.blind or pose is None:
            speed, vehicle = pose.speed_mps if pose is not None else 0.0, self.params.vehicle
            stands = since_s >= min(vehicle.latency_s + speed / vehicle.brake_mps2, BRAKED_S)
        else:
            stands = pose.speed_mps < STANDING_MPS
        held_s = self._hold(stands, now_ns)
        # what does not come to stand is landed by the same clock
        if (fault.lands and (stands or since_s >= BRAKED_S)) or (
            max(held_s, since_s - BRAKED_S) >= watch.hold_s
        ):
            return self._land(fault.words, now_ns)
        self._state = HOLDING if self._held_since_ns is not None else BRAKING
        return self._send(now_ns, ZERO, 0.0, fault.words, self._margin(now_ns))

    @staticmethod
    def _since_s(begun_ns: int | None, now_ns: int) -> float:
        """Time since something began; 0 where it has not."""
        return 0.0 if begun_ns is None else (now_ns - begun_ns) * 1e-9

    def _hold(self, stands: bool, now_ns: int) -> float:
        """For how long the vehicle has been held, once it has come to stand."""
        if stands and self._held_since_ns is None:
            self._held_since_ns = now_ns
        return self._since_s(self._held_since_ns, now_ns)

    def _land(self, words: str, now_ns: int) -> GuardOutput:
        if self.offboard is False:  # whoever flies it has chosen its mode
            self._tell(1, f"does not land a vehicle that is not in offboard mode: {words}")
            self.disable()
            return self._output(now_ns, ZERO, 0.0, words, self._margin(now_ns))
        self._state = LANDING
        self._why = words
        self._tell(2, f"landing: {words}")
        return self._landing(now_ns)

    def _landing(self, now_ns: int) -> GuardOutput:
        """What is sent in addition to the call to land, for a vehicle that does not hear that."""
        sink_W = np.array((0.0, 0.0, -LAND_SINK_MPS))
        return self._send(now_ns, sink_W, 0.0, self._why, self._margin(now_ns))

    def _fly(self, now_ns: int, dt_s: float) -> GuardOutput:
        """The safe velocity nearest to the request; to none, where there is no request."""
        pose, lost = self._poses.pose, self._fault
        assert pose is not None
        age_s = self._poses.age_s(now_ns)
        held = lost.words if lost is not None else ""
        held = held or ("no wish yet" if self._watched.wish_ns is None else "")
        if not held and self._place is not None:
            self._go_to(pose, *self._place)
        elif not held and self._setpoint is not None:
            if (passed := self._pass_setpoint(now_ns, pose, age_s)) is not None:
                return passed
            held = f"{self._setpoint.kind} setpoints may lead too near, or too fast"
        elif not held and self._setpoints.in_force(now_ns, age_s):
            held = "a setpoint may still be in force"  # zero alone is certain then
        wish_W: Array = ZERO if held else self._wish_W
        doubtful = self._alignment.doubtful
        if doubtful:  # its certificate counts on a motion towards the command
            size = math.sqrt(wish_W @ wish_W)
            wish_W = wish_W * min(1.0, DOUBTFUL_MPS / max(size, DOUBTFUL_MPS))
        sent_W, moving_W = self._sent.last_W, self._moving(now_ns, pose.v_W, age_s)
        moment = Moment(
            now_ns, pose.p_W, age_s, moving_W, self._sent.zero_s(now_ns), wish_W,
            ZERO if held else sent_W, sent_W, dt_s,
        )  # fmt: skip
        safe = safe_command(self.params, self._sight, moment)
        if held:
            stands = pose.speed_mps < STANDING_MPS or self._held_since_ns is not None
            if lost and stands and self._hold(stands, now_ns) >= self.params.watch.hold_s:
                return self._land(lost.words, now_ns)
            self._state = HOLDING if stands else BRAKING
            if safe.v_W.any():
                held = f"{held}; gives way to: {safe.why}"
            return self._send(now_ns, safe.v_W, 0.0, held, safe.margin_m)
        self._watch_blocked(now_ns, safe)
        most = self.params.limits.yaw_rate_max_radps
        yaw_rate = min(max(self._yaw_rate, -most), most)
        why = safe.why or ("motion and commands may be rotated" if doubtful else "")
        why = why or ("yaw rate limit" if yaw_rate != self._yaw_rate else "")
        if safe.braking and pose.speed_mps >= STANDING_MPS:
            self._state = BRAKING
        else:
            self._state = LIMITING if why else PASSING
        return self._send(now_ns, safe.v_W, yaw_rate, why, safe.margin_m)

    def _go_to(self, pose: AcceptedPose, place_W: Array, yaw_rad: float) -> None:
        """Request the velocity from which the vehicle comes to stand at a place."""
        params, limits = self.params, self.params.limits
        look_s = params.vehicle.latency_s + params.watch.late_s
        brake = BRAKE_SHARE * params.vehicle.brake_mps2
        self._wish_W = limited(velocity_of(place_W - pose.p_W, look_s, brake), limits)
        self._yaw_rate = YAW_GAIN * wrap(yaw_rad - yaw_of(pose.q_WB))
        most = limits.yaw_rate_max_radps
        self._yaw_rate = min(max(self._yaw_rate, -most), most)

    def _pass_setpoint(self, now_ns: int, pose: AcceptedPose, age_s: float) -> GuardOutput | None:
        """Pass an attitude or rates on while braking would be in time; None: take over."""
        assert self._setpoint is not None
        taken_over = self._setpoints.taken_over
        setpoint, room_m = self._setpoints.take(now_ns, self._sight, pose, age_s, self._setpoint)
        if setpoint is None:
            if not taken_over:
                self._tell(1, f"takes over from {self._setpoint.kind} setpoints: {room_m:.1f} m")
            return None
        self._state = PASSING
        return replace(self._send(now_ns, pose.v_W, 0.0, "", room_m), setpoint=setpoint)

    def _watch_blocked(self, now_ns: int, safe: Safe) -> None:
        """Tell it once where another vehicle leaves no way."""
        slow, wished = (math.sqrt(v @ v) < HELD_UP_MPS for v in (safe.v_W, self._wish_W))
        if not (slow and not wished and safe.why.startswith("neighbour")):
            self._blocked_ns, self._told_blocked = None, False
            return
        self._blocked_ns = now_ns if self._blocked_ns is None else self._blocked_ns
        if self._since_s(self._blocked_ns, now_ns) >= BLOCKED_S and not self._told_blocked:
            self._told_blocked = True
            words = f"no way past {safe.why} for {BLOCKED_S:g} s"
            self._tell(1, f"{words}; one of both has to give way")

    # ---- what was commanded --------------------------------------------------------------------

    def _moving(self, now_ns: int, v_W: Array, age_s: float) -> Array:
        """(M, 3) the velocity, and each command that may be in force since it was measured."""
        return self._sent.moving(now_ns, v_W, self.params.vehicle.latency_s + age_s)

    def _watch_obedience(self, now_ns: int, dt_s: float) -> None:
        """For how long the velocity has been that of no command."""
        pose, vehicle = self._poses.pose, self.params.vehicle
        if pose is None or self._poses.age_s(now_ns) > self.params.watch.pose_stale_s:
            return
        back_s = vehicle.latency_s + pose.speed_mps / vehicle.brake_mps2 + SLACK_S
        least = self._sent.nearest_mps(now_ns, pose.v_W, back_s)
        self._watched.disobeyed_s += dt_s
        if least <= self.params.watch.disobey_mps:
            self._watched.disobeyed_s = 0.0

    def _watch_direction(self, now_ns: int, dt_s: float) -> None:
        """Whether the motion is rotated against the commands."""
        pose = self._poses.pose
        stale = pose is None or self._poses.age_s(now_ns) > self.params.watch.pose_stale_s
        if stale or self.offboard is False or self._state == LANDING:
            self._means.forget()  # it is not our commands that it follows
            return
        assert pose is not None
        full = self._means.take(pose.stamp_ns, pose.p_W, self._sent.last_W, dt_s)
        if full is None:
            return
        self._alignment.take(*full)
        turn = self._alignment.turn
        if turn is not None and not self._watched.rotated:
            self._watched.rotated = (
                f"the motion is turned from the commands by {turned_words(*turn)}"
            )

    def _watch_repeats(self, now_ns: int, dt_s: float) -> None:
        """Whether the pose is the same to the bit while the vehicle should have moved.

        It moves no slower than the slowest of what it had and was told since, nor of what it has
        had time to follow. What is rounded repeats within its stated error.
        """
        poses, vehicle, watch = self._poses, self.params.vehicle, self.params.watch
        fresh = poses.fresh
        if fresh is None or poses.pose is fresh or self.offboard is False:
            return
        same_s, last_W = (now_ns - fresh.now_ns) * 1e-9, self._sent.last_W
        change_mps = fresh.speed_mps + math.sqrt(last_W @ last_W)
        back_s = vehicle.latency_s + change_mps / vehicle.brake_mps2 + SLACK_S
        since = self._moving(now_ns, fresh.v_W, same_s), self._sent.moving(now_ns, last_W, back_s)
        slowest = max(float(np.linalg.norm(v_W, axis=1).min()) for v_W in since)
        if self._setpoint is not None:  # what flies attitudes never stands still
            slowest = max(slowest, STANDING_MPS)
        poses.unmoved_m += slowest * dt_s
        if same_s > watch.pose_stale_s and poses.unmoved_m > vehicle.pose_uncertainty_m:
            poses.freeze(
                f"pose frozen: the same to the bit for {same_s:.2f} s, in which the vehicle should"
                f" have moved by {poses.unmoved_m:.2f} m"
            )

    def _margin(self, now_ns: int) -> float:
        """Room while zero is commanded; unknown without a pose.

        While the guard is disabled: if it began to command zero now.
        """
        pose = self._poses.pose
        age_s = self._poses.age_s(now_ns)
        if pose is None or age_s > self.params.watch.pose_stale_s:
            return math.nan
        moving_W, zero_s = pose.v_W[None], 0.0
        if self.enabled:
            moving_W, zero_s = self._moving(now_ns, pose.v_W, age_s), self._sent.zero_s(now_ns)
        moment = Moment(now_ns, pose.p_W, age_s, moving_W, zero_s)
        return safe_command(self.params, self._sight, moment, self._sight.range_m).margin_m

    # ---- output --------------------------------------------------------------------------------

    def _tell(self, level: int, words: str) -> None:
        self._events.append(GuardEvent(level, "guard", words))

    def _send(
        self, now_ns: int, v_W: Array, yaw_rate: float, reason: str, margin_m: float
    ) -> GuardOutput:
        """An output that is remembered as a command on its way."""
        v_W = self._sent.add(now_ns, v_W)
        return self._output(now_ns, v_W, yaw_rate, reason, margin_m)

    def take_events(self) -> tuple[GuardEvent, ...]:
        """What has happened and was not given by a step yet."""
        events, self._events = tuple(self._events), []
        return events

    def _output(
        self, now_ns: int, v_W: Array, yaw_rate: float, reason: str, margin_m: float
    ) -> GuardOutput:
        events = self.take_events()
        pose = self._poses.pose
        return GuardOutput(
            send=self.enabled,
            v_W=v_W.copy(),
            yaw_rate_radps=yaw_rate,
            state=self._state,
            reason=reason,
            margin_m=margin_m,
            clearance_m=math.inf if pose is None else self._sight.clearance_m(pose.p_W),
            latency_s=self._poses.age_s(now_ns),
            land=self._state == LANDING,
            events=events,
        )


def _kind(fault: Fault) -> str:
    """A fault's words without its figures."""
    return "".join(c for c in fault.words if not (c.isdigit() or c in ".-"))
