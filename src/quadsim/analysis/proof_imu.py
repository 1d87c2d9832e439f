"""Experiments for an IMU: every figure of its file, one at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, signal, stats
from scipy.spatial.transform import Rotation

from quadsim.analysis.bench import Truth, alone, at_rest
from quadsim.analysis.proof import Proof, timing, warmth
from quadsim.analysis.sensor_figures import (
    WANTED,
    Figure,
    Said,
    count_step,
    trials_for_squares,
)
from quadsim.sensors.imu_channel import is_filtered
from quadsim.sensors.vibration import VibrationParams

Array = NDArray[np.float64]

#: Of the sample: specific force, rate.
CHANNELS = {"accel": "f_S", "gyro": "w_S"}

#: What the bench shows where a motion is wanted: m/s^2 and rad/s.
PUSH_MPS2, SPIN_RADPS = 10.0, 1.0

#: Correlation times between two samples where a wandering bias is measured: with 0.8 the time is
#: known best, to 2.49 / sqrt(n).
WANDER_STEP, WANDER_PRECISION = 0.8, 2.49

#: Rotor speed at which lines are measured: 10 turns a second.
SLOW_ROTOR_RADPS = 20.0 * math.pi

#: Samples in a turn of a rotor.
A_TURN = 24


def pushed(gravity_mps2: float, f: Any = (0.0, 0.0, 0.0), w: Any = (0.0, 0.0, 0.0)) -> Truth:
    """A truth, level, whose specific force is f and whose rate is w, at one instant."""
    return at_rest(a_W=(f[0], f[1], f[2] - gravity_mps2), w_B=w)


class _Imu:
    """What the experiments share."""

    def __init__(self, proof: Proof) -> None:
        self.proof, self.bench, self.params = proof, proof.bench, proof.params
        self.gravity_mps2 = proof.bench.environment.gravity_mps2
        self.calm = pushed(self.gravity_mps2)

    def alone(self, *names: str, **others: Any) -> Any:
        """With some figures; the sample is that of an instant, so that the bench may push."""
        return alone(self.params, *names, **{"sampling": "point", **others})

    def once(self, params: Any, truth: Truth) -> dict[str, Array]:
        """First sample: (3,) by channel."""
        sample = self.bench.run(params, "certain", 1, truth)
        return {name: sample[field][0] for name, field in CHANNELS.items()}

    def response(self, name: str, *figures: str) -> Array:
        """(3, 3) what each axis reads of a unit along each axis of the body."""
        size = PUSH_MPS2 if name == "accel" else SPIN_RADPS
        columns = []
        for axis in range(3):
            along = size * np.eye(3)[axis]
            push, spin = (along, np.zeros(3)) if name == "accel" else (np.zeros(3), along)
            truth = pushed(self.gravity_mps2, push, spin)
            columns.append(self.once(self.alone(*figures), truth)[name] / size)
        return np.stack(columns, axis=1)


def plan(proof: Proof) -> None:
    """Plan all that can be measured of an IMU."""
    timing(proof)
    imu = _Imu(proof)
    for name, field in CHANNELS.items():
        _noise(imu, name, field)
        _spreads(imu, name, field)
        _constants(imu, name)
        _converter(imu, name, field)
        _bandwidth(imu, name, field)
        _covariance(imu, name, field)
    _g_sensitivity(imu)
    _temperature(imu)
    _vibration(imu)
    _mount(imu)


def _noise(imu: _Imu, name: str, field: str) -> None:
    """White noise, walk, and the wandering bias with its time."""
    proof, bench, rate_hz = imu.proof, imu.bench, imu.params.rate_hz
    density, walk = f"{name}_noise_density", f"{name}_bias_walk"
    wander, time = f"{name}_instability", f"{name}_instability_time_s"

    def white(count: int) -> Array:
        return np.asarray(bench.run(imu.alone(density), density, count, imu.calm)[field])

    def steps(count: int) -> Array:
        readings = bench.run(imu.alone(walk), walk, count + 1, imu.calm)[field]
        return np.diff(readings, axis=0)

    def wandering(confidence: float) -> list[Figure]:
        z = float(stats.norm.ppf(0.5 + 0.5 * confidence))
        time_s = proof.of(time)
        dt_s, count = WANDER_STEP * time_s, math.ceil((1.25 * z * WANDER_PRECISION / WANTED) ** 2)
        readings = bench.run(imu.alone(wander, time), wander, count, imu.calm, dt_s)[field]
        axes = proof.axes(wander)
        figures = [
            proof.said(wander, confidence, i).wander(readings[:, i], dt_s, time_s) for i in axes
        ]
        return [*figures, proof.said(time, confidence).persistence(readings[:, axes[0]], dt_s)]

    proof.deviations(density, white, 1.0 / math.sqrt(rate_hz))
    proof.deviations(walk, steps, math.sqrt(rate_hz))
    if proof.axes(wander):
        proof.add([wander, time], len(proof.axes(wander)) + 1, wandering)


def _spreads(imu: _Imu, name: str, field: str) -> None:
    """What is drawn anew for each unit or at each switch-on."""
    proof, bench = imu.proof, imu.bench
    size = PUSH_MPS2 if name == "accel" else SPIN_RADPS
    y = size * np.eye(3)[1]
    aside = pushed(imu.gravity_mps2, *((y, np.zeros(3)) if name == "accel" else (np.zeros(3), y)))

    def drawn(figure: str, truth: Truth, axes: list[int], count: int) -> Array:
        starts = math.ceil(count / len(axes))
        readings = bench.switch_on(imu.alone(figure), figure, starts, truth)[field][:, 0]
        return np.asarray(readings[:, axes])

    for figure, truth, axes, scale in (
        (f"{name}_turn_on_sigma", imu.calm, [0, 1, 2], 1.0),
        (f"{name}_scale_sigma", aside, [1], 1.0 / size),
        (f"{name}_cross_axis_sigma", aside, [0, 2], 1.0 / size),
    ):
        proof.deviation(figure, partial(drawn, figure, truth, axes), scale)


def _constants(imu: _Imu, name: str) -> None:
    """Scale, cross-axis and bias of the file."""
    proof = imu.proof
    scale, cross, bias = f"{name}_scale", f"{name}_cross_axis", f"{name}_bias"
    off_diagonal = ~np.eye(3, dtype=bool)

    def matrix() -> list[Figure]:
        found = imu.response(name, scale, cross)
        figures = [
            proof.said(scale, axis=i).exactly(found[i, i]) for i in range(3) if proof.is_set(scale)
        ]
        terms = (found / np.diag(found)[:, None])[off_diagonal]
        words = ("x of y", "x of z", "y of x", "y of z", "z of x", "z of y")
        for i, value in enumerate(proof.of(cross)):
            if value:
                said = replace(proof.said(cross, value=value), name=f"{cross} {words[i]}")
                figures.append(said.exactly(terms[i], 1e-12))
        return figures

    def constant() -> list[Figure]:
        found = imu.once(imu.alone(bias), imu.calm)[name]
        return [proof.said(bias, axis=i).exactly(found[i], 1e-12) for i in proof.axes(bias)]

    if proof.is_set(scale, cross):
        proof.certain([scale, cross], matrix)
    if proof.is_set(bias):
        proof.certain([bias], constant)


def _converter(imu: _Imu, name: str, field: str) -> None:
    """Counts and limits."""
    proof, bench = imu.proof, imu.bench
    step, limit = f"{name}_step", f"{name}_range"

    def counts() -> list[Figure]:
        # noise of a count and a half falls on all counts about zero
        density = (1.5 * proof.of(step) / math.sqrt(imu.params.rate_hz),) * 3
        noisy = imu.alone(step, **{f"{name}_noise_density": density})
        readings = bench.run(noisy, step, 2000, imu.calm)[field]
        return [proof.said(step).exactly(count_step(readings), 1e-9 * proof.of(step))]

    def limits() -> list[Figure]:
        ends = []
        for sign in (1.0, -1.0):
            driven = imu.alone(limit, **{f"{name}_bias": (sign * 3.0 * proof.of(limit),) * 3})
            ends += [sign * float(value) for value in imu.once(driven, imu.calm)[name]]
        worst = max(ends, key=lambda end: abs(end - proof.of(limit)))
        return [proof.said(limit).exactly(worst)]

    if proof.is_set(step):
        proof.certain([step], counts)
    if proof.is_set(limit):
        proof.certain([limit], limits)


def passed_noise(bandwidth_hz: float, rate_hz: float) -> float:
    """Part of the variance of white noise that a second-order Butterworth filter lets through."""
    b, a = signal.butter(2, bandwidth_hz, fs=rate_hz)

    def power(frequency_hz: float) -> float:
        return float(abs(signal.freqz(b, a, [frequency_hz], fs=rate_hz)[1][0]) ** 2)

    return float(integrate.quad(power, 0.0, 0.5 * rate_hz)[0] / (0.5 * rate_hz))


def _bandwidth(imu: _Imu, name: str, field: str) -> None:
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


def _covariance(imu: _Imu, name: str, field: str) -> None:
    """What messages say against the scatter; a lasting bias is not in it."""
    figures = [f"{name}_{key}" for key in ("noise_density", "bandwidth_hz", "step")]
    params = imu.alone(*figures)
    stated = getattr(params, f"{name}_variance")()
    apart = math.ceil(params.rate_hz / (imu.proof.of(figures[1]) or math.inf))

    def measure(confidence: float) -> list[Figure]:
        count = trials_for_squares(confidence) * max(apart, 1)
        readings = imu.bench.run(params, f"{name} covariance", count, imu.calm)[field]
        squares = np.ravel((readings - readings.mean(axis=0)) ** 2 / stated)[:: max(apart, 1)]
        words = f"{name}: error² over stated variance"
        return [Said(words, "1", 1.0, confidence).mean(squares)]

    # finer than the counts the scatter depends on where between two of them the reading lies
    if (stated > (0.5**2 + 1.0 / 12.0) * imu.proof.of(figures[2]) ** 2).all():
        imu.proof.add([f"{name} covariance"], 1, measure)


def _g_sensitivity(imu: _Imu) -> None:
    """What the gyroscope reads of specific force."""
    name = "gyro_g_sensitivity"

    def measure() -> list[Figure]:
        truth = pushed(imu.gravity_mps2, (PUSH_MPS2,) * 3)
        found = imu.once(imu.alone(name), truth)["gyro"] / PUSH_MPS2
        return [imu.proof.said(name, axis=i).exactly(found[i]) for i in imu.proof.axes(name)]

    if imu.proof.is_set(name):
        imu.proof.certain([name], measure)


def _temperature(imu: _Imu) -> None:
    """Bias and scale by temperature, and how warm it gets."""
    proof = imu.proof

    def bias(name: str, figure: str) -> list[Figure]:
        found = imu.once(imu.alone(figure, ambient_offset_K=10.0), imu.calm)[name] / 10.0
        return [proof.said(figure, axis=i).exactly(found[i], 1e-15) for i in proof.axes(figure)]

    def scale(name: str, figure: str) -> list[Figure]:
        truth = pushed(imu.gravity_mps2, (PUSH_MPS2,) * 3, (SPIN_RADPS,) * 3)
        size = PUSH_MPS2 if name == "accel" else SPIN_RADPS
        found = imu.once(imu.alone(figure, ambient_offset_K=10.0), truth)[name] / size
        return [
            proof.said(figure, axis=i).exactly((found[i] - 1.0) / 10.0, 1e-15)
            for i in proof.axes(figure)
        ]

    def felt(count: int, dt_s: float) -> Array:
        warm = ("ambient_offset_K", "warm_up_K", "warm_up_s")
        params = imu.alone(*warm, accel_temperature_bias=(1.0, 1.0, 1.0))
        return np.asarray(imu.bench.run(params, "warmth", count, imu.calm, dt_s)["f_S"][:, 0])

    for name in CHANNELS:
        for figure, measure in (
            (f"{name}_temperature_bias", bias),
            (f"{name}_temperature_scale", scale),
        ):
            if proof.is_set(figure):
                proof.certain([figure], partial(measure, name, figure))
    warmth(proof, felt)


#: Fields of VibrationParams by channel: line of the rotor, of the blades, floor.
_LINES = {
    "accel": ("accel_rotor_mps2", "accel_blade_mps2", "accel_floor"),
    "gyro": ("gyro_rotor_radps", "gyro_blade_radps", "gyro_floor"),
}


def _amplitude(
    imu: _Imu, params: Any, field: str, speed_radps: float, harmonic: int, axis: int
) -> float:
    """Of the line at a multiple of a rotor's speed, by least squares on a sine and a cosine."""
    count = 50 * A_TURN
    dt_s = 2.0 * math.pi / speed_radps / A_TURN
    truth = _turning(imu, speed_radps)
    readings = imu.bench.run(params, "line", count, truth, dt_s)[field][:, axis]
    phase = 2.0 * math.pi * harmonic * np.arange(count) / A_TURN
    return 2.0 / count * math.hypot(readings @ np.cos(phase), readings @ np.sin(phase))


