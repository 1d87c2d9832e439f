"""Very many vehicles of one kind at once, for learning, statistics and search.

The drag model of a multirotor and nothing else: thrust k w^2 and drag torque of each rotor, motors
of first order on a full battery, rotor drag and rolling moment, linear body drag, the rotors'
angular momentum, gravity, steady wind, and a ground that stops what falls on it. Vehicles do not
feel each other. The state lies in columns, one for each vehicle; blocks of vehicles are stepped by
vector instructions (:mod:`quadsim.vehicle.batched.kernels`) on several threads.
"""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, threaded
from quadsim.base.errors import FlightError, InputError
from quadsim.base.parameters import pack
from quadsim.geometry.rotation import from_euler
from quadsim.vehicle.batched.control import AttitudeLaw, Gains, control_lane, gains_of
from quadsim.vehicle.batched.kernels import (
    INTEGRAL,
    LANES,
    LAW_ROWS,
    WANTED_Q,
    WANTED_THRUST,
    Airframe,
    clip,
    euler_lane,
    load_block,
    not_finite,
    rk4_lane,
    store_block,
)
from quadsim.vehicle.parameters import LoadParams, TetherParams, VehicleParams
from quadsim.vehicle.propulsion.parameters import MotorParams, RotorParams
from quadsim.vehicle.state import ROTOR, P, Q, V, W
from quadsim.world.air.atmosphere import air_density
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

#: Vehicle steps (a millisecond's work) below which a call is not shared: on a busy machine another
#: thread may take longer to wake up.
SMALL_CALL = 20_000

INTEGRATORS = ("rk4", "explicit_euler")


@kernel
def attitudes_from_euler(angles: Array, q: Array) -> None:
    """Quaternions (4, N) of roll, pitch and yaw (3, N) in rad."""
    for i in range(q.shape[1]):
        q[0, i], q[1, i], q[2, i], q[3, i] = from_euler(angles[0, i], angles[1, i], angles[2, i])


@threaded
def step_blocks(
    columns: Array,
    first: int,
    last: int,
    steps: int,
    dt_s: float,
    rk4: bool,
    controlled: bool,
    body: Airframe,
    gains: Gains,
) -> int:
    """Advance the vehicles of some blocks.

    Args:
        columns: (rows, N) state, rotor commands and the law's rows.
        first, last: the blocks, the last one left out.
        steps: of the integration.
        dt_s: length of a step.
        rk4: by Runge and Kutta; else by Euler.
        controlled: rotor commands come from the attitude law, before each step.
        body: vehicle and world.
        gains: of the attitude law.

    Returns:
        The first vehicle whose state is not finite, -1 without one.
    """
    n = len(body.rotors)
    state, commands = ROTOR + n, ROTOR + 2 * n
    rows = commands + LAW_ROWS
    s = np.empty((rows + 5 * n) * LANES)
    broken = -1
    for block in range(first, last):
        start = block * LANES
        width = min(LANES, columns.shape[1] - start)
        load_block(columns, start, width, 0, state, s)
        if controlled:
            load_block(columns, start, width, commands, rows, s)
        else:
            load_block(columns, start, width, state, commands, s)
            for k in range(state * LANES, commands * LANES):
                s[k] = clip(s[k], 0.0, body.speed_max_radps)
        for _ in range(steps):
            if controlled:
                for i in range(LANES):
                    control_lane(s, i, dt_s, body, gains)
            if rk4:
                for i in range(LANES):
                    rk4_lane(s, i, dt_s, body)
            else:
                for i in range(LANES):
                    euler_lane(s, i, dt_s, body)
        store_block(columns, start, width, 0, state, s)
        if controlled:
            store_block(columns, start, width, state, commands, s)
            store_block(columns, start, width, commands + INTEGRAL, rows, s)
        lane = not_finite(s, state)
        if broken < 0 and lane >= 0:
            broken = start + lane
    return broken


