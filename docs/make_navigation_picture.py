"""Make the picture and the tables of docs/navigation.md: ways to navigate, hills at 5 m.

python docs/make_navigation_picture.py [SEEDS]

The tables are printed; the picture needs Chromium.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import style
from quadsim.analysis.report.pictures import save_picture
from quadsim.analysis.signals import SIGNALS
from quadsim.control.parameters import NAVIGATIONS
from quadsim.mission.items import Takeoff
from quadsim.mission.waypoint import Waypoint
from quadsim.sensors.rangefinder import RangefinderParams
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.log import FlightLog
from quadsim.sim.scenario import Scenario, load_scenario

IMAGES = Path(__file__).parent / "images"
WIDTH_PX, HEIGHT_PX = 1500, 640
COLOURS = 96
LINES = {
    "trajectory": "#7f7f7f",
    "nose_on": "#d62728",
    "acceleration": "#2ca02c",
    "velocity": "#1f77b4",
}
#: The short way of the thesis: 22 m, there within 5 m.
SHORT_M, RADIUS_M = 22.0, 5.0


def flown_by(scenario: Scenario, navigation: str) -> Scenario:
    """The scenario, navigated otherwise."""
    autopilot = scenario.autopilot
    position = replace(autopilot.position, navigation=navigation)
    return replace(scenario, autopilot=replace(autopilot, position=position))


def with_sonar(scenario: Scenario, noise_m: float) -> Scenario:
    """The scenario with a range finder as the thesis's sonar: 20 Hz, 10 m."""
    sonar = scenario.sensors["rangefinder"]
    assert isinstance(sonar, RangefinderParams)
    sonar = replace(sonar, rate_hz=20.0, range_max_m=10.0, noise_sigma_m=noise_m)
    return replace(scenario, sensors={**scenario.sensors, "rangefinder": sonar})


@dataclass(frozen=True)
class Flown:
    """A flight from its first item to its landing: times, positions, height above ground."""

    t_s: NDArray[np.float64]
    p_W: NDArray[np.float64]
    speed_mps: NDArray[np.float64]
    above_m: NDArray[np.float64]
    done: bool


def fly(scenario: Scenario) -> Flown:
    """Fly a scenario in the closed loop."""
    log: FlightLog = ClosedLoop(scenario).fly()
    above = SIGNALS["height_above_ground_m"].of([log])
    rows = np.isin(log.truth.stamp_ns, above.stamp_ns)
    return Flown(
        (above.stamp_ns - above.stamp_ns[0]) * 1e-9,
        log.truth.p_W[rows],
        np.asarray(np.linalg.norm(log.truth.v_W[rows, :2], axis=1)),
        above.values,
        not any(event.name in ("crash", "failsafe_landing") for event in log.events),
    )


def short_way(navigation: str) -> Flown:
    """The thesis's first scenario, on the truth, then a hover at its goal."""
    scenario = load_scenario("square", vehicle="thesis_helicopter", autopilot="thesis")
    goal = Waypoint((SHORT_M, 0.0, 5.0), "hover", radius_m=RADIUS_M, hold_s=15.0)
    file = replace(scenario.file, fly_on="truth", duration_s=40.0)
    scenario = replace(scenario, items=(Takeoff(height_m=5.0), goal), file=file)
    return fly(flown_by(scenario, navigation))


def tell_hills(words: str, flights: list[Flown]) -> None:
    """Print a row of the table of hills."""
    low, high = min(f.above_m.min() for f in flights), max(f.above_m.max() for f in flights)
    mean = np.mean([f.above_m.mean() for f in flights])
    duration, fastest = max(f.t_s[-1] for f in flights), max(f.speed_mps.max() for f in flights)
    done = sum(f.done for f in flights)
    print(
        f"| {words} | {done} of {len(flights)} | {duration:.1f} | {fastest:.1f} |"
        f" {high:.2f} / {mean:.2f} / {low:.2f} |",
        flush=True,
    )


