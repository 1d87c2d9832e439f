"""The tables of docs/validation.md, from the flights themselves.

``python docs/make_validation.py FLIGHTS [TABLE...]``: the folder that holds ``neurobem`` and
``crazyflie_rpm`` as docs/validation.md says how to get them, and the tables to make, else all of
them. Fits take ten minutes and more. A table without marks on the page is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from validation_simulated import calibration, named_faults

from quadsim.bag.reading import open_bag
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.lab.identify.flights import (
    APART_S,
    HORIZONS_S,
    residual_unknowns,
    with_torque_residual,
)
from quadsim.lab.identify.shooting import (
    Residuals,
    UnknownFigure,
    fit_figures,
    motion_residuals,
    start_figures,
    with_values,
    wrench_residuals,
)
from quadsim.lab.validate.bounds import bound_rows, judge_bounds
from quadsim.lab.validate.recorded import RecordedFlight, as_recorded_by, read_recorded
from quadsim.lab.validate.residuals import HORIZONS_S as HORIZONS
from quadsim.lab.validate.residuals import as_logged, residual_wrench, torque_memory
from quadsim.lab.validate.validation import (
    JudgedFlight,
    ValidationSettings,
    judge_predictions,
    report,
    window_errors,
)
from quadsim.vehicle.parameters import VehicleParams

PAGE = Path(__file__).with_name("validation.md")
GRAVITY = 9.80665
KINGFISHER = ("170320seg2", "171908seg2", "172600seg1", "104803seg2")
#: Column of NeuroBEM's own prediction of force and torque in the files of its flights.
NEUROBEM_COLUMN = 29
#: Figure eights of a Crazyflie by time scale: 1 is slow.
SPEEDS = {
    "1.0": ("00", "01", "02", "03", "04"),
    "0.9": ("06", "07", "08", "09", "11"),
    "0.8": ("12", "13", "14", "15", "16"),
    "0.7": ("17", "18", "19", "20", "21"),
    "0.6": ("22",),
}
#: Flights with a slung load, slow ones first: eights by time scale, to and fro by their time.
SLUNG = {
    "1.0": ("06", "07", "08"),
    "0.9": ("11", "12", "13"),
    "0.8": ("17", "18", "19"),
    "0.7": ("22", "24", "26"),
    "1.5 s": ("43", "45", "67", "68"),
    "1.3 s": ("72", "73"),
    "1.2 s": ("57", "58", "77", "78"),
}
#: Time scales of eights that a fit sees, and faster ones that it is judged by.
FASTER = {"0.8": ("0.7", "0.6"), "0.7": ("0.6",)}
#: Flights with a slung load that are left out of the fit.
LEFT_OUT = ("07", "12", "22", "45", "57", "77")
#: What both Crazyflies are fitted by beside the residual of the torque, and the rope of one.
CRAZYFLIE = (
    UnknownFigure("thrust_coefficient_N_s2", 4e-8),
    UnknownFigure("rotor_drag_N_s2", 3e-6, 0.0),
    UnknownFigure("rotor.inflow_N_s2", 3e-6, 0.0),
    UnknownFigure("torque_ratio_m", 3e-3, 0.0),
    *(UnknownFigure(f"centre_of_mass_B_m[{i}]", 1e-3) for i in range(2)),
)
ROPE = (
    UnknownFigure("load.rope_length_m", 0.01, 0.3, 0.7),
    *(UnknownFigure(f"load.attachment_B_m[{i}]", 5e-3) for i in range(3)),
)
#: Share of the flights' advance ratios up to which the residual of the thrust counts them.
KNOWN_SHARE = 0.9
PHYSICS = (
    UnknownFigure("thrust_coefficient_N_s2", 1.5e-6),
    UnknownFigure("rotor.blade_inflow_N_s2", 1e-4, 1.2e-4, 6e-4),
    UnknownFigure("rotor.translational_lift_N_s2_m2", 1e-3, 0.0),
    UnknownFigure("rotor_drag_N_s2", 1e-5, 0.0),
    UnknownFigure("rotor.inflow_drag_N_s2_m2", 1e-3),
    *(UnknownFigure(f"drag_area_m2[{i}]", 1e-2, 0.0) for i in range(3)),
    *(UnknownFigure(f"recorder.imu_position_B_m[{i}]", 0.01) for i in range(3)),
)
_THRUST = (1e-8, 1e-5, 1e-5, 1e-3, 1e-3, 1e-3, 1e-3, 1e-4, 1e-2, 1e-2)
_TORQUE = (1e-7, 1e-5, 1e-5, 1e-6, 1e-3) * 2
TORQUES = (
    UnknownFigure("torque_ratio_m", 0.01, 0.0),
    UnknownFigure("rotor.inertia_kg_m2", 5e-6, 0.0),
    *(UnknownFigure(f"centre_of_mass_B_m[{i}]", 3e-3) for i in range(2)),
    *(UnknownFigure(f"recorder.torque_residual[{i}]", size) for i, size in enumerate(_TORQUE)),
)
RESIDUAL = (
    *(UnknownFigure(f"rotor.thrust_residual[{i}]", size) for i, size in enumerate(_THRUST)),
    *TORQUES[-10:],
    *(unknown for unknown in PHYSICS if "drag_N" in unknown.name or "imu" in unknown.name),
)


def read(path: Path, vehicle: VehicleParams) -> RecordedFlight:
    """One flight."""
    with open_bag(path) as bag:
        return read_recorded(bag, "/quad", vehicle)


def rms(vectors: np.ndarray[Any, Any]) -> float:
    """Root mean square of the lengths of (N, 3) vectors."""
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))


def bare(vehicle: VehicleParams) -> VehicleParams:
    """A vehicle without residuals, and without what belongs to them."""
    rotor = replace(vehicle.rotor, thrust_residual=(), residual_advance_ratio=0.0)
    return replace(vehicle, rotor=rotor, recorder=replace(vehicle.recorder, torque_residual=()))


def poses_felt(vehicle: VehicleParams) -> VehicleParams:
    """A vehicle of which the log's force was felt where its poses are."""
    place = vehicle.recorder.imu_position_B_m
    return replace(vehicle, recorder=replace(vehicle.recorder, pose_position_B_m=place))


