"""Flights prescribed in closed form, and the messages of their sensors, by numpy and scipy alone.

Nothing here comes from the vehicle, the sensors or the filter's mechanisation. IMU samples are
averages over their interval, all noise is white and of the variance that the messages state, so a
filter's errors squared over its covariance are chi-square distributed.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation

from quadsim.base.records import ODOMETRY
from quadsim.estimation import EstimatorParams
from quadsim.estimation.eskf import layout
from quadsim.estimation.eskf.driver import run_events
from quadsim.estimation.eskf.input_validation import accept
from quadsim.estimation.eskf.layout import N
from quadsim.estimation.eskf.measurement_buffer import IMU, new_timeline
from quadsim.estimation.eskf.outputs import line_odometry, pose_covariance, twist_covariance
from quadsim.estimation.eskf.parameters import MountingParams
from quadsim.world.air.atmosphere import pressure_at

Array = NDArray[np.float64]
GRAVITY_W = np.array([0.0, 0.0, -9.80665])
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
START_NS = 10_000_000_000


@dataclass(frozen=True)
class Motion:
    """Where ``base_link`` is and how it is turned, in closed form: sines about a mean."""

    heading_rad: float = 0.8
    yaw_rad: float = 0.5
    pitch_rad: float = 0.25
    roll_rad: float = 0.3
    roll_mean_rad: float = 0.0
    reach_m: tuple[float, float, float] = (4.0, 3.0, 1.5)
    velocity_mps: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def attitude(self, t: Array) -> Rotation:
        """R_WB."""
        yaw = self.heading_rad + self.yaw_rad * np.sin(0.4 * t)
        pitch = self.pitch_rad * np.sin(0.9 * t + 0.3)
        roll = self.roll_mean_rad + self.roll_rad * np.sin(1.1 * t)
        return Rotation.from_euler("ZYX", np.column_stack([yaw, pitch, roll]))

    def position(self, t: Array) -> Array:
        """p_W of base_link, (n, 3) m."""
        x, y, z = self.reach_m
        sines = [x * np.sin(0.5 * t), y * np.cos(0.7 * t), 5.0 + z * np.sin(0.6 * t)]
        return np.column_stack(sines) + np.outer(t, self.velocity_mps)


@dataclass(frozen=True)
class Turn:
    """A steady, coordinated turn to the left: the specific force is along the vehicle's z axis.

    An accelerometer cannot tell it from level flight.
    """

    heading_rad: float = 0.0
    bank_rad: float = math.radians(30.0)
    speed_mps: float = 6.0

    @property
    def rate_radps(self) -> float:
        """Of the heading: tan(bank) g / v."""
        return -float(GRAVITY_W[2]) * math.tan(self.bank_rad) / self.speed_mps

    def attitude(self, t: Array) -> Rotation:
        """R_WB."""
        yaw = self.heading_rad + self.rate_radps * t
        return Rotation.from_euler(
            "ZYX", np.column_stack([yaw, 0.0 * yaw, 0.0 * yaw - self.bank_rad])
        )

    def position(self, t: Array) -> Array:
        """p_W of base_link, (n, 3) m."""
        yaw = self.heading_rad + self.rate_radps * t
        radius_m = self.speed_mps / self.rate_radps
        return np.column_stack([radius_m * np.sin(yaw), -radius_m * np.cos(yaw), 5.0 + 0.0 * yaw])


#: Weights of central differences over seven points: errors of the sixth order.
FIRST = np.array([-1.0, 9.0, -45.0, 0.0, 45.0, -9.0, 1.0]) / 60.0
SECOND = np.array([2.0, -27.0, 270.0, -490.0, 270.0, -27.0, 2.0]) / 180.0
STEP_S = 0.01


@dataclass(frozen=True)
class Flight:
    """Truth at the IMU's stamps, the first one at t = 0, and its noise-free samples between."""

    dt: float
    t: Array
    f_S: Array  # (n - 1, 3), means over the interval that ends at t[k + 1]
    w_S: Array
    R_WB: Rotation
    R_WS: Rotation
    p_W: Array  # of base_link
    v_W: Array
    w_B: Array  # (n - 1, 3), means
    p_imu_W: Array
    v_imu_W: Array
    p_antenna_W: Array
    v_antenna_W: Array
    range_m: Array  # down to z = 0
    cosine: Array  # of the tilt


def rotation_of(mount: MountingParams) -> Rotation:
    """R_BS."""
    roll, pitch, yaw = mount.imu_roll_pitch_yaw_deg
    return Rotation.from_euler("ZYX", [yaw, pitch, roll], degrees=True)


