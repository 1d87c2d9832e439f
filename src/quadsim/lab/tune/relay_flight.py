"""A vehicle in flight with a relay in place of one controller, as one compiled kernel.

Physics, motors, delays and the loops inside the one in question are those of the closed loop
(:mod:`quadsim.sim.loop`); what is flown on is the true motion with the gyroscope's noise. The outer
loops run at the IMU's rate here, and what they command takes effect half their period later, which
is what their hold amounts to: a relay that is asked fifty times a second would have its period in
steps of 40 ms.
"""

from __future__ import annotations

import math

import numpy as np

from quadsim.base.compiled import Array, Record, Records, Vector, kernel, owning_kernel
from quadsim.base.parameters import dtype_of
from quadsim.base.records import MAX_ROTORS, MODE_VELOCITY, AttitudeCommand
from quadsim.control.attitude import attitude_control, tilt_error, wanted_rates, wanted_w_dot
from quadsim.control.mixer import mix
from quadsim.control.position import position_control
from quadsim.geometry.rotation import from_euler, quat, rotate, yaw_of
from quadsim.geometry.vector import cross, store, vec3
from quadsim.sim.loop import LoopState, Setup, move_vehicles
from quadsim.vehicle.state import WORKSPACE
from quadsim.world.scene.scene import Scene

#: Loops by number, as in :data:`quadsim.lab.tune.loop_margins.LOOPS`.
RATE, YAW_RATE, TILT, VELOCITY, POSITION, CLIMB, HEIGHT, YAW = range(8)

#: Beyond these a flight is given up: cosine of the tilt, and body rate in rad/s.
LEAST_COSINE, MOST_RATE = 0.3, 30.0


class RelayState(Record):
    """A relay in place of one controller."""

    loop: int
    axis: int  # 0, 1, 2 of the body (rate, tilt) or of the world
    amplitude: float
    hysteresis: float
    keep: Vector  # amplitudes of relays that hold the other rates, rad/s^2
    keep_hysteresis: float  # rad/s
    goal: float  # of the signal
    switched: Vector  # -1 or 1, by axis
    lost: int


RELAY = dtype_of(RelayState)


@kernel
def switched(before: float, error: float, hysteresis: float) -> float:
    """Next output, -1 or 1, of a relay: the error's sign, once that exceeds the hysteresis.

    Args:
        before: last output.
        error: wanted minus measured.
        hysteresis: half the width of the band in which the output stays.
    """
    if error > hysteresis:
        return 1.0
    if error < -hysteresis:
        return -1.0
    return before


@kernel
def _measure(state: LoopState, noise: Array) -> None:
    """What is flown on: the truth, its rates with the gyroscope's noise."""
    true, odometry = state.truth[0], state.odometry
    odometry.stamp_ns = true.stamp_ns
    for i in range(3):
        odometry.p_W[i], odometry.v_W[i] = true.p_W[i], true.v_W[i]
        odometry.w_B[i] = true.w_B[i] + noise[i]
    for i in range(4):
        odometry.q_WB[i] = true.q_WB[i]


@kernel
def _signal(state: LoopState, relay: RelayState) -> float:
    """What a relay outside the attitude loop looks at."""
    odometry = state.odometry
    if relay.loop == VELOCITY or relay.loop == CLIMB:
        return float(odometry.v_W[relay.axis])
    if relay.loop == YAW:
        return yaw_of(quat(odometry.q_WB))
    return float(odometry.p_W[relay.axis])


@kernel
def _outer(state: LoopState, setup: Setup, relay: RelayState, dt_s: float, row: Array) -> None:
    """The outer loop's command, with the relay's output in it where it belongs.

    Args:
        state, setup: as of :func:`fly_relay`.
        relay: RELAY record.
        dt_s: length of the step.
        row: (2,) trace of this step: signal and relay's output.
    """
    command, setpoint = state.command, state.setpoint
    if relay.loop == RATE or relay.loop == TILT or relay.loop == YAW_RATE:
        body_z = rotate(quat(state.odometry.q_WB), (0.0, 0.0, 1.0))
        thrust = setup.autopilot.gravity_mps2 - 1.5 * state.odometry.v_W[2]
        command.thrust = thrust / max(body_z[2], 0.5)
        command.yaw_rate = 0.0
        store(command.q_WB, from_euler(0.0, 0.0, yaw_of(quat(state.odometry.q_WB))))
        return
    signal = _signal(state, relay)
    relay.switched[0] = switched(relay.switched[0], relay.goal - signal, relay.hysteresis)
    output = relay.switched[0] * relay.amplitude
    setpoint.mode = MODE_VELOCITY
    for i in range(3):
        setpoint.v_W[i], setpoint.a_W[i] = 0.0, 0.0
    setpoint.yaw_rate = 0.0
    if relay.loop == YAW:
        setpoint.yaw_rate = output
    elif relay.loop == VELOCITY or relay.loop == CLIMB:
        setpoint.a_W[relay.axis] = output
    else:
        setpoint.v_W[relay.axis] = output
    position_control(state.position, setup.autopilot, state.odometry, setpoint, dt_s, command)
    row[0], row[1] = signal, output


