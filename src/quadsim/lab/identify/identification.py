"""Figures of a vehicle out of a flight, with 95 % intervals, and which of them the flight tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from quadsim.base.compiled import Array
from quadsim.base.errors import InputError
from quadsim.base.parameters import from_mapping
from quadsim.lab.identify.equations import CHANNELS, NAMES, PLACES, RATIO, SIZE, THRUST, Equations
from quadsim.lab.identify.figures import (
    MAIN,
    MEANING,
    MORE,
    MOTORS,
    SOLID,
    TURNS,
    VehicleFigure,
    air_ratio,
    file_figures,
    with_figures,
)
from quadsim.lab.identify.flight_data import FlightData
from quadsim.lab.identify.flight_grid import GRAVITY_MPS2, Grid, make_grid, motors_of
from quadsim.lab.identify.least_squares import Prior, Solution, fit_least_squares
from quadsim.lab.identify.motor_fit import MotorFit, fit_motors
from quadsim.lab.parameter_text import parameter_lines, rounded
from quadsim.vehicle.parameters import VehicleParams

#: A figure is told by the flight if its interval ends within this part of it ...
TELLING = 0.25

#: ... or if what the interval leaves open is no more than this at 5 m/s, in m/s^2 or rad/s^2.
NOTICEABLE, NOTICEABLE_TURN = 0.05, 0.1

#: No interval is shorter to either side than this part of its figure, or of what is noticeable:
#: what is a sum over samples here is an integral in flight, and small products of terms are none.
EXACT, SLIGHT = 0.01, 0.1

#: Part of the deviation of the commands' delays by which time constants may be off. Ours: flights
#: of known motors, with commands late by 1 to 5 ms, had them off by 0.33 to 0.45 of it.
LATE = 0.5

#: A term that the vehicle's file does not have is found if its figure is so many deviations from 0.
FOUND = 6.0

#: Clocks that differ by more than this are set and the equations made anew, so many times.
SAME_CLOCK_S, CLOCK_ROUNDS = 2e-4, 3

#: Deviation of what is looked for, in sizes that make 1 m/s^2: nothing is known of it.
UNKNOWN = 1e3

#: A residual's deviation is taken to be at least this part of its signal's.
EXACT_ROWS = 1e-4

#: Deviations of what is found along with the figures, for the flight to improve on (ours): scale
#: and misalignment as of consumer IMUs, a mount that is nearly in the middle, clocks that agree.
BESIDE = {
    "accel_matrix": 0.005,
    "accel_bias": 0.5,
    "accel_drift": 0.2,
    "gyro_matrix": 0.005,
    "gyro_bias": 0.1,
    "lever": 0.2,
    "centre": 0.05,
    "imu_shift": 0.01,
    "odometry_shift": 0.02,
    "tilt": 0.02,
    "wind": 5.0,
}


@dataclass(frozen=True)
class IdentifiedVehicle:
    """What was found of a flight.

    Attributes:
        vehicle: whose geometry was taken, and the figures that the flight does not tell.
        figures: by name.
        grid: the flight's signals.
        motors: time constants, and what the rotor speeds between reports are.
        solution: of the equations of motion.
        equations: what was solved, for signals and residuals.
        late_s: age of the samples of IMU and odometry at their stamps, by the rotors' clock.
    """

    data: FlightData
    vehicle: VehicleParams
    figures: dict[str, VehicleFigure]
    grid: Grid
    motors: MotorFit
    solution: Solution
    equations: Equations
    late_s: tuple[float, float]

    @property
    def passed(self) -> bool:
        """Whether the flight tells every figure."""
        return all(figure.origin != "kept" for figure in self.figures.values())

    @property
    def flown_s(self) -> float:
        """Time of free flight that was used."""
        return self.grid.windows.apart_s * len(self.grid.windows.rows)


def identify_vehicle(
    data: FlightData, vehicle: VehicleParams, gravity_mps2: float = GRAVITY_MPS2
) -> IdentifiedVehicle:
    """Estimate a multirotor's figures.

    Args:
        vehicle: for the geometry of the rotors, the mass, and where the search begins.
        gravity_mps2: where it was flown.

    Raises:
        InputError: no multirotor, another count of rotors, or too little flight.
    """
    rotors = len(vehicle.rotor_directions)
    if vehicle.kind != "multirotor":
        raise InputError(f"{vehicle.name}: a {vehicle.kind}; allowed: a multirotor")
    if data.motor_speed.values.shape[1] != rotors:
        raise InputError(
            f"{data.source}: speeds of {data.motor_speed.values.shape[1]} rotors, but the vehicle"
            f" ({vehicle.name}) has {rotors}; choose it with --vehicle"
        )
    reports = motors_of(data)
    make_grid(data, MotorFit(reports, None), vehicle)  # refuses before it takes long
    motors = fit_motors(reports)
    air = air_ratio(vehicle, data.air_density_kg_m3)
    imu_ns = odometry_ns = 0
    for _ in range(CLOCK_ROUNDS):
        grid = make_grid(_earlier(data, imu_ns, odometry_ns), motors, vehicle)
        search = _Search(Equations(grid, vehicle, gravity_mps2, data.exact), vehicle, air)
        late_s = search.clocks()
        if max(map(abs, late_s)) < SAME_CLOCK_S:
            break
        imu_ns += round(late_s[0] * 1e9)
        odometry_ns += round(late_s[1] * 1e9)
    solution = search.run()
    late_s = (
        imu_ns * 1e-9 + float(solution.value[PLACES["imu_shift"]][0]),
        odometry_ns * 1e-9 + float(solution.value[PLACES["odometry_shift"]][0]),
    )
    figures = {**search.figures, **_motor_figures(motors, vehicle)}
    return IdentifiedVehicle(
        data, vehicle, figures, grid, motors, solution, search.equations, late_s
    )


def _earlier(data: FlightData, imu_ns: int, odometry_ns: int) -> FlightData:
    """A flight with the stamps of IMU and odometry moved back; the rotors' stay."""
    if not imu_ns and not odometry_ns:
        return data
    imu, odometry = data.imu, data.odometry
    return replace(
        data,
        imu=replace(imu, stamp_ns=imu.stamp_ns - imu_ns),
        odometry=replace(odometry, stamp_ns=odometry.stamp_ns - odometry_ns),
    )


