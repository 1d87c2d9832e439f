"""A device at rest for an hour, all its errors on: Allan deviations against the file's model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import signal, stats
from scipy.spatial.transform import Rotation

from quadsim.base.compiled import Array
from quadsim.base.parameters import leaves
from quadsim.lab.sensor_check.allan import AllanCurve, AllanNoise, allan_curve
from quadsim.lab.sensor_check.bench import Bench, Truth, above, truth_at_rest
from quadsim.lab.sensor_check.figures import MeasuredFigure
from quadsim.sensors import SENSORS
from quadsim.sensors.imu_channel import is_filtered

#: Bins of a histogram, at most, but for those at its ends.
BINS = 60

#: Points of the integral over a filtered spectrum.
POINTS = 20_000


@dataclass(frozen=True)
class RestChannel:
    """One number of a sample, and its error at rest by the file.

    Attributes:
        field, axis: where it is in a sample; the axis is None for a single number.
        rounding: distance of the counts.
        spread: deviation of one sample about its lasting error, before rounding.
        drift: takes (N,) times in s; gives what changes for certain.
        corner_hz: of the low-pass that white noise passes; 0: none.
        normal: whether all its errors are normal ones, and none is missing.
    """

    name: str
    unit: str
    field: str
    axis: int | None
    noise: AllanNoise
    rounding: float
    spread: float
    drift: Callable[[Array], Array] | None = None
    corner_hz: float = 0.0
    normal: bool = True

    @property
    def judged(self) -> bool:
        """Whether the intervals mean something: rounding is noise where readings spread enough."""
        return self.normal and self.spread >= 0.5 * self.rounding


@dataclass(frozen=True)
class Rested:
    """What one channel did in an hour.

    Attributes:
        figure: the averaging time at which measured and specified are farthest apart.
        curve: Allan deviations.
        model: (M,) what the file makes of each.
        low, high: (M,) ends of the intervals.
        edges: (B + 1,) and ``counts``: (B,) histogram of the readings less their mean.
        expected: (B,) counts of a normal error about the sensor's lasting one.
    """

    figure: MeasuredFigure
    curve: AllanCurve
    model: Array
    low: Array
    high: Array
    edges: Array
    counts: Array
    expected: Array


def warming(params: Any, per_kelvin: float) -> Callable[[Array], Array] | None:
    """What the sensor's own temperature does to a channel."""
    size, time_s = per_kelvin * params.warm_up_K, params.warm_up_s
    return None if size == 0.0 else lambda t_s: np.asarray(-size * np.expm1(-t_s / time_s))


def rest_truth(kind: str, params: Any) -> Truth:
    """Where a device rests: level, and a range finder half way into its range."""
    if kind == "rangefinder":
        return above(0.5 * (params.range_min_m + params.range_max_m))
    return truth_at_rest()


def _imu_channels(params: Any, bench: Bench, first: np.record) -> Iterator[RestChannel]:
    for name, field, unit in (("accel", "f_S", "m/s^2"), ("gyro", "w_S", "rad/s")):
        corner_hz = getattr(params, f"{name}_bandwidth_hz")
        for i, axis in enumerate("xyz"):
            density, walk, instability, bias_per_K, scale_per_K = (
                getattr(params, f"{name}_{key}")[i]
                for key in (
                    "noise_density", "bias_walk", "instability", "temperature_bias",
                    "temperature_scale",
                )
            )  # fmt: skip
            time_s = getattr(params, f"{name}_instability_time_s")
            gravity_mps2 = bench.environment.gravity_and_gradient()[0]
            true = gravity_mps2 if (name, axis) == ("accel", "z") else 0.0
            yield RestChannel(
                f"{name} {axis}", unit, field, i, AllanNoise(density, walk, instability, time_s),
                getattr(params, f"{name}_step"), density * math.sqrt(params.rate_hz),
                warming(params, bias_per_K + scale_per_K * true),
                corner_hz if is_filtered(corner_hz, params.rate_hz) else 0.0,
            )  # fmt: skip


def _gnss_channels(params: Any, bench: Bench, first: np.record) -> Iterator[RestChannel]:
    level, up = 1.0, 1.0
    if params.satellites > 0:
        level, up = float(first["hdop"]) / params.hdop, float(first["vdop"]) / params.vdop
    normal = params.outage_rate_hz == 0.0 and params.multipath_rate_hz == 0.0
    for what, unit, field, sigmas, share in (
        ("position", "m", "p_W", params.position_sigma_m(), params.correlated_share),
        ("velocity", "m/s", "v_W", params.velocity_sigma_mps(), 0.0),
    ):
        for i, axis in enumerate(("east", "north", "up")):
            sigma = (level, level, up)[i] * sigmas[i]
            noise = AllanNoise(
                white=sigma * math.sqrt((1.0 - share) / params.rate_hz),
                instability=sigma * math.sqrt(share),
                instability_time_s=params.correlation_time_s,
            )
            yield RestChannel(f"{what} {axis}", unit, field, i, noise, 0.0, sigma, normal=normal)


