"""Running estimators over the sensor topics of a bag, as they would have run in flight.

One that needs the whole flight, the smoother, collects while the others run, and works at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.arrivals import Overheard
from quadsim.analysis.bag.log import LogReader
from quadsim.analysis.bag.measurements import SENSORS, measurements
from quadsim.analysis.bag.origin import estimator_of
from quadsim.analysis.bag.reading import BLOCK, Bag, open_bag
from quadsim.analysis.bag.topics import TRUTH, datum_of, field_of, topic
from quadsim.analysis.inside import inside_of_smoothed, witness_of
from quadsim.analysis.kept import KeptTrack
from quadsim.analysis.truth import read_truth, truth_topic
from quadsim.errors import InputError
from quadsim.estimation import ESTIMATORS
from quadsim.estimation.interface import Estimator
from quadsim.estimation.parameters import EstimatorParams
from quadsim.estimation.smoother import Smoother
from quadsim.files import find
from quadsim.geometry.geodesy import Datum
from quadsim.parameters import flatten, load, read_yaml_text, unflatten
from quadsim.records import ODOMETRY
from quadsim.sim.log import FlightLog, Inside, Track, track_of

Progress = Callable[[float], None]


@dataclass(slots=True)
class Replay:
    """What a replay gives.

    Attributes:
        log: the flight, with the replayed estimates alone, in the order asked for, what each
            believed besides, and how the bag's messages came.
        counts: estimator to what it received and refused.
        span_ns: first and last IMU stamp; equal in a bag without any.
        wall_s: how long reading, estimating and the log's reading took, s.
    """

    log: FlightLog
    counts: dict[str, dict[str, int]]
    span_ns: tuple[int, int]
    wall_s: float

    @property
    def flown_s(self) -> float:
        """Time between the first and the last IMU stamp, s."""
        return max(0.0, (self.span_ns[1] - self.span_ns[0]) * 1e-9)


class _Run:
    """One estimator, and what it said of every IMU stamp: there and then, or at the end."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.kept = KeptTrack(with_sigma=True)
        self.rows: NDArray[Any] = np.zeros(BLOCK, ODOMETRY)
        self.stamps_ns = self.rows["stamp_ns"]
        self.count = 0
        self.last_ns = -(2**63)
        self.witness = witness_of(estimator)
        self.calls: dict[str, Callable[..., str]] = {
            kind: getattr(estimator, kind)
            for kind in (
                "imu",
                "gnss_position",
                "gnss_velocity",
                "magnetic_field",
                "pressure",
                "range",
                "external_pose",
            )
        }

    def keep(self) -> None:
        """Write down the estimate, if there is a new one."""
        count = self.count
        self.estimator.fill_odometry(self.estimator.lines, self.rows[count : count + 1])
        stamp_ns = self.stamps_ns.item(count)
        if stamp_ns > self.last_ns:
            self.last_ns = stamp_ns
            self.count = count + 1
            if self.count == BLOCK:
                self._flush()
            if self.witness is not None and stamp_ns >= self.witness.next_ns:
                self.witness.estimated(stamp_ns)

    def _flush(self) -> None:
        self.kept.append(track_of(self.rows[: self.count]))
        self.count = 0

    def finish(self) -> tuple[Track, Inside | None]:
        """Everything that was written down; the smoother's work is done here."""
        if isinstance(self.estimator, Smoother):
            rows = self.estimator.smooth().rows
            q_BS = self.estimator.state["q_BS"]
            return track_of(rows["odometry"]), inside_of_smoothed(rows, q_BS)
        inside = None if self.witness is None else self.witness.inside()
        self.witness = None  # what it wrote down is copied
        self._flush()
        return self.kept.track(), inside


@dataclass(frozen=True, slots=True)
class Settings:
    """What to replay, and how.

    Attributes:
        estimators: names, the one that is asked about first.
        namespace: the vehicle.
        params: of the estimators; a magnetic field that the bag states takes the place of theirs.
        datum: origin of ``map``; None takes the bag's.
        truth: topic of odometry or of poses that the estimates are judged by, relative to the
            namespace or absolute; None takes ``ground_truth/odom``, and does without.
        as_flown: where the bag states the parameters of the estimator that flew, those are taken.
        changes: of those, as of :func:`changed`.
        driver: who published the bag, if not quadsim; see
            :func:`~quadsim.analysis.bag.reading.open_bag`.
    """

    estimators: Sequence[str] = ("eskf",)
    namespace: str = "/quad"
    params: EstimatorParams = field(default_factory=EstimatorParams)
    datum: Datum | None = None
    truth: str | None = None
    as_flown: bool = False
    changes: Sequence[str] = ()
    driver: str | None = None


def estimator_params(config: str | None, changes: Sequence[str] = ()) -> EstimatorParams:
    """Parameters of a file of ``config/estimators``, or the file's own path; None: ``eskf``.

    Args:
        config: name or path.
        changes: as of :func:`changed`.

    Raises:
        InputError: naming file or key, value and what is allowed.
    """
    return changed(load(EstimatorParams, find("estimators", config or "eskf")), changes)


