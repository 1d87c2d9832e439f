"""Turbulence against the published spectra, in frequency, in time and by height."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad
from spectra import welch

from quadsim.base.compiled import kernel
from quadsim.base.parameters import pack
from quadsim.world.air.wind import (
    VON_KARMAN_LENGTHS,
    VON_KARMAN_SHARES,
    WIND_STATE,
    standard_scales,
    transition,
    white_width,
    wind_start,
    wind_step,
)
from quadsim.world.air.wind_parameters import WindParams
from quadsim.world.build import no_wind
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

pytestmark = pytest.mark.many

FOOT_M = 0.3048
AXES = ("along", "across", "up")
#: Two-sided chance of a false alarm of each comparison; there are some 200 in this file.
CHANCE = 1e-6


def dryden(wavenumber: Array, along: bool) -> Array:
    """MIL-F-8785C: spectrum of L Omega for sigma = 1, L = 1; its integral from 0 is 1."""
    square = np.square(wavenumber)
    if along:
        return 2.0 / np.pi / (1.0 + square)
    return 1.0 / np.pi * (1.0 + 3.0 * square) / np.square(1.0 + square)


def von_karman(wavenumber: Array, along: bool) -> Array:
    """The same of von Karman."""
    square = np.square(1.339 * wavenumber)
    if along:
        return 2.0 / np.pi / (1.0 + square) ** (5.0 / 6.0)
    return 1.0 / np.pi * (1.0 + 8.0 / 3.0 * square) / (1.0 + square) ** (11.0 / 6.0)


SPECTRA = {"dryden": dryden, "von_karman": von_karman}


@kernel
def fly(
    states: Any, environments: Any, table: Array, p_W: Any, v_W: Any, period_ns: int, white: Array,
    air: Array,
) -> None:  # fmt: skip
    """The air's velocity at a vehicle that flies straight on, at the end of each period."""
    dt_s = period_ns * 1e-9
    for k in range(air.shape[0]):
        at_W = (p_W[0] + k * dt_s * v_W[0], p_W[1] + k * dt_s * v_W[1], p_W[2])
        now = wind_step(
            states[0], environments[0], table, at_W, v_W, 0.0, (k + 1) * period_ns, dt_s, white[k]
        )
        air[k, 0], air[k, 1], air[k, 2] = now


def blown(
    world: EnvironmentParams,
    period_s: float,
    count: int,
    v_W: tuple[float, float, float] = (0.0, 0.0, 0.0),
    height_m: float = 50.0,
    seed: int = 1,
    states: Any = None,
) -> Array:
    """(count, 3) velocity of the air at a vehicle."""
    if states is None:
        states = np.zeros(1, WIND_STATE)
        wind_start(states[0])
    white = np.random.default_rng(seed).standard_normal((count, white_width(world.wind)))
    air = np.zeros((count, 3))
    environments = np.array([pack(world)])
    fly(states, environments, no_wind(), (0.0, 0.0, height_m), v_W, round(period_s * 1e9), white,
        air)  # fmt: skip
    return air


def windy(speed_mps: float = 8.0, **wind: Any) -> EnvironmentParams:
    return EnvironmentParams(wind_W_mps=(speed_mps, 0.0, 0.0), wind=WindParams(**wind))


@pytest.mark.parametrize("tau", [1e-7, 1e-4, 9.9e-4, 1.01e-3, 0.05, 1.0, 20.0])
def test_the_step_is_the_exact_solution(tau):
    keep, pass_on, g11, g21, g22 = transition(tau)
    assert (keep, pass_on) == pytest.approx((math.exp(-tau), tau * math.exp(-tau)), rel=1e-14)
    found = (g11 * g11, g11 * g21, g21 * g21 + g22 * g22)
    for power, value in enumerate(found):  # noise of intensity 2 T through exp(-s) and s exp(-s)
        exact = quad(lambda s, n=power: 2.0 * s**n * math.exp(-2.0 * s), 0.0, tau, epsabs=0.0)[0]
        assert value == pytest.approx(exact, rel=3e-6)  # what the series leaves away below 1e-3


@pytest.mark.parametrize("along", [True, False])
def test_four_dryden_spectra_make_von_karmans(along):
    shares = np.array(VON_KARMAN_SHARES)
    lengths = np.array(VON_KARMAN_LENGTHS)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    wavenumber = np.concatenate([[0.0], np.geomspace(1e-3, 300.0, 2000)])[:, None]
    mixture = (shares * lengths * dryden(lengths * wavenumber, along)).sum(axis=1)
    ratio = mixture / von_karman(wavenumber[:, 0], along)
    assert np.abs(ratio - 1.0).max() < 0.02
    beyond = (shares * lengths * dryden(lengths * 3000.0, along)).sum()
    assert beyond < von_karman(np.float64(3000.0), along)


