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

A bound states nothing of flights unlike those that it was made from. It therefore has limits, the
largest conditions of their windows, and beyond them there is none. Users judge flights that are
faster than those that they calibrate by. That is tried: every flight that is fast enough is judged
by the bounds of those that are clearly slower, as forecasts are by later times (L. J. Tashman,
*Out-of-sample tests of forecasting accuracy*, International Journal of Forecasting 16, 2000). Where
fewer than three can be judged so, or the bounds do not hold there, no bound for another flight is
stated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError

#: Fewest windows that give a bound.
FEWEST = 20
#: Fewest flights that tell of another one.
FEWEST_FLIGHTS = 3
#: Levels of quantiles that are tried.
LEVELS = 41
#: What a bound has limits of: in a window the largest speed, acceleration and body rate, its path.
CONDITIONS = ("speed_mps", "acceleration_mps2", "rate_radps", "path_m")
#: Regimes are thirds of the windows by their largest body rate.
REGIMES = ("low body rates", "medium body rates", "high body rates")
#: A flight whose top speed is at most this share of another's is the slower one.
SLOWER = 0.95
#: A bound is stated if on faster flights it holds at least as often as its level less this.
MARGIN = 0.03
#: What is stored of a row to judge other flights.
_KEPT = ("horizon_s", "up_to", "position_m", "another_flight")


@dataclass(frozen=True)
class WindowErrors:
    """Errors of one flight's windows at one horizon, and under which conditions they came about.

    Attributes:
        error: (K,) NaN where the flight ended before.
        regime: (K,) number of the regime.
        conditions: (K, 4) of each window, as :data:`CONDITIONS` names them.
    """

    error: Array
    regime: NDArray[np.int64]
    conditions: Array


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
        WindowErrors(flight.error[known], flight.regime[known], flight.conditions[known])
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


def limits_of(flights: Sequence[WindowErrors]) -> Array:
    """(4,) largest conditions of windows whose error is known; -inf where there is none."""
    parts = [flight.conditions for flight in _known(flights)]
    tops = np.array([part.max(axis=0) for part in parts]).reshape(-1, len(CONDITIONS))
    return np.asarray(tops.max(axis=0, initial=-np.inf))


def _share_held(
    flight: WindowErrors, others: Sequence[WindowErrors], regimes: int, level: float
) -> float | None:
    """Share of a flight's errors within the bounds of others; None where these state none."""
    bounds = error_bounds(others, regimes, level)
    alike = (flight.conditions <= limits_of(others)).all(axis=1)
    if not (np.isfinite(bounds).all() and alike.any()):
        return None
    return float((flight.error <= bounds[flight.regime])[alike].mean())


def coverage_of(flights: Sequence[WindowErrors], regimes: int, level: float) -> float | None:
    """Share of errors within bounds that were made without their flight, each flight alike.

    Windows beyond the bounds' limits do not count. None where flights are too few or too different
    for such bounds.
    """
    flights = _known(flights)
    shares = [
        _share_held(flight, [*flights[:k], *flights[k + 1 :]], regimes, level)
        for k, flight in enumerate(flights)
    ]
    return _mean(shares, 1)


def coverage_of_faster(flights: Sequence[WindowErrors], regimes: int, level: float) -> float | None:
    """The same within bounds that were made of slower flights alone; None of fewer than three."""
    flights = _known(flights)
    tops = [float(flight.conditions[:, 0].max()) for flight in flights]
    shares = []
    for flight, top in zip(flights, tops, strict=True):
        slower = [f for f, other in zip(flights, tops, strict=True) if other <= SLOWER * top]
        shares.append(_share_held(flight, slower, regimes, level))
    return _mean(shares, FEWEST_FLIGHTS)


def _mean(shares: Sequence[float | None], fewest: int) -> float | None:
    known = [share for share in shares if share is not None]
    return float(np.mean(known)) if len(known) >= fewest else None


def bound_rows(
    horizons_s: Array, flights: Sequence[Sequence[WindowErrors]], edges: Array, level: float
) -> list[dict[str, Any]]:
    """A row for each horizon and regime, with the conditions up to which its bound is stated.

    Where flights are too few or too different for a bound for another flight, it is that for other
    windows of these flights, and ``another_flight`` is false.

    Args:
        horizons_s: (H,).
        edges: (H, regimes + 1) body rates in rad/s that part the regimes of each horizon.
    """
    rows, count = [], len(REGIMES)
    for horizon_s, parts, ends in zip(horizons_s.tolist(), flights, edges, strict=True):
        bounds, faster = error_bounds(parts, count, level), coverage_of_faster(parts, count, level)
        holds = faster is not None and faster >= level - MARGIN
        another = holds and bool(np.isfinite(bounds).all())
        bounds = bounds if another else window_bounds(parts, count, level)
        coverage, limits = coverage_of(parts, count, level), limits_of(parts)
        for name, bound, end in zip(REGIMES, bounds.tolist(), ends[1:].tolist(), strict=True):
            up_to = dict(zip(CONDITIONS, limits.tolist(), strict=True))
            up_to["rate_radps"] = min(up_to["rate_radps"], end)
            known = math.isfinite(bound)
            rows.append(
                {
                    "horizon_s": round(horizon_s, 4),
                    "regime": name,
                    "up_to": up_to if known else None,
                    "level": level,
                    "position_m": bound if known else None,
                    "another_flight": another,
                    "coverage": coverage,
                    "coverage_of_faster": faster,
                }
            )
    return rows


def read_bounds(path: Path, vehicle_name: str) -> list[dict[str, Any]]:
    """Rows of :func:`bound_rows` out of the JSON of an earlier validation.

    Raises:
        InputError: the file is none, or of another vehicle.
    """
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        name, rows = (
            result["vehicle"],
            [{key: row[key] for key in _KEPT} for row in result["bounds"]],
        )
        for row in (row for row in rows if row["another_flight"]):
            sum([row["horizon_s"], row["position_m"], *(row["up_to"][key] for key in CONDITIONS)])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}: no bounds in it; allowed: what quadsim validate --json prints"
        ) from error
    if name != vehicle_name:
        raise InputError(f"{path}: bounds of {name!r}; allowed: of {vehicle_name!r}")
    return rows


def judge_bounds(
    rows: Sequence[Mapping[str, Any]],
    horizons_s: Sequence[float],
    flights: Sequence[Sequence[WindowErrors]],
) -> list[dict[str, Any]]:
    """How often bounds of other flights hold on these: a row for each horizon.

    A window has the bound of the first regime whose limits it keeps, and none beyond them all or
    where there is none for another flight.

    Args:
        rows: of :func:`bound_rows`, by increasing rate.
    """
    found = []
    for horizon_s, parts in zip(horizons_s, flights, strict=True):
        error = np.concatenate([part.error for part in _known(parts)] or [np.zeros(0)])
        conditions = np.concatenate([p.conditions for p in _known(parts)] or [np.zeros((0, 4))])
        bound = np.full(len(error), np.inf)
        for row in reversed(rows):
            if row["horizon_s"] == round(horizon_s, 4) and row["another_flight"]:
                top = np.array([row["up_to"][name] for name in CONDITIONS])
                bound[(conditions <= top).all(axis=1)] = row["position_m"]
        stated = np.isfinite(bound)
        held = float((error <= bound)[stated].mean()) if stated.any() else None
        count = {"windows": len(error), "bounded": int(stated.sum()), "coverage": held}
        found.append({"horizon_s": round(horizon_s, 4), **count})
    return found
