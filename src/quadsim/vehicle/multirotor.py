"""A multirotor as one rigid body with motors: derivative, step and truth of one vehicle.

Newton and Euler under the force model of :mod:`quadsim.vehicle.forces`, in the formalism and by the
integrator of the scenario.
"""

from __future__ import annotations

import numpy as np

from quadsim.base.compiled import Array, inline, kernel, template
from quadsim.base.parameters import Vec3
from quadsim.base.records import HELICOPTER, MAX_ROTORS, Kinematics
from quadsim.geometry.vector import vec3
from quadsim.vehicle.contact.contact import is_clear, update_contacts
from quadsim.vehicle.disturbances import DisturbanceTable, apply_disturbances
from quadsim.vehicle.forces import accelerations, forces, is_skew, skew_rates
from quadsim.vehicle.formalisms.formalisms import (
    attitude_matrix,
    attitude_quaternion,
    body_rates,
    finish_step,
    write_attitude_rates,
)
from quadsim.vehicle.formalisms.integrators import mean_derivative
from quadsim.vehicle.formalisms.quaternion_constraint import constrained_rates
from quadsim.vehicle.helicopter import helicopter_rates, obey_stick
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import CONSTRAINT, RK4, SEMI_IMPLICIT_EULER
from quadsim.vehicle.propulsion.motors import (
    accelerate_rotors,
    battery_step,
    in_common,
    motor_current_A,
)
from quadsim.vehicle.propulsion.rotors import rotor_momentum, rotor_momentum_B, thrust_gain
from quadsim.vehicle.ropes.suspension import catch, has_load, has_ropes, suspend
from quadsim.vehicle.state import (
    GIMBAL_LOCK,
    LOAD_P,
    LOAD_V,
    NOT_FINITE,
    ROTOR,
    STATE_SIZE,
    Model,
    P,
    Q,
    V,
    Vehicle,
    W,
    three,
)
from quadsim.world.air.atmosphere import air_density
from quadsim.world.air.wind import wind_step
from quadsim.world.earth.gravity import gravity_at
from quadsim.world.scene.raycast_terrain import terrain_height
from quadsim.world.scene.scene import Scene

#: Height in rotor radii below which the ground is felt by the rotors.
GROUND_EFFECT_RADII = 10.0


@inline
def body_accelerations(x: Array, model: Model, x_dot: Array) -> tuple[Vec3, Vec3]:
    """Linear acceleration in W and angular acceleration in B; writes those of rotors and load.

    Args:
        x: (STATE_SIZE,) state.
        model: VEHICLE record, packed VehicleParams, EnvironmentParams and PhysicsParams, and a
            WORKSPACE record.
        x_dot: (STATE_SIZE,) of which the rotors' and the load's elements are written.
    """
    vehicle, params, environment, physics, work = model
    R_WB = attitude_matrix(x, vehicle, physics.formalism)
    v_W, w_B = three(x, V), body_rates(x, physics.formalism)
    force_W, torque_B = forces(x, R_WB, v_W, w_B, vehicle, params)
    accelerate_rotors(x, vehicle, params, x_dot)
    rotors = (rotor_momentum(x, params), rotor_momentum(x_dot, params))
    gravity = gravity_at(environment, x[P + 2])
    mass_kg = vehicle.held.mass_kg
    a_W, w_dot_B = accelerations(
        force_W, torque_B, w_B, rotors, gravity, mass_kg, vec3(params.inertia_kg_m2)
    )
    if params.kind == HELICOPTER:
        w_dot_B = helicopter_rates(w_dot_B, params)
    elif is_skew(params):
        momenta = (rotor_momentum_B(x, params), rotor_momentum_B(x_dot, params))
        moments, products = vec3(params.inertia_kg_m2), vec3(params.inertia_products_kg_m2)
        w_dot_B = skew_rates(torque_B, w_B, momenta, moments, products)
    if not has_ropes(params):
        return a_W, w_dot_B
    return suspend(x, R_WB, v_W, w_B, a_W, w_dot_B, vehicle, params, environment, work.ropes, x_dot)


@inline
def derivative(x: Array, model: Model, x_dot: Array) -> None:
    """Time derivative of the state; see :func:`body_accelerations` for the arguments."""
    formalism = model[3].formalism
    a_W, w_dot_B = body_accelerations(x, model, x_dot)
    if formalism == CONSTRAINT:
        constrained_rates(x, a_W, w_dot_B, model[3].baumgarte_per_s, x_dot)
        return
    for i in range(3):
        x_dot[P + i] = x[V + i]
        x_dot[V + i] = a_W[i]
        x_dot[W + i] = w_dot_B[i]
    write_attitude_rates(x, formalism, three(x, W), x_dot)