@pytest.mark.parametrize("model", ["dryden", "von_karman"])
def test_handbook_1797_comes_to_the_same(model):
    """Its spectra across and upwards, with 12 for 3, 4 for 1, and lengths half as long."""
    w, half = np.geomspace(1e-3, 1e3, 100), 0.5
    if model == "dryden":
        x2 = np.square(half * w)
        theirs = 2.0 * half / np.pi * (1.0 + 12.0 * x2) / np.square(1.0 + 4.0 * x2)
    else:
        x2 = np.square(2.678 * half * w)
        theirs = 2.0 * half / np.pi * (1.0 + 8.0 / 3.0 * x2) / (1.0 + x2) ** (11.0 / 6.0)
    np.testing.assert_allclose(theirs, SPECTRA[model](w, False), rtol=1e-12)


@pytest.mark.parametrize("model", ["dryden", "von_karman"])
def test_spectrum_of_each_axis(model):
    sigma, length, speed = (1.5, 1.2, 0.8), (40.0, 30.0, 20.0), 8.0
    world = windy(speed, turbulence=model, sigma_mps=sigma, length_m=length)
    period_s, segment_s = 0.01, 512.0
    found = welch(blown(world, period_s, 1 << 21), 1.0 / period_s, 1.0 / segment_s)
    # above four bins, where the window's leakage has died out
    edges = np.geomspace(4.5 / segment_s, 9.5, 16)  # 300 / L along the wind
    for axis in range(3):
        scale_s = length[axis] / speed
        theory = 0.0
        for k in range(-20, 21):  # sampled: what lies above half the rate is folded down
            w = 2.0 * np.pi * np.abs(found.frequency_hz + k / period_s)
            theory += (
                sigma[axis] ** 2 * 2.0 * np.pi * scale_s * SPECTRA[model](scale_s * w, axis == 0)
            )
        for low, high in itertools.pairwise(edges):
            inside = (found.frequency_hz >= low) & (found.frequency_hz < high)
            # a Hann window ties a bin to its neighbours: 1.5 bins wide
            freedom = found.freedom * max(inside.sum() / 1.5, 1.0)
            bounds = stats.chi2.ppf([CHANCE / 2, 1.0 - CHANCE / 2], freedom) / freedom
            if model == "von_karman":
                bounds += (-0.035, 0.02)  # the fit; beyond 300 / L less of it is folded down
            ratio = float(np.mean(found.density[inside, axis] / theory[inside]))
            assert bounds[0] < ratio < bounds[1], (AXES[axis], low, high)


@pytest.mark.parametrize("model", ["dryden", "von_karman"])
@pytest.mark.parametrize("period_s", [0.002, 0.1, 3.0, 60.0])
def test_variance_does_not_depend_on_the_period(model, period_s):
    sigma, length_m, speed, count = (1.5, 1.2, 0.8), 40.0, 80.0, 400_000
    world = windy(speed, turbulence=model, sigma_mps=sigma, length_m=(length_m,) * 3)
    air = blown(world, period_s, count) - (speed, 0.0, 0.0)
    # Bartlett: the variance of a mean square is 2 sigma^4 / n, n = time over the integral of the
    # squared correlation, which is below the scale's time L/V
    n = min(count, count * period_s / (1.3 * length_m / speed))
    limit = stats.norm.isf(CHANCE / 2) * math.sqrt(2.0 / n)
    np.testing.assert_allclose(np.mean(air**2, axis=0) / np.square(sigma), 1.0, atol=limit)


