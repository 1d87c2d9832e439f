"""The FCND project's filter against its equations in plain matrices, and against a flight."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.estimation import EstimatorParams
from quadsim.estimation.eskf.layout import MAGNETIC_FIELD
from quadsim.estimation.eskf.measurement_buffer import new_timeline
from quadsim.estimation.eskf.parameters import MountingParams
from quadsim.estimation.reference_filters.filter import Ekf7
from quadsim.estimation.reference_filters.fusion import correct_motion, fuse_yaw, turn_to
from quadsim.geometry.geodesy import Datum

Array = NDArray[np.float64]
G = 9.80665
FIELD_W = np.array([0.0, 2.15e-5, -4.3e-5])
DATUM = Datum()
PERIOD_NS = 2_000_000
DT = 0.002
START_NS = 5_000_000_000
LEVEL = (1.0, 0.0, 0.0, 0.0)
Message = tuple[str, int, tuple[Any, ...]]


def rotation(q: Any) -> Rotation:
    return Rotation.from_quat([q[1], q[2], q[3], q[0]])


def wrapped(angle: float) -> float:
    return math.remainder(angle, 2.0 * math.pi)


class Path:
    """A flight as a multirotor flies it: its thrust along body z, its nose turning all the time."""

    def __init__(self, duration_s: float, turn_radps: float = 1.0) -> None:
        self.t = np.arange(round(duration_s / DT) + 1) * DT
        t = self.t
        self.p_W = np.column_stack([4 * np.sin(0.5 * t), 3 * np.cos(0.7 * t), 5 + np.sin(0.6 * t)])
        self.v_W = np.column_stack(
            [2 * np.cos(0.5 * t), -2.1 * np.sin(0.7 * t), 0.6 * np.cos(0.6 * t)]
        )
        f_W = np.column_stack(
            [-np.sin(0.5 * t), -1.47 * np.cos(0.7 * t), G - 0.36 * np.sin(0.6 * t)]
        )
        up_W = f_W / np.linalg.norm(f_W, axis=1)[:, None]
        yaw = turn_radps * t
        nose_W = np.column_stack([np.cos(yaw), np.sin(yaw), np.zeros_like(t)])
        left_W = np.cross(up_W, nose_W)
        left_W /= np.linalg.norm(left_W, axis=1)[:, None]
        matrices = np.stack([np.cross(left_W, up_W), left_W, up_W], axis=2)
        self.R = Rotation.from_matrix(matrices)
        self.f_B = self.R.inv().apply(f_W)
        self.w_B = np.zeros_like(self.f_B)
        self.w_B[1:] = (self.R[:-1].inv() * self.R[1:]).as_rotvec() / DT

    def messages(self, seed: int | None = None) -> list[Message]:
        """With the FCND project's noise, or without any."""
        rng, on = np.random.default_rng(seed), float(seed is not None)
        found: list[Message] = []
        for i in range(len(self.t)):
            stamp_ns = START_NS + i * PERIOD_NS
            f_B = self.f_B[i] + on * rng.normal(0.0, [0.5, 0.5, 1.5])
            w_B = self.w_B[i] + on * rng.normal(0.0, 0.5, 3)
            found.append(("imu", stamp_ns, (f_B, w_B)))
            if i % 5 == 0:
                turned = Rotation.from_rotvec([0.0, 0.0, on * rng.normal(0.0, 0.1)])
                m_B = self.R[i].inv().apply(turned.apply(FIELD_W))
                found.append(("magnetic_field", stamp_ns, (m_B,)))
            if i % 50 == 0:
                p_W = self.p_W[i] + on * rng.normal(0.0, [0.7, 0.7, 2.0])
                v_W = self.v_W[i] + on * rng.normal(0.0, [0.1, 0.1, 0.3])
                found.append(("gnss_position", stamp_ns, (DATUM.to_geodetic(p_W),)))
                found.append(("gnss_velocity", stamp_ns, (v_W,)))
        return found


def feed(estimator: Ekf7, messages: list[Message]) -> None:
    for kind, stamp_ns, values in messages:
        assert getattr(estimator, kind)(stamp_ns, *values) == "ok"


