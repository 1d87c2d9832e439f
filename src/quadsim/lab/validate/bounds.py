"""How far a prediction may be trusted: bounds on its error by conformal prediction.

The bound of a horizon and a regime is the quantile of the errors of calibration flights that holds
with the level asked for on a flight from the same source, whatever the errors' distribution (V.
Vovk, A. Gammerman and G. Shafer, *Algorithmic learning in a random world*, 2005; split conformal).
Windows of one flight resemble each other, so that flights are left out whole to see what a bound
is worth: the coverage that is reported is of flights that it was not made from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Fewest windows that give a bound.
FEWEST = 20


@dataclass(frozen=True)
class WindowErrors:
    """Errors of one flight's windows at one horizon, and the regime each began in.

    Attributes:
        error: (K,) NaN where the flight ended before.
        regime: (K,) number of the regime.
    """

    error: Array
    regime: NDArray[np.int64]


def conformal_bound(errors: Array, level: float) -> float:
    """Bound that a new error does not exceed with this level; inf where too few are known."""
    known = np.sort(errors[np.isfinite(errors)])
    rank = math.ceil((len(known) + 1) * level)
    return float(known[rank - 1]) if rank <= len(known) and len(known) >= FEWEST else math.inf


def error_bounds(flights: Sequence[WindowErrors], regimes: int, level: float) -> Array:
    """(regimes,) bounds; a regime without enough windows has that of all."""
    error = np.concatenate([flight.error for flight in flights])
    regime = np.concatenate([flight.regime for flight in flights])
    found = [conformal_bound(error[regime == k], level) for k in range(regimes)]
    everywhere = conformal_bound(error, level)
    return np.array([value if math.isfinite(value) else everywhere for value in found])


def coverage_of(flights: Sequence[WindowErrors], regimes: int, level: float) -> float | None:
    """Share of errors within bounds that were made without their flight; None of one flight."""
    if len(flights) < 2:
        return None
    inside = known = 0
    for k, flight in enumerate(flights):
        bounds = error_bounds([*flights[:k], *flights[k + 1 :]], regimes, level)
        good = np.isfinite(flight.error)
        inside += int((flight.error <= bounds[flight.regime])[good].sum())
        known += int(good.sum())
    return inside / known if known else None


def bound_rows(
    horizons_s: Array, flights: Sequence[Sequence[WindowErrors]], names: Sequence[str], level: float
) -> list[dict[str, Any]]:
    """A row for each horizon and regime.

    Args:
        horizons_s: (H,).
        flights: of each horizon, of each flight.
        names: of the regimes.
        level: nominal coverage.
    """
    rows = []
    for horizon_s, parts in zip(horizons_s.tolist(), flights, strict=True):
        bounds = error_bounds(parts, len(names), level)
        coverage = coverage_of(parts, len(names), level)
        for name, bound in zip(names, bounds.tolist(), strict=True):
            rows.append(
                {
                    "horizon_s": round(horizon_s, 4),
                    "regime": name,
                    "level": level,
                    "position_m": bound if math.isfinite(bound) else None,
                    "coverage": coverage,
                }
            )
    return rows
