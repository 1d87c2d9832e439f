"""Kernels of a batch: many vehicles side by side, one in each lane of the processor's registers.

A block of ``LANES`` vehicles lies in a small array, one row for each number of the state, one
column (lane) for each vehicle. A loop over the lanes of plain arithmetic, with no branch and with
distances in memory that the compiler knows, becomes vector instructions. Each lane's arithmetic is
that of one vehicle alone: neither the lane nor the threads change a bit of the result.

The physics is the functions that a single vehicle's step calls, and the attitude law is the inner
loop's. They read figures by name from packed parameters there, from tuples here, whose numbers the
compiler knows not to change.
"""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import inline, kernel, plain
from quadsim.base.elementary import _cos_near, _sin_near
from quadsim.base.parameters import Vec3, pack
from quadsim.control.airframe import Airframe
from quadsim.control.attitude import (
    control_rate,
    is_idle,
    rate_gain_and_lead,
    rates_against,
    skew_torque,
    thrust_limits,
    tilt_from_up,
    torque_of,
    up_commanded,
)
from quadsim.control.mixer import equal_speeds, mix
from quadsim.control.parameters import AttitudeParams, AutopilotParams
from quadsim.control.pid import low_pass_weight
from quadsim.geometry.inertia import has_products, over_tensor
from quadsim.geometry.rotation import (
    Quat,
    apply,
    apply_inverse,
    multiply,
    normalize,
    to_matrix_scaled,
)
from quadsim.geometry.vector import add, scale, subtract, vec3
from quadsim.vehicle.aerodynamics import body_drag
from quadsim.vehicle.forces import accelerations, is_skew, skew_rates
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.motors import follow_speed
from quadsim.vehicle.propulsion.parameters import RotorParams
from quadsim.vehicle.propulsion.rotors import (
    Effects,
    add_rotor,
    add_tilted_rotor,
    effects_of,
)
from quadsim.vehicle.state import ROTOR, P, Q, V, W
from quadsim.world.earth.gravity import gravity_at

Array = NDArray[np.float64]

#: Vehicles of a block: its rows, 256 bytes each, stay in the processor's first cache.
LANES = 32

#: Angles up to here are those of :func:`near_euler`.
NEAR_RAD = 0.5 * math.pi

#: Rows of a block after the state and the rotors' commands: what the attitude law goes for
#: (attitude, yaw rate, specific thrust), and what it remembers.
WANTED_Q, WANTED_YAW_RATE, WANTED_THRUST, RUNNING, LAST_W, INTEGRAL, CUT = 0, 4, 5, 6, 7, 10, 13
LAW_ROWS = 16
#: Rows behind them, which last for one call of the law: thrust and torque, and whether the rotors
#: give them.
WRENCH, CLEAN, TILT, WORK_ROWS = LAW_ROWS, LAW_ROWS + 4, LAW_ROWS + 5, 8

#: Rows of a derivative's working memory: velocity through the air, wrench of the rotors, their
#: momentum over their inertia and its derivative; both as vectors where rotors are tilted.
AIR, WRENCH_SUM, SPIN, SPIN_B, AERO_ROWS = 0, 3, 9, 11, 17


def _numbers(cls: Any) -> list[str]:
    """Names of a parameter class's fields that are no groups."""
    return [f.name for f in fields(cls) if f.name != "name" and not f.name.endswith("_layout")]


def _figures(name: str, names: Any) -> Any:
    """A class of tuples with these fields, which this module keeps under its name."""
    return namedtuple(name, names)


_GROUPS = ("helicopter", "motor", "contact", "battery", "load", "tether", "recorder")
RotorFigures = _figures("RotorFigures", _numbers(RotorParams))
VehicleFigures = _figures(
    "VehicleFigures", [name for name in _numbers(VehicleParams) if name not in _GROUPS]
)
AttitudeFigures = _figures("AttitudeFigures", _numbers(AttitudeParams))


class World(NamedTuple):
    """What a batch takes of the world; the density is over that at which figures hold."""

    gravity_mps2: float
    gravity_gradient_per_s2: float
    wind_W_mps: Vec3
    density_ratio: float
    rest_height_m: float  # of the centre of mass where the vehicle stands on the ground


