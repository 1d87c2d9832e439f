"""Make the picture of docs/formalisms.md; it needs Chromium.

python docs/make_formalism_pictures.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from quadsim.analysis.report.pictures import save_picture
from quadsim.base.compiled import kernel
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.formalisms.integrators import mean_derivative
from quadsim.vehicle.multirotor import derivative
from quadsim.vehicle.parameters import ContactParams, VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import Q
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

STEP_S, SECONDS, EVERY = 0.004, 60, 25
RATES = (5.0, -3.0, 4.0)


def tumbling(formalism: str, baumgarte_per_s: float = 0.0) -> Fleet:
    """A weightless x500 with still rotors that turns freely, but for its drag."""
    vehicle = load(VehicleParams, find("vehicles", "x500"))
    bare = replace(
        vehicle, contact=ContactParams(points_B_m=()), rotor_drag_N_s2=0.0, rolling_moment_N_s2=0.0
    )
    physics = PhysicsParams(step_s=STEP_S, formalism=formalism, baumgarte_per_s=baumgarte_per_s)
    period_ns = round(STEP_S * 1e9)
    fleet = Fleet(bare, EnvironmentParams(gravity_mps2=0.0), physics=physics, period_ns=period_ns)
    fleet.set_motion(0, (0.0, 0.0, 100.0), w_B=RATES)
    return fleet


@kernel
def integrate_freely(x: Array, model: Any, scratch: Array, norms: Array) -> None:
    """RK4 steps without anything after them."""
    for k in range(norms.shape[0]):
        mean = mean_derivative(derivative, x, model, STEP_S, 4, scratch)
        for i in range(x.shape[0]):
            x[i] += STEP_S * mean[i]
        norms[k] = np.sqrt(x[6] * x[6] + x[7] * x[7] + x[8] * x[8] + x[9] * x[9])


def uncorrected() -> Array:
    """Norm after each step, nothing done about it."""
    fleet = tumbling("quaternion")
    model = fleet.model(0)
    norms = np.zeros(round(SECONDS / STEP_S))
    integrate_freely(model[0].x[:17], model, np.zeros((3, 17)), norms)
    return norms


def corrected(formalism: str, baumgarte_per_s: float = 0.0) -> Array:
    """Norm after each step of a formalism."""
    fleet = tumbling(formalism, baumgarte_per_s)
    norms = []
    for k in range(round(SECONDS / STEP_S)):
        fleet.step_to(round((k + 1) * STEP_S * 1e9))
        norms.append(np.linalg.norm(fleet.model(0)[0].x[Q : Q + 4]))
    return np.array(norms)


def main() -> None:
    """Draw how the norm drifts."""
    lines = {
        "no correction": uncorrected(),
        "Lagrange constraint": corrected("constraint"),
        "Lagrange constraint, Baumgarte at 5/s": corrected("constraint", 5.0),
        "normalised each step": corrected("quaternion"),
    }
    colours = ("#d95f02", "#1b6ca8", "#7570b3", "#3a923a")
    figure = go.Figure()
    for (name, norms), colour in zip(lines.items(), colours, strict=True):
        t_s = STEP_S * np.arange(1, len(norms) + 1)
        # rounding of a norm that is 1 to the last bit shows as the smallest step of a double
        drift = np.maximum(np.abs(norms - 1.0), 1.1e-16)
        print(f"{name}: {drift[-1]:.2e} after {SECONDS} s")
        figure.add_scatter(
            x=t_s[::EVERY], y=drift[::EVERY], name=name, mode="lines", line={"color": colour}
        )
    figure.update_layout(
        template="plotly_white",
        margin={"l": 70, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "x": 0.0, "y": 1.1},
    )
    figure.update_xaxes(title="time (s)")
    figure.update_yaxes(title="distance of |Q| from 1", type="log", exponentformat="power")
    save_picture(figure, Path(__file__).parent / "images" / "formalisms.png", 900, 450)


if __name__ == "__main__":
    main()
