"""A vehicle file judged by recorded flights: forces, predicted motions, bounds, and suspects.

A suspect is a figure of the file that, if it were another, explains what flights show.
Accelerations that a vehicle leaves are linear in each figure, or in its inverse. So a second
evaluation tells them for every factor, and the factor is that of the maximum likelihood of six
channels whose noise is not known. By this likelihood suspects are ranked. Weighing all suspects
alike would favour one that leaves a channel as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from scipy.signal import welch
from scipy.stats import t as student

from quadsim.analysis.metrics import rms
from quadsim.analysis.report.figures import RUNS, style
from quadsim.analysis.report.template import figure_markup, render_page
from quadsim.base.compiled import Array
from quadsim.lab.identify.shooting import UnknownFigure, start_figures, with_values
from quadsim.lab.validate.bounds import REGIMES, WindowErrors, bound_rows
from quadsim.lab.validate.recorded import RecordedFlight
from quadsim.lab.validate.residuals import (
    HORIZONS_S,
    Prediction,
    Wrench,
    as_logged,
    predict_flight,
    residual_wrench,
    wrench_of,
)
from quadsim.vehicle.parameters import VehicleParams

#: Bands of the spectra, Hz.
BANDS_HZ = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
#: Shares of all flights' time that part the regimes.
PARTS = (0.0, 1 / 3, 2 / 3, 1.0)
#: Time over which a velocity changes for an acceleration, s.
ACCELERATION_S = 0.1


@dataclass(frozen=True)
class ValidationSettings:
    """How flights are judged.

    Attributes:
        gravity_mps2: where they were flown.
        trim_s: time before a window in which a constant torque is observed; 0: none.
        tolerance_m: error of position beyond which a prediction is not to be trusted.
    """

    gravity_mps2: float = 9.80665
    trim_s: float = 4.0
    level: float = 0.9
    tolerance_m: float = 0.25


@dataclass(frozen=True)
class JudgedFlight:
    """One flight with what was found in it."""

    flight: RecordedFlight
    wrench: Wrench
    prediction: Prediction
    bands: list[dict[str, float]]


def judge_predictions(
    flight: RecordedFlight, vehicle: VehicleParams, settings: ValidationSettings
) -> JudgedFlight:
    """Compare a flight with a vehicle's file."""
    return JudgedFlight(
        flight,
        residual_wrench(flight, vehicle, settings.gravity_mps2),
        predict_flight(flight, vehicle, settings.gravity_mps2, settings.trim_s),
        _bands(flight, vehicle, settings.gravity_mps2),
    )


def report(
    judged: Sequence[JudgedFlight], vehicle: VehicleParams, settings: ValidationSettings
) -> dict[str, Any]:
    """What ``quadsim validate --json`` prints: pooled, and the same of each log."""
    pooled = {**_figures(judged), "regimes": _regimes(judged), "bands": judged[0].bands}
    edges, flights = window_errors(judged)
    bounds = bound_rows(np.array(HORIZONS_S), flights, edges, settings.level)
    return {
        "vehicle": vehicle.name,
        **pooled,
        "bounds": bounds,
        "trust_s": _trust(bounds, settings.tolerance_m),
        "tolerance_m": settings.tolerance_m,
        "trim_s": settings.trim_s,
        "fades": bool(vehicle.recorder.torque_memory),
        "logs": [
            {
                "log": each.flight.name,
                "flown_s": float(each.flight.free.sum() * each.flight.dt_s),
                **_figures([each]),
                "bands": each.bands,
                "notes": list(each.flight.notes),
            }
            for each in judged
        ],
    }


def _of_all(parts: Iterable[Array]) -> float | None:
    """Root mean square over flights; NaN are left out."""
    return rms(np.concatenate(list(parts)))