class Marks(NamedTuple):
    """Effects of the rotors as tuples of one number where they are there, else of none.

    The last stands for tilted rotors and products of inertia. The length is known to the compiler,
    which leaves out of the loop what is not there.
    """

    momentum: tuple[float, ...]
    descent: tuple[float, ...]
    flapping: tuple[float, ...]
    residual: tuple[float, ...]
    torque_residual: tuple[float, ...]
    asymmetry: tuple[float, ...]
    skew: tuple[float, ...]


class Law(NamedTuple):
    """The inner loop's attitude law for one vehicle and one time between its steps."""

    attitude: Any  # AttitudeFigures
    slower: tuple[float, float]
    weight: float
    dt_s: float
    shares: tuple[tuple[float, float, float, float], ...]  # each rotor's thrust of (F, torque)
    limits: tuple[float, float, float, float]  # of :func:`limits_of`
    skew: tuple[float, ...]  # as in Marks


def as_tuples(packed: Any, kind: Any) -> Any:
    """Packed parameters as a tuple with fields of the same names."""

    def immutable(value: Any) -> Any:
        return tuple(map(immutable, value)) if isinstance(value, list) else value

    return kind(
        *(
            as_tuples(packed[name], RotorFigures)
            if name == "rotor"
            else immutable(packed[name].tolist())
            for name in kind._fields
        )
    )


def figures_of(params: VehicleParams) -> Any:
    """VehicleFigures of a vehicle."""
    found = as_tuples(pack(params), VehicleFigures)
    upright = ((0.0, 0.0, 1.0),) * len(params.rotor_directions)
    return found._replace(
        rotor_positions_B_m=params.rotor_positions_B_m,
        rotor_directions=params.rotor_directions,
        rotor_axes_B=params.rotor_axes_B or upright,
    )


def marks_of(params: VehicleParams) -> Marks:
    """The effects of a vehicle's rotors."""
    packed: Any = pack(params)
    there = (*plain(effects_of)(packed), plain(is_skew)(packed))
    return Marks(*(((1.0,) if each else ()) for each in there))


def law_of(params: AutopilotParams, airframe: Airframe, dt_s: float) -> Law:
    """The attitude law for a vehicle, called in steps of one length."""
    attitude = as_tuples(pack(params.attitude), AttitudeFigures)
    shares = [(float(a), float(b), float(c), float(d)) for a, b, c, d in airframe.allocation]
    return Law(
        attitude,
        plain(rate_gain_and_lead)(attitude, airframe.motor_lag_s),
        plain(low_pass_weight)(attitude.gyro_cutoff_hz, dt_s),
        dt_s,
        tuple(shares[: airframe.rotors]),
        limits_of(airframe, params.attitude.thrust_reserve),
        (1.0,) if plain(has_products)(vec3(airframe.inertia_products_kg_m2)) else (),
    )


def limits_of(airframe: Airframe, reserve: float) -> tuple[float, float, float, float]:
    """Least and most specific thrust in m/s^2, and of a rotor's thrust in N."""
    least, most = plain(thrust_limits)(reserve, airframe)
    lowest, highest = airframe.rotor_thrust_min_N, airframe.rotor_thrust_max_N
    return (float(least), float(most), float(lowest), float(highest))


@inline
def near_euler(roll: float, pitch: float) -> Quat:
    """Quaternion of roll and pitch up to NEAR_RAD: the bits of ``from_euler``, and no branch."""
    cr, sr = _cos_near(0.5 * roll, 0.0), _sin_near(0.5 * roll, 0.0)
    cp, sp = _cos_near(0.5 * pitch, 0.0), _sin_near(0.5 * pitch, 0.0)
    return (
        cr * cp + sr * sp * 0.0,
        sr * cp - cr * sp * 0.0,
        cr * sp + sr * cp * 0.0,
        cr * cp * 0.0 - sr * sp,
    )


