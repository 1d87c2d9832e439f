"""Recorded flights beside their closed-loop twins: tracking, rotor speeds, spectra of the IMU.

Logs that were flown along the path in the same time are repeats of one another. A figure of the
simulated flights is inside if it lies where one more repeat would lie in 95 of 100 cases, by the
scatter of the logarithms of the figure. A mean of twins scatters less than a flight. Each twin is
therefore judged, too, like the flight it stands for: by the interval of the other flights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.signal import welch
from scipy.stats import t as student

from quadsim.bag import topics
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError
from quadsim.lab.validate.lee import asked_acceleration, thrust_of
from quadsim.lab.validate.recorded import RecordedSignals, turn
from quadsim.lab.validate.twin import STEP_S, PathFlight, Setpoints, fly_twin, path_at
from quadsim.lab.validate.twin_parameters import TwinParams
from quadsim.sim.log import Stamps
from quadsim.vehicle.parameters import RecorderParams, VehicleParams
from quadsim.wire.joint_states import decode_joints

Array = NDArray[np.float64]

#: Bands of the spectra, Hz.
TWIN_BANDS_HZ = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
#: Full scale of a duty in a Crazyflie's log.
FULL_DUTY = 65535.0
#: Slowness of the path that is sought, and the grid of it and of the beginning.
SCALES, SCALE_STEP, STARTS_S = (0.4, 1.5), 0.05, np.arange(-0.5, 2.0, 0.1)
#: Time that is left out at the log's beginning, s.
SETTLED_S = 0.1
#: Fewest repeats whose scatter means something, and the level of the interval.
FEWEST_REPEATS, LEVEL = 3, 0.95


@dataclass(frozen=True)
class TwinFlights:
    """A recorded flight and its twin."""

    name: str
    setpoints: Setpoints
    recorded: PathFlight
    simulated: PathFlight


@dataclass(frozen=True)
class _Log:
    """Signals at the times of the rotor speeds, from the first one on."""

    time_s: Array
    p_W: Array
    v_W: Array
    q_WB: Array
    w_B: Array
    f_B: Array
    speed: Array
    duty: Array
    voltage_V: Array


def _signals(bag: Bag, namespace: str) -> _Log:
    signals = RecordedSignals(bag, namespace, RecorderParams())
    log = signals.log
    full = topics.topic(namespace, "motor_pwm")
    sent = [message.payload for message in bag.messages([full])]
    track = log.estimates.get("filtered")
    if not sent or track is None or log.imu is None:
        raise InputError(
            f"{bag.path}: a closed loop asks for motor_pwm, odometry/filtered and imu/data_raw"
        )
    time_s = signals.seconds(log.motor_stamps_ns)

    def at(stamp_ns: Stamps, values: Array) -> Array:
        known_s = signals.seconds(stamp_ns)
        return np.stack([np.interp(time_s, known_s, column) for column in values.T], axis=1)

    sent_ns, values, _ = decode_joints(sent)
    duty = at(sent_ns, values) / FULL_DUTY
    stamp_ns, imu = track.stamp_ns, log.imu
    return _Log(
        time_s, at(stamp_ns, track.p_W), at(stamp_ns, track.v_W), at(stamp_ns, track.q_WB),
        at(imu.stamp_ns, imu.w_S), at(imu.stamp_ns, imu.f_S), log.motor_speed_radps, duty,
        signals.voltage(time_s),
    )  # fmt: skip


def find_setpoints(log: _Log, twin: TwinParams) -> Setpoints:
    """When the path began, how slowly it was flown and where: by position, then by the commands."""
    pieces = np.array(twin.path)
    thin = slice(None, None, 10)

    def apart(scale: float, start_s: float) -> Array:
        left = log.p_W[thin] - path_at(pieces, log.time_s[thin] - start_s, scale)[:, 0]
        return np.asarray(left - left.mean(axis=0))

    scales = np.arange(*SCALES, SCALE_STEP).tolist()
    tried = [(scale, start) for scale in scales for start in STARTS_S.tolist()]
    begin = min(tried, key=lambda each: float((apart(*each) ** 2).sum()))
    near = least_squares(lambda x: apart(*x).ravel(), begin, diff_step=1e-4).x
    offset = (log.p_W - path_at(pieces, log.time_s - near[1], near[0])[:, 0]).mean(axis=0)
    settled = log.time_s > SETTLED_S
    up_W = turn(log.q_WB).as_matrix()[:, :, 2]
    asked_mps2 = thrust_of(log.duty, twin.controller).sum(axis=1) / twin.controller.mass_kg

    def commanded(x: Array) -> Array:
        """What the recorded thrust differs from that of the setpoints."""
        asked = path_at(pieces, log.time_s - x[1], x[0])
        asked[:, 0] += [offset[0], offset[1], x[2]]
        force = asked_acceleration(asked, log.p_W, log.v_W, twin.controller)
        return np.asarray((asked_mps2 - (force * up_W).sum(axis=1))[settled])

    found = least_squares(commanded, [*near, offset[2]], diff_step=1e-4, x_scale=[0.1, 0.1, 1.0])
    scale, start_s, height_m = found.x.tolist()
    return Setpoints(
        scale, start_s, np.array([offset[0], offset[1], height_m]),
        scale * float(pieces[:, 0].sum()), log.time_s, log.voltage_V,
    )  # fmt: skip


def twin_flights(
    bag: Bag, namespace: str, vehicle: VehicleParams, twin: TwinParams, seed: int
) -> TwinFlights:
    """Read a flight, find its setpoints and fly them.

    Raises:
        InputError: the log does not hold what is needed.
    """
    log = _signals(bag, namespace)
    setpoints = find_setpoints(log, twin)
    time_s = np.arange(0.0, setpoints.duration_s, STEP_S) + setpoints.start_s
    time_s = time_s[time_s < log.time_s[-1]]
    asked = path_at(np.array(twin.path), time_s - setpoints.start_s, setpoints.scale)[:, 0]
    parts = (log.p_W, log.w_B, log.f_B, log.speed)
    p_W, w_B, f_B, speed = (_sampled(time_s, log.time_s, part) for part in parts)
    recorded = PathFlight(p_W, asked + setpoints.offset_W_m, w_B, f_B, speed)
    simulated = fly_twin(vehicle, twin, setpoints, np.random.default_rng(seed))
    return TwinFlights(str(bag.path), setpoints, recorded, simulated)


def _sampled(at_s: Array, known_s: Array, values: Array) -> Array:
    """Values at the samples nearest to some times, and between samples where some are missing.

    Interpolation takes off what is near half of the rate, where the rotors' lines fold to.
    """
    after = np.clip(np.searchsorted(known_s, at_s), 1, len(known_s) - 1)
    nearest = after - (known_s[after] - at_s > at_s - known_s[after - 1])
    found = np.stack([np.interp(at_s, known_s, column) for column in values.T], axis=1)
    near = np.abs(known_s[nearest] - at_s) < STEP_S
    found[near] = values[nearest[near]]
    return found


def flown_figures(flown: PathFlight) -> dict[str, float]:
    """Tracking error, rotor speeds, and strength of IMU and rotor speeds by bands."""
    error = flown.p_W - flown.asked_W
    error[:, :2] -= error[:, :2].mean(axis=0)
    found = {
        "tracking error, m": _rms(error),
        "rotor speed, mean, rad/s": float(flown.speed.mean()),
        "rotor speed, spread, rad/s": _rms(flown.speed - flown.speed.mean(axis=0)) / 2.0,
    }
    signals = {
        "gyroscope, rad/s": flown.w_B,
        "accelerometer, m/s^2": flown.f_B,
        "rotor speeds, rad/s": flown.speed,
    }
    for name, values in signals.items():
        at_hz, density = welch(values, 1.0 / STEP_S, nperseg=1000, axis=0, detrend="linear")
        for low, high in pairwise(TWIN_BANDS_HZ):
            inside = (at_hz >= low) & (at_hz < high)
            size = float(np.sqrt(density[inside].sum() * at_hz[1]))
            found[f"{name}, {low:g} to {high:g} Hz"] = size
    return found


def _rms(vectors: Array) -> float:
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))


def _interval(repeats: Array) -> tuple[float, float]:
    """Where one more repeat of a positive figure lies at LEVEL."""
    logs, count = np.log(np.maximum(repeats, 1e-12)), len(repeats)
    half = student.ppf(0.5 + 0.5 * LEVEL, count - 1) * logs.std(ddof=1) * np.sqrt(1.0 + 1.0 / count)
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


def closed_loop_report(flights: Sequence[TwinFlights]) -> list[dict[str, Any]]:
    """A row for each slowness of the path: every figure of recorded flights and of their twins."""
    groups: dict[float, list[TwinFlights]] = {}
    for each in flights:
        groups.setdefault(round(each.setpoints.scale / SCALE_STEP) * SCALE_STEP, []).append(each)
    return [_group(scale, members) for scale, members in sorted(groups.items(), reverse=True)]


def _group(scale: float, members: Sequence[TwinFlights]) -> dict[str, Any]:
    flown = [flown_figures(each.recorded) for each in members]
    simulated = [flown_figures(each.simulated) for each in members]
    rows: list[dict[str, Any]] = []
    inside: list[NDArray[np.bool_]] = []
    for name in flown[0]:
        real, made = (np.array([each[name] for each in side]) for side in (flown, simulated))
        row: dict[str, Any] = {
            "figure": name,
            "flown": float(real.mean()),
            "lowest": float(real.min()),
            "highest": float(real.max()),
            "simulated": float(made.mean()),
        }
        if len(members) >= FEWEST_REPEATS:
            low, high = _interval(real)
            ends = np.array([_interval(np.delete(real, k)) for k in range(len(real))]).T
            in_place = (made >= ends[0]) & (made <= ends[1])
            inside.append(in_place)
            row |= {
                "low": low,
                "high": high,
                "inside": bool(low <= made.mean() <= high),
                "simulated_inside": float(in_place.mean()),
                "flown_inside": float(((real >= ends[0]) & (real <= ends[1])).mean()),
            }
        rows.append(row)
    return {
        "scale": round(scale, 2),
        "logs": [each.name for each in members],
        "figures": rows,
        "inside": _mean(rows, "inside"),
        "simulated_inside": _mean(rows, "simulated_inside"),
        "flown_inside": _mean(rows, "flown_inside"),
        "twins": np.mean(inside, axis=0).tolist() if inside else [],
    }


def _mean(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    """Over the figures; None where there are too few repeats."""
    return float(np.mean([row[key] for row in rows])) if key in rows[0] else None
