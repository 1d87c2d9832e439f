"""State estimation from the sensors' messages; nothing here sees the truth."""

from __future__ import annotations

from collections.abc import Callable

from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.interface import BlindIns, ErrorStateEkf, Estimator
from quadsim.estimation.reference_filters.filter import Ekf7, GpsIns
from quadsim.estimation.smoother.smoother import Smoother
from quadsim.geometry.geodesy import Datum

#: Estimators by name: what builds one from its parameters and the datum (None: not known yet).
ESTIMATORS: dict[str, Callable[[EstimatorParams, Datum | None], Estimator]] = {
    "eskf": ErrorStateEkf,
    "ekf7": Ekf7,
    "gps_ins": GpsIns,
    "blind": BlindIns,
    "smoother": Smoother,
}
