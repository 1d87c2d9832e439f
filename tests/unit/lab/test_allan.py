"""Allan deviations against their definition, IEEE Std 952's formulas and noise of known figures."""

import math

import numpy as np
import pytest
from scipy import integrate, optimize, signal, stats

from quadsim.lab.sensor_check.allan import (
    FLAT_FLOOR,
    HUMP,
    HUMP_AT,
    AllanCurve,
    AllanNoise,
    allan_curve,
)
from quadsim.lab.sensor_check.allan_fit import fit_allan, select

DT_S = 0.1


def noise(seed: int, count: int, model: AllanNoise) -> np.ndarray:
    """Samples of a model, each term by its own recursion."""
    generator = np.random.default_rng(seed)
    white, steps, driven = generator.standard_normal((3, count + 1))
    kept = math.exp(-DT_S / model.instability_time_s)
    driven[1:] *= math.sqrt(1.0 - kept**2)  # the first is drawn from the stationary process
    return (
        model.white / math.sqrt(DT_S) * white[1:]
        + model.walk * math.sqrt(DT_S) * np.cumsum(steps[1:])
        + model.instability * signal.lfilter([1.0], [1.0, -kept], driven)[:-1]
    )


def curve(seed: int, count: int, model: AllanNoise) -> AllanCurve:
    return allan_curve(noise(seed, count, model), 1.0 / DT_S)


def covariances(count: int, time_s: float) -> dict[str, np.ndarray]:
    """(count, count) covariance of the samples of each term, figure 1."""
    i = np.arange(count)
    lag = np.abs(i[:, None] - i)
    return {
        "white": np.eye(count) / DT_S,
        "walk": (np.minimum(i[:, None], i) + 1) * DT_S,
        "instability": np.exp(-lag * DT_S / time_s),
    }


@pytest.mark.parametrize("time_s", [0.05, 2.0, 300.0])
@pytest.mark.parametrize("term", ["white", "walk", "instability"])
def test_variances_are_those_of_the_covariance(term, time_s):
    """Half the expected square of the difference of two neighbouring means."""
    for n in (1, 2, 5, 40):
        weight = np.repeat([-1.0 / n, 1.0 / n], n)
        expected = 0.5 * weight @ covariances(2 * n, time_s)[term] @ weight
        model = AllanNoise(instability_time_s=time_s, **{term: 1.0})
        assert model.variance(n, DT_S) == pytest.approx(expected, rel=1e-6)


def test_a_slow_wander_is_exact_where_its_terms_cancel():
    n = 3
    weight = np.repeat([-1.0 / n, 1.0 / n], n)
    lag = np.abs(np.arange(6)[:, None] - np.arange(6))
    time_s = 1e5
    # 1 - exp(-x) keeps its digits; the ones cancel as the weights' sum is zero
    expected = 0.5 * weight @ np.expm1(-lag * DT_S / time_s) @ weight
    variance = AllanNoise(instability=1.0, instability_time_s=time_s).variance(n, DT_S)
    assert variance == pytest.approx(expected, rel=1e-5)  # to first order in dt/T


def test_far_above_the_interval_the_models_are_the_standards():
    tau_s = np.array([50.0, 100.0, 400.0])
    n, time_s = tau_s / DT_S, 100.0
    q2 = 2.0 / time_s  # q_c^2 of a process of deviation 1
    bracket = 3.0 - 4.0 * np.exp(-tau_s / time_s) + np.exp(-2.0 * tau_s / time_s)
    markov = q2 * time_s**2 / tau_s * (1.0 - time_s / (2.0 * tau_s) * bracket)
    for model, expected in (
        (AllanNoise(white=2.0), 4.0 / tau_s),
        (AllanNoise(walk=2.0), 4.0 * tau_s / 3.0),
        (AllanNoise(instability=1.0, instability_time_s=time_s), markov),
    ):
        # sampling matters to the order (dt/tau)^2 and dt^2/(tau T), at most 4e-6
        np.testing.assert_allclose(model.variance(n, DT_S), expected, rtol=1e-5)


