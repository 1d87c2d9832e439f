"""Errors of an accelerometer's scale and axes, which are no states: what they leave unsure."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from quadsim.estimation import ErrorStateEkf, EstimatorParams
from quadsim.estimation.eskf.parameters import AlignParams, NoiseParams

Array = NDArray[np.float64]
G, RATE_HZ = 9.80665, 100
#: White noise of a sample, which the messages state: m/s^2, rad/s, m/s, T.
FORCE, RATE, SPEED, FIELD = 0.02, 5e-4, 0.05, 2e-7
FIELD_W_T = np.array([1e-6, 20e-6, -40e-6])
#: Deviations of a device (ICM-42688-P): of the scale, of an axis over the others, m/s^2 at 0 g.
SCALE, AXES, BIAS = 0.005, 0.01, 0.2
LEAN_RAD = 0.3


def covariance(sigma: float) -> Array:
    return np.asarray(sigma**2 * np.eye(3).ravel())


def tilt_against_deviation(seed: int) -> float:
    """A vehicle stands level, then holds its place in the wind, leaning, for 20 s.

    Returns:
        Mean of the squares of its tilt's two errors over their stated deviations, at the end.
    """
    rng = np.random.default_rng(seed)
    east, north, up = FIELD_W_T.tolist()
    params = EstimatorParams(
        magnetic_field_W_T=(east, north, up),
        noise=NoiseParams(accel_scale=SCALE, accel_axes=AXES),
        start=AlignParams(accel_bias_mps2=BIAS, gyro_bias_radps=1e-3, require_gnss=False),
    )
    ekf = ErrorStateEkf(params, None)
    bias_S, errors = rng.normal(0.0, BIAS, 3), rng.normal(0.0, AXES, (3, 3))
    np.fill_diagonal(errors, rng.normal(0.0, SCALE, 3))
    # hover's own error is a bias, which the deviation of the bias holds
    hover_S = np.array([0.0, 0.0, G])
    lean = LEAN_RAD * np.clip(np.arange(40 * RATE_HZ) / RATE_HZ - 20.0, 0.0, 1.0)
    attitudes = Rotation.from_euler("x", lean)
    forces_S = attitudes.inv().apply(hover_S)
    for k in range(1, len(lean)):
        stamp_ns = k * 1_000_000_000 // RATE_HZ
        w_S = np.array([(lean[k] - lean[k - 1]) * RATE_HZ, 0.0, 0.0])
        f_S = 0.5 * (forces_S[k - 1] + forces_S[k])
        f_S = f_S + errors @ (f_S - hover_S) + bias_S + rng.normal(0.0, FORCE, 3)
        w_S = w_S + rng.normal(0.0, RATE, 3)
        ekf.imu(stamp_ns, f_S, w_S, covariance(FORCE), covariance(RATE))
        if k % 10 == 0:
            m_S = attitudes[k].inv().apply(FIELD_W_T) + rng.normal(0.0, FIELD, 3)
            ekf.magnetic_field(stamp_ns, m_S, covariance(FIELD))
            ekf.gnss_velocity(stamp_ns, rng.normal(0.0, SPEED, 3), covariance(SPEED))
    out = ekf.odometry()
    found = Rotation.from_quat(np.roll(np.ravel(out.q_WB), -1))
    tilt = (attitudes[-1] * found.inv()).as_rotvec()[:2]
    return float(np.mean(tilt**2 / np.ravel(out.attitude_variance)[:2]))


def test_a_lean_that_lasts_opens_the_accelerometers_bias() -> None:
    """White noise alone averages out what stays: squares of 1.8 before, and one of 8."""
    squares = [tilt_against_deviation(seed) for seed in range(16)]
    # the mean of 32 squares has a deviation of 0.25 where the deviations are right
    assert np.mean(squares) < 1.6
    assert np.mean(squares) > 0.2
