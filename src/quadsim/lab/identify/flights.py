"""Figures of a vehicle out of recorded flights, by the motions that it predicts.

Logs of real vehicles have poses without velocities, rotor speeds with noise, and a recorder whose
clocks and axes are not quite the vehicle's. All of that is unknown, as the figures are: motions
are predicted from many starts on (:mod:`quadsim.lab.identify.shooting`), and figures, mount, delays
and biases are those that predict best.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.parameters import flatten, from_mapping
from quadsim.lab.identify.alignment import Alignment
from quadsim.lab.identify.shooting import (
    CENTRE,
    Fit,
    Residuals,
    UnknownFigure,
    fit_figures,
    motion_residuals,
    start_figures,
    with_noise_again,
    with_values,
    wrench_residuals,
)
from quadsim.lab.parameter_text import parameter_lines, rounded
from quadsim.lab.validate.recorded import RecordedFlight, as_recorded_by
from quadsim.lab.validate.residuals import torque_memory
from quadsim.vehicle.parameters import VehicleParams

#: Fewest stretches whose errors are told apart for intervals, and their least length, s.
STRETCHES, SHORTEST_S = 16, 3.0
#: Error of the specific force that counts as one, over gravity.
FORCE_UNIT = 0.05
#: Every so many instants count of the forces.
EVERY = 10
#: Horizons of the predictions, and the time from start to start, s.
HORIZONS_S, APART_S = (0.1, 0.25, 0.5), 0.2
#: Time before a prediction in which a constant torque is observed, s.
TRIM_S = 4.0
#: What air at 1 m/s changes of a rotor's force in hover, about.
AIR_SHARE = 0.05


@dataclass(frozen=True)
class FlightsFit:
    """A vehicle that was identified.

    Attributes:
        undetermined: figures that they do not tell, with half of the interval that was seen.
    """

    fit: Fit
    undetermined: Mapping[UnknownFigure, float]
    before: VehicleParams

    @property
    def passed(self) -> bool:
        """Whether the flights tell every figure."""
        return not self.undetermined


def recorder_unknowns(levelled: bool) -> list[UnknownFigure]:
    """What a recorder's flights tell by the motions: the rotors' tilt and clock, the accelerometer.

    Where attitudes are levelled by the accelerometer, its bias is the tilt of the rotors.
    The rest, :func:`quadsim.lab.identify.alignment.align_recorder` finds by poses and gyroscope.
    """
    vectors = {
        "mount_rad": (0.02, 0 if levelled else 2),
        "imu_position_B_m": (0.01, 3),
        "accelerometer_bias_mps2": (0.1, 3),
    }
    return [
        *(
            UnknownFigure(f"recorder.{name}[{i}]", size)
            for name, (size, count) in vectors.items()
            for i in range(count)
        ),
        UnknownFigure("recorder.rotor_speed_delay_s", 0.005, -0.02, 0.02),
    ]


def _rotor_scales(vehicle: VehicleParams, gravity_mps2: float) -> tuple[float, float, float]:
    """Thrust in N, speed in rad/s and arm in m of a rotor in hover."""
    thrust = vehicle.mass_kg * gravity_mps2 / vehicle.upright_rotors
    arm = float(np.abs(np.array(vehicle.rotor_positions_B_m)[:, :2]).mean())
    return thrust, math.sqrt(thrust / vehicle.thrust_coefficient_N_s2), arm


def vehicle_unknowns(vehicle: VehicleParams, gravity_mps2: float) -> list[UnknownFigure]:
    """What flights may tell of a vehicle: what it has of inertia, thrust and drag."""
    thrust, speed, arm = _rotor_scales(vehicle, gravity_mps2)
    slope = AIR_SHARE * thrust / speed
    linear = vehicle.rotor.inflow_model == "linear"
    unknowns = [
        UnknownFigure("thrust_coefficient_N_s2", thrust / speed**2, 0.0, needed=True),
        UnknownFigure("torque_ratio_m", vehicle.torque_ratio_m, 0.0, needed=True),
        *(
            UnknownFigure(f"inertia_kg_m2[{i}]", size, 0.2 * size, 5.0 * size, needed=True)
            for i, size in enumerate(vehicle.inertia_kg_m2[:2])
        ),
        *(UnknownFigure(f"{CENTRE}[{i}]", 0.05 * arm) for i in range(2)),
        UnknownFigure("rotor_drag_N_s2", slope, 0.0),
        UnknownFigure("rotor.hub_moment_N_s2", slope * arm),
    ]
    if linear:
        unknowns.append(UnknownFigure("rotor.inflow_N_s2", slope, 0.0))
    optional = [
        *("rotor.inertia_kg_m2", "rotor.translational_lift_N_s2_m2"),
        *("rotor.blade_inflow_N_s2", "rotor.inflow_drag_N_s2_m2"),
        *(f"{name}[{i}]" for name in ("drag_area_m2", "body_drag_N_s_m") for i in range(3)),
    ]
    known = start_figures(vehicle, [UnknownFigure(name, 1.0) for name in optional]).tolist()
    has = [(name, value) for name, value in zip(optional, known, strict=True) if value]
    return [
        *unknowns,
        *(
            UnknownFigure(name, abs(v), -math.inf if "inflow_drag" in name else 0.0)
            for name, v in has
        ),
    ]


def residual_unknowns(vehicle: VehicleParams, gravity_mps2: float) -> list[UnknownFigure]:
    """All sixteen numbers of the torque's residual."""
    thrust, speed, arm = _rotor_scales(vehicle, gravity_mps2)
    slope, hub = AIR_SHARE * thrust / speed, AIR_SHARE * thrust / speed * arm
    few = (thrust / speed**2, slope, slope, hub, hub * speed)
    more = (hub, hub * speed, slope * speed)
    sizes = (*few, *few, *more, *more)
    return [UnknownFigure(f"recorder.torque_residual[{i}]", size) for i, size in enumerate(sizes)]