def test_the_hump_is_where_the_standard_says():
    time_s = 1000.0
    model = AllanNoise(instability=1.0, instability_time_s=time_s)
    found = optimize.minimize_scalar(
        lambda tau_s: -float(model.variance(tau_s / DT_S, DT_S)), bounds=(100.0, 1e4)
    )
    assert found.x / time_s == pytest.approx(HUMP_AT, abs=0.01)
    assert math.sqrt(-found.fun) == pytest.approx(HUMP, abs=1e-3)
    q_c = math.sqrt(2.0 / time_s)
    assert math.sqrt(-found.fun) == pytest.approx(0.437 * q_c * math.sqrt(time_s), rel=2e-3)


def test_the_flat_floor_is_that_of_flicker():
    """IEEE Std 952: a one-sided density B^2 / (2 pi f) gives the deviation 0.664 B at every tau."""

    def integrand(log_x: float) -> float:
        x = math.exp(log_x)  # pi f tau
        return 2.0 * math.sin(x) ** 4 / x**2

    # from f = 0; beyond 1e4 what is left is 3/8 / x^2, 4e-9
    variance = integrate.quad(integrand, -20.0, math.log(1e4), limit=20_000)[0] / math.pi
    assert math.sqrt(variance) == pytest.approx(FLAT_FLOOR, rel=1e-4)
    assert pytest.approx(0.664, abs=1e-3) == FLAT_FLOOR
    flat = AllanCurve(1.0, 100, np.array([1, 2]), np.array([0.7, 0.664]), np.ones(2))
    assert flat.flat_floor() == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("term", ["white", "walk", "instability"])
def test_the_spectrum_has_the_variance_of_the_model(term):
    """The integral of the density times that of the difference of two means."""
    model, n = AllanNoise(instability_time_s=2.0, **{term: 1.0}), 7
    frequency_hz = (np.arange(200_000) + 0.5) / 200_000 * 0.5 / DT_S
    phase = math.pi * frequency_hz * DT_S
    gain = 2.0 * np.sin(n * phase) ** 4 / (n * np.sin(phase)) ** 2
    variance = 2.0 * np.mean(model.density(frequency_hz, DT_S) * gain) * 0.5 / DT_S
    assert variance == pytest.approx(float(model.variance(n, DT_S)), rel=1e-6)


def test_deviations_are_their_definition():
    values = noise(1, 500, AllanNoise(white=1.0, walk=0.3))
    found = allan_curve(values, 1.0 / DT_S)
    for n, deviation in zip(found.count, found.deviation, strict=True):
        means = np.convolve(values, np.ones(n) / n, "valid")
        expected = math.sqrt(0.5 * np.mean((means[n:] - means[:-n]) ** 2))
        assert deviation == pytest.approx(expected, rel=1e-9)
    assert found.tau_s[-1] <= 500 * DT_S / 5
    np.testing.assert_allclose(found.tau_s, found.count * DT_S)


def in_bounds(hits: int, trials: int, probability: float) -> bool:
    """Whether a count lies where a binomial one does in 999 of 1000 cases."""
    low, high = stats.binom.interval(0.999, trials, probability)
    return low <= hits <= high


@pytest.mark.parametrize(
    "model",
    [
        AllanNoise(white=1.0),
        AllanNoise(walk=1.0),
        AllanNoise(instability=1.0, instability_time_s=5.0),
    ],
)
def test_intervals_hold_the_truth_in_95_of_100_recordings(model):
    seeds = range(300)
    curves = [
        allan_curve(noise(seed, 3_000, model), 1.0 / DT_S, lambda n: model.variance(n, DT_S), 2)
        for seed in seeds
    ]
    truth = np.sqrt(model.variance(curves[0].count, DT_S))
    hits = np.zeros(len(truth), int)
    for found in curves:
        low, high = found.interval()
        hits += (low <= truth) & (truth <= high)
    for inside in hits:
        # a process between white and walk counts as the nearest: its interval may be too wide
        assert in_bounds(int(inside), len(seeds), 0.95) or inside > 0.95 * len(seeds)


