"""Running estimators over the sensor topics of a bag, as they would have run in flight.

One that needs the whole flight, the smoother, collects while the others run, and works at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.analysis.bag.log import read_log
from quadsim.analysis.bag.measurements import measurements
from quadsim.analysis.bag.reading import Bag, open_bag
from quadsim.analysis.bag.topics import IMU, datum_of, field_of, topic
from quadsim.errors import InputError
from quadsim.estimation import ESTIMATORS
from quadsim.estimation.interface import Estimator
from quadsim.estimation.parameters import EstimatorParams
from quadsim.estimation.smoother import Smoother
from quadsim.files import find
from quadsim.geometry.geodesy import Datum
from quadsim.parameters import load
from quadsim.records import ODOMETRY
from quadsim.sim.log import FlightLog, Track

Progress = Callable[[float], None]


@dataclass(slots=True)
class Replay:
    """What a replay gives.

    Attributes:
        log: the flight, with the replayed estimates alone, in the order asked for.
        counts: estimator to what it received and refused.
        flown_s: time between the first and the last IMU stamp, s.
        wall_s: how long reading, estimating and the log's reading took, s.
    """

    log: FlightLog
    counts: dict[str, dict[str, int]]
    flown_s: float
    wall_s: float


class _Run:
    """One estimator, and what it said of every IMU stamp: there and then, or at the end."""

    def __init__(self, estimator: Estimator, samples: int) -> None:
        self.estimator = estimator
        self.rows: NDArray[Any] = np.zeros(samples, ODOMETRY)
        self.count = 0
        self.last_ns = -(2**63)
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
        odometry = self.estimator.odometry()
        stamp_ns = int(odometry["stamp_ns"])  # half the time that the attribute takes
        if stamp_ns > self.last_ns:
            self.last_ns = stamp_ns
            self.rows[self.count] = odometry
            self.count += 1

    def track(self) -> Track:
        """Everything that was written down; the smoother's work is done here."""
        if isinstance(self.estimator, Smoother):
            rows = self.estimator.smooth().rows["odometry"]
        else:
            rows = self.rows[: self.count]
        variances = [rows[name] for name in ("p_variance", "v_variance", "attitude_variance")]
        return Track(
            rows["stamp_ns"],
            rows["p_W"],
            rows["v_W"],
            rows["q_WB"],
            rows["w_B"],
            np.sqrt(np.maximum(np.concatenate(variances, axis=1), 0.0)),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What to replay, and how.

    Attributes:
        estimators: names, the one that is asked about first.
        namespace: the vehicle.
        params: of the estimators; a magnetic field that the bag states takes the place of theirs.
        datum: origin of ``map``; None takes the bag's.
    """

    estimators: Sequence[str] = ("eskf",)
    namespace: str = "/quad"
    params: EstimatorParams = field(default_factory=EstimatorParams)
    datum: Datum | None = None


def estimator_params(config: str | None) -> EstimatorParams:
    """Parameters of a file of ``config/estimators``, or the file's own path; None: ``eskf``."""
    return load(EstimatorParams, find("estimators", config or "eskf"))


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
    with open_bag(path) as bag:
        datum = settings.datum or datum_of(bag)
        if datum is None and bag.counts.get(topic(settings.namespace, "gps/fix")):
            raise InputError(f"{path}: no /datum; say where map begins with --datum LAT,LON,H")
        params, field_W_T = settings.params, field_of(bag)
        if field_W_T is not None:
            params = replace(params, magnetic_field_W_T=field_W_T)
        runs = {
            name: _Run(
                _estimator(name)(params, datum),
                bag.counts.get(topic(settings.namespace, IMU), 0),
            )
            for name in settings.estimators
        }
        flown_s = _run(bag, settings.namespace, list(runs.values()), progress)
        tracks = {name: run.track() for name, run in runs.items()}
        log = read_log(bag, settings.namespace, datum)
    log.estimates = {name: track for name, track in tracks.items() if len(track)}
    log.notes += [f"{name}: never started" for name, track in tracks.items() if not len(track)]
    counts = {name: run.estimator.counts for name, run in runs.items()}
    return Replay(log, counts, flown_s, time.perf_counter() - begin_s)


def _run(bag: Bag, namespace: str, runs: list[_Run], progress: Progress | None) -> float:
    """Feed every measurement to every estimator; give the time between first and last IMU, s."""
    first_ns = last_ns = told_ns = -1
    for kind, stamp_ns, values in measurements(bag, namespace):
        for run in runs:
            run.calls[kind](stamp_ns, *values)
        if kind != "imu":
            continue
        for run in runs:
            if run.estimator.running:
                run.keep()
        first_ns = stamp_ns if first_ns < 0 else first_ns
        last_ns = stamp_ns
        if progress is not None and stamp_ns - told_ns > 1_000_000_000:
            told_ns = stamp_ns
            progress((stamp_ns - first_ns) * 1e-9)
    return max(0.0, (last_ns - first_ns) * 1e-9)
