"""The airframe as the controller believes it, and its allocation of wrenches to rotors.

A helicopter has no rotors to allocate to: it takes body rates and a throttle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Vector
from quadsim.base.errors import InputError
from quadsim.base.parameters import Spec, Vec3, dtype_of, new
from quadsim.base.records import HELICOPTER_COMMANDS, MAX_ROTORS, VEHICLE_KINDS
from quadsim.geometry.axes import unit_axes
from quadsim.geometry.linear import pseudo_inverse, solve

#: What is left of a vehicle that has lost a rotor: nothing that can be flown; thrust and every
#: torque; the same without yaw torque; a spin about an axis near the vertical.
NO_SURVIVAL, FULL, WITHOUT_YAW, SPIN = range(4)

#: Weight over mass, to which a helicopter's lift is given, m/s^2.
STANDARD_GRAVITY_MPS2 = 9.80665


class Airframe(Record):
    """What control knows of the airframe."""

    kind: int
    mass_kg: float
    inertia_kg_m2: Vector
    inertia_products_kg_m2: Vector
    rotors: int
    allocation: Annotated[Array, MAX_ROTORS, 4]
    effectiveness: Annotated[Array, 4, MAX_ROTORS]
    thrust_coefficient_N_s2: float
    rotor_speed_min_radps: float
    rotor_speed_max_radps: float
    rotor_thrust_min_N: float
    rotor_thrust_max_N: float
    thrust_min_mps2: float
    thrust_max_mps2: float
    stick_rate_max_radps: Vector
    motor_lag_s: float
    rotor_inertia_kg_m2: float
    survival: Annotated[NDArray[np.int64], MAX_ROTORS]  # what is left without a rotor
    allocation_without: Annotated[Array, MAX_ROTORS, MAX_ROTORS, 4]  # and how it is mixed


AIRFRAME = dtype_of(Airframe)


@dataclass(frozen=True)
class AirframeParams:
    """The vehicle as the controller knows it; B is ``base_link`` (FLU) at its centre of mass."""

    mass_kg: Annotated[float, Spec("mass", "kg", gt=0.0, le=1000.0)]
    inertia_kg_m2: Annotated[
        Vec3, Spec("moments of inertia about x, y, z", "kg m^2", gt=0.0, le=1000.0)
    ]
    inertia_products_kg_m2: Annotated[
        Vec3, Spec("elements xy, xz, yz of the inertia matrix", "kg m^2", ge=-1000.0, le=1000.0)
    ] = (0.0, 0.0, 0.0)
    kind: Annotated[str, Spec("what lifts it", choices=VEHICLE_KINDS)] = "multirotor"
    lift_ratio: Annotated[
        float, Spec("helicopter: lift at full throttle over the weight", "1", gt=0.0, le=20.0)
    ] = 1.7
    stick_rate_max_radps: Annotated[
        Vec3, Spec("helicopter: body rates at full stick", "rad/s", gt=0.0, le=50.0)
    ] = (6.0, 6.0, 3.0)
    rotor_positions_B_m: Annotated[
        tuple[Vec3, ...], Spec("rotor hubs", "m", ge=-10.0, le=10.0, max_items=MAX_ROTORS)
    ] = ()
    rotor_directions: Annotated[
        tuple[float, ...],
        Spec(
            "+1 turns counter-clockwise seen from above, -1 clockwise",
            "1",
            ge=-1.0,
            le=1.0,
            max_items=MAX_ROTORS,
        ),
    ] = ()
    rotor_axes_B: Annotated[
        tuple[Vec3, ...],
        Spec(
            "directions in which the rotors pull; none: all along body z",
            "1",
            ge=-1e3,
            le=1e3,
            max_items=MAX_ROTORS,
        ),
    ] = ()
    thrust_coefficient_N_s2: Annotated[
        float, Spec("thrust over squared speed", "N s^2/rad^2", ge=0.0, le=1.0)
    ] = 0.0
    torque_ratio_m: Annotated[float, Spec("torque over thrust", "m", ge=0.0, le=1.0)] = 0.0
    rotor_speed_min_radps: Annotated[
        float, Spec("speed of a running rotor at idle", "rad/s", ge=0.0, le=1e5)
    ] = 0.0
    rotor_speed_max_radps: Annotated[float, Spec("highest speed", "rad/s", ge=0.0, le=1e5)] = 0.0

    @property
    def commands(self) -> tuple[str, ...]:
        """Names of the numbers of a motor command, in their order."""
        if self.kind == "helicopter":
            return HELICOPTER_COMMANDS
        return tuple(f"rotor_{i}" for i in range(len(self.rotor_directions)))

    motor_lag_s: Annotated[
        float,
        Spec(
            "mean time constant of the motors; 0: as quick as the gains want", "s", ge=0.0, le=1.0
        ),
    ] = 0.0
    rotor_inertia_kg_m2: Annotated[
        float, Spec("of a rotor about its shaft", "kg m^2", ge=0.0, le=10.0)
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse airframes that cannot be flown by collective thrust and three torques."""
        if self.kind == "helicopter":
            if self.lift_ratio <= 1.0:
                raise InputError(f"lift_ratio: {self.lift_ratio:g} does not lift the weight")
            return
        for name in ("thrust_coefficient_N_s2", "torque_ratio_m"):
            if getattr(self, name) <= 0.0:
                raise InputError(f"{name}: {getattr(self, name)!r}; a multirotor needs one, > 0")
        if len(self.rotor_positions_B_m) != len(self.rotor_directions):
            raise InputError(
                f"rotor_directions: {len(self.rotor_directions)} for"
                f" {len(self.rotor_positions_B_m)} rotor_positions_B_m; give one each"
            )
        if self.rotor_speed_min_radps >= self.rotor_speed_max_radps:
            raise InputError("rotor_speed_min_radps: not below rotor_speed_max_radps")
        axes = unit_axes(self.rotor_axes_B, len(self.rotor_directions))
        object.__setattr__(self, "rotor_axes_B", axes)
        matrix = effectiveness(self)
        scaled = matrix / np.maximum(np.abs(matrix).max(axis=1, keepdims=True, initial=0.0), 1e-12)
        if np.linalg.matrix_rank(scaled, tol=1e-6) < 4:
            raise InputError(
                "rotor_positions_B_m: these rotors cannot give thrust and torque about each axis"
                " by themselves; use at least four, of both directions, around the centre"
            )
        if np.any(pseudo_inverse(matrix)[:, 0] <= 0.0):
            raise InputError("rotor_positions_B_m: a rotor would have to pull down in level flight")


