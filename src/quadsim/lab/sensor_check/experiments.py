"""One experiment for each kind of error term: how it is found in the samples of any sensor.

A parameter states by its tag (:mod:`quadsim.sensors.error_terms`) what kind of error it is. A
:class:`Rig` shows the sensor what the parameter needs to be seen, all other errors are off, and the
experiment of the tag makes figures of the readings. A new parameter that has a tag is measured
without more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.transform import Rotation

from quadsim.base.parameters import leaves
from quadsim.lab.sensor_check.bench import Bench, Samples, Truth, alone
from quadsim.lab.sensor_check.figures import (
    WANTED,
    MeasuredFigure,
    Specified,
    count_step,
    trials_for_deviation,
    trials_for_share,
)
from quadsim.sensors.error_terms import LARGEST_JITTER

Array = NDArray[Any]
Figures = list[MeasuredFigure]

#: Correlation times between two samples of a Gauss-Markov process: with 0.8 the time is known
#: best, to 2.49 / sqrt(n).
MARKOV_STEP, MARKOV_PRECISION = 0.8, 2.49

#: What the components of parameters are called; else x, y, z.
COMPONENTS = {
    "cross_axis": ("x of y", "x of z", "y of x", "y of z", "z of x", "z of y"),
    "soft_iron": ("xx", "yy", "zz", "xy", "xz", "yz"),
}


@dataclass(frozen=True)
class Experiment:
    """One run of a device with most of its errors off.

    Attributes:
        intervals: how many figures have an interval of confidence.
        measure: takes the confidence of each interval; gives the figures.
    """

    names: tuple[str, ...]
    intervals: int
    measure: Callable[[float], Figures]


@dataclass(frozen=True)
class Probe:
    """A situation in which a parameter shows in the readings.

    Attributes:
        truth: what the sensor is shown; None: level and at rest.
        gain: how much more it reads for each unit of the parameter.
        columns: of the readings in which the parameter shows; None: all.
        components: of the parameter, one for each column; None: as the columns.
        keeps: further parameters that stay as in the file.
        proves: further parameters that the figures depend on, and are measured with it.
        others: further parameters that are set, by name.
        see: what shows the parameter, of the readings; None: (reading - ideal) / gain.
    """

    truth: Truth | None = None
    ideal: Any = 0.0
    gain: float = 1.0
    columns: tuple[int, ...] | None = None
    components: tuple[int, ...] | None = None
    keeps: tuple[str, ...] = ()
    proves: tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict)
    see: Callable[[Array], Array] | None = None

    def seen(self, readings: Array) -> Array:
        """(N, columns) of the parameter in (N, all) readings."""
        if self.see is not None:
            return self.see(readings)
        shown: Array = (readings - self.ideal) / self.gain
        return shown if self.columns is None else shown[:, list(self.columns)]


class Rig:
    """A device on its bench, and how each of its parameters is shown.

    Attributes:
        kind: of the device; empty: of any.
        field: of the samples that holds the readings.
        rounding: of a reading less what is true, in its unit.
        always: parameters that every experiment keeps.
        rate_periods: periods over which the rate is measured.
        timed_by: parameters by which the latency is counted.
        clock_s: how finely times of publication are known.
    """

    kind = ""
    field = ""
    rounding = 1e-12
    always: tuple[str, ...] = ()
    given: ClassVar[Mapping[str, Any]] = {}
    rate_periods = 1000
    timed_by: tuple[str, ...] = ()
    clock_s = 1e-9

    def __init__(self, bench: Bench, params: Any) -> None:
        self.bench, self.params = bench, params
        self.leaves = {leaf.name: leaf for leaf in leaves(type(params))}

    # ---- what sensors say of themselves ----

    def probes(self, name: str) -> tuple[Probe, ...]:
        """Situations in which a parameter shows; none: it is not measured by its tag."""
        return (Probe(),)

    def more(self) -> Iterator[Experiment]:
        """Experiments for what only this kind of sensor has."""
        return iter(())

    def field_of(self, name: str) -> str:
        """Field of the samples in which a parameter shows."""
        return self.field

    # ---- what experiments ask ----

    def of(self, name: str) -> Any:
        """Value of a parameter by its dotted name."""
        return attrgetter(name)(self.params)

    def is_set(self, *names: str) -> bool:
        """Whether any of these parameters differs from a device without errors."""
        return any(self.of(name) != self.leaves[name].default for name in names)

    def components(self, name: str) -> list[Any]:
        """Components of a parameter that are not zero; [None] of a single number."""
        stated = self.of(name)
        return [i for i, s in enumerate(stated) if s] if isinstance(stated, tuple) else [None]

    def alone(self, *names: str, **others: Any) -> Any:
        """The device with only some of its errors."""
        return alone(self.params, *self.always, *names, **{**self.given, **others})

    def device(self, name: str, probe: Probe) -> Any:
        """The device with only the error that a probe shows."""
        return self.alone(name, *probe.keeps, **probe.others)

    def readings(
        self, name: str, count: int, probe: Probe | None = None, dt_s: float | None = None
    ) -> Array:
        """(count, columns) of a parameter, after one switch-on."""
        probe = probe or self.probes(name)[0]
        samples = self.bench.run(self.device(name, probe), name, count, probe.truth, dt_s)
        return probe.seen(self._rows(name, samples))

    def starts(self, name: str, count: int) -> Array:
        """(count, columns) of a parameter, each row after a switch-on of its own."""
        (probe,) = self.probes(name)
        samples = self.bench.switch_on(self.device(name, probe), name, count, probe.truth)[:, 0]
        return probe.seen(self._rows(name, samples))

    def _rows(self, name: str, samples: Samples) -> Array:
        return np.asarray(samples[self.field_of(name)]).reshape(len(samples), -1)

    def deliveries(self, name: str, count: int) -> tuple[Array, Array, Array]:
        """Times in ns at which samples are taken, stamps, and arrivals (-1: never)."""
        return self.bench.deliveries(self.alone(name), name, count)

    def specified(
        self, name: str, confidence: float = 0.95, component: int | None = None, value: Any = None
    ) -> Specified:
        """What the file specifies for a parameter, or of one of its components."""
        stated = self.of(name) if value is None else value
        unit = self.leaves[name].spec.unit
        if component is None:
            return Specified(name, unit, float(stated), confidence)
        words = next((w for end, w in COMPONENTS.items() if name.endswith(end)), ("x", "y", "z"))
        return Specified(f"{name} {words[component]}", unit, float(stated[component]), confidence)


class Term(NamedTuple):
    """How the figures of a tag are measured.

    Attributes:
        measure: takes a rig, the parameter's name and the confidence of each interval.
        intervals: how many figures have one; EACH: one for each component.
        also: name of a parameter that is measured with it, by its own name.
    """

    measure: Callable[[Rig, str, float], Figures]
    intervals: int = 1
    also: str = ""


#: One interval for each component of a parameter.
EACH = -1


def experiments(rig: Rig) -> list[Experiment]:
    """All that can be measured of a device: by its parameters' tags, then what only it has."""
    found: list[Experiment] = []
    for name, leaf in rig.leaves.items():
        tag = leaf.spec.term
        if tag in TERMS and (tag in ALWAYS or rig.is_set(name)):
            found += experiment_of(rig, name, tag)
    return [*found, *rig.more()]


