"""From a command to a velocity that is safe: limits, obstacles, fence; then its certificate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.control.avoidance import (
    TOLERANCE_M,
    Obstacles,
    half_spaces,
    project,
    reach,
    reach_braking,
    room,
    stop_m,
    stop_point,
    velocity_of,
)
from quadsim.hil.guard.parameters import BEYOND_M, GuardParams, LimitParams
from quadsim.hil.guard.sight import BETTER_M, PASSING_M, Path, Sight, least_gaps, ways_out

#: Turn of requests towards another vehicle, deg.
RIGHT_DEG = 30.0

Array = NDArray[np.float64]

#: The law looks ahead for so many latencies more than the certificate, and counts on that share of
#: the brakes: what it commands stays certified when commands on their way are counted too.
LOOKS = 1.0
BRAKE_SHARE = 0.85
#: So far ahead a known shape is given way, s.
GIVE_WAY_S = 2.5
#: What a command may differ from the request and still be the request, m/s.
SAME_MPS = 0.05
#: Outward normals of the box that height band and fence are.
BOX = np.array([(1.0, 0, 0), (-1.0, 0, 0), (0, 1.0, 0), (0, -1.0, 0), (0, 0, 1.0), (0, 0, -1.0)])
BOX_WORDS = ("fence", "fence", "fence", "fence", "height band", "height band")
ZERO = np.zeros(3)
#: The way out of keep-outs is short if it is no longer than so many times what the deepest asks;
#: a longer one leads between obstacles on opposite sides, 120 degrees apart or more.
OPPOSED = 2.0
CORNERED = "obstacles on opposite sides are within the keep-out: no short way leads out"
UNSEEN = "direction not seen"


@dataclass(frozen=True)
class Safe:
    """What the law gives.

    Attributes:
        v_W: (3,) velocity, m/s.
        why: what held it back from the request, in words; empty where nothing did.
        margin_m: room left about all that the vehicle reaches until it stands.
        braking: whether only zero was certified, or not even that.
    """

    v_W: Array
    why: str
    margin_m: float
    braking: bool = False


def limited(wish_W: Array, limits: LimitParams) -> Array:
    """A velocity within the limits of speed, climb and sink, in the request's direction."""
    speeds = (math.hypot(wish_W[0], wish_W[1]), wish_W[2], -wish_W[2])
    most = (limits.speed_max_mps, limits.climb_max_mps, limits.sink_max_mps)
    over = (limit / v for v, limit in zip(speeds, most, strict=True) if v > limit)
    slowed: Array = wish_W * min(over, default=1.0)
    return slowed


def ramped(wish_W: Array, last_W: Array, change_mps: float) -> Array:
    """The request, no farther than that from the last command."""
    step = wish_W - last_W
    size = math.sqrt(step @ step)
    if size <= change_mps:
        return wish_W
    ramp: Array = last_W + step * (change_mps / size)
    return ramp


def turned_right(x_W: Array, angle_rad: float) -> Array:
    """A vector rotated to the right about up: vehicles that meet pass each other on one side."""
    c, s = math.cos(angle_rad), math.sin(angle_rad)
    return np.array((c * x_W[0] + s * x_W[1], c * x_W[1] - s * x_W[0], x_W[2]))


def plan_escape(path: Path, wish_W: Array) -> tuple[Array, float]:
    """The half-space n x <= b, b < 0, that leads out of a shape's path by the shortest way."""
    near = path.nearest_W
    size = math.sqrt(near @ near)
    if size > 1e-3:
        return near / size, size - path.keep_out_m
    across = np.array((-path.way_W[1], path.way_W[0], 0.0))
    width = math.sqrt(across @ across)
    across = across / width if width > 1e-6 else np.array((1.0, 0.0, 0.0))
    return (across if across @ wish_W <= 0.0 else -across), -path.keep_out_m


def way_out(normal: Array, bound_m: Array) -> Array | None:
    """The shortest way that meets half-spaces n x <= b, of which some b < 0; None: no short one.

    Args:
        normal: (N, 3), unit.
        bound_m: (N,).
    """
    out = project(ZERO, normal, bound_m)
    if out is None or math.sqrt(out @ out) > OPPOSED * -float(bound_m.min()):
        return None
    return out