@kernel
def _late(queue: Array, place: int, command: AttitudeCommand) -> None:
    """Exchange a command for the one that was given ``len(queue)`` steps before.

    Args:
        queue: (N, 6) commands on their way; none where N is 0.
        place: of the oldest.
        command: ATTITUDE_COMMAND record.
    """
    if queue.shape[0] == 0:
        return
    row = queue[place]
    for i in range(4):
        row[i], command.q_WB[i] = command.q_WB[i], row[i]
    row[4], command.yaw_rate = command.yaw_rate, row[4]
    row[5], command.thrust = command.thrust, row[5]


@kernel
def _inner(
    state: LoopState, setup: Setup, relay: RelayState, dt_s: float, row: Array, rotor_speeds: Array
) -> None:
    """The attitude loops with a relay for the rates of the body, or for the tilt.

    The rates that are not in question are held by small relays of their own: nothing is known yet
    of the gains that would hold them.
    """
    attitude, params, airframe = state.inner.attitude, setup.autopilot, setup.airframe
    odometry, command = state.odometry, state.command
    q_WB = quat(odometry.q_WB)
    w_wanted = wanted_rates(params, q_WB, quat(command.q_WB), command.yaw_rate)
    axis = relay.axis
    if relay.loop == TILT:
        error = tilt_error(q_WB, quat(command.q_WB))
        relay.switched[0] = switched(relay.switched[0], error[axis], relay.hysteresis)
        output = relay.switched[0] * relay.amplitude
        row[0], row[1] = -error[axis], output
        w_wanted = (
            output if axis == 0 else w_wanted[0],
            output if axis == 1 else w_wanted[1],
            w_wanted[2],
        )
    w_dot = wanted_w_dot(attitude, params, airframe, vec3(odometry.w_B), w_wanted, dt_s)
    w = vec3(attitude.w_B)
    if relay.loop != TILT:
        for i in range(3):
            band = relay.hysteresis if i == axis else relay.keep_hysteresis
            error_i = w_wanted[i] - w[i]
            relay.switched[i] = switched(relay.switched[i], error_i, band)
        row[0], row[1] = w[axis], relay.switched[axis] * relay.amplitude
        w_dot = (
            relay.switched[0] * (relay.amplitude if axis == 0 else relay.keep[0]),
            relay.switched[1] * (relay.amplitude if axis == 1 else relay.keep[1]),
            relay.switched[2] * (relay.amplitude if axis == 2 else relay.keep[2]),
        )
    inertia = airframe.inertia_kg_m2
    gyroscopic = cross(w, (inertia[0] * w[0], inertia[1] * w[1], inertia[2] * w[2]))
    torque = (
        inertia[0] * w_dot[0] + gyroscopic[0],
        inertia[1] * w_dot[1] + gyroscopic[1],
        inertia[2] * w_dot[2] + gyroscopic[2],
    )
    mix(airframe, airframe.mass_kg * command.thrust, torque, rotor_speeds)


@owning_kernel
def fly_relay(
    states: Records[LoopState],
    setups: Records[Setup],
    scene: Scene,
    relays: Records[RelayState],
    queue: Array,
    noise: Array,
    trace: Array,
) -> int:
    """Fly with a relay in one loop, from the state given, until the trace is full.

    Args:
        states: (1,) STATE record of a vehicle in hover.
        setups: (1,) SETUP record.
        scene: what rays meet.
        relays: (1,) RELAY record; ``lost`` becomes 1 where the vehicle flipped.
        queue: (N, 6) the first commands of the outer loops; they are N samples late.
        noise: (K, 3) of the body rates, rad/s.
        trace: (K, 2) result: the loop's signal and the relay's output at each IMU sample.

    Returns:
        Rows of the trace that were written.
    """
    state, setup, relay = states[0], setups[0], relays[0]
    dt_s = setup.imu_period_ns * 1e-9
    calm, work = np.zeros((1, 1, 16)), np.zeros(1, WORKSPACE)
    for k in range(trace.shape[0]):
        _outer(state, setup, relay, dt_s, trace[k])
        if queue.shape[0] > 0:
            _late(queue, k % queue.shape[0], state.command)
        now_ns = state.stamp_ns + setup.imu_period_ns
        move_vehicles(states, setups, scene, now_ns, calm, 0, work[0])
        _measure(state, noise[k])
        for n in range(setup.delay):
            for i in range(MAX_ROTORS):
                state.pending[n, i] = state.pending[n + 1, i]
        speeds = state.pending[setup.delay]
        if relay.loop == RATE or relay.loop == TILT or relay.loop == YAW_RATE:
            _inner(state, setup, relay, dt_s, trace[k], speeds)
        else:
            attitude_control(
                state.inner.attitude, setup.autopilot, setup.airframe, state.odometry,
                state.command, dt_s, speeds,
            )  # fmt: skip
        w = vec3(state.truth[0].w_B)
        body_z = rotate(quat(state.truth[0].q_WB), (0.0, 0.0, 1.0))
        fastest = math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
        if not (body_z[2] > LEAST_COSINE and fastest < MOST_RATE):
            relay.lost = 1
            return k
    return int(trace.shape[0])
