"""Devices in flight: what the closed loop got of them, against what their files say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quadsim.analysis.metrics import at_stamps
from quadsim.lab.sensor_check.figures import (
    MeasuredFigure,
    Specified,
    consistency_figure,
    independent,
)
from quadsim.sensors import SENSORS
from quadsim.sensors.error_terms import set_mount
from quadsim.sim.closed_loop import ClosedLoop
from quadsim.sim.installation import as_installed
from quadsim.sim.log import Array, FlightLog, Stamps, Track
from quadsim.sim.scenario import Scenario, load_scenario
from quadsim.wire.axes import rotation_matrices
from quadsim.world.environment import EnvironmentParams

SCENARIO = "square"

#: A reading off the ground is judged while the vehicle is as level as this: cosine of the tilt.
LEVEL = math.cos(math.radians(10.0))

#: From here on an error counts; before it the vehicle stands and its sensors begin.
SETTLE_NS = 2_000_000_000


@dataclass(frozen=True)
class DeviceFlight:
    """What one device did in a flight.

    Attributes:
        stamps_ns: (N,) of what it published.
        late_ns: (K,) from stamp to publication, of samples seen on their way.
        errors: (N, M) of the readings, NaN where none; None where the truth is not known.
        sigma: (N, M) what messages say of them.
    """

    figures: list[MeasuredFigure]
    stamps_ns: Stamps
    late_ns: Stamps
    errors: Array | None = None
    sigma: Array | None = None
    unit: str = ""


def scenario_with(sensors: Mapping[str, Any], seed: int) -> Scenario:
    """The scenario that shows the devices; what is missing is the default suite's."""
    scenario = load_scenario(SCENARIO, seed=seed)
    carried = {
        kind: sensors.get(kind, scenario.sensors.get(kind))
        for kind in SENSORS
        if kind in sensors or kind in scenario.sensors
    }
    flat = scenario.scene.is_flat
    estimator = as_installed(scenario.estimator, carried, scenario.environment, flat)
    return replace(scenario, sensors=carried, estimator=estimator)