class Moment(NamedTuple):
    """What a command is made of.

    Attributes:
        now_ns: the watchdogs' time.
        p_W: (3,) the vehicle's place, at its pose's time.
        age_s: of that pose.
        moving_W: (M, 3) velocity at the pose's time, and commands that may be in force since.
        zero_s: for how long nothing but zero has been commanded.
        wish_W: (3,) wanted velocity.
        last_W: (3,) last command.
        sent_W: (3,) what was sent last, which may differ from ``last_W``: what the guard adds by
            itself changes from there.
        dt_s: time since the last command.
        fastest_mps: speed that counts at least.
    """

    now_ns: int
    p_W: Array
    age_s: float
    moving_W: Array
    zero_s: float
    wish_W: Array = ZERO
    last_W: Array = ZERO
    sent_W: Array = ZERO
    dt_s: float = 0.0
    fastest_mps: float = 0.0


def safe_command(params: GuardParams, sight: Sight, moment: Moment, shown_m: float = 0.0) -> Safe:
    """The command nearest to a request, into a direction that was seen.

    Args:
        shown_m: obstacles up to this distance count for the margin though they cannot be met.
    """
    safe = _Command(params, sight, moment, shown_m).safe()
    if sight.is_seen(moment.now_ns, safe.v_W):
        return safe
    return Safe(ZERO, UNSEEN, safe.margin_m, braking=safe.braking)


def room_about(params: GuardParams, sight: Sight, moment: Moment, reach_W: Array) -> float:
    """Least room about a reach, (M, 3) relative to the place, one of its points 0."""
    far_m = math.sqrt(np.einsum("ij,ij->i", reach_W, reach_W).max())
    return _Command(params, sight, moment, far_m + params.keep_out_m).room(reach_W)


def entered(
    params: GuardParams, sight: Sight, now_ns: int, p_W: Array, age_s: float
) -> tuple[bool, str]:
    """Whether hits are within their keep-outs; in words, that no short way leads out."""
    delay_s = age_s + params.vehicle.latency_s + params.watch.late_s
    near = sight.hits(now_ns, p_W, delay_s, OPPOSED * params.keep_out_m)
    if not np.any(near.distance_m < near.keep_out_m):
        return False, ""
    planes, bounds, _ = still_planes(params, near, ZERO, rooms_of(params.limits, p_W))
    return True, CORNERED if way_out(planes, bounds) is None else ""


def rooms_of(limits: LimitParams, p_W: Array) -> Array:
    """(6,) way left to each side of height band and fence, m; negative outside."""
    (west, south), (east, north) = limits.fence_min_W_m, limits.fence_max_W_m
    x, y, z = p_W
    return np.array(
        (east - x, x - west, north - y, y - south,
         limits.height_max_m - z, z - limits.height_min_m)
    )  # fmt: skip


def still_planes(
    params: GuardParams, near: Obstacles, seed: Array, rooms: Array
) -> tuple[Array, Array, list[str]]:
    """Half-spaces n x <= b of band, fence and hits, and their words.

    b < 0 leads out of what has been entered; the margin is given up for that.
    """
    distance_m = near.distance_m
    entered = distance_m < near.keep_out_m
    margin_m = 0.0 if entered.any() else params.vehicle.margin_m
    wide = Obstacles(near.o_W, near.keep_out_m + margin_m, near.upright)
    normal, bound = half_spaces(wide, seed)
    bound = np.where(entered, distance_m - near.keep_out_m, bound)
    words = [*BOX_WORDS, *["obstacle"] * len(bound)]
    return np.concatenate((BOX, normal)), np.concatenate((rooms, bound)), words