def _field_channels(params: Any, bench: Bench, first: np.record) -> Iterator[RestChannel]:
    across, along = _turned(params, bench)
    alike = params.scale_sigma == params.cross_axis_sigma == 0.0  # else a unit turns it otherwise
    for i, axis in enumerate("xyz"):
        sigma_T = math.sqrt(params.noise_sigma_T[i] ** 2 + across[i] + along[i])
        noise = AllanNoise(white=sigma_T / math.sqrt(params.rate_hz), walk=params.bias_walk[i])
        drift = warming(params, params.temperature_bias[i])
        yield RestChannel(
            f"field {axis}", "T", "m_S", i, noise, params.step_T, sigma_T, drift,
            normal=params.heading_sigma_rad == 0.0 or bool(alike and along[i] <= 0.01 * sigma_T**2),
        )  # fmt: skip


def _pressure_channel(params: Any, bench: Bench, first: np.record) -> Iterator[RestChannel]:
    sigma_pa, drift = params.noise_sigma_pa, warming(params, params.temperature_bias)
    noise = AllanNoise(white=sigma_pa / math.sqrt(params.rate_hz), walk=params.bias_walk)
    yield RestChannel("pressure", "Pa", "pressure_pa", None, noise, params.step_pa, sigma_pa, drift)


def _range_channel(params: Any, bench: Bench, first: np.record) -> Iterator[RestChannel]:
    height_m = float(rest_truth("rangefinder", params).now["p_W"][0, 2])
    sigma_m = math.hypot(params.noise_sigma_m, params.noise_share * height_m)
    noise = AllanNoise(white=sigma_m / math.sqrt(params.rate_hz))
    yield RestChannel("range", "m", "range_m", None, noise, params.step_m, sigma_m)


def plain_channels(params: Any, bench: Bench, first: np.record) -> Iterator[RestChannel]:
    """Each number of the sample, with the errors that the parameters' tags say."""
    errors = {leaf.spec.term: getattr(params, leaf.name) for leaf in leaves(type(params))}
    for i in range(len(first["values"])):
        white, walk, rounding = (
            float(np.ravel(errors.get(tag, 0.0))[i % np.size(errors.get(tag, 0.0))])
            for tag in ("white", "random walk", "quantisation")
        )
        noise = AllanNoise(white=white / math.sqrt(params.rate_hz), walk=walk)
        yield RestChannel(f"value {i + 1}", "", "values", i, noise, rounding, white)


#: First number of a sample to its channels, by parameters, bench, and first sample, which tells how
#: the sky was drawn; and how many there are. Others have plain ones.
CHANNELS = {
    "f_S": (_imu_channels, 6),
    "p_W": (_gnss_channels, 6),
    "m_S": (_field_channels, 3),
    "pressure_pa": (_pressure_channel, 1),
    "range_m": (_range_channel, 1),
}


def channels_of(kind: str) -> tuple[Callable[..., Iterator[RestChannel]], int]:
    """What makes the channels of a kind of sensor, and how many there are."""
    sample = SENSORS[kind].sample
    first = [*(sample.names or ())][1]
    return CHANNELS.get(first, (plain_channels, sample["values"].shape[0]))


def _turned(params: Any, bench: Bench) -> tuple[Array, Array]:
    """Variance on each axis, (3,) T^2, of a field that is rotated by a normal angle.

    Across the level field by the angle's sine, which is nearly normal, and along it by its cosine,
    which is not: it only ever reduces.
    """
    east, north, _ = bench.environment.field_W_T()
    turn2 = params.heading_sigma_rad**2
    sine2 = 0.5 * -math.expm1(-2.0 * turn2)
    cosine2 = 0.5 * (1.0 + math.exp(-2.0 * turn2)) - math.exp(-turn2)
    mount = Rotation.from_euler("xyz", params.rotation_deg, degrees=True).as_matrix()
    seen = params.soft_iron_matrix() @ mount.T
    across, along = seen @ (-north, east, 0.0), seen @ (east, north, 0.0)
    return np.asarray(sine2 * across**2), np.asarray(cosine2 * along**2)


