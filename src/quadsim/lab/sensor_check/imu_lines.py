"""What an IMU does to frequencies: its low-pass, and the lines of the propellers' vibration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import integrate, optimize, signal

from quadsim.lab.sensor_check.bench import Truth
from quadsim.lab.sensor_check.experiments import Experiment, Figures, Rig, certain
from quadsim.lab.sensor_check.figures import trials_for_squares
from quadsim.sensors.imu_channel import is_filtered
from quadsim.sensors.vibration import VibrationParams

#: Rotor speed at which lines are measured: 10 turns a second.
SLOW_ROTOR_RADPS = 20.0 * math.pi

#: Samples in a turn of a rotor.
A_TURN = 24

#: Amplitudes of lines: at the frequency of the rotor, or of the blades.
LINES = ("accel_rotor_mps2", "accel_blade_mps2", "gyro_rotor_radps", "gyro_blade_radps")

#: What a line depends on.
LINE_KEYS = ("vibration.reference_speed_radps", "vibration.blades")


def passed_noise(bandwidth_hz: float, rate_hz: float) -> float:
    """Part of the variance of white noise that a second-order Butterworth filter lets through."""
    b, a = signal.butter(2, bandwidth_hz, fs=rate_hz)

    def power(frequency_hz: float) -> float:
        return float(abs(signal.freqz(b, a, [frequency_hz], fs=rate_hz)[1][0]) ** 2)

    return float(integrate.quad(power, 0.0, 0.5 * rate_hz)[0] / (0.5 * rate_hz))


def turning(calm: Truth, speed_radps: float) -> Truth:
    """The same truth with one rotor turning."""
    truth = Truth(calm.previous.copy(), calm.now.copy())
    for record in (truth.previous, truth.now):
        record["rotor_speed_radps"][0, 0] = speed_radps
    return truth


def _amplitudes(rig: Any, params: Any, field: str, speed_radps: float, harmonic: int) -> Any:
    """(3,) of the line at a multiple of a rotor's speed, by least squares on sine and cosine."""
    count = 50 * A_TURN
    dt_s = 2.0 * math.pi / speed_radps / A_TURN
    readings = rig.bench.run(params, "line", count, turning(rig.calm, speed_radps), dt_s)[field]
    phase = 2.0 * math.pi * harmonic * np.arange(count) / A_TURN
    return 2.0 / count * np.abs(np.exp(1j * phase) @ readings)


def corner_by_noise(rig: Rig, channel: str, confidence: float) -> Figures:
    """The corner of a filter that runs at the sample rate: what is left of white noise."""
    name, rate_hz = f"{channel}_bandwidth_hz", rig.params.rate_hz
    corner_hz, density = rig.of(name), f"{channel}_noise_density"
    # what is let through grows as the corner does, its deviation as the root: half the
    # precision; far enough apart the samples are independent
    apart = math.ceil(rate_hz / corner_hz)
    noisy = rig.alone(name, **{density: (1.0 / math.sqrt(rate_hz),) * 3})
    count = apart * trials_for_squares(confidence)
    samples = rig.bench.run(noisy, name, count, rig.probes(density)[0].truth)
    whole = rig.specified(name, confidence).deviation(samples[rig.field_of(channel)][::apart, 0])
    ends = [
        optimize.brentq(
            lambda hz, passed=value**2: passed_noise(hz, rate_hz) - passed,
            1e-3 * corner_hz,
            0.499 * rate_hz,
        )
        for value in (whole.measured, whole.low, whole.high)
    ]
    return [rig.specified(name, confidence).within(*ends)]


def corner_by_line(rig: Rig, channel: str) -> Figures:
    """The corner of a filter that runs faster than the samples: what is left of a rotor's line."""
    name = f"{channel}_bandwidth_hz"
    corner_hz = rig.of(name)
    # about the corner, where a sample lasts a whole number of nanoseconds
    line_hz = 1e9 / (A_TURN * round(1e9 / (A_TURN * corner_hz)))
    speed_radps = 2.0 * math.pi * line_hz
    sizes: dict[str, Any] = {next(n for n in LINES if n.startswith(channel)): (1.0, 1.0, 1.0)}
    params = rig.alone(name, vibration=VibrationParams(reference_speed_radps=speed_radps, **sizes))
    gain = _amplitudes(rig, params, rig.field_of(channel), speed_radps, 1)[0]
    # of a second-order Butterworth filter: 1 / gain^2 = 1 + (line / corner)^4
    found_hz = line_hz * (1.0 / gain**2 - 1.0) ** -0.25
    return [rig.specified(name).exactly(found_hz, 1e-6 * corner_hz)]


def vibration_line(rig: Rig, amplitude: str) -> Figures:
    """Amplitudes of a line of the propellers, at a slow turn."""
    name, vibration = f"vibration.{amplitude}", rig.params.vibration
    share = (vibration.reference_speed_radps / SLOW_ROTOR_RADPS) ** 2
    harmonic = 1 if "rotor" in amplitude else vibration.blades
    params = rig.alone(name, *LINE_KEYS)
    found = share * _amplitudes(rig, params, rig.field_of(name), SLOW_ROTOR_RADPS, harmonic)
    stated = rig.of(name)
    return [
        rig.specified(name, component=i).exactly(found[i], 1e-6 * stated[i])
        for i in rig.components(name)
    ]


def in_frequency(rig: Rig) -> Iterator[Experiment]:
    """Experiments of the low-pass of each channel, and of the propellers' lines."""
    for channel in ("accel", "gyro"):
        name = f"{channel}_bandwidth_hz"
        if rig.is_set(name):
            if is_filtered(rig.of(name), rig.params.rate_hz):
                yield Experiment((name,), 1, partial(corner_by_noise, rig, channel))
            else:
                yield certain((name,), partial(corner_by_line, rig, channel))
    for line in LINES:
        if rig.is_set(f"vibration.{line}"):
            yield certain((f"vibration.{line}", *LINE_KEYS), partial(vibration_line, rig, line))