class _Search:
    """Which figures the flight tells, and their values.

    Args:
        vehicle: whose figures stay where the flight does not tell.
        air: density of the air over that at which its figures hold.
    """

    def __init__(self, equations: Equations, vehicle: VehicleParams, air: float) -> None:
        self.equations = equations
        self._air = dict.fromkeys((*NAMES, *TURNS), air) | dict.fromkeys((*SOLID, "torque"), 1.0)
        self.known = {name: self._air[name] * x for name, x in file_figures(vehicle).items()}
        theta, sigma, size = np.zeros(SIZE), np.zeros(SIZE), np.ones(SIZE)
        for name, width in BESIDE.items():
            sigma[PLACES[name]] = size[PLACES[name]] = width
        if not equations.exact:
            sigma[PLACES["gyro_bias"]] = 0.0
        if equations.wind_is_known:
            sigma[PLACES["wind"]] = 0.0
        for i, name in enumerate(NAMES):
            theta[i] = self.known[name]
        theta[RATIO] = [self.known[name] for name in TURNS]
        scales = equations.scales
        size[: len(NAMES)] = np.where(np.isfinite(scales), scales, 1.0)
        size[[THRUST, *range(RATIO.start, RATIO.stop)]] = theta[
            [THRUST, *range(RATIO.start, RATIO.stop)]
        ]
        self.prior = Prior(theta, sigma, size, EXACT_ROWS * equations.signal)
        self.free = [*MAIN, *(name for name in MORE if self.known[name]), *TURNS]
        self.figures: dict[str, VehicleFigure] = {}

    def _index(self, name: str) -> int:
        return NAMES.index(name) if name in NAMES else RATIO.start + TURNS.index(name)

    def clocks(self) -> tuple[float, float]:
        """By how much IMU and odometry are later than the rotors, s."""
        theta = self._solve(self.free, self.prior.mean).value
        return float(theta[PLACES["imu_shift"]][0]), float(theta[PLACES["odometry_shift"]][0])

    def run(self) -> Solution:
        """Fit; terms that show are added one by one, then figures that do not are stored so."""
        solution = self._solve(self.free, self.prior.mean)
        while (found := self._missing(solution)) is not None:
            self.free.append(found)
            solution = self._solve(self.free, solution.value)
        while dark := [name for name in self.free if self._darkness(name, solution) > 1.0]:
            worst = max(dark, key=lambda name: self._darkness(name, solution))
            self.figures[worst] = self._figure(worst, solution, "kept")
            self.free.remove(worst)
            solution = self._solve(self.free, solution.value)
        for name in self.free:
            origin = "found" if name in MORE and not self.known[name] else "flight"
            self.figures[name] = self._figure(name, solution, origin)
        return solution

    def _solve(self, names: Sequence[str], begin: Array) -> Solution:
        """Fit with these figures free; the others are the file's."""
        sigma, mean = self.prior.sigma.copy(), self.prior.mean.copy()
        for name in names:
            i = self._index(name)
            mean[i], sigma[i] = begin[i], UNKNOWN * self.prior.size[i]
        prior = replace(self.prior, mean=mean, sigma=sigma)
        return fit_least_squares(self.equations.residual, prior, begin)

    def _half(self, name: str, solution: Solution) -> float:
        """Half of a figure's interval."""
        i = self._index(name)
        deviation = float(np.sqrt(solution.covariance[i, i]))
        least = EXACT * abs(float(solution.value[i]))
        if name not in TURNS:
            least = max(least, SLIGHT * self._noticeable(name, solution.value))
        return max(solution.quantile * deviation, least)

    def _figure(self, name: str, solution: Solution, origin: str) -> VehicleFigure:
        """A figure in the air of the vehicle's file."""
        value, half = float(solution.value[self._index(name)]), self._half(name, solution)
        value, half = value / self._air[name], half / self._air[name]
        known = self.known[name] / self._air[name]
        return VehicleFigure(name, value, value - half, value + half, known, origin)

    def _darkness(self, name: str, solution: Solution) -> float:
        """How much too wide an interval is to tell the figure; above 1 it does not."""
        half, value = self._half(name, solution), abs(float(solution.value[self._index(name)]))
        relative = half / (TELLING * max(value, self.known[name], 1e-300))
        return min(relative, half / self._noticeable(name, solution.value))

    def _noticeable(self, name: str, theta: Array) -> float:
        """A change of a figure that can just be noticed in flight."""
        if name in TURNS:
            return 1e-300  # without it nothing turns
        i = self._index(name)
        least = NOTICEABLE
        if not self.equations.is_force[i]:
            least = NOTICEABLE_TURN * float(self.equations.inertia(theta).min())
        return least / float(self.equations.reference[i])

    def _missing(self, solution: Solution) -> str | None:
        """The term that the file does not have and that this flight shows most clearly."""
        best, most = None, FOUND
        for name in MORE:
            if name in self.free:
                continue
            trial = self._solve([*self.free, name], solution.value)
            i = self._index(name)
            value, deviation = float(trial.value[i]), float(np.sqrt(trial.covariance[i, i]))
            if value > self._noticeable(name, trial.value) and value / deviation > most:
                best, most = name, value / deviation
        return best


