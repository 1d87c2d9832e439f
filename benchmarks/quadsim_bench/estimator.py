"""What the estimators cost, on one core: parts of the error-state filter, and whole flights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim.base.errors import FlightError
from quadsim_bench.figure import Measurement, Session, lines
from quadsim_bench.timing import median_s

if TYPE_CHECKING:
    from quadsim.estimation.eskf.parameters import EstimatorParams
    from quadsim.estimation.interface import Estimator

G = 9.80665
CALLS, SAMPLES, LATE, FLOWN = 2000, 2000, 200, 3000
PERIOD_NS = 2_000_000
FIELD_W = (0.0, 2.15e-5, -4.3e-5)
F_COVARIANCE, W_COVARIANCE = 1e-2 * np.eye(3), 1e-4 * np.eye(3)

#: Name of a part of the error-state filter to what it is, and with what target.
PARTS = {
    "prediction": "<=1.2 an IMU sample: nominal state and covariance",
    "scalar": "<=1 a pressure",
    "vector": "less a fix: three numbers with their covariance",
    "field": "less a magnetic field: heading and vertical part, two numbers",
    "copy": "less a copy of the filter",
}
FLIGHTS = ("eskf", "ekf7", "gps_ins", "blind", "smoother")


def everything() -> EstimatorParams:
    """Parameters that ask for all 28 states instead of 17."""
    from quadsim.estimation.eskf.parameters import (
        EstimatorParams,
        FusionParams,
        NoiseParams,
        StartParams,
    )

    return EstimatorParams(
        start=StartParams(field_bias_T=1e-7, field_T=1e-7),
        noise=NoiseParams(gnss_correlated_share=0.5),
        fusion=FusionParams(drag_per_s=0.3),
    )


def level(k: int) -> tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Stamp, force and rate of a hover's k-th sample."""
    return k * PERIOD_NS, np.array([0.0, 0.0, G]), np.zeros(3)


def hover(estimator: Estimator, first: int, count: int) -> None:
    """Messages of a vehicle that stands in the air, one call each.

    IMU at 500 Hz, field at 100 Hz, pressure at 50 Hz, fixes at 5 Hz.
    """
    from quadsim.geometry.geodesy import Datum
    from quadsim.world.air.atmosphere import pressure_at

    variance = (0.05 * FIELD_W[1]) ** 2 * np.eye(3)
    geodetic, pressure_Pa = Datum().to_geodetic((0.0, 0.0, 5.0)), pressure_at(500.0)
    for k in range(first, first + count):
        stamp_ns, f_S, w_S = level(k)
        estimator.imu(stamp_ns, f_S, w_S, F_COVARIANCE, W_COVARIANCE)
        if k % 5 == 0:
            estimator.magnetic_field(stamp_ns, np.array(FIELD_W), variance)
        if k % 10 == 0:
            estimator.pressure(stamp_ns, pressure_Pa, 36.0)
        if k % 100 == 0:
            estimator.gnss_position(stamp_ns, geodetic, np.eye(3))
            estimator.gnss_velocity(stamp_ns, np.zeros(3), 0.01 * np.eye(3))


def fresh(name: str, params: EstimatorParams | None = None) -> Estimator:
    """An estimator that has seen nothing yet."""
    from quadsim.estimation import ESTIMATORS
    from quadsim.estimation.eskf.parameters import EstimatorParams
    from quadsim.geometry.geodesy import Datum

    return ESTIMATORS[name](params or EstimatorParams(), Datum())


def started(params: EstimatorParams | None = None) -> Estimator:
    """An error-state filter that has had two seconds of the hover.

    Raises:
        FlightError: it has not started.
    """
    estimator = fresh("eskf", params)
    hover(estimator, 0, 1000)
    if not estimator.running:
        raise FlightError("the estimator eskf did not start")
    return estimator


def late(estimator: Estimator) -> None:
    """Pressures that come 200 ms late, one between two IMU samples each."""
    from quadsim.world.air.atmosphere import pressure_at

    for k in range(1000, 1000 + LATE):
        stamp_ns, f_S, w_S = level(k)
        estimator.imu(stamp_ns, f_S, w_S, F_COVARIANCE, W_COVARIANCE)
        if estimator.pressure(stamp_ns - 201_000_000, pressure_at(500.0), 36.0) != "ok":
            raise FlightError("a late pressure was refused")


def calls(estimator: Estimator) -> None:
    """IMU samples alone."""
    for k in range(1000, 1000 + SAMPLES):
        stamp_ns, f_S, w_S = level(k)
        estimator.imu(stamp_ns, f_S, w_S, F_COVARIANCE, W_COVARIANCE)


def measure_parts(session: Session) -> dict[str, Any]:
    """Parts of the error-state filter, us."""
    from quadsim_bench import estimator_loops as loops

    functions = {
        "prediction": loops.predictions,
        "scalar": loops.pressures,
        "vector": loops.fixes,
        "field": loops.fields,
        "copy": loops.copies,
    }
    runs = 3 if session.short else 21
    plain = session.once("estimator", started)
    full = session.once("estimator with all states", lambda: started(everything()))
    found = {}
    for name, function in functions.items():
        for more, filters in (("", plain.lines), ("_all", full.lines)):
            taken_s = median_s(filters.copy, partial(function, count=CALLS), runs)
            found[f"eskf_{name}{more}_us"] = taken_s / CALLS * 1e6
    found["eskf_call_us"] = median_s(started, calls, runs) / SAMPLES * 1e6
    found["eskf_late_us"] = median_s(started, late, runs) / LATE / 2.0 * 1e6
    return found


def measure_flights(session: Session) -> dict[str, Any]:
    """Each estimator over the messages of six seconds, from its start; nothing is read."""

    def fly(estimator: Estimator) -> None:
        from quadsim.estimation.smoother.smoother import Smoother

        hover(estimator, 0, FLOWN)
        if isinstance(estimator, Smoother):
            estimator.smooth()

    runs = 3 if session.short else 9
    flown_s = FLOWN * PERIOD_NS * 1e-9
    return {
        f"estimator_{name}_x_realtime": flown_s / median_s(partial(fresh, name), fly, runs)
        for name in FLIGHTS
    }


ALL_STATES = "less the same with all 28 states:"
FIGURES = "\n".join(
    (
        *(f"eskf_{name}_us us {words}" for name, words in PARTS.items()),
        *(f"eskf_{name}_all_us us {ALL_STATES} {words.split(maxsplit=1)[1]}"
          for name, words in PARTS.items()),
        "eskf_call_us us less an IMU sample, called from Python",
        "eskf_late_us us less a measurement 100 ms late, IMU at 500 Hz",
    )
)  # fmt: skip
RATES = "IMU 500 Hz, field 100 Hz, pressure 50 Hz, fixes 5 Hz, a call each"
FLOWN_LINES = "\n".join(f"estimator_{name}_x_realtime x more {name}: {RATES}" for name in FLIGHTS)

MEASUREMENTS = (
    Measurement("estimator_parts", lines(FIGURES), measure_parts, short=True),
    Measurement("estimators", lines(FLOWN_LINES), measure_flights),
)
