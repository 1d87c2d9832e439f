"""Which one figure of a vehicle's file, if it were another, explains most of what flights show.

Forces and torques at each instant are nearly linear in the logarithm of a figure, so that one step
of least squares says for each suspect by which factor it would be off and how much of the error
that takes away. Forces and torques are weighed by what the best suspect leaves of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from quadsim.lab.identify.shooting import UnknownFigure, start_figures, with_values
from quadsim.lab.validate.recorded import RecordedFlight
from quadsim.lab.validate.residuals import residual_wrench
from quadsim.vehicle.parameters import VehicleParams

Array = NDArray[np.float64]

#: Suspects, and the figures of the file that they scale.
SUSPECTS = {
    "mass": ("mass_kg",),
    "thrust": ("thrust_coefficient_N_s2",),
    "drag": (
        "rotor_drag_N_s2",
        "rotor.inflow_drag_N_s2_m2",
        *(f"{name}[{i}]" for name in ("drag_area_m2", "body_drag_N_s_m") for i in range(3)),
    ),
    "inertia": tuple(f"inertia_kg_m2[{i}]" for i in range(3)),
    "rotors' drag torque": ("torque_ratio_m",),
}
#: Change by which derivatives are taken, and how often the weights are found anew.
STEP, ROUNDS = 0.01, 3


@dataclass(frozen=True)
class Suspect:
    """What one figure would have to be.

    Attributes:
        name: of the suspect.
        factor: by which the figure is off from the file's.
        half: of the factor's 95 % interval, flights or stretches of them being independent.
        explained: share of the weighed squared error that this takes away.
    """

    name: str
    factor: float
    half: float
    explained: float


def with_factor(vehicle: VehicleParams, suspect: str, factor: float) -> VehicleParams:
    """A vehicle of which one suspect is so much larger."""
    figures = [UnknownFigure(name, 1.0) for name in SUSPECTS[suspect]]
    return with_values(vehicle, figures, factor * start_figures(vehicle, figures))


def rank_suspects(
    flights: Sequence[RecordedFlight], vehicle: VehicleParams, gravity_mps2: float
) -> list[Suspect]:
    """Suspects, the one that explains most first.

    Args:
        flights: or stretches of them, which intervals take as independent.
        vehicle: of the file that is suspected.
        gravity_mps2: where it was flown.
    """
    errors = _errors(flights, vehicle, gravity_mps2)
    slopes = {
        name: [
            (moved - error) / math.log1p(STEP)
            for moved, error in zip(
                _errors(flights, with_factor(vehicle, name, 1.0 + STEP), gravity_mps2),
                errors,
                strict=True,
            )
        ]
        for name in SUSPECTS
    }
    weight = _weights(np.concatenate(errors))
    for _ in range(ROUNDS):
        found = {name: _step(errors, slope, weight) for name, slope in slopes.items()}
        best = max(found, key=lambda name: found[name].explained)
        change = math.log(found[best].factor)
        left = [e + change * s for e, s in zip(errors, slopes[best], strict=True)]
        weight = _weights(np.concatenate(left))
    ranked = [Suspect(name, each.factor, each.half, each.explained) for name, each in found.items()]
    return sorted(ranked, key=lambda each: -each.explained)


def _weights(errors: Array) -> Array:
    """(6,) one over the size of each channel's errors."""
    return np.asarray(1.0 / np.sqrt((errors**2).mean(axis=0) + 1e-30))


def _errors(
    flights: Sequence[RecordedFlight], vehicle: VehicleParams, gravity_mps2: float
) -> list[Array]:
    """(N, 6) accelerations by force and torque that the vehicle leaves of each flight."""
    scale = [vehicle.mass_kg] * 3 + list(vehicle.inertia_kg_m2)
    wrenches = (residual_wrench(flight, vehicle, gravity_mps2) for flight in flights)
    return [np.nan_to_num(np.hstack([w.force, w.torque])) / scale for w in wrenches]


def _step(errors: Sequence[Array], slopes: Sequence[Array], weight: Array) -> Suspect:
    """One step of least squares in one figure's logarithm."""
    products = np.array([
        [(e * s * weight**2).sum(), (s * s * weight**2).sum(), (e * e * weight**2).sum()]
        for e, s in zip(errors, slopes, strict=True)
    ])  # fmt: skip
    along, across, whole = products.sum(axis=0)
    if across <= 0.0:
        return Suspect("", 1.0, math.inf, 0.0)
    change = float(np.clip(-along / across, -1.0, 1.0))
    scores = products[:, 0] + change * products[:, 1]
    count = len(scores)
    spread = math.sqrt((scores**2).sum() * count / max(count - 1, 1)) / across
    half = float(student.ppf(0.975, max(count - 1, 1)) * spread)
    return Suspect("", math.exp(change), math.exp(change) * half, float(along**2 / across / whole))
