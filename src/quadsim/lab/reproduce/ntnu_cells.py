"""The automated experiments of A. Larsen's thesis (NTNU, 2010): scenarios and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from quadsim.control.parameters import AutopilotParams
from quadsim.mission.items import Item
from quadsim.mission.waypoint import Waypoint
from quadsim.sim.scenario import Scenario, load_scenario

SHORT_FLAT, SLOPED, HILLY, PRECISION = (
    "ntnu_1_short_flat",
    "ntnu_2_medium_sloped",
    "ntnu_3_large_hilly",
    "ntnu_4_precision_flat",
)
SCENARIOS = (SHORT_FLAT, SLOPED, HILLY, PRECISION)

#: Limits of speed, each for the attempt after a crash with the one before, m/s.
LIMITS_MPS = (10.0, 5.0, 2.0, 1.0)
#: Longest run, s.
TIMEOUT_S = 100.0
#: How long the vehicle stays at the last waypoint: longer than any run.
STAY_S = 10.0 * TIMEOUT_S
#: Items of a mission before the first waypoint that counts: take-off, and rest over the start.
ITEMS_BEFORE = 2


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is known of the state.

    Attributes:
        words: what it is.
        sensors: a suite.
        estimator: a file of config/estimators.
        fly_on: as in a scenario.
        blind: nothing corrects the estimate from the first waypoint on.
        told: the vehicle takes off on the truth; the estimator is told it at the first waypoint.
        noiseless: nothing is by chance, so that one seed is as good as all.
    """

    words: str
    sensors: str
    estimator: str
    fly_on: str = "estimate"
    blind: bool = False
    told: bool = False
    noiseless: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """A vehicle with its four configurations.

    Attributes:
        vehicle: a file of config/vehicles.
        autopilot: a file of config/autopilots.
        configurations: by their numbers from 1 on.
    """

    vehicle: str
    autopilot: str
    configurations: tuple[Configuration, ...]


_THESIS = (
    Configuration("true state", "thesis_ideal", "thesis_ideal", "truth", False, True, True),
    Configuration(
        "IMU alone, noiseless", "thesis_ideal", "thesis_ideal", told=True, noiseless=True
    ),
    Configuration("data-sheet sensors", "thesis_datasheet", "thesis", told=True),
    Configuration("bad sensors", "thesis_bad", "thesis", told=True),
)

