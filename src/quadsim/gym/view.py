"""What a task sees of its vehicles: the documented view of rewards, terminations and features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.records import KINEMATICS
from quadsim.sim.worlds import DRAWN
from quadsim.wire.axes import rotation_matrices

#: Unit vectors up.
UP = np.array([0.0, 0.0, 1.0])


def euler_quaternions(roll: Array, pitch: Array, yaw: Array) -> Array:
    """Quaternions (N, 4), w first, of roll, pitch and yaw (N,) in rad."""
    (a, b, c), (d, e, f) = (
        [function(0.5 * angle) for angle in (roll, pitch, yaw)] for function in (np.cos, np.sin)
    )
    return np.stack(
        [
            a * b * c + d * e * f, d * b * c - a * e * f,
            a * e * c + d * b * f, a * b * f - d * e * c,
        ],
        axis=1,
    )  # fmt: skip


@dataclass
class View:
    """N vehicles after a step. W is the world (ENU), B the body (FLU); SI units; truth by default.

    Attributes:
        time_s: (N,) since the episode began.
        p_W, v_W, w_B: (N, 3) position, velocity, body rates.
        q_WB: (N, 4) attitude, w first.
        rotor_speed_radps: (N, 8).
        goal_W: (N, 3) where the task wants it now.
        action, last_action: (N, 4 or rotors) in [-1, 1], of this step and of the one before.
        crashed: (N,) it has hit something too hard, or lies on its back.
        touches: (N,) it touches something.
        faulty: (N,) its motion is no longer finite.
        rays_m: (N, rays) distances around in the level plane, from the heading to the left.
        memory: (N, k) numbers that the task keeps of each episode.
        seen: (N,) records of all else: estimate and newest samples (``quadsim.sim.worlds.Seen``).
    """

    time_s: Array
    p_W: Array
    v_W: Array
    w_B: Array
    q_WB: Array
    rotor_speed_radps: Array
    goal_W: Array
    action: Array
    last_action: Array
    crashed: NDArray[np.bool_]
    touches: NDArray[np.bool_]
    faulty: NDArray[np.bool_]
    rays_m: Array
    memory: Array
    seen: NDArray[np.record]

    @property
    def R_WB(self) -> Array:
        """(N, 3, 3) attitude."""
        return rotation_matrices(self.q_WB)

    @property
    def up(self) -> Array:
        """(N,) cosine of the tilt: 1 level, -1 upside down."""
        found: Array = 1.0 - 2.0 * (np.square(self.q_WB[:, 1]) + np.square(self.q_WB[:, 2]))
        return found

    @property
    def error_m(self) -> Array:
        """(N,) distance from the goal."""
        found: Array = np.linalg.norm(self.goal_W - self.p_W, axis=1)
        return found

    @property
    def effort(self) -> Array:
        """(N,) mean square of the action's change."""
        found: Array = np.square(self.action - self.last_action).mean(axis=1)
        return found


def view_of_one(
    time_s: float, seen: NDArray[np.record], action: Array, last_action: Array, memory: Array
) -> View:
    """A vehicle of which ``seen["true"]`` of (1,) is known, and nothing that it hits."""
    true, none = seen["true"], np.zeros(1, bool)
    return View(
        np.array([time_s]), true["p_W"], true["v_W"], true["w_B"], true["q_WB"],
        true["rotor_speed_radps"], np.zeros((1, 3)), action, last_action, none, none,
        none, np.zeros((1, 0)), memory, seen,
    )  # fmt: skip


@dataclass
class Beginning:
    """Where M episodes begin, and by chance of what; a task changes the arrays in place.

    Attributes:
        motions: (M,) records with p_W, v_W, q_WB, w_B and rotor_speed_radps; at rest in the origin,
            level, the rotors as in a hover.
        memory: (M, k) numbers that the task keeps of the episode, zeros.
        normals: (M, DRAWN) standard normal numbers, each world's own.
    """

    motions: NDArray[np.record]
    memory: Array
    normals: Array
    _used: int = field(default=0)

    @classmethod
    def of(cls, normals: Array, hover_radps: float, rotors: int, memory: int) -> Beginning:
        """Before a task has changed it."""
        motions: NDArray[np.record] = np.zeros(len(normals), KINEMATICS)
        motions["q_WB"][:, 0] = 1.0
        motions["rotor_speed_radps"][:, :rotors] = hover_radps
        return cls(motions, np.zeros((len(normals), memory)), normals)

    def check(self) -> None:
        """Refuse a beginning that no vehicle can have; attitudes get their length of 1.

        Raises:
            InputError: naming the field.
        """
        motions: Any = self.motions
        wanted = len(self.normals)
        if getattr(motions, "dtype", None) != KINEMATICS or motions.shape != (wanted,):
            raise InputError(
                f"begin: motions are others; change their fields, of {wanted} vehicles"
            )
        for name in ("p_W", "v_W", "q_WB", "w_B", "rotor_speed_radps"):
            if not np.isfinite(motions[name]).all():
                raise InputError(f"begin: {name} is not finite")
        length = np.linalg.norm(motions["q_WB"], axis=1, keepdims=True)
        if not (length > 1e-6).all():
            raise InputError("begin: q_WB is of length 0")
        motions["q_WB"] = np.where(
            np.abs(length - 1.0) > 1e-9, motions["q_WB"] / length, motions["q_WB"]
        )
        if self.memory.shape[0] != wanted or not np.isfinite(self.memory).all():
            raise InputError(f"begin: memory of {self.memory.shape}; needed: finite, {wanted} rows")

    def normal(self, width: int = 1) -> Array:
        """(M, width) standard normal numbers that nothing else uses."""
        self._used += width
        if self._used > DRAWN - 2:
            raise InputError(f"a beginning draws at most {DRAWN - 2} numbers")
        return self.normals[:, self._used - width : self._used]

    def uniform(self, low: float | Array, high: float | Array, width: int = 1) -> Array:
        """(M, width) numbers, uniform between two, which may be (width,)."""
        pairs = self.normal(2 * width)
        angle = np.arctan2(pairs[:, :width], pairs[:, width:])
        return low + (high - np.asarray(low)) * (angle / (2.0 * np.pi) % 1.0)

    def attitudes(self) -> Array:
        """(M, 4) attitudes, all alike likely, also upside down (Muller 1959)."""
        found = self.normal(4)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))