def experiment_of(rig: Rig, name: str, tag: str) -> Iterator[Experiment]:
    """The experiment of a parameter; none where no situation shows it."""
    term, probes = TERMS[tag], rig.probes(name)
    if probes:
        also = [term.also.format(name)] if term.also else []
        intervals = len(rig.components(name)) if term.intervals == EACH else term.intervals
        names = (name, *also, *probes[0].proves, *(rig.timed_by if tag == "latency" else ()))
        measure = partial(term.measure, rig, name)
        yield Experiment(names, intervals + len(also) * (intervals > 0), measure)


def certain(names: tuple[str, ...], measure: Callable[[], Figures]) -> Experiment:
    """An experiment without chance."""
    return Experiment(names, 0, lambda confidence: measure())


# ---- errors of readings ------------------------------------------------------------------------


def constant(rig: Rig, name: str, confidence: float) -> Figures:
    """What is always the same: one reading in each situation, the worst one counts."""
    found: dict[int, list[tuple[float, float]]] = {}
    is_vector = isinstance(rig.of(name), tuple)
    for probe in rig.probes(name):
        row = rig.readings(name, 1, probe)[0]
        places = probe.components or probe.columns or tuple(range(len(row)))
        for place, value in zip(places, row, strict=True):
            pairs = found.setdefault(place if is_vector else -1, [])
            pairs.append((float(value), rig.rounding / abs(probe.gain)))
    figures = []
    for place, pairs in sorted(found.items()):
        spec = rig.specified(name, component=place if is_vector else None)
        figures.append(spec.exactly(*max(pairs, key=lambda pair: abs(pair[0] - spec.specified))))
    return figures


