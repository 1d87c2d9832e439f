"""Running estimators over the sensor topics of a bag, as they would have run in flight.

One that needs the whole flight, the smoother, collects while the others run, and works at the end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from quadsim.analysis.replay_log import (
    FilterStates,
    Overheard,
    inside_of_smoothed,
    read_truth,
    refusals,
    repeats_truth,
    truth_topic,
)
from quadsim.bag.confusions import MendedBag, confusions_of, mend_words
from quadsim.bag.log import LogReader
from quadsim.bag.logs.log_file import NOISE
from quadsim.bag.measurements import SENSORS, heard_of, measurements
from quadsim.bag.origin import estimator_of
from quadsim.bag.reading import Bag, open_bag
from quadsim.bag.topics import TRUTH, datum_of, field_of, topic
from quadsim.bag.unread import unread_notes
from quadsim.base.changes import given_keys, parse_changes
from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import flatten, load, read_yaml, unflatten
from quadsim.estimation import make_estimator
from quadsim.estimation.assumptions import assumed, differing_keys
from quadsim.estimation.eskf.measurement_buffer import IMU
from quadsim.estimation.eskf.parameters import AlignParams, EstimatorParams
from quadsim.estimation.interface import ErrorStateEkf, Estimator, late_words
from quadsim.estimation.messages import Messages
from quadsim.estimation.own import OwnEstimator
from quadsim.estimation.running import Running
from quadsim.estimation.smoother.smoother import Smoother
from quadsim.estimation.voting_words import past_words
from quadsim.geometry.geodesy import Datum
from quadsim.sim.disk_arrays import KeptTrack
from quadsim.sim.log import Array, FlightLog, Inside, Track, track_of
from quadsim.wire.standard import NUMBERS, OWN_SENSORS

Progress = Callable[[float], None]
#: What most estimators wait for on the ground, apart from the IMU.
STARTED_BY = ("gps/fix", "imu/mag", "imu/static_pressure")
#: Key of ``second`` to the topic of the second of a kind.
SECOND = {"imu": "imu_1/data_raw", "gnss": "gps_1/fix", "rangefinder": "range_1/down"}
NEEDED_TO_START = ("gnss_position", "magnetic_field", "pressure")
#: What an estimator can be told to do without.
_MISSING = {"magnetic_field": "the field", "gnss_position": "a fix"}
#: What helps against a reason to refuse.
HELP = {
    "bad_variance": "a driver file with covariance: ignored leaves its covariances out",
    "not_finite": "a fix without status, or a NaN, is no measurement",
    "too_late": "it arrives later than the filter waits: stamps or delays are wrong",
    "out_of_range": "it is no size that this can have: units?",
    "repeated": "its stamps do not rise",
}


@dataclass(slots=True)
class Replay:
    """What a replay gives.

    Attributes:
        log: the flight, with the replayed estimates alone, in the order asked for, what each
            estimated besides, and how the bag's messages came.
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
    """One estimator, and its output at every IMU stamp: there and then, or at the end."""

    def __init__(self, estimator: Estimator | OwnEstimator) -> None:
        self.estimator = estimator
        self.stored = KeptTrack(with_sigma=True)
        if not isinstance(estimator, Smoother | OwnEstimator):
            self.running = Running(estimator)
            self.states = FilterStates(estimator)

    def take(self, messages: Messages) -> None:
        """Give it messages, and write its estimates down."""
        if isinstance(self.estimator, OwnEstimator):
            self.stored.append(track_of(self.estimator.take_all(messages)))
            return
        if isinstance(self.estimator, Smoother):
            for kind, stamp_ns, values in messages:
                getattr(self.estimator, kind)(stamp_ns, *values)
            return
        found = self.running.take(messages)
        self.stored.append(track_of(found.odometry))
        self.states.take(found)

    def finish(self) -> tuple[Track, Inside | None]:
        """Everything that was written down; the smoother's work is done here."""
        if isinstance(self.estimator, OwnEstimator):
            return self.stored.track(), None
        if isinstance(self.estimator, Smoother):
            rows = self.estimator.smooth().rows
            q_BS = self.estimator.state["q_BS"]
            return track_of(rows["odometry"]), inside_of_smoothed(rows, q_BS)
        self.states.take_innovations(self.running.newest())
        return self.stored.track(), self.states.inside()


