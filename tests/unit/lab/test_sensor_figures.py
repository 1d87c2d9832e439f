"""Intervals hold the truth as often as they should; counts are found; nothing is invented."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import signal, stats

from quadsim.lab.sensor_check.figures import (
    WANTED,
    MeasuredFigure,
    Specified,
    consistency_figure,
    count_step,
    independent,
    trials_for_deviation,
    trials_for_radius,
    trials_for_share,
    trials_for_squares,
)

SEEDS = 400


def markov(seed: int, count: int, kept: float) -> np.ndarray:
    generator = np.random.default_rng(seed)
    driven = math.sqrt(1.0 - kept**2) * generator.standard_normal(count)
    driven[0] = generator.standard_normal()
    return np.asarray(signal.lfilter([1.0], [1.0, -kept], driven))


def normal(seed: int, count: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count)


def said(value: float) -> Specified:
    return Specified("figure", "1", value, 0.95)


def mean_square(seed: int) -> MeasuredFigure:
    squares = normal(seed) ** 2
    return consistency_figure("errors", float(squares.mean()), len(squares))


#: How each interval is made from a seed; the truth is what is said.
INTERVALS: dict[str, Callable[[int], MeasuredFigure]] = {
    "deviation": lambda seed: said(3.0).deviation(1.5 * normal(seed) + 7.0, 2.0),
    "mean": lambda seed: said(-4.0).mean(0.5 * normal(seed, 20) + 2.0, -2.0),
    "share": lambda seed: said(0.3).share(int((normal(seed, 500) < -0.5244005).sum()), 500),
    "scaled share": lambda seed: said(0.6).share(
        int((normal(seed, 500) < -0.5244005).sum()), 500, 2.0
    ),
    "radius of two axes": lambda seed: said(math.sqrt(2.0 * math.log(2.0))).radius(
        np.hypot(normal(seed), normal(seed + 10_000)), 0.5
    ),
    "bound of one axis": lambda seed: said(1.959964).radius(np.abs(normal(seed, 600)), 0.95),
    "time": lambda seed: said(5.0).persistence(markov(seed, 2000, math.exp(-0.8)), 4.0),
    "instability": lambda seed: said(1.0).instability(markov(seed, 500, math.exp(-0.8)), 4.0, 5.0),
    "consistency": mean_square,
}


@pytest.mark.parametrize("name", INTERVALS)
def test_intervals_hold_the_truth_in_95_of_100_cases(name):
    figures = [INTERVALS[name](seed) for seed in range(SEEDS)]
    hits = sum(figure.ok for figure in figures)
    low, high = stats.binom.interval(0.999, SEEDS, 0.95)
    # shares and order statistics are discrete: their intervals hold at least as often
    assert hits >= low
    assert hits <= high or name in ("share", "scaled share", "bound of one axis")
    for figure in figures:
        assert figure.low <= figure.measured <= figure.high
        assert figure.ok == (figure.low <= figure.specified <= figure.high)


def test_shares_at_their_ends():
    none, all_of_them = said(0.0).share(0, 100), said(1.0).share(100, 100)
    assert (none.low, all_of_them.high) == (0.0, 1.0)
    # the rule of three for 97.5 %: 1 - 0.025^(1/100)
    assert none.high == pytest.approx(1.0 - 0.025**0.01, rel=1e-9)
    assert all_of_them.low == pytest.approx(0.025**0.01, rel=1e-9)


@pytest.mark.parametrize("confidence", [0.95, 0.9999])
def test_so_many_trials_make_intervals_narrow_enough(confidence):
    count = trials_for_deviation(confidence)
    assert Specified("", "", 1.0, confidence).spread(1.0, count).half_width < WANTED
    squares = trials_for_squares(confidence)
    assert consistency_figure("", 1.0, squares, confidence).half_width < WANTED
    for probability in (0.5, 0.01):
        trials = trials_for_share(probability, confidence)
        found = Specified("", "", probability, confidence).share(
            round(probability * trials), trials
        )
        assert found.half_width < WANTED
    for part in (0.5, 0.95):
        count = trials_for_radius(part, confidence)
        for axes in (1, 2):
            distances = np.sqrt(stats.chi2.ppf((np.arange(count) + 0.5) / count, axes))
            assert Specified("", "", 1.0, confidence).radius(distances, part).half_width < WANTED


def test_a_certain_figure_has_no_interval():
    figure = said(2.0).exactly(2.0 + 1e-12)
    assert figure.ok
    assert figure.half_width == 0.0
    assert (figure.low, figure.high) == (figure.measured, figure.measured)
    assert not said(2.0).exactly(2.001).ok
    assert said(2.0).exactly(2.001, 0.01).ok
    assert not said(2.0).exactly(math.nan).ok


@pytest.mark.parametrize(
    ("step", "about", "kind"),
    [(0.016, 101_325.0, float), (3e-7, 2e-5, float), (0.002, 0.6, np.float32), (1.0, 0.0, float)],
)
def test_counts_are_found(step, about, kind):
    values = step * np.round((about + 1.5 * step * normal(1, 2000)) / step)
    found = count_step(values.astype(kind))
    assert found == pytest.approx(step, rel=1e-6)


def test_where_there_are_no_counts_none_are_found():
    assert count_step(normal(2)) == 0.0
    assert count_step(np.full(10, 3.0)) == 0.0
    mixed = np.array([0.0, 1.0, 2.0, 3.5, 4.1])
    assert count_step(mixed) == 0.0


def test_every_second_count_is_no_finer_than_it_looks():
    assert count_step(np.array([0.0, 0.2, 0.6, 1.0])) == pytest.approx(0.2)


def test_errors_that_last_are_fewer_than_they_seem():
    assert independent(500, 0.9, 0.0) == pytest.approx(500.0)
    assert independent(500, 1.0, 1.0) == pytest.approx(1.0)
    # a Gauss-Markov process: n (1 - c^2) / (1 + c^2), as n grows
    kept = math.exp(-0.1)
    expected = 100_000 * (1.0 - kept**2) / (1.0 + kept**2)
    assert independent(100_000, kept, 1.0) == pytest.approx(expected, rel=1e-3)
    # against many: variance of the mean square of errors half of which last
    means = []
    for seed in range(2000):
        lasting = markov(seed, 50, 0.95)
        errors = math.sqrt(0.5) * (lasting + normal(seed + 50_000, 50))
        means.append(float(np.mean(errors**2)))
    freedom = 2.0 / float(np.var(means))
    # a variance from 2000 values, skewed: within 5 times 1 / sqrt(1000)
    assert independent(50, 0.95, 0.5) == pytest.approx(freedom, rel=0.16)
