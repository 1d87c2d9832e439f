"""A controller of one's own: a geometric controller on SE(3) (Lee, Leok, McClamroch 2010)."""

import numpy as np
from scipy.spatial.transform import Rotation


class Geometric:
    def __init__(self, vehicle, stiffness=4.0):
        x, y, _ = np.array(vehicle.rotor_positions_B_m).T
        turn = -np.array(vehicle.rotor_directions) * vehicle.torque_ratio_m
        self.vehicle, self.stiffness = vehicle, stiffness
        self.rotors = np.linalg.pinv(np.array([np.ones_like(x), y, -x, turn]))

    def update(self, now):
        is_, want, k = now.odometry, now.setpoint, self.stiffness
        p_error = np.clip(want.p_W - is_.p_W, -1.0, 1.0)
        f_W = want.a_W + k * p_error + 2.0 * np.sqrt(k) * (want.v_W - is_.v_W) + [0.0, 0.0, 9.81]
        R = Rotation.from_quat(is_.q_WB[[1, 2, 3, 0]]).as_matrix()
        z = f_W / np.linalg.norm(f_W)
        y = np.cross(z, [np.cos(want.yaw), np.sin(want.yaw), 0.0])
        y /= np.linalg.norm(y)
        error = Rotation.from_matrix(R.T @ np.column_stack([np.cross(y, z), y, z])).as_rotvec()
        inertia = np.array(self.vehicle.inertia_kg_m2)
        torque = inertia * ([120.0, 120.0, 10.0] * error - [20.0, 20.0, 6.0] * is_.w_B)
        thrusts = self.rotors @ [self.vehicle.mass_kg * f_W @ R[:, 2], *torque]
        return np.sqrt(np.maximum(thrusts, 0.0) / self.vehicle.thrust_coefficient_N_s2)