@kernel
def write_velocities(x: Array, formalism: int, x_dot: Array) -> None:
    """The derivative of the configuration by the rates of the state; others stay."""
    for i in range(3):
        x_dot[P + i] = x[V + i]
        x_dot[LOAD_P + i] = x[LOAD_V + i]
    write_attitude_rates(x, formalism, body_rates(x, formalism), x_dot)


@inline
def is_configuration(i: int) -> bool:
    """Whether an element of the state is of a position or an attitude."""
    return P <= i < V or Q <= i < W or LOAD_P <= i < LOAD_V


@template
def integrate(vehicle: Vehicle, size: int, model: Model, dt_s: float) -> None:
    """Advance a vehicle's state by one step of the scenario's integrator.

    Semi-implicit Euler takes the new rates for the new configuration (Hairer, Lubich and Wanner,
    *Geometric Numerical Integration*, I.1.3); the others are explicit Runge-Kutta methods.

    Args:
        vehicle: VEHICLE record.
        size: how many elements of its state there are.
        model: as of :func:`body_accelerations`.
        dt_s: length of the step.
    """
    physics, work = model[3], model[4]
    x = vehicle.x[:size]
    stages = 4 if physics.integrator == RK4 else 1
    mean = mean_derivative(derivative, x, model, dt_s, stages, work.slopes)
    in_turn = physics.integrator == SEMI_IMPLICIT_EULER
    for i in range(size):
        if not (in_turn and is_configuration(i)):
            x[i] += dt_s * mean[i]
    if in_turn:
        write_velocities(vehicle.x[:], physics.formalism, mean)
        for i in range(size):
            if is_configuration(i):
                x[i] += dt_s * mean[i]


@inline
def find_surroundings(model: Model, scene: Scene) -> None:
    """The ground below and surfaces around a vehicle that was put somewhere."""
    vehicle, params, environment, physics, _ = model
    if vehicle.feet.reach_m == 0.0:
        x = vehicle.x[:]
        vehicle.held.ground_m = terrain_height(
            scene.terrain, environment.ground_height_m, x[P], x[P + 1]
        )
        battery_step(vehicle, params, 0.0)
        R_WB = attitude_matrix(x, vehicle, physics.formalism)
        update_contacts(vehicle, R_WB, params, environment, scene, 0.0)


@template
def begin_period(model: Model, scene: Scene, stamp_ns: int, period_s: float, white: Array) -> None:
    """What changes slowly, for the period that begins: wind, density of the air, ground below.

    Args:
        model: as of :func:`body_accelerations`.
        scene: terrain, obstacles and recorded wind.
        stamp_ns: time at the period's end.
        period_s: its length.
        white: (WIND_WHITE,) standard normal numbers, unused in calm air.
    """
    vehicle, params, environment, _, _ = model
    find_surroundings(model, scene)
    x = vehicle.x[:]
    ground_m = terrain_height(scene.terrain, environment.ground_height_m, x[P], x[P + 1])
    vehicle.held.ground_m = ground_m
    for i in range(3):
        vehicle.wind_from_W_mps[i] = vehicle.wind_to_W_mps[i]
    wind_W = wind_step(
        vehicle.wind, environment, scene.wind, three(x, P), three(x, V),
        ground_m, stamp_ns, period_s, white,
    )  # fmt: skip
    for i in range(3):
        vehicle.wind_to_W_mps[i] = wind_W[i]
    if params.air_density_kg_m3 > 0.0:
        density = air_density(environment, x[P + 2])
        vehicle.held.density_ratio = density / params.air_density_kg_m3


@inline
def hold_air(model: Model, share: float) -> None:
    """Hold over a step: wind, height above the ground, ground effect.

    Args:
        model: as of :func:`body_accelerations`.
        share: of the period, at which the wind is taken.
    """
    vehicle, params, _, physics, _ = model
    x, held = vehicle.x[:], vehicle.held
    for i in range(3):
        change = vehicle.wind_to_W_mps[i] - vehicle.wind_from_W_mps[i]
        held.wind_W_mps[i] = (
            vehicle.wind_from_W_mps[i] + share * change + vehicle.inputs.downwash_W_mps[i]
        )
    held.height_m = x[P + 2] - held.ground_m
    if held.height_m < GROUND_EFFECT_RADII * params.rotor.radius_m:
        R_WB = attitude_matrix(x, vehicle, physics.formalism)
        for i in range(params.rotor_directions_count):
            held.thrust_gain[i] = thrust_gain(i, R_WB, vehicle, params)
    else:
        for i in range(params.rotor_directions_count):
            held.thrust_gain[i] = 1.0


