"""Make the pictures and tables of docs/pid-tutorial.md and docs/tuning.md.

python docs/make_tuning_pictures.py [train] [quadrotor]

The train is controlled by the kernels that fly the vehicles (``quadsim.control.pid``); the
quadrotor is tuned as ``quadsim tune`` does it. Figures go to stdout; the pictures need Chromium.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from PIL import Image
from plotly.subplots import make_subplots

from quadsim.analysis.report.figures import REFERENCE, RUNS, style
from quadsim.analysis.report.pictures import save_picture
from quadsim.analysis.step_response import StepFigures, step_figures
from quadsim.control.pid import clamp, integral_step, low_pass, low_pass_weight, rate_of_change
from quadsim.lab.tune.relay import LimitCycle, limit_cycle
from quadsim.lab.tune.relay_flight import switched
from quadsim.lab.tune.tuned import tuning_picture
from quadsim.lab.tune.tuning import load_vehicle, tune_loops

Array = NDArray[np.float64]

IMAGES = Path(__file__).parent / "images"
WIDTH_PX, HEIGHT_PX_ONE = 900, 400
COLOURS = 96

#: Step of the controller and of the physics, s.
DT_S, SUBSTEPS = 0.005, 5
GRAVITY_MPS2 = 9.81


@dataclass(frozen=True)
class Train:
    """m x'' = f - b x' - m g sin(slope); the motor's force f follows the wish u with a lag."""

    mass_kg: float = 1.0
    friction_N_s_m: float = 1.0
    lag_s: float = 0.2
    slope: float = 0.0  # sine of the angle, uphill positive
    force_max_N: float = 4.0


@dataclass(frozen=True)
class Pid:
    """Gains: N/m, N/(m s), N s/m; the derivative's low-pass, and whether the integral winds up."""

    p: float
    i: float = 0.0
    d: float = 0.0
    cutoff_hz: float = 20.0
    anti_windup: bool = True


@dataclass(frozen=True)
class Ride:
    """Time, true position and wish, (N,) each; s, m, N."""

    time_s: Array
    x_m: Array
    u_N: Array

    def figures(self, goal_m: float) -> StepFigures:
        """Figures of the step to the goal."""
        return step_figures(self.time_s, self.x_m, 0.0, goal_m)


def advance(train: Train, x: float, v: float, force: float, u: float) -> tuple[float, float, float]:
    """One step of the controller's length."""
    dt = DT_S / SUBSTEPS
    for _ in range(SUBSTEPS):
        force += dt * (u - force) / train.lag_s
        push = force - train.friction_N_s_m * v
        v += dt * (push / train.mass_kg - GRAVITY_MPS2 * train.slope)
        x += dt * v
    return x, v, force


def ride(
    train: Train, pid: Pid, seconds: float = 20.0, goal_m: float = 1.0, noise_m: float = 0.0
) -> Ride:
    """Send the train to a goal."""
    rng = np.random.default_rng(1)
    x = v = force = integral = cut = 0.0
    weight = low_pass_weight(pid.cutoff_hz, DT_S)
    filtered = None
    rows = []
    for k in range(round(seconds / DT_S)):
        measured = x + noise_m * float(rng.standard_normal())
        before = measured if filtered is None else filtered
        filtered = low_pass(before, measured, weight)
        error = goal_m - measured
        limit = train.force_max_N if pid.anti_windup else math.inf
        integral = integral_step(
            integral, error, pid.i, cut if pid.anti_windup else 0.0, limit, DT_S
        )
        wish = pid.p * error + integral - pid.d * rate_of_change(before, filtered, DT_S)
        u = clamp(wish, -train.force_max_N, train.force_max_N)
        cut = wish - u
        rows.append((k * DT_S, x, u))
        x, v, force = advance(train, x, v, force, u)
    return Ride(*np.array(rows).T)


def relay_ride(train: Train, d_N: float, h_m: float, seconds: float) -> tuple[Ride, LimitCycle]:
    """Put a relay in place of the controller, about where the train stands."""
    x = v = force = 0.0
    output, rows = 1.0, []
    for k in range(round(seconds / DT_S)):
        output = switched(output, -x, h_m)
        rows.append((k * DT_S, x, d_N * output))
        x, v, force = advance(train, x, v, force, d_N * output)
    found = Ride(*np.array(rows).T)
    cycle = limit_cycle(found.x_m, found.u_N, DT_S, h_m)
    assert cycle is not None
    return found, cycle


def save(figure: go.Figure, name: str, width: int = WIDTH_PX, height: int = HEIGHT_PX_ONE) -> None:
    """Write a picture with few colours, which makes its file small."""
    path = IMAGES / f"{name}.png"
    save_picture(figure, path, width, height)
    with Image.open(path) as drawn:
        few = drawn.convert("RGB").quantize(COLOURS)
    few.save(path, optimize=True)


