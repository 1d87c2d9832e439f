"""Experiments for what hears echoes: range finder and lidar, over flat ground."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.lab.sensor_check.bench import Truth, alone, at_rest
from quadsim.lab.sensor_check.figures import (
    Figure,
    Said,
    count_step,
    trials_for_share,
    trials_for_squares,
)
from quadsim.lab.sensor_check.proof import Proof, timing

#: Readings; a lidar's are float32.
Array = NDArray[np.floating[Any]]

LIMITS = ("range_min_m", "range_max_m")


class Listener(Protocol):
    """A device of one ray that looks straight down, as the experiments want it."""

    def alone(self, *names: str, **others: Any) -> Any:
        """Parameters with only some of its errors."""
        ...

    def readings(self, params: Any, name: str, count: int, truth: Truth) -> Array:
        """(count,) readings after one switch-on."""
        ...

    def starts(self, params: Any, name: str, count: int, truth: Truth) -> Array:
        """(count,) readings, each after a switch-on of its own."""
        ...


def above(height_m: float, tilt_deg: float = 0.0, towards_deg: float = 0.0) -> Truth:
    """At rest over the ground, tilted about a level axis.

    Args:
        height_m: over the ground.
        tilt_deg: of the vehicle.
        towards_deg: azimuth of the axis.
    """
    axis = np.array([math.cos(math.radians(towards_deg)), math.sin(math.radians(towards_deg)), 0.0])
    x, y, z, w = Rotation.from_rotvec(math.radians(tilt_deg) * axis).as_quat()
    return at_rest((w, x, y, z), p_W=(0.0, 0.0, height_m))


class _RangeFinder:
    """The range finder on its bench."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof

    def alone(self, *names: str, **others: Any) -> Any:
        """Of a single ray, straight down."""
        return alone(self.proof.params, *LIMITS, *names, **others)

    def readings(self, params: Any, name: str, count: int, truth: Truth) -> Array:
        """After one switch-on."""
        return np.asarray(self.proof.bench.run(params, name, count, truth)["range_m"])

    def starts(self, params: Any, name: str, count: int, truth: Truth) -> Array:
        """Each after a switch-on of its own."""
        return np.asarray(self.proof.bench.switch_on(params, name, count, truth)["range_m"][:, 0])


def plan(proof: Proof) -> None:
    """Plan all that can be measured of a range finder."""
    timing(proof)
    listener = _RangeFinder(proof)
    plan_echo(proof, listener)
    _beam(proof)
    _mount(proof)
    _covariance(proof)


def plan_echo(proof: Proof, listener: Listener) -> None:
    """Plan what range finder and lidar have in common."""
    low_m, high_m = (proof.of(name) for name in LIMITS)
    middle = above(0.5 * (low_m + high_m))
    middle_m = float(middle.now["p_W"][0, 2])
    far_m = low_m + 0.8 * (high_m - low_m)

    def white(name: str, truth: Truth, count: int) -> Array:
        return listener.readings(listener.alone(name), name, count, truth)

    def units(name: str, truth: Truth, count: int) -> Array:
        return listener.starts(listener.alone(name), name, count, truth)

    proof.deviation("noise_sigma_m", partial(white, "noise_sigma_m", middle))
    proof.deviation("noise_share", partial(white, "noise_share", above(far_m)), 1.0 / far_m)
    proof.deviation("turn_on_sigma_m", partial(units, "turn_on_sigma_m", middle))
    proof.deviation("scale_sigma", partial(units, "scale_sigma", middle), 1.0 / middle_m)
    _converter(proof, listener)
    _limits(proof, listener)
    _incidence(proof, listener, low_m + 0.1 * (high_m - low_m))


def _converter(proof: Proof, listener: Listener) -> None:
    step = "step_m"

    def counts() -> list[Figure]:
        noisy = listener.alone(step, noise_sigma_m=1.5 * proof.of(step))
        # near, where a reading (of a lidar, float32) has the most digits behind the point
        near = above(proof.of("range_min_m") + 20.0 * proof.of(step))
        readings = listener.readings(noisy, step, 2000, near)
        error = 4.0 * float(np.finfo(readings.dtype).eps)
        return [proof.said(step).exactly(count_step(readings), error * proof.of(step))]

    if proof.is_set(step):
        proof.certain([step], counts)


def turning_point(is_above: Callable[[float], bool], low: float, high: float) -> float:
    """Where a property changes from false to true, to 1e-9 of the interval."""
    for _ in range(31):
        middle = 0.5 * (low + high)
        if is_above(middle):
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


def _limits(proof: Proof, listener: Listener) -> None:
    """Where readings turn from -inf to a number, and from that to +inf."""
    low_m, high_m = (proof.of(name) for name in LIMITS)
    params = listener.alone()

    def reading(height_m: float) -> float:
        return float(listener.readings(params, "limits", 1, above(height_m))[0])

    def least() -> list[Figure]:
        found = turning_point(lambda h: reading(h) > -math.inf, 0.5 * low_m, 1.5 * low_m)
        return [proof.said("range_min_m").exactly(found, 1e-6 * low_m)]

    def most() -> list[Figure]:
        found = turning_point(lambda h: reading(h) == math.inf, 0.5 * high_m, 1.5 * high_m)
        return [proof.said("range_max_m").exactly(found, 1e-6 * high_m)]

    proof.certain(["range_min_m"], least)
    proof.certain(["range_max_m"], most)