def _motor_figures(motors: MotorFit, vehicle: VehicleParams) -> dict[str, VehicleFigure]:
    """Time constants; stored where no commands were recorded or the motors did not move."""
    files = (vehicle.time_constant_up_s, vehicle.time_constant_down_s)
    figures = {}
    for i, (name, file_value) in enumerate(zip(MOTORS, files, strict=True)):
        value, half = np.nan, np.nan
        if motors.solution is not None:
            value = float(motors.solution.value[i])
            deviation = float(np.sqrt(motors.solution.covariance[i, i]))
            least = max(EXACT * abs(value), LATE * motors.jitter_s)
            half = max(motors.solution.quantile * deviation, least)
        told = half <= TELLING * value
        origin = "flight" if told else "kept"
        figures[name] = VehicleFigure(name, value, value - half, value + half, file_value, origin)
    return figures


#: Keys of a file and the figures that they come from.
KEYS = {
    "inertia_kg_m2": ("turn_x", "turn_y", "turn_z"),
    "thrust_coefficient_N_s2": ("thrust",),
    "rotor_drag_N_s2": ("rotor_drag",),
    "rolling_moment_N_s2": ("rolling_moment",),
    "body_drag_N_s_m": ("body_drag_x", "body_drag_y", "body_drag_z"),
    "drag_area_m2": ("drag_area_x", "drag_area_y", "drag_area_z"),
    "time_constant_up_s": ("time_constant_up",),
    "time_constant_down_s": ("time_constant_down",),
    "rotor.inflow_N_s2": ("inflow",),
    "rotor.translational_lift_N_s2_m2": ("translational_lift",),
    "rotor.inertia_kg_m2": ("rotor_inertia",),
}