@inline
def load_block(columns: Array, block: int, first: int, last: int, s: Array) -> None:
    """Copy rows of a block's vehicles."""
    for k in range(first, last):
        for i in range(LANES):
            s[k * LANES + i] = columns[k, block * LANES + i]


@inline
def store_block(columns: Array, block: int, first: int, last: int, s: Array) -> None:
    """Copy rows of a block's vehicles back."""
    for k in range(first, last):
        for i in range(LANES):
            columns[k, block * LANES + i] = s[k * LANES + i]


@kernel
def is_finite(s: Array, rows: int, total: Array) -> bool:
    """Whether the first rows of all lanes are; ``total``: working memory, (LANES,)."""
    for i in range(LANES):
        total[i] = 0.0
    for k in range(rows):
        for i in range(LANES):
            total[i] += s[k * LANES + i]
    found = True
    for i in range(LANES):
        found = found and bool(np.isfinite(total[i]))
    return found


@inline
def read3(s: Array, row: int, i: int) -> Vec3:
    """Three rows of lane ``i``."""
    k = row * LANES + i
    return (s[k], s[k + LANES], s[k + 2 * LANES])


@inline
def read4(s: Array, row: int, i: int) -> Quat:
    """Four rows of lane ``i``."""
    k = row * LANES + i
    return (s[k], s[k + LANES], s[k + 2 * LANES], s[k + 3 * LANES])


@inline
def write(s: Array, row: int, i: int, values: tuple[float, ...]) -> None:
    """Rows of lane ``i`` from a tuple."""
    for k in range(len(values)):
        s[(row + k) * LANES + i] = values[k]