@dataclass(frozen=True, slots=True)
class Settings:
    """What to replay, and how.

    Attributes:
        estimators: names, the one that is asked about first.
        params: of the estimators; a magnetic field that the bag states takes the place of theirs,
            unless that was set.
        datum: origin of ``map``; None takes the bag's.
        truth: topic of odometry or of poses that the estimates are judged by, relative to the
            namespace or absolute; None takes ``ground_truth/odom``, and does without.
        as_flown: where the bag states the parameters of the estimator that flew, those are taken.
        changes: of those, as of :func:`changed`.
        known: keys of the parameters that somebody has set; see :func:`known_keys`.
        driver: who published the bag, if not quadsim; see
            :func:`~quadsim.bag.reading.open_bag`.
        fix_units: units and axes that are another than the messages' types ask for are mended.
        as_logged: the noise that the log's own filter assumed is taken, and its estimates stay,
            next to those of the replay.
    """

    estimators: Sequence[str] = ("eskf",)
    namespace: str = "/quad"
    params: EstimatorParams = field(default_factory=EstimatorParams)
    datum: Datum | None = None
    truth: str | None = None
    as_flown: bool = False
    changes: Sequence[str] = ()
    known: Collection[str] = ()
    driver: str | None = None
    as_logged: bool = False
    fix_units: bool = False


def estimator_params(config: str | None, changes: Sequence[str] = ()) -> EstimatorParams:
    """Parameters of a file of ``config/estimators``, or the file's own path; None: ``eskf``.

    Args:
        changes: as of :func:`changed`.

    Raises:
        InputError: naming file or key, value and what is allowed.
    """
    return changed(load(EstimatorParams, find("estimators", config or "eskf")), changes)


def changed(params: EstimatorParams, changes: Sequence[str]) -> EstimatorParams:
    """Parameters with some of them set.

    Args:
        changes: ``key=value`` each, the key dotted (``noise.gyro_density``), the value as in YAML.

    Raises:
        InputError: naming key, value and what is allowed.
    """
    flat: dict[str, Any] = flatten(params)
    for key, value in parse_changes(changes).items():
        if key in flat and isinstance(value, list) is not isinstance(flat[key], list):
            raise InputError(f"--set {key}: {value!r} is not like {flat[key]}")
        flat[key] = value
    return unflatten(EstimatorParams, flat, "--set")


def known_keys(config: str | None, changes: Sequence[str] = ()) -> frozenset[str]:
    """Keys that a file or changes set, which no assumption replaces; None: the default file.

    Raises:
        InputError: the file cannot be read.
    """
    keys = {change.partition("=")[0] for change in changes}
    if config is not None:
        keys |= set(given_keys(read_yaml(find("estimators", config))))
    return frozenset(keys)


def described(
    params: EstimatorParams, known: Collection[str], sensors: str
) -> tuple[EstimatorParams, frozenset[str]]:
    """Parameters of a vehicle that carries a suite of sensors, and the keys that are known by it.

    Args:
        sensors: name of a file in ``config/sensors/suites``, or its path.

    Raises:
        InputError: of the suite.
    """
    from quadsim.sensors.devices import load_suite
    from quadsim.sim.installation import as_installed  # here: a replay needs no scenario
    from quadsim.world.environment import EnvironmentParams

    told = flatten(as_installed(params, load_suite(sensors), EnvironmentParams()))
    parts = ("mount.", "second.", "noise.", "start.", "gps_ins.")
    taken = {
        key: value for key, value in told.items() if key.startswith(parts) and key not in known
    }
    by_suite = {
        key for key in taken if key.startswith("mount.") or taken[key] != flatten(params)[key]
    }
    return (
        unflatten(EstimatorParams, flatten(params) | taken, sensors),
        frozenset(known) | by_suite,
    )


def load_kernels(settings: Settings) -> None:
    """Load (or, the first time, compile) what the estimators run on, before any clock starts."""
    for name in settings.estimators:
        estimator = make_estimator(name, settings.params, Datum())
        if isinstance(estimator, OwnEstimator):
            continue
        if not isinstance(estimator, Smoother):
            Running(estimator).take(Messages.of([]))
            continue
        for i in range(3):
            estimator.imu(1 + i * 2_000_000, (0.0, 0.0, settings.params.gravity_mps2), (0.0,) * 3)
        estimator.gnss_position(3, (Datum().latitude_deg, Datum().longitude_deg, 0.0))
        estimator.gnss_velocity(3, (0.0, 0.0, 0.0))
        estimator.magnetic_field(3, settings.params.magnetic_field_W_T)
        estimator.pressure(3, 101_325.0)
        estimator.range(3, 1.0)
        estimator.smooth()


