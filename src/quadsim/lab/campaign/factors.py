"""What a campaign varies, how values are drawn, and the columns of its table.

Samples are a grid, random, a Latin hypercube, or of Sobol's sequence.

Every sampler gives shares between 0 and 1, one for each factor; a factor turns its share into a
value by the inverse of its distribution (scipy.stats). So all of them know all kinds of factors.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.stats import qmc

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError, shown
from quadsim.base.parameters import Spec, from_mapping

#: Figures of every run, by their dotted names in the summary.
FIGURES = (
    "estimator.position_rmse_m",
    "estimator.position_max_m",
    "estimator.velocity_rmse_mps",
    "estimator.yaw_rmse_rad",
    "estimator.tilt_rmse_rad",
    "estimator.nees_mean",
    "tracking.position_rmse_m",
    "duration_s",
)

#: Largest share of a limit that any criterion reached: beyond 1 it is missed.
OF_LIMIT = "of_limit"

#: Before the names of columns that the criteria give.
CRITERION = "criterion."

#: Before the name of a factor that is called like a column of every run.
VARIED = "vary."

#: Columns of every run.
RUN_COLUMNS = (
    "run", "sample", "seed", "scenario", "status", "missed", "reason", OF_LIMIT, *FIGURES, "digest",
)  # fmt: skip


def is_reserved(name: str) -> bool:
    """Whether a table has, or may have, another column of this name."""
    return name in RUN_COLUMNS or name.startswith((CRITERION, VARIED))


def factor_column(name: str) -> str:
    """The column of a factor: its name, ``vary.duration_s`` where another column has that."""
    return VARIED + name if is_reserved(name) else name


GRID, RANDOM, LATIN, SOBOL = METHODS = ("grid", "random", "latin_hypercube", "sobol")

#: Kinds of factors, as a file names them.
RANGE, LOG_RANGE, INTEGERS, NORMAL, CHOICES, CASES = KINDS = (
    "range", "log_range", "integers", "normal", "choices", "cases",
)  # fmt: skip

#: No share is nearer to 0 or 1: there a normal distribution has no finite value.
EDGE = 1e-12


@dataclass(frozen=True)
class Numbers:
    """Keys of a factor that draws numbers."""

    range: Annotated[tuple[float, ...], Spec("low, high: uniform")] = ()
    log_range: Annotated[tuple[float, ...], Spec("low, high: uniform logarithm", gt=0.0)] = ()
    integers: Annotated[tuple[int, ...], Spec("first, last: whole numbers, all alike")] = ()
    normal: Annotated[tuple[float, ...], Spec("mean, standard deviation")] = ()
    within: Annotated[tuple[float, ...], Spec("low, high: a normal one is cut there")] = ()
    levels: Annotated[int, Spec("values in a grid", ge=1, le=100_000)] = 5


@dataclass(frozen=True)
class Factor:
    """One thing that is varied.

    Attributes:
        name: the dotted key that is set; of cases, any name.
        kind: of :data:`KINDS`.
        labels: of choices and cases, as tables show them.
        values: of choices: what is set; of cases: keys and values that are set.
    """

    name: str
    kind: str
    numbers: Numbers = Numbers()
    labels: tuple[str, ...] = ()
    values: tuple[Any, ...] = ()

    @property
    def column(self) -> str:
        """Its column in the table."""
        return factor_column(self.name)

    @property
    def is_number(self) -> bool:
        """Whether its values are numbers, which have an order."""
        return self.kind not in (CHOICES, CASES)

    def draw(self, shares: Array) -> NDArray[Any]:
        """Values at shares in [0, 1]: numbers, or the places of choices; both (N,)."""
        shares = np.clip(shares, EDGE, 1.0 - EDGE)
        pair: Any = getattr(self.numbers, self.kind, ())
        if self.kind in (RANGE, LOG_RANGE, NORMAL):
            return np.asarray(self._distribution(pair).ppf(shares))
        first, last = pair if self.kind == INTEGERS else (0, len(self.values) - 1)
        return first + np.minimum((shares * (last - first + 1)).astype(np.int64), last - first)

    def _distribution(self, pair: Sequence[float]) -> Any:
        if self.kind == RANGE:
            return stats.uniform(pair[0], pair[1] - pair[0])
        if self.kind == LOG_RANGE:
            return stats.loguniform(*pair)
        mean, sigma = pair
        edges = [(edge - mean) / sigma for edge in self.numbers.within]
        return stats.truncnorm(*edges, mean, sigma) if edges else stats.norm(mean, sigma)

    def grid(self) -> NDArray[Any]:
        """Values of a grid, (N,): of a range both ends and even steps, of a normal quantiles."""
        count = self.numbers.levels
        if not self.is_number:
            return np.arange(len(self.values))
        if self.kind == INTEGERS:
            first, last = self.numbers.integers
            return np.unique(np.round(np.linspace(first, last, count)).astype(np.int64))
        if self.kind == NORMAL:
            return self.draw((np.arange(count) + 0.5) / count)
        low, high = getattr(self.numbers, self.kind)
        if self.kind == LOG_RANGE:
            return np.asarray(np.geomspace(low, high, count))
        return np.linspace(low, high, count)

    def probes(self) -> NDArray[Any]:
        """Values that show whether the key and its range are right, the middle first."""
        if self.is_number:
            return self.draw(np.array([0.5, 0.05, 0.95]))
        return np.arange(len(self.values))

    def shown(self, drawn: Any) -> Any:
        """What a table states of a drawn value."""
        return drawn.item() if self.is_number else self.labels[int(drawn)]

    def changes(self, drawn: Any) -> dict[str, Any]:
        """What a drawn value sets."""
        if self.is_number:
            return {self.name: drawn.item()}
        value = self.values[int(drawn)]
        return dict(value) if self.kind == CASES else {self.name: value}


def factor_from(name: str, content: Any, where: str) -> Factor:
    """A factor from its keys.

    Raises:
        InputError: naming ``where``, the key, and what is allowed.
    """
    where = f"{where}: vary: {name}"
    kinds = [kind for kind in KINDS if isinstance(content, Mapping) and kind in content]
    if len(kinds) != 1:
        raise InputError(f"{where}: allowed: one of {', '.join(KINDS)}, not {shown(content)}")
    (kind,) = kinds
    if kind in (CHOICES, CASES):
        if len(content) > 1:
            raise InputError(f"{where}: with {kind} nothing more is allowed")
        return _listed(name, kind, content[kind], where)
    numbers = from_mapping(Numbers, content, where)
    pair = getattr(numbers, kind)
    if len(pair) != 2:
        raise InputError(f"{where}: {kind}: {list(pair)}; allowed: two numbers")
    if kind == NORMAL:
        if pair[1] <= 0.0:
            raise InputError(f"{where}: normal: a deviation of {pair[1]:g}; allowed: > 0")
        if numbers.within and (len(numbers.within) != 2 or numbers.within[0] >= numbers.within[1]):
            raise InputError(f"{where}: within: {list(numbers.within)}; allowed: low, high")
    elif pair[0] >= pair[1]:
        raise InputError(f"{where}: {kind}: {list(pair)}; allowed: low, high")
    if numbers.within and kind != NORMAL:
        raise InputError(f"{where}: within: allowed with normal alone")
    return Factor(name, kind, numbers)


def _listed(name: str, kind: str, content: Any, where: str) -> Factor:
    """Choices, a list or labels with values; or cases, labels with keys and values."""
    if isinstance(content, list) and kind == CHOICES:
        content = {v if isinstance(v, str) else json.dumps(v): v for v in content}
    if not isinstance(content, Mapping) or not content:
        wanted = "a list, or labels with values" if kind == CHOICES else "labels with keys"
        raise InputError(f"{where}: {kind}: {shown(content)}; allowed: {wanted}")
    values = tuple(content.values())
    if kind == CASES:
        if is_reserved(name):
            raise InputError(f"{where}: is the name of a column of the table; give another one")
        for label, value in content.items():
            if not isinstance(value, Mapping):
                raise InputError(
                    f"{where}: cases: {label}: {shown(value)}; allowed: keys and values"
                )
        values = tuple({str(key): value for key, value in case.items()} for case in values)
    return Factor(name, kind, Numbers(), tuple(map(str, content)), values)


def shares(method: str, count: int, factors: int, seed: int) -> Array:
    """(count, factors) numbers in [0, 1) by a method that is no grid.

    Of Sobol's sequence, scrambled after Owen, the first are taken; a count that is a power of two
    is balanced (scipy.stats.qmc).
    """
    if not factors:
        return np.zeros((count, 0))
    if method == LATIN:
        return np.asarray(qmc.LatinHypercube(factors, seed=seed).random(count))
    if method == SOBOL:
        power = max(count - 1, 0).bit_length()
        return np.asarray(qmc.Sobol(factors, seed=seed).random_base2(power))[:count]
    return np.asarray(np.random.default_rng(seed).random((count, factors)))


@dataclass(frozen=True)
class Samples:
    """Drawn values of every sample.

    Attributes:
        columns: drawn values of each factor; of a grid those of its levels, else (N,).
        is_grid: whether the samples are all combinations of the columns, the last fastest.
    """

    factors: tuple[Factor, ...]
    columns: tuple[NDArray[Any], ...]
    count: int
    is_grid: bool

    def at(self, sample: int) -> list[Any]:
        """Drawn values of a sample."""
        if not self.is_grid:
            return [column[sample] for column in self.columns]
        places = np.unravel_index(sample, tuple(len(column) for column in self.columns))
        return [column[place] for column, place in zip(self.columns, places, strict=True)]


def draw(factors: Sequence[Factor], method: str, count: int, seed: int) -> Samples:
    """Samples of factors by a method.

    Args:
        factors: none: samples that differ in their seed alone.
        method: of :data:`METHODS`.
        count: how many; of a grid it follows from the levels.
    """
    if method == GRID and factors:
        grid = tuple(factor.grid() for factor in factors)
        return Samples(tuple(factors), grid, math.prod(len(g) for g in grid), True)
    found = shares(RANDOM if method == GRID else method, count, len(factors), seed)
    columns = tuple(factor.draw(found[:, i]) for i, factor in enumerate(factors))
    return Samples(tuple(factors), columns, count, False)
