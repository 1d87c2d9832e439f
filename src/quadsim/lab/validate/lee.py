"""Lee's geometric controller as a Crazyflie's firmware flies it, with its mixer.

Source: controller_lee.c and power_distribution_quadrotor.c of IMRCLab/crazyflie-firmware, branch
dev-coltrans at 4b866bff (T. Lee, M. Leok and N. H. McClamroch, *Geometric tracking control of a
quadrotor UAV on SE(3)*, CDC 2010). Rotors are m1 front right, m2 rear right, m3 rear left and m4
front left. Yaw is held at zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from quadsim.base.parameters import Spec, Vec3

Array = NDArray[np.float64]

#: Gravity and grams of a newton as the firmware has them.
GRAVITY_MPS2, GRAMS_PER_N = 9.81, 1000.0 / 9.81
#: What each rotor's thrust does to roll, pitch and yaw.
_SIGNS = np.array([[-1.0, -1.0, -1.0], [-1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [1.0, -1.0, 1.0]])


@dataclass(frozen=True)
class LeeParams:
    """Gains as the firmware names them, and what its mixer believes of the vehicle."""

    mass_kg: Annotated[float, Spec("mass", "kg", gt=0.0, le=10.0)]
    inertia_kg_m2: Annotated[Vec3, Spec("J", "kg m^2", gt=0.0, le=1.0)]
    position: Annotated[Vec3, Spec("Kpos_P", "1/s^2", ge=0.0, le=100.0)]
    velocity: Annotated[Vec3, Spec("Kpos_D", "1/s", ge=0.0, le=100.0)]
    attitude: Annotated[Vec3, Spec("KR", "N m", ge=0.0, le=10.0)]
    rate: Annotated[Vec3, Spec("Komega", "N m s", ge=0.0, le=10.0)]
    integral: Annotated[Vec3, Spec("KI", "N m/s", ge=0.0, le=10.0)]
    arm_m: Annotated[float, Spec("rotors' distance from x and from y", "m", gt=0.0, le=1.0)]
    torque_ratio_m: Annotated[float, Spec("rotor's drag torque per thrust", "m", gt=0.0, le=1.0)]
    duty: Annotated[Vec3, Spec("d00, d10, d20: duty by grams of thrust", "1", ge=-10.0, le=10.0)]


def asked_acceleration(asked: Array, p_W: Array, v_W: Array, params: LeeParams) -> Array:
    """(..., 3) specific force in m/s^2 that is asked for; arguments as of ``duties`` below."""
    found = asked[..., 2, :] + np.array([0.0, 0.0, GRAVITY_MPS2])
    found = found + np.array(params.velocity) * (asked[..., 1, :] - v_W)
    return np.asarray(found + np.array(params.position) * (asked[..., 0, :] - p_W))


def thrust_of(duty: Array, params: LeeParams) -> Array:
    """Thrust in N of each rotor that the firmware asked for when it gave this duty."""
    d00, d10, d20 = params.duty
    grams = (np.sqrt(np.maximum(d10**2 + 4.0 * d20 * (duty - d00), 0.0)) - d10) / (2.0 * d20)
    return np.asarray(grams / GRAMS_PER_N)


def _cross(a: Array, b: Array) -> Array:
    """NumPy's own takes ten times as long."""
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


class LeeController:
    """One flight's controller, which remembers the integral of the attitude's error."""

    def __init__(self, params: LeeParams, period_s: float) -> None:
        self.params, self.period_s = params, period_s
        self.integral = np.zeros(3)

    def duties(self, asked: Array, p_W: Array, v_W: Array, R_WB: Array, w_B: Array) -> Array:
        """(4,) duty of each motor, 0 to 1.

        Args:
            asked: (4, 3) position, velocity, acceleration and jerk of the path, m and s.
            p_W, v_W, R_WB: where it believes to be, (3,) m, m/s, (3, 3).
            w_B: (3,) rates of the gyroscope, rad/s.
        """
        params = self.params
        force = asked_acceleration(asked, p_W, v_W, params)
        up = force / np.sqrt(force @ force)
        left = np.array([0.0, up[2], -up[1]]) / np.hypot(up[1], up[2])  # up x (1, 0, 0)
        asked_R = np.array([_cross(left, up), left, up]).T
        acceleration = float(force @ R_WB[:, 2])
        apart = asked_R.T @ R_WB
        error = 0.5 * np.array([
            apart[2, 1] - apart[1, 2], apart[0, 2] - apart[2, 0], apart[1, 0] - apart[0, 1]
        ])  # fmt: skip
        turn = (asked[3] - up * (up @ asked[3])) / acceleration
        rates = apart.T @ np.array([-turn @ left, turn @ asked_R[:, 0], 0.0])
        self.integral += self.period_s * error
        torque = _cross(w_B, w_B * np.array(params.inertia_kg_m2))
        torque -= np.array(params.attitude) * error + np.array(params.rate) * (w_B - rates)
        torque -= np.array(params.integral) * self.integral
        return self._mixed(params.mass_kg * acceleration, torque)

    def _mixed(self, thrust_N: float, torque_Nm: Array) -> Array:
        params = self.params
        arms = np.array([params.arm_m, params.arm_m, params.torque_ratio_m])
        grams = np.maximum(0.25 * (thrust_N + _SIGNS @ (torque_Nm / arms)), 0.0) * GRAMS_PER_N
        d00, d10, d20 = params.duty
        duty = d00 + (d10 + d20 * grams) * grams
        duty = duty - max(0.0, float(duty.max()) - 1.0)
        return np.where(grams > 0.0, np.maximum(duty, 0.0), 0.0)