def known_advance_ratio(flights: Sequence[RecordedFlight], vehicle: VehicleParams) -> float:
    """Air speed over tip speed that the rotors seldom exceed, so that a residual is known there."""
    tips = [flight.speed * vehicle.rotor.radius_m for flight in flights]
    airs = [np.linalg.norm(flight.v_W, axis=1)[:, None] for flight in flights]
    ratios = [(air / tip).ravel() for air, tip in zip(airs, tips, strict=True)]
    return float(np.quantile(np.concatenate(ratios), KNOWN_SHARE))


def fit_residual(
    vehicle: VehicleParams,
    unknowns: Sequence[UnknownFigure],
    residuals: Residuals,
    ridge: float = 1e-5,
) -> VehicleParams:
    """Figures in which the errors are (nearly) linear, by two Gauss-Newton steps with a ridge.

    The ridge is a share of the errors that each explains alone.
    """
    size = np.array([unknown.size for unknown in unknowns])
    low, high = (np.array([getattr(u, end) for u in unknowns]) for end in ("low", "high"))
    for _ in range(2):
        start, errors = start_figures(vehicle, unknowns), np.concatenate(residuals(vehicle))
        columns = []
        for moved in start + 0.01 * np.diag(size):
            there = np.concatenate(residuals(with_values(vehicle, unknowns, moved)))
            columns.append((there - errors) / 0.01)
        jacobian = np.stack(columns, axis=1)
        scale = np.sqrt((jacobian**2).mean(axis=0)) + 1e-12
        scaled = jacobian / scale
        normal = scaled.T @ scaled + ridge * len(errors) * np.eye(len(unknowns))
        found = start - np.linalg.solve(normal, scaled.T @ errors) / scale * size
        vehicle = with_values(vehicle, unknowns, np.clip(found, low, high))
    return vehicle


