"""The lecture's point mass on an inelastic rope, by Lagrange constraints.

A mass m falls in the vertical plane under gravity and viscous friction f, from X(0) = (0, 0), tied
by a rope of length l to X_R = (l/2, 0). The rope is ``phi = (X - X_R)'(X - X_R) - l^2 <= 0``, with
``A = 2 (X - X_R)'`` and ``A_dot = 2 X_dot'``. Slack, the mass is free; where phi reaches 0 the
radial velocity is lost, or by the lecture's rule the vertical one first; taut, phi = 0 until the
rope would have to push.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, owning_kernel
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, pack
from quadsim.geometry.length import hypot
from quadsim.vehicle.formalisms.integrators import mean_derivative
from quadsim.vehicle.ropes.constraints import AT_MOST, EQUAL
from quadsim.vehicle.ropes.lagrange import (
    ConstraintMemory,
    accelerate,
    constraint_memory,
    stabilisation,
    strike,
)

Array = NDArray[np.float64]
Pair = tuple[float, float]

NONE, BAUMGARTE, PROJECTION = range(3)
RADIAL, VERTICAL = range(2)

#: State: horizontal and upward position in m, velocity in m/s, energy lost to friction and to
#: impacts in J.
X, V, FRICTION_J, IMPACT_J = 0, 2, 4, 5
ROPE_STATE = 6
#: Columns of a swing beside the state: time, tension in N, and whether the rope is taut.
TIME, STATE, TENSION, TAUT = 0, 1, 1 + ROPE_STATE, 2 + ROPE_STATE

_BISECTIONS = 60
_EVENTS_PER_STEP = 8


@dataclass(frozen=True)
class RopeParams:
    """A point mass on a rope in the vertical plane; figures are ours, the lecture names none."""

    mass_kg: Annotated[float, Spec("mass", "kg", gt=0.0)] = 1.0
    length_m: Annotated[float, Spec("of the rope", "m", gt=0.0)] = 1.0
    friction_N_s_m: Annotated[float, Spec("viscous friction", "N s/m", ge=0.0)] = 0.1
    gravity_mps2: Annotated[float, Spec("gravity", "m/s^2", ge=0.0)] = 9.80665
    anchor_m: Annotated[Pair, Spec("fixed end, horizontal and up", "m")] = (0.5, 0.0)
    start_m: Annotated[Pair, Spec("the mass at first", "m")] = (0.0, 0.0)
    start_velocity_mps: Annotated[Pair, Spec("of the mass at first", "m/s")] = (0.0, 0.0)
    stabilised: Annotated[
        str,
        Spec(
            "what keeps phi = 0 beside its second derivative",
            choices=("none", "baumgarte", "projection"),
        ),
    ] = "projection"
    rate_per_s: Annotated[float, Spec("of Baumgarte's stabilisation", "1/s", gt=0.0)] = 20.0
    impact: Annotated[
        str,
        Spec(
            "velocity lost when the rope goes taut: that along the rope; or the vertical one first,"
            " the lecture's X_dot(2) = 0, which is all of it for a mass that falls straight down",
            choices=("radial", "vertical"),
        ),
    ] = "radial"

    def __post_init__(self) -> None:
        """Refuse a start that the rope does not reach."""
        distance_m = math.dist(self.start_m, self.anchor_m)
        if distance_m > self.length_m * (1.0 + 1e-12):
            raise InputError(
                f"start_m: {distance_m:.6g} m from the anchor; the rope is {self.length_m:.6g} m"
            )


class RopeModel(NamedTuple):
    """Parameters, whether the rope is taut, and the solver's arrays."""

    params: Any
    taut: NDArray[np.int64]  # (1,)
    mass: Array  # (2, 2)
    force: Array
    jacobian: Array  # (1, 2)
    bias: Array
    sides: NDArray[np.int64]
    memory: ConstraintMemory
    acceleration: Array
    multiplier: Array


def rope_model(params: RopeParams) -> RopeModel:
    """What the kernels take."""
    return RopeModel(
        pack(params),
        np.zeros(1, np.int64),
        np.eye(2) * params.mass_kg,
        np.zeros(2),
        np.zeros((1, 2)),
        np.zeros(1),
        np.full(1, EQUAL),
        constraint_memory(2, 1),
        np.zeros(2),
        np.zeros(1),
    )


@kernel
def _phi(x: Array, model: RopeModel) -> float:
    """Constraint in m^2, and its gradient into ``model.jacobian``."""
    total = -model.params.length_m * model.params.length_m
    for i in range(2):
        reach = x[X + i] - model.params.anchor_m[i]
        model.jacobian[0, i] = 2.0 * reach
        total += reach * reach
    return float(total)


@kernel
def rope_derivative(x: Array, model: RopeModel, x_dot: Array) -> None:
    """Time derivative of the state; the multiplier is left in the model."""
    params = model.params
    phi = _phi(x, model)
    phi_dot, speed2 = 0.0, 0.0
    for i in range(2):
        model.force[i] = -params.friction_N_s_m * x[V + i]
        phi_dot += model.jacobian[0, i] * x[V + i]
        speed2 += x[V + i] * x[V + i]
    bias = -2.0 * speed2  # A_dot x_dot
    model.force[1] -= params.mass_kg * params.gravity_mps2
    model.multiplier[0] = 0.0
    if model.taut[0]:
        if params.stabilised == BAUMGARTE:
            bias -= stabilisation(phi, phi_dot, params.rate_per_s)
        model.bias[0], model.sides[0] = bias, EQUAL
        accelerate(
            model.mass,
            model.force,
            model.jacobian,
            model.bias,
            model.sides,
            model.memory,
            model.acceleration,
            model.multiplier,
        )
    else:
        for i in range(2):
            model.acceleration[i] = model.force[i] / params.mass_kg
    for i in range(2):
        x_dot[X + i] = x[V + i]
        x_dot[V + i] = model.acceleration[i]
    x_dot[FRICTION_J] = params.friction_N_s_m * speed2
    x_dot[IMPACT_J] = 0.0