def draw(
    name: str,
    rides: Mapping[str, Ride],
    goal_m: float = 1.0,
    forces: bool = False,
    y_range: tuple[float, float] | None = None,
) -> None:
    """Positions over time, and the forces below them where they matter."""
    figure = make_subplots(
        rows=2 if forces else 1,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.08,
        row_heights=[0.6, 0.4] if forces else [1.0],
    )
    for (label, found), colour in zip(rides.items(), RUNS, strict=False):
        line = {"color": colour, "width": 1.8}
        figure.add_trace(
            go.Scatter(x=found.time_s, y=found.x_m, name=label, mode="lines", line=line), 1, 1
        )
        if forces:
            figure.add_trace(
                go.Scatter(
                    x=found.time_s, y=found.u_N, mode="lines", showlegend=False,
                    line=line | {"width": 1.0},
                ),
                2,
                1,
            )  # fmt: skip
    figure.add_hline(y=goal_m, line={"color": REFERENCE, "dash": "dash", "width": 1}, row=1, col=1)
    height = 560 if forces else HEIGHT_PX_ONE
    style(figure, height, x_title="")
    figure.update_yaxes(title_text="position, m", row=1, col=1)
    if y_range:
        figure.update_yaxes(range=list(y_range), row=1, col=1)
    if forces:
        figure.update_yaxes(title_text="force wanted, N", row=2, col=1)
    figure.update_xaxes(title_text="time, s", row=2 if forces else 1, col=1)
    figure.update_layout(width=WIDTH_PX, margin={"t": 60}, hovermode=False)
    save(figure, name, WIDTH_PX, height)
    print(f"\n{name}:")
    print("| | rise, s | overshoot, % | settling, s | steady-state error, m |")
    print("| --- | --- | --- | --- | --- |")
    for label, found in rides.items():
        figures = found.figures(goal_m)
        words = [
            "-" if value is None else f"{value:.2f}"
            for value in (figures.rise_s, 100 * figures.overshoot, figures.settling_s)
        ]
        print(f"| {label} | {' | '.join(words)} | {figures.steady_error:+.3f} |")


#: The gains of the tutorial, and its slope.
PD = Pid(p=3.0, d=2.0)
TUNED = Pid(p=3.0, i=0.5, d=2.0)
UPHILL = 0.05

#: Of the position that the derivative is taken of, m.
NOISE_M = 0.002


def train_pictures() -> None:
    """All pictures of the train."""
    train = Train()
    hill = replace(train, slope=UPHILL)
    rides = {f"P = {p:g} N/m": ride(train, Pid(p)) for p in (0.2, 1.0, 2.0, 6.5)}
    draw("pid_p", rides, y_range=(-0.6, 2.6))
    rides = {f"P = {p:g} N/m, uphill": ride(hill, Pid(p), 30.0) for p in (0.7, 1.0, 2.0)}
    draw("pid_p_slope", rides, y_range=(-0.1, 1.4))
    rides = {f"D = {d:g} N s/m": ride(train, Pid(3.0, d=d), 10.0) for d in (0.0, 0.5, 2.0, 4.0)}
    draw("pid_pd", rides, y_range=(-0.1, 1.8))
    rides = {"PD, uphill": ride(hill, PD)}
    rides |= {f"PID, I = {i:g}": ride(hill, replace(TUNED, i=i)) for i in (0.2, 0.5, 3.0)}
    draw("pid_pid", rides, y_range=(-0.3, 1.8))
    weak = replace(train, force_max_N=1.0)
    rides = {
        "anti-windup": ride(weak, TUNED, 60.0, 10.0),
        "integral winds up": ride(weak, replace(TUNED, anti_windup=False), 60.0, 10.0),
    }
    draw("pid_windup", rides, 10.0, forces=True)
    rides = {
        f"low-pass at {cutoff:g} Hz": ride(
            train, replace(TUNED, cutoff_hz=cutoff), 10.0, noise_m=NOISE_M
        )
        for cutoff in (50.0, 5.0, 0.2)
    }
    draw("pid_noise", rides, forces=True)
    for name, found in rides.items():
        print(f"{name}: deviation of the force at rest {found.u_N[-600:].std():.3f} N")
    rides = {
        "as tuned": ride(train, TUNED),
        "oiled, b = 0.2": ride(replace(train, friction_N_s_m=0.2), TUNED),
        "rusty, b = 4": ride(replace(train, friction_N_s_m=4.0), TUNED),
        "downhill": ride(replace(train, slope=-UPHILL), TUNED),
    }
    draw("pid_friction", rides, y_range=(-0.1, 1.7))
    ziegler_nichols(train)
    thesis_train()


