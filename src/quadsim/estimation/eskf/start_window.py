"""The window from which the filter starts: sums of what the sensors say in it."""

from __future__ import annotations

import math

from quadsim.base.compiled import Array, kernel
from quadsim.base.parameters import Vec3, new
from quadsim.estimation.eskf.layout import Eskf, StartWindow
from quadsim.estimation.eskf.parameters import EstimatorParams
from quadsim.geometry.rotation import exp, multiply, normalize, quat, rotate
from quadsim.geometry.vector import add, norm, scale, store, vec3

#: Specific force of a standing vehicle spreads by less, and differs from g by less than it or
#: three ``accel_bias_mps2``, m/s^2.
STANDING_ACCEL_MPS2 = 0.4
#: The mean angular velocity and GNSS velocity of a standing vehicle are less, rad/s.
STANDING_RATE_RADPS = 0.05
STANDING_SPEED_MPS = 0.2

#: A window in which nothing was seen yet.
EMPTY_WINDOW = new(StartWindow)
EMPTY_WINDOW.q_0S[0] = 1.0


@kernel
def clear(state: Eskf) -> None:
    """Empty the window."""
    state.alignment = EMPTY_WINDOW


@kernel
def accumulate(array: Array, values: Vec3) -> None:
    """Add a vector to a sum."""
    array[0] += values[0]
    array[1] += values[1]
    array[2] += values[2]


@kernel
def scale_errors(x_S: Vec3, own: float, others: float) -> Vec3:
    """Variance that errors of scale and axes make of a vector, by axis.

    Args:
        x_S: the vector in the sensor's axes.
        own: deviation of an axis's error over the part along it.
        others: over the parts along the others.
    """
    x, y, z = x_S[0] * x_S[0], x_S[1] * x_S[1], x_S[2] * x_S[2]
    a, b = own * own, others * others
    return (a * x + b * (y + z), a * y + b * (x + z), a * z + b * (x + y))


@kernel
def integrate_window(window: StartWindow, f_S: Vec3, w_S: Vec3, dt_s: float) -> None:
    """Turn and specific force's integrals over one step."""
    q_0S = quat(window.q_0S)
    q_mid = multiply(q_0S, exp(scale(0.5 * dt_s, w_S)))
    step = scale(dt_s, rotate(q_mid, f_S))
    before = vec3(window.f_integral_0)
    accumulate(window.f_integral2_0, scale(dt_s, add(before, scale(0.5, step))))
    accumulate(window.f_integral_0, step)
    store(window.q_0S, normalize(multiply(q_0S, exp(scale(dt_s, w_S)))))


@kernel
def add_sample(
    window: StartWindow, f_S: Vec3, w_S: Vec3, f_variance: Vec3, w_variance: Vec3, interval_s: float
) -> None:
    """Count one complete IMU sample."""
    window.imu_count += 1
    accumulate(window.f_sum_S, f_S)
    accumulate(window.f_square_sum_S, (f_S[0] * f_S[0], f_S[1] * f_S[1], f_S[2] * f_S[2]))
    accumulate(window.w_sum_S, w_S)
    accumulate(window.f_variance_sum, f_variance)
    accumulate(window.w_variance_sum, w_variance)
    mean = (w_variance[0] + w_variance[1] + w_variance[2]) / 3.0
    window.angle_variance += mean * interval_s * interval_s


@kernel
def add_fix(window: StartWindow, t_s: float, p_W: Vec3, variance: Vec3, antenna_S: Vec3) -> None:
    """Count one GNSS position, t_s after the window's beginning.

    The antenna's place next to the IMU turns with it: p(t) = p(0) + v(0) t + R (U + Q l) + g t^2/2
    with Q the turn since the beginning.
    """
    window.fix_count += 1
    window.fix_t_sum += t_s
    window.fix_t2_sum += t_s * t_s
    accumulate(window.fix_sum_W, p_W)
    lever_0 = rotate(quat(window.q_0S), antenna_S)
    accumulate(window.fix_f_integral2_sum_0, add(vec3(window.f_integral2_0), lever_0))
    accumulate(window.fix_variance_sum, variance)


@kernel
def add_velocity(window: StartWindow, t_s: float, v_W: Vec3, variance: Vec3, swing_S: Vec3) -> None:
    """Count one GNSS velocity; the antenna swings about the IMU by w x l.

    v(t) = v(0) + R (S + Q (w x l)) + g t.
    """
    f_integral_0 = add(vec3(window.f_integral_0), rotate(quat(window.q_0S), swing_S))
    window.velocity_count += 1
    window.velocity_t_sum += t_s
    window.velocity_t2_sum += t_s * t_s
    accumulate(window.velocity_sum_W, v_W)
    accumulate(window.velocity_t_product_W, scale(t_s, v_W))
    accumulate(window.velocity_f_integral_sum_0, f_integral_0)
    accumulate(window.velocity_f_integral_t_product_0, scale(t_s, f_integral_0))
    accumulate(window.velocity_variance_sum, variance)


@kernel
def add_field(window: StartWindow, m_S: Vec3, heading_variance: float) -> None:
    """Count one magnetic field."""
    window.field_count += 1
    accumulate(window.field_sum_S, m_S)
    accumulate(window.field_sum_0, rotate(quat(window.q_0S), m_S))
    window.heading_variance_sum += heading_variance


@kernel
def is_standing(window: StartWindow, params: EstimatorParams) -> bool:
    """Whether every sign of the window speaks for a vehicle at rest, within the noise's bounds."""
    start = params.start
    n = float(window.imu_count)
    mean = scale(1.0 / n, vec3(window.f_sum_S))
    limit = STANDING_ACCEL_MPS2
    # variance of a variance estimated from n samples: 2/n of its square; four sigma
    margin = 1.0 + 4.0 * math.sqrt(2.0 / n)
    mean_variance = 0.0
    rate_variance = 0.0
    for i in range(3):
        noise = window.f_variance_sum[i] / n
        mean_variance += noise / n
        rate_variance += window.w_variance_sum[i] / (n * n)
        if window.f_square_sum_S[i] / n - mean[i] * mean[i] > margin * noise + limit * limit:
            return False
    off = max(limit, 3.0 * start.accel_bias_mps2) + 3.0 * math.sqrt(mean_variance)
    if abs(norm(mean) - params.gravity_mps2) > off:
        return False
    rate = norm(scale(1.0 / n, vec3(window.w_sum_S)))
    if rate > STANDING_RATE_RADPS + 3.0 * math.sqrt(rate_variance):
        return False
    count = float(window.velocity_count)
    for i in range(3):
        if window.velocity_count > 0:
            sigma = math.sqrt(window.velocity_variance_sum[i]) / count
            if abs(window.velocity_sum_W[i]) / count > STANDING_SPEED_MPS + 3.0 * sigma:
                return False
    return True
