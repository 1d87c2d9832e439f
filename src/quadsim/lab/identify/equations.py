"""The equations of motion of a flight, window by window, as residuals of the figures.

Per window of :mod:`quadsim.lab.identify.flight_grid`, with everything divided by the mass:

- odometry: ``dv/dt - g = R sum(c_k F_k)``
- accelerometer: ``f = (1 + E)(sum(c_k F_k) + w_dot x p + w x (w x p)) + b + d t``
- gyroscope: ``dw/dt = (1 + G) j^-1 (sum(c_k T_k) - w x j w + e x F)``
- its rate: ``w = (1 + G) w_odometry + b``, where the odometry does not come from that gyroscope

with the figures ``c_k`` of the terms and the moments of
inertia ``j``. Found along with them: misalignment and scale of the IMU (E, G), its biases b, the
drift d of one and its lever arm p, the place e where the thrust acts, a turn of the odometry's body
axes, shifts between the clocks of IMU, odometry and rotors, and the mean wind if not recorded.
An odometry that is an estimate leaves out its rate, which is the gyroscope's, and of its equation
all but the vertical, in which the accelerometer stands for the forces across body z: its tilt is
off by what that IMU is off.

A term is the wrench of the vehicle's own kernels (:func:`quadsim.lab.validate.kernels.wrenches`)
with a figure of one, less that without it. The disc's tilt (flapping) makes the same force as rotor
drag, k a / R more of it, of the thrust in hover; what inflow and forward flight change of it is
tilted as in the vehicle's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Array
from quadsim.lab.identify.flight_grid import Grid
from quadsim.lab.validate.kernels import make_model, wrenches
from quadsim.vehicle.parameters import VehicleParams

Figures = Mapping[str, float]

#: Figures that are zero in a term unless it sets them, by their keys in a vehicle's file.
_NONE: dict[str, float] = dict.fromkeys(
    (
        "thrust_coefficient_N_s2", "torque_ratio_m", "rotor_drag_N_s2", "rolling_moment_N_s2",
        "air_density_kg_m3", "rotor.inflow_N_s2", "rotor.inflow_model",
        "rotor.translational_lift_N_s2_m2", "rotor.hinge_stiffness_N_m", "rotor.hub_moment_N_s2",
        "rotor.inertia_kg_m2", "rotor.thrust_residual_count", "rotor.torque_residual_count",
        *(f"{key}.{i}" for key in ("body_drag_N_s_m", "drag_area_m2") for i in range(3)),
    ),
    0.0,
)  # fmt: skip

#: A rotor that gives thrust, which bounds the lift of forward flight; one whose disc stays level.
_LIFTS: dict[str, float] = {"thrust_coefficient_N_s2": 1.0}
_LEVEL: dict[str, float] = {"rotor.flapping_rad": 0.0}

#: Every term by the name of its figure: what it is made of, and what is taken off again.
TERMS: dict[str, tuple[Figures, Figures]] = {
    "thrust": (_LIFTS | _LEVEL, _LEVEL),
    "torque": (_LIFTS | _LEVEL | {"torque_ratio_m": 1.0}, _LIFTS | _LEVEL),
    "rotor_drag": ({"rotor_drag_N_s2": 1.0}, {}),
    "rolling_moment": ({"rolling_moment_N_s2": 1.0}, {}),
    "body_drag_x": ({"body_drag_N_s_m.0": 1.0}, {}),
    "body_drag_y": ({"body_drag_N_s_m.1": 1.0}, {}),
    "body_drag_z": ({"body_drag_N_s_m.2": 1.0}, {}),
    "inflow": (_LIFTS | {"rotor.inflow_N_s2": 1.0}, _LIFTS),
    "translational_lift": (_LIFTS | {"rotor.translational_lift_N_s2_m2": 1.0}, _LIFTS),
    "drag_area_x": ({"drag_area_m2.0": 1.0}, {}),
    "drag_area_y": ({"drag_area_m2.1": 1.0}, {}),
    "drag_area_z": ({"drag_area_m2.2": 1.0}, {}),
    "hub_moment": ({"rotor.hinge_stiffness_N_m": 1.0, "rotor.flapping_rad": 1.0}, {}),
    "rotor_inertia": ({"rotor.inertia_kg_m2": 1.0}, {}),
}


def _wrench(
    figures: Figures, speed_radps: Array, air_B: Array, w_B: Array, vehicle: VehicleParams
) -> Array:
    """(N, 6) force and torque of a vehicle of which only these figures are not zero."""
    model: Any = make_model(vehicle, 0.0)
    for key, value in (_NONE | dict(figures)).items():
        *path, last = key.split(".")
        group = model[1]
        for name in path:
            group = group[name]
        group[int(last) if last.isdigit() else last] = value
    out = np.zeros((len(speed_radps), 6))
    speed, air, rates = (np.ascontiguousarray(each) for each in (speed_radps, air_B, w_B))
    wrenches(model, speed, np.zeros_like(speed), air, rates, out)
    return out


def term_wrench(
    name: str, speed_radps: Array, air_B: Array, w_B: Array, vehicle: VehicleParams
) -> tuple[Array, Array]:
    """Force and torque, body axes, (N, 3) each, that a figure of one makes at N times.

    Args:
        name: of :data:`TERMS`; that of ``hub_moment`` is over the mass, as in a file's figures.
        speed_radps: (N, n) of the rotors.
        air_B: (N, 3) velocity through the air.
        w_B: (N, 3).
        vehicle: for the geometry of its rotors, and the tilt of their discs.
    """
    more, less = TERMS[name]
    signals = (speed_radps, air_B, w_B, vehicle)
    found = _wrench(more, *signals) - _wrench(less, *signals)
    if name == "hub_moment":
        found *= vehicle.rotor.radius_m
    return found[:, :3], found[:, 3:]


NAMES = tuple(TERMS)
THRUST, TORQUE, SPIN, ROLLING = (
    NAMES.index(name) for name in ("thrust", "torque", "rotor_inertia", "rolling_moment")
)

UP = np.array([0.0, 0.0, 1.0])
#: (3, 3, 3) of a vector product: (a x b)_i = sum of [i, j, k] a_j b_k.
LEVI_CIVITA = np.cross(np.eye(3)[:, None], np.eye(3)[None]).transpose(2, 0, 1)

#: Parameters in order: the terms' figures (that of the drag torque over the thrust's), torque over
#: inertia of x, y, z, and the rest.
RATIO = slice(len(NAMES), len(NAMES) + 3)


def _places() -> dict[str, slice]:
    at, places = RATIO.stop, {}
    for name, width in (
        ("accel_matrix", 9),
        ("accel_bias", 3),
        ("accel_drift", 3),
        ("gyro_matrix", 9),
        ("gyro_bias", 3),
        ("lever", 3),
        ("centre", 3),
        ("imu_shift", 1),
        ("odometry_shift", 1),
        ("tilt", 3),
        ("wind", 2),
    ):
        places[name] = slice(at, at + width)
        at += width
    return places


PLACES = _places()
SIZE = PLACES["wind"].stop

#: Rows of the residual: what is explained, axis and unit; the odometry's last.
CHANNELS = (
    *(("specific force", f"{axis} body", "m/s^2") for axis in "xyz"),
    *(("angular acceleration", f"{axis} body", "rad/s^2") for axis in "xyz"),
)

#: Air speed, and acceleration of a rotor, at which the figures are compared.
REFERENCE_MPS, SPIN_UP_RADPS2 = 5.0, 1000.0

#: Change of the wind over which the terms are taken to be linear in it, m/s.
WIND_STEP_MPS = 1.0


#: Columns of what the terms bring per window: force in B and W, torque in B, and the vertical part
#: of the force along body z.
FORCE_B, FORCE_W, TORQUE_B, LIFT_W = slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 10)


class Equations:
    """Residuals of a flight.

    Args:
        vehicle: for the geometry of the rotors.
        gravity_mps2: where it was flown.
        exact: whether the odometry's rates are measured apart from the gyroscope.
    """

    def __init__(
        self, grid: Grid, vehicle: VehicleParams, gravity_mps2: float, exact: bool
    ) -> None:
        self._grid, self._vehicle, self.exact = grid, vehicle, exact
        windows = grid.windows
        mean, slope, bend = windows.mean, windows.slope, windows.bend
        self._gravity_W = gravity_mps2 * UP
        self.acceleration_W = slope(grid.v_W) + self._gravity_W
        self._jerk_W = bend(grid.v_W)
        self.force_S, self._force_rate_S = mean(grid.force_S), slope(grid.force_S)
        self.gyro_dot_S, self._gyro_bend_S = slope(grid.gyro_S), bend(grid.gyro_S)
        self._R_WB = grid.R_WB[windows.middle]
        sideways = np.sum(grid.R_WB[:, 2, :2] * grid.force_S[:, :2], axis=1)
        self._sideways_W = mean(sideways)
        self._time = np.linspace(-0.5, 0.5, len(windows.rows))[:, None]
        self._gyro_S, self._rate_B = mean(grid.gyro_S), mean(grid.rate_B)
        w = grid.gyro_S
        #: products of rates in Euler's equations: y z, z x, x y
        self._products = mean(np.roll(w, -1, axis=1) * np.roll(w, 1, axis=1))
        self._squares = mean(w[:, :, None] * w[:, None, :])
        self._lever = self._lever_matrix(self._squares)
        air_W = grid.v_W if grid.wind_W is None else grid.v_W - grid.wind_W
        self._calm = self._wrenches(air_W)
        self._windy: list[Array] = []  # the same per WIND_STEP_MPS of wind
        if grid.wind_W is None:
            for axis in range(2):
                wind_W = WIND_STEP_MPS * np.eye(3)[axis]
                self._windy.append(self._wrenches(air_W - wind_W) - self._calm)

    def _lever_matrix(self, squares: Array) -> Array:
        """(W, 3, 3) ``[w_dot]x + [w]x[w]x`` of each window."""
        w_dot = self.gyro_dot_S
        turning = np.cross(w_dot[:, None, :], np.eye(3)).swapaxes(1, 2)
        trace = np.einsum("wii->w", squares)
        return np.asarray(turning + squares - trace[:, None, None] * np.eye(3))

    def _wrenches(self, air_W: Array) -> Array:
        """(W, 10, K) what each term brings in each window."""
        grid, mean = self._grid, self._grid.windows.mean
        air_B = np.einsum("nji,nj->ni", grid.R_WB, air_W)
        columns = []
        for name in TERMS:
            f_B, t_B = term_wrench(name, grid.speed_radps, air_B, grid.gyro_S, self._vehicle)
            f_W = np.einsum("nij,nj->ni", grid.R_WB, f_B)
            lift_W = grid.R_WB[:, 2, 2:] * f_B[:, 2:]
            columns.append(mean(np.hstack([f_B, f_W, t_B, lift_W])))
        turns = np.array(self._vehicle.rotor_directions)
        spin = self._grid.windows.slope(grid.speed_radps @ turns)[:, None] * UP
        if self._vehicle.rotor_axes_B:
            axes = turns[:, None] * np.array(self._vehicle.rotor_axes_B)
            spin = self._grid.windows.slope(grid.speed_radps @ axes)
        columns[SPIN][:, TORQUE_B] -= spin
        return np.stack(columns, axis=-1)

    @property
    def wind_is_known(self) -> bool:
        """Whether the wind was recorded."""
        return not self._windy

    @property
    def signal(self) -> Array:
        """(channels,) root mean square of what is to be explained, gravity left out."""
        parts = [self.force_S - np.mean(self.force_S, axis=0), self.gyro_dot_S]
        moving_W = self.acceleration_W - self._gravity_W
        parts += [moving_W, self._rate_B] if self.exact else [moving_W[:, 2:]]
        return np.asarray(np.sqrt(np.mean(np.hstack(parts) ** 2, axis=0)))

    @property
    def is_force(self) -> NDArray[np.bool_]:
        """(K,) terms that bring a force, not a torque alone."""
        return np.asarray(np.any(self._calm[:, FORCE_B] != 0.0, axis=(0, 1)))

    @property
    def reference(self) -> Array:
        """(K,) force or torque that each term's figure makes at 5 m/s and the usual rotor speed.

        That of the rotors' inertia is the torque when all of them speed up; the rolling moment is
        that of rotors that all turn one way, as those of both senses cancel.
        """
        speed = np.full((3, self._grid.speed_radps.shape[1]), np.median(self._grid.speed_radps))
        signals = (speed, REFERENCE_MPS * np.eye(3), np.zeros((3, 3)), self._vehicle)
        wrenches = (np.abs(np.hstack(term_wrench(name, *signals))) for name in TERMS)
        found = [float((both[:, :3] if both[:, :3].any() else both).max()) for both in wrenches]
        found[SPIN] = SPIN_UP_RADPS2 * speed.shape[1]
        found[ROLLING] = REFERENCE_MPS * float(speed[0].sum())
        return np.array(found)

    @property
    def scales(self) -> Array:
        """(K,) size of each term's figure that makes 1 m/s^2, or 1 m^2/s^2 of torque; inf: none."""
        force = np.sqrt(np.mean(np.sum(self._calm[:, FORCE_B] ** 2, axis=1), axis=0))
        torque = np.sqrt(np.mean(np.sum(self._calm[:, TORQUE_B] ** 2, axis=1), axis=0))
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / np.where(force > 0.0, force, torque))

    def inertia(self, theta: Array) -> Array:
        """Moments of inertia over mass, (3,) m^2."""
        lift = theta[THRUST]
        return np.asarray(lift * np.array([1.0, 1.0, theta[TORQUE]]) / theta[RATIO])

    def residual(self, theta: Array) -> Array:
        """(W, channels): accelerometer, gyroscope, odometry, and its rate if that is apart."""
        total = self._sums(theta)
        ideal_S = total[:, FORCE_B] + self._lever @ theta[PLACES["lever"]]
        accel = np.eye(3) + theta[PLACES["accel_matrix"]].reshape(3, 3)
        gyro = np.eye(3) + theta[PLACES["gyro_matrix"]].reshape(3, 3)
        imu_s, odometry_s = theta[PLACES["imu_shift"]], theta[PLACES["odometry_shift"]]
        bias = theta[PLACES["accel_bias"]] + theta[PLACES["accel_drift"]] * self._time
        odometry = self.acceleration_W + odometry_s * self._jerk_W
        turn_S = self._turn(theta, total) @ gyro.T
        rows = [
            self.force_S + imu_s * self._force_rate_S - ideal_S @ accel.T - bias,
            self.gyro_dot_S + imu_s * self._gyro_bend_S - turn_S,
        ]
        if self.exact:
            tilted_B = np.cross(theta[PLACES["tilt"]], total[:, FORCE_B])
            tilted_W = np.einsum("wij,wj->wi", self._R_WB, tilted_B)
            shifted_S = self._gyro_S + (imu_s - odometry_s) * self.gyro_dot_S
            rows.append(odometry - total[:, FORCE_W] - tilted_W)
            rows.append(shifted_S - self._rate_B @ gyro.T - theta[PLACES["gyro_bias"]])
        else:
            sideways = self._sideways_W - np.sum(self._R_WB[:, 2, :2] * bias[:, :2], axis=1)
            rows.append(odometry[:, 2:] - total[:, LIFT_W] - sideways[:, None])
        return np.hstack(rows)

    def _sums(self, theta: Array) -> Array:
        """(W, 10) all terms together."""
        figures = theta[: len(NAMES)].copy()
        figures[TORQUE] *= theta[THRUST]
        total = self._calm @ figures
        for per_step, wind in zip(self._windy, theta[PLACES["wind"]], strict=False):
            total += per_step @ (figures * wind / WIND_STEP_MPS)
        return np.asarray(total)

    def _turn(self, theta: Array, total: Array) -> Array:
        """Angular acceleration of each window."""
        inertia, (x, y, yaw) = self.inertia(theta), theta[PLACES["centre"]]
        lift = total[:, FORCE_B.start + 2]
        offset = np.stack([y * lift, -x * lift, yaw * lift], axis=1)
        tensor = self._vehicle.inertia_tensor_kg_m2 / self._vehicle.mass_kg
        if any(self._vehicle.inertia_products_kg_m2):  # which are the file's
            np.fill_diagonal(tensor, inertia)
            turning = np.einsum("ijk,kl,wjl->wi", LEVI_CIVITA, tensor, self._squares)
            return np.asarray((total[:, TORQUE_B] + offset - turning) @ np.linalg.inv(tensor))
        stretch = np.roll(inertia, -1) - np.roll(inertia, 1)  # y - z, z - x, x - y
        return np.asarray((total[:, TORQUE_B] + offset + stretch * self._products) / inertia)
