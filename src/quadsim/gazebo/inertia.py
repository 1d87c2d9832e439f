"""How a vehicle's mass is shared among the body and the rotors, which are links of their own.

A vehicle's file gives mass and inertia of the whole, about its centre of mass. What is left for the
body when the rotors are removed makes the whole again, exactly (parallel axes).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import plain
from quadsim.base.errors import InputError
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.rotors import disc_axes

#: Joints turn so many times slower than the rotors, against aliasing of what is drawn; rotors get
#: so many times the inertia about the shaft, so that their angular momentum is the true one.
SLOWDOWN = 10.0

#: What is smaller than this part of the largest number of a tensor is left by rounding.
TINY = 1e-12

#: By so much of the largest moment the sum of the two others may be smaller or larger than it.
FLAT = 1e-8

#: Mass of a rotor whose inertia the file does not give, over that of the vehicle.
LIGHT = 1e-3


@dataclass(frozen=True)
class Mass:
    """Mass of a link.

    Attributes:
        mass_kg: of it.
        center_m: (3,) its centre of mass, in the link's axes.
        inertia_kg_m2: (3, 3) about its centre of mass, in the link's axes.
    """

    mass_kg: float
    center_m: NDArray[np.float64]
    inertia_kg_m2: NDArray[np.float64]


def shift(r_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, 3) inertia of a unit mass at r: r'r 1 - r r'."""
    return np.asarray(r_m @ r_m * np.eye(3) - np.outer(r_m, r_m))


def rotor_mass(vehicle: VehicleParams) -> Mass:
    """A rotor as the disc that it sweeps, about its hub.

    Its mass is that of a disc with the file's inertia and radius.
    """
    radius2 = vehicle.rotor.radius_m**2
    inertia = vehicle.rotor.inertia_kg_m2
    mass_kg = 2.0 * inertia / radius2 if inertia > 0.0 else LIGHT * vehicle.mass_kg
    about_shaft = SLOWDOWN * inertia if inertia > 0.0 else 0.5 * mass_kg * radius2
    return Mass(mass_kg, np.zeros(3), np.diag([0.5, 0.5, 1.0]) * about_shaft)


def body_mass(vehicle: VehicleParams) -> Mass:
    """What the body is without its rotors.

    Raises:
        InputError: the rotors have more than the whole has.
    """
    rotor = rotor_mass(vehicle)
    hubs = np.array(vehicle.rotor_positions_B_m).reshape(-1, 3)
    mass_kg = vehicle.mass_kg - len(hubs) * rotor.mass_kg
    if mass_kg <= 0.0:
        raise InputError(
            f"rotor: inertia_kg_m2: {vehicle.rotor.inertia_kg_m2:g} with radius_m"
            f" {vehicle.rotor.radius_m:g}: the rotors would weigh more than the vehicle"
        )
    center = -rotor.mass_kg * hubs.sum(axis=0) / mass_kg
    about_origin = vehicle.inertia_tensor_kg_m2
    upright = ((0.0, 0.0, 1.0),) * len(hubs)
    for hub, axis_B in zip(hubs, vehicle.rotor_axes_B or upright, strict=True):
        disc = np.array(plain(disc_axes)(axis_B))
        inertia_B = disc @ rotor.inertia_kg_m2 @ disc.T
        about_origin = about_origin - inertia_B - rotor.mass_kg * shift(hub)
    inertia = about_origin - mass_kg * shift(center)
    small, middle, large = np.sort(np.linalg.eigvalsh(inertia))
    slack = small + middle - large
    if small <= 0.0 or slack < -FLAT * large:
        raise InputError(
            f"rotor: inertia_kg_m2: {vehicle.rotor.inertia_kg_m2:g}: taken {SLOWDOWN:g} times for"
            " Gazebo's slow joints it leaves the body an inertia that no body has"
        )
    if slack < FLAT * large:  # as flat as can be, which Gazebo's parser takes for impossible
        inertia = inertia + 2.0 * FLAT * large * np.eye(3)
    return Mass(mass_kg, _clean(center, np.abs(hubs).max()), _clean(inertia, large))


def _clean(values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Zeros for what rounding left."""
    return np.where(np.abs(values) < TINY * scale, 0.0, values)
