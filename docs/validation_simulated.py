"""Simulated flights by which docs/make_validation.py judges what is found in flights.

A figure that is off has to be named, and the intervals of ``quadsim identify`` have to hold the
figures that were flown: simulation-based calibration (S. Talts and others, 2018). Figures are
drawn, flown, measured with noise and identified. The share of the estimate's distribution below
the figure that was flown is uniform if the intervals are right.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import savgol_filter
from scipy.spatial.transform import Rotation
from scipy.stats import kstest
from scipy.stats import t as student

from quadsim import Simulation
from quadsim.base.files import find
from quadsim.base.parameters import load
from quadsim.lab.identify.flights import (
    cut_flight,
    flight_residuals,
    stretches_of,
    vehicle_unknowns,
)
from quadsim.lab.identify.shooting import (
    UnknownFigure,
    fit_figures,
    start_figures,
    with_noise_again,
    with_values,
)
from quadsim.lab.validate.recorded import RecordedFlight, smoothed_motion, turn
from quadsim.lab.validate.validation import rank_suspects
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import RecorderParams, VehicleParams
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

GRAVITY = 9.80665
#: Runs in which a figure is off, and by how much.
RUNS, HEAVIER, LESS_DRAG = 100, 1.05, 0.7
#: Runs of the calibration, flights of each, their length and step in s, stretches of each flight.
DRAWN, FLIGHTS, FLOWN_S, STEP_S, STRETCHES = 200, 8, 3.2, 0.004, 2
#: Standard deviation of figures that are drawn, as a share.
DRAWN_SHARE = 0.03
#: Noise of a sample, about as in the logs of the Crazyflie: position m, attitude rad, rates rad/s,
#: specific force m/s^2, rotors rad/s.
NOISE = (3e-4, 1e-3, 1e-2, 0.05, 1.5)


def named_faults() -> str:
    """How often the figure that is off is named, of simulated figures of eight of an x500."""
    vehicle = load(VehicleParams, find("vehicles", "x500"))
    drag = ("rotor_drag_N_s2", "drag_area_m2", "body_drag_N_s_m")
    faults: dict[str, dict[str, Any]] = {
        "mass": {"vehicle.mass_kg": HEAVIER * vehicle.mass_kg},
        "drag": {
            f"vehicle.{key}": (LESS_DRAG * np.array(getattr(vehicle, key))).tolist() for key in drag
        },
    }
    lines = ["| injected | named | of runs |", "|---|---|---|"]
    for words, fault in (("mass + 5 %", "mass"), ("drag x 0.7", "drag")):
        named = 0
        for seed in range(RUNS // 2):
            flight = simulated_flight(faults[fault], seed)
            named += rank_suspects(stretches_of([flight]), vehicle, GRAVITY)[0].name == fault
        lines.append(f"| {words} | {named} | {RUNS // 2} |")
    return "\n".join(lines) + "\n"


def simulated_flight(changes: dict[str, Any], seed: int) -> RecordedFlight:
    """The first 16 s of the scenario ``figure_of_eight``: true motion, and the IMU as it senses."""
    simulation = Simulation("figure_of_eight", seed=seed, changes=changes)
    rows = []
    while simulation.time_s < 16.0:
        simulation.step(2)
        state, imu = simulation.state, simulation.sensors["imu"]
        speeds = simulation.rotor_speed_radps
        parts = (state.p_W, state.v_W, state.q_WB, imu["w_S"], imu["f_S"], speeds)
        rows.append(np.concatenate([[simulation.time_s], *parts]))
    time_s, *motion = np.split(np.array(rows), np.cumsum([1, 3, 3, 4, 3, 3]), axis=1)
    free = (motion[0][:, 2] > 1.0) & (time_s[:, 0] > 5.0)
    motion[3] = savgol_filter(motion[3], 11, 2, axis=0)
    return recorded(f"run {seed}", time_s[:, 0], motion, free)


def recorded(
    name: str, time_s: Array, motion: list[Array], free: NDArray[np.bool_]
) -> RecordedFlight:
    """A flight of position, velocity, attitude, rates, specific force and rotor speeds."""
    p_W, v_W, q_WB, w_B, f_B, speed = motion
    count, dt_s = len(time_s), float(time_s[1] - time_s[0])
    return RecordedFlight(
        name, dt_s, time_s, p_W, v_W, q_WB, w_B, f_B,
        savgol_filter(w_B, 11, 2, deriv=1, delta=dt_s, axis=0), speed,
        savgol_filter(speed, 5, 2, deriv=1, delta=dt_s, axis=0), np.full(count, np.nan),
        np.full((count, 6), np.nan), free, RecorderParams(),
    )  # fmt: skip


def drawn_vehicle() -> VehicleParams:
    """A Crazyflie about which the calibration's figures are drawn."""
    vehicle = load(VehicleParams, find("vehicles", "crazyflie21"))
    rotor = replace(vehicle.rotor, inflow_N_s2=3e-6, inertia_kg_m2=2e-8)
    plain = replace(vehicle, rotor=rotor, torque_ratio_m=0.006, rotor_layout="explicit")
    return replace(plain, recorder=RecorderParams())


