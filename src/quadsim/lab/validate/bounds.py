"""How far a prediction may be trusted: bounds on its error by conformal prediction.

The bound of a horizon and a regime is a quantile of the errors of calibration flights (V. Vovk, A.
Gammerman and G. Shafer, *Algorithmic learning in a random world*, 2005). Windows of one flight
resemble each other, so that flights, not windows, are what is exchangeable (Y. Lee, R. F. Barber
and R. Willett, *Distribution-free inference with hierarchical data*, 2023). Each flight counts
alike, and the quantile is the lowest of which the bounds hold with the level asked for on flights
that they were made without (V. Vovk, *Cross-conformal predictors*, Annals of Mathematics and
Artificial Intelligence 74, 2015). Where no quantile does, the flights are too few or too different
for a bound. The coverage that is reported is of flights of which nothing was used, the level of the
quantile included.
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
#: Fewest flights that tell of another one.
FEWEST_FLIGHTS = 3
#: Levels of quantiles that are tried.
LEVELS = 41


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


def _quantiles(flights: Sequence[WindowErrors], regimes: int, levels: Array) -> Array:
    """(levels, regimes) quantiles of errors; a regime of few windows has that of all."""
    error = np.concatenate([flight.error for flight in flights])
    regime = np.concatenate([flight.regime for flight in flights])
    weight = np.concatenate([np.full(len(each.error), 1.0 / len(each.error)) for each in flights])
    rows = []
    for k in range(regimes):
        inside = regime == k if (regime == k).sum() >= FEWEST else np.full(len(error), True)
        order = np.argsort(error[inside])
        reached = np.cumsum(weight[inside][order])
        at = np.searchsorted(reached, levels * reached[-1] * (1.0 - 1e-12))
        rows.append(error[inside][order][np.minimum(at, len(order) - 1)])
    return np.stack(rows, axis=1)


def _known(flights: Sequence[WindowErrors]) -> list[WindowErrors]:
    """Flights without the windows whose error is not known."""
    good = [np.isfinite(flight.error) for flight in flights]
    return [
        WindowErrors(flight.error[known], flight.regime[known])
        for flight, known in zip(flights, good, strict=True)
        if known.any()
    ]


def window_bounds(flights: Sequence[WindowErrors], regimes: int, level: float) -> Array:
    """(regimes,) bounds for other windows of these flights; inf where windows are too few."""
    error = np.concatenate([flight.error for flight in flights])
    regime = np.concatenate([flight.regime for flight in flights])
    found = np.array([conformal_bound(error[regime == k], level) for k in range(regimes)])
    return np.where(np.isfinite(found), found, conformal_bound(error, level))


def error_bounds(flights: Sequence[WindowErrors], regimes: int, level: float) -> Array:
    """(regimes,) bounds for another flight; inf where these flights cannot tell."""
    flights, nothing = _known(flights), np.full(regimes, np.inf)
    if len(flights) < FEWEST_FLIGHTS:
        return nothing
    levels = np.linspace(2.0 * level - 1.0, 1.0, LEVELS, dtype=np.float64)
    inside = np.zeros(LEVELS)
    for k, flight in enumerate(flights):
        bounds = _quantiles([*flights[:k], *flights[k + 1 :]], regimes, levels)
        inside += (flight.error <= bounds[:, flight.regime]).mean(axis=1) / len(flights)
    held = levels[inside >= level]
    return _quantiles(flights, regimes, held[:1])[0] if len(held) else nothing


def coverage_of(flights: Sequence[WindowErrors], regimes: int, level: float) -> float | None:
    """Share of errors within bounds that were made without their flight, each flight alike.

    None where flights are too few or too different for such bounds.
    """
    flights, shares = _known(flights), []
    for k, flight in enumerate(flights):
        bounds = error_bounds([*flights[:k], *flights[k + 1 :]], regimes, level)
        if np.isfinite(bounds).all():
            shares.append(float((flight.error <= bounds[flight.regime]).mean()))
    return float(np.mean(shares)) if shares else None


def bound_rows(
    horizons_s: Array, flights: Sequence[Sequence[WindowErrors]], names: Sequence[str], level: float
) -> list[dict[str, Any]]:
    """A row for each horizon and regime.

    Where flights are too few or too different for a bound for another flight, it is that for other
    windows of these flights, and ``another_flight`` is false.

    Args:
        horizons_s: (H,).
        flights: of each horizon, of each flight.
        names: of the regimes.
        level: nominal coverage.
    """
    rows = []
    for horizon_s, parts in zip(horizons_s.tolist(), flights, strict=True):
        bounds = error_bounds(parts, len(names), level)
        another = bool(np.isfinite(bounds).all())
        bounds = bounds if another else window_bounds(parts, len(names), level)
        coverage = coverage_of(parts, len(names), level)
        for name, bound in zip(names, bounds.tolist(), strict=True):
            rows.append(
                {
                    "horizon_s": round(horizon_s, 4),
                    "regime": name,
                    "level": level,
                    "position_m": bound if math.isfinite(bound) else None,
                    "another_flight": another,
                    "coverage": coverage,
                }
            )
    return rows