@kernel
def _advance(x: Array, model: RopeModel, dt_s: float, scratch: Array, out: Array) -> None:
    """``out`` is x after one step of the classical Runge-Kutta method."""
    mean = mean_derivative(rope_derivative, x, model, dt_s, 4, scratch)
    for i in range(ROPE_STATE):
        out[i] = x[i] + dt_s * mean[i]


@kernel
def _event(x: Array, model: RopeModel, scratch: Array) -> float:
    """Positive where the rope changes: phi while slack, the push (lambda) while taut."""
    if not model.taut[0]:
        return _phi(x, model)
    rope_derivative(x, model, scratch[0])
    return float(model.multiplier[0])


@kernel
def _change(x: Array, model: RopeModel) -> None:
    """The rope goes slack, or goes taut and takes velocity by the rule of impact."""
    if model.taut[0]:
        model.taut[0] = 0
        return
    _phi(x, model)
    model.sides[0] = AT_MOST
    velocity = x[V : V + 2]
    before = velocity[0] * velocity[0] + velocity[1] * velocity[1]
    if model.params.impact == VERTICAL:
        velocity[1] = 0.0
    strike(model.mass, velocity, model.jacobian, model.sides, 0.0, model.memory, model.multiplier)
    after = velocity[0] * velocity[0] + velocity[1] * velocity[1]
    x[IMPACT_J] += 0.5 * model.params.mass_kg * (before - after)
    model.taut[0] = 1


@kernel
def _project(x: Array, model: RopeModel) -> None:
    """Back onto phi = 0 and A x_dot = 0 along the rope (post-stabilisation)."""
    _phi(x, model)
    reach = hypot(model.jacobian[0, 0], model.jacobian[0, 1])
    radial = (model.jacobian[0, 0] * x[V] + model.jacobian[0, 1] * x[V + 1]) / reach
    for i in range(2):
        direction = model.jacobian[0, i] / reach
        x[X + i] = model.params.anchor_m[i] + model.params.length_m * direction
        x[V + i] -= radial * direction


@owning_kernel
def _step(x: Array, model: RopeModel, dt_s: float, scratch: Array, trial: Array) -> None:
    """One step, cut where the rope goes taut or slack (found by bisection)."""
    left_s = dt_s
    for _ in range(_EVENTS_PER_STEP):
        _advance(x, model, left_s, scratch, trial)
        if _event(trial, model, scratch) <= 0.0:
            break
        low, high = 0.0, left_s
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            _advance(x, model, middle, scratch, trial)
            if _event(trial, model, scratch) > 0.0:
                high = middle
            else:
                low = middle
        x[:] = trial
        _change(x, model)
        left_s -= high
    else:
        _advance(x, model, left_s, scratch, trial)
    x[:] = trial
    if model.taut[0] and model.params.stabilised == PROJECTION:
        _project(x, model)


@kernel
def _swing(x: Array, model: RopeModel, dt_s: float, scratch: Array, out: Array) -> None:
    trial = scratch[3]
    for k in range(out.shape[0]):
        if k > 0:
            _step(x, model, dt_s, scratch, trial)
        rope_derivative(x, model, scratch[0])
        out[k, TIME] = k * dt_s
        for i in range(ROPE_STATE):
            out[k, STATE + i] = x[i]
        out[k, TENSION] = -model.multiplier[0] * hypot(model.jacobian[0, 0], model.jacobian[0, 1])
        out[k, TAUT] = model.taut[0]


def swing(params: RopeParams, duration_s: float, dt_s: float = 0.001) -> Array:
    """Let the mass go.

    Args:
        params: the mass and its rope.
        duration_s: how long.
        dt_s: step of the Runge-Kutta method; going taut and slack is found within it.

    Returns:
        (N, 9) columns TIME, STATE and following, TENSION, TAUT, one row per step.
    """
    model = rope_model(params)
    x = np.array([*params.start_m, *params.start_velocity_mps, 0.0, 0.0])
    out = np.zeros((round(duration_s / dt_s) + 1, TAUT + 1))
    if _phi(x, model) >= -1e-12 * params.length_m * params.length_m:
        _change(x, model)
    _swing(x, model, dt_s, np.zeros((4, ROPE_STATE)), out)
    return out


def energy_J(motion: Array, params: RopeParams) -> Array:
    """Kinetic and potential energy of each row and what was lost until then: constant, in J."""
    velocity = motion[:, STATE + V : STATE + V + 2]
    height_m = motion[:, STATE + X + 1]
    kept: Array = 0.5 * params.mass_kg * np.square(velocity).sum(axis=1)
    kept += params.mass_kg * params.gravity_mps2 * height_m
    return kept + motion[:, STATE + FRICTION_J] + motion[:, STATE + IMPACT_J]