MODELS = {
    "white": (AllanNoise(white=1e-3), 20_000, 40),
    "white walk": (AllanNoise(white=1e-3, walk=1e-4), 20_000, 40),
    "white instability": (
        AllanNoise(white=1e-3, instability=1e-3, instability_time_s=20.0),
        20_000,
        30,
    ),
    "white walk instability": (
        AllanNoise(white=1e-3, walk=3e-5, instability=1e-3, instability_time_s=10.0),
        36_000,
        15,
    ),
}


@pytest.mark.parametrize(
    "terms",
    [
        "white walk",
        *(pytest.param(t, marks=pytest.mark.thorough) for t in MODELS if t != "white walk"),
    ],
)
def test_figures_come_back_within_their_intervals(terms):
    """Over seeds, each figure's 95 % interval holds it as often as it should."""
    model, count, seeds = MODELS[terms]
    hits: dict[str, int] = {}
    chances = []
    for seed in range(seeds):
        found = fit_allan([curve(seed, count, model)], terms.split())
        chances.append(found.chance)
        for name, estimate in found.estimates[0].items():
            inside = estimate.low <= getattr(model, name) <= estimate.high
            hits[name] = hits.get(name, 0) + inside
            assert estimate.low <= estimate.value <= estimate.high
            assert getattr(found.noises[0], name) == estimate.value
    for name, inside in hits.items():
        assert in_bounds(inside, seeds, 0.95), (name, inside)
    # the misfit is a chi-square one: its probabilities are even
    assert stats.kstest(chances, "uniform").pvalue > 1e-3


def test_the_interval_of_white_noise_is_as_narrow_as_can_be():
    """The deviation of n independent samples is known to 1 / sqrt(2 n), and no better."""
    count = 50_000
    estimate = fit_allan([curve(5, count, AllanNoise(white=1.0))], ["white"]).estimates[0]["white"]
    width = 0.5 * (estimate.high - estimate.low) / 1.96
    assert width == pytest.approx(1.0 / math.sqrt(2.0 * count), rel=0.1)


def test_axes_share_their_correlation_time():
    models = [
        AllanNoise(white=1e-3, instability=size, instability_time_s=20.0)
        for size in (1e-3, 2e-3, 0.5e-3)
    ]
    curves = [curve(10 + i, 20_000, model) for i, model in enumerate(models)]
    together = fit_allan(curves, ["white", "instability"])
    assert len({noise.instability_time_s for noise in together.noises}) == 1
    shared = together.estimates[0]["instability_time_s"]
    assert shared.low < 20.0 < shared.high
    alone = fit_allan(curves[:1], ["white", "instability"]).estimates[0]["instability_time_s"]
    assert math.log(shared.high / shared.low) < math.log(alone.high / alone.low)
    for model, estimates in zip(models, together.estimates, strict=True):
        assert estimates["instability"].low < model.instability < estimates["instability"].high


def test_a_term_that_is_not_there_is_not_told_from_zero():
    found = fit_allan([curve(3, 20_000, AllanNoise(white=1e-3))], ["white", "walk"])
    walk = found.estimates[0]["walk"]
    assert walk.low == 0.0
    # at the longest tau of 400 s white noise has 5e-5: a walk of 1e-5 would have 1.2e-4
    assert 0.0 < walk.high < 1e-5
    assert found.estimates[0]["white"].value == pytest.approx(1e-3, rel=0.02)


@pytest.mark.parametrize(
    ("terms", "model"),
    [
        ("white", AllanNoise(white=1e-3)),
        ("white walk", AllanNoise(white=1e-3, walk=1e-4)),
        ("white instability", AllanNoise(white=1e-3, instability=1e-3, instability_time_s=10.0)),
    ],
)
def test_the_terms_that_are_there_are_chosen(terms, model):
    curves = [curve(seed, 36_000, model) for seed in (7, 8, 9)]
    assert select(curves) == tuple(terms.split())


def test_the_shortest_averages_can_be_left_out():
    found = curve(2, 1_000, AllanNoise(white=1.0))
    part = found.from_tau(1.0)
    assert part.tau_s[0] == pytest.approx(1.0)
    assert len(part.count) < len(found.count)
    octaves = found.octaves()
    assert (octaves.count[1:] >= 2 * octaves.count[:-1]).all()


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="3 samples are too few"):
        allan_curve([0.0, 1.0, 0.5], 10.0)
