"""What one step of one vehicle costs, RK4 at 1 kHz, in a compiled loop on one core.

Wind and its random numbers are included. An x500 hovers by constant rotor speeds, 30 m above the
ground or 0.5 m.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim_bench.figure import Measurement, Session, lines
from quadsim_bench.timing import median_s

if TYPE_CHECKING:
    from quadsim.vehicle.fleet import Fleet
    from quadsim.vehicle.parameters import VehicleParams
    from quadsim.world.environment import EnvironmentParams

SECOND_NS, STEPS = 1_000_000_000, 1000
HIGH_M, LOW_M = 30.0, 0.5

#: Name in figures to what is measured.
KINDS = {
    "drag": "thrust, drag torque, rotor drag and linear body drag; calm air",
    "everything": (
        "also inflow, translational lift, flapping, electric motors, battery sag, quadratic drag, "
        "air density and gravity by height, wind with shear and Dryden turbulence"
    ),
    "everything_low": "the same near the ground: ground effect, and the search for contact",
    "slung_load": "everything, with a load on a rope",
    "euler": "drag only, Euler angles",
    "constraint": "drag only, quaternion under a Lagrange constraint",
    "matrix": "drag only, rotation matrix",
}


def everything(params: VehicleParams) -> VehicleParams:
    """A vehicle with every effect; figures of ordinary size, as only their cost counts here."""
    from quadsim.vehicle.propulsion.parameters import MotorParams

    return replace(
        params,
        drag_area_m2=(0.02, 0.02, 0.04),
        air_density_kg_m3=1.225,
        rotor=replace(
            params.rotor,
            inflow_N_s2=1e-4,
            translational_lift_N_s2_m2=1e-3,
            flapping_rad=0.5,
            hinge_stiffness_N_m=0.1,
        ),
        motor=MotorParams(
            model="electric", kv_rpm_V=920.0, resistance_ohm=0.1, no_load_current_A=0.5
        ),
    )


def stormy() -> EnvironmentParams:
    """Wind with shear and turbulence, gravity by latitude and height."""
    from quadsim.world.air.wind_parameters import WindParams
    from quadsim.world.environment import EnvironmentParams

    return EnvironmentParams(
        gravity="model",
        wind_W_mps=(3.0, 1.0, 0.0),
        wind=WindParams(shear="log", turbulence="dryden"),
    )


class Hover:
    """A second of one vehicle's hover, from the same start each time."""

    def __init__(self, fleet: Fleet, height_m: float = HIGH_M) -> None:
        params = fleet.params
        mass_kg = params.mass_kg + params.load.mass_kg
        lift_N = mass_kg * 9.80665 / 4.0
        self._speeds = np.full(4, np.sqrt(lift_N / params.thrust_coefficient_N_s2))
        self._fleet, self._height_m = fleet, height_m

    def begin(self) -> Fleet:
        """The vehicle at the start."""
        fleet = self._fleet
        fleet.reset()
        fleet.set_motion(0, (0.0, 0.0, self._height_m), rotor_speeds_radps=self._speeds)
        fleet.set_motor_command(0, self._speeds)
        return fleet


def fly(fleet: Fleet) -> None:
    """A second of it."""
    fleet.step_to(SECOND_NS)


def hovers() -> dict[str, Hover]:
    """What is measured, by the names of :data:`KINDS`."""
    from quadsim.base.files import find
    from quadsim.base.parameters import load
    from quadsim.sim.batched.vehicles import drag_model
    from quadsim.vehicle.fleet import Fleet
    from quadsim.vehicle.parameters import LoadParams, VehicleParams
    from quadsim.vehicle.physics import FORMALISMS, PhysicsParams
    from quadsim.world.environment import EnvironmentParams

    x500 = load(VehicleParams, find("vehicles", "x500"))
    plain, full, calm, storm = drag_model(x500), everything(x500), EnvironmentParams(), stormy()
    slung = replace(full, load=LoadParams(mass_kg=0.3, rope_length_m=0.4))
    found = {
        "drag": Hover(Fleet(plain, calm)),
        "everything": Hover(Fleet(full, storm)),
        "everything_low": Hover(Fleet(full, storm), LOW_M),
        "slung_load": Hover(Fleet(slung, storm)),
    }
    for formalism in FORMALISMS[1:]:
        found[formalism] = Hover(Fleet(plain, calm, physics=PhysicsParams(formalism=formalism)))
    return found


def measure(session: Session) -> dict[str, Any]:
    """Processor time of a step, us."""
    runs = 11 if session.short else 41
    return {
        f"vehicle_step_{name}_us": median_s(hover.begin, fly, runs) / STEPS * 1e6
        for name, hover in session.once("hovers", hovers).items()
    }


FIGURES = "\n".join(
    f"vehicle_step_{name}_us us {'<=1' if name == 'everything' else 'less'} x500, RK4: {words}"
    for name, words in KINDS.items()
)

MEASUREMENTS = (Measurement("vehicle_step", lines(FIGURES), measure, short=True),)