@inline
def hold_commands(vehicle: Vehicle, params: VehicleParams, formalism: int) -> None:
    """Cut the commands of the rotors to what these can do; after a crash they stop."""
    if params.kind == HELICOPTER:
        obey_stick(vehicle, params, formalism)
    for i in range(params.rotor_directions_count):
        command = 0.0 if vehicle.crash != 0 else vehicle.inputs.rotor_command_radps[i]
        vehicle.inputs.rotor_command_radps[i] = min(max(command, 0.0), params.rotor_speed_max_radps)


@inline
def is_finite(x: Array) -> bool:
    """Whether no element is NaN or infinite; four sums at once do not wait for each other."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    n = x.shape[0]
    for i in range(0, n - 3, 4):
        a, b, c, d = a + x[i], b + x[i + 1], c + x[i + 2], d + x[i + 3]
    for i in range(n - n % 4, n):
        a += x[i]
    return bool(np.isfinite((a + b) + (c + d)))


@kernel
def advance_vehicle(
    model: Model, table: DisturbanceTable, stamp_ns: int, dt_s: float, share: float
) -> bool:
    """Advance one vehicle by one step; a motion that cannot continue is recorded as a fault.

    The scene is no argument: to hand over all its arrays costs more than the step.

    Args:
        model: as of :func:`body_accelerations`. The VEHICLE record changes in place; after a
            fault it stands still.
        table: DISTURBANCES record of the vehicle.
        stamp_ns: time at the start of the step.
        dt_s: length of the step.
        share: of the period of the wind, at the middle of the step.

    Returns:
        Whether :func:`meet_surroundings` has to follow.
    """
    vehicle, params, _, physics, _ = model
    if vehicle.fault_ns != 0:
        return False
    apply_disturbances(vehicle, table, stamp_ns, stamp_ns + round(dt_s * 1e9))
    hold_air(model, share)
    hold_commands(vehicle, params, physics.formalism)
    size = ROTOR + params.rotor_directions_count
    if physics.formalism == CONSTRAINT or has_load(params):
        size = STATE_SIZE
    x = vehicle.x[:size]
    for i in range(size):
        vehicle.last_x[i] = x[i]
    integrate(vehicle, size, model, dt_s)
    free = finish_step(vehicle.x[:], vehicle, physics.formalism, dt_s)
    if not (is_finite(x) and free):
        vehicle.fault = NOT_FINITE if free else GIMBAL_LOCK
        vehicle.fault_ns = max(stamp_ns, 1)
        return False
    battery_step(vehicle, params, dt_s)
    return has_ropes(params) or not is_clear(vehicle, dt_s)


@kernel
def meet_surroundings(model: Model, scene: Scene, dt_s: float) -> None:
    """Contacts and ropes after a step of :func:`advance_vehicle`."""
    vehicle, params, environment, physics, work = model
    R_WB = attitude_matrix(vehicle.x[:], vehicle, physics.formalism)
    if not is_clear(vehicle, dt_s):
        update_contacts(vehicle, R_WB, params, environment, scene, dt_s)
    if has_ropes(params):
        catch(vehicle, R_WB, params, environment, scene, work.ropes)


@kernel
def write_kinematics(model: Model, stamp_ns: int, kinematics: Kinematics) -> None:
    """Write the motion at this instant, accelerations and rotors included, into a KINEMATICS."""
    vehicle, params, _, physics, work = model
    x = vehicle.x[:]
    a_W, w_dot_B = body_accelerations(x, model, work.slopes[0])
    q_WB = attitude_quaternion(x, vehicle, physics.formalism)
    w_B = body_rates(x, physics.formalism)
    kinematics.stamp_ns = stamp_ns
    for i in range(3):
        kinematics.p_W[i] = x[P + i]
        kinematics.v_W[i] = x[V + i]
        kinematics.w_B[i] = w_B[i]
        kinematics.a_W[i] = a_W[i]
        kinematics.w_dot_B[i] = w_dot_B[i]
        kinematics.wind_W[i] = vehicle.held.wind_W_mps[i]
    for i in range(4):
        kinematics.q_WB[i] = q_WB[i]
    kinematics.motor_current_A = 0.0
    common = in_common(vehicle, params)
    for i in range(MAX_ROTORS):
        kinematics.rotor_speed_radps[i] = x[ROTOR + i]
    for i in range(params.rotor_directions_count):
        current_A = motor_current_A(i, x[ROTOR + i], vehicle, params, common)
        vehicle.held.motor_current_A[i] = current_A
        kinematics.motor_current_A += current_A