def with_torque_residual(vehicle: VehicleParams) -> VehicleParams:
    """A vehicle whose torque has room for a residual of its recorded flights."""
    numbers = vehicle.recorder.torque_residual or vehicle.rotor.torque_residual
    numbers += (0.0,) * (16 - len(numbers))
    return replace(vehicle, recorder=replace(vehicle.recorder, torque_residual=numbers))


def cut_flight(flight: RecordedFlight, count: int) -> list[RecordedFlight]:
    """A flight in so many stretches of one length."""
    ends = np.linspace(0, len(flight), count + 1).astype(int)
    names = [
        each.name for each in fields(flight) if isinstance(getattr(flight, each.name), np.ndarray)
    ]
    return [
        replace(flight, known=None, **{name: getattr(flight, name)[a:b] for name in names})
        for a, b in pairwise(ends.tolist())
    ]


def stretches_of(flights: Sequence[RecordedFlight]) -> list[RecordedFlight]:
    """Flights in enough stretches for intervals, if they are long enough for it."""
    each = math.ceil(STRETCHES / len(flights))
    return [
        part
        for flight in flights
        for part in cut_flight(
            flight, max(1, min(each, int(flight.free.sum() * flight.dt_s / SHORTEST_S)))
        )
    ]


def flight_residuals(
    flights: Sequence[RecordedFlight], gravity_mps2: float, mass_kg: float, trim_s: float
) -> Residuals:
    """Errors of motions and of forces, each flight's in one row."""
    motions = motion_residuals(flights, gravity_mps2, HORIZONS_S, APART_S, trim_s)
    forces = wrench_residuals(flights, gravity_mps2, EVERY, math.inf)
    unit = FORCE_UNIT * gravity_mps2 * mass_kg

    def of(vehicle: VehicleParams) -> list[Array]:
        both = zip(motions(vehicle), forces(vehicle), strict=True)
        return [np.concatenate([moved, np.nan_to_num(force) / unit]) for moved, force in both]

    return of


def identify_flights(
    flights: Sequence[RecordedFlight],
    vehicle: VehicleParams,
    gravity_mps2: float,
    residual: bool = False,
) -> FlightsFit:
    """Estimate a multirotor's figures from recorded flights.

    Args:
        vehicle: for the mass, the geometry of the rotors, and where the search begins.
        gravity_mps2: where it was flown.
        residual: whether the torque's residual is fitted, too; inertia and hub moment then stay.

    Raises:
        InputError: too little flight.
    """
    if sum(float(each.free.sum() * each.dt_s) for each in flights) < 2.0 * SHORTEST_S:
        raise InputError(f"less than {2.0 * SHORTEST_S:g} s of free flight in all")
    stretches, set_up = stretches_of(flights), (gravity_mps2, vehicle.mass_kg, TRIM_S)
    errors = flight_residuals(stretches, *set_up)
    noisier = [flight_residuals(each, *set_up) for each in with_noise_again(stretches)]
    unknowns = [*vehicle_unknowns(vehicle, gravity_mps2), *recorder_unknowns(flights[0].levelled)]
    if residual:
        vehicle = with_torque_residual(vehicle)
        unknowns = [each for each in unknowns if "inertia" not in each.name]
        unknowns = [each for each in unknowns if "hub_moment" not in each.name]
        unknowns += residual_unknowns(vehicle, gravity_mps2)
    if not all(np.isfinite(each.f_B).any() for each in flights):
        names = ("accelerometer", "imu_position")
        unknowns = [each for each in unknowns if not any(name in each.name for name in names)]
    fit = fit_figures(vehicle, unknowns, errors, noisier=noisier)
    stored: dict[UnknownFigure, float] = {}
    free = ["residual" in each.name for each in fit.unknowns]
    while not (fit.told | free).all():
        dark = fit.half / np.maximum(fit.scale, 1e-300)
        at = int(np.argmax(np.where(fit.told | free, 0.0, dark)))
        worst = fit.unknowns[at]
        stored[worst] = float(fit.half[at])
        free.pop(at)
        left = [each for each in fit.unknowns if each is not worst]
        if not left:
            break
        fit = fit_figures(_with_file(fit, worst, vehicle), left, errors, 6, noisier)
    return FlightsFit(_with_memory(fit, flights, gravity_mps2), stored, vehicle)