@pytest.mark.parametrize("height_ft", [5.0, 10.0, 100.0, 300.0, 1000.0, 3000.0])
def test_lengths_and_intensities_by_height(height_ft):
    """MIL-F-8785C, figures 10 and 11, in feet: held below 10 and above 1000 ft."""
    h = min(max(height_ft, 10.0), 1000.0)
    l_u, l_w = h / (0.177 + 0.000823 * h) ** 1.2 * FOOT_M, h * FOOT_M
    w20, speed, count = 15.0, 20.0, 100_000
    sigma_w = 0.1 * w20
    sigma = np.array([sigma_w / (0.177 + 0.000823 * h) ** 0.4] * 2 + [sigma_w])
    world = windy(speed, turbulence="dryden", w20_mps=w20)
    for axis, length in ((0, l_u), (1, l_u), (2, l_w)):
        tau = 0.7
        period_s = tau * length / speed
        air = blown(world, period_s, count, height_m=height_ft * FOOT_M) - (speed, 0.0, 0.0)
        values = air[:, axis] / sigma[axis]
        # the correlation after one period, exp(-tau) along and exp(-tau) (1 - tau/2) across
        expected = math.exp(-tau) * (1.0 if axis == 0 else 1.0 - tau / 2.0)
        limit = stats.norm.isf(CHANCE / 2) * math.sqrt(2.0 * 1.6 / count)
        assert np.mean(values**2) == pytest.approx(1.0, abs=limit)
        assert np.mean(values[1:] * values[:-1]) == pytest.approx(expected, abs=limit)


def test_landmarks_of_the_standard():
    across_m, up_m, ratio = standard_scales(1000.0 * FOOT_M)  # isotropic at 1000 ft
    assert (across_m, up_m, ratio) == pytest.approx((304.8, 304.8, 1.0), rel=1e-12)
    across_m, up_m, ratio = standard_scales(20.0 * FOOT_M)
    # sigma_u = 0.1 W20 / 0.19346^0.4, L_u = 20 ft / 0.19346^1.2
    assert (across_m, up_m, ratio) == pytest.approx((43.77, 6.096, 1.929), rel=1e-3)


def test_the_first_value_is_drawn_from_what_has_gone_on_for_ever():
    world = windy(turbulence="von_karman", sigma_mps=(1.0, 1.0, 1.0), length_m=(50.0,) * 3)
    first = np.array([blown(world, 0.002, 1, seed=seed)[0] for seed in range(1500)])
    limit = stats.norm.isf(CHANCE / 2) * math.sqrt(2.0 / len(first))
    np.testing.assert_allclose(np.mean((first - (8.0, 0.0, 0.0)) ** 2, axis=0), 1.0, atol=limit)


@pytest.mark.parametrize(
    ("sigma", "direction"),
    [
        ((2.0, 0.0, 0.0), (0.6, 0.8, 0.0)),
        ((0.0, 2.0, 0.0), (-0.8, 0.6, 0.0)),
        ((0.0, 0.0, 2.0), (0.0, 0.0, 1.0)),
    ],
)
def test_axes_are_those_of_the_wind(sigma, direction):
    wind = WindParams(turbulence="dryden", sigma_mps=sigma, length_m=(30.0, 30.0, 30.0))
    world = EnvironmentParams(wind_W_mps=(6.0, 8.0, 1.0), wind=wind)
    gusts = blown(world, 0.5, 2000) - (6.0, 8.0, 1.0)
    assert np.std(gusts @ direction) > 1.5
    aside = gusts - np.outer(gusts @ direction, direction)
    np.testing.assert_allclose(aside, 0.0, atol=1e-12)


def test_eddies_pass_at_the_speed_through_the_air():
    wind = {"turbulence": "dryden", "sigma_mps": (1.0, 1.0, 1.0), "length_m": (30.0,) * 3}
    hovering = blown(windy(8.0, **wind), 0.05, 500) - (8.0, 0.0, 0.0)
    flying = blown(windy(0.0, **wind), 0.05, 500, v_W=(-8.0, 0.0, 0.0))
    np.testing.assert_allclose(flying, hovering, atol=1e-12)
    # carried along with the wind, as in still air: the deviation takes the place of the speed
    carried = blown(windy(8.0, **wind), 0.05, 500, v_W=(8.0, 0.0, 0.0)) - (8.0, 0.0, 0.0)
    slow = blown(windy(0.0, **wind), 0.05, 500, v_W=(0.0, 1.0, 0.0))
    np.testing.assert_allclose(carried, slow, atol=1e-12)
    assert np.abs(np.diff(carried, axis=0)).max() < 0.5 * np.abs(np.diff(hovering, axis=0)).max()


def test_without_a_figure_the_mean_wind_20_ft_up_sets_the_intensity():
    given = windy(9.0, turbulence="dryden", w20_mps=9.0)
    np.testing.assert_allclose(
        blown(windy(9.0, turbulence="dryden"), 0.1, 50), blown(given, 0.1, 50)
    )
    shear = {"shear": "log", "reference_height_m": 50.0, "turbulence": "dryden"}
    share = math.log(20.0 * FOOT_M / 0.03) / math.log(50.0 / 0.03)
    np.testing.assert_allclose(
        blown(windy(9.0, **shear), 0.1, 50),
        blown(windy(9.0, **shear, w20_mps=9.0 * share), 0.1, 50),
        rtol=1e-9,
    )
    calm = blown(windy(0.0, turbulence="dryden"), 0.1, 50)
    assert not calm.any()