def _figures(judged: Sequence[JudgedFlight]) -> dict[str, Any]:
    """Errors of force, torque and prediction over one or several flights."""
    predictions = [each.prediction for each in judged]
    rows = []
    for h, horizon_s in enumerate(HORIZONS_S):
        row = {
            "horizon_s": horizon_s,
            "windows": int(sum(np.isfinite(p.position_m[:, h]).sum() for p in predictions)),
            "position_rmse_m": _of_all(p.position_m[:, h] for p in predictions),
            "velocity_rmse_mps": _of_all(p.velocity_mps[:, h] for p in predictions),
            "attitude_rmse_rad": _of_all(p.attitude_rad[:, h] for p in predictions),
        }
        load = _of_all(p.load_m[:, h] for p in predictions)
        rows.append(row if load is None else {**row, "load_rmse_m": load})
    return {
        "force_rmse_n": _of_all(each.wrench.force for each in judged),
        "torque_rmse_nm": _of_all(each.wrench.torque for each in judged),
        "prediction": [row for row in rows if row["windows"]],
    }


def _conditions(flight: RecordedFlight) -> dict[str, Array]:
    """What regimes go by: name with unit to a value at each time."""
    return {
        "speed, m/s": np.linalg.norm(flight.v_W, axis=1),
        "climb, m/s": flight.v_W[:, 2],
        "height, m": flight.p_W[:, 2],
        "yaw rate, rad/s": np.abs(flight.w_B[:, 2]),
        "rotor speed, rad/s": flight.speed.mean(axis=1),
        "battery, V": flight.voltage_V,
    }


def _edges(values: Array) -> Array:
    """Ends of thirds of the time, apart from each other."""
    known = values[np.isfinite(values)]
    return np.unique(np.quantile(known, PARTS)) if len(known) else np.zeros(0)


def _regimes(judged: Sequence[JudgedFlight]) -> list[dict[str, Any]]:
    """Residual force and torque by thirds of each condition."""
    conditions = [_conditions(each.flight) for each in judged]
    rows = []
    for name in conditions[0]:
        at = [part[name][each.wrench.rows] for part, each in zip(conditions, judged, strict=True)]
        values = np.concatenate(at)
        force = np.concatenate([each.wrench.force for each in judged])
        torque = np.concatenate([each.wrench.torque for each in judged])
        edges = _edges(values)
        for low, high in pairwise(edges.tolist()):
            inside = (values >= low) & (values <= high)
            rows.append(
                {
                    "by": name,
                    "low": low,
                    "high": high,
                    "force_rmse_n": rms(force[inside]),
                    "force_mean_n": force[inside].mean(axis=0).tolist(),
                    "torque_rmse_nm": rms(torque[inside]),
                }
            )
    return rows


def _window_conditions(each: JudgedFlight, horizon_s: float) -> Array:
    """(K, 4) of windows, as :data:`quadsim.lab.validate.bounds.CONDITIONS` names them."""
    flight, half = each.flight, max(1, round(0.5 * ACCELERATION_S / each.flight.dt_s))
    v_W = np.pad(flight.v_W, ((half, half), (0, 0)), mode="edge")
    a_W = (v_W[2 * half :] - v_W[: -2 * half]) / (2 * half * flight.dt_s)
    sizes = np.linalg.norm(np.stack([flight.v_W, a_W, flight.w_B]), axis=2)
    steps, first = round(horizon_s / flight.dt_s), each.prediction.first
    ends = np.minimum(first + steps, len(flight) - 1)
    spans = np.stack([first, ends + 1], axis=1).ravel()
    padded = np.pad(sizes, ((0, 0), (0, 1)))
    largest = np.maximum.reduceat(padded, spans, axis=1)[:, ::2]
    moved_m = np.cumsum(sizes[0]) * flight.dt_s
    return np.column_stack([*largest, moved_m[ends] - moved_m[first]])


def window_errors(judged: Sequence[JudgedFlight]) -> tuple[Array, list[list[WindowErrors]]]:
    """(H, 4) body rates between the regimes, and errors of position by horizon and flight."""
    edges, flights = [], []
    for h, horizon_s in enumerate(HORIZONS_S):
        at = [_window_conditions(each, horizon_s) for each in judged]
        errors = [each.prediction.position_m[:, h] for each in judged]
        rate = np.concatenate([part[:, 2] for part in at])
        known = np.isfinite(np.concatenate(errors))
        edges.append(np.quantile(rate[known], PARTS) if known.any() else np.zeros(len(PARTS)))
        flights.append(
            [
                WindowErrors(error, np.digitize(part[:, 2], edges[-1][1:-1]), part)
                for error, part in zip(errors, at, strict=True)
            ]
        )
    return np.array(edges), flights