class _Command:
    """One command in the making: what is near now, and how far ahead it counts."""

    def __init__(self, params: GuardParams, sight: Sight, moment: Moment, shown_m: float) -> None:
        self._params, self._moment = params, moment
        limits, vehicle = params.limits, params.vehicle
        now_ns, p_W = moment.now_ns, moment.p_W
        within = limited(moment.wish_W, limits)
        self._allowed = sight.seen_part(now_ns, within)
        self._unseen = self._allowed is not within
        self._change_mps = limits.acceleration_max_mps2 * moment.dt_s
        self._wish = ramped(self._allowed, moment.last_W, self._change_mps)
        self._sight_m = max(sight.range_m - params.keep_out_m - vehicle.margin_m, 0.0)
        self._answer_s = moment.age_s + vehicle.latency_s
        delay_s = self._answer_s + params.watch.late_s
        moving_W, request = moment.moving_W, self._wish
        fastest = max(
            math.sqrt(np.einsum("ij,ij->i", moving_W, moving_W).max()),
            math.sqrt(request @ request),
            moment.fastest_mps,
        )
        horizon_s = delay_s + fastest / vehicle.brake_mps2
        far_m = stop_m(fastest, delay_s, vehicle.brake_mps2)
        self._look_s = delay_s + LOOKS * self._answer_s
        self._look_brake = BRAKE_SHARE * vehicle.brake_mps2
        self._ahead_s = max(horizon_s, GIVE_WAY_S)

        def paths(ahead_s: float) -> list[Path]:
            rise_m = min(far_m, ahead_s * max(limits.climb_max_mps, limits.sink_max_mps))
            return sight.paths(now_ns, p_W, rise_m, ahead_s)

        within_m = max(2.0 * far_m + vehicle.margin_m, shown_m)
        self._near = near = sight.hits(now_ns, p_W, horizon_s, within_m)
        self._outside = near.chosen(near.distance_m > near.keep_out_m)
        self._paths = paths(horizon_s)
        self._ways = [
            replace(path, keep_out_m=path.keep_out_m + vehicle.margin_m)
            for path in paths(self._ahead_s)
        ]
        self._rooms = rooms_of(limits, p_W)
        zero_answer_s = max(self._answer_s - moment.zero_s, 0.0)
        self._braking = reach_braking(moving_W, zero_answer_s, vehicle.brake_mps2)
        self._halves = sight.neighbours.halves(now_ns, p_W, self._braking, vehicle.margin_m)

    def room(self, points: Array) -> float:
        """Least room of a reach to all that is in the way, and to where nothing is known."""
        rows = [path.rows for path in self._paths]
        moving = (room(points, one.o_W, one.keep_out_m, one.upright)[0] for one in rows)
        far_m = math.sqrt(np.einsum("ij,ij->i", points, points).max())
        return min(*self._room(points), *moving, self._sight_m - far_m)

    def safe(self) -> Safe:
        """The command; a way along obstacles or back from them may be unseen."""
        allowed, limits = self._allowed, self._params.limits
        x, why, added_mps = self._stop()
        v: Array = ZERO
        if x is not None:
            v = limited(velocity_of(x, self._look_s, self._look_brake), limits)
        most_mps = math.sqrt(allowed @ allowed) + added_mps
        if math.sqrt(v @ v) > most_mps:  # what is left of the last command's way out adds to this
            v = v * (most_mps / math.sqrt(v @ v))
        if x is None or (not why and math.dist(v, allowed) > SAME_MPS):
            why = why or "acceleration"
        if not why and math.dist(allowed, self._moment.wish_W) > SAME_MPS:
            why = UNSEEN if self._unseen else "speed limit"
        safe = self._certified(v, why)
        moving = [way for way in self._ways if way.way_W.any()]
        return self._past(safe, moving) if moving else safe

    def _past(self, safe: Safe, ways: list[Path]) -> Safe:
        """What leads past shapes that move, where standing in their path would not."""
        limits, vehicle, moment = self._params.limits, self._params.vehicle, self._moment
        wish_W = self._wish
        most_mps = min(limits.give_way_speed_mps, limits.speed_max_mps)
        given = ways_out(wish_W, moment.last_W, ways, most_mps)
        options = np.vstack((safe.v_W, given))
        rate = min(vehicle.brake_mps2, limits.acceleration_max_mps2)
        gaps = least_gaps(moment.moving_W[0], options, self._answer_s, rate, ways, self._ahead_s)
        if np.array_equal(safe.v_W, wish_W) and gaps[0] >= 0.0:
            return safe
        if gaps[1] >= PASSING_M and gaps[1] > gaps[0] and self._is_free(wish_W):
            return Safe(wish_W, "", float(gaps[1]))
        if gaps[0] >= -vehicle.margin_m:
            return safe
        worth = gaps.copy()
        worth[2] += BETTER_M
        for k in np.argsort(-worth):
            if worth[k] <= gaps[0]:
                break
            command = ramped(options[k], moment.sent_W, self._change_mps)
            if self._is_free(command):
                return Safe(command, "known shape", min(safe.margin_m, float(gaps[k])))
        return safe

    def _stop(self) -> tuple[Array | None, str, float]:
        """The stop point nearest to the request's that is free, and what it was held back from.

        With it the speed that may be added to the request's; inf where nothing leads anywhere.
        """
        limits, vehicle = self._params.limits, self._params.vehicle
        look_s, brake = self._look_s, self._look_brake
        wanted = stop_point(self._wish, look_s, brake)
        way_m, why = math.sqrt(wanted @ wanted), ""
        if way_m > self._sight_m:
            wanted, why = wanted * (self._sight_m / way_m), "range of sight"
        seed = stop_point(self._moment.last_W, look_s, brake)
        still, bound, words = still_planes(self._params, self._near, seed, self._rooms)
        halves = self._halves
        if np.any(halves.normal_W @ wanted > halves.law_m + TOLERANCE_M):
            wanted = turned_right(wanted, math.radians(RIGHT_DEG))
        still = np.concatenate((still, halves.normal_W))
        bound = np.concatenate((bound, halves.law_m))
        words = [*words, *halves.words]
        added_mps = 0.0
        if bound.min() < 0.0:
            out = way_out(still, bound)
            if out is None:
                return None, CORNERED, 0.0
            added_mps = limits.evade_speed_mps
            share = self._share(out, limits.evade_speed_mps)
            bound = np.where(bound < 0.0, share * bound, bound)
        normals, bounds = [still], [bound]
        for path in self._paths:
            rows = path.rows
            inside = rows.distance_m <= rows.keep_out_m
            wide = Obstacles(rows.o_W, rows.keep_out_m + vehicle.margin_m, rows.upright)
            normal, bound = half_spaces(wide, seed)
            normals.append(normal[~inside])
            bounds.append(bound[~inside])
            words += ["known shape"] * int((~inside).sum())
        apart_m = [math.sqrt(way.nearest_W @ way.nearest_W) for way in self._ways]
        near = [way for way, m in zip(self._ways, apart_m, strict=True) if m <= way.keep_out_m]
        leads = [plan_escape(way, self._wish) for way in near]
        for given in (leads, []):  # to give way is not worth an obstacle
            planes = np.concatenate([*normals, *(normal[None] for normal, _ in given)])
            led = np.array([bound for _, bound in given])
            if given:
                out = project(ZERO, planes, np.concatenate([*bounds, led]))
                if out is None:
                    continue
                led *= self._share(out, limits.give_way_speed_mps)
            most = np.concatenate([*bounds, led])
            x = project(wanted, planes, most)
            if x is not None:
                break
        else:
            return None, "no way out", 0.0
        if math.dist(x, wanted) > 1e-3:
            words += ["known shape"] * len(leads)
            why = words[int(np.argmax(planes @ wanted - most))]
        added_mps += limits.give_way_speed_mps if given else 0.0
        return x, why, added_mps or math.inf

    def _share(self, out: Array, speed_mps: float) -> float:
        """Share of a way out that leads to no more speed, nor to more than the ramp allows."""
        way_m = math.sqrt(out @ out)
        if way_m == 0.0:  # what asks for less than the projection's tolerance
            return 1.0
        ready_mps = max(float(self._moment.sent_W @ out) / way_m, 0.0) + self._change_mps
        most_m = stop_m(min(speed_mps, ready_mps), self._look_s, self._look_brake)
        return min(most_m / way_m, 1.0)

    def _room(self, points: Array) -> tuple[float, float]:
        """Least room about a hull to band and fence, and to hits that are not entered."""
        still = float(np.min(self._rooms + BEYOND_M - (points @ BOX.T).max(axis=0)))
        still = min(still, self._halves.room(points))
        outside = self._outside
        return still, room(points, outside.o_W, outside.keep_out_m, outside.upright)[0]

    def _reach(self, command_W: Array) -> Array:
        """Points whose hull holds all that the vehicle reaches after a command."""
        late_s, brake = self._params.watch.late_s, self._params.vehicle.brake_mps2
        return reach(self._moment.moving_W, command_W, self._answer_s, late_s, brake)

    def _is_free(self, command_W: Array) -> bool:
        """Whether a command keeps clear of what stands."""
        return min(self._room(self._reach(command_W))) >= 0.0

    def _certified(self, v_W: Array, why: str) -> Safe:
        """The command if it is certified, a slower one, or zero."""
        rows = [path.rows for path in self._paths]
        shapes = [part for part in rows if np.all(part.distance_m > part.keep_out_m)]

        def rooms(points: Array) -> tuple[float, float]:
            still, fixed = self._room(points)
            moving = min(
                (room(points, part.o_W, part.keep_out_m, part.upright)[0] for part in shapes),
                default=math.inf,
            )
            return min(still, fixed), min(fixed, moving)

        stop_fixed, stop_margin = rooms(self._braking)
        inside = len(self._outside.o_W) < len(self._near.o_W) or len(shapes) < len(rows)
        for command in (v_W, 0.5 * v_W):
            if not command.any():
                break
            fixed, margin = rooms(self._reach(command))
            if fixed >= 0.0 and (margin >= 0.0 or margin >= stop_margin - 1e-6):
                shown = min(margin, 0.0) if inside else margin
                return Safe(command, why or ("" if command is v_W else "obstacle"), shown)
        margin = min(stop_margin, 0.0) if inside else stop_margin
        wanted = bool(v_W.any())
        words = "only braking is certain" if wanted else why
        if stop_fixed < 0.0:
            words = "what is ahead is nearer than the way to a stop"
        return Safe(ZERO, words, margin, braking=wanted or stop_fixed < 0.0)
