"""What policies see, as numbers, and what their actions are, in the units of the loop."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError, shown
from quadsim.base.parameters import pack
from quadsim.gym.tasks import Task, told_by_task
from quadsim.gym.view import View
from quadsim.sim.scenario import Scenario
from quadsim.vehicle.parameters import VehicleParams
from quadsim.wire.axes import rotation_matrices
from quadsim.world.air.atmosphere import air_density, air_pressure

#: What a policy sees, and how many numbers: see docs/learning.md for each and its scale.
OBSERVATIONS = {"truth": 24, "estimate": 33, "sensors": 18}


#: Least and largest period of a step, s, of a policy that flies.
PERIODS_S = (0.001, 1.0)
#: Least and largest of each of :class:`Limits`.
_BOUNDS = {"rate_radps": (0.01, 200.0), "tilt_rad": (0.01, math.pi), "speed_mps": (0.01, 200.0)}


def checked_number(name: str, value: object, low: float, high: float) -> float:
    """A number between two.

    Raises:
        InputError: it is none, or out of range.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not low <= float(value) <= high:  # type: ignore[arg-type]
        raise InputError(f"{name}: {shown(value)}; allowed: {low:g} to {high:g}")
    return float(value)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Limits:
    """What an action of 1 asks for, and what -1 does: the reverse, of thrusts and speeds the least.

    Attributes:
        rate_radps: of body rates and of the yaw rate.
        tilt_rad: of roll and pitch.
        speed_mps: of a velocity along each axis.

    Raises:
        InputError: one is no number, or out of range.
    """

    rate_radps: float = 6.0
    tilt_rad: float = 0.6
    speed_mps: float = 5.0

    def __post_init__(self) -> None:
        """Refuse what is not in range."""
        for name, (low, high) in _BOUNDS.items():
            checked_number(f"limits: {name}", getattr(self, name), low, high)


def limits_from(content: object) -> Limits:
    """Limits by their names; None: the default ones.

    Raises:
        InputError: naming the key and what is allowed.
    """
    if isinstance(content, Limits):
        return content
    if not isinstance(content, Mapping | None):
        raise InputError(f"limits: {shown(content)}; needed: quadsim.gym.Limits, or its values")
    known = [each.name for each in fields(Limits)]
    for key in content or {}:
        if key not in known:
            raise InputError(f"limits: unknown key {shown(key)}; allowed: {', '.join(known)}")
    return Limits(**(content or {}))


def action_limits(action: str, vehicle: VehicleParams, limits: Limits) -> tuple[Array, Array]:
    """What -1 and 1 are, in the units of the loop; thrusts of all together in m/s^2.

    Args:
        action: one of :data:`quadsim.sim.worlds.ACTIONS`.
        vehicle: whose rotors they are.
        limits: of the others.
    """
    rotors = len(vehicle.rotor_directions)
    least, most = vehicle.rotor_speed_min_radps, vehicle.rotor_speed_max_radps
    k = vehicle.thrust_coefficient_N_s2
    if action == "rotor_speeds":
        return np.full(rotors, least), np.full(rotors, most)
    if action == "thrusts":
        return np.full(rotors, k * least * least), np.full(rotors, k * most * most)
    rate, tilt, speed = limits.rate_radps, limits.tilt_rad, limits.speed_mps
    if action == "velocity":
        high = np.array([speed, speed, speed, rate])
        return -high, high
    lift = vehicle.upright_rotors * k / vehicle.mass_kg
    up = lift * most * most
    down = max(lift * least * least, 0.02 * up)  # the least keeps the motors turning
    first = [rate] * 3 if action == "rates" else [tilt, tilt, rate]
    return np.array([*(-each for each in first), down]), np.array([*first, up])


def in_body(R_WB: Array, vectors_W: Array) -> Array:
    """Vectors (N, 3) of the world in axes of bodies with rotation matrices (N, 3, 3)."""
    return np.asarray((R_WB * vectors_W[:, :, None]).sum(axis=1))