def fit_kingfisher(
    vehicle: VehicleParams, flights: Sequence[RecordedFlight]
) -> tuple[VehicleParams, VehicleParams]:
    """The kingfisher by physics alone, and with its residual."""
    forces = wrench_residuals(flights, GRAVITY, 40, 1e9)
    recorder = replace(vehicle.recorder, pose_position_B_m=(0.0, 0.0, 0.0))
    first = fit_figures(bare(replace(vehicle, recorder=recorder)), PHYSICS, forces, 15)
    physics = fit_figures(poses_felt(first.vehicle), PHYSICS, forces, 15).vehicle
    zeros = (0.0,) * 10
    known = known_advance_ratio(flights, physics)
    rotor = replace(physics.rotor, thrust_residual=zeros, residual_advance_ratio=known)
    recorder = replace(physics.recorder, torque_residual=zeros)
    errors = wrench_residuals(flights, GRAVITY, 8, 1.0 / 30.0)
    begin = replace(physics, rotor=rotor, recorder=recorder)
    turned = fit_residual(begin, TORQUES, errors, 1e-6)
    return physics, fit_residual(turned, RESIDUAL, errors)


def neurobem(path: Path, flight: RecordedFlight, vehicle: VehicleParams) -> tuple[float, ...]:
    """What NeuroBEM's own prediction leaves: force as it is and by the low-pass, N; torque, N m."""
    (table,) = (value for key, value in loadmat(path).items() if not key.startswith("__"))
    columns = table[:, NEUROBEM_COLUMN : NEUROBEM_COLUMN + 6].T
    time_s = table[:, 0] - table[0, 0]
    found = np.stack([np.interp(flight.time_s, time_s, column) for column in columns], axis=1)
    inertia, w_B = np.array(vehicle.inertia_kg_m2), flight.w_B
    turned = inertia * flight.w_dot_B + np.cross(w_B, inertia * w_B)
    felt = vehicle.mass_kg * flight.f_B
    forces = (found[:, :3], as_logged(flight, found[:, :3]))
    return (*(rms((felt - force)[flight.free]) for force in forces),
            rms((turned - found[:, 3:])[flight.free]))  # fmt: skip


def kingfisher(folder: Path) -> str:
    """Forces and torques of NeuroBEM's flights, each left out of the fit once."""
    vehicle = load(VehicleParams, find("vehicles", "kingfisher"))
    paths = [next(folder.glob(f"*{name}.mat")) for name in KINGFISHER]
    flights = [read(path, vehicle) for path in paths]
    head = "| flight | fastest, m/s | NeuroBEM, N | physics, N | with residual, N | file, N |"
    head += " unfiltered: NeuroBEM, N | file, N |"
    head += " NeuroBEM, N m | with residual, N m | file, N m |"
    lines = [head, "|---" * 11 + "|"]
    pooled, samples = np.zeros(9), 0
    for k, flight in enumerate(flights):
        both = fit_kingfisher(vehicle, [*flights[:k], *flights[k + 1 :]])
        left = [
            residual_wrench(as_recorded_by(flight, each.recorder), each, GRAVITY)
            for each in (*both, vehicle)
        ]
        force, torque = ([rms(part) for part in parts] for parts in zip(
            *((each.force, each.torque) for each in left), strict=True))  # fmt: skip
        recorder = replace(flight.recorder, specific_force_cutoff_hz=0.0)
        unfiltered = rms(
            residual_wrench(replace(flight, recorder=recorder), vehicle, GRAVITY).force
        )
        raw_N, theirs_N, theirs_Nm = neurobem(paths[k], flight, vehicle)
        row = np.array([theirs_N, *force, raw_N, unfiltered, theirs_Nm, *torque[1:]])
        count = len(left[0].rows)
        pooled, samples = pooled + count * row**2, samples + count
        fastest = np.linalg.norm(flight.v_W, axis=1).max()
        lines.append(f"| {KINGFISHER[k]} | {fastest:.1f} | {cells(row)} |")
    lines.append(f"| pooled | | {cells(np.sqrt(pooled / samples))} |")
    return "\n".join(lines) + "\n"


