"""An estimator of one's own: a complementary filter of gyroscope, gravity, field and GNSS."""

import numpy as np
from scipy.spatial.transform import Rotation


class Complementary:
    def __init__(self, params, tilt_gain=0.05, yaw_gain=0.2, gnss_gain=0.5):
        self.g_W = np.array([0.0, 0.0, params.gravity_mps2])
        self.field_W = 1e5 * np.array(params.magnetic_field_W_T)  # in 10 uT, about 4 long
        self.tilt_gain, self.yaw_gain, self.gnss_gain = tilt_gain, yaw_gain, gnss_gain
        self.rest, self.R, self.p, self.v = [], None, None, np.zeros(3)

    def imu(self, stamp_ns, f_S, w_S):
        if self.R is None:
            self.rest.append([stamp_ns, *f_S, *w_S])
            return
        dt, self.stamp_ns, self.w = (stamp_ns - self.stamp_ns) * 1e-9, stamp_ns, w_S - self.bias
        f_W = self.R.apply(f_S)
        lean = self.tilt_gain * np.cross(f_W, self.g_W) / (self.g_W @ self.g_W)
        self.R = Rotation.from_rotvec(lean * dt) * self.R * Rotation.from_rotvec(self.w * dt)
        self.v = self.v + (f_W - self.g_W) * dt
        self.p = self.p if self.p is None else self.p + self.v * dt

    def magnetic_field(self, stamp_ns, m_S):
        if self.R is None and self.rest and stamp_ns - self.rest[0][0] > 1e9:
            self.stamp_ns, f_S, self.bias = stamp_ns, *np.mean(self.rest, axis=0)[1:].reshape(2, 3)
            given = [f_S, 1e5 * m_S]
            self.R = Rotation.align_vectors([self.g_W, self.field_W], given, [100.0, 1.0])[0]
        elif self.R is not None:
            east, north, _ = self.R.apply(m_S)
            error = np.arctan2(self.field_W[1], self.field_W[0]) - np.arctan2(north, east)
            turn = 0.01 * self.yaw_gain * np.arctan2(np.sin(error), np.cos(error))
            self.R = Rotation.from_rotvec([0.0, 0.0, turn]) * self.R

    def gnss_position(self, stamp_ns, p_W):
        if self.R is not None:
            now_W = p_W + self.v * (self.stamp_ns - stamp_ns) * 1e-9  # a fix comes late
            self.p = now_W if self.p is None else self.p + self.gnss_gain * (now_W - self.p)

    def gnss_velocity(self, stamp_ns, v_W):
        self.v = self.v + self.gnss_gain * (v_W - self.v)

    def odometry(self):
        return None if self.p is None else (self.p, self.v, self.R.as_quat()[[3, 0, 1, 2]], self.w)