def turn_on(rig: Rig, name: str, confidence: float) -> Figures:
    """What is drawn for each unit or at each switch-on: the spread over many of them."""
    columns = len(rig.starts(name, 1)[0])
    values = rig.starts(name, math.ceil(trials_for_deviation(confidence) / columns))
    return [rig.specified(name, confidence).deviation(np.ravel(values))]


def _deviations(rig: Rig, name: str, confidence: float, rows: Array, scale: float = 1.0) -> Figures:
    """The deviation of (count, columns) independent values, by component where there are some."""
    return [
        rig.specified(name, confidence, i).deviation(
            np.ravel(rows) if i is None else rows[:, i], scale
        )
        for i in rig.components(name)
    ]


def white(rig: Rig, name: str, confidence: float) -> Figures:
    """White noise by its deviation."""
    rows = rig.readings(name, trials_for_deviation(confidence))
    return _deviations(rig, name, confidence, rows)


def white_density(rig: Rig, name: str, confidence: float) -> Figures:
    """White noise by its density: the deviation over the root of the rate."""
    rows = rig.readings(name, trials_for_deviation(confidence))
    return _deviations(rig, name, confidence, rows, 1.0 / math.sqrt(rig.params.rate_hz))


def random_walk(rig: Rig, name: str, confidence: float) -> Figures:
    """A random walk: its steps are independent."""
    steps = np.diff(rig.readings(name, trials_for_deviation(confidence) + 1), axis=0)
    return _deviations(rig, name, confidence, steps, math.sqrt(rig.params.rate_hz))


def markov_count(confidence: float) -> int:
    """Samples by which the correlation time of a Gauss-Markov process is known well enough."""
    z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
    return math.ceil((1.25 * z * MARKOV_PRECISION / WANTED) ** 2)


def gauss_markov(rig: Rig, name: str, confidence: float) -> Figures:
    """A bias that wanders about zero, with its correlation time ``<name>_time_s``."""
    time, (probe,), axes = f"{name}_time_s", rig.probes(name), rig.components(name)
    time_s = rig.of(time)
    dt_s, shown = MARKOV_STEP * time_s, replace(probe, keeps=(*probe.keeps, time))
    readings = rig.readings(name, markov_count(confidence), shown, dt_s)
    return [
        rig.specified(name, confidence, i).instability(readings[:, i or 0], dt_s, time_s)
        for i in axes
    ] + [rig.specified(time, confidence).persistence(readings[:, axes[0] or 0], dt_s)]


def quantisation(rig: Rig, name: str, confidence: float) -> Figures:
    """Counts, over which the noise of the probe spreads the readings."""
    return [rig.specified(name).exactly(count_step(rig.readings(name, 2000)), 1e-6 * rig.of(name))]


def dropout(rig: Rig, name: str, confidence: float) -> Figures:
    """The share of readings that are missed."""
    gain = rig.probes(name)[0].gain
    count = trials_for_share(gain * rig.of(name), confidence)
    missed = int(np.isinf(rig.readings(name, count)).sum())
    return [rig.specified(name, confidence).share(missed, count, 1.0 / gain)]


def lag(rig: Rig, name: str, confidence: float) -> Figures:
    """A first-order lag: how far it follows while what it reads rises evenly."""
    time_s = rig.of(name)
    dt_s = 1e-3 * time_s
    # of a ramp over dt it follows 1 - (1 - exp(-x)) / x, x = dt / T; half of x
    followed = float(rig.readings(name, 1, dt_s=dt_s)[0, 0])
    return [rig.specified(name).exactly(dt_s / (2.0 * followed), 1e-3 * time_s)]