def known_airframe(vehicle: Any) -> AirframeParams:
    """What a controller that knows the vehicle's file believes: its figures."""
    return AirframeParams(
        **{name: getattr(vehicle, name) for name in AirframeParams.__dataclass_fields__}
    )


def effectiveness(params: AirframeParams) -> Array:
    """Matrix (4, n) from rotor thrusts in N to (thrust in N, torque x, y, z in N m).

    Torque of a thrust f along z at r: r x (0, 0, f) = (y f, -x f, 0); a rotor that turns
    counter-clockwise is braked by the air and turns the body clockwise: -direction * ratio * f.
    What tilted rotors pull sideways is left to the position's loop.
    """
    position = np.array(params.rotor_positions_B_m, dtype=float).reshape(-1, 3)
    direction = np.array(params.rotor_directions, dtype=float)
    if params.rotor_axes_B:
        axes = np.array(params.rotor_axes_B)
        drag = -params.torque_ratio_m * direction[:, None] * axes
        return np.vstack([axes[:, 2], (np.cross(position, axes) + drag).T])
    return np.array(
        [
            np.ones(len(direction)),
            position[:, 1],
            -position[:, 0],
            -direction * params.torque_ratio_m,
        ]
    )


def allocation_without(matrix: Array, lost: int) -> tuple[int, Array]:
    """What the other rotors can do when one is lost, and the allocation (n, 4) to do it by.

    Rotors that would have to pull down, or nothing, in level flight stop. Where the others still
    give thrust, roll and pitch torque, and level flight without a yaw torque, that is flown; of
    four rotors three are left, which carry a spinning vehicle (``three_rotor_flight``): their
    allocation is exact, and its level thrust may be zero or negative.

    Args:
        matrix: (4, n) effectiveness.
        lost: index of the rotor.

    Returns:
        What is left, and the allocation; zeros in the rows of rotors that stop.
    """
    rotors = matrix.shape[1]
    result = np.zeros((rotors, 4))
    scale = np.abs(matrix).max(axis=1, keepdims=True)
    stored = [i for i in range(rotors) if i != lost]
    if rotors == 4:
        three = matrix[:3, stored]
        if np.linalg.matrix_rank(three / scale[:3], tol=1e-6) == 3:
            result[stored, :3] = solve(three, np.eye(3))
            return SPIN, result
        return NO_SURVIVAL, result
    for rows, survival in ((4, FULL), (3, WITHOUT_YAW)):
        left = list(stored)
        while len(left) >= 4:
            part = matrix[:rows, left]
            if np.linalg.matrix_rank(part / scale[:rows], tol=1e-6) < rows:
                break
            inverse = pseudo_inverse(part)
            share = inverse[:, 0] * len(left)
            yaw = math.fsum((matrix[3, left] * inverse[:, 0]).tolist())
            turns = abs(yaw) > 0.1 * np.abs(matrix[3]).max()
            if share.min() > 0.05 and not turns:
                result[left, :rows] = inverse
                return survival, result
            left.pop(int(np.argmin(share)))
    return NO_SURVIVAL, result


