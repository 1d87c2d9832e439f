"""From a wish to a velocity that is safe: limits, obstacles, fence; then the certificate of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from quadsim.control.avoidance import (
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
from quadsim.control.giving_way import BETTER_M, PASSING_M, least_gaps, ways_out
from quadsim.control.guard_parameters import GuardParams, LimitParams
from quadsim.control.guard_sight import Path, Sight

Array = NDArray[np.float64]

#: The law looks ahead for so many latencies more than the certificate, and counts on that share of
#: the brakes: what it commands stays certified when commands on their way are counted too.
LOOKS = 1.0
BRAKE_SHARE = 0.85
#: So far ahead a known shape is given way, s.
GIVE_WAY_S = 2.5
#: What a command may differ from the wish and still be the wish, m/s.
SAME_MPS = 0.05
#: Outward normals of the box that height band and fence are.
BOX = np.array([(1.0, 0, 0), (-1.0, 0, 0), (0, 1.0, 0), (0, -1.0, 0), (0, 0, 1.0), (0, 0, -1.0)])
BOX_WORDS = ("fence", "fence", "fence", "fence", "height band", "height band")
ZERO = np.zeros(3)


@dataclass(frozen=True)
class Safe:
    """What the law gives.

    Attributes:
        v_W: (3,) velocity, m/s.
        why: what kept it from the wish, in words; empty where nothing did.
        margin_m: room left about all that the vehicle reaches until it stands.
        braking: whether only zero was certified, or not even that.
    """

    v_W: Array
    why: str
    margin_m: float
    braking: bool = False


def limited(wish_W: Array, limits: LimitParams) -> Array:
    """A velocity within the limits of speed, climb and sink, in the wish's direction."""
    factors = [1.0]
    level = math.hypot(wish_W[0], wish_W[1])
    if level > limits.speed_max_mps:
        factors.append(limits.speed_max_mps / level)
    if wish_W[2] > limits.climb_max_mps:
        factors.append(limits.climb_max_mps / wish_W[2])
    if wish_W[2] < -limits.sink_max_mps:
        factors.append(-limits.sink_max_mps / wish_W[2])
    slowed: Array = wish_W * min(factors)
    return slowed


def ramped(wish_W: Array, last_W: Array, change_mps: float) -> Array:
    """The wish, no farther than that from the last command."""
    step = wish_W - last_W
    size = math.sqrt(step @ step)
    if size <= change_mps:
        return wish_W
    ramp: Array = last_W + step * (change_mps / size)
    return ramp


def away(path: Path, wish_W: Array) -> tuple[Array, float]:
    """The half-space n x <= b, b < 0, that leads out of a shape's path by the shortest way."""
    near = path.nearest_W
    size = math.sqrt(near @ near)
    if size > 1e-3:
        return near / size, size - path.keep_out_m
    across = np.array((-path.way_W[1], path.way_W[0], 0.0))
    width = math.sqrt(across @ across)
    across = across / width if width > 1e-6 else np.array((1.0, 0.0, 0.0))
    return (across if across @ wish_W <= 0.0 else -across), -path.keep_out_m


def _is_within(path: Path) -> bool:
    """Whether the vehicle is in a shape's way."""
    near = path.nearest_W
    return math.sqrt(near @ near) <= path.keep_out_m


