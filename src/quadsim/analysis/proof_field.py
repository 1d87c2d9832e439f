"""Experiments for what measures a field of the world: magnetometer and barometer."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.analysis.bench import Truth, alone, at_rest
from quadsim.analysis.proof import Proof, timing, warmth
from quadsim.analysis.sensor_figures import Figure, Said, count_step, trials_for_squares
from quadsim.world.atmosphere import density_at

Array = NDArray[np.float64]

#: Current and air speed that the bench shows.
CURRENT_A, AIR_MPS = 10.0, 12.0


def plan_magnetometer(proof: Proof) -> None:
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


def plan_barometer(proof: Proof) -> None:
    """Plan all that can be measured of a barometer."""
    timing(proof)
    params = proof.params

    def readings(name: str, count: int) -> Array:
        return np.asarray(proof.bench.run(alone(params, name), name, count)["pressure_pa"])

    def starts(count: int) -> Array:
        samples = proof.bench.switch_on(alone(params, "turn_on_sigma_pa"), "turn_on", count)
        return np.asarray(samples["pressure_pa"][:, 0])

    proof.deviation("noise_sigma_pa", partial(readings, "noise_sigma_pa"))
    proof.deviation(
        "bias_walk",
        lambda count: np.diff(readings("bias_walk", count + 1)),
        math.sqrt(params.rate_hz),
    )
    proof.deviation("turn_on_sigma_pa", starts)
    _pressure_constants(proof)
    _pressure_converter(proof)
    _air_flow(proof)
    _lag(proof)
    _pressure_covariance(proof)


def _pressure(proof: Proof, params: Any, truth: Truth | None = None) -> float:
    return float(proof.bench.run(params, "certain", 1, truth)["pressure_pa"][0])


def _pressure_constants(proof: Proof) -> None:
    params = proof.params
    still_pa = _pressure(proof, alone(params))

    def shift(name: str, size: float, **others: Any) -> list[Figure]:
        found = (_pressure(proof, alone(params, name, **others)) - still_pa) / size
        # a reading of 1e5 Pa has 1.5e-11 Pa of rounding
        return [proof.said(name).exactly(found, 1e-9)]

    def felt(count: int, dt_s: float) -> Array:
        warm = ("ambient_offset_K", "warm_up_K", "warm_up_s")
        kelvins = alone(params, *warm, temperature_bias=1.0)
        return np.asarray(
            proof.bench.run(kelvins, "warmth", count, dt_s=dt_s)["pressure_pa"] - still_pa
        )

    if proof.is_set("bias_pa"):
        proof.certain(["bias_pa"], partial(shift, "bias_pa", 1.0))
    if proof.is_set("temperature_bias"):
        measure = partial(shift, "temperature_bias", 10.0, ambient_offset_K=10.0)
        proof.certain(["temperature_bias"], measure)
    warmth(proof, felt)


def _pressure_converter(proof: Proof) -> None:
    params, step = proof.params, "step_pa"

    def counts() -> list[Figure]:
        noisy = alone(params, step, noise_sigma_pa=1.5 * proof.of(step))
        readings = proof.bench.run(noisy, step, 2000)["pressure_pa"]
        return [proof.said(step).exactly(count_step(readings), 1e-7 * proof.of(step))]

    def limit(name: str, bias_pa: float) -> list[Figure]:
        found = _pressure(proof, alone(params, name, bias_pa=bias_pa))
        return [proof.said(name).exactly(found)]

    if proof.is_set(step):
        proof.certain([step], counts)
    for name, bias_pa in (("range_min_pa", -1e6), ("range_max_pa", 1e6)):
        if proof.is_set(name):
            proof.certain([name], partial(limit, name, bias_pa))


def _air_flow(proof: Proof) -> None:
    """Error over dynamic pressure, flying along each axis and against it."""
    params = proof.params
    still_pa = _pressure(proof, alone(params))
    height_m = proof.bench.environment.datum.height_m + 1.0
    dynamic_pa = 0.5 * density_at(height_m, still_pa) * AIR_MPS**2

    def measure(name: str, sign: float) -> list[Figure]:
        figures = []
        for axis in proof.axes(name):
            truth = at_rest(v_W=sign * AIR_MPS * np.eye(3)[axis])
            found = (_pressure(proof, alone(params, name), truth) - still_pa) / dynamic_pa
            figures.append(proof.said(name, axis=axis).exactly(found, 1e-9))
        return figures

    for name, sign in (("ahead_error", 1.0), ("back_error", -1.0)):
        if proof.is_set(name):
            proof.certain([name], partial(measure, name, sign))


def _lag(proof: Proof) -> None:
    """Time constant of the response: how far behind it is while the vehicle climbs evenly."""
    name = "response_time_s"

    def measure() -> list[Figure]:
        # the same metre up again and again, so that the pressure falls by as much each interval
        time_s = proof.of(name)
        low, high = at_rest(), at_rest()
        high.now["p_W"][0, 2] += 1.0
        slow = alone(proof.params, name)
        dt_s = 1e-3 * time_s
        first = float(
            proof.bench.run(slow, name, 1, Truth(low.previous, high.now), dt_s)["pressure_pa"][0]
        )
        before_pa = _pressure(proof, alone(proof.params), low)
        after_pa = _pressure(proof, alone(proof.params), high)
        # of a ramp over dt a first-order lag follows 1 - (1 - exp(-x)) / x, x = dt / T; half of x
        followed = (first - before_pa) / (after_pa - before_pa)
        found_s = dt_s / (2.0 * followed)
        return [proof.said(name).exactly(found_s, 1e-3 * time_s)]

    if proof.is_set(name):
        proof.certain([name], measure)


def _pressure_covariance(proof: Proof) -> None:
    """What messages say against the scatter: a barometer's lasting error is not in it."""
    params = alone(proof.params, "noise_sigma_pa", "step_pa", "turn_on_sigma_pa")

    def measure(confidence: float) -> list[Figure]:
        count = trials_for_squares(confidence)
        readings = proof.bench.run(params, "covariance", count)["pressure_pa"]
        squares = (readings - readings.mean()) ** 2 / params.variance()
        return [Said("error² over stated variance", "1", 1.0, confidence).mean(squares)]

    if params.noise_sigma_pa > 0.0 and params.noise_sigma_pa >= 0.5 * params.step_pa:
        proof.add(["covariance"], 1, measure)