def _with_memory(fit: Fit, flights: Sequence[RecordedFlight], gravity_mps2: float) -> Fit:
    """A fit whose vehicle knows how the torque that it leaves continues."""
    best = fit.vehicle
    moved = [as_recorded_by(flight, best.recorder) for flight in flights]
    recorder = replace(best.recorder, torque_memory=torque_memory(moved, best, gravity_mps2))
    return replace(fit, vehicle=replace(best, recorder=recorder))


def _with_file(fit: Fit, worst: UnknownFigure, before: VehicleParams) -> VehicleParams:
    """The vehicle found, with the file's value of one figure."""
    change = start_figures(before, [worst])
    if worst.name.startswith(CENTRE):  # relative to where the vehicle found has it
        index = [each.name for each in fit.unknowns].index(worst.name)
        change = -fit.values[index : index + 1]
    return with_values(fit.vehicle, [worst], change)


def _figures(found: FlightsFit, alignment: Alignment) -> list[dict[str, Any]]:
    """Every figure that was asked for, with its interval."""
    values = zip(found.fit.values.tolist(), found.fit.half.tolist(), strict=True)
    told = dict(zip((each.name for each in found.fit.unknowns), values, strict=True))
    halves = dict(alignment.undetermined)
    halves |= {each.name: half for each, half in found.undetermined.items()}
    stored = {name: (_of(found.before, name), half) for name, half in halves.items()}
    bound = {each.name for each, on in zip(found.fit.unknowns, found.fit.bound, strict=True) if on}
    return [
        {
            "name": name,
            "value": value,
            "low": value - half,
            "high": value + half,
            "file_value": _of(found.before, name),
            "origin": "kept" if name in stored else "bound" if name in bound else "flight",
        }
        for name, (value, half) in {**told, **alignment.told, **stored}.items()
    ]


def _of(vehicle: VehicleParams, name: str) -> float:
    return float(start_figures(vehicle, [UnknownFigure(name, 1.0)])[0])


def flights_summary(
    found: FlightsFit, flights: Sequence[RecordedFlight], alignment: Alignment
) -> dict[str, Any]:
    """As one JSON object."""
    figures = _figures(found, alignment)
    notes = {note for each in flights for note in each.notes} | {
        f"{each['name']} ended on its bound, {each['value']:.4g}: the flights may want it beyond"
        for each in figures if each["origin"] == "bound"
    }  # fmt: skip
    return {
        "vehicle": found.before.name,
        "passed": found.passed and not alignment.undetermined,
        "flown_s": sum(float(each.free.sum() * each.dt_s) for each in flights),
        "logs": [each.name for each in flights],
        "figures": figures,
        "notes": sorted(notes),
    }


def flights_text(
    found: FlightsFit, alignment: Alignment, raw: Mapping[str, Any], vehicle_name: str
) -> str:
    """The text of a vehicle file: that of ``raw`` with the figures found, and their intervals."""
    flat = flatten(found.fit.vehicle)
    content: dict[str, Any] = {key: dict(value) if isinstance(value, Mapping) else value
                               for key, value in raw.items()}  # fmt: skip
    content["name"] = f"identified from recorded flights; the rest of {vehicle_name}"
    halves: dict[str, list[str]] = {}
    told = [(each["name"], 0.5 * (each["high"] - each["low"]))
            for each in _figures(found, alignment) if each["origin"] != "kept"]  # fmt: skip
    for name, half in told:
        halves.setdefault(name.partition("[")[0], []).append(f"{half:.2g}")
    if CENTRE in halves:
        for key in ("rotor_layout", "arm_m", "rotor_height_m"):
            content.pop(key, None)
        content["rotor_directions"] = list(found.fit.vehicle.rotor_directions)
        halves["rotor_positions_B_m"] = halves.pop(CENTRE)
    for name in halves:
        group, _, key = name.rpartition(".")
        value: Any = flat[name]
        if name == "rotor_positions_B_m":
            value = np.reshape(value, (-1, 3)).tolist()
        target = content.setdefault(group, {}) if group else content
        target[key] = rounded(value)
    memory = list(found.fit.vehicle.recorder.torque_memory)
    content.setdefault("recorder", {})["torque_memory"] = rounded(memory)
    from_mapping(VehicleParams, content, vehicle_name)
    comments = {name: f"+-{', '.join(parts)}" for name, parts in halves.items()}
    lines = [
        f"# Estimated from {found.fit.flights} stretches of recorded flights. Behind each figure:",
        f"# half of its 95 % interval. What has no such words is of {vehicle_name}.",
        *(f"# The flights do not tell {name}." for name in alignment.undetermined),
        *(f"# The flights do not tell {each.name}." for each in found.undetermined),
        *(
            f"# {each.name} ended on its bound."
            for each, on in zip(found.fit.unknowns, found.fit.bound, strict=True)
            if on
        ),
    ]
    return "\n".join([*lines, *parameter_lines(content, comments)]) + "\n"
