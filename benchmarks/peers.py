"""Other simulators of many quadrotors at once, set up to do the work that `crowd.py` measures.

Both are free packages and no dependency of this one: where one is not installed, its figures are
left out.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

try:  # before anything imports scipy, of which it wants a certain setting
    import crazyflow
    import jax
    from crazyflow.sim.integration import Integrator
except ImportError:
    crazyflow = None

from quadsim.vehicle.crowd_law import AttitudeLaw
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion import RotorParams

Array = NDArray[np.float64]

#: Crazyflow 0.4, parameters of ``cf2x_L250``: `dynamics/first_principles/params.toml` and
#: `control/mellinger/params.toml`. Its curves of thrust and torque over the speed, and of the speed
#: over time, have further terms, which cost it the same when they are zero.
RPM = 2.0 * np.pi / 60.0
LEVER_M, THRUST_MIN_N, THRUST_MAX_N, PWM_MAX = 0.03253, 0.012817578393224994, 0.12, 65535.0
THRUST_N_RPM2, TORQUE_RATIO_M, MOTOR_PER_S = 2.4582929831265485e-10, 0.005936, 7.355623702172756
MIXING = ((-1.0, -1.0, 1.0, 1.0), (-1.0, 1.0, 1.0, -1.0), (-1.0, 1.0, -1.0, 1.0))
INERTIA_KG_M2 = (16.8e-6, 16.8e-6, 29.8e-6)
GRAVITY_MPS2, RATE_HZ = 9.81, 500


def crazyflie() -> VehicleParams:
    """Crazyflow's ``cf2x_L250`` for a crowd."""
    thrust = THRUST_N_RPM2 / RPM**2
    return VehicleParams(
        name="Crazyflie 2.x, cf2x_L250 of Crazyflow 0.4",
        mass_kg=0.0328,
        inertia_kg_m2=INERTIA_KG_M2,
        rotor_positions_B_m=tuple(
            (-LEVER_M * pitch, LEVER_M * roll, 0.0) for roll, pitch in zip(*MIXING[:2], strict=True)
        ),
        rotor_directions=tuple(-sense for sense in MIXING[2]),
        thrust_coefficient_N_s2=thrust,
        torque_ratio_m=TORQUE_RATIO_M,
        rotor_speed_min_radps=float(np.sqrt(THRUST_MIN_N / thrust)),
        rotor_speed_max_radps=float(np.sqrt(THRUST_MAX_N / thrust)),
        time_constant_up_s=1.0 / MOTOR_PER_S,
        time_constant_down_s=1.0 / MOTOR_PER_S,
        body_drag_N_s_m=(0.014953790232821078, 0.014953790232821078, 0.013900090000325344),
        rotor=RotorParams(radius_m=0.0231, inertia_kg_m2=34.52e-9),
    )


def firmware_law() -> AttitudeLaw:
    """The gains of the Crazyflie's firmware, from motor commands (PWM) to angular acceleration."""
    level = 2.0 * LEVER_M * THRUST_MAX_N / PWM_MAX  # N m over the PWM of roll and pitch
    yaw = 4.0 * TORQUE_RATIO_M * THRUST_MAX_N / PWM_MAX
    over = np.array([level, level, yaw]) / INERTIA_KG_M2

    def gains(*pwm: float) -> tuple[float, float, float]:
        x, y, z = (float(value) for value in over * pwm)
        return x, y, z

    return AttitudeLaw(
        attitude_per_s2=gains(70000.0, 70000.0, 60000.0),
        rate_per_s=gains(20000.0, 20000.0, 12000.0),
        integral_per_s3=gains(0.0, 0.0, 500.0),
        acceleration=gains(200.0, 200.0, 0.0),
        integral_limit_s=(1.0, 1.0, 1500.0),
        acceleration_limit_radps2=gains(32000.0, 32000.0, 32000.0),
    )


