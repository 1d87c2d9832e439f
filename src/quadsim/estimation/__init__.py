"""State estimation from the sensors' messages; nothing here sees the truth."""

from __future__ import annotations

from collections.abc import Callable

from quadsim.base.errors import InputError
from quadsim.base.parts import Part, is_part
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.estimation.interface import BlindIns, ErrorStateEkf, Estimator
from quadsim.estimation.own import OwnEstimator
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


def make_estimator(
    name: str, params: EstimatorParams, datum: Datum | None
) -> Estimator | OwnEstimator:
    """An estimator by its name: ours, or ``module:Class`` of one's own.

    Raises:
        InputError: there is none of this name.
    """
    if name in ESTIMATORS:
        return ESTIMATORS[name](params, datum)
    if is_part("estimator", name):
        return OwnEstimator(Part("estimator", name), params, datum)
    raise InputError(
        f"unknown estimator {name!r}; known: {', '.join(ESTIMATORS)}, or module:Class of your own"
    )