def _turning(imu: _Imu, speed_radps: float) -> Truth:
    """Without force, one rotor turning."""
    truth = pushed(imu.gravity_mps2)
    for record in (truth.previous, truth.now):
        record["rotor_speed_radps"][0, 0] = speed_radps
    return truth


def _vibration(imu: _Imu) -> None:
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


def _mount(imu: _Imu) -> None:
    """Where it sits, by spinning it, and how it is turned, by pushing it."""
    proof = imu.proof
    place, turn = "position_B_m", "rotation_deg"

    def arm() -> list[Figure]:
        # f = w x (w x r): about z it gives x and y, about x it gives z
        found = np.zeros(3)
        for axis, read in ((2, (0, 1)), (0, (2,))):
            spin = 2.0 * np.eye(3)[axis]
            force = imu.once(imu.alone(place), pushed(imu.gravity_mps2, w=spin))["accel"]
            found[list(read)] = -force[list(read)] / 4.0
        return [proof.said(place, axis=i).exactly(found[i], 1e-12) for i in range(3)]

    def turned() -> list[Figure]:
        found = Rotation.from_matrix(imu.response("accel", turn).T)
        wanted = Rotation.from_euler("xyz", proof.of(turn), degrees=True)
        off_deg = math.degrees((wanted.inv() * found).magnitude())
        said = replace(proof.said(turn, value=0.0), name=f"{turn}: off by")
        return [said.exactly(off_deg, 1e-6)]

    if proof.is_set(place):
        proof.certain([place], arm)
    if proof.is_set(turn):
        proof.certain([turn], turned)
