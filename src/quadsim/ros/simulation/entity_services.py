"""Services of simulation_interfaces for entities: the vehicles, and what is spawned."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import Any

import numpy as np
from geometry_msgs.msg import Vector3
from numpy.typing import NDArray

from quadsim.base.compiled import plain
from quadsim.base.errors import InputError, shown
from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import quat, rotate, unrotate
from quadsim.ros.messages.cdr import put_xyz
from quadsim.ros.messages.world import make_time
from quadsim.ros.simulation.interfaces import Interfaces, RefusedError
from quadsim.ros.simulation.spawned import SimulatedWorld, Spawned
from quadsim.world.entities import ZERO, box_around
from quadsim.world.scene.obstacle_markers import unit_pose
from quadsim.world.scene.obstacles import Mesh, Pose

#: Frames that poses may be given in: all are the world.
FRAMES = ("", "world", "map")
#: How far from the origin, m, and how fast in m/s and rad/s something may be put.
FARTHEST_M, FASTEST_MPS, FASTEST_RADPS = 1e5, 100.0, 50.0
#: Of EntityCategory.
ROBOT, DYNAMIC_OBJECT, STATIC_OBJECT = 1, 4, 5
#: Longest description or tag, and how many tags.
LONGEST_TEXT, MOST_TAGS = 1000, 100
#: Longest expression, and how many repeats and alternatives it may hold: more could take hours.
LONGEST_FILTER, MOST_REPEATS, MOST_OTHERS = 200, 3, 8
#: Of Bounds.
EMPTY, BOX, CONVEX_HULL, SPHERE = range(4)


def name_filter(text: str) -> re.Pattern[str]:
    """A regular expression of a request.

    Raises:
        RefusedError: it is none, or one whose matching may not end.
    """
    bare = re.sub(r"\\.|\[\^?\]?[^]]*\]", "a", text)
    if (
        len(text) > LONGEST_FILTER
        or len(re.findall(r"[*+{?]", bare)) > MOST_REPEATS
        or bare.count("|") > MOST_OTHERS
        or re.search(r"\)[*+{]", bare)
    ):
        raise RefusedError(
            "RESULT_OPERATION_FAILED",
            f"filter {shown(text)}; allowed: {LONGEST_FILTER} characters, {MOST_OTHERS} times |,"
            f" {MOST_REPEATS} repeats (* + ? {{}}), none of a group",
        )
    try:
        return re.compile(text)
    except (re.error, OverflowError) as error:
        raise RefusedError("RESULT_OPERATION_FAILED", f"filter {shown(text)}: {error}") from None


def has_tags(tags: Collection[str], wanted: Any) -> bool:
    """Whether tags fit a TagsFilter."""
    if not wanted.tags:
        return True
    fits = all if wanted.filter_mode == wanted.FILTER_MODE_ALL else any
    return fits(tag in tags for tag in wanted.tags)


def overlaps(box: NDArray[np.float64], bounds: Any) -> bool:
    """Whether a box along the axes, (2, 3) m, reaches into Bounds.

    Raises:
        RefusedError: bounds of another kind, or that are none.
    """
    if bounds.type == EMPTY:
        return True
    if bounds.type not in (BOX, SPHERE):
        raise RefusedError("RESULT_FEATURE_UNSUPPORTED", "bounds; allowed: none, a box, a sphere")
    points = [(point.x, point.y, point.z) for point in bounds.points]
    if len(points) != 2 or not np.all(np.isfinite(points)):
        raise RefusedError("RESULT_OPERATION_FAILED", "bounds; allowed: two finite points")
    low, high = box
    if bounds.type == SPHERE:
        away_m = np.maximum(np.maximum(low - points[0], points[0] - high), 0.0)
        return math.hypot(*away_m) <= points[1][0]
    return bool(np.all(low <= np.max(points, axis=0)) and np.all(high >= np.min(points, axis=0)))


def pose_in_world(pose: Any, header: Any) -> Pose:
    """The pose of a request.

    Raises:
        RefusedError: it is none, too far, or in a frame that is not the world.
    """
    at, turn = pose.position, pose.orientation
    if header.frame_id not in FRAMES:
        raise RefusedError(
            "INVALID_POSE", f"frame {shown(header.frame_id)}; allowed: map, world, none"
        )
    try:
        found = unit_pose((at.x, at.y, at.z), (turn.w, turn.x, turn.y, turn.z))
    except InputError as error:
        raise RefusedError("INVALID_POSE", str(error)) from None
    if max(map(abs, found.p_A)) > FARTHEST_M:
        raise RefusedError("INVALID_POSE", f"position; allowed: within {FARTHEST_M:g} m")
    return found


def velocities(twist: Any) -> tuple[Vec3, Vec3]:
    """Linear and angular velocity of a request, in world axes.

    Raises:
        RefusedError: they are not finite, or too fast.
    """
    found = []
    for part, most in ((twist.linear, FASTEST_MPS), (twist.angular, FASTEST_RADPS)):
        value = (part.x, part.y, part.z)
        if not math.hypot(*value) <= most:
            words = f"twist; allowed: at most {FASTEST_MPS:g} m/s and {FASTEST_RADPS:g} rad/s"
            raise RefusedError("RESULT_OPERATION_FAILED", words)
        found.append(value)
    return found[0], found[1]


class EntityServices:
    """Offers them."""

    def __init__(self, interfaces: Interfaces, world: SimulatedWorld, spawned: Spawned) -> None:
        self._interfaces, self._world, self._spawned = interfaces, world, spawned
        offer = interfaces.offer
        filters = ("ENTITY_TAGS", "ENTITY_CATEGORIES", "ENTITY_BOUNDS_BOX")
        offer("GetEntities", self._entities, *filters)
        offer("GetEntityState", self._state, "ENTITY_STATE_GETTING")
        offer("GetEntitiesStates", self._states)
        offer("SetEntityState", self._set_state, "ENTITY_STATE_SETTING")
        offer("GetEntityInfo", self._info, "ENTITY_INFO_GETTING")
        offer("SetEntityInfo", self._set_info, "ENTITY_INFO_SETTING")
        offer("GetEntityBounds", self._bounds, "ENTITY_BOUNDS")
        offer("DeleteEntity", self._delete, "DELETING")

    def _motions(self) -> dict[str, Any]:
        """Name of each entity to its KINEMATICS."""
        spawned = self._spawned
        return {**self._world.truths(), **{name: spawned.motion(name) for name in spawned.entities}}

    def _known(self, name: str) -> Any:
        """KINEMATICS of an entity."""
        motions = self._motions()
        if name not in motions:
            known = ", ".join(motions)
            raise RefusedError("RESULT_NOT_FOUND", f"{shown(name)}; known: {known}")
        return motions[name]

    def _box(self, name: str, motion: Any) -> NDArray[np.float64]:
        """(2, 3) corners of the box around an entity in the world, along its axes, m."""
        if name in self._spawned.entities:
            return box_around(self._spawned.obstacles(name))
        radius_m, height_m = self._world.outline_m()
        reach_m = math.hypot(radius_m, 0.5 * height_m)  # however it is rotated
        return motion["p_W"] + np.array([[-reach_m], [reach_m]])

    def _about(self, name: str) -> Any:
        """EntityInfo of an entity."""
        if name in self._spawned.infos:
            return self._spawned.infos[name]
        info, entity = self._interfaces.message("EntityInfo")(), self._spawned.entities.get(name)
        if entity is None:
            info.category.category, info.description = ROBOT, "vehicle"
        else:
            info.category.category = STATIC_OBJECT if entity.model.static else DYNAMIC_OBJECT
            info.description = f"model {entity.model.name}"
        return info

    # ---- what there is -------------------------------------------------------------------------

    def _fitting(self, filters: Any) -> dict[str, Any]:
        """Entities that fit filters."""
        fits, motions = name_filter(filters.filter), self._motions()
        return {
            name: motion
            for name, motion in motions.items()
            if fits.search(name) and self._fits(name, motion, filters)
        }

    def _fits(self, name: str, motion: Any, filters: Any) -> bool:
        """Whether an entity fits what filters ask besides its name."""
        categories = {one.category for one in filters.categories}
        if categories or filters.tags.tags:
            about = self._about(name)
            if categories and about.category.category not in categories:
                return False
            if not has_tags(about.tags, filters.tags):
                return False
        return filters.bounds.type == EMPTY or overlaps(self._box(name, motion), filters.bounds)

    def _entities(self, request: Any, response: Any) -> None:
        response.entities = list(self._fitting(request.filters))

    def _states(self, request: Any, response: Any) -> None:
        found = self._fitting(request.filters)
        made = self._interfaces.message("EntityState")
        response.states = [put_state(made(), motion) for motion in found.values()]
        response.entities = list(found)

    def _state(self, request: Any, response: Any) -> None:
        put_state(response.state, self._known(request.entity))

    def _info(self, request: Any, response: Any) -> None:
        self._known(request.entity)
        response.info = self._about(request.entity)

    def _set_info(self, request: Any, _: Any) -> None:
        self._known(request.entity)
        info = request.info
        texts = (info.description, *info.tags)
        if len(info.tags) > MOST_TAGS or max(map(len, texts)) > LONGEST_TEXT:
            raise InputError(f"allowed: {MOST_TAGS} tags, texts of {LONGEST_TEXT} characters")
        self._spawned.infos[request.entity] = info

    def _bounds(self, request: Any, response: Any) -> None:
        """A box in the entity's own axes."""
        motion, entity = self._known(request.entity), self._spawned.entities.get(request.entity)
        if entity is None:
            box = self._box(request.entity, motion) - motion["p_W"]
        else:
            box = box_around(entity.model.obstacles)
        response.bounds.type = BOX
        lower, upper = box.tolist()
        points = (dict(zip("xyz", corner, strict=True)) for corner in (upper, lower))
        response.bounds.points = [Vector3(**point) for point in points]

    # ---- what changes them ---------------------------------------------------------------------

    def _set_state(self, request: Any, _: Any) -> str:
        """Put an entity somewhere, or let it go on at other velocities."""
        name, state = request.entity, request.state
        motion = self._known(name).copy()
        # before 2.1 there are no flags, and everything is set
        wanted = [getattr(request, f"set_{of}", True) for of in ("pose", "twist", "acceleration")]
        entity = self._spawned.entities.get(name)
        pose_W = Pose(tuple(motion["p_W"].tolist()), quat(motion["q_WB"]))
        w_W = plain(rotate)(pose_W.q_AB, tuple(motion["w_B"].tolist()))
        v_W: Vec3 = tuple(motion["v_W"].tolist())
        if wanted[0]:
            pose_W = pose_in_world(state.pose, state.header)
        if wanted[1]:
            v_W, w_W = velocities(state.twist)
        parts = (state.acceleration.linear, state.acceleration.angular)
        speeds_up = wanted[2] and any(part.x or part.y or part.z for part in parts)
        moves = wanted[1] and (v_W != ZERO or w_W != ZERO)
        if not (wanted[0] or wanted[1]):
            return "nothing is set: set_pose and set_twist are false"
        if entity is None:
            motion["p_W"], motion["q_WB"], motion["v_W"] = pose_W.p_A, pose_W.q_AB, v_W
            motion["w_B"] = plain(unrotate)(pose_W.q_AB, w_W)
            try:
                self._world.place(name, motion)
            except InputError as error:
                raise RefusedError("INVALID_POSE", str(error)) from None
        else:
            if entity.model.static and (moves or speeds_up):
                raise InputError(f"{name} is static; allowed: a pose")
            if moves and any(isinstance(one.shape, Mesh) for one in entity.model.obstacles):
                words = f"{name} is a mesh; allowed: a pose without a twist"
                raise RefusedError("RESULT_FEATURE_UNSUPPORTED", words)
            self._spawned.move(name, pose_W, v_W, w_W)
        return "the acceleration is not set" if speeds_up else ""

    def _delete(self, request: Any, _: Any) -> None:
        self._known(request.entity)
        if request.entity not in self._spawned.entities:
            raise InputError("vehicles are those of the launch; only what was spawned is deleted")
        self._spawned.remove(request.entity)


def put_state(state: Any, truth: Any) -> Any:
    """Write a KINEMATICS into an EntityState: all in the world, ``map``."""
    q_WB = truth["q_WB"].tolist()
    state.header.frame_id, state.header.stamp = "map", make_time(int(truth["stamp_ns"]))
    put_xyz(state.pose.position, truth["p_W"])
    orientation = state.pose.orientation
    orientation.w, orientation.x, orientation.y, orientation.z = q_WB
    for part, linear_W, angular_B in (
        (state.twist, "v_W", "w_B"), (state.acceleration, "a_W", "w_dot_B"),
    ):  # fmt: skip
        put_xyz(part.linear, truth[linear_W])
        put_xyz(part.angular, plain(rotate)(tuple(q_WB), tuple(truth[angular_B].tolist())))
    return state