class Reference:
    """The same filter in plain matrices: Euler angles, a dense G, H and K as in the lecture."""

    def __init__(self, motion: Any) -> None:
        self.x = np.concatenate([motion.p_W, motion.v_W, motion.angles[2:]])
        self.roll, self.pitch = motion.angles[:2]
        self.P = np.array(motion.covariance)

    def imu(self, f_B: Array, w_B: Array) -> None:
        tau = 100.0
        angles = [self.x[6], self.pitch, self.roll]
        R = Rotation.from_euler("ZYX", angles) * Rotation.from_rotvec(w_B * DT)
        yaw, pitch, roll = R.as_euler("ZYX")
        keep = tau / (tau + DT)
        self.roll = keep * roll + (1 - keep) * math.atan2(f_B[1], f_B[2])
        self.pitch = keep * pitch + (1 - keep) * math.atan2(-f_B[0], G)
        self.x[6] = yaw
        cr, sr, cp, sp = (f(a) for a in (self.roll, self.pitch) for f in (math.cos, math.sin))
        cy, sy = math.cos(yaw), math.sin(yaw)
        R_prime = np.array(  # of R_bg by the yaw, as the lecture writes it
            [
                [-cp * sy, -sr * sp * sy - cr * cy, -cr * sp * sy + sr * cy],
                [cp * cy, sr * sp * cy - cr * sy, cr * sp * cy + sr * sy],
                [0.0, 0.0, 0.0],
            ]
        )
        R_bg = Rotation.from_euler("ZYX", [yaw, self.pitch, self.roll])
        G_prime = np.eye(7)
        G_prime[:3, 3:6] = DT * np.eye(3)
        G_prime[3:6, 6] = R_prime @ f_B * DT
        v_W = self.x[3:6].copy()
        self.x[3:6] += (R_bg.apply(f_B) - [0.0, 0.0, G]) * DT
        self.x[:3] += v_W * DT
        Q = np.diag([0.01, 0.01, 0.05, 0.2, 0.2, 0.5, 0.15]) ** 2 * DT
        self.P = G_prime @ self.P @ G_prime.T + Q

    def update(self, H: Array, innovation: Array, R: Array) -> None:
        K = self.P @ H.T @ np.linalg.inv(H @ self.P @ H.T + R)
        self.x = self.x + K @ innovation
        self.P = (np.eye(7) - K @ H) @ self.P

    def gps(self, p_W: Array, v_W: Array) -> None:
        R = np.diag([1.0, 1.0, 15.0, 0.4, 0.4, 0.3]) ** 2
        self.update(np.eye(6, 7), np.concatenate([p_W, v_W]) - self.x[:6], R)

    def field(self, m_B: Array) -> None:
        level = Rotation.from_euler("ZYX", [0.0, self.pitch, self.roll]).apply(m_B)
        yaw = math.atan2(FIELD_W[1], FIELD_W[0]) - math.atan2(level[1], level[0])
        H = np.eye(7)[6:]
        self.update(H, np.array([wrapped(yaw - self.x[6])]), np.array([[0.01]]))


@pytest.fixture(scope="module")
def path() -> Path:
    return Path(20.0)