@pytest.mark.parametrize("change", ["faster", "turned", "reversed"])
def test_a_change_of_the_wind_makes_no_jump(change):
    """The field goes on: one period of 2 ms changes it by a few sqrt(2 dt V / L) of sigma."""
    wind = WindParams(turbulence="von_karman", sigma_mps=(2.0, 0.5, 1.0), length_m=(50.0,) * 3)
    after_W = {"faster": (9.0, 0.0, 0.0), "turned": (0.0, 8.0, 0.0), "reversed": (-8.0, 0.0, 0.0)}
    states = np.zeros(1, WIND_STATE)
    wind_start(states[0])
    before = EnvironmentParams(wind_W_mps=(8.0, 0.0, 0.0), wind=wind)
    after = EnvironmentParams(wind_W_mps=after_W[change], wind=wind)
    first = blown(before, 0.002, 1000, states=states) - before.wind_W_mps
    second = blown(after, 0.002, 1000, seed=2, states=states) - after.wind_W_mps
    typical = np.std(np.diff(first, axis=0), axis=0).max()
    assert np.abs(second[0] - first[-1]).max() < 6.0 * typical
    # ten lengths later the axes are the new wind's
    end = blown(after, 0.5, 400, seed=3, states=states)[150:] - after.wind_W_mps
    along = np.array(after.wind_W_mps) / np.linalg.norm(after.wind_W_mps)
    across = np.array([-along[1], along[0], 0.0])
    assert np.std(end @ along) > 2.0 * np.std(end @ across)


def test_the_axes_turn_by_the_shortest_way():
    wind = WindParams(turbulence="dryden", sigma_mps=(1.0, 1.0, 1.0), length_m=(50.0,) * 3)
    states = np.zeros(1, WIND_STATE)
    wind_start(states[0])
    blown(EnvironmentParams(wind_W_mps=(8.0, 0.0, 0.0), wind=wind), 0.1, 2, states=states)
    nearly_back = EnvironmentParams(wind_W_mps=(-8.0, 0.4, 0.0), wind=wind)
    for _ in range(30):  # 24 lengths
        blown(nearly_back, 0.5, 10, states=states)
        east, north = states[0]["turbulence"]["along_W"]
        assert abs(north) <= 0.05  # which way along the wind they point is all one
    assert north / east == pytest.approx(-0.05, abs=0.002)


def test_height_and_speed_may_change_under_way():
    w20, count, period_s = 15.0, 100_000, 2.0
    states = np.zeros(1, WIND_STATE)
    wind_start(states[0])
    low = windy(5.0, turbulence="dryden", w20_mps=w20)
    blown(low, period_s, 10, height_m=10.0, states=states)
    high = windy(20.0, turbulence="dryden", w20_mps=w20)
    air = blown(high, period_s, count, height_m=60.0, states=states) - (20.0, 0.0, 0.0)
    h = 60.0 / FOOT_M
    shape = 0.177 + 0.000823 * h
    tau = 20.0 * period_s / (60.0 / shape**1.2)
    limit = stats.norm.isf(CHANCE / 2) * math.sqrt(2.0 * 4.0 / count)
    along = air[:, 0] / (0.1 * w20 / shape**0.4)
    assert np.mean(along**2) == pytest.approx(1.0, abs=limit)
    assert np.mean(along[1:] * along[:-1]) == pytest.approx(math.exp(-tau), abs=limit)
    blown(windy(20.5, turbulence="dryden", w20_mps=w20), period_s, 1, height_m=61.5, states=states)
    tuned = states[0]["turbulence"]
    assert tuned["speed_mps"] == pytest.approx(20.5, rel=0.01)
    assert tuned["height_m"] == pytest.approx(61.5, rel=0.01)


def test_the_same_numbers_give_the_same_bits():
    world = windy(turbulence="von_karman", w20_mps=10.0)
    assert blown(world, 0.002, 100).tobytes() == blown(world, 0.002, 100).tobytes()
    assert blown(world, 0.002, 100).tobytes() != blown(world, 0.002, 100, seed=2).tobytes()
