"""The controller of controller.py as a kernel: compiled, it takes a microsecond."""

import math

import numpy as np

import quadsim


@quadsim.kernel
def fly(odometries, setpoints, inertia, gains, rotors, speeds):
    """Write the speeds; a kernel makes no arrays."""
    now, want = odometries[0], setpoints[0]
    w, x, y, z = now.q_WB[0], now.q_WB[1], now.q_WB[2], now.q_WB[3]
    x_B = (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y))
    y_B = (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x))
    z_B = (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))
    fx, fy, fz = force(now, want, 0, gains), force(now, want, 1, gains), force(now, want, 2, gains)
    size = math.sqrt(fx * fx + fy * fy + (fz + 9.81) * (fz + 9.81))
    up = (fx / size, fy / size, (fz + 9.81) / size)  # where body z is to be
    lean = cross(z_B, up)
    yaw = want.yaw - math.atan2(x_B[1], x_B[0])
    turn = math.atan2(math.sin(yaw), math.cos(yaw))
    torque = (
        inertia[0] * (120.0 * dot(x_B, lean) - 20.0 * now.w_B[0]),
        inertia[1] * (120.0 * dot(y_B, lean) - 20.0 * now.w_B[1]),
        inertia[2] * (10.0 * turn - 6.0 * now.w_B[2]),
    )
    thrust = gains[2] * size * dot(z_B, up)
    for i in range(speeds.size):
        lift = rotors[i, 0] * thrust + dot((rotors[i, 1], rotors[i, 2], rotors[i, 3]), torque)
        speeds[i] = math.sqrt(max(lift, 0.0) / gains[3])


@quadsim.kernel
def force(now, want, i, gains):
    """Specific force along an axis of the world, without gravity."""
    p_error = min(max(want.p_W[i] - now.p_W[i], -1.0), 1.0)
    return want.a_W[i] + gains[0] * p_error + gains[1] * (want.v_W[i] - now.v_W[i])


@quadsim.kernel
def dot(a, b):
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@quadsim.kernel
def cross(a, b):
    """Vector product."""
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


class Compiled:
    def __init__(self, vehicle, stiffness=4.0):
        x, y, _ = np.array(vehicle.rotor_positions_B_m).T
        turn = -np.array(vehicle.rotor_directions) * vehicle.torque_ratio_m
        self.rotors = np.linalg.pinv(np.array([np.ones_like(x), y, -x, turn]))
        lift, damping = vehicle.thrust_coefficient_N_s2, 2.0 * np.sqrt(stiffness)
        self.gains = np.array([stiffness, damping, vehicle.mass_kg, lift])
        self.inertia, self.speeds = np.array(vehicle.inertia_kg_m2), np.zeros(len(x))

    def update(self, now):
        odometry, setpoint = now.records["odometry"], now.records["setpoint"]
        fly(odometry, setpoint, self.inertia, self.gains, self.rotors, self.speeds)
        return self.speeds