def fit_crazyflie(vehicle: VehicleParams, flights: Sequence[RecordedFlight]) -> VehicleParams:
    """A Crazyflie by shooting over half a second, errors of fast flights by their squares, too.

    What the torque then leaves tells the memory, with which the motions are fitted again.
    """
    found = with_torque_residual(vehicle)
    unknowns = [*residual_unknowns(found, GRAVITY), *CRAZYFLIE]
    if vehicle.load.mass_kg > 0.0:
        unknowns += ROPE
    errors = motion_residuals(flights, GRAVITY, HORIZONS_S, APART_S, 4.0)
    for evaluations in (30, 20):
        fit = fit_figures(found, unknowns, errors, evaluations, outlying=30.0)
        found = with_memory(fit.vehicle, flights)
    return found


def with_memory(vehicle: VehicleParams, flights: Sequence[RecordedFlight]) -> VehicleParams:
    """A vehicle that knows how the torque that it leaves of flights continues."""
    memory = torque_memory(flights, vehicle, GRAVITY)
    return replace(vehicle, recorder=replace(vehicle.recorder, torque_memory=memory))


def left_out(folder: Path) -> str:
    """Errors on flights with a slung load that its file's fit has not seen."""
    vehicle = load(VehicleParams, find("vehicles", "crazyflie21_load"))
    unseen = [read(folder / f"eckart{number}", vehicle) for number in LEFT_OUT]
    settings = ValidationSettings(GRAVITY)
    groups = {each.name[-2:]: [each] for each in unseen} | {"all of them": unseen}
    return prediction_table(
        vehicle,
        {
            group: [judge_predictions(each, vehicle, settings) for each in members]
            for group, members in groups.items()
        },
    )


def faster(folder: Path) -> str:
    """Errors on figure eights that are faster than those of the fit."""
    file = load(VehicleParams, find("vehicles", "crazyflie21"))
    recorder = replace(file.recorder, torque_residual=(), torque_memory=())
    settings, judged = ValidationSettings(GRAVITY), {}
    for slow, fast in FASTER.items():
        flights = [read(folder / f"eckart{number}", file) for number in SPEEDS[slow]]
        vehicle = fit_crazyflie(replace(file, recorder=recorder), flights)
        found = []
        for scale in fast:
            unseen = [read(folder / f"eckart{number}", vehicle) for number in SPEEDS[scale]]
            found.append([judge_predictions(each, vehicle, settings) for each in unseen])
            judged[f"{scale}, by {slow}"] = found[-1]
        if len(fast) > 1:
            judged[f"{' and '.join(fast)}, by {slow}"] = [*chain(*found)]
    return prediction_table(file, judged)


def cells(row: np.ndarray[Any, Any]) -> str:
    """Six forces and three torques."""
    return " | ".join([*(f"{x:.3f}" for x in row[:6]), *(f"{x:.4f}" for x in row[6:])])


def predicted(name: str, paths: Mapping[str, Sequence[Path]]) -> str:
    """Errors of predicted motions by group of flights."""
    vehicle = load(VehicleParams, find("vehicles", name))
    settings = ValidationSettings(GRAVITY)
    judged = {
        group: [judge_predictions(read(path, vehicle), vehicle, settings) for path in members]
        for group, members in paths.items()
    }
    judged["all"] = [each for members in judged.values() for each in members]
    return prediction_table(vehicle, judged)


def coverage(families: Mapping[str, Sequence[tuple[str, Sequence[Path]]]]) -> str:
    """Bounds from slow flights on all faster ones: how often they are stated, and how often hold.

    Args:
        families: of a vehicle, names and logs of groups of flights, slow ones first.
    """
    settings = ValidationSettings(GRAVITY)
    head = "| vehicle | 0.1 s: windows within limits | hold | 0.5 s: windows | hold |"
    lines = [head, "|---" * 5 + "|"]
    for name, groups in families.items():
        vehicle = load(VehicleParams, find("vehicles", name))
        judged = [
            [judge_predictions(read(path, vehicle), vehicle, settings) for path in paths]
            for _, paths in groups
        ]
        sums = np.zeros((2, 3))
        for k in range(1, len(groups)):
            edges, slow = window_errors([*chain(*judged[:k])])
            rows = bound_rows(np.array(HORIZONS), slow, edges, settings.level)
            found = judge_bounds(rows, HORIZONS, window_errors([*chain(*judged[k:])])[1])
            counts = np.array([
                [row["windows"], row["bounded"], row["bounded"] * (row["coverage"] or 0.0)]
                for row in found if row["horizon_s"] in (0.1, 0.5)
            ])  # fmt: skip
            sums += counts
        lines.append(f"| {name} | {shares(sums)} |")
    return "\n".join(lines) + "\n"


