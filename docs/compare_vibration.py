"""Hold the IMU of the scenario ``phantom_zigzag`` against that of a recorded flight.

python docs/compare_vibration.py BAG

Prints the table of docs/vibration.md and draws its picture, which needs Chromium. The recorded
flights are those of ansfl, *Quadrotor Dead Reckoning with Multiple Inertial Sensors* (arXiv
2310.13452), as rosbag2 with an IMU of 120 Hz on ``/quad/imu/data_raw``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots
from spectra import Spectrum, welch

from quadsim.analysis.report.pictures import save_picture
from quadsim.bag.reading import open_bag
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.scenario import load_scenario

IMAGES = Path(__file__).parent / "images"
SCENARIO = "phantom_zigzag"
RATE_HZ = 120.0
#: Below 8 Hz is the motion; then the floor, the skirts of the lines, the lines.
BANDS_HZ = ((8.0, 15.0), (15.0, 35.0), (35.0, 60.0))
AXES = ("a_x", "a_y", "a_z", "w_x", "w_y", "w_z")
SEEDS = (1, 2, 3)


def recorded(path: Path) -> NDArray[np.float64]:
    """(N, 6) specific force in m/s^2 and angular velocity in rad/s of a bag."""
    rows = []
    with open_bag(path) as bag:
        for message in bag.messages(["/quad/imu/data_raw"]):
            imu = bag.deserialize(message)
            f, w = imu.linear_acceleration, imu.angular_velocity
            rows.append((f.x, f.y, f.z, w.x, w.y, w.z))
    return np.array(rows)


def simulated(seed: int) -> NDArray[np.float64]:
    """The same of the scenario, between take-off and landing."""
    loop = ClosedLoop(load_scenario(SCENARIO, seed=seed), keep_samples=True)
    log = loop.fly()
    begin_ns, end_ns = (
        next(e.stamp_ns for e in log.events if e.message.startswith(what))
        for what in ("item 1", "item 2")
    )
    samples = loop.samples("imu")
    inside = (samples["stamp_ns"] > begin_ns) & (samples["stamp_ns"] < end_ns)
    return np.array(samples["values"][inside])


def deviations(spectrum: Spectrum) -> NDArray[np.float64]:
    """(bands, 6) deviation of each axis in each band."""
    return np.sqrt([spectrum.within(*band).power() for band in BANDS_HZ])


def table(real: Spectrum, flights: list[Spectrum]) -> str:
    """Recorded deviation and simulated over recorded, the median of the seeds."""
    true = deviations(real)
    ratio = np.median([deviations(flight) / true for flight in flights], axis=0)
    lines = ["| band, Hz | " + " | ".join(AXES) + " |", "| --- |" + " --- |" * 6]
    for (low, high), row, own in zip(BANDS_HZ, true, ratio, strict=True):
        cells = " | ".join(f"{a:.3g} ({b:.2f})" for a, b in zip(row, own, strict=True))
        lines.append(f"| {low:g} to {high:g} | {cells} |")
    return "\n".join(lines)


def picture(real: Spectrum, own: Spectrum) -> go.Figure:
    """Both spectra of each axis."""
    figure = make_subplots(2, 3, subplot_titles=AXES, horizontal_spacing=0.06)
    for axis in range(6):
        where = {"row": axis // 3 + 1, "col": axis % 3 + 1}
        for name, spectrum, colour in (
            ("recorded", real, "#222222"),
            ("simulated", own, "#d95f02"),
        ):
            root = np.sqrt(spectrum.density[:, axis])
            line = {"color": colour, "width": 1.5}
            figure.add_scatter(x=spectrum.frequency_hz, y=root, name=name, line=line,
                               showlegend=axis == 0, **where)  # fmt: skip
    figure.update_yaxes(type="log", exponentformat="power")
    figure.update_xaxes(title_text="Hz", row=2)
    figure.update_yaxes(title_text="m/s²/√Hz", row=1, col=1)
    figure.update_yaxes(title_text="rad/s/√Hz", row=2, col=1)
    return figure.update_layout(template="plotly_white", legend={"orientation": "h", "y": 1.14})


def main() -> None:
    """Print the table, draw ``images/vibration.png``."""
    real = welch(recorded(Path(sys.argv[1])), RATE_HZ, 1.0)
    flights = [welch(simulated(seed), RATE_HZ, 1.0) for seed in SEEDS]
    sys.stdout.write(table(real, flights) + "\n")
    IMAGES.mkdir(exist_ok=True)
    save_picture(picture(real, flights[0]), IMAGES / "vibration.png", 1100, 640)


if __name__ == "__main__":
    main()
