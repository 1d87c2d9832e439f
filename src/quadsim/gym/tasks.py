"""Tasks: where episodes begin, what is wanted, what it is worth, and when it is over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.parts import import_attribute
from quadsim.gym.view import Beginning, View, euler_quaternions

#: Deviation of the actions while an exact task is learned; with larger ones its goal is missed.
CALM: Mapping[str, float] = {"deviation": 0.25}


class Task:
    """A task; each method is given all vehicles at once, as arrays.

    An own one is a subclass that changes what differs. Its reward is a sum over the episode.

    Attributes:
        episode_s: after which an episode is cut off.
        memory: numbers that it keeps of each episode.
        rays: distances around that it sees, in the level plane.
        reach_m: of them.
        scenario: that it is flown in, where none is named.
        changes: dotted keys that are set in that.
        features_count: numbers of :meth:`features`.
        vectors_count: how many vectors in W are first among them, seen in body axes too.
        follows: whether its policy flies where a mission wants the vehicle, or a way of its own.
        training_steps: after which a training of it ends, unless told.
        learning: what of :class:`~quadsim.gym.ppo.PpoParams` it is trained with, where it differs.
    """

    episode_s = 10.0
    memory = 0
    rays = 0
    reach_m = 10.0
    scenario = "hover"
    changes: Mapping[str, Any] = {}
    features_count = 0
    vectors_count = 0
    follows = True
    training_steps = 1_100_000
    learning: Mapping[str, float] = {}
    #: Farther from the goal it is lost, m.
    lost_m = 8.0

    def begin(self, start: Beginning) -> None:
        """Put vehicles where episodes begin; here about (0, 0, 5), level and slow."""
        start.motions["p_W"] = np.array([0.0, 0.0, 5.0]) + start.uniform(-1.0, 1.0, 3)
        start.motions["v_W"] = 0.3 * start.normal(3)

    def goal(self, view: View) -> Array:
        """(N, 3) where a vehicle shall be now, in W; here (0, 0, 5)."""
        return np.broadcast_to([0.0, 0.0, 5.0], view.p_W.shape)

    def features(self, view: View) -> Array:
        """(N, features_count) what a policy sees apart from motion and goal, about 1 in size."""
        return np.zeros((len(view.p_W), 0))

    def reward(self, view: View) -> Array:
        """(N,) of a step: up to 1 at the goal, slow and level."""
        near = np.exp(-0.5 * view.error_m)
        slow = np.exp(-0.2 * np.linalg.norm(view.v_W, axis=1))
        spin = np.square(view.w_B).sum(axis=1)
        level = 0.5 * (1.0 + view.up)
        return near * (0.4 + 0.3 * slow + 0.3 * level) - 0.002 * spin - 0.02 * view.effort

    def achieved(self, view: View) -> NDArray[np.bool_]:
        """(N,) whether an episode that ends now was a success; here near the goal, and slow."""
        found: NDArray[np.bool_] = view.error_m < 0.5
        return found & (np.linalg.norm(view.v_W, axis=1) < 0.5)

    def terminated(self, view: View) -> NDArray[np.bool_]:
        """(N,) whether an episode is over for good; a motion that is not finite always is."""
        return view.crashed | (view.error_m > self.lost_m)


class Hover(Task):
    """Hover at (0, 0, 5) from any attitude, also upside down, turning and falling."""

    lost_m = 12.0

    def begin(self, start: Beginning) -> None:
        """Any attitude, within 2 m per axis of a point 2 m above the goal; some 2 m/s, 2 rad/s."""
        start.motions["p_W"] = np.array([0.0, 0.0, 7.0]) + start.uniform(-2.0, 2.0, 3)
        start.motions["q_WB"] = start.attitudes()
        start.motions["v_W"] = start.normal(3)
        start.motions["w_B"] = start.normal(3)

    def reward(self, view: View) -> Array:
        """Up to 1 at the goal, slow and level; it falls off with the distance as far as it is."""
        far = np.maximum(1.0 - view.error_m / self.lost_m, 0.0)
        slow = np.exp(-0.2 * np.linalg.norm(view.v_W, axis=1))
        worth = 0.4 + 0.3 * slow + 0.15 * (1.0 + view.up)
        spin = np.square(view.w_B).sum(axis=1)
        return 0.5 * (far + np.exp(-view.error_m)) * worth - 0.002 * spin - 0.02 * view.effort


class Reach(Task):
    """Fly to a place within 5 m, and stay there."""

    memory = 3
    lost_m = 15.0

    def begin(self, start: Beginning) -> None:
        """About (0, 0, 5), with a goal of its own."""
        super().begin(start)
        start.memory[:] = np.array([0.0, 0.0, 6.0]) + start.uniform(-1.0, 1.0, 3) * [4.0, 4.0, 2.0]

    def goal(self, view: View) -> Array:
        """The place."""
        return view.memory


class Trajectory(Task):
    """Follow a lying eight, 6 m long, once in 6 s; features are where it will be, 0.3 s apart."""

    features_count = 9
    vectors_count = 3
    follows = False
    training_steps = 3_000_000
    learning = CALM
    period_s = 6.0

    def at(self, time_s: Array) -> Array:
        """(N, 3) where it shall be at a time (lemniscate of Gerono)."""
        angle = 2.0 * math.pi * time_s / self.period_s
        east, north = 3.0 * np.sin(angle), 1.5 * np.sin(2.0 * angle)
        return np.stack([east, north, np.full_like(east, 5.0)], axis=1)

    def goal(self, view: View) -> Array:
        """Where the eight is now."""
        return self.at(view.time_s)

    def features(self, view: View) -> Array:
        """Three places ahead, from the goal, over 5 m."""
        ahead = [self.at(view.time_s + k * 0.3) - view.goal_W for k in (1, 2, 3)]
        return np.concatenate(ahead, axis=1) / 5.0

    def achieved(self, view: View) -> NDArray[np.bool_]:
        """Near where it shall be."""
        return np.asarray(view.error_m < 0.5)

    def reward(self, view: View) -> Array:
        """Up to 1 on the eight."""
        return np.exp(-view.error_m) - 0.002 * np.square(view.w_B).sum(axis=1) - 0.02 * view.effort


class Race(Task):
    """Fly through four gates, 1.5 m wide, round and round; features say how a gate stands."""

    memory = 3  # the next gate; whether the last step went through one; how many were
    features_count = 6
    vectors_count = 2
    follows = False
    episode_s = 15.0
    lost_m = 20.0
    training_steps = 5_000_000
    learning = CALM
    #: Centres, and the directions of flight through them.
    gates_W = np.array([[4.0, 0.0, 5.0], [0.0, 4.0, 6.0], [-4.0, 0.0, 5.0], [0.0, -4.0, 4.0]])
    through_W = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])
    radius_m = 0.75

    def begin(self, start: Beginning) -> None:
        """Before one of the gates, facing through it."""
        gate = (4.0 * start.uniform(0.0, 1.0)[:, 0]).astype(int)
        at, along = self.gates_W[gate], self.through_W[gate]
        start.memory[:, 0] = gate
        start.motions["p_W"] = at - 2.0 * along + 0.3 * start.normal(3)
        yaw = np.arctan2(along[:, 1], along[:, 0])
        start.motions["q_WB"] = euler_quaternions(0.0 * yaw, 0.0 * yaw, yaw)

    def goal(self, view: View) -> Array:
        """Centre of the next gate; a gate that was flown through is behind."""
        gate = view.memory[:, 0].astype(int)
        off = view.p_W - self.gates_W[gate]
        along = (off * self.through_W[gate]).sum(axis=1)
        aside = np.linalg.norm(off - along[:, None] * self.through_W[gate], axis=1)
        passed = (along > 0.0) & (along < 1.0) & (aside < self.radius_m)
        view.memory[:, 0] = np.where(passed, (gate + 1) % len(self.gates_W), gate)
        view.memory[:, 1] = passed
        view.memory[:, 2] += passed
        return self.gates_W[view.memory[:, 0].astype(int)]

    def features(self, view: View) -> Array:
        """Direction through the next gate; from there to the one behind it, over 10 m."""
        gate = view.memory[:, 0].astype(int)
        after = self.gates_W[(gate + 1) % len(self.gates_W)]
        return np.concatenate([self.through_W[gate], (after - view.goal_W) / 10.0], axis=1)

    def achieved(self, view: View) -> NDArray[np.bool_]:
        """A lap: all gates."""
        return np.asarray(view.memory[:, 2] >= len(self.gates_W))

    def reward(self, view: View) -> Array:
        """10 for a gate, and the speed towards the next one; 10 lost in a crash.

        Who loses more learns to wait before the gates.
        """
        distance_m = np.maximum(view.error_m, 1e-6)
        closing = (view.v_W * (view.goal_W - view.p_W)).sum(axis=1) / distance_m
        spin = np.square(view.w_B).sum(axis=1)
        return 10.0 * view.memory[:, 1] + 0.1 * closing - 0.002 * spin - 10.0 * view.crashed


class Land(Task):
    """Come down on a pad that moves on a circle, at its speed; the pad is a place, no body.

    Nothing carries the vehicle there: an episode ends well within 0.3 m of the pad, no faster than
    0.5 m/s against it.
    """

    memory = 2  # radius in m and rate in rad/s of the pad's circle
    features_count = 3
    vectors_count = 1
    follows = False
    episode_s = 15.0
    training_steps = 4_000_000
    learning = CALM
    height_m = 1.0

    def begin(self, start: Beginning) -> None:
        """About (0, 0, 5); a pad of its own."""
        super().begin(start)
        start.memory[:] = start.uniform(np.array([1.0, 0.1]), np.array([3.0, 0.5]), 2)

    def pad(self, view: View) -> tuple[Array, Array]:
        """(N, 3) place and velocity of the pad."""
        radius, rate = view.memory.T
        angle, zero = rate * view.time_s, np.zeros_like(rate)
        c, s = radius * np.cos(angle), radius * np.sin(angle)
        p_W = np.stack([c, s, zero + self.height_m], axis=1)
        return p_W, np.stack([-rate * s, rate * c, zero], axis=1)

    def goal(self, view: View) -> Array:
        """The pad."""
        return self.pad(view)[0]

    def features(self, view: View) -> Array:
        """Velocity of the pad, over 5 m/s."""
        return self.pad(view)[1] / 5.0

    def achieved(self, view: View) -> NDArray[np.bool_]:
        """(N,) whether it is on the pad, no faster than that allows."""
        speed = np.linalg.norm(view.v_W - self.pad(view)[1], axis=1)
        found: NDArray[np.bool_] = (view.error_m < 0.3) & (speed < 0.5) & (view.up > 0.9)
        return found

    def reward(self, view: View) -> Array:
        """200 on the pad, more than to stay above it; before that up to 1 near it, at its speed."""
        speed = np.linalg.norm(view.v_W - self.pad(view)[1], axis=1)
        return np.exp(-0.5 * view.error_m - 0.3 * speed) + 200.0 * self.achieved(view)

    def terminated(self, view: View) -> NDArray[np.bool_]:
        """On the pad, or lost."""
        return self.achieved(view) | super().terminated(view)


class Forest(Task):
    """Fly 40 m east through a forest by sixteen ranges around, as a level lidar has them."""

    rays = 16
    follows = False
    memory = 1  # how far east it was
    episode_s = 30.0
    lost_m = 50.0
    training_steps = 4_000_000
    learning = CALM
    changes: Mapping[str, Any] = {"world": "forest"}

    def begin(self, start: Beginning) -> None:
        """On the western edge, level."""
        start.motions["p_W"] = np.array([-20.0, 0.0, 2.0]) + start.uniform(-1.0, 1.0, 3) * [1, 3, 0]
        start.memory[:, 0] = start.motions["p_W"][:, 0]

    def goal(self, view: View) -> Array:
        """Behind the forest."""
        return np.broadcast_to([20.0, 0.0, 2.0], view.p_W.shape)

    def reward(self, view: View) -> Array:
        """1 for each metre gained, less where a trunk is near; 20 lost in a crash."""
        gained = np.maximum(view.p_W[:, 0] - view.memory[:, 0], 0.0)
        view.memory[:, 0] += gained
        near = np.maximum(1.0 - view.rays_m.min(axis=1), 0.0)
        return gained - 0.2 * near - 0.02 * view.effort - 20.0 * view.crashed

    def achieved(self, view: View) -> NDArray[np.bool_]:
        """Through."""
        return np.asarray(view.p_W[:, 0] > self.goal(view)[:, 0])

    def terminated(self, view: View) -> NDArray[np.bool_]:
        """Through, or lost."""
        return self.achieved(view) | super().terminated(view)


TASKS: dict[str, type[Task]] = {
    task.__name__.lower(): task for task in (Hover, Reach, Trajectory, Race, Land, Forest)
}


def told_by_task(name: str, content: Any, view: View, width: int = 0) -> Array:
    """What a task says of each vehicle, as (N,) numbers, or (N, width).

    Args:
        name: of its method.
        content: what that gave; one number, or one row, is of all.
        view: of the vehicles.
        width: 0: a number of each.

    Raises:
        InputError: it has another shape, or is not finite for a vehicle whose motion is.
    """
    shape = (len(view.p_W), width) if width else (len(view.p_W),)
    try:
        found = np.asarray(content).astype(float, casting="same_kind")
    except (TypeError, ValueError):
        raise InputError(f"{name}: of the task: no array of numbers; needed: {shape}") from None
    if found.shape not in (shape, shape[1:]):
        raise InputError(f"{name}: of shape {found.shape}; needed: {shape}")
    found = np.broadcast_to(found, shape)
    wrong = ~np.isfinite(found.reshape(len(view.p_W), -1)).all(axis=1) & ~view.faulty
    if wrong.any():
        i = int(wrong.argmax())
        raise InputError(f"{name}: {found[i]} of vehicle {i}; needed: finite numbers")
    return found


def _checked(task: Task) -> Task:
    """A task whose attributes can be.

    Raises:
        InputError: naming the attribute.
    """
    for name in ("memory", "rays", "features_count", "vectors_count"):
        count = getattr(task, name)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 10_000:
            raise InputError(f"{name}: {count!r} of the task; allowed: 0 to 10000")
    if 3 * task.vectors_count > task.features_count:
        raise InputError(f"vectors_count: {task.vectors_count}, of {task.features_count} features")
    if not task.features_count and type(task).features is not Task.features:
        raise InputError("features_count: 0, but the task has features; say how many")
    for name in ("episode_s", "reach_m", "lost_m"):
        number = getattr(task, name)
        if not isinstance(number, int | float) or not number > 0.0:
            raise InputError(f"{name}: {number!r} of the task; allowed: > 0")
    return task


def task_of(task: str | Task | type[Task]) -> Task:
    """A task by its name, one's own by ``module:Class``, or the one that is given.

    Raises:
        InputError: no such task, or what it states of itself cannot be.
    """
    if isinstance(task, str) and ":" in task:
        task, name = import_attribute(task, f"task {task}"), task
        if not isinstance(task, Task | type):
            raise InputError(f"task: {name} is no quadsim.gym.Task")
    if isinstance(task, Task):
        return _checked(task)
    if isinstance(task, type) and issubclass(task, Task):
        try:
            return _checked(task())
        except TypeError as error:
            raise InputError(f"task: {task.__name__}: {error}; give an object of it") from None
    if not isinstance(task, str) or task.lower() not in TASKS:
        raise InputError(f"task: {task!r}; allowed: {', '.join(TASKS)}, or a quadsim.gym.Task")
    return TASKS[task.lower()]()