def shares(counts: np.ndarray[Any, Any]) -> str:
    """Windows with a bound of all, and those where it holds of them, for each horizon."""
    cells = []
    for windows, bounded, held in counts:
        cells.append(f"{100 * bounded / windows:.0f} %")
        cells.append(f"{100 * held / bounded:.0f} %" if bounded else "–")
    return " | ".join(cells)


def prediction_table(vehicle: VehicleParams, judged: Mapping[str, Sequence[JudgedFlight]]) -> str:
    """A row of errors for each group of flights."""
    settings = ValidationSettings(GRAVITY)
    loaded = vehicle.load.mass_kg > 0.0
    lines = [
        "| flights | force, N | 0.1 s: position, m | attitude, rad | 0.5 s: position, m |"
        " attitude, rad |" + (" load, m |" if loaded else "") + " coverage at 0.5 s |",
        "|---" * (7 + loaded) + "|",
    ]
    for group, members in judged.items():
        result = report(members, vehicle, settings)
        at = {row["horizon_s"]: row for row in result["prediction"]}
        coverage = next(r["coverage"] for r in result["bounds"] if r["horizon_s"] == 0.5)
        numbers = [result["force_rmse_n"]]
        for horizon in (0.1, 0.5):
            numbers += [at[horizon]["position_rmse_m"], at[horizon]["attitude_rmse_rad"]]
        numbers += [at[0.5]["load_rmse_m"]] if loaded else []
        shown = [f"{x:.4f}" for x in numbers]
        shown.append("–" if coverage is None else f"{100 * coverage:.0f} %")
        lines.append(f"| {group} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the tables between their markers."""
    folder = Path(sys.argv[1])
    crazyflie = folder / "crazyflie_rpm"
    eights = {
        f"figure eights, time scale {scale}": [
            crazyflie / "figure8" / f"eckart{n}" for n in numbers
        ]
        for scale, numbers in SPEEDS.items()
    }
    slow_first = {
        "crazyflie21": [(scale, eights[f"figure eights, time scale {scale}"]) for scale in SPEEDS],
        "crazyflie21_load": [
            (words, [crazyflie / "slung_load" / f"eckart{n}" for n in numbers])
            for words, numbers in SLUNG.items()
        ],
        "kingfisher": [
            (words, [next((folder / "neurobem").glob(f"*{name}.mat")) for name in names])
            for words, names in {"the three slower ones": (*KINGFISHER[:2], KINGFISHER[3]),
                                 "the fastest": KINGFISHER[2:3]}.items()
        ],
    }  # fmt: skip
    tables: dict[str, Callable[[], str]] = {
        "coverage": partial(coverage, slow_first),
        "kingfisher": partial(kingfisher, folder / "neurobem"),
        "crazyflie21": partial(predicted, "crazyflie21", eights),
        "crazyflie21_faster": partial(faster, crazyflie / "figure8"),
        "crazyflie21_load_left_out": partial(left_out, crazyflie / "slung_load"),
        "faults": named_faults,
        "calibration": calibration,
    }
    for name in sys.argv[2:] or tables:
        table = tables[name]()
        text = PAGE.read_text(encoding="utf-8")
        begin, end = f"<!-- {name}: docs/make_validation.py -->\n", f"<!-- end of {name} -->\n"
        if begin not in text:
            print(f"{name}\n\n{table}")
            continue
        head, rest = text.split(begin)
        text = head + begin + "\n" + table + "\n" + end + rest.split(end)[1]
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
