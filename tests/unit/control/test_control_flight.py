"""The loops closed around a rigid body written here with numpy and scipy alone."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from quadsim.base.compiled import new_record
from quadsim.base.files import find
from quadsim.base.parameters import load, pack
from quadsim.base.records import ATTITUDE_COMMAND, MAX_ROTORS, MODE_POSITION, ODOMETRY, SETPOINT
from quadsim.control.airframe import AirframeParams, pack_airframe
from quadsim.control.inner_loop import inner_loop, new_inner_loop
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import new_position_control, position_control

G = 9.80665
DT = 0.002
DEFAULT = load(AutopilotParams, find("autopilots", "default"))
FCND = load(AutopilotParams, find("autopilots", "fcnd"))

#: An x500-like airframe; motors of the x500.
AIRFRAME = AirframeParams(
    mass_kg=2.06,
    inertia_kg_m2=(0.0238, 0.0239, 0.044),
    rotor_positions_B_m=(
        (0.174, -0.174, 0.06), (-0.174, 0.174, 0.06), (0.174, 0.174, 0.06), (-0.174, -0.174, 0.06),
    ),
    rotor_directions=(1.0, 1.0, -1.0, -1.0),
    thrust_coefficient_N_s2=8.55e-6,
    torque_ratio_m=0.016,
    rotor_speed_min_radps=100.0,
    rotor_speed_max_radps=1000.0,
)  # fmt: skip
UP_S, DOWN_S = 0.0125, 0.025


class Body:
    """A rigid body with four lagging rotors, semi-implicit Euler at 1 kHz, under the two loops."""

    def __init__(self, autopilot=DEFAULT, mass=1.0, rotor_strength=(1, 1, 1, 1)):
        self.mass_kg = mass * AIRFRAME.mass_kg
        self.strength = np.array(rotor_strength, dtype=float)
        self.noise = None
        self.p, self.v, self.w = np.zeros(3), np.zeros(3), np.zeros(3)
        self.R = Rotation.identity()
        hover = math.sqrt(G * self.mass_kg / 4 / AIRFRAME.thrust_coefficient_N_s2)
        self.rotors = np.full(4, hover)
        self.acceleration = np.zeros(3)  # of a push, m/s^2
        self.params = pack(autopilot)
        self.airframe = pack_airframe(AIRFRAME)
        self.outer = new_position_control(autopilot, self.airframe)
        self.inner = new_inner_loop()
        self.odometry, self.setpoint = new_record(ODOMETRY), new_record(SETPOINT)
        self.setpoint.mode = MODE_POSITION
        self.command, self.speeds = new_record(ATTITUDE_COMMAND), np.zeros(MAX_ROTORS)

    def _physics(self, commands, dt):
        error = commands - self.rotors
        self.rotors = self.rotors + dt * error / np.where(error > 0, UP_S, DOWN_S)
        forces = self.strength * AIRFRAME.thrust_coefficient_N_s2 * self.rotors**2
        torque = np.zeros(3)
        directions = AIRFRAME.rotor_directions
        for r, d, f in zip(AIRFRAME.rotor_positions_B_m, directions, forces, strict=True):
            torque += np.cross(r, [0.0, 0.0, f])
            torque[2] -= d * AIRFRAME.torque_ratio_m * f
        inertia = np.array(AIRFRAME.inertia_kg_m2)
        self.w = self.w + dt * (torque - np.cross(self.w, inertia * self.w)) / inertia
        self.R = self.R * Rotation.from_rotvec(dt * self.w)
        thrust = self.R.apply([0.0, 0.0, forces.sum() / self.mass_kg])
        self.v = self.v + dt * (thrust + self.acceleration - [0.0, 0.0, G])
        self.p = self.p + dt * self.v

    def fly(self, seconds, reference=None):
        """Fly and return p (N, 3) and yaw (N,) at each inner step."""
        track = []
        for k in range(round(seconds / DT)):
            x, y, z, w = self.R.as_quat()
            self.odometry.p_W[:], self.odometry.v_W[:] = self.p, self.v
            self.odometry.w_B[:] = self.w
            self.odometry.q_WB[:] = w, x, y, z
            if self.noise is not None:
                self.odometry.w_B[:] += self.noise()
            if k % 10 == 0:
                if reference is not None:
                    p, v, a = reference(k * DT)
                    self.setpoint.p_W[:], self.setpoint.v_W[:], self.setpoint.a_W[:] = p, v, a
                position_control(
                    self.outer, self.params, self.odometry, self.setpoint, 10 * DT, self.command
                )
            commands = self.speeds[:4].copy()  # those of the sample before: one sample of delay
            inner_loop(
                self.inner, self.params, self.airframe, self.odometry, 0.0, self.command, 0.0, DT,
                self.speeds,
            )  # fmt: skip
            for _ in range(2):
                self._physics(commands if k else self.rotors, 0.5 * DT)
            track.append([*self.p, self.R.as_euler("ZYX")[0]])
        return np.array(track)


@pytest.mark.parametrize("autopilot", [DEFAULT, FCND], ids=["default", "fcnd"])
@pytest.mark.parametrize("axis", [0, 2])  # to the left it flies as to the right, below
def test_a_step_of_a_metre_settles_without_overshoot_above_ten_percent(autopilot, axis):
    body = Body(autopilot)
    body.setpoint.p_W[axis] = 1.0
    track = body.fly(4.0)
    along = track[:, axis]
    assert along.max() < 1.10
    assert abs(along[-1] - 1.0) < 0.03
    rise_s = DT * (np.argmax(along > 0.9) - np.argmax(along > 0.1))
    assert 0.3 < rise_s < 1.8
    others = np.delete(track[:, :3], axis, axis=1)
    assert np.abs(others).max() < 0.12  # what tilting takes from the height at most


def test_a_yaw_step_across_the_wrap_goes_the_short_way():
    body = Body()
    body.R = Rotation.from_euler("ZYX", [3.0, 0.0, 0.0])
    body.setpoint.yaw = -2.5  # 0.78 rad onwards
    yaw = np.unwrap(body.fly(3.0)[:, 3])
    goal = 2 * math.pi - 2.5
    assert yaw.min() > 2.99
    assert yaw[-1] == pytest.approx(goal, abs=0.02)
    assert yaw.max() < goal + 0.1 * (goal - 3.0)


def test_left_and_right_fly_alike():
    tracks = []
    for side in (1.0, -1.0):
        body = Body()
        body.setpoint.p_W[:] = (0.5, side * 1.0, 0.3)
        tracks.append(body.fly(1.0))
    np.testing.assert_allclose(tracks[0] * [1, -1, 1, -1], tracks[1], atol=1e-9)


def test_a_smooth_circle_is_followed_closely():
    # radius 2 m, 2 rad/s: 4 m/s and 8 m/s^2 would be at the limits; 1.5 rad/s is 3 m/s, 4.5 m/s^2
    rate, radius = 1.5, 2.0

    def circle(t):
        c, s = math.cos(rate * t), math.sin(rate * t)
        p = np.array([radius * c, radius * s, 0.0])
        return p, rate * np.array([-p[1], p[0], 0.0]), -(rate**2) * p

    body = Body()
    body.p = np.array([radius, 0.0, 0.0])
    body.v = np.array([0.0, rate * radius, 0.0])
    track = body.fly(6.0, circle)
    times = DT * np.arange(1, len(track) + 1)
    wanted = np.array([circle(t)[0] for t in times])
    error = np.linalg.norm(track[:, :3] - wanted, axis=1)[round(2.0 / DT) :]
    assert math.sqrt(np.mean(error**2)) < 0.10  # the bound for a feasible trajectory


def test_a_wrong_mass_is_carried_by_the_integral():
    body = Body(mass=1.2)
    track = body.fly(8.0)  # the integral's time constant is 2.5 s
    assert np.abs(track[:, 2]).max() < 0.5
    assert abs(track[-1, 2]) < 0.02


def test_a_weak_motor_and_a_steady_push_are_carried_by_the_integrals():
    body = Body(rotor_strength=(0.8, 1, 1, 1))
    body.acceleration = np.array([1.0, -0.5, 0.0])
    track = body.fly(8.0)
    assert np.abs(track[:, :3]).max() < 0.5
    np.testing.assert_allclose(track[-1], 0.0, atol=0.03)


def test_the_noise_of_the_fcnd_gyroscope_is_flown_well():
    body = Body(FCND)
    rng = np.random.default_rng(5)
    body.noise = lambda: rng.normal(0.0, 0.5, 3)
    track = body.fly(4.0)
    # noise of 0.5 rad/s a sample gives 0.5 / sqrt(12.5) of attitude wander in 80 ms (gain 8 1/s),
    # some 0.014 rad; its slow part moves the vehicle by less than a decimetre
    assert np.abs(track[:, :3]).max() < 0.1
    assert math.degrees(np.arccos(body.R.as_matrix()[2, 2])) < 10.0


def test_an_upset_of_a_hundred_degrees_is_caught():
    body = Body()
    body.p = np.array([0.0, 0.0, 20.0])
    body.setpoint.p_W[2] = 20.0
    body.R = Rotation.from_euler("ZYX", [0.4, 0.3, 1.7])
    body.setpoint.yaw = 0.4
    body.w = np.array([2.0, -1.0, 0.5])
    body.fly(4.0)
    assert body.p[2] > 10.0
    assert body.R.as_matrix()[2, 2] > 0.99
    assert np.linalg.norm(body.w) < 0.3
