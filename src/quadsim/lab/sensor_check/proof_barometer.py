"""Experiments for a barometer: every figure of its file, one at a time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.lab.sensor_check.bench import Truth, alone, at_rest
from quadsim.lab.sensor_check.figures import Figure, Said, count_step, trials_for_squares
from quadsim.lab.sensor_check.proof import Proof, timing, warmth
from quadsim.world.air.atmosphere import density_at

Array = NDArray[np.float64]

#: Air speed that the bench shows.
AIR_MPS = 12.0


def plan(proof: Proof) -> None:
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
