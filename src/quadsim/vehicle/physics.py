"""How the equations of motion are written and integrated; the scenario's key ``physics``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from quadsim.parameters import Spec

#: How the attitude is kept: unit quaternion normalised after each step; yaw, pitch and roll;
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
    formalism: Annotated[str, Spec("how the attitude is kept", choices=FORMALISMS)] = "quaternion"
    integrator: Annotated[
        str,
        Spec("with the formalism matrix, its Lie-group form", choices=INTEGRATORS),
    ] = "rk4"

    @property
    def step_ns(self) -> int:
        """Longest step in ns."""
        return round(self.step_s * 1e9)