def replay(path: Path, settings: Settings, progress: Progress | None = None) -> Replay:
    """Run estimators over a bag.

    Args:
        progress: called now and then with the time replayed, s.

    Raises:
        InputError: an estimator is not known, the bag cannot be read, has no IMU or no datum.
    """
    begin_s = time.perf_counter()
    with open_bag(path, settings.driver) as bag:
        confused = confusions_of(bag, settings.namespace)
        if settings.fix_units:
            bag = cast(Bag, MendedBag(bag, confused))
        datum, notes = _datum_of(bag, settings)
        notes += mend_words(confused, settings.fix_units)
        params, more = _params_of(bag, settings, datum)
        notes += more
        runs = {name: _Run(make_estimator(name, params, datum)) for name in settings.estimators}
        judge = (
            None if settings.truth is None else truth_topic(bag, settings.namespace, settings.truth)
        )
        notes += unread_notes(bag, judge)
        for run in runs.values():
            if isinstance(run.estimator, OwnEstimator):
                run.estimator.expect(_own_samples(bag, settings.namespace))
        reader = LogReader(bag, settings.namespace, with_estimates=settings.as_logged)
        heard = Overheard(bag, reader)
        span_ns = _run(cast(Bag, heard), settings.namespace, list(runs.values()), progress)
        found = {name: run.finish() for name, run in runs.items()}
        log = reader.finish(datum)
        if judge is not None:
            _judge_by(log, bag, settings.namespace, judge)
        log.notes += _judged_by_input(log, bag, settings.namespace, judge)
        log.arrivals = heard.arrivals(settings.namespace)
        inputs = {name: topic(settings.namespace, name) for name in STARTED_BY}
        absent = [name for name, full in inputs.items() if not bag.counts.get(full)]
        seconds = {key: topic(settings.namespace, name) for key, name in SECOND.items()}
        unused = {
            key: full
            for key, full in seconds.items()
            if bag.counts.get(full) and not getattr(params.second, key)
        }
    started = {name: parts for name, parts in found.items() if len(parts[0])}
    log.estimates = {name: track for name, (track, _) in started.items()} | log.estimates
    log.inside = {name: inside for name, (_, inside) in started.items() if inside is not None}
    log.notes += notes
    for name, run in runs.items():
        if isinstance(run.estimator, ErrorStateEkf) and run.estimator.state["gnss_time_counts"]:
            log.notes.append(f"{name}: {late_words(float(run.estimator.state['gnss_time_s']))}")
        if isinstance(run.estimator, ErrorStateEkf):
            log.notes += [f"{name}: {each}" for each in past_words(run.estimator.lines[0])]
    places = {"gnss": "antenna"}
    log.notes += [
        f"{full} not used: --set second.{key}=true, with second.{places.get(key, key)}_position_B_m"
        for key, full in unused.items()
    ]
    if absent and len(started) < len(found):
        log.notes.append(f"no message on {', '.join(absent)}")
    counts = {name: run.estimator.counts for name, run in runs.items()}
    log.notes += [
        _never_started(name, counts[name], params.start) for name in found if name not in started
    ]
    return Replay(log, counts, span_ns, time.perf_counter() - begin_s)


def _never_started(name: str, counts: dict[str, int], start: AlignParams) -> str:
    """That an estimator did not start, why its measurements were refused, and what helps."""
    parts, helps = [], []
    for key, received in counts.items():
        kind = key.removesuffix("_received")
        if kind == key or not received:
            continue
        refused = refusals(counts, kind)
        if sum(refused.values()) > 0.5 * received:
            why = ", ".join(f"{number} {word}" for word, number in refused.items())
            parts.append(f"{kind} refused {why.replace('_', ' ')} of {received}")
            helps += [HELP[word] for word in refused if word in HELP]
            if kind == "magnetic_field" and start.require_heading:
                helps.append("or --set start.require_heading=false does without the field")
    absent = [kind for kind in NEEDED_TO_START if not counts.get(f"{kind}_received")]
    if counts.get("external_position_received") or not counts.get("imu_received"):
        absent = []
    for kind, word, needed in (
        ("magnetic_field", "heading", start.require_heading),
        ("gnss_position", "gnss", start.require_gnss),
    ):
        if kind in absent and needed:
            helps.append(f"--set start.require_{word}=false does without {_MISSING[kind]}")
    parts += [f"no {kind}" for kind in absent]
    end = "".join(f"; {words}" for words in dict.fromkeys(helps))
    return f"{name}: never started" + (f": {', '.join(parts)}{end}" if parts else "")