def model_variance(channel: RestChannel, dt_s: float, samples: int, count: Array) -> Array:
    """Allan variance that the file makes of a channel.

    Args:
        count: (M,) samples in an average.
    """
    figures = channel.noise
    variance = figures.variance(count, dt_s) + channel.rounding**2 / 12.0 / count
    if channel.corner_hz > 0.0:
        white = figures.white**2 / (count * dt_s)
        variance += figures.white**2 * _filtered(channel.corner_hz, dt_s, count) - white
    if channel.drift is not None:
        drifting = channel.drift(np.asarray(dt_s * np.arange(1, samples + 1), float))
        total = np.concatenate([[0.0], np.cumsum(drifting - drifting.mean())])
        for i, n in enumerate(count.astype(int)):
            sums = total[n:] - total[:-n]
            variance[i] += 0.5 * float(np.mean((sums[n:] - sums[:-n]) ** 2)) / n**2
    return np.asarray(variance)


def _filtered(corner_hz: float, dt_s: float, count: Array) -> Array:
    """Allan variance of white noise of density 1 behind a second-order Butterworth low-pass."""
    half_hz = 0.5 / dt_s
    b, a = signal.butter(2, corner_hz, fs=1.0 / dt_s)
    variances = []
    for n in count:
        # fine enough for the slowest average, and for the filter
        low_hz = 1e-4 / (n * dt_s)
        frequency_hz = np.geomspace(low_hz, half_hz, POINTS)
        phase = math.pi * frequency_hz * dt_s
        gain = 2.0 * np.sin(n * phase) ** 4 / (n * np.sin(phase)) ** 2
        # where the sine turns more than once from one point to the next, its mean
        fast = n * np.diff(phase, append=phase[-1]) > 1.0
        gain[fast] = 0.75 / (n * np.sin(phase[fast])) ** 2
        passed = np.abs(signal.freqz(b, a, frequency_hz, fs=1.0 / dt_s)[1]) ** 2
        variances.append(2.0 * float(np.trapezoid(gain * passed, frequency_hz)))
    return np.asarray(variances)


def rest(
    kind: str, params: Any, bench: Bench, hours: float, confidence: float
) -> list[tuple[RestChannel, Rested]]:
    """Let a device rest and compare.

    Args:
        confidence: of each interval; the figures of a channel hold only all together.
    """
    count = round(3600.0 * hours * params.rate_hz)
    samples = bench.run(params, "rest", count, rest_truth(kind, params))
    found = []
    for channel in channels_of(kind)[0](params, bench, samples[0]):
        values = samples[channel.field]
        values = values if channel.axis is None else values[:, channel.axis]
        values = values[np.isfinite(values)]
        if values.size and values.min() < values.max():
            found.append((channel, _judge(channel, values, 1.0 / params.rate_hz, confidence)))
    return found


def rest_intervals(kind: str, params: Any, hours: float) -> int:
    """How many intervals a rest compares, at most: octaves of each channel."""
    octaves = math.ceil(math.log2(max(2.0, 3600.0 * hours * params.rate_hz / 5.0)))
    return octaves * channels_of(kind)[1]


def _edges(reach: float, rounding: float, mean: float) -> Array:
    """Of a histogram of readings less their mean: bins of whole counts, or :data:`BINS` of them."""
    if rounding <= 0.0:
        return np.asarray(np.linspace(-reach, reach, BINS + 1), float)
    width = rounding * math.ceil(2.0 * reach / (BINS * rounding))
    first = width * math.floor((mean - reach) / width) - 0.5 * rounding - mean
    return np.asarray(first + width * np.arange(math.ceil(2.0 * reach / width) + 3))


def _judge(channel: RestChannel, values: Array, dt_s: float, confidence: float) -> Rested:
    model = partial(model_variance, channel, dt_s, len(values))
    curve = allan_curve(values, 1.0 / dt_s, model, per_decade=3)
    expected = np.sqrt(model(curve.count.astype(float)))
    low, high = curve.interval(confidence)
    off = np.abs(np.log(curve.deviation / expected)) * np.sqrt(curve.freedom)
    worst = int(np.argmax(off))
    ok = bool(((low <= expected) & (expected <= high)).all()) or not channel.judged
    tau_s = float(curve.tau_s[worst])
    figure = MeasuredFigure(
        f"{channel.name}: Allan deviation at {tau_s:.3g} s",
        channel.unit,
        float(expected[worst]) if channel.judged else None,
        float(curve.deviation[worst]),
        float(low[worst]),
        float(high[worst]),
        ok,
    )
    spread = math.sqrt(channel.spread**2 + channel.rounding**2 / 12.0)
    about = values - values.mean()
    reach = max(4.0 * spread, float(np.abs(about).max()))
    edges = _edges(reach, channel.rounding, float(values.mean()))
    counts = np.asarray(np.histogram(about, edges)[0], float)
    normal = len(values) * np.diff(stats.norm.cdf(edges / spread))
    return Rested(figure, curve, expected, low, high, edges, counts, normal)
