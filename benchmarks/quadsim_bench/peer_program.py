"""Other simulators, run in an environment of their own and asked line by line.

It knows nothing of quadsim: ``python -I peer_program.py`` reads a JSON object a line, does one
piece of work and answers with one. Both simulators are free packages:

- ``crazyflow``: N worlds of one Crazyflie, first-principles model on the processor, Euler at
  500 Hz, attitude control at each step.
- ``rotorpy``: its environment's own loop: Hummingbird, SE(3) control, IMU and motion capture at
  each step, RK45.
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from importlib.metadata import distributions
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Crazyflow 0.4, parameters of ``cf2x_L250``: `dynamics/first_principles/params.toml` and
#: `control/mellinger/params.toml`. Its curves of thrust and torque over the speed, and of the speed
#: over time, have further terms, which cost it the same when they are zero.
THRUST_N_RPM2, TORQUE_RATIO_M, MOTOR_PER_S = 2.4582929831265485e-10, 0.005936, 7.355623702172756
MASS_KG, GRAVITY_MPS2, RATE_HZ, HEIGHT_M = 0.0328, 9.81, 500, 1.0

#: Steps in one call with commands held; calls of one step with a command each.
STEPS, FRESH = 100, 10


def commands(count: int) -> tuple[Array, Array]:
    """Roll, pitch and yaw (3, N) of up to 0.05 rad, thrusts (N,) about the weight, in N."""
    rng = np.random.default_rng(2)
    thrust_N = MASS_KG * GRAVITY_MPS2 * rng.uniform(0.9, 1.1, count)
    return rng.uniform(-0.05, 0.05, (3, count)), thrust_N


class Flyers(ABC):
    """What steps many vehicles; ours and theirs are timed by the same calls."""

    @abstractmethod
    def want(self, roll_pitch_yaw: Array, thrust_N: Array) -> None:
        """Give the controllers what they go for: (3, N) rad, (N,) N."""

    @abstractmethod
    def step(self, steps: int) -> None:
        """Advance all."""

    @abstractmethod
    def motion(self) -> tuple[Array, Array]:
        """Positions (3, N) and attitudes (4, N), w first."""

    def held_s(self, count: int) -> float:
        """Time of a hundred steps in one call."""
        self.want(*commands(count))
        begin_s = time.perf_counter()
        self.step(STEPS)
        return time.perf_counter() - begin_s

    def fresh_s(self, count: int) -> float:
        """Time of ten calls of a step, each with a command of its own."""
        angles, thrust_N = commands(count)
        begin_s = time.perf_counter()
        for k in range(FRESH):
            self.want(angles * (1.0 - 0.01 * k), thrust_N)
            self.step(1)
        return time.perf_counter() - begin_s


class Crazyflow(Flyers):
    """Worlds of Crazyflow, each with one Crazyflie in the air at hover."""

    def __init__(self, count: int) -> None:
        import crazyflow
        import jax
        from crazyflow.sim.integration import Integrator

        self._jax: Any = jax
        numbers = jax.numpy
        sim: Any = crazyflow.Sim(
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
        hover_rpm = float(np.sqrt(MASS_KG * GRAVITY_MPS2 / 4.0 / THRUST_N_RPM2))
        states = states.replace(
            pos=states.pos.at[..., 2].set(HEIGHT_M),
            rotor_vel=numbers.full_like(states.rotor_vel, hover_rpm),
        )
        sim.data = sim.data.replace(params=params, controls=controls, states=states)
        self._sim = sim

    def want(self, roll_pitch_yaw: Array, thrust_N: Array) -> None:
        """As the base class says."""
        command = np.concatenate([roll_pitch_yaw, thrust_N[None]]).T[:, None, :]
        self._sim.attitude_control(self._jax.numpy.asarray(command, dtype=np.float32))

    def step(self, steps: int) -> None:
        """Advance all worlds, and wait until it is done."""
        self._sim.step(steps)
        self._jax.block_until_ready(self._sim.data)

    def motion(self) -> tuple[Array, Array]:
        """As the base class says."""
        states = self._sim.data.states
        p_W, q_WB = np.asarray(states.pos[:, 0]).T, np.asarray(states.quat[:, 0]).T
        return p_W.astype(float), np.roll(q_WB, 1, axis=0).astype(float)


class Rotorpy:
    """RotorPy's environment: a Hummingbird on a circle of 2 m."""

    def __init__(self) -> None:
        os.environ.setdefault("MPLBACKEND", "Agg")  # it draws, if asked to
        from rotorpy.controllers.quadrotor_control import SE3Control
        from rotorpy.environments import Environment
        from rotorpy.trajectories.circular_traj import ThreeDCircularTraj
        from rotorpy.vehicles.hummingbird_params import quad_params
        from rotorpy.vehicles.multirotor import Multirotor

        circle = ThreeDCircularTraj(radius=np.array([2.0, 2.0, 0.0]), freq=np.full(3, 0.2))
        vehicle = Multirotor(quad_params)
        vehicle.initial_state["x"] = np.array([2.0, 0.0, 0.0])
        self._environment: Any = Environment(
            vehicle, SE3Control(quad_params), circle, sim_rate=RATE_HZ
        )

    def fly(self, seconds: float) -> dict[str, float]:
        """Time that its run takes, time flown, and how far it is from the circle in the end."""
        begin_s = time.perf_counter()
        result = self._environment.run(t_final=seconds, terminate=False, plot=False)
        taken_s = time.perf_counter() - begin_s
        away_m = np.linalg.norm(result["state"]["x"][-1] - result["flat"]["x"][-1])
        return {"s": taken_s, "flown_s": float(result["time"][-1]), "away_m": float(away_m)}


def installed() -> dict[str, str]:
    """Versions of what is there."""
    names = ("crazyflow", "jax", "rotorpy", "numpy", "scipy")
    there = {each.metadata["Name"]: each.version for each in distributions()}
    return {name: there[name] for name in names if name in there}


def answers() -> None:
    """Answer each line of standard input, until it ends."""
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    made: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        work, count = asked["work"], asked.get("count", 0)
        if work == "installed":
            found: dict[str, Any] = installed()
        elif work == "rotorpy":
            if "rotorpy" not in made:
                made["rotorpy"] = Rotorpy()
            found = made["rotorpy"].fly(asked["seconds"])
        else:
            if "crazyflow" not in made:
                made["crazyflow"] = Crazyflow(count)
            many: Crazyflow = made["crazyflow"]
            if work == "moved":
                many.want(*commands(count))
                many.step(RATE_HZ // 2)
                p_W, q_WB = many.motion()
                found = {"p_W": p_W.tolist(), "q_WB": q_WB.tolist()}
            else:
                found = {"s": many.held_s(count) if work == "held" else many.fresh_s(count)}
        said.write(json.dumps(found) + "\n")
        said.flush()


if __name__ == "__main__":
    answers()
