"""What the table of a campaign shows: success, distributions, what they depend on; its summary."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, stats

from quadsim.base.compiled import Array
from quadsim.base.surroundings import machine, versions
from quadsim.lab.campaign.factors import CRITERION, FIGURES, OF_LIMIT, Factor
from quadsim.lab.campaign.flying import BROKEN, FAILED, PASSED, STATES
from quadsim.lab.campaign.plan import Campaign
from quadsim.lab.campaign.record import Columns

#: Of all intervals.
CONFIDENCE = 0.95

#: Parts into which the range of a number is cut, each with as many runs, to show its effect.
BINS = 8

#: Runs that are named as the worst.
WORST = 10

#: A dependence is told from values of so many runs at least.
LEAST = 8


@dataclass(frozen=True)
class Success:
    """How many of some runs passed, and what that tells of all that could be drawn.

    Attributes:
        passed: runs.
        count: runs.
        low, high: Wilson's interval of the rate.
    """

    passed: int
    count: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """Share that passed."""
        return self.passed / self.count if self.count else math.nan

    def summary(self) -> dict[str, Any]:
        """As JSON states it."""
        found = asdict(self)
        found["runs"] = found.pop("count")
        return found | {"rate": self.rate, "confidence": CONFIDENCE}


def success(passed: int, count: int) -> Success:
    """Success with Wilson's interval (scipy.stats.binomtest)."""
    if not count:
        return Success(0, 0, 0.0, 1.0)
    found = stats.binomtest(passed, count).proportion_ci(CONFIDENCE, "wilson")
    return Success(passed, count, float(found.low), float(found.high))


def success_of(table: Columns, rows: Any = slice(None)) -> Success:
    """Success of some rows."""
    status = table["status"][rows]
    return success(int(np.sum(status == PASSED)), len(status))


def metrics_of(table: Columns) -> list[str]:
    """Columns of figures that a table has values of; a criterion on one of them adds nothing."""
    criteria = [name for name in table if name.startswith(CRITERION)]
    criteria = [name for name in criteria if name.removeprefix(CRITERION) not in FIGURES]
    return [name for name in (*FIGURES, OF_LIMIT, *criteria) if np.isfinite(table[name]).any()]


def distribution(values: Array) -> dict[str, float | int]:
    """Figures of values, those that are missing left out."""
    values = values[np.isfinite(values)]
    low, median, high = np.percentile(values, [5.0, 50.0, 95.0])
    return {
        "count": len(values),
        "mean": float(values.mean()),
        "sigma": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
        "least": float(values.min()),
        "5 %": float(low),
        "median": float(median),
        "95 %": float(high),
        "most": float(values.max()),
    }


@dataclass(frozen=True)
class Dependence:
    """How a figure depends on a factor.

    Attributes:
        rank_correlation: Spearman's, of a factor of numbers; None of choices.
        slope: standardised coefficient of the regression on all factors of numbers at once.
        share: of the variance between the choices (eta squared), or the squared rank correlation.
        p_value: of no dependence (Spearman's test; Kruskal and Wallis's of choices).
    """

    factor: str
    metric: str
    rank_correlation: float | None
    slope: float | None
    share: float
    p_value: float


def regression_slopes(columns: Array, values: Array) -> Array:
    """Standardised coefficients of the linear regression of values (N,) on columns (N, d).

    Both are taken less their mean and over their deviation; a column that does not vary has none.
    """
    spread = columns.std(axis=0)
    varied = spread > 0.0
    found = np.full(columns.shape[1], math.nan)
    if values.std() > 0.0 and varied.any() and len(values) > varied.sum() + 1:
        scaled = (columns[:, varied] - columns[:, varied].mean(axis=0)) / spread[varied]
        found[varied] = linalg.lstsq(scaled, (values - values.mean()) / values.std())[0]
    return found


def dependences(table: Columns, factors: Sequence[Factor]) -> list[Dependence]:
    """How every figure depends on every factor, the strongest first."""
    found = []
    numbers = [factor for factor in factors if factor.is_number]
    for metric in metrics_of(table):
        rows = np.isfinite(table[metric])
        values = table[metric][rows]
        if rows.sum() < LEAST or np.ptp(values) == 0.0:
            continue
        drawn = np.column_stack([values[:, None][:, :0], *(table[f.column][rows] for f in numbers)])
        for factor, slope in zip(numbers, regression_slopes(drawn, values), strict=True):
            column = table[factor.column][rows]
            if np.ptp(column) > 0.0:
                rank, p_value = map(float, stats.spearmanr(column, values))
                found.append(Dependence(factor.name, metric, rank, float(slope), rank**2, p_value))
        for factor in factors:
            if not factor.is_number:
                found += _between(factor, metric, table[factor.column][rows], values)
    return sorted(found, key=lambda item: -item.share)


