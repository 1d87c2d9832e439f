"""Make the pictures of docs/wind.md; they need Chromium.

PYTHONPATH=examples python docs/make_wind_pictures.py
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots
from spectra import Spectrum, welch

from quadsim.analysis.report.pictures import save_picture
from quadsim.base.compiled import kernel
from quadsim.base.parameters import pack
from quadsim.world.air.wind import WIND_STATE, white_width, wind_start, wind_step
from quadsim.world.air.wind_parameters import WindParams
from quadsim.world.build import no_wind
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

IMAGES = Path(__file__).parent / "images"
MEAN_MPS, HEIGHT_M = 8.0, 30.0
COLOURS = ("#1b6ca8", "#d95f02", "#3a923a")
AXES = ("along", "across", "up")


@kernel
def fly(
    states: Any, environments: Any, table: Array, height_m: float, period_ns: int, white: Array,
    air: Array,
) -> None:  # fmt: skip
    """The air at a vehicle that hovers, at the end of each period."""
    for k in range(air.shape[0]):
        now = wind_step(
            states[0], environments[0], table, (0.0, 0.0, height_m), (0.0, 0.0, 0.0), 0.0,
            (k + 1) * period_ns, period_ns * 1e-9, white[k],
        )  # fmt: skip
        air[k, 0], air[k, 1], air[k, 2] = now


def blown(wind: WindParams, period_s: float, count: int, height_m: float = HEIGHT_M) -> Array:
    """(count, 3) velocity of the air in m/s, the mean wind to the east."""
    world = EnvironmentParams(wind_W_mps=(MEAN_MPS, 0.0, 0.0), wind=wind)
    states = np.zeros(1, WIND_STATE)
    wind_start(states[0])
    white = np.random.default_rng(4).standard_normal((count, white_width(wind)))
    air = np.zeros((count, 3))
    environments = np.array([pack(world)])
    fly(states, environments, no_wind(), height_m, round(period_s * 1e9), white, air)
    return air


def gusts_picture() -> go.Figure:
    """A gust alone, with shear; the same in turbulence."""
    gust = ((5.0, 2.0, 4.0, 6.0, 0.0, -2.0),)
    figure = make_subplots(
        1, 2, shared_yaxes=True, horizontal_spacing=0.04,
        subplot_titles=("a gust, log shear", "the same 30 m up, von Kármán, W20 = 15.4 m/s"),
    )  # fmt: skip
    t_s = 0.02 * np.arange(1, 1001)
    for height_m, colour in zip((2.0, 30.0), COLOURS, strict=False):
        air = blown(WindParams(shear="log", gusts=gust), 0.02, 1000, height_m)
        name = f"east, {height_m:g} m up"
        figure.add_scatter(x=t_s, y=air[:, 0], name=name, line={"color": colour}, row=1, col=1)
    figure.add_scatter(x=t_s, y=air[:, 2], name="up", line={"color": COLOURS[2]}, row=1, col=1)
    rough = WindParams(shear="log", gusts=gust, turbulence="von_karman", w20_mps=15.4)
    air = blown(rough, 0.02, 1000)
    for axis, name in ((0, "east"), (1, "north"), (2, "up")):
        line = {"color": ("#d95f02", "#7f7f7f", "#3a923a")[axis], "width": 1.3}
        figure.add_scatter(
            x=t_s, y=air[:, axis], name=name, line=line, row=1, col=2, showlegend=axis == 1
        )
    figure.update_xaxes(title_text="time, s")
    figure.update_yaxes(title_text="velocity of the air, m/s", col=1)
    return figure.update_layout(
        template="plotly_white", legend={"orientation": "h", "y": 1.22}, margin={"t": 70}
    )


def theory(model: str, frequency_hz: Array, length_m: float, sigma: float, along: bool) -> Array:
    """One-sided spectrum over frequency of MIL-F-8785C, (m/s)^2/Hz."""
    time_s = length_m / MEAN_MPS
    x2 = np.square(2.0 * np.pi * frequency_hz * time_s)
    if model == "dryden":
        shape = 2.0 / (1.0 + x2) if along else (1.0 + 3.0 * x2) / np.square(1.0 + x2)
    else:
        x2 = 1.339**2 * x2
        shape = 1.0 + 8.0 / 3.0 * x2
        shape = 2.0 * (1.0 + x2) ** (-5 / 6) if along else shape * (1.0 + x2) ** (-11 / 6)
    return np.asarray(2.0 * sigma**2 * time_s * shape)


def smoothed(spectrum: Spectrum) -> tuple[Array, Array]:
    """Means over bands of equal width on the logarithmic axis."""
    edges = np.geomspace(spectrum.frequency_hz[3], spectrum.frequency_hz[-1], 60)
    rows = [spectrum.within(low, high) for low, high in itertools.pairwise(edges)]
    rows = [row for row in rows if len(row.frequency_hz)]
    return (
        np.array([np.exp(np.log(row.frequency_hz).mean()) for row in rows]),
        np.array([row.density.mean(axis=0) for row in rows]),
    )


def spectra_picture() -> go.Figure:
    """Spectrum of each axis beside theory."""
    w20, feet = 15.4, HEIGHT_M / 0.3048
    shape = 0.177 + 0.000823 * feet
    lengths = (HEIGHT_M / shape**1.2, HEIGHT_M / shape**1.2, HEIGHT_M)
    sigmas = (0.1 * w20 / shape**0.4, 0.1 * w20 / shape**0.4, 0.1 * w20)
    names = {"dryden": "Dryden", "von_karman": "von Kármán"}
    titles = [f"{name}, {axis}" for name in names.values() for axis in AXES]
    figure = make_subplots(
        2, 3, shared_xaxes=True, shared_yaxes=True, subplot_titles=titles,
        horizontal_spacing=0.03, vertical_spacing=0.1,
    )  # fmt: skip
    for row, model in enumerate(names, 1):
        wind = WindParams(turbulence=model, w20_mps=w20)
        found = welch(blown(wind, 0.01, 1 << 21), 100.0, 1.0 / 512.0)
        frequency_hz, density = smoothed(found.within(0.0, 20.0))
        for axis in range(3):
            where = {"row": row, "col": axis + 1, "showlegend": row == 1 and axis == 0}
            expected = theory(model, frequency_hz, lengths[axis], sigmas[axis], axis == 0)
            line = {"color": "#b0b0b0", "width": 6}
            figure.add_scatter(x=frequency_hz, y=expected, name="MIL-F-8785C", line=line, **where)
            marker = {"color": "#222222", "size": 4}
            figure.add_scatter(
                x=frequency_hz, y=density[:, axis], name="simulated", mode="markers",
                marker=marker, **where,
            )  # fmt: skip
    figure.update_xaxes(type="log", exponentformat="power", dtick=1)
    figure.update_yaxes(type="log", exponentformat="power", dtick=2)
    figure.update_xaxes(title_text="frequency, Hz", row=2)
    figure.update_yaxes(title_text="(m/s)²/Hz", col=1)
    return figure.update_layout(
        template="plotly_white", legend={"orientation": "h", "y": 1.14}, margin={"t": 70}
    )


def main() -> None:
    """Draw ``images/wind_gust.png`` and ``images/wind_spectra.png``."""
    IMAGES.mkdir(exist_ok=True)
    save_picture(gusts_picture(), IMAGES / "wind_gust.png", 1100, 420)
    save_picture(spectra_picture(), IMAGES / "wind_spectra.png", 1100, 640)


if __name__ == "__main__":
    main()