def changed(params: EstimatorParams, changes: Sequence[str]) -> EstimatorParams:
    """Parameters with some of them set.

    Args:
        params: the others.
        changes: ``key=value`` each, the key dotted (``noise.gyro_density``), the value as in YAML.

    Raises:
        InputError: naming key, value and what is allowed.
    """
    if not changes:
        return params
    flat: dict[str, Any] = flatten(params)
    for change in changes:
        key, sign, value = change.partition("=")
        if not sign:
            raise InputError(f"--set {change}: allowed: KEY=VALUE, as noise.gyro_density=0.02")
        if key not in flat:
            near = get_close_matches(key, flat, 3, 0.5)
            words = f"; close to it: {', '.join(near)}" if near else ""
            raise InputError(f"--set {change}: unknown parameter {key!r}{words}")
        flat[key] = read_yaml_text(value, f"--set {key}")
        if isinstance(flat[key], list) is not isinstance(flatten(params)[key], list):
            raise InputError(f"--set {change}: {value!r} is not like {flatten(params)[key]}")
    return unflatten(EstimatorParams, flat, "--set")


def load_kernels(settings: Settings) -> None:
    """Load (or, the first time, compile) what the estimators run on, before any clock starts."""
    for name in settings.estimators:
        estimator = _estimator(name)(settings.params, Datum())
        for i in range(3):
            estimator.imu(1 + i * 2_000_000, (0.0, 0.0, settings.params.gravity_mps2), (0.0,) * 3)
        estimator.gnss_position(3, (Datum().latitude_deg, Datum().longitude_deg, 0.0))
        estimator.gnss_velocity(3, (0.0, 0.0, 0.0))
        estimator.magnetic_field(3, settings.params.magnetic_field_W_T)
        estimator.pressure(3, 101_325.0)
        estimator.range(3, 1.0)
        estimator.odometry()
        if isinstance(estimator, Smoother):
            estimator.smooth()


def _estimator(name: str) -> Callable[[EstimatorParams, Datum | None], Estimator]:
    if name not in ESTIMATORS:
        raise InputError(f"unknown estimator {name!r}; known: {', '.join(ESTIMATORS)}")
    return ESTIMATORS[name]


def replay(path: Path, settings: Settings, progress: Progress | None = None) -> Replay:
    """Run estimators over a bag.

    Args:
        path: the bag.
        settings: what to run.
        progress: called now and then with the time replayed, s.

    Raises:
        InputError: an estimator is not known, the bag cannot be read, has no IMU or no datum.
    """
    begin_s = time.perf_counter()
    with open_bag(path, settings.driver) as bag:
        datum = settings.datum or datum_of(bag)
        if datum is None and bag.counts.get(topic(settings.namespace, "gps/fix")):
            raise InputError(f"{path}: no /datum; say where map begins with --datum LAT,LON,H")
        params, field_W_T = settings.params, field_of(bag)
        flown = estimator_of(bag) if settings.as_flown else None
        if flown is not None:
            params = changed(flown, settings.changes)
        if field_W_T is not None:
            params = replace(params, magnetic_field_W_T=field_W_T)
        runs = {name: _Run(_estimator(name)(params, datum)) for name in settings.estimators}
        judge = (
            None if settings.truth is None else truth_topic(bag, settings.namespace, settings.truth)
        )
        reader = LogReader(bag, settings.namespace, with_estimates=False)
        heard = Overheard(bag, reader)
        span_ns = _run(cast(Bag, heard), settings.namespace, list(runs.values()), progress)
        found = {name: run.finish() for name, run in runs.items()}
        log = reader.finish(datum)
        if judge is not None:
            _judge_by(log, bag, settings.namespace, judge)
        log.arrivals = heard.arrivals(settings.namespace)
    started = {name: parts for name, parts in found.items() if len(parts[0])}
    log.estimates = {name: track for name, (track, _) in started.items()}
    log.inside = {name: inside for name, (_, inside) in started.items() if inside is not None}
    log.notes += [f"{name}: never started" for name in found if name not in started]
    counts = {name: run.estimator.counts for name, run in runs.items()}
    return Replay(log, counts, span_ns, time.perf_counter() - begin_s)


def _judge_by(log: FlightLog, bag: Bag, namespace: str, full: str) -> None:
    """Take the truth from a topic that was named."""
    unscored = f"no {topic(namespace, TRUTH)}: nothing is scored"
    log.notes = [note for note in log.notes if note != unscored]
    log.truth = read_truth(bag, full, log.notes)
    if full in {topic(namespace, name) for name in SENSORS}:
        log.notes.append(f"{full} judges the estimates, which are also given it")


def _run(bag: Bag, namespace: str, runs: list[_Run], progress: Progress | None) -> tuple[int, int]:
    """Feed every measurement to every estimator; give the first and the last stamp of the IMU."""
    first_ns = last_ns = told_ns = -1
    witnesses = [run.witness for run in runs if run.witness is not None]
    for kind, stamp_ns, values in measurements(bag, namespace):
        for run in runs:
            run.calls[kind](stamp_ns, *values)
        if kind != "imu":
            for witness in witnesses:
                witness.measured(kind, stamp_ns)
            continue
        for run in runs:
            if run.estimator.running:
                run.keep()
        for witness in witnesses:
            if witness.waiting:
                witness.look()
        first_ns = stamp_ns if first_ns < 0 else first_ns
        last_ns = stamp_ns
        if progress is not None and stamp_ns - told_ns > 1_000_000_000:
            told_ns = stamp_ns
            progress((stamp_ns - first_ns) * 1e-9)
    return first_ns, last_ns