def _square(x: float) -> float:
    return x * x


def pack_airframe(params: AirframeParams) -> Airframe:
    """The AIRFRAME record of the kernels; the allocation is the pseudo-inverse (least thrusts)."""
    record = new(Airframe)
    record.kind = VEHICLE_KINDS.index(params.kind)
    record.mass_kg = params.mass_kg
    record.inertia_kg_m2[:] = params.inertia_kg_m2
    record.inertia_products_kg_m2[:] = params.inertia_products_kg_m2
    if params.kind == "helicopter":
        record.thrust_max_mps2 = params.lift_ratio * STANDARD_GRAVITY_MPS2
        record.stick_rate_max_radps[:] = params.stick_rate_max_radps
        return record
    rotors = len(params.rotor_directions)
    matrix = effectiveness(params)
    record.rotors = rotors
    record.effectiveness[:, :rotors] = matrix
    record.allocation[:rotors] = pseudo_inverse(matrix)
    record.thrust_coefficient_N_s2 = params.thrust_coefficient_N_s2
    record.rotor_speed_min_radps = params.rotor_speed_min_radps
    record.rotor_speed_max_radps = params.rotor_speed_max_radps
    record.rotor_thrust_min_N = params.thrust_coefficient_N_s2 * _square(
        params.rotor_speed_min_radps
    )
    record.rotor_thrust_max_N = params.thrust_coefficient_N_s2 * _square(
        params.rotor_speed_max_radps
    )
    share = record.allocation[:rotors, 0]  # of the collective, each rotor
    record.thrust_min_mps2 = np.max(record.rotor_thrust_min_N / share) / params.mass_kg
    record.thrust_max_mps2 = np.min(record.rotor_thrust_max_N / share) / params.mass_kg
    record.motor_lag_s = params.motor_lag_s
    record.rotor_inertia_kg_m2 = params.rotor_inertia_kg_m2
    for i in range(rotors):
        record.survival[i], left = allocation_without(matrix, i)
        record.allocation_without[i, :rotors] = left
    return record