def flight(
    duration_s: float,
    dt: float = 0.01,
    mount: MountingParams | None = None,
    motion: Motion | Turn | None = None,
) -> Flight:
    """Truth and noise-free samples of a motion."""
    mount, motion = mount or MountingParams(), motion or Motion()
    t = np.arange(round(duration_s / dt) + 1) * dt
    R_BS = rotation_of(mount)

    def place(at: Array, r_B: Any) -> Array:
        p_W = motion.position(at)
        return p_W + motion.attitude(at).apply(r_B) if np.any(r_B) else p_W

    def slope(at: Array, r_B: Any, weights: Array, order: int) -> Array:
        shifts = STEP_S * np.arange(-3, 4)
        return sum(w * place(at + s, r_B) for w, s in zip(weights, shifts, strict=True)) / (
            STEP_S**order
        )

    R_WB = motion.attitude(t)
    R_WS = R_WB * R_BS
    w_S = (R_WS[:-1].inv() * R_WS[1:]).as_rotvec() / dt
    nodes, weights = np.polynomial.legendre.leggauss(5)
    f_S = np.zeros((len(t) - 1, 3))
    imu_B = np.array(mount.imu_position_B_m)
    for node, weight in zip(nodes, weights, strict=True):
        at = t[:-1] + 0.5 * dt * (1.0 + node)
        a_W = slope(at, imu_B, SECOND, 2)
        f_S += 0.5 * weight * (motion.attitude(at) * R_BS).inv().apply(a_W - GRAVITY_W)
    foot_W = place(t, mount.rangefinder_position_B_m)
    antenna_B = np.array(mount.antenna_position_B_m)
    return Flight(
        dt=dt,
        t=t,
        f_S=f_S,
        w_S=w_S,
        R_WB=R_WB,
        R_WS=R_WS,
        p_W=motion.position(t),
        v_W=slope(t, np.zeros(3), FIRST, 1),
        w_B=R_BS.apply(w_S),
        p_imu_W=place(t, imu_B),
        v_imu_W=slope(t, imu_B, FIRST, 1),
        p_antenna_W=place(t, antenna_B),
        v_antenna_W=slope(t, antenna_B, FIRST, 1),
        range_m=foot_W[:, 2] / R_WB.as_matrix()[:, 2, 2],
        cosine=R_WB.as_matrix()[:, 2, 2],
    )


@dataclass(frozen=True)
class Sensors:
    """Deviations of the sensors' white noise, and how many IMU samples lie between two of each.

    ``claims`` scales the deviations that the messages state, for filters told too little.
    """

    accel_mps2: tuple[float, float, float] = (0.1, 0.15, 0.2)
    gyro_radps: tuple[float, float, float] = (0.01, 0.02, 0.015)
    fix_m: tuple[float, float, float] = (0.5, 0.7, 1.5)
    speed_mps: tuple[float, float, float] = (0.1, 0.15, 0.2)
    field_T: float = 0.05 * 2.15e-5
    pressure_pa: float = 6.0
    range_m: float = 0.05
    origin_height_m: float = 500.0  # of the pressure
    every: dict[str, int] = field(
        default_factory=lambda: {
            "gnss_position": 20, "gnss_velocity": 20, "magnetic_field": 5, "pressure": 10,
            "range": 10,
        }
    )  # fmt: skip
    claims: dict[str, float] = field(default_factory=dict)
    silence: bool = False  # no noise and no biases; the messages state the same variances
    silent: dict[str, tuple[float, float]] = field(default_factory=dict)  # from, to; s


@dataclass(frozen=True)
class Errors:
    """What one seed leaves at each epoch, truth less estimate, with the covariance stated."""

    t_s: Array
    state: Array  # (epochs, n), those that the filter carries
    covariance: Array
    pose: Array  # (epochs, 6), of base_link in map: position, rotation about fixed axes
    pose_covariance: Array
    twist: Array  # (epochs, 6), in base_link
    twist_covariance: Array
    record: Any  # the filter at the end