class Observer:
    """What the policies of a task see.

    Args:
        observation: one of :data:`OBSERVATIONS`.
        task: for its features and ranges.
        scenario: for the field and the air of the place.

    Raises:
        InputError: there is no such observation.
    """

    def __init__(self, observation: str, task: Task, scenario: Scenario) -> None:
        if not isinstance(observation, str) or observation not in OBSERVATIONS:
            raise InputError(f"observation: {observation!r}; allowed: {', '.join(OBSERVATIONS)}")
        self._observation, self._task = observation, task
        self._field_T = float(np.linalg.norm(scenario.environment.field_W_T()))
        packed: Any = pack(scenario.environment)
        self._ground_pa = float(air_pressure(packed, 0.0))
        self._m_per_pa = 1.0 / (air_density(packed, 0.0) * packed.gravity_mps2)

    def count(self, width: int) -> int:
        """Numbers of an observation with actions of a width."""
        task, vectors = self._task, 0
        if self._observation != "sensors":
            vectors = 3 * task.vectors_count
        return OBSERVATIONS[self._observation] + width + task.features_count + vectors + task.rays

    def numbers(self, view: View) -> NDArray[np.float32]:
        """What each sees, (N, count)."""
        parts = [*getattr(self, f"_{self._observation}")(view), view.action]
        if self._task.features_count:
            features = told_by_task(
                "features", self._task.features(view), view, self._task.features_count
            )
            parts.append(features)
            if self._observation != "sensors":
                q_WB = view.seen["true" if self._observation == "truth" else "estimate"]["q_WB"]
                vectors_W = np.split(
                    features, range(3, 3 * self._task.vectors_count + 1, 3), axis=1
                )
                parts += [in_body(rotation_matrices(q_WB), each) for each in vectors_W[:-1]]
        if self._task.rays:
            parts.append(view.rays_m / self._task.reach_m)
        with np.errstate(over="ignore"):
            found = np.concatenate(parts, axis=1).astype(np.float32)
        return np.nan_to_num(found, copy=False, nan=0.0, posinf=1e6, neginf=-1e6)

    @staticmethod
    def _motion(view: View, of: NDArray[np.record]) -> list[Array]:
        """A motion as policies see it: 24 numbers."""
        R_WB = rotation_matrices(of["q_WB"])
        off_W, v_W = (view.goal_W - of["p_W"]) / 5.0, of["v_W"] / 5.0
        in_B = [in_body(R_WB, off_W), in_body(R_WB, v_W)]
        return [off_W, v_W, R_WB.reshape(-1, 9), of["w_B"] / 5.0, *in_B]

    def _truth(self, view: View) -> list[Array]:
        return self._motion(view, view.seen["true"])

    def _estimate(self, view: View) -> list[Array]:
        of = view.seen["estimate"]
        variances = [of[f"{part}_variance"] for part in ("p", "v", "attitude")]
        sigma = np.sqrt(np.maximum(np.concatenate(variances, axis=1), 0.0))
        sigma[:, 6:] *= 10.0
        return [*self._motion(view, of), sigma]

    def _sensors(self, view: View) -> list[Array]:
        seen, goal_W = view.seen, view.goal_W
        height_m = (self._ground_pa - seen["pressure_pa"]) * self._m_per_pa
        below_m = np.where(seen["pressure_pa"] > 0.0, goal_W[:, 2] - height_m, 0.0)
        range_m = np.where(np.isfinite(seen["range_m"]), np.clip(seen["range_m"], 0.0, 10.0), 10.0)
        columns = np.stack([seen["gnss_age_s"], range_m / 10.0, below_m / 5.0], axis=1)
        gnss = [(goal_W - seen["gnss_p_W"]) / 5.0, seen["gnss_v_W"] / 5.0]
        imu = [seen["f_S"] / 9.80665, seen["w_S"] / 5.0]
        return [*imu, *gnss, seen["field_S_T"] / self._field_T, columns]