@inline
def derive_lanes(s: Array, model: tuple[Array, Array, Any, World, Marks], s_dot: Array) -> None:
    """Derivative of a block's states.

    Args:
        s: the block.
        model: the rotors' commands, rows of a block; AERO_ROWS of working memory; VehicleFigures;
            the world; the effects.
        s_dot: of which the rows of the state are written.
    """
    commands, work, body, world, marks = model
    effects = Effects(
        len(marks.momentum) > 0,
        len(marks.descent) > 0,
        len(marks.flapping) > 0,
        len(marks.residual) > 0,
        len(marks.torque_residual) > 0,
        len(marks.asymmetry) > 0,
    )
    for i in range(LANES):
        v_W, R_WB = read3(s, V, i), to_matrix_scaled(read4(s, Q, i))
        write(work, AIR, i, apply_inverse(R_WB, subtract(v_W, world.wind_W_mps)))
        write(work, WRENCH_SUM, i, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
        if len(marks.skew) > 0:
            write(work, SPIN_B, i, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    # rotor by rotor, as the compiler makes vectors of innermost loops alone
    for k in range(len(body.rotor_directions)):
        direction, r_B = body.rotor_directions[k], body.rotor_positions_B_m[k]
        axis_B = body.rotor_axes_B[k]
        for i in range(LANES):
            speed = s[(ROTOR + k) * LANES + i]
            speed_dot = follow_speed(
                commands[k * LANES + i], speed, body.time_constant_up_s, body.time_constant_down_s
            )
            s_dot[(ROTOR + k) * LANES + i] = speed_dot
            fx, fy, fz = read3(work, WRENCH_SUM, i)
            tx, ty, tz = read3(work, WRENCH_SUM + 3, i)
            total = (fx, fy, fz, tx, ty, tz)
            air_B, w_B = read3(work, AIR, i), read3(s, W, i)
            if len(marks.skew) > 0:
                total = add_tilted_rotor(
                    total, axis_B, r_B, direction, speed, air_B, w_B, 1.0, effects, body
                )
                spin = add(read3(work, SPIN_B, i), scale(direction * speed, axis_B))
                change = scale(direction * speed_dot, axis_B)
                write(work, SPIN_B, i, spin)
                write(work, SPIN_B + 3, i, add(read3(work, SPIN_B + 3, i), change))
            else:
                total = add_rotor(total, r_B, direction, speed, air_B, w_B, 1.0, effects, body)
            write(work, WRENCH_SUM, i, total)
            work[SPIN * LANES + i] += direction * speed
            work[(SPIN + 1) * LANES + i] += direction * speed_dot
    for i in range(LANES):
        v_W, q, w_B = read3(s, V, i), read4(s, Q, i), read3(s, W, i)
        R_WB = to_matrix_scaled(q)
        drag_B = body_drag(read3(work, AIR, i), world.density_ratio, body)
        force_B = add(scale(world.density_ratio, read3(work, WRENCH_SUM, i)), drag_B)
        torque_B = scale(world.density_ratio, read3(work, WRENCH_SUM + 3, i))
        rotor_kg_m2 = body.rotor.inertia_kg_m2
        rotors = (
            rotor_kg_m2 * work[SPIN * LANES + i], rotor_kg_m2 * work[(SPIN + 1) * LANES + i]
        )  # fmt: skip
        gravity = gravity_at(world, s[(P + 2) * LANES + i])
        a_W, w_dot_B = accelerations(
            apply(R_WB, force_B), torque_B, w_B, rotors, gravity, body.mass_kg, body.inertia_kg_m2
        )
        if len(marks.skew) > 0:
            momenta = (
                scale(rotor_kg_m2, read3(work, SPIN_B, i)),
                scale(rotor_kg_m2, read3(work, SPIN_B + 3, i)),
            )
            products = body.inertia_products_kg_m2
            w_dot_B = skew_rates(torque_B, w_B, momenta, body.inertia_kg_m2, products)
        write(s_dot, P, i, v_W)
        write(s_dot, V, i, a_W)
        write(s_dot, Q, i, multiply(q, (0.0, 0.5 * w_B[0], 0.5 * w_B[1], 0.5 * w_B[2])))
        write(s_dot, W, i, w_dot_B)


@inline
def finish_lanes(s: Array, rest_height_m: float) -> None:
    """After a step: unit quaternions, and no way through the ground."""
    for i in range(LANES):
        z_m, v_W = s[(P + 2) * LANES + i], read3(s, V, i)
        falls = z_m < rest_height_m
        s[(P + 2) * LANES + i] = rest_height_m if falls else z_m
        write(s, V, i, (0.0, 0.0, 0.0) if falls else v_W)
        write(s, Q, i, normalize(read4(s, Q, i)))


@inline
def heading_turn(q_WB: Quat, q_command: Quat) -> tuple[float, float]:
    """Cosine and sine of the yaw of one attitude less that of another, without an angle."""
    w, x, y, z = q_WB
    ahead, left = 1.0 - 2.0 * (y * y + z * z), 2.0 * (w * z + x * y)
    w, x, y, z = q_command
    to, across = 1.0 - 2.0 * (y * y + z * z), 2.0 * (w * z + x * y)
    c, s = ahead * to + left * across, left * to - ahead * across
    size = math.sqrt(c * c + s * s)
    return (c / size, s / size) if size > 0.0 else (1.0, 0.0)


@inline
def control_lanes(s: Array, law: Law, body: Any) -> None:
    """The inner loop's attitude law in all lanes, as far as the rotors give what it asks for.

    Args:
        s: the block; rotor commands, the law's memory and what :func:`mix_lanes` takes change.
        law: for the vehicle.
        body: VehicleFigures.
    """
    n = len(body.rotor_directions)
    base = ROTOR + 2 * n
    attitude = law.attitude
    for i in range(LANES):
        q_WB, q_command = read4(s, Q, i), read4(s, base + WANTED_Q, i)
        c, sine = heading_turn(q_WB, q_command)
        write(s, base + TILT, i, up_commanded(q_WB, q_command, c, sine))
    for i in range(LANES):  # not of vectors: there are branches in the arc tangent
        write(s, base + TILT, i, tilt_from_up(read3(s, base + TILT, i)))
    for i in range(LANES):
        q_WB, w_B = read4(s, Q, i), read3(s, W, i)
        error = read3(s, base + TILT, i)
        yaw_rate = s[(base + WANTED_YAW_RATE) * LANES + i]
        wanted = rates_against(error, attitude, q_WB, yaw_rate)
        runs = s[(base + RUNNING) * LANES + i] != 0.0
        last, integral = read3(s, base + LAST_W, i), read3(s, base + INTEGRAL, i)
        cut = read3(s, base + CUT, i)
        last = last if runs else w_B
        w_x, i_x, a_x = control_rate(
            0, last[0], w_B[0], wanted[0], integral[0], cut[0], attitude, law.slower, law.weight,
            law.dt_s,
        )  # fmt: skip
        w_y, i_y, a_y = control_rate(
            1, last[1], w_B[1], wanted[1], integral[1], cut[1], attitude, law.slower, law.weight,
            law.dt_s,
        )  # fmt: skip
        w_z, i_z, a_z = control_rate(
            2, last[2], w_B[2], wanted[2], integral[2], cut[2], attitude, law.slower, law.weight,
            law.dt_s,
        )  # fmt: skip
        write(s, base + RUNNING, i, (1.0, w_x, w_y, w_z, i_x, i_y, i_z, 0.0, 0.0, 0.0))
        torque = torque_of((a_x, a_y, a_z), (w_x, w_y, w_z), body.inertia_kg_m2)
        if len(law.skew) > 0:
            products = body.inertia_products_kg_m2
            torque = skew_torque((a_x, a_y, a_z), (w_x, w_y, w_z), body.inertia_kg_m2, products)
        thrust = s[(base + WANTED_THRUST) * LANES + i]
        thrust_N = body.mass_kg * min(max(thrust, law.limits[0]), law.limits[1])
        write(s, base + WRENCH, i, (thrust_N, torque[0], torque[1], torque[2]))
        clean = 1.0
        for k in range(n):
            b = law.shares[k]
            level = b[0] * thrust_N + (b[1] * torque[0] + b[2] * torque[1])
            f = level + b[3] * torque[2]
            free = law.limits[2] < f < law.limits[3] and law.limits[2] < level < law.limits[3]
            clean = clean if free else 0.0
            f = max(f, 0.0)
            s[(ROTOR + n + k) * LANES + i] = math.sqrt(f / body.thrust_coefficient_N_s2)
        s[(base + CLEAN) * LANES + i] = clean


@kernel
def mix_lanes(s: Array, n: int, airframe: Airframe, speeds: Array) -> None:
    """Lanes whose rotors idle, stop or cannot give what is asked for: as the inner loop has it.

    Args:
        s: the block after :func:`control_lanes`.
        n: how many rotors there are.
        airframe: AIRFRAME record.
        speeds: (MAX_ROTORS,) working memory.
    """
    base = ROTOR + 2 * n
    for i in range(LANES):
        thrust = s[(base + WANTED_THRUST) * LANES + i]
        idles = thrust <= 0.0 or is_idle(thrust, airframe)
        if s[(base + CLEAN) * LANES + i] != 0.0 and not idles:
            continue
        if idles:
            for row in range(base + RUNNING, base + LAW_ROWS):
                s[row * LANES + i] = 0.0
            equal_speeds(airframe, max(thrust, 0.0) * airframe.mass_kg, speeds)
        else:
            k = (base + WRENCH) * LANES + i
            torque = (s[k + LANES], s[k + 2 * LANES], s[k + 3 * LANES])
            _, tilt_share, yaw_share = mix(airframe, s[k], torque, speeds)
            tilt, yaw, inertia = 1.0 - tilt_share, 1.0 - yaw_share, airframe.inertia_kg_m2
            s[(base + CUT) * LANES + i] = tilt * torque[0] / inertia[0]
            s[(base + CUT + 1) * LANES + i] = tilt * torque[1] / inertia[1]
            s[(base + CUT + 2) * LANES + i] = yaw * torque[2] / inertia[2]
            products = vec3(airframe.inertia_products_kg_m2)
            if has_products(products):
                missing = (tilt * torque[0], tilt * torque[1], yaw * torque[2])
                write(s, base + CUT, i, over_tensor(vec3(inertia), products, missing))
        for k in range(n):
            s[(ROTOR + n + k) * LANES + i] = speeds[k]
