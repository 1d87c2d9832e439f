"""What physics allows a quadrotor that has lost a motor, by its own model and no controller.

A relaxed hover is a motion that is steady in the body: rates, velocity and rotor speeds stay the
same there, and the rates are along the vertical (M. W. Mueller and R. D'Andrea, *Stability and
control of a quadrocopter despite the complete loss of one, two, or three propellers*, ICRA 2014).
Beyond the paper, rotors and body have the drag of the vehicle's file, and the motion may be a
steady climb or descent. The force model is written anew here, with numpy, from the equations of
``vehicle.propulsion.rotors`` and ``vehicle.aerodynamics``; flapping is left out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from quadsim.base.errors import InputError
from quadsim.vehicle.parameters import VehicleParams

Array = NDArray[np.float64]

G_MPS2 = 9.80665
DENSITY_KG_M3 = 1.225
#: Starts of the search, and the largest residual of a solution, in weights.
STARTS, MOST_RESIDUAL = 4, 1e-6
#: Scale of the body rates in the search, rad/s, and their bound in it.
RATE_RADPS, MOST_RATES = 10.0, 15.0


@dataclass(frozen=True)
class RelaxedHover:
    """A motion that is steady in the body.

    Attributes:
        loads: thrust of each rotor over its largest; above 1 is what the rotors do not give.
        w_B: body rates in rad/s.
        v_B: velocity in body axes in m/s.
        climb_mps: vertical velocity, negative is a descent.
        power: shaft power over that of the hover on all rotors.
    """

    loads: Array
    w_B: Array
    v_B: Array
    climb_mps: float
    power: float

    @property
    def spin_radps(self) -> float:
        """Rate about the vertical."""
        return float(np.linalg.norm(self.w_B))

    @property
    def tilt_deg(self) -> float:
        """Angle between body z and the vertical."""
        return float(np.degrees(np.arccos(abs(self.w_B[2]) / self.spin_radps)))


def wrench(params: VehicleParams, speeds: Array, v_B: Array, w_B: Array) -> tuple[Array, Array]:
    """Force in N and torque in N m on a vehicle in still air, gyroscopic torques included.

    Args:
        params: the vehicle.
        speeds: (n,) rotor speeds in rad/s.
        v_B, w_B: velocity in m/s and rates in rad/s, body axes.
    """
    rotor = params.rotor
    directions = np.array(params.rotor_directions)
    drag = np.array(params.body_drag_N_s_m)
    area = 0.5 * DENSITY_KG_M3 * np.linalg.norm(v_B) * np.array(params.drag_area_m2)
    force, torque = -(drag + area) * v_B, np.zeros(3)
    for hub, d, speed in zip(params.rotor_positions_B_m, directions, speeds, strict=True):
        u = v_B + np.cross(w_B, hub)
        static = params.thrust_coefficient_N_s2 * speed**2
        lift = min(rotor.translational_lift_N_s2_m2 * (u[0] ** 2 + u[1] ** 2), static)
        thrust = static - rotor.inflow_N_s2 * speed * u[2] + lift
        tilt = rotor.flapping_rad / rotor.radius_m / max(speed, 1.0)
        side = params.rotor_drag_N_s2 * speed + tilt * thrust
        pull = np.array([-side * u[0], -side * u[1], thrust])
        force += pull
        torque += np.cross(hub, pull)
        rolling, hub_moment = (
            d * params.rolling_moment_N_s2 * speed,
            rotor.hinge_stiffness_N_m * tilt,
        )
        torque += [hub_moment * u[1], -hub_moment * u[0], 0.0]
        torque -= [rolling * u[0], rolling * u[1], d * params.torque_ratio_m * static]
    momentum = np.array(params.inertia_kg_m2) * w_B
    momentum[2] += rotor.inertia_kg_m2 * (directions @ speeds)
    return force, torque - np.cross(w_B, momentum)


class _Search:
    """Unknowns x: speeds of the rotors left over their largest, rates over 10 rad/s, velocity."""

    def __init__(self, params: VehicleParams, lost: int) -> None:
        self.params, self.lost = params, lost
        self.rotors = len(params.rotor_directions)
        self.left = [i for i in range(self.rotors) if i != lost]
        self.sense = float(params.rotor_directions[lost])
        self.weight_N = params.mass_kg * G_MPS2

    def motion(self, x: Array) -> tuple[Array, Array, Array]:
        n, speeds = len(self.left), np.zeros(self.rotors)
        speeds[self.left] = x[:n] * self.params.rotor_speed_max_radps
        return speeds, x[n : n + 3] * RATE_RADPS, x[n + 3 : n + 6]

    def up_B(self, w_B: Array) -> Array:
        up: Array = w_B * (self.sense / np.linalg.norm(w_B))
        return up

    def residual(self, x: Array) -> Array:
        """Force and torque that are left over, in weights and weights times 0.1 m."""
        speeds, w_B, v_B = self.motion(x)
        force, torque = wrench(self.params, speeds, v_B, w_B)
        force -= self.weight_N * self.up_B(w_B) + self.params.mass_kg * np.cross(w_B, v_B)
        return np.concatenate([force / self.weight_N, torque / (0.1 * self.weight_N)])

    def climb(self, x: Array) -> float:
        _, w_B, v_B = self.motion(x)
        return float(v_B @ self.up_B(w_B))

    def solve(self, hover: bool) -> Array | None:
        """The hover with the least load of the most loaded rotor, or the fastest climb."""
        n, params = len(self.left), self.params
        idle = params.rotor_speed_min_radps / params.rotor_speed_max_radps
        spin = sorted((0.05 * self.sense, MOST_RATES * self.sense))
        speeds, rates = (idle, 3.0 if hover else 1.0), (-5.0, 5.0)
        bounds = [speeds] * n + [rates] * 2 + [tuple(spin)] + [(-30.0, 30.0)] * 3
        rules = [{"type": "eq", "fun": lambda x: self.residual(x[: n + 6])}]
        if hover:
            bounds.append((0.0, 9.0))
            rules.append({"type": "eq", "fun": lambda x: self.climb(x[: n + 6])})
            rules.append({"type": "ineq", "fun": lambda x: x[-1] - x[:n] ** 2})
        generator, best, least = np.random.default_rng(0), None, np.inf
        for _ in range(STARTS):
            w = [*generator.normal(0.0, 0.2, 2), self.sense * generator.uniform(0.5, 4.0)]
            start = [*generator.uniform(0.4, 1.0, n), *w, 0.0, 0.0, 0.0, *[1.0] * hover]
            with warnings.catch_warnings():  # of steps beyond a bound, which scipy cuts
                warnings.simplefilter("ignore", RuntimeWarning)
                found = minimize(
                    lambda x: x[-1] if hover else -self.climb(x), np.array(start), method="SLSQP",
                    bounds=bounds, constraints=rules, options={"maxiter": 300, "ftol": 1e-9},
                )  # fmt: skip
            x = found.x[: n + 6]
            if np.abs(self.residual(x)).max() < MOST_RESIDUAL and found.fun < least:
                best, least = x, float(found.fun)
        return best


def relaxed_hover(params: VehicleParams, lost: int, hover: bool = True) -> RelaxedHover | None:
    """The motion on three rotors that asks least of them, or that climbs fastest.

    Args:
        params: a quadrotor.
        lost: the rotor that is missing.
        hover: a hover with the least load of the most loaded rotor, which may be above 1 where none
            is possible; else the fastest climb (or slowest descent) within the rotors' limits.

    Returns:
        The motion; None where no start of the search leads to one.

    Raises:
        InputError: the vehicle has not four rotors.
    """
    if len(params.rotor_directions) != 4:
        raise InputError(f"{params.name}: a relaxed hover is sought of four rotors alone")
    search = _Search(params, lost)
    x = search.solve(hover)
    if x is None:
        return None
    speeds, w_B, v_B = search.motion(x)
    k = params.thrust_coefficient_N_s2
    level = 4.0 * (search.weight_N / (4.0 * k)) ** 1.5
    return RelaxedHover(
        loads=(speeds / params.rotor_speed_max_radps) ** 2,
        w_B=w_B,
        v_B=v_B,
        climb_mps=search.climb(x),
        power=float((speeds**3).sum() / level),
    )
