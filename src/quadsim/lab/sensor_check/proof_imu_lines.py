"""Experiments for what an IMU does to frequencies: its low-pass, and the propellers' vibration."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, signal

from quadsim.lab.sensor_check.bench import Truth
from quadsim.lab.sensor_check.bench_imu import CHANNELS, ImuBench, pushed
from quadsim.lab.sensor_check.figures import Figure, trials_for_squares
from quadsim.sensors.imu_channel import is_filtered
from quadsim.sensors.vibration import VibrationParams

Array = NDArray[np.float64]

#: Rotor speed at which lines are measured: 10 turns a second.
SLOW_ROTOR_RADPS = 20.0 * math.pi

#: Samples in a turn of a rotor.
A_TURN = 24

#: Fields of VibrationParams by channel: line of the rotor, of the blades, floor.
_LINES = {
    "accel": ("accel_rotor_mps2", "accel_blade_mps2", "accel_floor"),
    "gyro": ("gyro_rotor_radps", "gyro_blade_radps", "gyro_floor"),
}


def passed_noise(bandwidth_hz: float, rate_hz: float) -> float:
    """Part of the variance of white noise that a second-order Butterworth filter lets through."""
    b, a = signal.butter(2, bandwidth_hz, fs=rate_hz)

    def power(frequency_hz: float) -> float:
        return float(abs(signal.freqz(b, a, [frequency_hz], fs=rate_hz)[1][0]) ** 2)

    return float(integrate.quad(power, 0.0, 0.5 * rate_hz)[0] / (0.5 * rate_hz))


def plan_bandwidth(imu: ImuBench, name: str, field: str) -> None:
    """The corner: of noise where the filter runs at the sample rate, of rotor lines else."""
    proof, bench, rate_hz = imu.proof, imu.bench, imu.params.rate_hz
    figure = f"{name}_bandwidth_hz"
    corner_hz = proof.of(figure)

    def by_noise(confidence: float) -> list[Figure]:
        # what is let through grows as the corner does, its deviation as the root: half the
        # precision; far enough apart the samples are independent
        apart = math.ceil(rate_hz / corner_hz)
        count = trials_for_squares(confidence)
        noisy = imu.alone(figure, **{f"{name}_noise_density": (1.0 / math.sqrt(rate_hz),) * 3})
        readings = bench.run(noisy, figure, apart * count, imu.calm)[field][::apart]
        whole = proof.said(figure, confidence).deviation(readings[:, 0])
        ends = [
            optimize.brentq(
                lambda hz, passed=value**2: passed_noise(hz, rate_hz) - passed,
                1e-3 * corner_hz,
                0.499 * rate_hz,
            )
            for value in (whole.measured, whole.low, whole.high)
        ]
        return [proof.said(figure, confidence).within(*ends)]

    def by_line() -> list[Figure]:
        # about the corner, where a sample lasts a whole number of nanoseconds
        line_hz = 1e9 / (A_TURN * round(1e9 / (A_TURN * corner_hz)))
        speed_radps = 2.0 * math.pi * line_hz
        sizes: dict[str, Any] = {_LINES[name][0]: (1.0, 1.0, 1.0)}
        shaken = VibrationParams(reference_speed_radps=speed_radps, **sizes)
        gain = _amplitude(imu, imu.alone(figure, vibration=shaken), field, speed_radps, 1, 0)
        # of a second-order Butterworth filter: 1 / gain^2 = 1 + (line / corner)^4
        found_hz = line_hz * (1.0 / gain**2 - 1.0) ** -0.25
        return [proof.said(figure).exactly(found_hz, 1e-6 * corner_hz)]

    if not proof.is_set(figure):
        return
    if is_filtered(corner_hz, rate_hz):
        proof.add([figure], 1, by_noise)
    else:
        proof.certain([figure], by_line)


def _amplitude(
    imu: ImuBench, params: Any, field: str, speed_radps: float, harmonic: int, axis: int
) -> float:
    """Of the line at a multiple of a rotor's speed, by least squares on a sine and a cosine."""
    count = 50 * A_TURN
    dt_s = 2.0 * math.pi / speed_radps / A_TURN
    truth = _turning(imu, speed_radps)
    readings = imu.bench.run(params, "line", count, truth, dt_s)[field][:, axis]
    phase = 2.0 * math.pi * harmonic * np.arange(count) / A_TURN
    return 2.0 / count * math.hypot(readings @ np.cos(phase), readings @ np.sin(phase))


def _turning(imu: ImuBench, speed_radps: float) -> Truth:
    """Without force, one rotor turning."""
    truth = pushed(imu.gravity_mps2)
    for record in (truth.previous, truth.now):
        record["rotor_speed_radps"][0, 0] = speed_radps
    return truth


def plan_vibration(imu: ImuBench) -> None:
    """Lines of the propellers at a slow turn, and their floor."""
    proof, bench = imu.proof, imu.bench
    vibration: VibrationParams = imu.params.vibration
    if not vibration.on:
        return
    share = (vibration.reference_speed_radps / SLOW_ROTOR_RADPS) ** 2
    kept = ("reference_speed_radps", "blades")

    def quiet(name: str) -> Any:
        only = {key: getattr(vibration, key) for key in (*kept, name)}
        return imu.alone(vibration=VibrationParams(**only))

    def lines(name: str, field: str, harmonic: int) -> list[Figure]:
        figures = []
        for axis in proof.axes(f"vibration.{name}"):
            turned = (quiet(name), field, SLOW_ROTOR_RADPS, harmonic, axis)
            amplitude = share * _amplitude(imu, *turned)
            said = proof.said(f"vibration.{name}", axis=axis)
            figures.append(said.exactly(amplitude, 1e-6 * said.specified))
        return figures

    def floor(name: str, field: str, count: int) -> Array:
        truth = _turning(imu, vibration.reference_speed_radps)
        return np.asarray(bench.run(quiet(name), name, count, truth)[field])

    for channel, (rotor, blade, wide) in _LINES.items():
        field = CHANNELS[channel]
        for name, harmonic in ((rotor, 1), (blade, vibration.blades)):
            if proof.is_set(f"vibration.{name}"):
                names = [f"vibration.{key}" for key in (name, *kept)]
                proof.certain(names, partial(lines, name, field, harmonic))
        scale = 1.0 / math.sqrt(imu.params.rate_hz)
        proof.deviations(f"vibration.{wide}", partial(floor, wide, field), scale)