def random_motion(vehicle: VehicleParams, rng: np.random.Generator) -> list[Array]:
    """A flight that is asked for another attitude, climb and yaw rate every 0.3 to 0.5 s."""
    fleet, rows, next_s = Fleet(vehicle, EnvironmentParams()), [], 0.0
    hover = np.sqrt(vehicle.mass_kg * GRAVITY / 4.0 / vehicle.thrust_coefficient_N_s2)
    fleet.set_motion(0, (0.0, 0.0, 50.0), rotor_speeds_radps=np.full(4, hover))
    side = np.sign(np.array(vehicle.rotor_positions_B_m))
    turns = np.array(vehicle.rotor_directions)
    for k in range(round(FLOWN_S / STEP_S)):
        if k * STEP_S >= next_s:
            next_s += rng.uniform(0.3, 0.5)
            tilt, rate = rng.uniform(-0.35, 0.35, 2), rng.normal(0.0, 0.03)
            climb = rng.uniform(-0.3, 0.3)
        true = fleet.truth(0)
        q, w, v = true["q_WB"], true["w_B"], true["v_W"]
        felt = turn(q[None]).inv().apply(true["a_W"] + [0.0, 0.0, GRAVITY])[0]
        rows.append(np.concatenate([true["p_W"], v, q, w, felt, true["rotor_speed_radps"][:4]]))
        pull = 0.9 * (2.0 * np.sign(q[0]) * q[1:3] - tilt) + 0.12 * w[:2]
        level = side[:, 0] * pull[1] - side[:, 1] * pull[0]
        up = np.clip(0.4 * (climb - v[2]), -0.5, 0.5)
        share = 1.0 + 0.1 * np.clip(level, -2.0, 2.0) + 0.3 * up - turns * (rate - 0.03 * w[2])
        fleet.set_motor_command(0, np.clip(hover * share, 300.0, 2700.0))
        fleet.step_to(round((k + 1) * STEP_S * 1e9))
    return np.split(np.array(rows), np.cumsum([3, 3, 4, 3, 3]), axis=1)


def with_noise(motion: list[Array], rng: np.random.Generator) -> RecordedFlight:
    """A motion as motion capture, IMU and rotors' sensors tell it, and as it is read from that."""
    p_W, _, q_WB, w_B, f_B, speed = motion
    sizes = zip((p_W, w_B, f_B, speed), NOISE[:1] + NOISE[2:], strict=True)
    noisy = [part + rng.normal(0.0, size, part.shape) for part, size in sizes]
    off = Rotation.from_rotvec(rng.normal(0.0, NOISE[1], (len(q_WB), 3)))
    p_W, v_W, attitude, w_B = smoothed_motion(
        noisy[0], turn(q_WB) * off, noisy[1], noisy[2], STEP_S, []
    )
    parts = [p_W, v_W, np.roll(attitude.as_quat(), 1, axis=1), w_B, *noisy[2:]]
    return recorded("drawn", STEP_S * np.arange(len(p_W)), parts, np.ones(len(p_W), bool))


def rank_of_truth(seed: int) -> tuple[list[UnknownFigure], Array, Array]:
    """Unknowns, share of each estimate's distribution below the truth, half of each interval."""
    rng = np.random.default_rng(seed)
    vehicle = drawn_vehicle()
    unknowns = vehicle_unknowns(vehicle, GRAVITY)
    usual, size = start_figures(vehicle, unknowns), np.array([each.size for each in unknowns])
    scale = np.where(usual != 0.0, np.abs(usual), size)
    true = usual + DRAWN_SHARE * scale * rng.normal(size=len(unknowns))
    flown = with_values(vehicle, unknowns, true)
    flights = [with_noise(random_motion(flown, rng), rng) for _ in range(FLIGHTS)]
    parts = [part for flight in flights for part in cut_flight(flight, STRETCHES)]
    errors, *noisier = (
        flight_residuals(each, GRAVITY, vehicle.mass_kg, 0.0)
        for each in (parts, *with_noise_again(parts))
    )
    found = fit_figures(vehicle, unknowns, errors, noisier=noisier)
    degrees = len(parts) - 1
    deviation = found.half / student.ppf(0.975, degrees)
    return unknowns, student.cdf((true - found.values) / deviation, degrees), found.half / scale


def calibration() -> str:
    """Whether the intervals of identified figures are right, figure by figure."""
    runs = []
    for seed in range(DRAWN):
        unknowns, ranks, halves = rank_of_truth(seed)
        runs.append((ranks, halves))
        if seed % 10 == 9:
            tests = [kstest(each, "uniform").pvalue for each in np.array(runs)[:, 0].T]
            print(seed + 1, *(f"{p:.3f}" for p in tests), flush=True)
    ranks, halves = np.array(runs).transpose(1, 2, 0)
    lines = [
        "| figure | half of the interval | in the 95 % interval | too large, deviations | KS p |",
        "|---|---|---|---|---|",
    ]
    degrees = FLIGHTS * STRETCHES - 1
    for unknown, rank, half in zip(unknowns, ranks, halves, strict=True):
        inside = 100.0 * float((np.abs(rank - 0.5) < 0.475).mean())
        above = -float(student.ppf(rank, degrees).mean())
        p = float(kstest(rank, "uniform").pvalue)
        lines.append(
            f"| {unknown.name} | {100.0 * np.median(half):.2g} % | {inside:.0f} % |"
            f" {above:+.2f} | {p:.3f} |"
        )
    return "\n".join(lines) + "\n"
