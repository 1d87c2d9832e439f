"""Draws flights as strangers would make them: any vehicle, suite, site, weather and mission.

A drawn scenario is the content of a scenario file. What is drawn is flyable: the wind is one that
the vehicle can hold, the suite one with which the filter flies, and the autopilot that for them.
"""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from quadsim.base.errors import InputError
from quadsim.base.files import find
from quadsim.base.parameters import from_mapping, read_yaml
from quadsim.sensors.devices import load_suite
from quadsim.sim.scenario import Scenario, read_scenario
from quadsim.vehicle.parameters import VehicleParams

Content = dict[str, Any]

CLASSES = ("none", "small", "faults")
VEHICLES = ("x500", "iris", "phantom4", "hexacopter", "hummingbird", "fcnd", "kingfisher")
CRAZYFLIES = ("crazyflie2", "crazyflie21", "crazyflie21_closed_loop")
#: Suites that hold a vehicle in place; the first is what most people fly.
SUITES = (
    "default", "default", "default", "default_1000hz", "default_250hz", "fast_spin", "swarm",
    "fcnd", "fcnd_gps", "phantom4", "phantom4", "thesis_devices", "thesis_devices", "crazyflie",
    "ideal",
)  # fmt: skip
#: Those whose receiver is off by metres: a mission that is low over the ground is refused.
COARSE = ("phantom4", "thesis_devices")
#: Deceleration by drag of a wind that a vehicle holds: the integral of the position loop has 3.
HELD_MPS2, WEAKEST_MPS, STRONGEST_MPS = 2.0, 1.0, 12.0
#: Standing on the ground, a vehicle of 40 g is blown over by more.
CRAZYFLIE_MPS = 2.5
SEA_LEVEL_C, LAPSE_K_M, DENSITY_KG_M3, GRAVITY_MPS2 = 15.0, 6.5e-3, 1.225, 9.81
#: Errors of a careful installation.
MOUNT_DEG, LEVER_M, DECLINATION_DEG = 1.0, 0.05, 4.0
#: The longest flight, s; one that is done ends.
DURATION_S = 600.0
MOST_ATTEMPTS = 50
#: Sizes of errors of a sensor's channel: how many numbers, least, largest, and at what it sticks.
SIZES: Mapping[tuple[str, str], tuple[int, float, float, float | None]] = {
    ("imu", "accel"): (3, 0.1, 5.0, None),
    ("imu", "gyro"): (3, 0.005, 0.5, None),
    ("gnss", "position"): (3, 0.5, 30.0, None),
    ("gnss", "velocity"): (3, 0.2, 3.0, None),
    ("magnetometer", ""): (3, 1e-6, 6e-5, None),
    ("barometer", ""): (1, 5.0, 1000.0, 9e4),
    ("rangefinder", ""): (1, 0.1, 5.0, 1.0),
}


class Draw:
    """Numbers of one scenario, rounded as somebody would write them."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def number(self, low: float, high: float, digits: int = 2) -> float:
        return round(float(self.rng.uniform(low, high)), digits)

    def scale(self, low: float, high: float) -> float:
        """Evenly over the logarithm, three digits."""
        return float(f"{math.exp(self.rng.uniform(math.log(low), math.log(high))):.3g}")

    def vector(self, size: float, digits: int = 3) -> list[float]:
        return [self.number(-size, size, digits) for _ in range(3)]

    def shares(self, size: float, count: int) -> list[float]:
        return [float(f"{size * self.number(-1, 1):.3g}") for _ in range(count)]

    def one_of(self, *items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)


def vehicle_of(name: str) -> VehicleParams:
    return from_mapping(VehicleParams, read_yaml(find("vehicles", name)), name)


def held_wind_mps(vehicle: VehicleParams) -> float:
    """Wind in which a vehicle's drag in hover is HELD_MPS2."""
    rotors = len(vehicle.commands)
    lift_N = vehicle.mass_kg * GRAVITY_MPS2 / rotors
    hover_radps = math.sqrt(lift_N / vehicle.thrust_coefficient_N_s2)
    linear = rotors * vehicle.rotor_drag_N_s2 * hover_radps + max(vehicle.body_drag_N_s_m)
    square = 0.5 * DENSITY_KG_M3 * max(vehicle.drag_area_m2)
    force_N = HELD_MPS2 * vehicle.mass_kg
    root = math.sqrt(linear * linear + 4.0 * square * force_N)
    return min(max(2.0 * force_N / max(linear + root, 1e-9), WEAKEST_MPS), STRONGEST_MPS)


