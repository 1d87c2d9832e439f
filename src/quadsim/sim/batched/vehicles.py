"""Very many vehicles of one kind at once, for learning, statistics and search.

Rotors, airframe and motion are those of a :class:`~quadsim.vehicle.fleet.Fleet`, by the same
functions; :func:`as_flown` lists what is left out. Vehicles do not feel each other. The state lies
in columns, one for each vehicle; blocks of vehicles are stepped by vector instructions
(:mod:`quadsim.sim.batched.kernels`) on several threads.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import Records, kernel, threaded
from quadsim.base.crew import FOUND, GIVEN, PARTS, Crew, Words, end_part, goes_on, next_part, seen
from quadsim.base.errors import FlightError, InputError
from quadsim.base.parameters import pack
from quadsim.base.records import MAX_ROTORS
from quadsim.base.scratch import scratch
from quadsim.control.airframe import Airframe, known_airframe, pack_airframe
from quadsim.control.parameters import AutopilotParams
from quadsim.geometry.rotation import from_euler
from quadsim.sim.batched.kernels import (
    AERO_ROWS,
    LANES,
    LAW_ROWS,
    NEAR_RAD,
    RUNNING,
    WANTED_Q,
    WANTED_THRUST,
    WANTED_YAW_RATE,
    WORK_ROWS,
    Law,
    Marks,
    World,
    control_lanes,
    derive_lanes,
    figures_of,
    finish_lanes,
    is_finite,
    law_of,
    load_block,
    marks_of,
    mix_lanes,
    near_euler,
    store_block,
    write,
)
from quadsim.vehicle.formalisms.integrators import mean_derivative
from quadsim.vehicle.parameters import LoadParams, TetherParams, VehicleParams
from quadsim.vehicle.propulsion.parameters import MotorParams, RotorParams
from quadsim.vehicle.state import ROTOR, P, Q, V, W
from quadsim.world.air.atmosphere import air_density
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

#: Vehicle steps for which a further thread is called, 50 us of work and more; and those from which
#: on it is worth waking one that sleeps.
SMALL_CALL, LARGE_CALL = 500, 5000
#: Parts of a call for each thread: a thread that comes late takes fewer.
PARTS_EACH = 4

INTEGRATORS = ("rk4", "explicit_euler")

_room = scratch(6 * LANES)


@kernel
def write_attitudes(roll_pitch: Array, columns: Array, row: int) -> None:
    """Quaternions of roll and pitch (2, N) in rad into four rows of columns.

    A block of angles up to a right one takes vector instructions, and has the same bits.
    """
    s = _room()
    for start in range(0, roll_pitch.shape[1], LANES):
        width = min(LANES, roll_pitch.shape[1] - start)
        for k in range(2):
            for i in range(LANES):
                s[k * LANES + i] = 0.0
            for i in range(width):
                s[k * LANES + i] = roll_pitch[k, start + i]
        far = 0
        for i in range(2 * LANES):
            far += 0 if abs(s[i]) <= NEAR_RAD else 1
        if far == 0:
            for i in range(LANES):
                write(s, 2, i, near_euler(s[i], s[LANES + i]))
        else:
            for i in range(LANES):
                write(s, 2, i, from_euler(s[i], s[LANES + i], 0.0))
        for k in range(4):
            for i in range(width):
                columns[row + k, start + i] = s[(2 + k) * LANES + i]


@threaded
def step_blocks(
    columns: Array,
    first: int,
    last: int,
    steps: int,
    dt_s: float,
    stages: int,
    controlled: bool,
    body: Any,
    world: World,
    marks: Marks,
    law: Law,
    airframes: Records[Airframe],
) -> bool:
    """Advance the vehicles of some blocks.

    Args:
        columns: (rows, at least LANES blocks) state, rotor commands and the law's rows.
        first, last: the blocks, the last one left out.
        steps: of the integration.
        dt_s: length of a step.
        stages: of the integrator, 4 or 1.
        controlled: rotor commands come from the attitude law, before each step.
        body: VehicleFigures.
        world: for these vehicles.
        marks: the effects of their rotors.
        law: of attitude.
        airframes: (1,) as the law knows the vehicle.

    Returns:
        Whether all states are finite.
    """
    n = len(body.rotor_directions)
    state, commands = ROTOR + n, ROTOR + 2 * n
    rows = commands + LAW_ROWS
    s = np.empty((rows + WORK_ROWS) * LANES)
    x, asked = s[: state * LANES], s[state * LANES : commands * LANES]
    slopes, speeds, total = np.empty((3, state * LANES)), np.empty(MAX_ROTORS), np.empty(LANES)
    model = (asked, np.empty(AERO_ROWS * LANES), body, world, marks)
    finite = True
    for block in range(first, last):
        load_block(columns, block, 0, rows, s)
        if not controlled:
            for k in range(len(asked)):
                asked[k] = min(max(asked[k], 0.0), body.rotor_speed_max_radps)
        for _ in range(steps):
            if controlled:
                control_lanes(s, law, body)
                mix_lanes(s, n, airframes[0], speeds)
            mean = mean_derivative(derive_lanes, x, model, dt_s, stages, slopes)
            for k in range(len(x)):
                x[k] += dt_s * mean[k]
            finish_lanes(x, world.rest_height_m)
        store_block(columns, block, 0, state, s)
        if controlled:
            store_block(columns, block, state, commands, s)
            store_block(columns, block, commands + RUNNING, rows, s)
        finite = is_finite(s, state, total) and finite
    return finite


@threaded
def step_parts(
    columns: Array,
    blocks: int,
    dt_s: float,
    stages: int,
    controlled: bool,
    body: Any,
    world: World,
    marks: Marks,
    law: Law,
    airframes: Records[Airframe],
    words: Words,
    seat: int,
) -> bool:
    """Take parts of a call: the work of a :class:`~quadsim.base.crew.Crew`, given the steps.

    The others are arguments of :func:`step_blocks`. It finds 1 if a state is not finite.
    """
    more = True
    while more:
        job, part = seen(words, seat), next_part(words, seat)
        while part >= 0:
            first, last = blocks * part // words[PARTS], blocks * (part + 1) // words[PARTS]
            finite = step_blocks(
                columns, first, last, words[GIVEN], dt_s, stages, controlled, body, world, marks,
                law, airframes,
            )  # fmt: skip
            if not finite:
                words[FOUND] = 1
            end_part(words)
            part = next_part(words, seat)
        more = goes_on(words, seat, job)
        if seat == 0:
            break
    return more


def as_flown(params: VehicleParams) -> VehicleParams:
    """The vehicle as a batch flies it: on a full battery, without ground effect and ropes.

    Motors are of first order. A :class:`~quadsim.vehicle.fleet.Fleet` of it flies as a batch does.
    """
    return replace(
        params,
        rotor=replace(params.rotor, ground_effect="none"),
        motor=MotorParams(),
        load=LoadParams(),
        tether=TetherParams(),
    )


def drag_model(params: VehicleParams) -> VehicleParams:
    """A vehicle whose thrust goes with the squared speed and whose drag is linear: the fastest."""
    return as_flown(
        replace(
            params,
            rotor_drag_N_s2=params.disc_drag_N_s2,
            drag_area_m2=(0.0, 0.0, 0.0),
            rotor=RotorParams(
                radius_m=params.rotor.radius_m, inertia_kg_m2=params.rotor.inertia_kg_m2
            ),
        )
    )


def world_of(params: VehicleParams, environment: EnvironmentParams) -> World:
    """What a batch takes of a world: steady wind, and everywhere the air that is at the ground."""
    world: Any = pack(environment)
    ratio = 1.0
    if params.air_density_kg_m3 > 0.0:
        ratio = air_density(world, environment.ground_height_m) / params.air_density_kg_m3
    lowest_m = min((foot[2] for foot in params.contact.points_B_m), default=0.0)
    return World(
        gravity_mps2=float(world.gravity_mps2),
        gravity_gradient_per_s2=float(world.gravity_gradient_per_s2),
        wind_W_mps=environment.wind_W_mps,
        density_ratio=ratio,
        rest_height_m=environment.ground_height_m - lowest_m,
    )


class VehicleBatch:
    """N vehicles of one kind that share a world and nothing else.

    Args:
        params: the vehicle, of which :func:`as_flown` acts.
        environment: gravity, mean wind and flat ground.
        count: how many vehicles.
        integrator: ``rk4`` or ``explicit_euler``.
        step_ns: length of a step.
        autopilot: whose attitude law runs before each step; None: `rotor_command_radps` is obeyed.
        threads: that share the vehicles; 0: as many as there are processors.

    Attributes:
        p_W, v_W: (3, N) position in m and velocity in m/s.
        q_WB: (4, N) attitude, w first.
        w_B: (3, N) body rates in rad/s.
        rotor_speed_radps, rotor_command_radps: (rotors, N).
        wanted_q_WB: (4, N) attitude that the law goes for, of any heading.
        wanted_yaw_rate_radps, wanted_thrust_mps2: (N,) yaw rate about the vertical, and collective
            thrust over the mass; zero stops the rotors.
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
        autopilot: AutopilotParams | None = None,
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
        flown, known = as_flown(params), pack_airframe(known_airframe(params))
        airframes: Any = np.zeros(1, known.dtype)
        airframes[0] = known
        self._world = world_of(params, environment)
        rest = (
            step_ns * 1e-9, 4 if integrator == "rk4" else 1, autopilot is not None,
            figures_of(flown), self._world, marks_of(flown),
            law_of(autopilot or AutopilotParams(), known, step_ns * 1e-9), airframes,
        )  # fmt: skip
        self.count = count
        self.step_ns = step_ns
        self.stamp_ns = 0
        rotors = len(params.rotor_directions)
        law_row = ROTOR + 2 * rotors
        # an odd number of blocks, as rows that lie a power of two apart leave the caches early
        blocks = -(-count // LANES)
        columns = np.zeros((law_row + LAW_ROWS, LANES * (blocks | 1)))
        columns[P + 2], columns[Q] = self._world.rest_height_m, 1.0
        columns[law_row + WANTED_Q] = 1.0
        self._columns, self._wanted = columns[:, :count], (columns, law_row + WANTED_Q)
        self.p_W = self._columns[P : P + 3]
        self.v_W = self._columns[V : V + 3]
        self.q_WB = self._columns[Q : Q + 4]
        self.w_B = self._columns[W : W + 3]
        self.rotor_speed_radps = self._columns[ROTOR : ROTOR + rotors]
        self.rotor_command_radps = self._columns[ROTOR + rotors : law_row]
        self.wanted_q_WB = self._columns[law_row + WANTED_Q : law_row + WANTED_Q + 4]
        self.wanted_yaw_rate_radps = self._columns[law_row + WANTED_YAW_RATE]
        self.wanted_thrust_mps2 = self._columns[law_row + WANTED_THRUST]
        self._threads, self._blocks = threads or processors, blocks
        self._crew = Crew(self._threads, partial(step_parts, columns, blocks, *rest))
        self.reset()

    def reset(self, which: Any = slice(None)) -> None:
        """Vehicles (an index, a mask or all) back to rest on the ground, level, motors off."""
        self._columns[:, which] = 0.0
        self.p_W[2, which] = self._world.rest_height_m
        self.q_WB[0, which] = 1.0
        self.wanted_q_WB[0, which] = 1.0

    def want(self, roll_pitch: Array, yaw_rate_radps: Array, thrust_mps2: Array) -> None:
        """Give the attitude law what it goes for: angles (2, N) in rad, yaw rate and thrust (N,).

        The same can be written into `wanted_q_WB` and the other two.

        Raises:
            InputError: angles of another shape.
        """
        angles = np.ascontiguousarray(roll_pitch, np.float64)
        if angles.shape != (2, self.count):
            raise InputError(f"roll_pitch: of shape {angles.shape}; needed: (2, {self.count})")
        write_attitudes(angles, *self._wanted)
        self.wanted_yaw_rate_radps[:] = yaw_rate_radps
        self.wanted_thrust_mps2[:] = thrust_mps2

    def step(self, steps: int = 1) -> None:
        """Advance all vehicles, their commands held.

        Raises:
            FlightError: a vehicle's state is no longer finite; `reset` mends it.
        """
        work = steps * self.count
        others = min(self._threads - 1, work // SMALL_CALL)
        parts = min(self._blocks, PARTS_EACH * (others + 1)) if others else 1
        broken = self._crew.do(parts, steps, others, work > LARGE_CALL)
        start_ns, self.stamp_ns = self.stamp_ns, self.stamp_ns + steps * self.step_ns
        if broken:
            state = self._columns[: ROTOR + len(self.rotor_speed_radps)]
            first = np.argmin(np.isfinite(state.sum(axis=0)))
            raise FlightError(
                f"the motion in column {first} of {self.count} went to infinity between t ="
                f" {start_ns * 1e-9:.3f} s and {self.stamp_ns * 1e-9:.3f} s: the step is too long"
                " for its drag or motors, or a command is not a number"
            )
