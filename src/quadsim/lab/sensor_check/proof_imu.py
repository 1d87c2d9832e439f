"""Experiments for an IMU: every figure of its file, one at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.transform import Rotation

from quadsim.lab.sensor_check.bench import Truth
from quadsim.lab.sensor_check.bench_imu import CHANNELS, PUSH_MPS2, SPIN_RADPS, ImuBench, pushed
from quadsim.lab.sensor_check.figures import (
    WANTED,
    Figure,
    Said,
    count_step,
    trials_for_squares,
)
from quadsim.lab.sensor_check.proof import Proof, timing, warmth
from quadsim.lab.sensor_check.proof_imu_lines import plan_bandwidth, plan_vibration

Array = NDArray[np.float64]

#: Correlation times between two samples where a wandering bias is measured: with 0.8 the time is
#: known best, to 2.49 / sqrt(n).
WANDER_STEP, WANDER_PRECISION = 0.8, 2.49


def plan(proof: Proof) -> None:
    """Plan all that can be measured of an IMU."""
    timing(proof)
    imu = ImuBench(proof)
    for name, field in CHANNELS.items():
        _noise(imu, name, field)
        _spreads(imu, name, field)
        _constants(imu, name)
        _converter(imu, name, field)
        _nonlinearity(imu, name)
        plan_bandwidth(imu, name, field)
        _covariance(imu, name, field)
    _g_sensitivity(imu)
    _temperature(imu)
    plan_vibration(imu)
    _mount(imu)


def _noise(imu: ImuBench, name: str, field: str) -> None:
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


def _spreads(imu: ImuBench, name: str, field: str) -> None:
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


def _constants(imu: ImuBench, name: str) -> None:
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


def _converter(imu: ImuBench, name: str, field: str) -> None:
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


def _nonlinearity(imu: ImuBench, name: str) -> None:
    """Half of the full scale reads a quarter of its error too much."""
    proof, figure, limit = imu.proof, f"{name}_nonlinearity", f"{name}_range"

    def measure() -> list[Figure]:
        half = 0.5 * proof.of(limit)
        along = (half, 0.0, 0.0)
        push, spin = (along, (0.0,) * 3) if name == "accel" else ((0.0,) * 3, along)
        truth = pushed(imu.gravity_mps2, push, spin)
        found = imu.once(imu.alone(figure, limit), truth)[name][0] - half
        return [proof.said(figure).exactly(4.0 * found / proof.of(limit), 1e-12)]

    if proof.is_set(figure):
        proof.certain([figure], measure)


def _covariance(imu: ImuBench, name: str, field: str) -> None:
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


def _g_sensitivity(imu: ImuBench) -> None:
    """What the gyroscope reads of specific force."""
    name = "gyro_g_sensitivity"

    def measure() -> list[Figure]:
        truth = pushed(imu.gravity_mps2, (PUSH_MPS2,) * 3)
        found = imu.once(imu.alone(name), truth)["gyro"] / PUSH_MPS2
        return [imu.proof.said(name, axis=i).exactly(found[i]) for i in imu.proof.axes(name)]

    if imu.proof.is_set(name):
        imu.proof.certain([name], measure)


def _temperature(imu: ImuBench) -> None:
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


def _mount(imu: ImuBench) -> None:
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
