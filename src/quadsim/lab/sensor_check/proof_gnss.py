"""Experiments for a GNSS receiver: every figure of its file, one at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from quadsim.lab.sensor_check.allan import degrees_of_freedom
from quadsim.lab.sensor_check.bench import HEIGHT_M, alone
from quadsim.lab.sensor_check.figures import (
    WANTED,
    Figure,
    Said,
    trials_for_deviation,
    trials_for_radius,
    trials_for_squares,
)
from quadsim.lab.sensor_check.proof import Proof, timing

Array = NDArray[np.float64]

#: What an accuracy says: the part of errors within it, or None: a root mean square, which is this
#: times the deviation of an axis.
HORIZONTAL = {
    "sigma": 1.0,
    "cep": 0.5,
    "drms": math.sqrt(2.0),
    "2drms": math.sqrt(8.0),
    "r95": 0.95,
}
ONE_AXIS = {"sigma": 1.0, "r50": 0.5, "r95": 0.95}
PARTS = ("cep", "r50", "r95")

#: As of :mod:`quadsim.lab.sensor_check.proof_imu`.
WANDER_STEP, WANDER_PRECISION = 0.8, 2.49

#: The dilution of precision in a file is that of skies like it, to this part of it.
TYPICAL = 0.1

#: Switch-ons over which skies are judged.
SKIES = 2000


def plan(proof: Proof) -> None:
    """Plan all that can be measured of a receiver."""
    timing(proof)
    _accuracy(proof, "horizontal_accuracy_m", "horizontal_measure", HORIZONTAL, [0, 1])
    _accuracy(proof, "vertical_accuracy_m", "vertical_measure", ONE_AXIS, [2])
    _velocity(proof)
    _correlation(proof)
    _sky(proof)
    _events(proof, "outage")
    _events(proof, "multipath")
    _multipath_size(proof)
    _first_fix(proof)
    _arm(proof)
    _covariance(proof)


def _errors(proof: Proof, params: Any, name: str, count: int, dt_s: float | None = None) -> Array:
    """(count, 3) errors of the position."""
    samples = proof.bench.run(params, name, count, dt_s=dt_s)
    return np.asarray(samples["p_W"] - (0.0, 0.0, HEIGHT_M))


def judged(said: Said, errors: Array, measure: str, factor: float) -> Figure:
    """An accuracy as the data sheet measures it: a radius, or a root mean square.

    Args:
        said: what the file says.
        errors: (N, axes) independent errors.
        measure: a key of :data:`HORIZONTAL` or :data:`ONE_AXIS`.
        factor: its value there.
    """
    if measure in PARTS:
        return said.radius(np.hypot.reduce(errors, axis=1), factor)
    return said.spread(float(np.mean(errors**2)), errors.size, factor)


def _accuracy(
    proof: Proof, name: str, measure: str, factors: dict[str, float], axes: list[int]
) -> None:
    word = proof.of(measure)
    factor = factors[word]

    def measured(confidence: float) -> list[Figure]:
        count = trials_for_deviation(confidence)
        if word in PARTS:
            count = trials_for_radius(factor, confidence)
        errors = _errors(proof, alone(proof.params, name, measure), name, count)[:, axes]
        said = replace(proof.said(name, confidence), name=f"{name} ({word})")
        return [judged(said, errors, word, factor)]

    if proof.is_set(name):
        proof.add([name, measure], 1, measured)


def _velocity(proof: Proof) -> None:
    """Along a level axis, and how much worse the vertical one is."""
    name, measure, factor = (
        "velocity_accuracy_mps",
        "velocity_measure",
        "vertical_velocity_factor",
    )
    word = proof.of(measure)

    def errors(count: int) -> Array:
        params = alone(proof.params, name, measure, factor)
        return np.asarray(proof.bench.run(params, name, count)["v_W"])

    def level(confidence: float) -> list[Figure]:
        said = replace(proof.said(name, confidence), name=f"{name} ({word})")
        count = trials_for_deviation(confidence)
        if word in PARTS:
            count = trials_for_radius(ONE_AXIS[word], confidence)
        return [judged(said, errors(count)[:, :1], word, ONE_AXIS[word])]

    def vertical(confidence: float) -> list[Figure]:
        # a ratio of two variances: Snedecor's F, four times as many for the same precision
        count = trials_for_squares(confidence)
        found = errors(count)
        said = proof.said(factor, confidence)
        level2, up2 = float(np.mean(found[:, :2] ** 2)), float(np.mean(found[:, 2] ** 2))
        ratio = math.sqrt(up2 / level2)
        ends = stats.f.ppf([1.0 - said.tail, said.tail], count, 2 * count)
        return [said.within(ratio, *(ratio / np.sqrt(ends)))]

    if proof.is_set(name):
        proof.add([name, measure], 1, level)
    if proof.is_set(name) and proof.is_set(factor):
        proof.add([factor], 1, vertical)


def _correlation(proof: Proof) -> None:
    """How long the lasting part lasts, and how large it is."""
    share, time = "correlated_share", "correlation_time_s"
    unit = {"horizontal_accuracy_m": 1.0, "vertical_accuracy_m": 1.0}

    def lasting(confidence: float) -> list[Figure]:
        time_s = proof.of(time)
        z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
        count = math.ceil((1.25 * z * WANDER_PRECISION / WANTED) ** 2)
        dt_s = WANDER_STEP * time_s
        params = alone(proof.params, time, correlated_share=1.0, **unit)
        errors = _errors(proof, params, time, count, dt_s)[:, 0]
        return [proof.said(time, confidence).persistence(errors, dt_s)]

    def part(confidence: float) -> list[Figure]:
        # half the mean square of the steps is what does not last, and what of the rest is lost
        count = trials_for_squares(confidence)
        params = alone(proof.params, share, time, **unit)
        steps = np.diff(_errors(proof, params, share, count + 1), axis=0)
        kept = math.exp(-1.0 / (params.rate_hz * proof.of(time)))
        freedom = 3.0 * degrees_of_freedom(0, 1, count + 2)
        whole = proof.said(share, confidence).spread(0.5 * float(np.mean(steps**2)), freedom)
        ends = ((1.0 - value**2) / kept for value in (whole.measured, whole.high, whole.low))
        return [proof.said(share, confidence).within(*ends)]

    if proof.is_set(share):
        proof.add([time], 1, lasting)
        proof.add([share], 1, part)


def _sky(proof: Proof) -> None:
    """Satellites that it sees over open ground, and the dilution that skies like that have."""
    names = ("satellites", "elevation_mask_deg", "hdop", "vdop")

    def measure() -> list[Figure]:
        # NaN without a fix is no dilution
        samples = proof.bench.switch_on(alone(proof.params, *names), "sky", SKIES)[:, 0]
        fixed = samples[samples["status"] >= 0]
        figures = [proof.said("satellites").exactly(float(np.median(samples["satellites"])))]
        for name in ("hdop", "vdop"):
            typical = float(np.median(fixed[name]))
            figures.append(proof.said(name).exactly(typical, TYPICAL * proof.of(name)))
        return figures

    if proof.of("satellites") > 0:
        proof.certain(names, measure)


def _events(proof: Proof, what: str) -> None:
    """How often something begins, and how long it lasts: a two-state Markov process."""
    rate, mean = f"{what}_rate_hz", f"{what}_mean_s"

    def measure(confidence: float) -> list[Figure]:
        rate_hz, mean_s = proof.of(rate), proof.of(mean)
        dt_s = 0.5 / (rate_hz + 1.0 / mean_s)
        z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
        onsets = (2.5 * z / WANTED) ** 2
        count = math.ceil(onsets * (1.0 / rate_hz + mean_s) / dt_s)
        params = alone(proof.params, rate, mean)
        if what == "multipath":
            params = replace(params, multipath_sigma_m=1.0)
        samples = proof.bench.run(params, what, count, dt_s=dt_s)
        on = samples["status"] < 0 if what == "outage" else samples["p_W"][:, 0] != 0.0
        return _markov(proof, rate, mean, on, dt_s, confidence)

    if proof.of(rate) > 0.0 and proof.of(mean) > 0.0:
        proof.add([rate, mean], 2, measure)


def _markov(
    proof: Proof, rate: str, mean: str, on: NDArray[np.bool_], dt_s: float, confidence: float
) -> list[Figure]:
    """Rate and mean time from the chances of the sampled chain, with intervals to first order."""
    before, after = on[:-1], on[1:]
    begins, ends = float(after[~before].mean()), float((~after[before]).mean())
    outside, inside = int((~before).sum()), int(before.sum())

    def figures(p: float, q: float) -> Array:
        change = -math.log(1.0 - p - q) / dt_s
        return np.array([change * p / (p + q), (p + q) / (change * q)])

    found = figures(begins, ends)
    variance = np.zeros(2)
    for k, (chance, trials) in enumerate(((begins, outside), (ends, inside))):
        shift = 1e-4 * chance
        moved = figures(begins + shift * (k == 0), ends + shift * (k == 1))
        variance += ((moved - found) / shift) ** 2 * chance * (1.0 - chance) / trials
    z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
    half = z * np.sqrt(variance)
    return [
        proof.said(name, confidence).within(found[i], found[i] - half[i], found[i] + half[i])
        for i, name in enumerate((rate, mean))
    ]


def _multipath_size(proof: Proof) -> None:
    """Deviation of the offsets, one for each time that it begins."""
    names = ("multipath_rate_hz", "multipath_mean_s", "multipath_sigma_m")

    def measure(confidence: float) -> list[Figure]:
        rate_hz, mean_s = proof.of(names[0]), proof.of(names[1])
        wanted = trials_for_deviation(confidence)
        dt_s = 0.2 * mean_s
        count = math.ceil(2.0 * wanted * (1.0 / rate_hz + mean_s) / dt_s)
        errors = _errors(proof, alone(proof.params, *names), names[2], count, dt_s)[:, 0]
        offsets = np.unique(errors[errors != 0.0])
        return [proof.said(names[2], confidence).deviation(offsets)]

    if all(proof.of(name) > 0.0 for name in names):
        proof.add([names[2]], 1, measure)


def _first_fix(proof: Proof) -> None:
    """How long after switch-on the first fix comes."""
    name = "first_fix_s"

    def measure() -> list[Figure]:
        rate_hz = proof.params.rate_hz
        count = math.ceil(proof.of(name) * rate_hz) + 2
        samples = proof.bench.run(alone(proof.params, name), name, count)
        first = int(np.argmax(samples["status"] >= 0))
        return [proof.said(name).exactly((first + 1) / rate_hz, 1.0 / rate_hz)]

    if proof.is_set(name):
        proof.certain([name], measure)


def _arm(proof: Proof) -> None:
    """Where the antenna is."""
    name = "position_B_m"

    def measure() -> list[Figure]:
        found = _errors(proof, alone(proof.params, name), name, 1)[0]
        return [proof.said(name, axis=i).exactly(found[i], 1e-12) for i in range(3)]

    if proof.is_set(name):
        proof.certain([name], measure)


def _covariance(proof: Proof) -> None:
    """What messages say against what is wrong: one fix of each of many switch-ons."""
    params = replace(proof.params, position_B_m=(0.0, 0.0, 0.0), first_fix_s=0.0)

    def measure(confidence: float) -> list[Figure]:
        count = trials_for_squares(confidence)
        samples = proof.bench.switch_on(params, "covariance", count)[:, 0]
        samples = samples[samples["status"] >= 0]
        figures = []
        for field, variance, true in (
            ("p_W", "p_variance", np.array([0.0, 0.0, HEIGHT_M])),
            ("v_W", "v_variance", np.zeros(3)),
        ):
            stated = samples[variance]
            if not (stated > 0.0).all():
                continue
            words = f"{'position' if field == 'p_W' else 'velocity'}: error² over stated variance"
            squares = np.ravel((samples[field] - true) ** 2 / stated)
            figures.append(Said(words, "1", 1.0, confidence).mean(squares))
        return figures

    if any(params.position_sigma_m()) or any(params.velocity_sigma_mps()):
        proof.add(["position covariance", "velocity covariance"], 2, measure)