def fly_devices(
    sensors: Mapping[str, Any], seed: int, confidence: float
) -> dict[str, DeviceFlight]:
    """Fly with devices on the truth, so that each flight is the same, and judge them."""
    loop = ClosedLoop(scenario_with(sensors, seed), use_truth=True, keep_samples=True)
    period_ns = int(loop.setup.imu_period_ns)
    kinds = [kind for kind in sensors if kind in SENSORS]
    late_ns: dict[str, list[int]] = {kind: [] for kind in kinds}

    def note_delays(loop: ClosedLoop) -> bool:
        """Look at the samples on their way."""
        for kind in kinds:
            box = loop.devices[kind]["outbox"][0]
            rows = (int(box.first) + np.arange(int(box.count))) % len(box.arrival_ns)
            # it is published with the first IMU stamp at which it has arrived
            published_ns = -(-box.arrival_ns[rows] // period_ns) * period_ns
            late_ns[kind] += (published_ns - box.samples["stamp_ns"][rows]).tolist()
        return False

    log = loop.fly(ends=note_delays)
    return {
        kind: _judge(kind, sensors[kind], loop, log, np.array(late_ns[kind], np.int64), confidence)
        for kind in kinds
    }


def flight_intervals(kind: str) -> int:
    """How many intervals a flight compares, at most."""
    return {"gnss": 3, "imu": 1}.get(kind, 2)


def _judge(
    kind: str, params: Any, loop: ClosedLoop, log: FlightLog, late_ns: Stamps, confidence: float
) -> DeviceFlight:
    samples = loop.samples(kind)
    stamps_ns = samples["stamp_ns"]
    figures = _timing(params, int(loop.setup.imu_period_ns), stamps_ns, late_ns, confidence)
    known = at_stamps(log.truth, stamps_ns)[0] & (stamps_ns >= SETTLE_NS)
    truth = at_stamps(log.truth, stamps_ns[known])[1]
    found = _errors(kind, params, loop.scenario.environment, samples[known], truth)
    if found is None:
        return DeviceFlight(figures, stamps_ns, late_ns)
    figures += _covariances(found, confidence)
    errors, sigma = np.full((2, len(samples), found.errors.shape[1]), np.nan)
    errors[known], sigma[known] = found.errors, np.sqrt(found.variance)
    return DeviceFlight(figures, stamps_ns, late_ns, errors, sigma, found.unit)


def _timing(
    params: Any,
    imu_ns: int,
    stamps_ns: Stamps,
    late_ns: Stamps,
    confidence: float,
) -> list[MeasuredFigure]:
    """Rate, samples that are missing, delay."""
    taken = int(np.round(np.diff(stamps_ns) / round(1e9 / params.rate_hz)).sum()) + 1
    missing = taken - len(stamps_ns)
    span_s = 1e-9 * float(stamps_ns[-1] - stamps_ns[0])
    # both ends lie on IMU stamps, and jitter
    slack = (2e-9 * imu_ns + 12.0 * params.stamp_jitter_s) / span_s
    rate = Specified("rate in flight", "Hz", params.rate_hz)
    figures = [rate.exactly((taken - 1) / span_s, slack * params.rate_hz)]
    if params.loss_probability > 0.0:
        words = "share of samples that never came"
        lost = Specified(words, "1", params.loss_probability, confidence)
        figures.append(lost.share(missing, taken))
    else:
        figures.append(Specified("gaps in flight", "1", 0.0).exactly(missing))
    if len(late_ns):
        late = Specified("delay in flight", "s", params.latency_s)
        # up to the next IMU stamp
        allowed_s = 1e-9 * imu_ns + 6.0 * params.stamp_jitter_s
        figures.append(late.exactly(1e-9 * float(np.median(late_ns)), allowed_s))
    return figures


@dataclass(frozen=True)
class _Found:
    """Errors and what messages say of them.

    ``lasting`` is the share of the variance that goes on from one error to the next by ``decay``;
    ``groups`` name columns that are judged together.
    """

    errors: Array
    variance: Array
    unit: str
    groups: dict[str, slice]
    lasting: float
    decay: float


def _covariances(found: _Found, confidence: float) -> list[MeasuredFigure]:
    """Actual errors against what messages say, for each group."""
    figures = []
    for name, columns in found.groups.items():
        errors, variance = found.errors[:, columns], found.variance[:, columns]
        used = np.isfinite(errors).all(axis=1) & (variance > 0.0).all(axis=1)
        if used.sum() < 2:
            continue
        squares = errors[used] ** 2 / variance[used]
        lasting = 0.0 if name == "velocity" else found.lasting
        freedom = squares.shape[1] * independent(int(used.sum()), found.decay, lasting)
        words = f"{name}: error² over stated variance in flight".removeprefix(": ")
        figures.append(consistency_figure(words, float(squares.mean()), freedom, confidence))
    return figures


def _errors(
    kind: str, params: Any, environment: EnvironmentParams, samples: Any, truth: Track
) -> _Found | None:
    """Readings less the truth.

    None where no message states a variance of the whole error (IMU, barometer), where it is that
    of the worst axis (a field that noise turns), or where counts are coarser than the noise: what
    is rounded off then goes with the motion.
    """
    fields = {*(samples.dtype.names or ())}
    if not fields & {"p_W", "m_S", "range_m"}:
        return None
    R_WB = rotation_matrices(truth.q_WB)
    if "p_W" in fields:
        return _gnss_errors(params, R_WB, samples, truth)
    state = np.zeros(1, SENSORS[kind].state)
    set_mount(state.view(np.recarray)[0], params.rotation_deg)
    R_WS = R_WB @ rotation_matrices(state["q_BS"])
    if "m_S" in fields:
        if params.heading_sigma_rad > 0.0:
            return None
        return _field_errors(params, R_WS, np.array(environment.field_W_T()), samples)
    if math.hypot(params.noise_sigma_m, params.noise_share) < 0.5 * params.step_m:
        return None
    eye_W = truth.p_W + R_WB @ np.array(params.position_B_m)
    return _range_errors(params, eye_W[:, 2] - environment.ground_height_m, -R_WS[:, 2, 0], samples)


def _gnss_errors(params: Any, R_WB: Array, samples: Any, truth: Track) -> _Found:
    arm_B = np.array(params.position_B_m)
    antenna_W = truth.p_W + R_WB @ arm_B
    moving_W = truth.v_W + np.einsum("nij,nj->ni", R_WB, np.cross(truth.w_B, arm_B))
    return _Found(
        np.hstack([samples["p_W"] - antenna_W, samples["v_W"] - moving_W]),
        np.hstack([samples["p_variance"], samples["v_variance"]]),
        "m, m/s",
        {"position": slice(0, 3), "velocity": slice(3, 6)},
        params.correlated_share,
        math.exp(-1.0 / (params.rate_hz * params.correlation_time_s)),
    )


def _field_errors(params: Any, R_WS: Array, field_W: Array, samples: Any) -> _Found:
    stated = params.variance(tuple(field_W))
    white = np.square(params.noise_sigma_T) + params.step_T**2 / 12.0
    errors = samples["m_S"] - np.einsum("nji,j->ni", R_WS, field_W)
    lasting = float(np.mean(1.0 - white / np.maximum(stated, 1e-30)))
    variance = np.broadcast_to(stated, errors.shape)
    return _Found(errors, variance, "T", {"": slice(0, 3)}, lasting, 1.0)


def _range_errors(params: Any, height_m: Array, down: Array, samples: Any) -> _Found:
    """Of a range finder that looks down on flat ground; ``down`` is the cosine of its tilt."""
    # the nearest point of a cone's footprint is straight below while the cone holds it
    half = math.radians(0.5 * params.field_of_view_deg) if params.rays > 1 else 0.0
    aside = np.maximum(np.arccos(np.clip(down, -1.0, 1.0)) - half, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(down > LEVEL, samples["range_m"] - height_m / np.cos(aside), np.nan)
    errors[~np.isfinite(samples["range_m"])] = np.nan
    variance = np.maximum(samples["variance_m2"], 0.0)
    lasting2 = params.turn_on_sigma_m**2 + (params.scale_sigma * height_m) ** 2
    share = float(np.mean(np.minimum(lasting2 / np.maximum(variance, 1e-30), 1.0)))
    return _Found(errors[:, None], variance[:, None], "m", {"": slice(0, 1)}, share, 1.0)
