"""What is measured of a device: experiments, each of which switches all other errors off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from quadsim.base.parameters import leaves
from quadsim.lab.sensor_check.bench import Bench
from quadsim.lab.sensor_check.figures import Figure, Said, trials_for_deviation, trials_for_share
from quadsim.sensors.timing import LARGEST_JITTER

Array = NDArray[np.floating[Any]]
AXES = ("x", "y", "z")

#: Periods over which the rate is measured.
RATE_PERIODS = 1000


@dataclass(frozen=True)
class Experiment:
    """One run of a device with most of its errors off.

    Attributes:
        names: parameters whose figures it measures.
        intervals: how many figures have an interval of confidence.
        measure: takes the confidence of each interval; gives the figures.
    """

    names: tuple[str, ...]
    intervals: int
    measure: Callable[[float], list[Figure]]


class Proof:
    """The experiments for one device, as they are planned.

    Args:
        bench: where they are made.
        params: of the device.
    """

    def __init__(self, bench: Bench | None, params: Any) -> None:
        self.params = params
        self._bench = bench
        self.experiments: list[Experiment] = []
        self._units = {leaf.name: leaf.spec.unit for leaf in leaves(type(params))}

    @property
    def bench(self) -> Bench:
        """Where the experiments are made."""
        assert self._bench is not None
        return self._bench

    def of(self, name: str) -> Any:
        """Value of a parameter by its dotted name."""
        value = self.params
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def is_set(self, *names: str) -> bool:
        """Whether any of these parameters differs from a device without errors."""
        found = {leaf.name: leaf.default for leaf in leaves(type(self.params))}
        return any(self.of(name) != found[name] for name in names)

    def said(
        self, name: str, confidence: float = 0.95, axis: int | None = None, value: Any = None
    ) -> Said:
        """What the file says of a parameter, or of one of its axes."""
        specified = self.of(name) if value is None else value
        if axis is None:
            return Said(name, self._units[name], float(specified), confidence)
        specified = specified[axis] if value is None else specified
        return Said(f"{name} {AXES[axis]}", self._units[name], float(specified), confidence)

    def add(
        self, names: Sequence[str], intervals: int, measure: Callable[[float], list[Figure]]
    ) -> None:
        """Plan an experiment."""
        self.experiments.append(Experiment(tuple(names), intervals, measure))

    def certain(self, names: Sequence[str], measure: Callable[[], list[Figure]]) -> None:
        """Plan an experiment without chance."""
        self.add(names, 0, lambda confidence: measure())

    def axes(self, name: str) -> list[int]:
        """Axes on which a parameter is not zero."""
        return [i for i, value in enumerate(self.of(name)) if value != 0.0]

    def deviations(self, name: str, values: Callable[[int], Array], scale: float = 1.0) -> None:
        """Plan to measure a deviation on each axis where there is one.

        Args:
            name: of the parameter.
            values: takes how many are wanted; gives (N, 3) independent values.
            scale: from the deviation to the parameter.
        """
        axes = self.axes(name)

        def measure(confidence: float) -> list[Figure]:
            rows = values(trials_for_deviation(confidence))
            return [self.said(name, confidence, i).deviation(rows[:, i], scale) for i in axes]

        if axes:
            self.add([name], len(axes), measure)

    def deviation(self, name: str, values: Callable[[int], Array], scale: float = 1.0) -> None:
        """Plan to measure a deviation that all axes share, or of a sensor with one number."""

        def measure(confidence: float) -> list[Figure]:
            rows = values(trials_for_deviation(confidence))
            return [self.said(name, confidence).deviation(np.ravel(rows), scale)]

        if self.is_set(name):
            self.add([name], 1, measure)


def clipped_deviation(sigma: float, bound: float) -> float:
    """Deviation of a normal value that is cut at both bounds."""
    if sigma <= 0.0:
        return 0.0
    b = bound / sigma
    inside = stats.norm.cdf(b) - stats.norm.cdf(-b) - 2.0 * b * stats.norm.pdf(b)
    return sigma * math.sqrt(inside + 2.0 * b**2 * stats.norm.sf(b))


def timing(proof: Proof) -> None:
    """Plan what all sensors of the closed loop share: rate, latency, jitter, loss."""
    params, bench = proof.params, proof.bench

    def rate() -> list[Figure]:
        _, stamps_ns, _ = bench.deliveries(params, "rate", RATE_PERIODS + 1)
        span_s = float(stamps_ns[-1] - stamps_ns[0]) * 1e-9
        # stamps and periods are whole nanoseconds; two stamps that jitter
        share = 0.5e-9 * params.rate_hz + 12.0 * params.stamp_jitter_s / span_s
        said = proof.said("rate_hz")
        return [said.exactly(RATE_PERIODS / span_s, share * params.rate_hz)]

    def latency() -> list[Figure]:
        taken_ns, _, arrivals_ns = bench.deliveries(params, "latency", 200)
        late_ns = (arrivals_ns - taken_ns)[arrivals_ns >= 0]
        late_s = float(np.median(late_ns)) * 1e-9 if len(late_ns) else math.nan
        return [proof.said("latency_s").exactly(late_s, 1e-9)]

    def jitter(confidence: float) -> list[Figure]:
        count = trials_for_deviation(confidence)
        taken_ns, stamps_ns, _ = bench.deliveries(params, "jitter", count)
        cut_s = clipped_deviation(params.stamp_jitter_s, LARGEST_JITTER / params.rate_hz)
        said = proof.said("stamp_jitter_s", confidence, value=cut_s)
        return [said.deviation(1e-9 * (stamps_ns - taken_ns))]

    def loss(confidence: float) -> list[Figure]:
        count = trials_for_share(params.loss_probability, confidence)
        lost = int((bench.deliveries(params, "loss", count)[2] < 0).sum())
        return [proof.said("loss_probability", confidence).share(lost, count)]

    proof.certain(["rate_hz"], rate)
    proof.certain(["latency_s"], latency)
    if params.stamp_jitter_s > 0.0:
        proof.add(["stamp_jitter_s"], 1, jitter)
    if params.loss_probability > 0.0:
        proof.add(["loss_probability"], 1, loss)


def warmth(proof: Proof, felt: Callable[[int, float], Array]) -> None:
    """Plan what the temperature does where a sensor has a bias of 1 a kelvin.

    Args:
        proof: of the device.
        felt: takes a number of samples and the interval in s; gives the readings.
    """

    def measure() -> list[Figure]:
        warm_up_s = proof.of("warm_up_s")
        risen = felt(400, 0.1 * warm_up_s)
        whole = risen[-1] - proof.of("ambient_offset_K")
        figures = [
            proof.said("ambient_offset_K").exactly(felt(1, 1e-6)[0], 1e-5),
            proof.said("warm_up_K").exactly(whole, 1e-6),
        ]
        if proof.of("warm_up_K") > 0.0:
            left = risen[-1] - risen[[0, 9]]
            time_s = 0.9 * warm_up_s / math.log(left[0] / left[1])
            figures.append(proof.said("warm_up_s").exactly(time_s, 1e-6 * warm_up_s))
        return figures

    if proof.is_set("ambient_offset_K", "warm_up_K"):
        proof.certain(["ambient_offset_K", "warm_up_K", "warm_up_s"], measure)


def set_parameters(params: Any) -> Iterator[str]:
    """Dotted names of the parameters that differ from a device without errors."""
    for leaf in leaves(type(params)):
        value = params
        for part in leaf.name.split("."):
            value = getattr(value, part)
        if value != leaf.default:
            yield leaf.name


def choices(params: Any) -> set[str]:
    """Names of the parameters that are words: how others are meant, not figures."""
    return {field.name for field in fields(params) if isinstance(getattr(params, field.name), str)}