def warm_up(rig: Rig, name: str, confidence: float) -> Figures:
    """How far a sensor warms itself, and how fast (``warm_up_s``)."""
    (probe,), time_s = rig.probes(name), rig.of("warm_up_s")
    risen = rig.readings(name, 400, replace(probe, keeps=("warm_up_s",)), 0.1 * time_s)[:, 0]
    left = risen[-1] - risen[[0, 9]]
    found_s = 0.9 * time_s / math.log(left[0] / left[1])
    return [
        rig.specified(name).exactly(risen[-1], 1e-6),
        rig.specified("warm_up_s").exactly(found_s, 1e-6 * time_s),
    ]


def rotation(rig: Rig, name: str, confidence: float) -> Figures:
    """How the sensor is rotated: what each axis reads of a vector along each axis of the body."""
    found = Rotation.from_matrix([rig.readings(name, 1, probe)[0] for probe in rig.probes(name)])
    wanted = Rotation.from_euler("xyz", rig.of(name), degrees=True)
    off_deg = math.degrees((wanted.inv() * found).magnitude())
    spec = replace(rig.specified(name, value=0.0), name=f"{name}: off by")
    return [spec.exactly(off_deg, 1e-6)]


# ---- timing ------------------------------------------------------------------------------------


def clipped_deviation(sigma: float, bound: float) -> float:
    """Deviation of a normal value that is cut at both bounds."""
    if sigma <= 0.0:
        return 0.0
    b = bound / sigma
    inside = stats.norm.cdf(b) - stats.norm.cdf(-b) - 2.0 * b * stats.norm.pdf(b)
    return sigma * math.sqrt(inside + 2.0 * b**2 * stats.norm.sf(b))


def rate(rig: Rig, name: str, confidence: float) -> Figures:
    """Samples a second; stamps and periods are whole nanoseconds."""
    stamps_ns = rig.deliveries(name, rig.rate_periods + 1)[1]
    found = 1e9 * rig.rate_periods / float(stamps_ns[-1] - stamps_ns[0])
    return [rig.specified(name).exactly(found, 0.5e-9 * rig.of(name) ** 2)]


def latency(rig: Rig, name: str, confidence: float) -> Figures:
    """From the time of a sample to its publication."""
    taken_ns, _, arrivals_ns = rig.deliveries(name, 10)
    late_s = 1e-9 * float(np.median(arrivals_ns - taken_ns))
    return [rig.specified(name).exactly(late_s, rig.clock_s)]


def jitter(rig: Rig, name: str, confidence: float) -> Figures:
    """The stamp's error, which is cut below half a period."""
    taken_ns, stamps_ns, _ = rig.deliveries(name, trials_for_deviation(confidence))
    cut_s = clipped_deviation(rig.of(name), LARGEST_JITTER / rig.params.rate_hz)
    return [rig.specified(name, confidence, value=cut_s).deviation(1e-9 * (stamps_ns - taken_ns))]


def loss(rig: Rig, name: str, confidence: float) -> Figures:
    """The share of samples that never arrive."""
    count = trials_for_share(rig.of(name), confidence)
    lost = int((rig.deliveries(name, count)[2] < 0).sum())
    return [rig.specified(name, confidence).share(lost, count)]


#: How each tag is measured.
TERMS = {
    "constant": Term(constant, 0),
    "turn-on": Term(turn_on),
    "white": Term(white, EACH),
    "white density": Term(white_density, EACH),
    "random walk": Term(random_walk, EACH),
    "Gauss-Markov": Term(gauss_markov, EACH, "{}_time_s"),
    "quantisation": Term(quantisation, 0),
    "dropout": Term(dropout),
    "lag": Term(lag, 0),
    "warm-up": Term(warm_up, 0, "warm_up_s"),
    "rotation": Term(rotation, 0),
    "rate": Term(rate, 0),
    "latency": Term(latency, 0),
    "jitter": Term(jitter),
    "loss": Term(loss),
}

#: Tags of which a device without errors has a figure too.
ALWAYS = ("rate", "latency")