def _between(factor: Factor, metric: str, labels: NDArray[Any], values: Array) -> list[Dependence]:
    """How a figure differs between choices."""
    groups = [values[labels == label] for label in factor.labels]
    groups = [group for group in groups if len(group)]
    if len(groups) < 2:
        return []
    middle = values.mean()
    between = sum(len(group) * (group.mean() - middle) ** 2 for group in groups)
    p_value = float(stats.kruskal(*groups).pvalue)
    share = float(between / np.sum((values - middle) ** 2))
    return [Dependence(factor.name, metric, None, None, share, p_value)]


@dataclass(frozen=True)
class Level:
    """Runs in which a factor had a value, or one in a part of its range.

    Attributes:
        middle: where it is drawn: mean of the values; of choices their place.
        success: of the runs.
        rows: (N,) which they are.
    """

    label: str
    middle: float
    success: Success
    rows: NDArray[np.intp]


def levels(table: Columns, factor: Factor) -> list[Level]:
    """The main effect of a factor: its choices, its few values, or parts of its range."""
    column = table[factor.column]
    values = factor.labels if not factor.is_number else np.unique(column)
    if not factor.is_number or len(values) <= BINS:
        groups = [np.flatnonzero(column == value) for value in values]
    else:
        groups = [np.sort(part) for part in np.array_split(np.argsort(column, kind="stable"), BINS)]
    found = []
    for place, rows in enumerate(groups):
        if len(rows):
            label, middle = str(values[place]) if not factor.is_number else "", float(place)
            if factor.is_number:
                label, middle = _part(column[rows]), float(column[rows].mean())
            found.append(Level(label, middle, success_of(table, rows), rows))
    return found


def _part(values: Array) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.4g}" if low == high else f"{low:.4g} … {high:.4g}"


def mean_interval(values: Array) -> tuple[float, float]:
    """Mean of values and half its interval (Student's); NaN where there are too few."""
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return (float(values[0]) if len(values) else math.nan), math.nan
    half = stats.t.ppf(0.5 + CONFIDENCE / 2.0, len(values) - 1) * values.std(ddof=1)
    return float(values.mean()), float(half / math.sqrt(len(values)))


def worst(table: Columns, count: int = WORST) -> list[int]:
    """Rows of the worst runs: missed most, then broken, then nearest to a limit.

    A failed one without a share of a limit, as of what is not finite, is before all others. Of
    broken ones at most a third is named: they have no figures, and often one reason.
    """
    status = table["status"]
    share = table[OF_LIMIT]
    far = np.where(np.isfinite(share), share, np.where(status == FAILED, np.inf, 0.0))
    far_m = np.nan_to_num(table["estimator.position_max_m"], nan=0.0)
    order = np.lexsort((-far_m, -far))
    failed = [int(row) for row in order if status[row] == FAILED]
    lost = np.flatnonzero(status == BROKEN)[: max(1, count // 3)].tolist()
    passed = [int(row) for row in order if status[row] == PASSED]
    stored = failed[: count - len(lost)]
    return [*stored, *lost, *passed[: max(count - len(stored) - len(lost), 0)]]


def counted(table: Columns) -> dict[str, Any]:
    """How the runs ended: by state, by criterion that was missed, by reason of broken ones."""
    status = table["status"]
    missed = Counter(name for words in table["missed"] if words for name in words.split("; "))
    reasons = Counter(table["reason"][status == BROKEN].tolist())
    return {
        "states": {state: int(np.sum(status == state)) for state in STATES},
        "missed": dict(missed.most_common()),
        "broken": dict(reasons.most_common(20)),
    }


def campaign_summary(campaign: Campaign, table: Columns, folder: Path) -> dict[str, Any]:
    """What a campaign shows.

    Args:
        table: its runs, not necessarily all.
        folder: where it lies.
    """
    done, total = len(table["run"]), len(campaign)
    success = success_of(table)
    return {
        "campaign": campaign.name,
        "scenario": campaign.file.scenario,
        "runs": total,
        "left": total - done,
        "passed": done == total and success.rate >= campaign.file.pass_share,
        "pass_share": campaign.file.pass_share,
        "success": success.summary(),
        **counted(table),
        "flown_s": float(np.nansum(table["duration_s"])),
        "metrics": {name: distribution(table[name]) for name in metrics_of(table)},
        "dependences": [asdict(item) for item in dependences(table, campaign.factors)],
        "worst": [_named(campaign, table, row) for row in worst(table)],
        "folder": folder,
        "versions": versions(),
        "machine": machine(),
    }


def _named(campaign: Campaign, table: Columns, row: int) -> dict[str, Any]:
    """A run, and how to fly it again."""
    run = campaign.run(int(table["run"][row]))
    return {
        "run": run.number,
        "status": table["status"][row],
        "reason": table["reason"][row],
        "seed": run.seed,
        "values": dict(run.values),
        "digest": table["digest"][row],
        "again": again(campaign, run.number),
        "command": run.command(),
    }


def again(campaign: Campaign, number: int) -> str:
    """The command that flies one run of a campaign by itself."""
    name = campaign.name if campaign.is_shipped else str(campaign.path)
    return shlex.join(["quadsim", "campaign", name, "--run", str(number)])