def drag_model(params: VehicleParams) -> VehicleParams:
    """The vehicle as a crowd takes it: all that the drag model does not know is off.

    A :class:`~quadsim.vehicle.fleet.Fleet` of it flies as a crowd does.
    """
    return replace(
        params,
        rotor_drag_N_s2=params.disc_drag_N_s2,
        drag_area_m2=(0.0, 0.0, 0.0),
        rotor=RotorParams(radius_m=params.rotor.radius_m, inertia_kg_m2=params.rotor.inertia_kg_m2),
        motor=MotorParams(),
        load=LoadParams(),
        tether=TetherParams(),
    )


def airframe_of(params: VehicleParams, environment: EnvironmentParams) -> Airframe:
    """What the crowd's model takes of a vehicle and of a world; the air is that at the ground."""
    world: Any = pack(environment)
    ratio = 1.0
    if params.air_density_kg_m3 > 0.0:
        ratio = air_density(world, environment.ground_height_m) / params.air_density_kg_m3
    inertia, drag = params.inertia_kg_m2, params.body_drag_N_s_m
    lowest_m = min((foot[2] for foot in params.contact.points_B_m), default=0.0)
    return Airframe(
        mass_kg=params.mass_kg,
        inertia_kg_m2=inertia,
        inverse_inertia=(1.0 / inertia[0], 1.0 / inertia[1], 1.0 / inertia[2]),
        rotors=tuple(
            (*hub, sense)
            for hub, sense in zip(params.rotor_positions_B_m, params.rotor_directions, strict=True)
        ),
        thrust_N_s2=ratio * params.thrust_coefficient_N_s2,
        torque_ratio_m=params.torque_ratio_m,
        drag_N_s2=ratio * params.disc_drag_N_s2,
        rolling_N_s2=ratio * params.rolling_moment_N_s2,
        rotor_inertia_kg_m2=params.rotor.inertia_kg_m2,
        speed_min_radps=params.rotor_speed_min_radps,
        speed_max_radps=params.rotor_speed_max_radps,
        rate_up_per_s=1.0 / params.time_constant_up_s,
        rate_down_per_s=1.0 / params.time_constant_down_s,
        body_drag_N_s_m=(ratio * drag[0], ratio * drag[1], ratio * drag[2]),
        gravity_mps2=float(world.gravity_mps2),
        gravity_gradient_per_s2=float(world.gravity_gradient_per_s2),
        wind_W_mps=environment.wind_W_mps,
        rest_height_m=environment.ground_height_m - lowest_m,
    )