def _trust(bounds: Sequence[dict[str, Any]], tolerance_m: float) -> dict[str, float]:
    """Longest horizon of each regime whose bound is within the tolerance, and of all before it."""
    found = {}
    for name in REGIMES:
        found[name] = 0.0
        for row in (row for row in bounds if row["regime"] == name):
            if row["position_m"] is None or row["position_m"] > tolerance_m:
                break
            found[name] = row["horizon_s"]
    return found


def _bands(
    flight: RecordedFlight, vehicle: VehicleParams, gravity_mps2: float
) -> list[dict[str, float]]:
    """Specific force by bands of frequency: recorded, and of the vehicle without vibration."""
    if not np.isfinite(flight.f_B).all():
        return []
    force_B = wrench_of(flight, vehicle, gravity_mps2)[:, :3]
    modelled = as_logged(flight, force_B) / vehicle.mass_kg
    rate_hz = 1.0 / flight.dt_s
    length = min(len(flight), round(4.0 * rate_hz))
    spectra = []
    for values in (flight.f_B, modelled):
        at_hz, density = welch(values, rate_hz, nperseg=length, axis=0)
        spectra.append(density.sum(axis=1))
    rows = []
    for low, high in pairwise(BANDS_HZ):
        inside = (at_hz >= low) & (at_hz < high)
        if high > 0.5 * rate_hz or not inside.any():
            break
        size = [math.sqrt(float(part[inside].sum() * at_hz[1])) for part in spectra]
        rows.append(
            {"low_hz": low, "high_hz": high, "recorded_mps2": size[0], "modelled_mps2": size[1]}
        )
    return rows


#: Suspects, and the figures of the file that they scale.
SUSPECTS = {
    "mass": ("mass_kg",),
    "thrust": ("thrust_coefficient_N_s2",),
    "drag": (
        "rotor_drag_N_s2",
        "rotor.inflow_drag_N_s2_m2",
        *(f"{name}[{i}]" for name in ("drag_area_m2", "body_drag_N_s_m") for i in range(3)),
    ),
    "inertia": tuple(f"inertia_kg_m2[{i}]" for i in range(3)),
    "rotors' drag torque": ("torque_ratio_m",),
}
#: Suspects in whose inverse accelerations are linear.
INVERSE = ("mass", "inertia")
#: Change by which derivatives are taken.
STEP = 0.01
#: Factors that are tried, in steps of 0.1 %.
FACTORS = np.exp(np.arange(-1600, 1601) / 1000.0)


@dataclass(frozen=True)
class Suspect:
    """What one figure would have to be.

    Attributes:
        factor: by which the figure is off from the file's.
        half: of the factor's 95 % interval, flights or stretches of them being independent.
        explained: share that this removes of the squared error, weighed by what is left.
        likelihood: logarithm of how much likelier a sample of all six channels is by it.
    """

    name: str
    factor: float
    half: float
    explained: float
    likelihood: float


def with_factor(vehicle: VehicleParams, suspect: str, factor: float) -> VehicleParams:
    """A vehicle of which one suspect is so much larger."""
    figures = [UnknownFigure(name, 1.0) for name in SUSPECTS[suspect]]
    return with_values(vehicle, figures, factor * start_figures(vehicle, figures))


def rank_suspects(
    flights: Sequence[RecordedFlight], vehicle: VehicleParams, gravity_mps2: float
) -> list[Suspect]:
    """Suspects, the one that explains most first.

    Args:
        flights: or stretches of them, which intervals take as independent.
        gravity_mps2: where it was flown.
    """
    before = _errors(flights, vehicle, gravity_mps2)
    return sorted(
        (_suspect(name, flights, vehicle, gravity_mps2, before) for name in SUSPECTS),
        key=lambda each: -each.likelihood,
    )


