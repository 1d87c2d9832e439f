"""How the equations of motion are written and integrated; the scenario's key ``physics``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quadsim.base.errors import InputError
from quadsim.base.parameters import Choice, Spec

#: how the attitude is represented: unit quaternion normalised after each step; yaw, pitch and roll;
#: quaternion and its rate under a Lagrange constraint; rotation matrix on its group.
FORMALISMS = ("quaternion", "euler", "constraint", "matrix")
QUATERNION, EULER, CONSTRAINT, MATRIX = range(4)

INTEGRATORS = ("rk4", "semi_implicit_euler", "explicit_euler")
RK4, SEMI_IMPLICIT_EULER, EXPLICIT_EULER = range(3)


@dataclass(frozen=True)
class PhysicsParams:
    """How time goes in the simulation, and how the motion is computed."""

    step_s: Annotated[float, Spec("longest step of the physics", "s", ge=1e-4, le=0.01)] = 0.001
    command_delay_samples: Annotated[
        int, Spec("IMU samples from the one a motor command answers to its effect", ge=0, le=20)
    ] = 1
    formalism: Annotated[Choice, Spec("how the attitude is represented", choices=FORMALISMS)] = (
        "quaternion"
    )
    integrator: Annotated[
        Choice,
        Spec("with the formalism matrix, its Lie-group form", choices=INTEGRATORS),
    ] = "rk4"

    baumgarte_per_s: Annotated[
        float,
        Spec(
            "rate of Baumgarte's stabilisation of the formalism constraint; 0: none",
            "1/s",
            ge=0.0,
            le=1000.0,
        ),
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse a stabilisation of what is no constraint."""
        if self.baumgarte_per_s > 0.0 and self.formalism != "constraint":
            raise InputError(
                f"baumgarte_per_s: {self.baumgarte_per_s:g} with formalism: {self.formalism};"
                " allowed: with formalism: constraint"
            )

    @property
    def step_ns(self) -> int:
        """Longest step in ns."""
        return round(self.step_s * 1e9)