def _air(draw: Draw, held_mps: float) -> Content:
    """Mean wind, shear and turbulence."""
    if draw.chance(0.25):
        return {}
    speed, course = draw.number(0.0, held_mps), draw.number(0.0, 2.0 * math.pi)
    wind: Content = {}
    if draw.chance(0.7):
        wind |= {"turbulence": draw.one_of("dryden", "von_karman"), "w20_mps": max(speed, 0.5)}
    if draw.chance(0.2):
        wind |= {"shear": draw.one_of("power", "log")}
    if draw.chance(0.2):
        gust = draw.number(0.0, 0.4 * held_mps)
        times_s = [draw.number(5.0, 30.0), draw.number(0.5, 5.0), draw.number(0.0, 5.0)]
        wind |= {"gusts": [[*times_s, gust, 0.0, 0.0]]}
    mean = [round(speed * math.cos(course), 2), round(speed * math.sin(course), 2), 0.0]
    return {"wind_W_mps": mean} | ({"wind": wind} if wind else {})


def _environment(draw: Draw, held_mps: float) -> Content:
    """Site, weather and wind."""
    height_m = draw.one_of(0.0, draw.number(-100, 500, 0), draw.number(0, 3500, 0))
    standard_C = SEA_LEVEL_C - LAPSE_K_M * height_m
    temperature_C = draw.number(-30.0, 40.0, 1)
    latitude_deg, longitude_deg = draw.number(-90.0, 90.0), draw.number(-180.0, 180.0)
    datum = {"latitude_deg": latitude_deg, "longitude_deg": longitude_deg, "height_m": height_m}
    weather = {
        "temperature_offset_K": round(temperature_C - standard_C, 1),
        "sea_level_pressure_pa": draw.number(96000.0, 104500.0, 0),
    }
    return {"datum": datum, "gravity": "model", **weather, **_air(draw, held_mps)}


def _way(draw: Draw, z: float) -> list[Content]:
    """One thing to do at a height: a square, a figure of eight, a circle, or a way somewhere."""
    speed, kind = draw.scale(0.5, 5.0), draw.one_of("square", "figure_of_eight", "circle", "goto")
    if kind == "square":
        side, turns = draw.scale(2.0, 20.0), draw.chance(0.5)
        places = ((side, 0.0, 0.0), (side, side, 90.0), (0.0, side, 180.0), (0.0, 0.0, 270.0))
        legs = [{"position_W_m": [x, y, z], "yaw_deg": turns * yaw} for x, y, yaw in places]
        return [{"goto": leg | {"speed_mps": speed}} for leg in legs]
    if kind == "goto":
        away, course = draw.scale(5.0, 100.0), draw.number(-180.0, 180.0)
        x, y = (round(away * f(math.radians(course)), 1) for f in (math.cos, math.sin))
        up = round(z * draw.one_of(1.0, 1.0, 1.5), 1)
        return [{kind: {"position_W_m": [x, y, up], "yaw_deg": course, "speed_mps": speed}}]
    item: Content = {"center_W_m": [0.0, 0.0, z], "speed_mps": speed}
    if kind == "circle":
        item |= {"radius_m": draw.scale(1.5, 15.0), "turns": draw.number(0.5, 3.0, 1)}
    else:
        length = draw.scale(1.5, 12.0)
        item |= {"half_length_m": length, "half_width_m": length / 2}
        item |= {"laps": int(draw.rng.integers(1, 4))}
    return [{kind: item | {"yaw": draw.one_of("fixed", "along")}}]


def _mission(draw: Draw, coarse: bool) -> list[Content]:
    """Take-off, up to two things to do, a hover, and the landing."""
    height_m = draw.scale(8.0 if coarse else 1.2, 40.0)
    items: list[Content] = [{"takeoff": {"height_m": height_m}}]
    for _ in range(int(draw.rng.integers(0, 3))):
        items += _way(draw, height_m)
    return [*items, {"hover": {"duration_s": draw.number(2.0, 20.0, 1)}}, {"land": {}}]


def _believed(draw: Draw) -> Content:
    """Small errors of the installation."""
    levers = ("imu_position_B_m", "antenna_position_B_m", "rangefinder_position_B_m")
    mount: Content = {"imu_roll_pitch_yaw_deg": draw.vector(MOUNT_DEG)}
    mount |= {lever: draw.vector(LEVER_M) for lever in levers}
    return mount | {"declination_deg": draw.number(-DECLINATION_DEG, DECLINATION_DEG)}


