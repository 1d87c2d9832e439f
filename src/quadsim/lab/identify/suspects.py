"""Which one figure of a vehicle's file, if it were another, explains most of what flights show.

Accelerations that a vehicle leaves are linear in each figure, or in its inverse. So a second
evaluation tells them for every factor, and the factor is that of the maximum likelihood of six
channels whose noise is not known. By this likelihood suspects are ranked. Weighing all suspects
alike would favour one that leaves a channel as it is.
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
#: Suspects in whose inverse accelerations are linear.
INVERSE = ("mass", "inertia")
#: Change by which derivatives are taken.
STEP = 0.01
#: Factors that are tried, in steps of 0.1 %.
FACTORS = np.exp(np.arange(-1600, 1601) / 1000.0)


@dataclass(frozen=True)
class Suspect:
    """What one figure would have to be.

    Attributes:
        name: of the suspect.
        factor: by which the figure is off from the file's.
        half: of the factor's 95 % interval, flights or stretches of them being independent.
        explained: share that this removes of the squared error, weighed by what is left.
        likelihood: logarithm of how much likelier a sample of all six channels is by it.
    """

    name: str
    factor: float
    half: float
    explained: float
    likelihood: float


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
    before = _errors(flights, vehicle, gravity_mps2)
    return sorted(
        (_suspect(name, flights, vehicle, gravity_mps2, before) for name in SUSPECTS),
        key=lambda each: -each.likelihood,
    )


def _suspect(
    name: str,
    flights: Sequence[RecordedFlight],
    vehicle: VehicleParams,
    gravity_mps2: float,
    before: list[Array],
) -> Suspect:
    """The likeliest factor of one suspect."""
    power = -1.0 if name in INVERSE else 1.0
    moved = _errors(flights, with_factor(vehicle, name, (1.0 + STEP) ** power), gravity_mps2)
    slopes = [(ahead - here) / STEP for ahead, here in zip(moved, before, strict=True)]
    error, slope = np.concatenate(before), np.concatenate(slopes)
    square, both, bend = (error**2).mean(0), (error * slope).mean(0), (slope**2).mean(0)
    change = FACTORS[:, None] ** power - 1.0
    left = square + 2.0 * both * change + bend * change**2 + 1e-24
    best = int(np.argmin(np.log(left).sum(axis=1)))
    factor, weight = float(FACTORS[best]), 1.0 / left[best]
    scores = np.array([
        ((here + change[best] * by) * by * weight).sum()
        for here, by in zip(before, slopes, strict=True)
    ])  # fmt: skip
    across, count = float((bend * weight).sum()) * len(error), len(scores)
    half = math.inf
    if across > 0.0 and count > 1:
        spread = math.sqrt((scores**2).sum() * count / (count - 1)) / across
        half = float(student.ppf(0.975, count - 1)) * spread * factor ** (1.0 - power)
    ratio = (square + 1e-24) * weight
    explained = 1.0 - len(ratio) / float(ratio.sum())
    return Suspect(name, factor, half, explained, 0.5 * float(np.log(ratio).sum()))


def _errors(
    flights: Sequence[RecordedFlight], vehicle: VehicleParams, gravity_mps2: float
) -> list[Array]:
    """(N, 6) accelerations by force and torque that the vehicle leaves of each flight."""
    scale = [vehicle.mass_kg] * 3 + list(vehicle.inertia_kg_m2)
    wrenches = (residual_wrench(flight, vehicle, gravity_mps2) for flight in flights)
    return [np.nan_to_num(np.hstack([w.force, w.torque])) / scale for w in wrenches]
