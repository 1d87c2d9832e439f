"""Steps 3 and 4 of an IMU, alike for its accelerometer and its gyroscope.

In this order: band limit; scale, cross-axis and the scale's temperature; non-linearity; bias
(constant, turn-on, walk, Gauss-Markov, temperature, push) and white noise; counts; range. Bias and
noise are figures of the output, so the scale does not act on them. White noise passes the same
low-pass as the motion, which leaves its density as it is below the corner.
Noise: IEEE Std 952-1997, annex C: white noise of a density N has the deviation N / sqrt(dt) in a
sample that averages over dt; a random walk K grows by K sqrt(dt); a Gauss-Markov process of
correlation time T keeps exp(-dt/T) of itself.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Record, Vector, kernel
from quadsim.base.elementary import exp, tan
from quadsim.base.parameters import Vec3
from quadsim.sensors.model import read_out

#: Standard normal numbers for a sample: white noise, Gauss-Markov, walk.
CHANNEL_WHITE = 9

#: Numbers drawn at switch-on: bias, Gauss-Markov, scale, cross-axis.
CHANNEL_DRAWN = 15


class ImuChannel(Record):
    """One triad of axes: what its parameters come to, and what it remembers."""

    matrix: Annotated[Array, 3, 3]  # scale and cross-axis
    bias: Vector  # constant, turn-on and walk
    correlated: Vector  # bias instability now, Gauss-Markov
    noise_density: Vector
    floor: Vector  # of the vibration, as a density
    bias_walk: Vector
    instability: Vector
    instability_time_s: float
    temperature_bias: Vector
    temperature_scale: Vector
    quadratic: float  # error over the squared value
    step: float
    range: float
    # of one interval, set when its length changes
    white_variance: Vector
    floor_variance: Vector
    walk_sigma: Vector
    decay: float
    fresh_sigma: Vector
    corner_s: float  # 1 / angular frequency of the low-pass, 0 without one
    filtered: int  # the corner lies below half the rate
    b: Vector
    a: Vector
    motion_memory: Annotated[Array, 3, 2]
    noise_memory: Annotated[Array, 3, 2]


def is_filtered(bandwidth_hz: float, rate_hz: float) -> bool:
    """Whether a low-pass can be run at the sample rate: it is on and below half of it."""
    return 0.0 < bandwidth_hz < 0.5 * rate_hz


def noise_gain(bandwidth_hz: float, rate_hz: float) -> float:
    """Variance of white noise behind the low-pass, over that before it.

    ``1/pi integral dW / ((1 + W^2) (1 + (W/c)^4))`` over all W, the bilinear transform's frequency,
    with ``c = tan(pi bandwidth / rate)``, by partial fractions.
    """
    if not is_filtered(bandwidth_hz, rate_hz):
        return 1.0
    c = tan(math.pi * bandwidth_hz / rate_hz)
    c2 = c * c
    return (c2 * c2 + (c - c * c2) / math.sqrt(2.0)) / (1.0 + c2 * c2)


def start_channel(
    channel: ImuChannel, params: Any, name: str, floor: NDArray[np.float64], drawn: Any
) -> None:
    """Switch one triad on.

    Args:
        channel: an :class:`ImuChannel`, zeroed.
        params: ImuParams.
        name: "accel" or "gyro", with which its parameters begin.
        floor: (3,) density of the vibration's floor, sensor axes.
        drawn: (CHANNEL_DRAWN,) standard normal numbers.
    """

    def of(key: str) -> Any:
        return getattr(params, f"{name}_{key}")

    for key in (
        "noise_density", "bias_walk", "instability", "instability_time_s", "temperature_bias",
        "temperature_scale", "step", "range",
    ):  # fmt: skip
        channel[key] = of(key)
    if of("nonlinearity") > 0.0:
        channel.quadratic = of("nonlinearity") / of("range")
    channel.floor[:] = floor
    channel.bias[:] = of("bias") + of("turn_on_sigma") * drawn[0:3]
    channel.correlated[:] = of("instability") * drawn[3:6]
    cross = np.zeros((3, 3))
    cross[~np.eye(3, dtype=bool)] = of("cross_axis") + of("cross_axis_sigma") * drawn[9:15]
    scale = of("scale") + of("scale_sigma") * drawn[6:9]
    channel.matrix[:] = scale[:, None] * (np.eye(3) + cross)
    start_low_pass(channel, of("bandwidth_hz"), params.rate_hz)


def start_low_pass(channel: ImuChannel, bandwidth_hz: float, rate_hz: float) -> None:
    """Second-order Butterworth, by the bilinear transform with its corner where it belongs."""
    if bandwidth_hz > 0.0:
        channel.corner_s = 0.5 / (math.pi * bandwidth_hz)
    if is_filtered(bandwidth_hz, rate_hz):
        c = tan(math.pi * bandwidth_hz / rate_hz)
        damping = math.sqrt(2.0) * c
        total = 1.0 + damping + c * c
        channel.filtered = 1
        channel.b[:] = np.array([c * c, 2.0 * c * c, c * c]) / total
        channel.a[:] = [1.0, 2.0 * (c * c - 1.0) / total, (1.0 - damping + c * c) / total]


@kernel
def biquad(memory: Array, b: Array, a: Array, value: float) -> float:
    """One step of a second-order filter, direct form II transposed."""
    passed = b[0] * value + memory[0]
    memory[0] = b[1] * value - a[1] * passed + memory[1]
    memory[1] = b[2] * value - a[2] * passed
    return float(passed)


@kernel
def settle_filter(channel: ImuChannel, x: Vec3) -> None:
    """Bring the low-pass to where it comes to rest at x, which is its past before switch-on."""
    b, a = channel.b, channel.a
    for i in range(3):
        channel.motion_memory[i, 1] = (b[2] - a[2]) * x[i]
        channel.motion_memory[i, 0] = (b[1] - a[1]) * x[i] + channel.motion_memory[i, 1]


@kernel
def band_limit(channel: ImuChannel, x: Vec3) -> Vec3:
    """The motion behind the low-pass."""
    if channel.filtered == 0:
        return x
    b, a, memory = channel.b, channel.a, channel.motion_memory
    return (
        biquad(memory[0], b, a, x[0]),
        biquad(memory[1], b, a, x[1]),
        biquad(memory[2], b, a, x[2]),
    )


@kernel
def pace(channel: ImuChannel, dt_s: float) -> None:
    """Set what the noise of a sample depends on by the length of its interval."""
    channel.decay = exp(-dt_s / channel.instability_time_s)
    fresh = math.sqrt(1.0 - channel.decay * channel.decay)
    for i in range(3):
        channel.white_variance[i] = channel.noise_density[i] ** 2 / dt_s
        channel.floor_variance[i] = channel.floor[i] ** 2 / dt_s
        channel.walk_sigma[i] = channel.bias_walk[i] * math.sqrt(dt_s)
        channel.fresh_sigma[i] = channel.instability[i] * fresh


@kernel
def read_channel(
    channel: ImuChannel,
    x: Vec3,
    push: Vec3,
    warmth_K: float,
    vibration: float,
    white: Array,
    values: Array,
) -> None:
    """What a triad reports.

    Args:
        channel: an :class:`ImuChannel`, changed in place.
        x: true motion with vibration, behind the low-pass, sensor axes.
        push: bias from elsewhere, output units.
        warmth_K: temperature over that of the calibration.
        vibration: factor of the vibration floor's variance.
        white: (CHANNEL_WHITE,) standard normal numbers.
        values: (3,) receives the sample.
    """
    for i in range(3):
        row = channel.matrix[i]
        value = row[0] * x[0] + row[1] * x[1] + row[2] * x[2]
        value *= 1.0 + channel.temperature_scale[i] * warmth_K
        value += channel.quadratic * value * value
        variance = channel.white_variance[i] + channel.floor_variance[i] * vibration
        noise = math.sqrt(variance) * white[i]
        if channel.filtered != 0:
            noise = biquad(channel.noise_memory[i], channel.b, channel.a, noise)
        instability = channel.decay * channel.correlated[i] + channel.fresh_sigma[i] * white[3 + i]
        channel.correlated[i] = instability
        channel.bias[i] += channel.walk_sigma[i] * white[6 + i]
        value += channel.bias[i] + instability + push[i] + channel.temperature_bias[i] * warmth_K
        values[i] = read_out(value + noise, channel.step, channel.range)