def _sensor_fault(draw: Draw, suite: str) -> Content:
    """One fault of one sensor, of any kind."""
    sensors = load_suite(suite)
    sensor, channel = draw.one_of(*(place for place in SIZES if place[0] in sensors))
    count, low, high, stuck = SIZES[sensor, channel]
    gnss = ("outage", "spoofing") if sensor == "gnss" else ()
    kind = draw.one_of("stuck", "frozen", "noisier", "bias", "dropout", "delay", *gnss)
    fault: Content = {"sensor": sensor, "fault": kind, "at_s": draw.number(0.0, 30.0, 1)}
    if draw.chance(0.7):
        fault["duration_s"] = draw.scale(0.2, 20.0)
    if kind in ("stuck", "frozen", "bias") and channel:
        fault["channel"] = channel
    most_s = 0.4 if sensor != "imu" else 0.04
    values: Mapping[str, Callable[[], list[float]]] = {
        "stuck": lambda: [draw.one_of(0.0, high) if stuck is None else stuck],
        "noisier": lambda: [draw.scale(2.0, 30.0)],
        "bias": lambda: draw.shares(draw.scale(low, high), count),
        "dropout": lambda: [draw.number(0.1, 1.0)],
        "delay": lambda: [draw.scale(0.01 if sensor != "imu" else 0.002, most_s)],
        "spoofing": lambda: draw.vector(2.0, 2),
    }
    return fault | ({"value": values[kind]()} if kind in values else {})


def _event(draw: Draw, vehicle: VehicleParams, held_mps: float) -> Content:
    """One thing that befalls the vehicle."""
    kind = draw.one_of("motor", "motor", "push", "drop", "wind")
    event: Content = {"kind": kind, "at_s": draw.number(3.0, 30.0, 1)}
    if kind == "motor":
        event["index"] = int(draw.rng.integers(len(vehicle.commands)))
        event["effectiveness"] = 0.0 if draw.chance(0.3) else draw.number(0.7, 0.98)
    elif kind == "push":
        event["duration_s"] = draw.scale(0.1, 1.5)
        size_N = 0.3 * vehicle.mass_kg * GRAVITY_MPS2
        event["force_W_N"] = [float(f"{value:.3g}") for value in draw.vector(size_N, 6)]
    elif kind == "drop":
        event["mass_kg"] = float(f"{vehicle.mass_kg * draw.number(0.02, 0.2):.3g}")
    else:
        event["wind_W_mps"] = [*draw.vector(0.6 * held_mps, 1)[:2], 0.0]
        event["rise_s"] = draw.number(0.5, 5.0, 1)
    return event


def draw_content(kind: str, *seed: int) -> Content:
    """Content of a scenario file of a class; it may be one that is refused."""
    draw = Draw(CLASSES.index(kind), *seed)
    name = draw.one_of(*VEHICLES, "x500", draw.one_of(*CRAZYFLIES))
    suite = draw.one_of(*SUITES)
    name = "phantom4" if suite == "phantom4" else name  # whose vibration it has
    vehicle = vehicle_of(name)
    held_mps = min(held_wind_mps(vehicle), CRAZYFLIE_MPS if name in CRAZYFLIES else STRONGEST_MPS)
    content: Content = {"vehicle": name, "sensors": suite, "duration_s": DURATION_S}
    content["seed"] = int(draw.rng.integers(1, 100_000))
    content["start"] = {"yaw_deg": draw.number(-180.0, 180.0, 0)}
    content["environment"] = _environment(draw, held_mps)
    content["mission"] = _mission(draw, suite in COARSE)
    if suite.startswith("fcnd"):  # its gyroscope is too noisy for the other gains
        content["autopilot"] = "fcnd"
    elif name in CRAZYFLIES:
        content["autopilot"] = "crazyflie"
    if kind == "small":
        content["believed"] = _believed(draw)
    for _ in range(int(draw.rng.integers(1, 3)) if kind == "faults" else 0):
        if draw.chance(0.25):
            content.setdefault("events", []).append(_event(draw, vehicle, held_mps))
        else:
            content.setdefault("faults", []).append(_sensor_fault(draw, suite))
    return content


def scenario_of(content: Mapping[str, Any]) -> Scenario:
    """The scenario of a content, as ``quadsim sim --scenario`` reads it."""
    return read_scenario(deepcopy(dict(content)), Path("drawn.yaml"), "drawn", {})


def draw_scenario(kind: str, seed: int, flight: int) -> Content:
    """Content of a scenario of a class that is not refused.

    Args:
        kind: of CLASSES.
        seed: of the search.
        flight: number of the flight, from 0 on.
    """
    refused = InputError("none was drawn")
    for attempt in range(MOST_ATTEMPTS):
        content = draw_content(kind, seed, flight, attempt)
        try:
            scenario_of(content)
        except InputError as error:
            refused = error
        else:
            return content
    raise refused