class Crowd:
    """N vehicles of one kind that share a world and nothing else.

    Args:
        params: the vehicle, of which :func:`drag_model` acts.
        environment: gravity, mean wind and flat ground.
        count: how many vehicles.
        integrator: ``rk4`` or ``explicit_euler``.
        step_ns: length of a step.
        law: the attitude law that runs before each step; None: `rotor_command_radps` is obeyed.
        threads: that share the vehicles; 0: as many as there are processors.

    Attributes:
        p_W, v_W: (3, N) position in m and velocity in m/s.
        q_WB: (4, N) attitude, w first.
        w_B: (3, N) body rates in rad/s.
        rotor_speed_radps, rotor_command_radps: (rotors, N).
        wanted_q_WB, wanted_thrust_N: (4, N) and (N,) what the law goes for; no thrust stops the
            rotors.
        stamp_ns: time since the start.

    All of them are views, to be read and written between steps.

    Raises:
        InputError: an argument is out of range.
    """

    def __init__(
        self,
        params: VehicleParams,
        environment: EnvironmentParams,
        count: int,
        integrator: str = "rk4",
        step_ns: int = 1_000_000,
        law: AttitudeLaw | None = None,
        threads: int = 0,
    ) -> None:
        processors = len(os.sched_getaffinity(0))
        for name, value, low, high in (
            ("count", count, 1, 10**8),
            ("step_ns", step_ns, 1, 10**9),
            ("threads", threads, 0, processors),
        ):
            if not low <= value <= high:
                raise InputError(f"{name}: {value}; allowed: {low} to {high} here")
        if integrator not in INTEGRATORS:
            raise InputError(f"integrator: {integrator!r}; allowed: {' or '.join(INTEGRATORS)}")
        if params.kind != "multirotor":
            raise InputError(f"kind: {params.kind!r}; allowed: multirotor")
        self._body = airframe_of(params, environment)
        self._gains = gains_of(law or AttitudeLaw(), params)
        self._controlled = law is not None
        self._rk4 = integrator == "rk4"
        self._threads = threads or processors
        self._pool = ThreadPoolExecutor(self._threads - 1) if self._threads > 1 else None
        self.count = count
        self.step_ns = step_ns
        self.stamp_ns = 0
        rotors = len(self._body.rotors)
        self._columns = np.zeros((ROTOR + 2 * rotors + LAW_ROWS, count))
        law_row = ROTOR + 2 * rotors
        self.p_W = self._columns[P : P + 3]
        self.v_W = self._columns[V : V + 3]
        self.q_WB = self._columns[Q : Q + 4]
        self.w_B = self._columns[W : W + 3]
        self.rotor_speed_radps = self._columns[ROTOR : ROTOR + rotors]
        self.rotor_command_radps = self._columns[ROTOR + rotors : law_row]
        self.wanted_q_WB = self._columns[law_row + WANTED_Q : law_row + WANTED_Q + 4]
        self.wanted_thrust_N = self._columns[law_row + WANTED_THRUST]
        self.reset()

    def reset(self, which: Any = slice(None)) -> None:
        """Vehicles (an index, a mask or all) back to rest on the ground, level, motors off."""
        self._columns[:, which] = 0.0
        self.p_W[2, which] = self._body.rest_height_m
        self.q_WB[0, which] = 1.0
        self.wanted_q_WB[0, which] = 1.0

    def want(self, roll_pitch_yaw: Array, thrust_N: Array) -> None:
        """Give the attitude law what it goes for: angles (3, N) in rad and collective thrust (N,).

        The same can be written into `wanted_q_WB` and `wanted_thrust_N`.
        """
        attitudes_from_euler(np.ascontiguousarray(roll_pitch_yaw, np.float64), self.wanted_q_WB)
        self.wanted_thrust_N[:] = thrust_N

    def step(self, steps: int = 1) -> None:
        """Advance all vehicles, their commands held.

        Raises:
            FlightError: a vehicle's state is no longer finite; `reset` mends it.
        """
        blocks = -(-self.count // LANES)
        pool = self._pool if steps * self.count > SMALL_CALL else None
        parts = min(blocks, 4 * self._threads) if pool else 1
        bounds = [blocks * k // parts for k in range(parts + 1)]
        rest = (
            steps, self.step_ns * 1e-9, self._rk4, self._controlled, self._body, self._gains
        )  # fmt: skip
        calls = [(self._columns, *part, *rest) for part in itertools.pairwise(bounds)]
        others = [pool.submit(step_blocks, *call) for call in calls] if pool else []
        # this thread takes, from the end, what no other has begun
        turns = reversed(range(parts))
        ends = [step_blocks(*calls[k]) for k in turns if not others or others[k].cancel()]
        ends += [other.result() for other in others if not other.cancelled()]
        broken = [i for i in ends if i >= 0]
        start_ns, self.stamp_ns = self.stamp_ns, self.stamp_ns + steps * self.step_ns
        if broken:
            raise FlightError(
                f"the motion in column {min(broken)} of {self.count} went to infinity between t ="
                f" {start_ns * 1e-9:.3f} s and {self.stamp_ns * 1e-9:.3f} s: the step is too long"
                " for its drag or motors, or a command is not a number"
            )
