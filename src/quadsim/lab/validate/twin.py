"""A closed-loop twin: a recorded flight's setpoints flown by the same controller in simulation.

What flew is described by a file of ``config/twins``: the controller with its gains, the motors by
duty and battery voltage, the filters and the noise of the instruments, what shakes the vehicle that
its file does not say, and the path. When the path began, how slowly it was flown and where, the
recorded commands tell: by them the setpoints are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, lfilter, sosfilt
from scipy.spatial.transform import Rotation

from quadsim.lab.validate.lee import GRAVITY_MPS2, LeeController
from quadsim.lab.validate.twin_parameters import (
    EstimateParams,
    InstrumentParams,
    SessionParams,
    SpectrumParams,
    SpreadParams,
    TwinParams,
)
from quadsim.vehicle.fleet import Fleet
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

#: Step of the controller and of the log, s, which the IMU's clock sets: of nominal 2 ms it makes
#: 1/506.4 s in all logs. And hover before the path begins, s.
STEP_S, HOVER_S = 1.0 / 506.4, 3.0
#: Samples of the instruments within a step.
SAMPLES = 2


def path_at(pieces: Array, time_s: Array, scale: float) -> Array:
    """(N, 4, 3) position, velocity, acceleration and jerk of a path; at rest before and behind.

    Args:
        pieces: (K, 25) of :class:`TwinParams`.
        time_s: (N,) since the path began.
        scale: time it took over its own duration.
    """
    ends = np.cumsum(pieces[:, 0])
    inner = np.clip(time_s / scale, 0.0, ends[-1] - 1e-9)
    piece = np.searchsorted(ends, inner, side="right")
    since = inner - (ends - pieces[:, 0])[piece]
    numbers = pieces[piece, 1:].reshape(-1, 3, 8)
    found = np.zeros((len(time_s), 4, 3))
    for order in range(4):
        powers = since[:, None, None] ** np.arange(numbers.shape[2])
        found[:, order] = (numbers * powers).sum(axis=2) / scale**order
        numbers = numbers[:, :, 1:] * np.arange(1, numbers.shape[2])
    moving = (time_s > 0.0) & (time_s < scale * ends[-1])
    found[:, 1:] *= moving[:, None, None]
    return found


@dataclass(frozen=True)
class Setpoints:
    """A flight's setpoints, and the battery under it.

    Attributes:
        scale: time that the path took over its own duration.
        start_s: when it began, since the log's first stamp.
        offset_W_m: (3,) where it began.
        duration_s: of the path as it was flown.
        time_s, voltage_V: (N,) of the battery since the log's first stamp.
    """

    scale: float
    start_s: float
    offset_W_m: Array
    duration_s: float
    time_s: Array
    voltage_V: Array


@dataclass(frozen=True)
class PathFlight:
    """What a log shows of a flight along the path, at N times STEP_S apart.

    Attributes:
        p_W, asked_W: (N, 3) m.
        w_B, f_B: (N, 3) of the IMU, rad/s and m/s^2.
        speed: (N, rotors) rad/s.
    """

    p_W: Array
    asked_W: Array
    w_B: Array
    f_B: Array
    speed: Array


def fly_twin(
    vehicle: VehicleParams, twin: TwinParams, setpoints: Setpoints, rng: np.random.Generator
) -> PathFlight:
    """Fly the setpoints once, from hover on."""
    time_s = np.asarray(np.arange(-HOVER_S, setpoints.duration_s, STEP_S), float)
    asked = path_at(np.array(twin.path), time_s, setpoints.scale)
    asked[:, 0] += setpoints.offset_W_m
    voltage_V = np.interp(time_s + setpoints.start_s, setpoints.time_s, setpoints.voltage_V)
    session = min(twin.sessions, key=lambda each: abs(each.scale - setpoints.scale))
    noise = _drawn(len(asked), session, twin.spread, rng)
    rows = _flight(vehicle, twin, noise, asked, voltage_V)
    return _measured(rows, vehicle, asked, twin.instruments, noise, time_s >= 0.0, rng)


def _drawn(
    count: int, session: SessionParams, spread: SpreadParams, rng: np.random.Generator
) -> dict[str, Array]:
    """Noise of one flight, (count, channels) of each spectrum of a session; trim with torque."""
    wanders = {"force": spread.shake, "torque": spread.shake, "attitude": spread.shake}
    keep = float(np.exp(-STEP_S / spread.wander_s))
    noise = {}
    for name, spectrum in session.spectra.items():
        made = coloured_noise(count, spectrum, rng)
        steps = np.sqrt(1.0 - keep**2) * rng.normal(size=made.shape)
        level = lfilter([1.0], [1.0, -keep], steps, axis=0)
        noise[name] = made * np.exp(wanders.get(name, spread.noise) * level)
    noise["torque"] += session.trim_Nm + rng.normal(size=3) * spread.trim_Nm
    return noise


def coloured_noise(count: int, spectrum: SpectrumParams, rng: np.random.Generator) -> Array:
    """(count, channels) Gaussian noise of a spectrum, STEP_S apart."""
    at_hz = np.maximum(np.fft.rfftfreq(count, STEP_S), spectrum.hz[0])
    logs = [np.interp(np.log(at_hz), np.log(spectrum.hz), np.log(row)) for row in spectrum.density]
    gain = np.exp(np.array(logs).T) * np.sqrt(0.5 / STEP_S)
    white = rng.normal(size=(count, gain.shape[1]))
    return np.asarray(np.fft.irfft(np.fft.rfft(white, axis=0) * gain, count, axis=0))


def _flight(
    vehicle: VehicleParams,
    twin: TwinParams,
    noise: Mapping[str, Array],
    asked: Array,
    voltage_V: Array,
) -> Array:
    """(N, 19) position, rates, specific force, angular acceleration, rotors, rates measured."""
    motors = twin.motors
    fleet = Fleet(vehicle, EnvironmentParams(gravity_mps2=GRAVITY_MPS2))
    hover = np.sqrt(0.25 * vehicle.mass_kg * GRAVITY_MPS2 / vehicle.thrust_coefficient_N_s2)
    fleet.set_motion(0, asked[0, 0], rotor_speeds_radps=np.full(4, hover))
    controller = LeeController(twin.controller, STEP_S)
    mount = Rotation.from_rotvec(vehicle.recorder.mount_rad).as_matrix()
    bias_radps = vehicle.recorder.gyroscope_bias_radps
    low_pass = _LowPass(twin.instruments.gyroscope_hz)
    commands = [np.full(4, hover)] * round(motors.delay_s / STEP_S)
    rows = np.zeros((len(asked), 19))
    for k, (point, volts) in enumerate(zip(asked, voltage_V.tolist(), strict=True)):
        true = fleet.truth(0)
        R_WB = _matrix(true["q_WB"])
        felt_B = (true["a_W"] + [0.0, 0.0, GRAVITY_MPS2]) @ R_WB
        rates = low_pass.next(true["w_B"]) + noise["gyroscope"][k] + bias_radps
        parts = (true["p_W"], rates, true["w_B"], felt_B, true["w_dot_B"])
        rows[k] = np.concatenate([*parts, true["rotor_speed_radps"][:4]])
        v_W, seen_R = _estimated(true, R_WB, twin.estimate, noise["attitude"][k])
        duty = controller.duties(point, true["p_W"], v_W, seen_R @ mount.T, rates)
        c = motors.speed
        speed = c[0] + c[2] * volts + duty * (c[1] + c[3] * volts + c[4] * duty)
        commands.append(speed + motors.apart_radps + noise["motors"][k])
        fleet.set_motor_command(0, commands[k])
        fleet.set_external_wrench(0, R_WB @ noise["force"][k], noise["torque"][k])
        fleet.step_to(round((k + 1) * STEP_S * 1e9))
    return rows


def _estimated(
    true: np.void, R_WB: Array, params: EstimateParams, tilt: Array
) -> tuple[Array, Array]:
    """Velocity and attitude as the on-board filter has them."""
    along = (true["v_W"] @ R_WB)[[1, 0, 2]]
    x, y, z = (along * params.tilt_s_per_m + true["w_B"] * params.tilt_s + tilt).tolist()
    apart = np.array([[1.0, -z, y], [z, 1.0, -x], [-y, x, 1.0]])
    v_W = true["v_W"] * params.velocity
    v_W[2] += params.climb_s_per_m * (v_W[0] ** 2 + v_W[1] ** 2)
    return v_W, R_WB @ apart


def _measured(
    rows: Array,
    vehicle: VehicleParams,
    asked: Array,
    instruments: InstrumentParams,
    noise: Mapping[str, Array],
    kept: NDArray[np.bool_],
    rng: np.random.Generator,
) -> PathFlight:
    """What the log would show of a simulated flight."""
    p_W, seen_B, w_B, f_B, w_dot_B, speed = np.split(rows, [3, 6, 9, 12, 15], axis=1)
    lever = np.array(vehicle.recorder.imu_position_B_m)
    f_B = f_B + np.cross(w_dot_B, lever) + np.cross(w_B, np.cross(w_B, lever))
    f_B = np.repeat(f_B + vehicle.recorder.accelerometer_bias_mps2, SAMPLES, axis=0)
    f_B = sosfilt(_low_passes(instruments.accelerometer_hz), f_B, axis=0)[SAMPLES - 1 :: SAMPLES]
    turned = rng.uniform(0.0, 2.0 * np.pi, 4)
    turned = turned + instruments.line_order * STEP_S * np.cumsum(speed, axis=0)
    quarter = np.array([0.0, 0.5 * np.pi, 0.0])  # an imbalance goes round: y is a quarter behind
    line = np.sin(turned[:, :, None] - quarter).sum(axis=1)
    seen_B = seen_B + line * instruments.gyroscope_line_radps
    f_B = f_B + line * instruments.accelerometer_line_mps2 + noise["accelerometer"]
    # the speed is that of the last turn, about two steps long
    speed = noise["rotors"] + 0.5 * (speed + np.vstack([speed[:1], speed[:-1]]))
    return PathFlight(p_W[kept], asked[kept, 0], seen_B[kept], f_B[kept], speed[kept])


def _low_passes(corners_hz: tuple[float, ...]) -> Array:
    """(filters, 6) Butterworth low-passes of second order at the rate of the samples."""
    each = [butter(2, hz, fs=SAMPLES / STEP_S, output="sos") for hz in corners_hz]
    return np.vstack(each)


class _LowPass:
    """Low-passes in a row, two samples to a value; a sample is one of them late."""

    def __init__(self, corners_hz: tuple[float, ...]) -> None:
        self.sos = _low_passes(corners_hz)
        self.memory = np.zeros((len(self.sos), 2, 3))
        self.last: Array = np.zeros(3)

    def next(self, value: Array) -> Array:
        """The newest value behind the filters."""
        samples = self.last, 0.5 * (self.last + value)
        self.last = value
        for sample in samples:
            out = sample
            for (b0, b1, b2, _, a1, a2), memory in zip(self.sos, self.memory, strict=True):
                came, out = out, b0 * out + memory[0]
                memory[0] = b1 * came - a1 * out + memory[1]
                memory[1] = b2 * came - a2 * out
        return out


def _matrix(q_WB: Array) -> Array:
    w, x, y, z = q_WB.tolist()
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