def draw(short: dict[str, Flown], hills: dict[str, Flown]) -> go.Figure:
    """The short way over time; the hills from above, and the height above them."""
    figure = make_subplots(
        rows=1,
        cols=3,
        subplot_titles=(
            f"{SHORT_M:g} m: distance to the goal, m",
            "hills: from above, m",
            "hills: height above ground, m",
        ),
    )
    for name, flight in short.items():
        line = {"color": LINES[name], "width": 1.8}
        left = SHORT_M - flight.p_W[::5, 0]
        figure.add_scatter(x=flight.t_s[::5], y=left, name=name, line=line, row=1, col=1)
    figure.add_hline(RADIUS_M, line_dash="dot", line_color="#888", row=1, col=1)
    for name, flight in hills.items():
        line = {"color": LINES[name], "width": 1.4}
        more = {"line": line, "showlegend": False}
        figure.add_scatter(x=flight.p_W[::10, 0], y=flight.p_W[::10, 1], row=1, col=2, **more)
        figure.add_scatter(x=flight.t_s[::5], y=flight.above_m[::5], row=1, col=3, **more)
    figure.add_hline(2.0, line_dash="dot", line_color="#888", row=1, col=3)
    style(figure, HEIGHT_PX)
    figure.update_layout(legend={"y": 1.08}, margin={"t": 80})
    figure.update_xaxes(title_text="time, s", range=[0.0, 15.0], row=1, col=1)
    figure.update_xaxes(title_text="east", scaleanchor="y2", row=1, col=2)
    figure.update_yaxes(title_text="north", row=1, col=2)
    figure.update_yaxes(range=[0.0, 7.0], row=1, col=3)
    figure.update_xaxes(title_text="time, s", row=1, col=3)
    return figure


def main() -> None:
    """Fly, print the tables, and draw ``images/navigation.png``."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print("| way | within 5 m after, s | within 0.5 m after, s | fastest, m/s | overshoot, m |")
    print("| --- | --- | --- | --- | --- |")
    short = {name: short_way(name) for name in NAVIGATIONS}
    for name, flight in short.items():
        x = flight.p_W[:, 0]
        near, there = (flight.t_s[np.argmax(x > SHORT_M - radius)] for radius in (RADIUS_M, 0.5))
        over = max(x.max() - SHORT_M, 0.0)
        print(f"| {name} | {near:.1f} | {there:.1f} | {flight.speed_mps.max():.1f} | {over:.2f} |")
    helicopter, quadrotor = load_scenario("hills_5m"), load_scenario("hills_5m_x500")
    print("\n| hills of 80 m | arrived | slowest, s | fastest, m/s | height max / mean / min, m |")
    print("| --- | --- | --- | --- | --- |")
    hills = {}
    for name in NAVIGATIONS:
        hills[name] = fly(flown_by(helicopter, name))
        tell_hills(f"helicopter, {name}", [hills[name]])

    def over_seeds(scenario: Scenario) -> list[Flown]:
        return [
            fly(replace(scenario, file=replace(scenario.file, seed=seed)))
            for seed in range(1, seeds + 1)
        ]

    tell_hills("helicopter, velocity, seeds", over_seeds(helicopter))
    for noise_m in (0.025, 0.5):
        sonar = with_sonar(helicopter, noise_m)
        tell_hills(f"the same, sonar of {noise_m:g} m", over_seeds(sonar))
    tell_hills("x500, trajectory", over_seeds(quadrotor))
    tell_hills("x500, velocity", over_seeds(flown_by(quadrotor, "velocity")))
    IMAGES.mkdir(exist_ok=True)
    path = IMAGES / "navigation.png"
    save_picture(draw(short, hills), path, WIDTH_PX, HEIGHT_PX)
    with Image.open(path) as drawn:
        few = drawn.convert("RGB").quantize(COLOURS)
    few.save(path, optimize=True)


if __name__ == "__main__":
    main()
