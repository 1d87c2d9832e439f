"""Experiments for a magnetometer: every figure of its file, one at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.lab.sensor_check.bench import Truth, alone, at_rest
from quadsim.lab.sensor_check.figures import Figure, Said, count_step, trials_for_squares
from quadsim.lab.sensor_check.proof import Proof, timing, warmth

Array = NDArray[np.float64]

#: Current that the bench shows.
CURRENT_A = 10.0


def plan(proof: Proof) -> None:
    """Plan all that can be measured of a magnetometer."""
    timing(proof)
    _field_noise(proof)
    _field_units(proof)
    _field_constants(proof)
    _field_converter(proof)
    _field_covariance(proof)


def _field(proof: Proof) -> Array:
    return np.array(proof.bench.environment.field_W_T())


def _facing(proof: Proof, direction_B: Any) -> Truth:
    """The vehicle turned so that the field lies along a direction of the body."""
    turn, _ = Rotation.align_vectors([_field(proof)], [direction_B])
    x, y, z, w = turn.as_quat()
    return at_rest((w, x, y, z))


def _read(proof: Proof, name: str, params: Any, count: int = 1, **how: Any) -> Array:
    """(count, 3) readings of the field less the field itself, level and at rest."""
    return np.asarray(proof.bench.run(params, name, count, **how)["m_S"] - _field(proof))


def _field_noise(proof: Proof) -> None:
    params = proof.params
    white, walk, turning = "noise_sigma_T", "bias_walk", "heading_sigma_rad"

    def readings(name: str, count: int) -> Array:
        return _read(proof, name, alone(params, name), count)

    def headings(count: int) -> Array:
        field = readings(turning, count) + _field(proof)
        true = _field(proof)
        turned = np.arctan2(field[:, 1], field[:, 0]) - math.atan2(true[1], true[0])
        return np.asarray((turned + math.pi) % (2.0 * math.pi) - math.pi)

    proof.deviations(white, partial(readings, white))
    proof.deviations(
        walk,
        lambda count: np.diff(readings(walk, count + 1), axis=0),
        math.sqrt(params.rate_hz),
    )
    proof.deviation(turning, headings)


def _field_units(proof: Proof) -> None:
    """What is drawn for each unit, with the field along y."""
    size_T = float(np.linalg.norm(_field(proof)))

    def drawn(name: str, axes: list[int], count: int) -> Array:
        starts = math.ceil(count / len(axes))
        truth = _facing(proof, (0.0, 1.0, 0.0))
        samples = proof.bench.switch_on(alone(proof.params, name), name, starts, truth)
        errors = samples["m_S"][:, 0] - (0.0, size_T, 0.0)
        return np.asarray(errors[:, axes])

    for name, axes, scale in (
        ("turn_on_sigma_T", [0, 1, 2], 1.0),
        ("scale_sigma", [1], 1.0 / size_T),
        ("cross_axis_sigma", [0, 2], 1.0 / size_T),
    ):
        proof.deviation(name, partial(drawn, name, axes), scale)


def _field_constants(proof: Proof) -> None:
    """Iron, current, temperature, mount."""
    params = proof.params

    def hard() -> list[Figure]:
        found = _read(proof, "hard", alone(params, "hard_iron_T"))[0]
        return [
            proof.said("hard_iron_T", axis=i).exactly(found[i], 1e-15)
            for i in proof.axes("hard_iron_T")
        ]

    def soft() -> list[Figure]:
        size_T = float(np.linalg.norm(_field(proof)))
        columns = []
        for axis in np.eye(3):
            samples = proof.bench.run(alone(params, "soft_iron"), "soft", 1, _facing(proof, axis))
            columns.append(samples["m_S"][0] / size_T)
        found = np.stack(columns, axis=1)
        places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
        words = ("xx", "yy", "zz", "xy", "xz", "yz")
        return [
            replace(proof.said("soft_iron", value=value), name=f"soft_iron {word}").exactly(
                found[place], 1e-9
            )
            for value, place, word in zip(proof.of("soft_iron"), places, words, strict=True)
        ]

    def current() -> list[Figure]:
        name = "motor_current_T_per_A"
        truth = at_rest(motor_current_A=CURRENT_A)
        found = _read(proof, name, alone(params, name), truth=truth)[0] / CURRENT_A
        return [proof.said(name, axis=i).exactly(found[i], 1e-15) for i in proof.axes(name)]

    def temperature() -> list[Figure]:
        name = "temperature_bias"
        found = _read(proof, name, alone(params, name, ambient_offset_K=10.0))[0] / 10.0
        return [proof.said(name, axis=i).exactly(found[i], 1e-15) for i in proof.axes(name)]

    def felt(count: int, dt_s: float) -> Array:
        warm = ("ambient_offset_K", "warm_up_K", "warm_up_s")
        kelvins = alone(params, *warm, temperature_bias=(1.0, 1.0, 1.0))
        return _read(proof, "warmth", kelvins, count, dt_s=dt_s)[:, 0]

    def turned() -> list[Figure]:
        columns = []
        for axis in np.eye(3):
            truth = _facing(proof, axis)
            samples = proof.bench.run(alone(params, "rotation_deg"), "mount", 1, truth)
            columns.append(samples["m_S"][0] / np.linalg.norm(_field(proof)))
        found = Rotation.from_matrix(np.stack(columns, axis=1).T)
        wanted = Rotation.from_euler("xyz", proof.of("rotation_deg"), degrees=True)
        off_deg = math.degrees((wanted.inv() * found).magnitude())
        said = replace(proof.said("rotation_deg", value=0.0), name="rotation_deg: off by")
        return [said.exactly(off_deg, 1e-6)]

    for name, measure in (
        ("hard_iron_T", hard),
        ("soft_iron", soft),
        ("motor_current_T_per_A", current),
        ("temperature_bias", temperature),
        ("rotation_deg", turned),
    ):
        if proof.is_set(name):
            proof.certain([name], measure)
    warmth(proof, felt)


def _field_converter(proof: Proof) -> None:
    step, limit = "step_T", "range_T"

    def counts() -> list[Figure]:
        noise = (1.5 * proof.of(step),) * 3
        params = alone(proof.params, step, noise_sigma_T=noise)
        readings = proof.bench.run(params, step, 2000)["m_S"]
        return [proof.said(step).exactly(count_step(readings), 1e-9 * proof.of(step))]

    def limits() -> list[Figure]:
        ends = []
        for sign in (1.0, -1.0):
            offset = (sign * 3.0 * proof.of(limit),) * 3
            params = alone(proof.params, limit, hard_iron_T=offset)
            ends += [sign * float(value) for value in proof.bench.run(params, limit, 1)["m_S"][0]]
        worst = max(ends, key=lambda end: abs(end - proof.of(limit)))
        return [proof.said(limit).exactly(worst)]

    if proof.is_set(step):
        proof.certain([step], counts)
    if proof.is_set(limit):
        proof.certain([limit], limits)


def _field_covariance(proof: Proof) -> None:
    """What messages say against the whole error of many units, each at an attitude of its own."""
    params = alone(
        proof.params, "noise_sigma_T", "turn_on_sigma_T", "scale_sigma", "cross_axis_sigma",
        "step_T", "range_T",
    )  # fmt: skip
    stated = params.variance(proof.bench.environment.field_W_T())

    def measure(confidence: float) -> list[Figure]:
        count = trials_for_squares(confidence)
        attitudes = Rotation.random(count, random_state=1)
        truths = [at_rest((w, x, y, z)) for x, y, z, w in attitudes.as_quat()]
        samples = proof.bench.switch_on(params, "covariance", count, truths)
        errors = samples["m_S"][:, 0] - attitudes.inv().apply(_field(proof))
        squares = np.mean(errors**2 / stated, axis=1)
        return [Said("error² over stated variance", "1", 1.0, confidence).mean(squares)]

    if (stated > 0.0).all():
        proof.add(["covariance"], 1, measure)