#: The train of A. Larsen's thesis (NTNU, 2010), section 4.3.2: throttle u within 1, acceleration u,
#: friction 0.1 v, no lag, from 0 to 100 m. The gains are those of its figures 4.4 to 4.6, but the
#: integral gain, which cannot be read.
THESIS_TRAIN = Train(friction_N_s_m=0.1, lag_s=DT_S / SUBSTEPS, force_max_N=1.0)
THESIS_GOAL_M, THESIS_ARRIVED_M = 100.0, 0.5
THESIS_PD, THESIS_PID = Pid(p=1.0 / 100.0, d=1.0 / 4.0), Pid(p=1.0, i=1.0 / 1000.0, d=4.0)


def travel_s(found: Ride) -> float:
    """Time after which a ride of the thesis's train stays within half a metre of its goal."""
    away = np.flatnonzero(np.abs(found.x_m - THESIS_GOAL_M) > THESIS_ARRIVED_M)
    return float(found.time_s[away[-1]])


def thesis_train() -> None:
    """The thesis's train by P, PD and PID, with little and with much friction."""
    stiff = replace(THESIS_TRAIN, friction_N_s_m=0.5)
    rides = {
        "P": ride(THESIS_TRAIN, replace(THESIS_PD, d=0.0), 600.0, THESIS_GOAL_M),
        "PD": ride(THESIS_TRAIN, THESIS_PD, 600.0, THESIS_GOAL_M),
        "PD, friction 0.5 v": ride(stiff, THESIS_PD, 600.0, THESIS_GOAL_M),
        "PID, friction 0.5 v": ride(stiff, THESIS_PID, 600.0, THESIS_GOAL_M),
    }
    draw("pid_thesis", rides, THESIS_GOAL_M, forces=True)
    for name, found in rides.items():
        print(f"{name}: travel time {travel_s(found):.0f} s")


def ziegler_nichols(train: Train) -> None:
    """The relay experiment, the closed form beside it, and what the rules give."""
    m, b, lag = train.mass_kg, train.friction_N_s_m, train.lag_s
    gain, period_s = b * (m + b * lag) / (m * lag), 2.0 * math.pi / math.sqrt(b / (m * lag))
    found, cycle = relay_ride(train, 1.0, 0.002, 60.0)
    print(f"\nultimate gain: relay {cycle.gain:.3f}, closed form {gain:.3f} N/m")
    print(f"ultimate period: relay {cycle.period_s:.3f}, closed form {period_s:.3f} s")
    print(f"amplitude {cycle.amplitude:.3f} m")
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08)
    for row, (values, title) in enumerate(
        ((found.x_m, "position, m"), (found.u_N, "relay's force, N")), 1
    ):
        line = {"color": RUNS[row - 1], "width": 1.8}
        rows = found.time_s < 15.0
        figure.add_trace(
            go.Scatter(x=found.time_s[rows], y=values[rows], line=line, showlegend=False), row, 1
        )
        figure.update_yaxes(title_text=title, row=row, col=1)
    style(figure, HEIGHT_PX_ONE, x_title="")
    figure.update_xaxes(title_text="time, s", row=2, col=1)
    figure.update_layout(width=WIDTH_PX, hovermode=False)
    save(figure, "pid_relay")
    k, t = cycle.gain, cycle.period_s
    rules = {
        "Ziegler-Nichols P": Pid(0.5 * k),
        "Ziegler-Nichols PID": Pid(0.6 * k, 0.6 * k / (0.5 * t), 0.6 * k * t / 8.0),
        "Tyreus-Luyben PID": Pid(k / 2.2, k / 2.2 / (2.2 * t), k / 2.2 * t / 6.3),
        "by hand": TUNED,
    }
    for name, pid in rules.items():
        print(f"{name}: P {pid.p:.2f}, I {pid.i:.2f}, D {pid.d:.2f}")
    draw("pid_ziegler_nichols", {name: ride(train, pid) for name, pid in rules.items()})


def quadrotor_pictures() -> None:
    """Steps before and after ``quadsim tune``, from gains that are wrong on purpose."""
    scenario = load_vehicle("x500", "default", "default", 1)
    good = scenario.autopilot
    bad = replace(
        good,
        attitude=replace(good.attitude, tilt_gain=5.0),
        position=replace(
            good.position, position_gain_xy=2.5, velocity_gain_xy=2.0, velocity_gain_z=1.5,
            position_gain_z=3.0, yaw_gain=5.0,
        ),
    )  # fmt: skip
    found = tune_loops(replace(scenario, autopilot=bad), say=print)
    figure = tuning_picture(found)
    save(figure, "tuning_x500", figure.layout.width, figure.layout.height)
    print(f"cost {found.flown[0].cost:.3f} to {found.flown[1].cost:.3f}, passed {found.passed}")


def main() -> None:
    """Draw what is named on the command line; all for nothing."""
    IMAGES.mkdir(exist_ok=True)
    parts = sys.argv[1:] or ["train", "quadrotor"]
    if "train" in parts:
        train_pictures()
    if "quadrotor" in parts:
        quadrotor_pictures()


if __name__ == "__main__":
    main()
