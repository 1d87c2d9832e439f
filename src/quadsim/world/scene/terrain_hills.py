"""Hills from a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel
from quadsim.base.elementary import cos, each, power, sin
from quadsim.base.parameters import Spec
from quadsim.world.scene.terrain import Heightmap

#: So many plane waves make nearly a Gaussian surface.
WAVES = 48
#: Their lengths are spread evenly in octaves, from the longest down to a quarter of it.
OCTAVES = 2.0
#: A wave's height falls with this power of its length: the shorter, the gentler.
ROUGHNESS = 1.5


@dataclass(frozen=True)
class HillsParams:
    """Square terrain whose height at the origin of ``map``, where vehicles start, is given."""

    height_m: Annotated[
        float, Spec("highest above lowest point, 0 for no terrain", "m", ge=0.0, le=2000.0)
    ] = 0.0
    wavelength_m: Annotated[float, Spec("length of the longest hills", "m", ge=1.0, le=1e5)] = 200.0
    seed: Annotated[int, Spec("another one gives other hills", ge=0, le=2**32 - 1)] = 1
    size_m: Annotated[float, Spec("width of the square", "m", ge=1.0, le=1e5)] = 256.0
    cells: Annotated[int, Spec("grid cells each way", ge=2, le=4096)] = 256
    center_W_m: Annotated[
        tuple[float, float], Spec("middle of the square, east and north", "m", ge=-1e5, le=1e5)
    ] = (0.0, 0.0)
    start_height_m: Annotated[
        float, Spec("ground at the origin of map", "m", ge=-1000.0, le=10000.0)
    ] = 0.0
    pad_radius_m: Annotated[
        float, Spec("flat ground around the origin; hills grow to twice that", "m", ge=0.0, le=1e4)
    ] = 0.0


def hills(params: HillsParams) -> Heightmap | None:
    """Terrain as a sum of plane waves of random direction and phase, squared.

    Only the grid depends on ``cells``: a finer one samples the same hills. Twice the size with
    twice the wavelength and height is the same terrain, twice as large.

    Returns:
        None where the height is 0.
    """
    if params.height_m == 0.0:
        return None
    ticks = np.linspace(-0.5, 0.5, params.cells + 1) * params.size_m
    x, y = np.meshgrid(ticks + params.center_W_m[0], ticks + params.center_W_m[1])
    surface = _surface(params, x, y)
    lowest, span = surface.min(), np.ptp(surface)
    shares = (surface - lowest) / span  # squared: valleys are wider than ridges
    start = (_surface(params, np.zeros(1), np.zeros(1))[0] - lowest) / span
    rise = params.height_m * (shares * shares - max(0.0, start) * max(0.0, start))
    heights = (
        params.start_height_m + _outside_pad(params.pad_radius_m, np.sqrt(x * x + y * y)) * rise
    )
    return Heightmap(heights, (params.size_m, params.size_m), params.center_W_m)


@kernel
def _add_wave(height: float, phases: Any, total: Any) -> None:
    """Add height cos(phase) to each of (N,) points."""
    for i in range(phases.shape[0]):
        total[i] += height * cos(phases[i])


def _surface(
    params: HillsParams, x: NDArray[np.float64], y: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum of the waves at points of the map, of no particular height."""
    generator = np.random.Generator(np.random.PCG64(params.seed))
    octave, heading, phase = generator.uniform(
        [[0.0], [0.0], [0.0]], [[OCTAVES], [2.0 * math.pi], [2.0 * math.pi]], (3, WAVES)
    )
    number = 2.0 * math.pi / params.wavelength_m * each(power, 2.0, octave)
    total = np.zeros_like(x)
    for k in range(WAVES):
        along = cos(heading[k]) * x + sin(heading[k]) * y
        height = power(2.0, -ROUGHNESS * octave[k])
        _add_wave(height, (number[k] * along + phase[k]).reshape(-1), total.reshape(-1))
    return total


def _outside_pad(radius_m: float, distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 on the pad, 1 beyond twice its radius, smooth between."""
    if radius_m == 0.0:
        return np.ones_like(distance_m)
    share = np.clip(distance_m / radius_m - 1.0, 0.0, 1.0)
    return np.asarray(share * share * (3.0 - 2.0 * share))