class MatchedRun:
    """One seed of a flight through the filter's border, message by message.

    The true biases are drawn from the deviations of the filter's own start and walk as its
    parameters say.
    """

    def __init__(self, path: Flight, seed: int, params: EstimatorParams, sensors: Sensors) -> None:
        self.path, self.sensors = path, sensors
        self.rng = np.random.default_rng(seed)
        self.lines = new_timeline(params)
        self.record = self.lines["state"]
        self.odometry: NDArray[np.record] = np.zeros(1, ODOMETRY)
        self.k = 0
        self.period_ns = round(path.dt * 1e9)
        n = len(path.f_S)
        start, noise = params.start, params.noise
        first = np.concatenate(
            [
                self.rng.normal(0.0, start.gyro_bias_radps, 3),
                self.rng.normal(0.0, start.accel_bias_mps2, 3),
                [sensors.origin_height_m],
            ]
        )
        if sensors.silence:
            first[:6] = 0.0
        walk = np.array(
            [noise.gyro_bias_walk] * 3 + [noise.accel_bias_walk] * 3 + [noise.pressure_walk]
        )
        self.loud = 0.0 if sensors.silence else 1.0
        # air of another temperature than the standard atmosphere's
        warmth = np.random.default_rng((seed, 1)).standard_normal()
        self.pressure_scale = self.loud * start.pressure_scale * warmth
        field_steps = self.rng.standard_normal((n, 3)) * noise.field_bias_walk * np.sqrt(path.dt)
        if start.field_bias_T == 0.0:
            field_steps[:] = 0.0
        first_T = self.rng.normal(0.0, start.field_bias_T, 3)
        self.field_bias_S_T = first_T + np.vstack([np.zeros(3), np.cumsum(field_steps, axis=0)])
        self.field_W_T = FIELD_W + self.rng.normal(0.0, start.field_T, 3)
        steps = self.loud * self.rng.standard_normal((n, 7)) * walk * np.sqrt(path.dt)
        self.biases = first + np.vstack([np.zeros(7), np.cumsum(steps, axis=0)])
        # of the fixes' error, the part that stays: a Gauss-Markov process
        share = noise.gnss_correlated_share
        stay = math.exp(-path.dt / max(noise.gnss_correlation_s, 1e-3))
        drive = self.rng.standard_normal((n + 1, 3)) * math.sqrt(1.0 - stay**2)
        drive[0] /= math.sqrt(1.0 - stay**2)  # of its own deviation from the beginning
        scale = self.loud * math.sqrt(share) * np.array(sensors.fix_m)
        self.gnss_bias_W = lfilter([1.0], [1.0, -stay], drive, axis=0) * scale
        self.white_share = math.sqrt(1.0 - share)
        # terrain that walks with the distance flown
        speed_mps = np.hypot(path.v_imu_W[:-1, 0], path.v_imu_W[:-1, 1])
        rough = 0.0 if params.flat_ground else noise.terrain_walk
        steps_m = rough * np.sqrt(speed_mps * path.dt) * self.rng.standard_normal(n)
        self.ground_m = self.loud * np.concatenate([[0.0], np.cumsum(steps_m)])
        white = self.loud * self.rng.standard_normal((n, 6))
        self.f_S = path.f_S + self.biases[:-1, 3:6] + white[:, :3] * sensors.accel_mps2
        self.w_S = path.w_S + self.biases[:-1, :3] + white[:, 3:] * sensors.gyro_radps
        self.messages = self.measurements()
        accel = self.stated("accel", np.diag(np.square(sensors.accel_mps2)))
        gyro = self.stated("gyro", np.diag(np.square(sensors.gyro_radps)))
        self.covariance = np.concatenate((accel, gyro))
        # tells the time only
        accept(self.lines, IMU, START_NS, np.zeros(6), self.covariance)

    def stated(self, name: str, covariance: Array) -> Array:
        """Covariance in a message, flat."""
        return np.ravel(self.sensors.claims.get(name, 1.0) ** 2 * covariance)

    def measurements(self) -> dict[str, tuple[int, Array, Array]]:
        """Kind, values (n, width) at each stamp and covariance of each sensor."""
        path, sensors, rng = self.path, self.sensors, self.rng
        n = len(path.t)
        field_S = path.R_WS.inv().apply(self.field_W_T) + self.field_bias_S_T
        up_m = path.p_imu_W[:, 2] - path.p_imu_W[0, 2]
        height_m = path.p_imu_W[:, 2] + self.biases[:, 6] + self.pressure_scale * up_m
        values = {
            "gnss_position": (path.p_antenna_W + self.gnss_bias_W, np.array(sensors.fix_m)),
            "gnss_velocity": (path.v_antenna_W, np.array(sensors.speed_mps)),
            "magnetic_field": (field_S, np.full(3, sensors.field_T)),
            "pressure": (
                np.array([[pressure_at(float(h))] for h in height_m]),
                np.array([sensors.pressure_pa]),
            ),
            "range": (
                (path.range_m - self.ground_m / path.cosine)[:, None],
                np.array([sensors.range_m]),
            ),
        }
        result = {}
        for name, (truth, sigma) in values.items():
            white = self.white_share if name == "gnss_position" else 1.0
            noisy = truth + self.loud * white * rng.standard_normal((n, len(sigma))) * sigma
            if name in sensors.every:
                covariance = self.stated(name, np.diag(sigma**2))
                result[name] = (layout.SENSORS.index(name), noisy, covariance)
        return result

    def heard(self, name: str) -> bool:
        """Whether a sensor speaks at the sample after the k-th."""
        if (self.k + 1) % self.sensors.every[name] != 0:
            return False
        begin, end = self.sensors.silent.get(name, (np.inf, np.inf))
        return not begin < self.path.t[self.k + 1] <= end

    def fly(self, duration_s: float) -> None:
        """Let the filter take the messages of so many seconds."""
        for _ in range(round(duration_s / self.path.dt)):
            stamp_ns = START_NS + (self.k + 1) * self.period_ns
            sample = np.concatenate((self.f_S[self.k], self.w_S[self.k]))
            accept(self.lines, IMU, stamp_ns, sample, self.covariance)
            for name, (kind, values, covariance) in self.messages.items():
                if self.heard(name):
                    accept(self.lines, kind, stamp_ns, values[self.k + 1], covariance)
            self.k += 1
            if self.k % 500 == 0:  # well below what a timeline holds
                run_events(self.lines[0])
        run_events(self.lines[0])

    def put_on_truth(self) -> None:
        """Start the filter where the flight is, without a window."""
        record, k = self.lines[0]["state"], self.k
        x, y, z, w = self.path.R_WS[k].as_quat()
        record["running"] = 1
        record["q_WS"] = w, x, y, z
        record["p_W"], record["v_W"] = self.path.p_imu_W[k], self.path.v_imu_W[k]

    def errors(self, epochs_s: Array) -> Errors:
        """Fly to each epoch in turn, and take the errors there."""
        rows: list[tuple[Array, ...]] = []
        for t_s in epochs_s:
            self.fly(t_s - self.path.t[self.k])
            rows.append(self.now())
        state, covariance, pose, pose_cov, twist, twist_cov = (
            np.array(column) for column in zip(*rows, strict=True)
        )
        return Errors(
            np.asarray(epochs_s), state, covariance, pose, pose_cov, twist, twist_cov,
            self.lines[0]["state"].copy(),
        )  # fmt: skip

    def now(self) -> tuple[Array, ...]:
        """Errors of state, pose and twist with their covariances."""
        path, k, record = self.path, self.k, self.record[0]
        state = self.state_error()
        line_odometry(self.lines, self.odometry)
        odometry = self.odometry[0]
        q, R = odometry["q_WB"], path.R_WB[k]
        R_hat = Rotation.from_quat([q[1], q[2], q[3], q[0]])
        turned = (R * R_hat.inv()).as_rotvec()
        pose = np.concatenate([path.p_W[k] - odometry["p_W"], turned])
        # the rate of the newest sample, which is its mean
        linear = R.inv().apply(path.v_W[k]) - R_hat.inv().apply(odometry["v_W"])
        twist = np.concatenate([linear, path.w_B[k - 1] - odometry["w_B"]])
        n = int(record["n"])  # as many as are carried
        covariance = np.array(record["covariance"][:n, :n])
        return (
            state[:n], covariance, pose, pose_covariance(self.lines),
            twist, twist_covariance(self.lines),
        )  # fmt: skip

    def state_error(self) -> Array:
        """Truth less estimate, as the error state has it."""
        path, k, record = self.path, self.k, self.record[0]
        q = record["q_WS"]
        R_hat = Rotation.from_quat([q[1], q[2], q[3], q[0]])
        error = np.zeros(N)
        ground_m = self.ground_m[k]
        parts = (
            (layout.THETA, (path.R_WS[k] * R_hat.inv()).as_rotvec()),
            (layout.V, path.v_imu_W[k] - record["v_W"]),
            (layout.P, path.p_imu_W[k] - record["p_W"]),
            (layout.BG, self.biases[k, :3] - record["gyro_bias_S"]),
            (layout.BA, self.biases[k, 3:6] - record["accel_bias_S"]),
            (layout.GNSS_BIAS, self.gnss_bias_W[k] - record["gnss_bias_W"]),
            (layout.FIELD_BIAS, self.field_bias_S_T[k] - record["field_bias_S_T"]),
            (layout.FIELD, self.field_W_T - record["field_W_T"]),
        )
        for at, part in parts:
            error[at : at + 3] = part
        error[layout.TERRAIN] = ground_m - record["terrain_height_m"]
        from_m = record["pressure_from_m"] - self.path.p_imu_W[0, 2]
        offset_m = (self.biases[k, 6] + self.pressure_scale * from_m) / (1.0 + self.pressure_scale)
        error[layout.PRESSURE] = offset_m - record["pressure_offset_m"]
        error[layout.PRESSURE_SCALE] = self.pressure_scale - record["pressure_scale"]
        return error


def nees(errors: Array, covariances: Array) -> Array:
    """Normalised errors squared, over the last axes."""
    solved = np.linalg.solve(covariances, errors[..., None])[..., 0]
    return np.asarray(np.sum(errors * solved, axis=-1))


def halved(sensors: Sensors, *names: str) -> Sensors:
    """The same sensors, whose messages state half the deviation of some."""
    return replace(sensors, claims=dict.fromkeys(names, 0.5))
