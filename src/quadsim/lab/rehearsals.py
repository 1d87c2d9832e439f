"""A rehearsal over many seeds: what its flights show together, and a picture of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import BLIND, REFERENCE, TRUTH, WAYPOINTS, finish_panels
from quadsim.base.parameters import Vec3
from quadsim.firmware.fly import FirmwareChoice
from quadsim.geometry.rotation import yaw_of
from quadsim.hil.rehearsal.flight import TRACK, FleetFlight, Outcome, RehearsalFlight
from quadsim.hil.rehearsal.parameters import PassParams
from quadsim.hil.rehearsal.rehearsal import load_rehearsal
from quadsim.lab.campaign.batch import Progress
from quadsim.lab.campaign.experiment import Job, demand, fly_cells
from quadsim.world.scene.obstacle_fields import Field
from quadsim.world.scene.obstacles import Box, Cylinder, Obstacle, Sphere

WIDTH_PX, ROW_PX = 1500, 330
#: Flights in a picture, those that came nearest to an obstacle.
MOST, COLUMNS = 6, 2


def fly_rehearsal(job: Job) -> Outcome:
    """Fly one seed of a rehearsal; ``cell`` is its name, ``extra`` speed, firmware, sensors."""
    speed_mps, firmware, sensors = job.extra
    rehearsal = load_rehearsal(job.cell, job.seed, speed_mps, firmware, sensors=sensors)
    return (FleetFlight if rehearsal.params.fleet else RehearsalFlight)(rehearsal).fly()


def run_rehearsal(
    name: str,
    seeds: Sequence[int],
    speed_mps: float | None = None,
    processes: int = 0,
    progress: Progress | None = None,
    firmware: FirmwareChoice | None = None,
    sensors: str | None = None,
) -> list[Outcome]:
    """Fly a rehearsal over seeds, each with a field, a vehicle and noise of its own.

    Args:
        name: of a file in ``config/rehearsals``, or its path.
        speed_mps: limit of speed instead of the file's.
        processes, progress: as of :func:`quadsim.lab.campaign.batch.run_batch`; firmware has fixed
            ports, so it flies in one process.
        firmware: flies the stand-in instead of our autopilot.
        sensors: a suite whose depth camera it sees by, instead of the file's.

    Raises:
        InputError: as of :func:`quadsim.hil.rehearsal.rehearsal.load_rehearsal`.
    """
    jobs = [Job(name, seed, (speed_mps, firmware, sensors)) for seed in seeds]
    return fly_cells(fly_rehearsal, jobs, 1 if firmware else processes, progress)[name]


def criteria(outcomes: Sequence[Outcome], passes: PassParams) -> list[dict[str, Any]]:
    """What had to hold over all flights, and what did; what is not known does not pass."""

    def share(holds: Iterable[bool]) -> float:
        return sum(holds) / len(outcomes)

    told = (
        any(passes.says in words for words in (o.reason, *(e.message for e in o.events)))
        for o in outcomes
    )
    collisions = sum(o.collided for o in outcomes)
    found = [demand("collisions", collisions, None, passes.collisions)]
    for name, value, least in (
        ("arrivals", share(o.arrived for o in outcomes), passes.arrivals),
        ("clearance_m", min(o.clearance_m for o in outcomes), passes.clearance_m),
        ("landings", share(o.landed for o in outcomes), float(passes.lands)),
        ("says", share(told), float(bool(passes.says))),
    ):
        if least > 0.0:
            found.append(demand(name, value, least, None))
    for name, limit in (("stop_s", passes.stop_s), ("stop_over_m", passes.stop_over_m)):
        if limit > 0.0:
            values = [getattr(stop, name) for outcome in outcomes for stop in outcome.stops]
            worst = max(values) if values and not any(map(math.isnan, values)) else math.nan
            found.append(demand(name, worst, None, limit))
    return found


def rehearsal_summary(name: str, outcomes: Sequence[Outcome], passes: PassParams) -> dict[str, Any]:
    """The summary of a rehearsal: counts, smallest distance, times, criteria, one row a flight."""
    judged = criteria(outcomes, passes)
    arrived = [outcome for outcome in outcomes if outcome.arrived]
    times_s = [outcome.time_s for outcome in arrived]
    nearest = min(outcomes, key=lambda outcome: outcome.clearance_m)
    return {
        "scenario": name,
        "flights": len(outcomes),
        "collisions": sum(outcome.collided for outcome in outcomes),
        "arrivals": len(arrived),
        "clearance_m": nearest.clearance_m,
        "clearance_seed": nearest.seed,
        "clearance_median_m": statistics.median(outcome.clearance_m for outcome in outcomes),
        "time_median_s": statistics.median(times_s) if arrived else None,
        "time_max_s": max(times_s, default=None),
        "speed_max_mps": max(outcome.speed_mps for outcome in outcomes),
        "speed_mean_mps": sum(o.way_m for o in arrived) / sum(times_s) if arrived else None,
        "criteria": judged,
        "passed": all(item["passed"] for item in judged),
        "runs": [outcome.row() for outcome in outcomes],
    }


def flights_to_draw(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The flights of the picture: what did not end well first, then by the smallest distance."""
    order = sorted(outcomes, key=lambda o: (not o.collided, o.arrived, o.clearance_m))
    return order[:MOST]