def _words(figure: VehicleFigure) -> str:
    """Where a figure comes from."""
    if figure.origin == "kept":
        return "kept, the flight does not tell"
    half = 0.5 * (figure.high - figure.low)
    if figure.taken == 0.0:
        return "none seen"
    return f"+-{100.0 * half / abs(figure.value):.2g} %"


def _comment(figures: Mapping[str, VehicleFigure], names: tuple[str, ...]) -> str:
    words = [_words(figures[name]) for name in names if name in figures]
    return ", ".join(words[:1] if len(set(words)) == 1 else words)


def _content(identified: IdentifiedVehicle, raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The mapping of the new file: that of the old one with what was found."""
    vehicles = (with_figures(identified.vehicle, identified.figures, name), identified.vehicle)
    content: dict[str, Any] = {**raw, "name": name}
    rotor = dict(content.get("rotor", {}))
    for key in (*KEYS, "torque_ratio_m"):
        part, name = ("rotor", key[6:]) if key.startswith("rotor.") else ("", key)
        keys = rotor if part else content
        value, before = (getattr(getattr(v, part) if part else v, name) for v in vehicles)
        if name in keys or np.any(value):
            same = value == before and name in keys and not part
            keys[name] = raw[name] if same else rounded(value)
    return {**content, "rotor": rotor} if rotor else content


def vehicle_text(identified: IdentifiedVehicle, raw: Mapping[str, Any], vehicle_name: str) -> str:
    """The text of a vehicle file.

    Args:
        raw: the mapping of the file whose figures stay where the flight does not tell.

    Raises:
        InputError: what was found is no vehicle.
    """
    source = " ".join(identified.data.source.split())
    name = f"identified from {source}; the rest of {vehicle_name}"
    content = _content(identified, raw, name)
    from_mapping(VehicleParams, content, source)
    lines = [
        f"# Estimated from {source}: {identified.flown_s:.4g} s of free flight.",
        "# Behind each figure of the flight: half of its 95 % interval. What has no such words is",
        f"# of {vehicle_name}: a flight tells figures over the mass, and the drag torque over the",
        "# inertia about z.",
    ]
    comments = {key: _comment(identified.figures, names) for key, names in KEYS.items()}
    return "\n".join([*lines, *parameter_lines(content, comments)]) + "\n"


def vehicle_summary(identified: IdentifiedVehicle) -> dict[str, Any]:
    """As one JSON object."""
    theta, motors = identified.solution.value, identified.motors.solution
    left, signal = identified.solution.noise, identified.equations.signal
    return {
        "source": identified.data.source,
        "vehicle": identified.vehicle.name,
        "passed": identified.passed,
        "flown_s": identified.flown_s,
        "odometry": "measured" if identified.data.exact else "estimated",
        "figures": [
            {**asdict(identified.figures[name]), "meaning": meaning, "unit": unit}
            for name, (meaning, unit) in MEANING.items()
            if name in identified.figures
        ],
        "unexplained": [
            {"name": name, "axis": axis, "unit": unit, "rms": float(rms), "of": float(of)}
            for (name, axis, unit), rms, of in zip(CHANNELS, left, signal, strict=False)
        ],
        "beside": {
            "command_delay_s": None if motors is None else float(motors.value[2]),
            "imu_delay_s": identified.late_s[0],
            "odometry_delay_s": identified.late_s[1],
            "imu_position_B_m": theta[PLACES["lever"]].tolist(),
            "imu_turned_deg": identified.grid.mount_deg,
            "accel_bias_mps2": theta[PLACES["accel_bias"]].tolist(),
            "thrust_centre_B_m": theta[PLACES["centre"]][:2].tolist(),
            "air_density_kg_m3": identified.data.air_density_kg_m3 or None,
            "wind_W_mps": None
            if identified.grid.wind_W is not None
            else theta[PLACES["wind"]].tolist(),
        },
        "notes": list(identified.data.notes),
    }