def _own_samples(bag: Bag, namespace: str) -> Iterator[tuple[int, str, Array]]:
    """Stamp, sensor and values of what own sensors gave."""
    prefix = topic(namespace, OWN_SENSORS)
    names = [full for full, kind in bag.types.items() if full.startswith(prefix)]
    for message in bag.messages([full for full in names if bag.types[full] == NUMBERS]):
        values = np.asarray(bag.deserialize(message).data, float)
        yield message.log_ns, message.topic.removeprefix(prefix), values


def _datum_of(bag: Bag, settings: Settings) -> tuple[Datum | None, list[str]]:
    """Origin of ``map``: as given, of the bag, or the first fix where nothing else needs it.

    Raises:
        InputError: the truth needs it, and it is unknown.
    """
    datum, fix = settings.datum or datum_of(bag), topic(settings.namespace, "gps/fix")
    if datum is not None or not bag.counts.get(fix):
        return datum, []
    if settings.truth is not None or bag.counts.get(topic(settings.namespace, TRUTH)):
        raise InputError(f"{bag.path}: no /datum; say where map begins with --datum LAT,LON,H")
    datum = heard_of(bag, settings.namespace, None).place
    return datum, [] if datum is None else ["assumed: map begins at the first fix"]


def _params_of(
    bag: Bag, settings: Settings, datum: Datum | None
) -> tuple[EstimatorParams, list[str]]:
    """Parameters of the estimators: as flown, or with an assumption for all that is unknown."""
    known, field_W_T = set(settings.known) | differing_keys(settings.params), field_of(bag)
    flown = estimator_of(bag) if settings.as_flown else None
    params = settings.params if flown is None else changed(flown, settings.changes)
    if settings.as_logged:
        params, told = _as_logged(bag, params, known)
        params, notes = assumed(params, known | set(told), heard_of(bag, settings.namespace, datum))
        return params, [*notes, *(f"as logged: {key} {value}" for key, value in told.items())]
    if flown is not None:  # the field that it assumed may differ from the true one
        return params, []
    if field_W_T is not None and "magnetic_field_W_T" not in known:
        params = replace(params, magnetic_field_W_T=field_W_T)
        known.add("magnetic_field_W_T")
    return assumed(params, known, heard_of(bag, settings.namespace, datum))


def _as_logged(
    bag: Bag, params: EstimatorParams, known: Collection[str]
) -> tuple[EstimatorParams, dict[str, Any]]:
    """Parameters with the noise that a log's own filter assumed, and what that is.

    Raises:
        InputError: the log does not say.
    """
    told = json.loads(bag.custom.get(NOISE) or "{}")
    if not told:
        raise InputError(f"{bag.path}: --parameters: it states none of its filter; a ULog does")
    told = {key: value for key, value in told.items() if key not in known}
    return unflatten(EstimatorParams, flatten(params) | told, f"{bag.path}: --parameters"), told


def _judge_by(log: FlightLog, bag: Bag, namespace: str, full: str) -> None:
    """Take the truth from a topic that was named."""
    unscored = f"no {topic(namespace, TRUTH)}: nothing is scored"
    log.notes = [note for note in log.notes if note != unscored]
    log.truth = read_truth(bag, full, log.notes)


def _judged_by_input(log: FlightLog, bag: Bag, namespace: str, judge: str | None) -> list[str]:
    """That the truth is what the estimators were given, which makes every error small."""
    notes = []
    for full in (topic(namespace, name) for name in SENSORS):
        if full == judge:
            notes.append(f"{full} judges the estimates, which are also given it")
        elif bag.counts.get(full) and repeats_truth(bag, full, log.truth):
            notes.append(
                f"the truth is {full} again, which the estimates are given: the errors say how"
                " close they follow it, not how far they are off"
            )
    return notes


def _run(bag: Bag, namespace: str, runs: list[_Run], progress: Progress | None) -> tuple[int, int]:
    """Feed every measurement to every estimator; give the first and the last stamp of the IMU."""
    first_ns = last_ns = told_ns = -1
    for messages in measurements(bag, namespace):
        for run in runs:
            run.take(messages)
        stamps_ns = messages.stamp_ns[messages.kind == IMU]
        if len(stamps_ns):
            first_ns = int(stamps_ns[0]) if first_ns < 0 else first_ns
            last_ns = int(stamps_ns[-1])
        if progress is not None and last_ns - told_ns > 1_000_000_000:
            told_ns = last_ns
            progress((last_ns - first_ns) * 1e-9)
    return first_ns, last_ns