class Law:
    """Wish to safe velocity.

    Args:
        params: of the guard.
        sight: what is in the way.
    """

    def __init__(self, params: GuardParams, sight: Sight) -> None:
        self._params = params
        self._sight = sight
        self._brake = params.vehicle.brake_mps2

    def rooms(self, p_W: Array) -> Array:
        """(6,) way left to each side of height band and fence, m; negative outside."""
        limits = self._params.limits
        (west, south), (east, north) = limits.fence_min_W_m, limits.fence_max_W_m
        x, y, z = p_W
        return np.array(
            (east - x, x - west, north - y, y - south,
             limits.height_max_m - z, z - limits.height_min_m)
        )  # fmt: skip

    def safe(
        self,
        now_ns: int,
        p_W: Array,
        age_s: float,
        wish_W: Array,
        last_W: Array,
        moving_W: Array,
        zero_s: float,
        dt_s: float,
        shown_m: float = 0.0,
    ) -> Safe:
        """The command nearest to a wish.

        Args:
            now_ns: the watchdogs' time.
            p_W: (3,) the vehicle's place, at its pose's time.
            age_s: of that pose.
            wish_W: (3,) wanted velocity.
            last_W: (3,) last command.
            moving_W: (M, 3) velocity at the pose's time, and commands that may be in force since.
            zero_s: for how long nothing but zero has been commanded.
            dt_s: time since the last command.
            shown_m: obstacles up to this distance count for the margin though they cannot be met.
        """
        params = self._params
        allowed = limited(wish_W, params.limits)
        wish = ramped(allowed, last_W, params.limits.acceleration_max_mps2 * dt_s)
        answer_s = age_s + params.vehicle.latency_s
        delay_s = answer_s + params.watch.late_s
        fastest = max(
            math.sqrt(np.einsum("ij,ij->i", moving_W, moving_W).max()), math.sqrt(wish @ wish)
        )
        horizon_s = delay_s + fastest / self._brake
        far_m = stop_m(fastest, delay_s, self._brake)

        near, paths = self._near(now_ns, p_W, horizon_s, far_m, shown_m)
        ways = [
            replace(path, keep_out_m=path.keep_out_m + params.vehicle.margin_m)
            for path in self._near_paths(now_ns, p_W, max(horizon_s, GIVE_WAY_S), far_m)
        ]
        look_s, brake = delay_s + LOOKS * answer_s, BRAKE_SHARE * self._brake
        rooms = self.rooms(p_W)
        x, why = self._stop(wish, last_W, look_s, brake, near, paths, ways, rooms)
        v = ZERO if x is None else limited(velocity_of(x, look_s, brake), params.limits)
        if x is None or (not why and math.dist(v, allowed) > SAME_MPS):
            why = why or "acceleration"
        if not why and math.dist(allowed, wish_W) > SAME_MPS:
            why = "speed limit"
        safe = self._certified(v, why, moving_W, answer_s, zero_s, near, paths, rooms)
        moving = [way for way in ways if way.way_W.any()]
        if not moving:
            return safe
        ahead_s = max(horizon_s, GIVE_WAY_S)
        return self._past(
            safe, wish, last_W, moving_W, answer_s, near, moving, ahead_s, rooms, dt_s
        )

    def _past(
        self,
        safe: Safe,
        wish_W: Array,
        last_W: Array,
        moving_W: Array,
        answer_s: float,
        near: Obstacles,
        ways: list[Path],
        ahead_s: float,
        rooms: Array,
        dt_s: float,
    ) -> Safe:
        """What leads past shapes that move, where standing in their path would not."""
        limits, vehicle = self._params.limits, self._params.vehicle
        given = ways_out(wish_W, last_W, ways, limits.speed_max_mps)
        options = np.vstack((safe.v_W, given))
        rate = min(self._brake, limits.acceleration_max_mps2)
        gaps = least_gaps(moving_W[0], options, answer_s, rate, ways, ahead_s)
        if np.array_equal(safe.v_W, wish_W) and gaps[0] >= 0.0:
            return safe
        box_room = rooms + limits.beyond_m
        outside = near.chosen(near.distance_m > near.keep_out_m)

        def is_free(command_W: Array) -> bool:
            points = reach(moving_W, command_W, answer_s, self._params.watch.late_s, self._brake)
            still = float(np.min(box_room - (points @ BOX.T).max(axis=0)))
            fixed = room(points, outside.o_W, outside.keep_out_m, outside.upright)[0]
            return min(still, fixed) >= 0.0

        if gaps[1] >= PASSING_M and gaps[1] > gaps[0] and is_free(wish_W):
            return Safe(wish_W, "", float(gaps[1]))
        if gaps[0] >= -vehicle.margin_m:
            return safe
        worth = gaps.copy()
        worth[2] += BETTER_M
        for k in np.argsort(-worth):
            if worth[k] <= gaps[0]:
                break
            command = ramped(options[k], last_W, limits.acceleration_max_mps2 * dt_s)
            if is_free(command):
                return Safe(command, "known shape", min(safe.margin_m, float(gaps[k])))
        return safe

    def _near(
        self, now_ns: int, p_W: Array, horizon_s: float, far_m: float, shown_m: float
    ) -> tuple[Obstacles, list[Path]]:
        """What can matter within the way to a stop."""
        within_m = max(2.0 * far_m + self._params.vehicle.margin_m, shown_m)
        near = self._sight.hits(now_ns, p_W, horizon_s, within_m)
        return near, self._near_paths(now_ns, p_W, horizon_s, far_m)

    def _near_paths(self, now_ns: int, p_W: Array, horizon_s: float, far_m: float) -> list[Path]:
        """Paths of known shapes that are not above or below."""
        limits = self._params.limits
        rise_m = min(far_m, horizon_s * max(limits.climb_max_mps, limits.sink_max_mps))
        return self._sight.paths(now_ns, p_W, rise_m, horizon_s)

    def _stop(
        self,
        wish_W: Array,
        last_W: Array,
        look_s: float,
        brake: float,
        near: Obstacles,
        paths: list[Path],
        ways: list[Path],
        rooms: Array,
    ) -> tuple[Array | None, str]:
        """The stop point nearest to the wish's that is free, and what it was kept from."""
        vehicle = self._params.vehicle
        wanted = stop_point(wish_W, look_s, brake)
        sight_m = max(self._sight.range_m - self._params.keep_out_m - vehicle.margin_m, 0.0)
        way_m, why = math.sqrt(wanted @ wanted), ""
        if way_m > sight_m:
            wanted, why = wanted * (sight_m / way_m), "range of sight"
        seed = stop_point(last_W, look_s, brake)
        normals, bounds, words = [BOX], [rooms], [*BOX_WORDS]

        wide = Obstacles(near.o_W, near.keep_out_m + vehicle.margin_m, near.upright)
        normal, bound = half_spaces(wide, seed)
        distance_m = near.distance_m
        bound = np.where(distance_m < near.keep_out_m, distance_m - near.keep_out_m, bound)
        normals.append(normal)
        bounds.append(bound)
        words += ["obstacle"] * len(bound)
        for path in paths:
            rows = path.rows
            inside = rows.distance_m <= rows.keep_out_m
            wide = Obstacles(rows.o_W, rows.keep_out_m + vehicle.margin_m, rows.upright)
            normal, bound = half_spaces(wide, seed)
            normals.append(normal[~inside])
            bounds.append(bound[~inside])
            words += ["known shape"] * int((~inside).sum())
        leads = [away(way, wish_W) for way in ways if _is_within(way)]
        for given in (leads, []):  # to give way is not worth an obstacle
            planes = np.concatenate([*normals, *(normal[None] for normal, _ in given)])
            most = np.concatenate([*bounds, *(np.array((bound,)) for _, bound in given)])
            x = project(wanted, planes, most)
            if x is not None:
                break
        else:
            return None, "no way out"
        if math.dist(x, wanted) > 1e-3:
            words += ["known shape"] * len(leads)
            why = words[int(np.argmax(planes @ wanted - most))]
        return x, why

    def _certified(
        self,
        v_W: Array,
        why: str,
        moving_W: Array,
        answer_s: float,
        zero_s: float,
        near: Obstacles,
        paths: list[Path],
        rooms: Array,
    ) -> Safe:
        """The command if it is certified, a slower one, or zero."""
        outside = near.chosen(near.distance_m > near.keep_out_m)
        rows = [path.rows for path in paths]
        shapes = [part for part in rows if np.all(part.distance_m > part.keep_out_m)]
        entered = len(shapes) < len(rows)
        box_room = rooms + self._params.limits.beyond_m

        def rooms_of(points: Array) -> tuple[float, float]:
            still = float(np.min(box_room - (points @ BOX.T).max(axis=0)))
            fixed = room(points, outside.o_W, outside.keep_out_m, outside.upright)[0]
            moving = min(
                (room(points, part.o_W, part.keep_out_m, part.upright)[0] for part in shapes),
                default=math.inf,
            )
            return min(still, fixed), min(fixed, moving)

        late_s = self._params.watch.late_s
        zero_answer_s = max(answer_s - zero_s, 0.0)
        stop_fixed, stop_margin = rooms_of(reach_braking(moving_W, zero_answer_s, self._brake))
        inside = len(outside.o_W) < len(near.o_W) or entered
        for command in (v_W, 0.5 * v_W):
            if not command.any():
                break
            fixed, margin = rooms_of(reach(moving_W, command, answer_s, late_s, self._brake))
            if fixed >= 0.0 and (margin >= 0.0 or margin >= stop_margin - 1e-6):
                shown = min(margin, 0.0) if inside else margin
                return Safe(command, why or ("" if command is v_W else "obstacle"), shown)
        margin = min(stop_margin, 0.0) if inside else stop_margin
        wanted = bool(v_W.any())
        words = "only braking is certain" if wanted else why
        if stop_fixed < 0.0:
            words = "what is ahead is nearer than the way to a stop"
        return Safe(ZERO, words, margin, braking=wanted or stop_fixed < 0.0)