class Crazyflow:
    """N worlds of one Crazyflie: first-principles model, Euler, attitude control at each step."""

    def __init__(self, count: int, height_m: float) -> None:
        numbers = jax.numpy
        sim = crazyflow.Sim(
            n_worlds=count,
            drone="cf2x_L250",
            dynamics=crazyflow.Dynamics.first_principles,
            control=crazyflow.Control.attitude,
            integrator=Integrator.euler,
            freq=RATE_HZ,
            attitude_freq=RATE_HZ,
            force_torque_freq=RATE_HZ,
        )
        curve = numbers.array([[0.0, 0.0, THRUST_N_RPM2]])
        params = sim.data.params.replace(
            rpm2thrust=curve,
            rpm2torque=TORQUE_RATIO_M * curve,
            rotor_dyn_coef=numbers.array([[MOTOR_PER_S, 0.0, MOTOR_PER_S, 0.0]]),
        )
        ours = {"thrust2torque": numbers.array(TORQUE_RATIO_M), "rpm2thrust": curve[0]}
        controls = sim.data.controls
        attitude, thrusts = controls.attitude, controls.force_torque
        controls = controls.replace(
            attitude=attitude.replace(
                params={**attitude.params, "thrust2torque": ours["thrust2torque"]}
            ),
            force_torque=thrusts.replace(params={**thrusts.params, **ours}),
        )
        states = sim.data.states
        hover_rpm = float(np.sqrt(0.0328 * GRAVITY_MPS2 / 4.0 / THRUST_N_RPM2))
        states = states.replace(
            pos=states.pos.at[..., 2].set(height_m),
            rotor_vel=numbers.full_like(states.rotor_vel, hover_rpm),
        )
        sim.data = sim.data.replace(params=params, controls=controls, states=states)
        self._sim = sim

    def want(self, roll_pitch_yaw: Array, thrust_N: Array) -> None:
        """Give the controller what it goes for: angles (3, N) in rad and collective thrust (N,)."""
        command = np.concatenate([roll_pitch_yaw, thrust_N[None]]).T[:, None, :]
        self._sim.attitude_control(jax.numpy.asarray(command, dtype=np.float32))

    def step(self, steps: int) -> None:
        """Advance all worlds, and wait until it is done."""
        self._sim.step(steps)
        jax.block_until_ready(self._sim.data)

    def motion(self) -> tuple[Array, Array]:
        """Positions (3, N) and attitudes (4, N), w first."""
        states = self._sim.data.states
        p_W, q_WB = np.asarray(states.pos[:, 0]).T, np.asarray(states.quat[:, 0]).T
        return p_W.astype(float), np.roll(q_WB, 1, axis=0).astype(float)


def rotorpy_one() -> float:
    """Steps a second of RotorPy's single vehicle (scipy's RK45 over a step of 1 ms).

    Raises:
        ImportError: it is not installed.
    """
    from rotorpy.vehicles.crazyflie_params import quad_params
    from rotorpy.vehicles.multirotor import Multirotor

    vehicle = Multirotor(quad_params)
    state = {name: np.array(value, float) for name, value in vehicle.initial_state.items()}
    control = {"cmd_motor_speeds": np.full(4, 1788.53)}
    state = vehicle.step(state, control, 1e-3)
    start = time.perf_counter()
    for _ in range(500):
        state = vehicle.step(state, control, 1e-3)
    return 500.0 / (time.perf_counter() - start)


def rotorpy_many(count: int) -> float:
    """Vehicle steps a second of RotorPy's batch (torch, fixed-step RK4).

    Raises:
        ImportError: it is not installed (extra ``batched``).
    """
    import torch
    from rotorpy.vehicles.crazyflie_params import quad_params
    from rotorpy.vehicles.multirotor import BatchedMultirotor, BatchedMultirotorParams

    device = torch.device("cpu")
    params = BatchedMultirotorParams([quad_params] * count, count, device)
    zeros = torch.zeros(count, 3, dtype=torch.float64)
    state = {
        "x": zeros.clone(),
        "v": zeros.clone(),
        "q": torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64).repeat(count, 1),
        "w": zeros.clone(),
        "wind": zeros.clone(),
        "rotor_speeds": torch.full((count, 4), 1788.53, dtype=torch.float64),
    }
    vehicle = BatchedMultirotor(params, count, state, device, integrator="rk4")
    control = {"cmd_motor_speeds": torch.full((count, 4), 1788.53, dtype=torch.float64)}
    state = vehicle.step(state, control, 1e-3)
    start = time.perf_counter()
    for _ in range(10):
        state = vehicle.step(state, control, 1e-3)
    return 10.0 * count / (time.perf_counter() - start)