KINDS: Mapping[str, Kind] = {
    "thesis": Kind("thesis_helicopter", "thesis", _THESIS),
    "thesis-gains": Kind("thesis_helicopter", "thesis_table_6_1", _THESIS),
    "quadrotor": Kind(
        "x500",
        "ntnu_quadrotor",
        (
            Configuration("true state", "ideal", "eskf", "truth", noiseless=True),
            Configuration("IMU alone, noiseless", "ideal", "eskf", blind=True, noiseless=True),
            Configuration("data-sheet sensors", "thesis_devices", "eskf"),
            Configuration("bad sensors", "thesis_devices_bad", "eskf"),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Reported:
    """A row of a table of results; velocities in km/h, all else in SI.

    Attributes:
        passed: the last waypoint was reached without crash or timeout (a share, over seeds).
        duration_s: of the last attempt.
        attempts: how many there were.
        limit_kmh: limit of speed of the last one.
        velocity_kmh: largest and mean.
        height_m: above the ground: largest, mean, smallest.
        error_m: of the position flown on: largest and mean.
    """

    passed: float
    duration_s: float
    attempts: float
    limit_kmh: float
    velocity_kmh: tuple[float, float]
    height_m: tuple[float, float, float]
    error_m: tuple[float, float]


def _row(*n: float) -> Reported:
    return Reported(n[0], n[1], n[2], n[3], (n[4], n[5]), (n[6], n[7], n[8]), (n[9], n[10]))


#: The thesis's own results; configuration 2 is as configuration 1 within 1 %, in every column.
THESIS: Mapping[tuple[str, int], Reported] = {
    (SHORT_FLAT, 1): _row(1, 4.7, 1, 36, 23, 13, 5.00, 4.98, 4.93, 0, 0),
    (SHORT_FLAT, 2): _row(1, 4.7, 1, 36, 23, 13, 5.00, 4.98, 4.93, 0, 0),
    (SHORT_FLAT, 3): _row(1, 4.5, 1, 36, 24, 14, 5.00, 4.98, 4.92, 0.22, 0.10),
    (SHORT_FLAT, 4): _row(1, 4.9, 1, 36, 24, 13, 5.01, 4.98, 4.93, 1.35, 0.53),
    (SLOPED, 1): _row(1, 29.8, 1, 36, 32, 22, 5.27, 5.00, 4.70, 0, 0),
    (SLOPED, 2): _row(1, 29.8, 1, 36, 32, 22, 5.27, 5.00, 4.70, 0, 0),
    (SLOPED, 3): _row(1, 29.7, 1, 36, 35, 22, 5.64, 5.04, 4.18, 0.55, 0.30),
    (SLOPED, 4): _row(1, 40.8, 1, 36, 36, 19, 5.95, 5.02, 3.71, 6.83, 3.62),
    (HILLY, 1): _row(1, 63.3, 2, 18, 33, 19, 6.17, 5.00, 3.67, 0, 0),
    (HILLY, 2): _row(1, 63.3, 2, 18, 33, 19, 6.17, 5.00, 3.67, 0, 0),
    (HILLY, 3): _row(1, 63.0, 2, 18, 35, 20, 9.53, 5.15, 2.40, 1.48, 0.49),
    (HILLY, 4): _row(1, 81.5, 2, 18, 38, 17, 8.84, 5.07, 0.90, 9.65, 3.35),
    (PRECISION, 1): _row(1, 7.8, 1, 36, 7, 5, 1.01, 0.99, 0.93, 0, 0),
    (PRECISION, 2): _row(1, 7.8, 1, 36, 7, 5, 1.01, 0.99, 0.93, 0, 0),
    (PRECISION, 3): _row(1, 7.5, 1, 36, 8, 6, 1.01, 0.99, 0.92, 0.19, 0.08),
    (PRECISION, 4): _row(0, 100, 1, 36, 9, 4, 1.01, 1.00, 0.92, 8.31, 3.88),
}


@lru_cache(maxsize=32)
def _loaded(name: str, kind: str, number: int) -> Scenario:
    flown = KINDS[kind]
    configuration = flown.configurations[number - 1]
    return load_scenario(
        name,
        vehicle=flown.vehicle,
        autopilot=flown.autopilot,
        sensors=configuration.sensors,
        estimator=configuration.estimator,
        fly_on=configuration.fly_on,
    )


def limited(items: tuple[Item, ...], limit_mps: float) -> tuple[Item, ...]:
    """A mission without its landing whose waypoints are flown to within a limit of speed."""
    ways = [
        replace(item, speed_mps=limit_mps) if isinstance(item, Waypoint) else item
        for item in items[:-1]
    ]
    last = ways[-1]
    assert isinstance(last, Waypoint)
    return (*ways[:-1], replace(last, type="hover", hold_s=STAY_S))


#: Limits of the failsafes that end a flight for what is thought of its estimate: none is reached,
#: as the thesis's autopilot has no such failsafes.
NO_FAILSAFES = {
    "position_sigma_m": 1000.0,
    "velocity_sigma_mps": 100.0,
    "attitude_sigma_rad": 3.2,
    "jump_m": 1000.0,
    "jump_mps": 100.0,
    "jump_rad": 3.2,
    "hold_growth_m": 1000.0,
    "off_course_m": 1000.0,
    "floor_m": -1e4,
}
#: The same of the checks before take-off.
NO_CHECKS = {
    "position_sigma_m": 100.0,
    "height_sigma_m": 100.0,
    "velocity_sigma_mps": 10.0,
    "tilt_sigma_rad": 1.0,
    "yaw_sigma_rad": 3.2,
    "speed_mps": 10.0,
}


def fearless(autopilot: AutopilotParams) -> AutopilotParams:
    """An autopilot that flies on whatever it thinks of its estimate."""
    flight = autopilot.flight
    flight = replace(
        flight,
        failsafe=replace(flight.failsafe, **NO_FAILSAFES),
        arming=replace(flight.arming, **NO_CHECKS),
    )
    return replace(autopilot, flight=flight)


def scenario_of(name: str, kind: str, number: int, seed: int, limit_mps: float) -> Scenario:
    """One attempt at a scenario.

    Args:
        name: of :data:`SCENARIOS`.
        kind: of :data:`KINDS`.
        number: of the configuration, from 1 on.
        seed: of all randomness.
        limit_mps: limit of speed.
    """
    scenario = _loaded(name, kind, number)
    return replace(
        scenario,
        file=replace(scenario.file, seed=seed),
        autopilot=fearless(scenario.autopilot),
        items=limited(scenario.items, limit_mps),
    )
