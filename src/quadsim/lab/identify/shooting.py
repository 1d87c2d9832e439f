"""A vehicle's figures from real flights: by the forces at each instant, and by multiple shooting.

Both compare recorded flights with the vehicle's own kernels (:mod:`quadsim.lab.validate`), so that
what is fitted is what is simulated. Shooting predicts the motion over many short windows from
recorded rotor speeds (H. G. Bock, *Recent advances in parameter identification techniques for
ODE*, 1983): noise of the rotor speeds, which biases a regression on accelerations, averages out
over a window. The bias that is left is corrected (:func:`with_noise_again`).
Intervals are of the sandwich estimator with a flight as the unit that is independent (K.-Y. Liang
and S. L. Zeger, *Longitudinal data analysis using generalized linear models*, Biometrika 73, 1986):
errors within a flight may be correlated as they like. Each flight's errors count as those of a fit
without it (R. M. Bell and D. F. McCaffrey, *Bias reduction in standard errors for linear regression
with multi-stage samples*, Survey Methodology 28, 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import t as student

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.parameters import flatten, unflatten
from quadsim.lab.validate.kernels import make_model, predicted
from quadsim.lab.validate.recorded import COMMANDED, RecordedFlight, as_recorded_by, turn
from quadsim.lab.validate.residuals import (
    acting_torque,
    block_of,
    residual_wrench,
    starts_of,
    state_at,
)
from quadsim.vehicle.parameters import RecorderParams, VehicleParams

Residuals = Callable[[VehicleParams], list[Array]]

#: Name of an unknown that moves all rotors: the centre of mass from where the file has it, m.
CENTRE = "centre_of_mass_B_m"
#: Largest error of a prediction, in its unit.
_LARGEST = 1e3
#: Change of the cost, as a share, after which a fit has come to its end.
CONVERGED = 1e-5
#: As of :func:`fit_figures`.
OUTLYING = 2.0
#: Errors that count as one, of position in m, velocity in m/s and attitude in rad.
UNIT_M, UNIT_MPS, UNIT_RAD = 0.02, 0.05, 0.05


#: A figure so near to its bound, in sizes, is on it.
ON_BOUND = 1e-3


@dataclass(frozen=True)
class UnknownFigure:
    """A figure to be found.

    Attributes:
        name: dotted, as in the vehicle's file, with an index in brackets where it is a list.
        size: about how large it or its change is.
        low, high: bounds; a bound that is far in sizes makes SciPy's search crawl.
        needed: whether nothing flies without it, so that its interval is to be short against it.
    """

    name: str
    size: float
    low: float = -np.inf
    high: float = np.inf
    needed: bool = False


@dataclass(frozen=True)
class Fit:
    """A vehicle that was fitted.

    Attributes:
        values, half: (n,) figures and half of their 95 % intervals.
        told: (n,) whether the flights tell the figure: half of its interval is within half of its
            value, or of its size where it may be zero.
        bound: (n,) whether the figure ended on a bound.
    """

    vehicle: VehicleParams
    unknowns: tuple[UnknownFigure, ...]
    values: Array
    half: Array
    flights: int

    @property
    def told(self) -> NDArray[np.bool_]:
        """(n,) whether the flights tell a figure, in place of what the file had."""
        return np.asarray(self.half < 0.5 * self.scale)

    @property
    def scale(self) -> Array:
        """(n,) size of a figure, by which its interval is judged."""
        sizes = [0.0 if each.needed else each.size for each in self.unknowns]
        return np.asarray(np.maximum(np.abs(self.values), sizes))

    @property
    def bound(self) -> NDArray[np.bool_]:
        """(n,) whether a figure ended on its bound, beyond which the flights may want it."""
        ends = [
            min(value - each.low, each.high - value) / each.size
            for each, value in zip(self.unknowns, self.values.tolist(), strict=True)
        ]
        return np.array(ends) < ON_BOUND


def with_values(
    vehicle: VehicleParams, unknowns: Sequence[UnknownFigure], values: Array
) -> VehicleParams:
    """A vehicle with some figures changed; moments that no body has end at those that one has."""
    flat = flatten(replace(vehicle, rotor_layout="explicit", arm_m=0.0, rotor_height_m=0.0))
    flat[CENTRE] = [0.0, 0.0, 0.0]
    for unknown, value in zip(unknowns, values.tolist(), strict=True):
        name, _, index = unknown.name.partition("[")
        numbers = flat[name]
        if isinstance(numbers, list):
            numbers[int(index.rstrip("]"))] = value
        else:
            flat[name] = value
    flat["inertia_kg_m2"] = _of_a_body(np.array(flat["inertia_kg_m2"]))
    hubs = np.reshape(flat["rotor_positions_B_m"], (-1, 3)) - flat.pop(CENTRE)
    flat["rotor_positions_B_m"] = hubs.ravel().tolist()
    return unflatten(VehicleParams, flat, vehicle.name)


def _of_a_body(moments: Array) -> list[float]:
    """Moments of inertia of which none is larger than the sum of the others."""
    others = (moments.sum() - moments) * (1.0 - 1e-9)
    return [float(value) for value in np.minimum(moments, others)]


def start_figures(vehicle: VehicleParams, unknowns: Sequence[UnknownFigure]) -> Array:
    """(n,) what a vehicle has of them now; numbers that a list of its file lacks are zero."""
    flat = {**flatten(vehicle), CENTRE: [0.0, 0.0, 0.0]}
    found = []
    for unknown in unknowns:
        name, _, index = unknown.name.partition("[")
        numbers, place = flat[name], int(index.rstrip("]") or 0)
        values = numbers if isinstance(numbers, list) else [numbers]
        found.append(values[place] if place < len(values) else 0.0)
    return np.array(found, float)


def fit_figures(
    vehicle: VehicleParams,
    unknowns: Sequence[UnknownFigure],
    residuals: Residuals,
    most: int = 30,
    noisier: Sequence[Residuals] = (),
    outlying: float = OUTLYING,
) -> Fit:
    """Least squares of what ``residuals`` gives for each flight, with 95 % intervals.

    Args:
        most: evaluations, those for derivatives not counted.
        noisier: the same with noise once more, whose mean change of the gradient is taken off.
        outlying: errors beyond so many times the median count by their size, not by its square.
    """
    start = start_figures(vehicle, unknowns)
    size = np.array([unknown.size for unknown in unknowns])
    low, high = (np.array([getattr(u, end) for u in unknowns]) for end in ("low", "high"))

    def stacked(scaled: Array) -> Array:
        try:
            tried = with_values(vehicle, unknowns, scaled * size)
        except InputError:  # no such vehicle flies
            return np.full(len(errors), _LARGEST)
        return np.concatenate(residuals(tried))

    begin, errors = np.clip(start, low, high) / size, np.concatenate(residuals(vehicle))
    for evaluations in (most - most // 2, most // 2):
        # errors far beyond the scale would be minimised by their sum, which takes long
        scale = max(1.0, outlying * float(np.median(np.abs(errors))))
        found = least_squares(
            stacked, begin, bounds=(low / size, high / size), diff_step=1e-4, x_scale=1.0,
            max_nfev=max(evaluations, 1), loss="soft_l1", f_scale=scale, ftol=CONVERGED,
        )  # fmt: skip
        begin, errors = found.x, found.fun
    best = with_values(vehicle, unknowns, found.x * size)
    lengths = [len(part) for part in residuals(best)]
    # SciPy scales the Jacobian for the loss so that this times it is the cost's gradient
    weighted = found.fun * (1.0 + (found.fun / scale) ** 2) ** 0.25
    half = _intervals(found.jac, weighted, lengths) * size
    values = found.x * size
    with suppress(InputError):  # at the edge of what a body can be, the figures stay
        if noisier:
            moved = np.mean([_gradient(best, unknowns, each, scale) for each in noisier], axis=0)
            free = found.jac * (found.active_mask == 0)
            step = np.linalg.pinv(free.T @ free) @ (moved - found.grad)
            corrected = np.clip(found.x + step, low / size, high / size) * size
            best, values = with_values(vehicle, unknowns, corrected), corrected
    return Fit(best, tuple(unknowns), values, half, len(lengths))


def _gradient(
    vehicle: VehicleParams, unknowns: Sequence[UnknownFigure], residuals: Residuals, scale: float
) -> Array:
    """(n,) of the cost that a fit minimises, by figures in their scaled form."""
    errors, jacobian = _derivatives(vehicle, unknowns, residuals, 1e-4)
    return np.asarray(jacobian.T @ (errors / np.sqrt(1.0 + (errors / scale) ** 2)))


def _derivatives(
    vehicle: VehicleParams, unknowns: Sequence[UnknownFigure], residuals: Residuals, change: float
) -> tuple[Array, Array]:
    """(errors,) and (errors, n) derivatives by figures in their scaled form."""
    start, errors = start_figures(vehicle, unknowns), np.concatenate(residuals(vehicle))
    columns = []
    for k, unknown in enumerate(unknowns):
        moved = start.copy()
        moved[k] += change * unknown.size
        there = np.concatenate(residuals(with_values(vehicle, unknowns, moved)))
        columns.append((there - errors) / change)
    return errors, np.stack(columns, axis=1)


def _intervals(jacobian: Array, residual: Array, lengths: Sequence[int]) -> Array:
    """(n,) half widths of 95 % intervals, of figures in their scaled form."""
    bread = np.linalg.pinv(jacobian.T @ jacobian)
    ends = np.cumsum(lengths)[:-1]
    count, unit = len(lengths), (1.0 + 1e-9) * np.eye(len(bread))
    scores = [
        np.linalg.solve(unit - part.T @ part @ bread if count > 1 else unit, part.T @ rest)
        for part, rest in zip(np.split(jacobian, ends), np.split(residual, ends), strict=True)
    ]
    meat = sum(np.outer(score, score) for score in scores) * max(count - 1, 1) / count
    deviation = np.sqrt(np.maximum(np.diag(bread @ meat @ bread), 0.0))
    deviation[~jacobian.any(axis=0)] = np.inf  # it ended where nothing can follow it
    return np.asarray(student.ppf(0.975, max(count - 1, 1)) * deviation)


def _moved(
    flights: Sequence[RecordedFlight],
) -> Callable[[RecorderParams], Sequence[RecordedFlight]]:
    """Flights by a vehicle's recorder, of which the last one's are stored."""

    @lru_cache(maxsize=1)
    def by(recorder: RecorderParams) -> Sequence[RecordedFlight]:
        return [as_recorded_by(flight, recorder) for flight in flights]

    # residual and memory of the torque move nothing
    return lambda recorder: by(replace(recorder, torque_residual=(), torque_memory=()))


def wrench_residuals(
    flights: Sequence[RecordedFlight], gravity_mps2: float, every: int, torque_per_N: float
) -> Residuals:
    """Force in N and torque, in ``torque_per_N`` N m, that a vehicle leaves of each flight."""
    moved = _moved(flights)

    def of(vehicle: VehicleParams) -> list[Array]:
        found: list[Array] = []
        for flight in moved(vehicle.recorder):
            left = residual_wrench(flight, vehicle, gravity_mps2)
            rows = np.hstack([left.force, left.torque / torque_per_N])[::every]
            found.append(rows.ravel())
        return found

    return of


def motion_residuals(
    flights: Sequence[RecordedFlight],
    gravity_mps2: float,
    horizons_s: Sequence[float],
    apart_s: float,
    trim_s: float,
) -> Residuals:
    """Errors of predicted positions, velocities and attitudes of each flight, in their units."""
    moved = _moved(flights)

    def of(vehicle: VehicleParams) -> list[Array]:
        return [
            _motion_errors(flight, vehicle, gravity_mps2, horizons_s, apart_s, trim_s)
            for flight in moved(vehicle.recorder)
        ]

    return of


def _motion_errors(
    flight: RecordedFlight,
    vehicle: VehicleParams,
    gravity_mps2: float,
    horizons_s: Sequence[float],
    apart_s: float,
    trim_s: float,
) -> Array:
    steps = [round(horizon / flight.dt_s) for horizon in horizons_s]
    every = steps[0]
    steps = [every * round(step / every) for step in steps]
    first = starts_of(flight, steps[-1], max(1, round(apart_s / flight.dt_s)))
    wrench = residual_wrench(flight, vehicle, gravity_mps2)
    out = predicted(
        make_model(vehicle, gravity_mps2), flight.speed, flight.dt_s, first,
        state_at(flight, first),
        acting_torque(flight, vehicle, wrench, first, trim_s, steps[-1]), block_of(flight),
        every, steps[-1] // every + 1,
    )  # fmt: skip
    parts = []
    for step in steps:
        at, state = first + step, out[:, step // every]
        apart = (turn(state[:, 6:10]) * turn(flight.q_WB[at]).inv()).as_rotvec()
        parts += [(state[:, :3] - flight.p_W[at]) / UNIT_M / step * steps[-1]]
        parts += [(state[:, 3:6] - flight.v_W[at]) / UNIT_MPS / step * steps[-1]]
        parts += [apart / UNIT_RAD / step * steps[-1]]
        if np.isfinite(flight.load).all():
            parts += [(state[:, 10:13] - flight.load[at, :3]) / UNIT_M / step * steps[-1]]
    errors = np.concatenate([part.ravel() for part in parts])
    return np.nan_to_num(np.clip(errors, -_LARGEST, _LARGEST), nan=_LARGEST)


#: Third differences over such steps leave the noise of a rotor's speed, which its motor lets change
#: slowly, s. Shorter steps would see what interpolation onto the grid takes off.
NOISE_STEP_S = 0.004
#: Deviation of third differences of white noise, and median of the size of normal noise.
GAIN, MEDIAN = 20.0**0.5, 0.6745


def rotor_noise(flight: RecordedFlight) -> Array:
    """(rotors,) deviation in rad/s of the white noise of the rotor speeds, where it flies.

    Commands have none: what is rough in them the motors were asked for.
    """
    known, every = flight.speed[flight.free], max(1, round(NOISE_STEP_S / flight.dt_s))
    rows = len(known) // every
    if rows < 4 or COMMANDED in flight.notes:
        return np.zeros(known.shape[1])
    left = np.diff(known[: rows * every].reshape(rows, every, -1), 3, axis=0)
    return np.asarray(np.median(np.abs(left), axis=(0, 1)) / (MEDIAN * GAIN))


def with_noise_again(flights: Sequence[RecordedFlight]) -> list[list[RecordedFlight]]:
    """Flights with as much noise once more in the rotor speeds, added and subtracted.

    The noise makes a predicted motion drift, and its derivative by the figures with it. Both agree,
    so that least squares prefers figures that damp the drift. The same noise once more, with either
    sign, changes the gradient of the cost by as much again; :func:`fit_figures` takes that change
    off (corrected scores: T. Nakamura, *Corrected score function for errors-in-variables models*,
    Biometrika 77, 1990; by simulated noise: S. J. Novick and L. A. Stefanski, *Corrected score
    estimation via complex variable simulation extrapolation*, JASA 97, 2002).
    """
    rng = np.random.default_rng(0)
    again = [rotor_noise(each) * rng.normal(size=each.speed.shape) for each in flights]
    return [
        [replace(each, speed=each.speed + sign * n) for each, n in zip(flights, again, strict=True)]
        for sign in (1.0, -1.0)
    ]