def _incidence(proof: Proof, listener: Listener, height_m: float) -> None:
    """The tilt from which on there is no echo, and what is missed before it."""
    largest, missed, grazing = (
        "incidence_max_deg",
        "dropout_probability",
        "grazing_dropout_probability",
    )
    largest_deg = proof.of(largest)

    def angle() -> list[Figure]:
        params = listener.alone(largest, range_max_m=1e3)

        def silent(tilt_deg: float) -> bool:
            return math.isinf(listener.readings(params, largest, 1, above(1.0, tilt_deg))[0])

        found = turning_point(silent, 0.5 * largest_deg, min(1.5 * largest_deg, 89.9))
        return [proof.said(largest).exactly(found, 1e-6 * largest_deg)]

    def at_right_angles(confidence: float) -> list[Figure]:
        count = trials_for_share(proof.of(missed), confidence)
        params = listener.alone(missed)
        lost = int(np.isinf(listener.readings(params, missed, count, above(height_m))).sum())
        return [proof.said(missed, confidence).share(lost, count)]

    def aslant(confidence: float) -> list[Figure]:
        # nearly all that the largest incidence adds: 0.98 of 1 - cos
        edge = math.cos(math.radians(largest_deg))
        tilt_deg = math.degrees(math.acos(edge + 0.02 * (1.0 - edge)))
        count = trials_for_share(0.98 * proof.of(grazing), confidence)
        params = listener.alone(grazing, largest, range_max_m=1e3)
        lost = np.isinf(listener.readings(params, grazing, count, above(1.0, tilt_deg)))
        return [proof.said(grazing, confidence).share(int(lost.sum()), count, 1.0 / 0.98)]

    if proof.is_set(largest):
        proof.certain([largest], angle)
    if proof.is_set(missed):
        proof.add([missed], 1, at_right_angles)
    if proof.is_set(grazing):
        proof.add([grazing], 1, aslant)


def _beam(proof: Proof) -> None:
    """Width of the cone: tilted beyond it, its lowest edge is nearest."""
    width, rays = "field_of_view_deg", "rays"

    def measure() -> list[Figure]:
        half_deg = 0.5 * proof.of(width)
        tilt_deg = half_deg + 10.0
        params = alone(proof.params, width, rays, range_max_m=1e3)
        nearest = min(
            float(proof.bench.run(params, width, 1, above(1.0, tilt_deg, turn))["range_m"][0])
            for turn in np.arange(0.0, 360.0, 0.5).tolist()
        )
        found = 2.0 * (tilt_deg - math.degrees(math.acos(1.0 / nearest)))
        # the ray at the edge is within a quarter of a degree of the plane of the tilt
        return [proof.said(width).exactly(found, 1e-3 * proof.of(width))]

    if proof.of(rays) > 1:
        proof.certain([width, rays], measure)


def _mount(proof: Proof) -> None:
    """Where it sits: its height below the vehicle's centre, and aside, tilted by 45 degrees."""
    place = "position_B_m"

    def measure() -> list[Figure]:
        params = alone(proof.params, place, range_max_m=1e3)

        def reading(tilt_deg: float, towards_deg: float) -> float:
            truth = above(10.0, tilt_deg, towards_deg)
            return float(proof.bench.run(params, place, 1, truth)["range_m"][0])

        down = reading(0.0, 0.0) - 10.0
        # a tilt by 45 degrees about x lifts y: range = (10 + (y + z) / sqrt(2)) sqrt(2)
        root = math.sqrt(2.0)
        y = reading(45.0, 0.0) - 10.0 * root - down
        x = -(reading(45.0, 90.0) - 10.0 * root - down)
        found = (x, y, down)
        return [proof.said(place, axis=i).exactly(found[i], 1e-9) for i in range(3)]

    if proof.is_set(place):
        proof.certain([place], measure)


def _covariance(proof: Proof) -> None:
    """What messages say against what is wrong, one reading of each of many switch-ons."""
    low_m, high_m = (proof.of(name) for name in LIMITS)
    distance_m = 0.5 * (low_m + high_m)
    names = ("noise_sigma_m", "noise_share", "turn_on_sigma_m", "scale_sigma", "step_m")
    params = alone(proof.params, *LIMITS, *names)

    def measure(confidence: float) -> list[Figure]:
        count = trials_for_squares(confidence)
        # heights over a count: a device that rounds coarsely reads one of them too high or low
        heights_m = distance_m + params.step_m * np.linspace(-0.5, 0.5, count, endpoint=False)
        truths = [above(float(height_m)) for height_m in heights_m]
        samples = proof.bench.switch_on(params, "covariance", count, truths)[:, 0]
        squares = (samples["range_m"] - heights_m) ** 2 / samples["variance_m2"]
        return [Said("error² over stated variance", "1", 1.0, confidence).mean(squares)]

    if any(getattr(params, name) > 0.0 for name in names):
        proof.add(["covariance"], 1, measure)