def outline(obstacle: Obstacle) -> tuple[list[float], list[float]]:
    """East and north of an obstacle's outline from above, closed; empty where it has none."""
    shape = obstacle.shape
    if isinstance(shape, Cylinder | Sphere):
        turn = np.linspace(0.0, 2.0 * np.pi, 25)
        points = shape.radius_m * np.stack([np.cos(turn), np.sin(turn)])
    elif isinstance(shape, Box):
        yaw = yaw_of(obstacle.pose_W.q_AB)
        corners = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1), (1, 1)]).T
        rotated = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
        points = rotated @ (0.5 * np.array(shape.size_m[:2])[:, None] * corners)
    else:
        return [], []
    x, y = points + np.array(obstacle.pose_W.p_A[:2])[:, None]
    return x.tolist(), y.tolist()


def rehearsal_picture(
    flown: Sequence[tuple[str, Outcome]], speed_mps: float | None = None
) -> go.Figure:
    """Flights from above: obstacles, what moved, and the way that was flown.

    Args:
        flown: name of the rehearsal, and what came of the flight.
        speed_mps: limit of speed with which they were flown; None: that of their files.
    """
    rows = math.ceil(len(flown) / COLUMNS)
    several = len({name for name, _ in flown}) > 1
    titles = [
        f"{name + ', ' if several else ''}seed {o.seed}: {o.reason}, {o.time_s:.1f} s,"
        f" nearest {o.clearance_m:.2f} m"
        for name, o in flown
    ]
    figure = make_subplots(
        rows, COLUMNS, subplot_titles=titles, horizontal_spacing=0.05, vertical_spacing=0.22 / rows
    )
    for k, (name, outcome) in enumerate(flown):
        rehearsal = load_rehearsal(name, outcome.seed, speed_mps)
        ends = [end for own in rehearsal.params.fleet for end in (own.start_W_m, own.goal_W_m)]
        ends = ends or [rehearsal.field.start_W, rehearsal.field.goal_W]
        _draw(figure, k // COLUMNS + 1, k % COLUMNS + 1, rehearsal.field, outcome, ends)
    figure.update_xaxes(title_text="east, m", row=rows)
    figure.update_yaxes(title_text="north, m", col=1)
    return finish_panels(figure, WIDTH_PX, rows * ROW_PX)


def _draw(
    figure: go.Figure, row: int, column: int, field: Field, outcome: Outcome, places: list[Vec3]
) -> None:
    """One flight into its panel, with starts and goals."""
    place, gap = {"row": row, "col": column}, np.full((2, 1), np.nan)
    outlines = [np.hstack([outline(obstacle), gap]) for obstacle in field.obstacles]
    x, y = np.hstack([gap, *outlines])
    line = {"color": WAYPOINTS, "width": 1}
    figure.add_scatter(x=x, y=y, name="obstacles", mode="lines", fill="toself", line=line, **place)
    ways = [np.hstack([np.array(mover.way_W).T[:2], gap]) for mover in field.movers]
    if ways:
        x, y = np.hstack(ways)
        figure.add_scatter(
            x=x, y=y, name="moves or appears", mode="lines+markers", marker={"size": 4},
            line={"color": BLIND, "width": 1.5, "dash": "dot"}, **place,
        )  # fmt: skip
    track = dict(zip(TRACK, outcome.track.T, strict=True))
    marker = {
        "color": track["speed_mps"], "colorscale": "Viridis", "size": 4, "cmin": 0.0,
        "showscale": row == column == 1, "colorbar": {"title": "m/s", "thickness": 12},
    }  # fmt: skip
    figure.add_scatter(
        x=track["x_m"], y=track["y_m"], name="flown", mode="lines+markers", marker=marker,
        line={"color": TRUTH, "width": 1}, **place,
    )  # fmt: skip
    ends = np.array(places)
    marker = {"color": REFERENCE, "size": 9, "symbol": "x"}
    figure.add_scatter(x=ends[:, 0], y=ends[:, 1], name="start, goal", mode="markers",
                       marker=marker, **place)  # fmt: skip
    index = (row - 1) * COLUMNS + column
    axis = "x" if index == 1 else f"x{index}"
    figure.update_yaxes(scaleanchor=axis, constrain="domain", **place)
