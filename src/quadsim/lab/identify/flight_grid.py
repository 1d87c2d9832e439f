"""A flight's signals on one even grid of times, and their means over short windows.

A smooth weight that is zero with its slope at both ends (Hann's) moves derivatives from the signal
to itself: ``int phi x' dt = -int phi' x dt``, ``int phi x'' dt = int phi'' x dt`` (modulating
functions; M. Shinbrot, *On the analysis of linear and nonlinear systems*, Trans. ASME 79, 1957).
Each window is thus an equation that holds exactly, and vibration above the window's band is out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import linalg
from scipy.spatial.transform import Rotation

from quadsim.bag.logs.motion import columns_at
from quadsim.base.compiled import plain
from quadsim.base.errors import InputError
from quadsim.lab.identify.flight_data import FlightData, StampedValues
from quadsim.lab.identify.motor_fit import MotorFit, Motors
from quadsim.lab.validate.recorded import near_samples
from quadsim.sim.log import Array, Stamps
from quadsim.vehicle.aerodynamics import STANDARD_DENSITY_KG_M3
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.inflow import LINE_ENDS
from quadsim.vehicle.propulsion.rotors import hub_velocity

#: A window is as long as this, and as so many samples of the slowest of IMU and odometry.
LENGTH_S, SAMPLES = 0.1, 20

#: A signal is not known between samples farther apart than this many usual intervals.
GAP = 3.5

#: A vehicle that began on the ground flies freely from so many radii of its rotors above it on;
#: below, the ground adds to the thrust.
FREE_RADII = 8.0

#: Weight over mass by which the induced velocity of hover is taken, m/s^2.
GRAVITY_MPS2 = 9.80665

#: A rotor that is slower than this share of its usual speed in the flight idles.
IDLE = 0.3

#: An IMU that sits straight is off by less than this, deg; the rest is misalignment.
STRAIGHT_DEG = 8.0

#: Least time in the air, s.
LEAST_S = 10.0


class Windows:
    """Windows of one length, each overlapping half of the next, on an even grid of times.

    Args:
        good: (N,) grid times whose signals are known; a window holds no other.
    """

    def __init__(self, good: NDArray[np.bool_], step_s: float, length_s: float) -> None:
        half = max(4, round(0.5 * length_s / step_s))
        self._half, count = half, 2 * half
        phase = math.pi * np.arange(count + 1) / count
        time_s = step_s * (np.arange(count + 1) - half)
        self._mean = np.sin(phase) ** 2
        self._mean /= self._mean.sum()
        self._slope = np.sin(2.0 * phase)  # -phi', but for a factor: a ramp has its slope
        self._slope /= self._slope @ time_s
        bend = np.cos(2.0 * phase)
        bend[[0, -1]] *= 0.5
        self._bend = bend * 2.0 / (bend @ time_s**2)
        #: Time from one window to the next.
        self.apart_s = half * step_s
        whole = sliding_window_view(good, count + 1)[::half].all(axis=1)
        self.rows: NDArray[np.intp] = np.flatnonzero(whole)
        #: (W,) grid index of each window's middle.
        self.middle: NDArray[np.intp] = self.rows * half + half

    def _weigh(self, x: Array, weight: Array) -> Array:
        views = sliding_window_view(x, len(weight), axis=0)[:: self._half][self.rows]
        return np.asarray(views @ weight)

    def mean(self, x: Array) -> Array:
        """Weighed means of a signal (N, ...), (W, ...)."""
        return self._weigh(x, self._mean)

    def slope(self, x: Array) -> Array:
        """Weighed means of its derivative."""
        return self._weigh(x, self._slope)

    def bend(self, x: Array) -> Array:
        """Weighed means of its second derivative."""
        return self._weigh(x, self._bend)


@dataclass(frozen=True)
class Grid:
    """Signals at N even times.

    Attributes:
        windows: over the stretches in which the vehicle flies and everything is known.
        R_WB: (N, 3, 3) attitude.
        v_W: (N, 3) m/s.
        rate_B: (N, 3) of the odometry, rad/s.
        force_S, gyro_S: (N, 3) of the IMU, rotated to body axes if it sits otherwise.
        speed_radps: (N, n) of the rotors.
        wind_W: (N, 3) m/s, or None where it is not known.
        mount_deg: angle by which the IMU was found to be rotated; 0: straight.
    """

    windows: Windows
    step_s: float
    R_WB: Array
    v_W: Array
    rate_B: Array
    force_S: Array
    gyro_S: Array
    speed_radps: Array
    wind_W: Array | None
    mount_deg: float


def _seconds(stamp_ns: Stamps, start_ns: int) -> Array:
    return np.asarray((stamp_ns - start_ns) * 1e-9)


def motors_of(data: FlightData) -> Motors:
    """Reports and commands of the rotors, from the first report on.

    Raises:
        InputError: something is not there.
    """
    for what, count in (
        ("IMU samples", len(data.imu)),
        ("odometry messages", len(data.odometry)),
        ("motor speeds", len(data.motor_speed)),
    ):
        if count < SAMPLES:
            raise InputError(f"{data.source}: {count} {what}; allowed: a flight of {LEAST_S:g} s")
    start_ns = int(data.motor_speed.stamp_ns[0])
    return Motors(
        _seconds(data.motor_speed.stamp_ns, start_ns),
        data.motor_speed.values,
        _seconds(data.command.stamp_ns, start_ns),
        data.command.values,
    )


def _known(time_s: Array, at_s: Array) -> NDArray[np.bool_]:
    """Times that lie between samples that are close to each other."""
    return near_samples(time_s, at_s, GAP * float(np.median(np.diff(at_s))))


def _flying(height_m: Array, speed_radps: Array, free_m: float) -> NDArray[np.bool_]:
    """Times in free flight: rotors turning, and off the ground if the recording began there."""
    fastest = speed_radps.min(axis=1)
    usual = float(np.median(fastest[fastest > 0.0])) if np.any(fastest > 0.0) else 0.0
    turning = fastest > IDLE * usual
    if usual > 0.0 and not turning[: round(len(turning) * 0.002) + 1].all():
        turning &= height_m > height_m[0] + free_m
    return np.asarray(turning)


def hub_speed_up(air_B: Array, w_B: Array, vehicle: VehicleParams) -> Array:
    """(N, n) speed of the hubs through the air along body z."""
    hubs = np.array(vehicle.rotor_positions_B_m).T
    velocity: Any = plain(hub_velocity)
    return np.asarray(velocity(air_B.T[..., None], w_B.T[..., None], hubs)[2])


def _ahead_of_wakes(
    air_B: Array, rate_B: Array, speed_radps: Array, density_kg_m3: float, vehicle: VehicleParams
) -> NDArray[np.bool_]:
    """Times at which no rotor sinks so fast that its thrust leaves the line over the inflow.

    From a quarter of the induced velocity of hover on it does (``vehicle.propulsion.inflow``).

    Args:
        air_B: (N, 3) velocity through the air, m/s.
        rate_B: (N, 3) rad/s.
        speed_radps: (N, n) of the rotors in flight.
        vehicle: for its mass and the geometry of its rotors.
    """
    if not len(speed_radps):  # none flown, and no median
        return np.zeros(0, np.bool_)
    rotors = speed_radps.shape[1]
    discs_m2 = rotors * np.pi * vehicle.rotor.radius_m**2
    hover_mps = np.sqrt(vehicle.mass_kg * GRAVITY_MPS2 / (2.0 * density_kg_m3 * discs_m2))
    induced_mps = hover_mps * speed_radps / np.median(speed_radps)
    up_mps = hub_speed_up(air_B, rate_B, vehicle)
    return np.asarray((up_mps > -LINE_ENDS * induced_mps).all(axis=1))


def _mount(gyro_S: Array, rate_B: Array) -> tuple[Array, float]:
    """Rotation from sensor to body axes, and its angle in deg; one that is nearly none is none."""
    middle_S, middle_B = gyro_S - gyro_S.mean(axis=0), rate_B - rate_B.mean(axis=0)
    found = linalg.lstsq(middle_S, middle_B)[0].T
    left, _, right = linalg.svd(found)
    R_BS = left @ np.diag([1.0, 1.0, linalg.det(left @ right)]) @ right
    angle_deg = float(np.rad2deg(Rotation.from_matrix(R_BS).magnitude()))
    if angle_deg < STRAIGHT_DEG:
        return np.eye(3), 0.0
    return np.asarray(R_BS), angle_deg


def make_grid(data: FlightData, motors: MotorFit, vehicle: VehicleParams) -> Grid:
    """Put a flight on the grid of its IMU.

    Args:
        motors: for the speeds between reports.
        vehicle: for its mass and the geometry of its rotors.

    Raises:
        InputError: the recordings do not overlap, or hold too little flight.
    """
    start_ns = int(data.motor_speed.stamp_ns[0])
    imu_s = _seconds(data.imu.stamp_ns, start_ns)
    odometry_s = _seconds(data.odometry.stamp_ns, start_ns)
    step_s = float(np.median(np.diff(imu_s)))
    time_s = np.arange(imu_s[0], imu_s[-1] + 0.5 * step_s, step_s)
    imu = columns_at(time_s, imu_s, data.imu.values)
    q_WB = data.odometry.q_WB.copy()
    flips = np.cumsum(np.sum(q_WB[1:] * q_WB[:-1], axis=1) < 0.0) % 2  # q and -q are one attitude
    q_WB[1:][flips == 1] *= -1.0
    q_WB = columns_at(time_s, odometry_s, q_WB)
    rate_B = columns_at(time_s, odometry_s, data.odometry.w_B)
    speed_radps = motors.speeds_at(time_s)
    R_BS, mount_deg = _mount(imu[:, 3:], rate_B)
    good = _known(time_s, imu_s) & _known(time_s, odometry_s)
    good &= _known(time_s, motors.motors.time_s)
    height_m = np.interp(time_s, odometry_s, data.odometry.p_W[:, 2])
    good &= _flying(height_m, speed_radps, FREE_RADII * vehicle.rotor.radius_m)
    R_WB = Rotation.from_quat(np.roll(q_WB, -1, axis=1)).as_matrix()
    v_W = columns_at(time_s, odometry_s, data.odometry.v_W)
    wind_W = _wind(data.wind_W, time_s, start_ns)
    air_B = np.einsum("nji,nj->ni", R_WB, v_W if wind_W is None else v_W - wind_W)
    flown = np.flatnonzero(good)
    good[flown] = _ahead_of_wakes(
        air_B[flown],
        rate_B[flown],
        speed_radps[flown],
        data.air_density_kg_m3 or STANDARD_DENSITY_KG_M3,
        vehicle,
    )
    slowest_s = max(step_s, float(np.median(np.diff(odometry_s))))
    windows = Windows(good, step_s, max(LENGTH_S, SAMPLES * slowest_s))
    free_s = float(good.sum()) * step_s
    if free_s < LEAST_S or len(windows.rows) < LEAST_S:
        raise InputError(
            f"{data.source}: {free_s:.3g} s of free flight in which IMU, odometry and motor speeds"
            f" are all there and no rotor sinks into its wake; allowed: at least {LEAST_S:g} s"
        )
    return Grid(
        windows,
        step_s,
        R_WB,
        v_W,
        rate_B,
        imu[:, :3] @ R_BS.T,
        imu[:, 3:] @ R_BS.T,
        speed_radps,
        wind_W,
        mount_deg,
    )


def _wind(wind_W: StampedValues, time_s: Array, start_ns: int) -> Array | None:
    if not len(wind_W):
        return None
    return columns_at(time_s, _seconds(wind_W.stamp_ns, start_ns), wind_W.values)