def test_the_filter_is_its_equations(path: Path) -> None:
    """20 s with noise, from the filter's own start on: state and covariance as in plain matrices.

    The reference fuses a fix and its velocity together, the filter one after the other, which is
    the same for uncorrelated noise; what is left is rounding.
    """
    estimator = Ekf7(EstimatorParams(), DATUM)
    messages = path.messages(seed=4)
    begin = next(k for k in range(len(messages)) if started(estimator, messages[k]))
    reference, fix = Reference(estimator.state), np.zeros(3)
    for kind, stamp_ns, values in messages[begin + 1 :]:
        assert getattr(estimator, kind)(stamp_ns, *values) == "ok"
        if kind == "imu":
            reference.imu(*values)
        elif kind == "magnetic_field":
            reference.field(*values)
        elif kind == "gnss_position":
            fix = DATUM.to_enu(*values[0])
        else:
            reference.gps(fix, *values)
    state = estimator.state
    # 1e-9: the datum's own rounding to geodetic degrees and back is 1e-9 m
    np.testing.assert_allclose(state.p_W, reference.x[:3], rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(state.v_W, reference.x[3:6], rtol=0.0, atol=1e-8)
    angles = [reference.roll, reference.pitch, wrapped(reference.x[6])]
    np.testing.assert_allclose(state.angles, angles, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(state.covariance, reference.P, rtol=1e-8, atol=1e-12)


def started(estimator: Ekf7, message: Message) -> bool:
    kind, stamp_ns, values = message
    getattr(estimator, kind)(stamp_ns, *values)
    return estimator.running


def test_a_noise_free_flight_is_followed_through_every_yaw(path: Path) -> None:
    """The nose turns three times round, so the yaw wraps; never is the long way taken.

    What is left: an accelerometer that always says level, 0.15 rad over half a period of 4 s within
    100 s, pulls the tilt by some mrad; the field's levelling doubles that in the yaw (tan of its
    dip is 2); and an Euler step lags by half of it, v dt / 2 = 2 mm, besides what the tilt does.
    """
    estimator = Ekf7(EstimatorParams(), DATUM)
    yaw_error, tilt_error, p_error = [], [], []
    for kind, stamp_ns, values in path.messages():
        assert getattr(estimator, kind)(stamp_ns, *values) == "ok"
        if kind == "imu" and estimator.running:
            i = (stamp_ns - START_NS) // PERIOD_NS
            R = rotation(estimator.state.q_WB)
            yaw, truth = R.as_euler("ZYX")[0], path.R[i].as_euler("ZYX")[0]
            yaw_error.append(abs(wrapped(yaw - truth)))
            up = R.as_matrix()[:, 2] @ path.R[i].as_matrix()[:, 2]
            tilt_error.append(math.acos(min(up, 1.0)))
            p_error.append(float(np.linalg.norm(estimator.state.p_W - path.p_W[i])))
    assert len(yaw_error) > 9000
    assert max(yaw_error) < 0.02
    assert max(tilt_error) < 0.01
    assert max(p_error) < 0.03
    assert estimator.health()["status"] == "running"


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_heading_on_the_other_side_of_south_is_near(side: float) -> None:
    """From 3.1 rad to -3.1 rad it is 0.083 rad; with equal variances, half of it is gone."""
    line = new_timeline(EstimatorParams())[0]
    motion = line.motion
    turn_to(motion, (math.cos(1.55), 0.0, 0.0, side * math.sin(1.55)), LEVEL)
    motion.covariance[6, 6] = 0.01
    fuse_yaw(line, MAGNETIC_FIELD, -side * 3.1, 0.01)
    correct_motion(motion, LEVEL)
    assert abs(motion.angles[2]) == pytest.approx(math.pi, abs=1e-9)
    assert motion.covariance[6, 6] == pytest.approx(0.005)
    assert line.state.nis[MAGNETIC_FIELD] == pytest.approx((2.0 * math.pi - 6.2) ** 2 / 0.02)


def test_late_data_are_fused_when_they_arrive() -> None:
    """As the original does: what a message says of the past is taken for the present."""
    path = Path(3.0)
    now, late = Ekf7(EstimatorParams(), DATUM), Ekf7(EstimatorParams(), DATUM)
    for estimator, lateness_ns in ((now, 0), (late, 300_000_000)):
        feed(estimator, path.messages(seed=1))
        stamp_ns = START_NS + round(3.0e9) - lateness_ns + 1
        assert estimator.gnss_position(stamp_ns, DATUM.to_geodetic([1.0, 2.0, 3.0])) == "ok"
    assert now.state == late.state


def test_a_gap_and_a_reset_start_anew() -> None:
    estimator = Ekf7(EstimatorParams(), DATUM)
    path = Path(2.0)
    feed(estimator, path.messages(seed=2))
    assert estimator.running
    late_ns = START_NS + 3_500_000_000  # one sample alone might have a wrong stamp
    said = [estimator.imu(late_ns + k * 2_000_000, [0.0, 0.0, G], [0.0] * 3) for k in range(5)]
    assert said == ["too_early"] * 4 + ["gap"]
    assert not estimator.running
    assert estimator.health()["reason"] == "imu gap too long"
    estimator.reset()
    feed(estimator, path.messages(seed=2))
    assert estimator.running
    assert estimator.health()["starts"] == 1.0


def test_published_covariances_are_those_of_the_published_frames(path: Path) -> None:
    """Against central differences of u = R^T v by the errors of v and of the rotation."""
    estimator = Ekf7(EstimatorParams(), DATUM)
    feed(estimator, path.messages(seed=3)[:4000])
    state = estimator.state
    R, v_W = rotation(state.q_WB), np.array(state.v_W)
    pose = estimator.pose_covariance()
    C = np.zeros((6, 6))  # velocity, rotation about the world's axes
    C[:3, :3], C[3:, 3:] = state.covariance[3:6, 3:6], pose[3:, 3:]
    C[:3, 5] = C[5, :3] = state.covariance[3:6, 6]

    def u_B(error: Array) -> Array:
        turned = Rotation.from_rotvec(error[3:]) * R
        velocity: Array = turned.inv().apply(v_W + error[:3])
        return velocity

    J = np.column_stack([(u_B(1e-6 * e) - u_B(-1e-6 * e)) / 2e-6 for e in np.eye(6)])
    np.testing.assert_allclose(estimator.twist_covariance()[:3, :3], J @ C @ J.T, atol=1e-8)
    np.testing.assert_array_equal(pose[:3, :3], state.covariance[:3, :3])
    np.testing.assert_allclose(np.diag(pose)[3:], [0.01, 0.01, state.covariance[6, 6]])
    odometry = estimator.odometry()
    np.testing.assert_array_equal(odometry.p_variance, np.diag(pose)[:3])
    np.testing.assert_array_equal(odometry.attitude_variance, np.diag(pose)[3:])


def test_the_imu_may_be_mounted_askew() -> None:
    """The same flight seen by an IMU turned by 90 degrees gives the same estimate."""
    path = Path(3.0)
    mount = Rotation.from_euler("ZYX", [90.0, 0.0, 20.0], degrees=True)
    params = EstimatorParams(mount=MountingParams(imu_roll_pitch_yaw_deg=(20.0, 0.0, 90.0)))
    straight, askew = Ekf7(EstimatorParams(), DATUM), Ekf7(params, DATUM)
    messages = path.messages(seed=5)
    feed(straight, messages)
    turned = mount.inv().apply
    for kind, stamp_ns, values in messages:
        if kind in ("imu", "magnetic_field"):
            values = tuple(turned(value) for value in values)
        getattr(askew, kind)(stamp_ns, *values)
    np.testing.assert_allclose(askew.state.p_W, straight.state.p_W, atol=1e-9)
    np.testing.assert_allclose(askew.state.angles, straight.state.angles, atol=1e-9)
