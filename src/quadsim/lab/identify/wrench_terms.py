"""Forces and torques of a multirotor as sums of figures times known signals.

Each term is what one figure of the vehicle's file, divided by the mass, brings along: the model of
``vehicle.propulsion.rotors`` and ``vehicle.aerodynamics``, linear in the figures. Body
axes. The disc's tilt (flapping) makes the same force as rotor drag, k a / R more of it, of the
thrust in hover; what inflow and forward flight change of it is tilted as the vehicle's file says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.vehicle.aerodynamics import STANDARD_DENSITY_KG_M3
from quadsim.vehicle.parameters import VehicleParams

Array = NDArray[np.float64]

AXES = np.eye(3)


@dataclass(frozen=True)
class Flow:
    """What the terms are made of, at N times.

    Attributes:
        speed_radps: (N, n) of the rotors.
        air_B: (N, 3) velocity through the air.
        w_B: (N, 3).
        positions_B_m: (n, 3) hubs.
        directions: (n,).
        flapping_per_m: a / R, tilt of the disc times the rotor's speed over that of the air.
    """

    speed_radps: Array
    air_B: Array
    w_B: Array
    positions_B_m: Array
    directions: Array
    flapping_per_m: float

    @property
    def hub_B(self) -> Array:
        """(N, n, 3) velocity of the hubs through the air."""
        return self.air_B[:, None] + np.cross(self.w_B[:, None], self.positions_B_m)

    def at_hubs(self, force_B: Array) -> tuple[Array, Array]:
        """Sum of the forces (N, n, 3) at the hubs, and their torque."""
        return force_B.sum(axis=1), np.cross(self.positions_B_m, force_B).sum(axis=1)

    @property
    def axes_B(self) -> Array:
        """(N, n, 3) directions of the thrust, of which z is 1: tilted back by flapping."""
        tilt = self.flapping_per_m / np.maximum(self.speed_radps, 1.0)
        return np.asarray(AXES[2] - tilt[..., None] * self.hub_B * (1.0 - AXES[2]))


Term = Callable[[Flow], tuple[Array, Array]]


def thrust(flow: Flow) -> tuple[Array, Array]:
    """``speed^2`` along z at each hub."""
    return flow.at_hubs(flow.speed_radps[..., None] ** 2 * AXES[2])


def drag_torque(flow: Flow) -> tuple[Array, Array]:
    """``speed^2`` about z, against the sense of rotation."""
    total = -(flow.speed_radps**2) @ flow.directions
    return np.zeros_like(flow.air_B), total[:, None] * AXES[2]


def rotor_drag(flow: Flow) -> tuple[Array, Array]:
    """``-speed * air`` in the plane of each disc."""
    return flow.at_hubs(-flow.speed_radps[..., None] * flow.hub_B * (1.0 - AXES[2]))


def rolling_moment(flow: Flow) -> tuple[Array, Array]:
    """``-direction * speed * air`` in the plane of each disc, as a moment."""
    moments = -(flow.directions * flow.speed_radps)[..., None] * flow.hub_B * (1.0 - AXES[2])
    return np.zeros_like(flow.air_B), moments.sum(axis=1)


def linear_drag(axis: int) -> Term:
    """``-air`` along one axis, at the centre of mass."""

    def term(flow: Flow) -> tuple[Array, Array]:
        return -flow.air_B * AXES[axis], np.zeros_like(flow.air_B)

    return term


def inflow(flow: Flow) -> tuple[Array, Array]:
    """Thrust lost, ``-speed * air`` along each rotor's axis, tilted."""
    return flow.at_hubs(-flow.speed_radps[..., None] * flow.hub_B[..., 2:] * flow.axes_B)


def translational_lift(flow: Flow) -> tuple[Array, Array]:
    """Thrust won, the squared air speed in the plane of each disc, tilted."""
    squared = np.sum(flow.hub_B[..., :2] ** 2, axis=-1, keepdims=True)
    return flow.at_hubs(squared * flow.axes_B)


def parasitic_drag(axis: int) -> Term:
    """``-1/2 density |air| air`` along one axis, at the centre of mass."""

    def term(flow: Flow) -> tuple[Array, Array]:
        speed = np.linalg.norm(flow.air_B, axis=1, keepdims=True)
        pressure = 0.5 * STANDARD_DENSITY_KG_M3 * speed
        return -pressure * flow.air_B * AXES[axis], np.zeros_like(flow.air_B)

    return term


def hub_moment(flow: Flow) -> tuple[Array, Array]:
    """Air along y about x and against x about y, over each rotor's speed."""
    running = np.maximum(flow.speed_radps, 1.0)[..., None]
    moments = np.cross(flow.hub_B, AXES[2]) * np.array([1.0, 1.0, 0.0]) / running
    return np.zeros_like(flow.air_B), moments.sum(axis=1)


def gyroscopic(flow: Flow) -> tuple[Array, Array]:
    """``-w x h`` of the rotors' angular momentum over their inertia; its derivative is apart."""
    spin = (flow.speed_radps @ flow.directions)[:, None] * AXES[2]
    return np.zeros_like(flow.air_B), -np.cross(flow.w_B, spin)


#: Every term by the name of its figure.
TERMS: dict[str, Term] = {
    "thrust": thrust,
    "torque": drag_torque,
    "rotor_drag": rotor_drag,
    "rolling_moment": rolling_moment,
    "body_drag_x": linear_drag(0),
    "body_drag_y": linear_drag(1),
    "body_drag_z": linear_drag(2),
    "inflow": inflow,
    "translational_lift": translational_lift,
    "drag_area_x": parasitic_drag(0),
    "drag_area_y": parasitic_drag(1),
    "drag_area_z": parasitic_drag(2),
    "hub_moment": hub_moment,
    "rotor_inertia": gyroscopic,
}


def flow_of(speed_radps: Array, air_B: Array, w_B: Array, vehicle: VehicleParams) -> Flow:
    """The signals of a vehicle whose geometry is known."""
    return Flow(
        speed_radps,
        air_B,
        w_B,
        np.array(vehicle.rotor_positions_B_m),
        np.array(vehicle.rotor_directions),
        vehicle.rotor.flapping_rad / vehicle.rotor.radius_m,
    )
