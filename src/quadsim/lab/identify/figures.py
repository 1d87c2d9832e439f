"""Figures of a vehicle: over its mass or inertia, as a flight tells them, and as in its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from quadsim.base.errors import InputError
from quadsim.base.parameters import Vec3
from quadsim.vehicle.aerodynamics import STANDARD_DENSITY_KG_M3
from quadsim.vehicle.parameters import VehicleParams

#: Torque over inertia: of the squared rotor speed about x and y (per metre), and about z.
TURNS = ("turn_x", "turn_y", "turn_z")

#: Terms that every multirotor is taken to have, and those that are looked for.
MAIN = ("thrust", "rotor_drag", "rolling_moment", "body_drag_x", "body_drag_y", "body_drag_z")
MORE = (
    "inflow", "translational_lift", "drag_area_x", "drag_area_y", "drag_area_z", "rotor_inertia",
)  # fmt: skip

#: Figures that are not of the air.
SOLID = ("rotor_inertia",)

#: Time constants of the motors.
MOTORS = ("time_constant_up", "time_constant_down")

#: What each figure is: meaning, and unit.
MEANING: dict[str, tuple[str, str]] = {
    "thrust": ("thrust over squared rotor speed, over mass", "m/rad^2"),
    "turn_x": ("thrust over squared rotor speed, over the inertia about x", "1/(m rad)"),
    "turn_y": ("the same, y", "1/(m rad)"),
    "turn_z": ("drag torque over squared rotor speed, over the inertia about z", "1/rad"),
    "rotor_drag": ("rotor drag with flapping, over mass", "1/rad"),
    "rolling_moment": ("rolling moment, over mass", "m/rad"),
    "body_drag_x": ("linear drag over mass, x", "1/s"),
    "body_drag_y": ("linear drag over mass, y", "1/s"),
    "body_drag_z": ("linear drag over mass, z", "1/s"),
    "inflow": ("thrust lost in axial flow, over mass", "1/rad"),
    "translational_lift": ("thrust gained in forward flight, over mass", "1/m"),
    "drag_area_x": ("quadratic drag: C_D A over mass, x", "m^2/kg"),
    "drag_area_y": ("quadratic drag: C_D A over mass, y", "m^2/kg"),
    "drag_area_z": ("quadratic drag: C_D A over mass, z", "m^2/kg"),
    "rotor_inertia": ("inertia of a rotor, over mass", "m^2"),
    "time_constant_up": ("motor, speeding up", "s"),
    "time_constant_down": ("motor, slowing down", "s"),
}


@dataclass(frozen=True)
class VehicleFigure:
    """One figure and where it comes from.

    Attributes:
        name: of :data:`MEANING`.
        value, low, high: the estimate and its 95 % interval; NaN where there is none.
        file_value: what the vehicle's file states.
        origin: "flight"; "found" (the file does not have it); "stored" (the flight does not tell:
            the file's value was taken, and the estimate is what the flight had to say).
    """

    name: str
    value: float
    low: float
    high: float
    file_value: float
    origin: str

    @property
    def taken(self) -> float:
        """The value to go on with; what cannot be told from zero is zero, what is below it too."""
        if self.origin == "kept":
            return self.file_value
        return 0.0 if self.low <= 0.0 else self.value


def _density(vehicle: VehicleParams) -> float:
    """Density at which a file's figures hold over that of the standard atmosphere."""
    return (vehicle.air_density_kg_m3 or STANDARD_DENSITY_KG_M3) / STANDARD_DENSITY_KG_M3


def air_ratio(vehicle: VehicleParams, flown_kg_m3: float) -> float:
    """What the air of a flight makes of figures that hold at a file's density; 1 where unknown."""
    if vehicle.air_density_kg_m3 <= 0.0 or flown_kg_m3 <= 0.0:
        return 1.0
    return flown_kg_m3 / vehicle.air_density_kg_m3


def file_figures(vehicle: VehicleParams) -> dict[str, float]:
    """Figures of a vehicle's file.

    Two more are there that are never estimated: ``torque``, drag torque over thrust in m, and
    ``hub_moment``, the hubs' moment over mass.
    """
    mass_kg, rotor = vehicle.mass_kg, vehicle.rotor
    thrust = vehicle.thrust_coefficient_N_s2
    x, y, z = vehicle.inertia_kg_m2
    flapping_m = rotor.flapping_rad / rotor.radius_m
    density = _density(vehicle)
    figures = {
        "thrust": thrust / mass_kg,
        "torque": vehicle.torque_ratio_m,
        "rotor_drag": vehicle.disc_drag_N_s2 / mass_kg,
        "rolling_moment": vehicle.rolling_moment_N_s2 / mass_kg,
        "inflow": rotor.inflow_N_s2 / mass_kg,
        "translational_lift": rotor.translational_lift_N_s2_m2 / mass_kg,
        "hub_moment": rotor.hinge_stiffness_N_m * flapping_m / mass_kg,
        "rotor_inertia": rotor.inertia_kg_m2 / mass_kg,
        "turn_x": thrust / x,
        "turn_y": thrust / y,
        "turn_z": vehicle.torque_ratio_m * thrust / z,
    }
    for i, axis in enumerate("xyz"):
        figures[f"body_drag_{axis}"] = vehicle.body_drag_N_s_m[i] / mass_kg
        figures[f"drag_area_{axis}"] = density * vehicle.drag_area_m2[i] / mass_kg
    return figures


def with_figures(
    vehicle: VehicleParams, figures: Mapping[str, VehicleFigure], name: str
) -> VehicleParams:
    """A vehicle with what a flight told, and the mass and the rest of the file's.

    The inertia about z follows from the file's drag torque over thrust; where no body could have
    it, the file's inertia stays and the drag torque follows.

    Args:
        figures: of :func:`quadsim.lab.identify.identification.identify_vehicle`.

    Raises:
        InputError: the figures are those of no vehicle.
    """
    taken = {key: figure.taken for key, figure in figures.items()}
    known = file_figures(vehicle)
    mass_kg, density = vehicle.mass_kg, _density(vehicle)

    def of(key: str) -> float:
        return taken.get(key, known[key])

    def along(key: str) -> Vec3:
        x, y, z = (mass_kg * of(f"{key}_{axis}") for axis in "xyz")
        return (x, y, z)

    areas_x, areas_y, areas_z = along("drag_area")
    areas_m2 = (areas_x / density, areas_y / density, areas_z / density)
    thrust = mass_kg * of("thrust")
    flapping = thrust * vehicle.rotor.flapping_rad / vehicle.rotor.radius_m
    if min(of("turn_x"), of("turn_y"), of("turn_z")) <= 0.0:
        raise InputError(f"{name}: its rotors do not turn it as they should; try --flights")
    x, y = thrust / of("turn_x"), thrust / of("turn_y")
    torque_ratio_m = vehicle.torque_ratio_m
    z = thrust * torque_ratio_m / of("turn_z")
    small, middle, large = sorted((x, y, z))
    if small + middle < large:
        z = min(max(vehicle.inertia_kg_m2[2], abs(x - y)), x + y)
        torque_ratio_m = of("turn_z") * z / thrust
    try:
        return replace(
            vehicle,
            name=name,
            inertia_kg_m2=(x, y, z),
            thrust_coefficient_N_s2=thrust,
            torque_ratio_m=torque_ratio_m,
            rotor_drag_N_s2=max(0.0, mass_kg * of("rotor_drag") - flapping),
            rolling_moment_N_s2=mass_kg * of("rolling_moment"),
            body_drag_N_s_m=along("body_drag"),
            drag_area_m2=areas_m2,
            time_constant_up_s=taken.get("time_constant_up", vehicle.time_constant_up_s),
            time_constant_down_s=taken.get("time_constant_down", vehicle.time_constant_down_s),
            rotor=replace(
                vehicle.rotor,
                inflow_N_s2=mass_kg * of("inflow"),
                translational_lift_N_s2_m2=mass_kg * of("translational_lift"),
                inertia_kg_m2=mass_kg * of("rotor_inertia"),
            ),
        )
    except InputError as error:
        raise InputError(f"{name}: what was found is no vehicle: {error}") from None