def _suspect(
    name: str,
    flights: Sequence[RecordedFlight],
    vehicle: VehicleParams,
    gravity_mps2: float,
    before: list[Array],
) -> Suspect:
    """The likeliest factor of one suspect."""
    power = -1.0 if name in INVERSE else 1.0
    moved = _errors(flights, with_factor(vehicle, name, (1.0 + STEP) ** power), gravity_mps2)
    slopes = [(ahead - here) / STEP for ahead, here in zip(moved, before, strict=True)]
    error, slope = np.concatenate(before), np.concatenate(slopes)
    square, both, bend = (error**2).mean(0), (error * slope).mean(0), (slope**2).mean(0)
    change = FACTORS[:, None] ** power - 1.0
    left = square + 2.0 * both * change + bend * change**2 + 1e-24
    best = int(np.argmin(np.log(left).sum(axis=1)))
    factor, weight = float(FACTORS[best]), 1.0 / left[best]
    scores = np.array([
        ((here + change[best] * by) * by * weight).sum()
        for here, by in zip(before, slopes, strict=True)
    ])  # fmt: skip
    across, count = float((bend * weight).sum()) * len(error), len(scores)
    half = math.inf
    if across > 0.0 and count > 1:
        spread = math.sqrt((scores**2).sum() * count / (count - 1)) / across
        half = float(student.ppf(0.975, count - 1)) * spread * factor ** (1.0 - power)
    ratio = (square + 1e-24) * weight
    explained = 1.0 - len(ratio) / float(ratio.sum())
    return Suspect(name, factor, half, explained, 0.5 * float(np.log(ratio).sum()))


def _errors(
    flights: Sequence[RecordedFlight], vehicle: VehicleParams, gravity_mps2: float
) -> list[Array]:
    """(N, 6) accelerations by force and torque that the vehicle leaves of each flight."""
    scale = [vehicle.mass_kg] * 3 + list(vehicle.inertia_kg_m2)
    wrenches = (residual_wrench(flight, vehicle, gravity_mps2) for flight in flights)
    return [np.nan_to_num(np.hstack([w.force, w.torque])) / scale for w in wrenches]


#: Points of a curve over time.
_POINTS = 1500


def render_validation(judged: Sequence[JudgedFlight], result: Mapping[str, Any]) -> str:
    """The page as text.

    Args:
        result: of :func:`quadsim.lab.validate.validation.report`.
    """
    parts = [
        ("Error of the predicted position by horizon", _by_horizon(result)),
        (f"Force along z that is not explained, {judged[0].flight.name}", _force(judged[0])),
        ("Specific force by frequency", _spectrum(result)),
    ]
    return render_page(
        "lab/validate/validation.html",
        title=f"{result['vehicle']}: predicted and flown",
        r=result,
        level=result["bounds"][0]["level"],
        parts=[{"title": title, "plot": figure_markup(figure)} for title, figure in parts],
    )


def _by_horizon(result: Mapping[str, Any]) -> go.Figure:
    figure = go.Figure()
    for k, log in enumerate([*result["logs"], {**result, "log": "all"}]):
        rows, last = log["prediction"], k == len(result["logs"])
        figure.add_scatter(
            x=[row["horizon_s"] for row in rows],
            y=[row["position_rmse_m"] for row in rows],
            name=log["log"],
            line={"color": "black" if last else RUNS[k % len(RUNS)], "width": 3 if last else 1},
        )
    style(figure, 380, x_title="horizon, s", y_title="m")
    figure.update_xaxes(type="log")
    figure.update_yaxes(type="log")
    return figure


def _force(judged: JudgedFlight) -> go.Figure:
    wrench, flight = judged.wrench, judged.flight
    thin = slice(None, None, max(1, len(wrench.rows) // _POINTS))
    figure = go.Figure()
    for axis, name in enumerate("xyz"):
        figure.add_scatter(
            x=flight.time_s[wrench.rows][thin], y=wrench.force[thin, axis], name=name
        )
    style(figure, 320, y_title="N")
    return figure


def _spectrum(result: Mapping[str, Any]) -> go.Figure:
    figure = go.Figure()
    for key, name in (("recorded_mps2", "recorded"), ("modelled_mps2", "of the vehicle's file")):
        bands = result["bands"]
        figure.add_bar(
            x=[f"{band['low_hz']:g} to {band['high_hz']:g} Hz" for band in bands],
            y=np.array([band[key] for band in bands]),
            name=name,
        )
    style(figure, 320, x_title="", y_title="m/s^2")
    return figure
