"""A GNSS receiver on its bench: accuracies as data sheets state them, the sky, events."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from quadsim.lab.sensor_check.allan import degrees_of_freedom
from quadsim.lab.sensor_check.bench import HEIGHT_M
from quadsim.lab.sensor_check.experiments import (
    MARKOV_STEP,
    Array,
    Experiment,
    Figures,
    Probe,
    Rig,
    certain,
    markov_count,
)
from quadsim.lab.sensor_check.figures import (
    WANTED,
    trials_for_deviation,
    trials_for_radius,
    trials_for_squares,
)
from quadsim.lab.sensor_check.rigs import scatter

#: Meaning of an accuracy: the part of errors within it, for those of :data:`PARTS`; else a root
#: mean square, which is this times the deviation of an axis.
HORIZONTAL = {
    "sigma": 1.0,
    "cep": 0.5,
    "drms": math.sqrt(2.0),
    "2drms": math.sqrt(8.0),
    "r95": 0.95,
}
ONE_AXIS = {"sigma": 1.0, "r50": 0.5, "r95": 0.95}
PARTS = ("cep", "r50", "r95")

#: Each accuracy with its measure: what the measure means, columns of the errors.
ACCURACIES = {
    "horizontal_accuracy_m": ("horizontal_measure", HORIZONTAL, [0, 1]),
    "vertical_accuracy_m": ("vertical_measure", ONE_AXIS, [2]),
    "velocity_accuracy_mps": ("velocity_measure", ONE_AXIS, [0]),
}

#: The dilution of precision in a file is that of skies like it, to this part of it.
TYPICAL = 0.1

#: Switch-ons over which skies are judged.
SKIES = 2000


class GnssRig(Rig):
    """A receiver at rest over open ground."""

    kind = "gnss"
    field = "p_W"

    def field_of(self, name: str) -> str:
        """Position, except for keys of the velocity."""
        return "v_W" if "velocity" in name else "p_W"

    def probes(self, name: str) -> tuple[Probe, ...]:
        """Errors of position or velocity."""
        at_W = np.array([0.0, 0.0, HEIGHT_M])
        return (Probe(ideal=at_W if self.field_of(name) == "p_W" else 0.0),)

    def errors(
        self, name: str, count: int, *keeps: str, dt_s: float | None = None, **others: Any
    ) -> Array:
        """(count, 3) errors with some parameters as in the file and others set."""
        (probe,) = self.probes(name)
        return self.readings(name, count, replace(probe, keeps=keeps, others=others), dt_s)

    def more(self) -> Iterator[Experiment]:
        """All that has no tag."""
        for name, (measure, *_) in ACCURACIES.items():
            if self.is_set(name):
                yield Experiment((name, measure), 1, partial(self._accuracy, name))
        factor = "vertical_velocity_factor"
        if self.is_set("velocity_accuracy_mps") and self.is_set(factor):
            yield Experiment((factor,), 1, self._vertical)
        if self.is_set("correlated_share"):
            yield Experiment(("correlation_time_s",), 1, self._correlation_time)
            yield Experiment(("correlated_share",), 1, self._correlated_share)
        if self.of("satellites") > 0:
            yield certain(("satellites", "elevation_mask_deg", "hdop", "vdop"), self._sky)
        for what in ("outage", "multipath"):
            names = (f"{what}_rate_hz", f"{what}_mean_s")
            if all(self.of(name) > 0.0 for name in names):
                yield Experiment(names, 2, partial(self._events, what))
                if what == "multipath" and self.is_set("multipath_sigma_m"):
                    yield Experiment(("multipath_sigma_m",), 1, self._multipath_size)
        if self.is_set("first_fix_s"):
            yield certain(("first_fix_s",), self._first_fix)
        yield from self._covariances()

    def _accuracy(self, name: str, confidence: float) -> Figures:
        """An accuracy as the data sheet measures it: a radius, or a root mean square."""
        measure, factors, columns = ACCURACIES[name]
        word = self.of(measure)
        factor, spec = factors[word], self.specified(name, confidence)
        spec = replace(spec, name=f"{name} ({word})")
        if word in PARTS:
            errors = self.errors(name, trials_for_radius(factor, confidence), measure)
            return [spec.radius(np.hypot.reduce(errors[:, columns], axis=1), factor)]
        errors = self.errors(name, trials_for_deviation(confidence), measure)[:, columns]
        return [spec.spread(float(np.mean(errors**2)), errors.size, factor)]

    def _vertical(self, confidence: float) -> Figures:
        """How much worse the vertical velocity is: a ratio of two variances, Snedecor's F."""
        name = "vertical_velocity_factor"
        count = trials_for_squares(confidence)
        found = self.errors(name, count, "velocity_accuracy_mps", "velocity_measure")
        spec = self.specified(name, confidence)
        ratio = math.sqrt(float(np.mean(found[:, 2] ** 2) / np.mean(found[:, :2] ** 2)))
        ends = stats.f.ppf([1.0 - spec.tail, spec.tail], count, 2 * count)
        return [spec.within(ratio, *(ratio / np.sqrt(ends)))]

    def _correlation_time(self, confidence: float) -> Figures:
        name, dt_s = "correlation_time_s", MARKOV_STEP * self.of("correlation_time_s")
        errors = self.errors(
            name, markov_count(confidence), dt_s=dt_s, correlated_share=1.0,
            horizontal_accuracy_m=1.0,
        )  # fmt: skip
        return [self.specified(name, confidence).persistence(errors[:, 0], dt_s)]

    def _correlated_share(self, confidence: float) -> Figures:
        """Half the mean square of the steps is what does not last, and what of the rest is lost."""
        name, time = "correlated_share", "correlation_time_s"
        count = trials_for_squares(confidence)
        unit = {"horizontal_accuracy_m": 1.0, "vertical_accuracy_m": 1.0}
        steps = np.diff(self.errors(name, count + 1, time, **unit), axis=0)
        decay = math.exp(-1.0 / (self.params.rate_hz * self.of(time)))
        freedom = 3.0 * degrees_of_freedom(0, 1, count + 2)
        spec = self.specified(name, confidence)
        whole = spec.spread(0.5 * float(np.mean(steps**2)), freedom)
        ends = ((1.0 - value**2) / decay for value in (whole.measured, whole.high, whole.low))
        return [spec.within(*ends)]

    def _sky(self) -> Figures:
        """Satellites over open ground, and the dilution that skies like that have."""
        params = self.alone("satellites", "elevation_mask_deg", "hdop", "vdop")
        samples = self.bench.switch_on(params, "sky", SKIES)[:, 0]
        fixed = samples[samples["status"] >= 0]  # NaN without a fix is no dilution
        seen = float(np.median(samples["satellites"]))
        return [
            self.specified("satellites").exactly(seen),
            *(
                self.specified(name).exactly(float(np.median(fixed[name])), TYPICAL * self.of(name))
                for name in ("hdop", "vdop")
            ),
        ]

    def _events(self, what: str, confidence: float) -> Figures:
        """How often something begins, and how long it lasts: a two-state Markov process."""
        rate, mean = f"{what}_rate_hz", f"{what}_mean_s"
        rate_hz, mean_s = self.of(rate), self.of(mean)
        dt_s = 0.5 / (rate_hz + 1.0 / mean_s)
        z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
        onsets = (2.5 * z / WANTED) ** 2
        count = math.ceil(onsets * (1.0 / rate_hz + mean_s) / dt_s)
        size = {"multipath_sigma_m": 1.0} if what == "multipath" else {}
        samples = self.bench.run(self.alone(rate, mean, **size), what, count, dt_s=dt_s)
        on = samples["status"] < 0 if what == "outage" else samples["p_W"][:, 0] != 0.0
        # rate and mean time from the chances of the sampled chain, intervals to first order
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
        half = z * np.sqrt(variance)
        return [
            self.specified(name, confidence).within(value, value - width, value + width)
            for name, value, width in zip((rate, mean), found, half, strict=True)
        ]

    def _multipath_size(self, confidence: float) -> Figures:
        """Deviation of the offsets, one for each time that it begins."""
        name, rate, mean = "multipath_sigma_m", "multipath_rate_hz", "multipath_mean_s"
        rate_hz, mean_s = self.of(rate), self.of(mean)
        dt_s = 0.2 * mean_s
        wanted = trials_for_deviation(confidence)
        count = math.ceil(2.0 * wanted * (1.0 / rate_hz + mean_s) / dt_s)
        errors = self.errors(name, count, rate, mean, dt_s=dt_s)[:, 0]
        return [self.specified(name, confidence).deviation(np.unique(errors[errors != 0.0]))]

    def _first_fix(self) -> Figures:
        """How long after switch-on the first fix comes."""
        name, rate_hz = "first_fix_s", self.params.rate_hz
        count = math.ceil(self.of(name) * rate_hz) + 2
        samples = self.bench.run(self.alone(name), name, count)
        first = int(np.argmax(samples["status"] >= 0))
        return [self.specified(name).exactly((first + 1) / rate_hz, 1.0 / rate_hz)]

    def _covariances(self) -> Iterator[Experiment]:
        """What messages say against what is wrong: one fix of each of many switch-ons."""
        params = replace(self.params, position_B_m=(0.0, 0.0, 0.0), first_fix_s=0.0)

        def measure(confidence: float) -> Figures:
            count = trials_for_squares(confidence)
            samples = self.bench.switch_on(params, "covariance", count)[:, 0]
            samples = samples[samples["status"] >= 0]
            figures = []
            for words, field, variance, true in (
                ("position", "p_W", "p_variance", (0.0, 0.0, HEIGHT_M)),
                ("velocity", "v_W", "v_variance", (0.0, 0.0, 0.0)),
            ):
                stated = samples[variance]
                if (stated > 0.0).all():
                    figures += scatter(confidence, words, (samples[field] - true) ** 2 / stated)
            return figures

        if any(params.position_sigma_m()) or any(params.velocity_sigma_mps()):
            yield Experiment(("position covariance", "velocity covariance"), 2, measure)
