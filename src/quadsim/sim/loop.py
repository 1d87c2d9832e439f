"""The closed loop between two mission ticks, as one compiled kernel.

Vehicles, sensors, estimators and inner control advance together, in the order in which the graph's
messages flow: physics to the next IMU stamp, the sensors that are due, the estimator, the inner
loop, whose motor command takes effect a fixed number of IMU samples later (as in the graph's
`lockstep`). Vehicles of one world feel each other's wakes and collide, as in a
:class:`~quadsim.vehicle.fleet.Fleet`; nothing else of them meets here. Everything of a vehicle that
changes is in one record, so a run can be compared, kept and digested whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import block_kernel, inlined_kernel, kernel, record_dtype
from quadsim.base.parameters import dtype_of
from quadsim.base.records import ATTITUDE_COMMAND, KINEMATICS, MAX_ROTORS, ODOMETRY, SETPOINT
from quadsim.control.airframe import AIRFRAME
from quadsim.control.inner_loop import INNER_LOOP, inner_loop
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import POSITION_CONTROL, position_control
from quadsim.estimation.eskf.driver import run
from quadsim.estimation.eskf.input_validation import accept, accept_imu
from quadsim.estimation.eskf.layout import (
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    RANGE,
    STATIC_PRESSURE,
    ZERO_VELOCITY,
)
from quadsim.estimation.eskf.measurement_buffer import CLOCK_JUMP, GAP, OK, TIMELINE
from quadsim.estimation.eskf.outputs import eskf_odometry
from quadsim.estimation.eskf.standing import STANDING, say_standing, stands
from quadsim.estimation.reference_filters.update import motion_odometry
from quadsim.geometry.vector import vec3
from quadsim.sensors import SENSORS
from quadsim.sensors.barometer import barometer_step
from quadsim.sensors.delivery import collect, prepare, send
from quadsim.sensors.gnss import gnss_step
from quadsim.sensors.imu import imu_step
from quadsim.sensors.magnetometer import magnetometer_step
from quadsim.sensors.rangefinder import rangefinder_step
from quadsim.sensors.timing import due
from quadsim.sim.borrowed import borrowed
from quadsim.sim.linear import linear_fix, linear_imu, sense_attitude, take_attitude
from quadsim.vehicle.disturbances import DISTURBANCES, blow
from quadsim.vehicle.formalisms.integrators import steps_within
from quadsim.vehicle.multirotor import VEHICLE, begin_period, hold, look, step, truth
from quadsim.vehicle.neighbours import interact
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import ROTOR
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

#: Longest delay of a motor command, in IMU samples.
MAX_DELAY = 20

#: Shapes of the models, as constants of the kernels.
IMU_WHITE, GNSS_WHITE, MAGNETOMETER_WHITE, BAROMETER_WHITE, RANGEFINDER_WHITE = (
    model.white_count for model in SENSORS.values()
)

#: What stays the same over a run. A period of 0 means that the sensor is not there. The sensors'
#: parameters are arrays of one, as their steps take them.
SETUP = record_dtype(
    [
        ("delay", np.int64),
        ("log_period_ns", np.int64),
        ("landed_by_contact", np.int64),  # 1: contact tells the filter that the vehicle stands
        ("physics", dtype_of(PhysicsParams)),
        ("vehicle", dtype_of(VehicleParams)),
        ("disturbances", DISTURBANCES),
        ("environment", dtype_of(EnvironmentParams), (1,)),
        ("autopilot", dtype_of(AutopilotParams)),
        ("airframe", AIRFRAME),
        *[(kind, dtype_of(model.params_type), (1,)) for kind, model in SENSORS.items()],
        *[(f"{kind}_period_ns", np.int64) for kind in SENSORS],
        # what the sensors' messages say of their noise, row-major
        ("accel_covariance", np.float64, (9,)),
        ("gyro_covariance", np.float64, (9,)),
        ("field_covariance", np.float64, (9,)),
        ("pressure_variance", np.float64, (1,)),
    ]
)

#: Everything that changes over a run.
STATE = record_dtype(
    [
        ("stamp_ns", np.int64),
        ("vehicle", VEHICLE),
        ("truth", KINEMATICS, (1,)),
        *[(f"{kind}_previous", KINEMATICS, (1,)) for kind in SENSORS],
        *[(f"{kind}_state", model.state, (1,)) for kind, model in SENSORS.items()],
        *[(f"{kind}_sample", model.sample, (1,)) for kind, model in SENSORS.items()],
        *[(f"{kind}_outbox", model.outbox, (1,)) for kind, model in SENSORS.items()],
        *[(f"{kind}_count", np.int64) for kind in SENSORS],
        ("line", TIMELINE, (1,)),
        ("standing", STANDING),
        ("odometry", ODOMETRY),  # what is flown on
        ("estimate", ODOMETRY),  # the filter's, where the truth is flown on
        ("setpoint", SETPOINT),
        ("position", POSITION_CONTROL),
        ("command", ATTITUDE_COMMAND),
        ("inner", INNER_LOOP),
        ("controlled_ns", np.int64),  # stamp of the newest motor command
        ("pending", np.float64, (MAX_DELAY + 1, MAX_ROTORS)),
        ("covariance", np.float64, (9,)),  # working memory
        ("log_count", np.int64),
    ]
)

#: One row of the log.
LOG_ROW = record_dtype(
    [
        ("stamp_ns", np.int64),
        ("p_W", np.float64, (3,)),
        ("v_W", np.float64, (3,)),
        ("q_WB", np.float64, (4,)),
        ("w_B", np.float64, (3,)),
        ("estimated", np.int64),
        ("estimate", ODOMETRY),
        ("rotor_speed_radps", np.float64, (MAX_ROTORS,)),
        ("rotor_command_radps", np.float64, (MAX_ROTORS,)),  # the newest
    ]
)


@inlined_kernel
def begin_move(state: Any, setup: Any, scene: Any, until_ns: int, white: Array) -> None:
    """What holds until a stamp: the oldest pending motor command, the wind.

    Args:
        state: STATE record.
        setup: SETUP record.
        scene: as of :func:`advance`.
        until_ns: the stamp.
        white: (WIND_WHITE,) standard normal numbers.
    """
    vehicle, environment = state.vehicle, setup.environment[0]
    for i in range(MAX_ROTORS):
        vehicle.inputs.rotor_command_radps[i] = state.pending[0, i]
    blow(environment.wind_W_mps, setup.disturbances, state.stamp_ns, until_ns)
    model = (vehicle, setup.vehicle, environment, setup.physics)
    begin_period(model, scene, until_ns, (until_ns - state.stamp_ns) * 1e-9, white)


@kernel
def move(states: Any, setups: Any, scene: Any, until_ns: int, white: Array, row: int) -> None:
    """Physics of every vehicle up to a stamp, under the oldest pending motor commands.

    Args:
        states, setups, scene: as of :func:`advance`.
        until_ns: the stamp.
        white: (N, rows, WIND_WHITE) standard normal numbers.
        row: of them, for this time.
    """
    start_ns, physics = states[0].stamp_ns, setups[0].physics
    period_ns = until_ns - start_ns
    steps = steps_within(period_ns, round(physics.step_s * 1e9))
    dt_s = period_ns * 1e-9 / steps
    for i in range(states.shape[0]):
        begin_move(states[i], setups[i], scene, until_ns, white[i, row])
    for k in range(steps):
        step_ns, share = start_ns + round(k * dt_s * 1e9), (k + 0.5) / steps
        if states.shape[0] > 1:
            interact(states["vehicle"], setups[0].vehicle, setups[0].environment[0], physics)
        for i in range(states.shape[0]):
            setup = setups[i]
            model = (states[i].vehicle, setup.vehicle, setup.environment[0], setup.physics)
            if step(model, setup.disturbances, step_ns, dt_s, share):
                look(model, scene, dt_s)
    for i in range(states.shape[0]):
        state, setup = states[i], setups[i]
        model = (state.vehicle, setup.vehicle, setup.environment[0], setup.physics)
        state.stamp_ns = until_ns
        hold(model, 1.0)
        truth(model, until_ns, state.truth[0])


@inlined_kernel
def sense_imu(state: Any, setup: Any, scene: Any, white: Array) -> None:
    """Take an IMU sample."""
    now_ns = state.stamp_ns
    prepare(state.imu_outbox, now_ns, white, IMU_WHITE)
    imu_step(
        state.imu_state, setup.imu, setup.environment, scene, state.imu_previous, state.truth,
        white, state.imu_sample,
    )  # fmt: skip
    state.imu_previous[0] = state.truth[0]
    send(
        state.imu_outbox, setup.imu, state.imu_sample, now_ns, setup.imu_period_ns, white,
        IMU_WHITE,
    )  # fmt: skip


@kernel
def keep(log: Any, count: int, samples: Any) -> None:
    """Put a sample into its log, where that has room."""
    if count < log.shape[0]:
        log[count] = samples[0]


@kernel
def take_standing(state: Any, setup: Any, sample: Any) -> None:
    """Tell the filter that the vehicle stands, as the estimator's node does on ``landed``."""
    if setup.landed_by_contact == 0:
        return
    say_standing(state.standing, 1 if state.vehicle.contact > 0 else 0)
    gravity_mps2 = state.line[0].params.gravity_mps2
    f_S, w_S = vec3(sample.f_S), vec3(sample.w_S)
    if stands(state.standing, gravity_mps2, sample.stamp_ns, f_S, w_S):
        nothing = state.covariance[:1]
        nothing[0] = 0.0
        accept(state.line, ZERO_VELOCITY, sample.stamp_ns, nothing, nothing)


@inlined_kernel
def take_imu(state: Any, setup: Any, linear: Any, log: Any) -> bool:
    """Hand IMU samples that have arrived to the estimator; whether there was one."""
    arrived = False
    while collect(state.imu_outbox, state.stamp_ns, state.imu_sample):
        sample = state.imu_sample[0]
        if linear.shape[0] > 0:
            linear_imu(linear, setup, sample)
        else:
            verdict = accept_imu(
                state.line, sample.stamp_ns, sample.f_S, sample.w_S,
                setup.accel_covariance, setup.gyro_covariance,
            )  # fmt: skip
            if verdict == OK or verdict == GAP or verdict == CLOCK_JUMP:
                take_standing(state, setup, sample)
        keep(log, state.imu_count, state.imu_sample)
        state.imu_count += 1
        arrived = True
    return arrived


@inlined_kernel
def sense_gnss(state: Any, setup: Any, scene: Any, white: Array) -> None:
    """Take a fix."""
    now_ns = state.stamp_ns
    prepare(state.gnss_outbox, now_ns, white, GNSS_WHITE)
    gnss_step(
        state.gnss_state, setup.gnss, setup.environment, scene, state.gnss_previous, state.truth,
        white, state.gnss_sample,
    )  # fmt: skip
    state.gnss_previous[0] = state.truth[0]
    send(
        state.gnss_outbox, setup.gnss, state.gnss_sample, now_ns, setup.gnss_period_ns, white,
        GNSS_WHITE,
    )  # fmt: skip


@inlined_kernel
def take_gnss(state: Any, linear: Any, log: Any) -> None:
    """Hand fixes that have arrived to the estimator, position and velocity."""
    covariance = state.covariance
    while collect(state.gnss_outbox, state.stamp_ns, state.gnss_sample):
        sample = state.gnss_sample[0]
        keep(log, state.gnss_count, state.gnss_sample)
        state.gnss_count += 1
        if not np.isfinite(sample.p_W[0]):  # no fix
            continue
        covariance[:] = 0.0
        if linear.shape[0] > 0:
            linear_fix(linear, sample, covariance)
            continue
        for i in range(3):
            covariance[4 * i] = sample.p_variance[i]
        accept(state.line, GNSS_POSITION, sample.stamp_ns, sample.p_W, covariance)
        for i in range(3):
            covariance[4 * i] = sample.v_variance[i]
        accept(state.line, GNSS_VELOCITY, sample.stamp_ns, sample.v_W, covariance)


@inlined_kernel
def sense_magnetic_field(state: Any, setup: Any, scene: Any, white: Array) -> None:
    """Take a sample of the field."""
    now_ns = state.stamp_ns
    prepare(state.magnetometer_outbox, now_ns, white, MAGNETOMETER_WHITE)
    magnetometer_step(
        state.magnetometer_state, setup.magnetometer, setup.environment, scene,
        state.magnetometer_previous, state.truth, white, state.magnetometer_sample,
    )  # fmt: skip
    state.magnetometer_previous[0] = state.truth[0]
    send(
        state.magnetometer_outbox, setup.magnetometer, state.magnetometer_sample, now_ns,
        setup.magnetometer_period_ns, white, MAGNETOMETER_WHITE,
    )  # fmt: skip


@inlined_kernel
def take_magnetic_field(state: Any, setup: Any, linear: Any, log: Any) -> None:
    """Hand samples of the field that have arrived to the estimator."""
    while collect(state.magnetometer_outbox, state.stamp_ns, state.magnetometer_sample):
        sample = state.magnetometer_sample[0]
        if linear.shape[0] == 0:
            accept(state.line, MAGNETIC_FIELD, sample.stamp_ns, sample.m_S, setup.field_covariance)
        keep(log, state.magnetometer_count, state.magnetometer_sample)
        state.magnetometer_count += 1


@inlined_kernel
def sense_pressure(state: Any, setup: Any, scene: Any, white: Array) -> None:
    """Take a static pressure."""
    now_ns = state.stamp_ns
    prepare(state.barometer_outbox, now_ns, white, BAROMETER_WHITE)
    barometer_step(
        state.barometer_state, setup.barometer, setup.environment, scene,
        state.barometer_previous, state.truth, white, state.barometer_sample,
    )  # fmt: skip
    state.barometer_previous[0] = state.truth[0]
    send(
        state.barometer_outbox, setup.barometer, state.barometer_sample, now_ns,
        setup.barometer_period_ns, white, BAROMETER_WHITE,
    )  # fmt: skip


@inlined_kernel
def take_pressure(state: Any, setup: Any, linear: Any, log: Any) -> None:
    """Hand pressures that have arrived to the estimator."""
    while collect(state.barometer_outbox, state.stamp_ns, state.barometer_sample):
        sample = state.barometer_sample[0]
        if linear.shape[0] == 0:
            variance = setup.pressure_variance
            accept(state.line, STATIC_PRESSURE, sample.stamp_ns, sample.values, variance)
        keep(log, state.barometer_count, state.barometer_sample)
        state.barometer_count += 1


@inlined_kernel
def sense_range(state: Any, setup: Any, scene: Any, white: Array) -> None:
    """Take a range."""
    now_ns = state.stamp_ns
    prepare(state.rangefinder_outbox, now_ns, white, RANGEFINDER_WHITE)
    rangefinder_step(
        state.rangefinder_state, setup.rangefinder, setup.environment, scene,
        state.rangefinder_previous, state.truth, white, state.rangefinder_sample,
    )  # fmt: skip
    state.rangefinder_previous[0] = state.truth[0]
    send(
        state.rangefinder_outbox, setup.rangefinder, state.rangefinder_sample, now_ns,
        setup.rangefinder_period_ns, white, RANGEFINDER_WHITE,
    )  # fmt: skip


@inlined_kernel
def take_range(state: Any, linear: Any, log: Any) -> None:
    """Hand ranges that have arrived to the estimator; infinite ones say "nothing in range"."""
    variance = state.covariance[:1]
    while collect(state.rangefinder_outbox, state.stamp_ns, state.rangefinder_sample):
        sample = state.rangefinder_sample[0]
        if not np.isinf(sample.range_m) and linear.shape[0] == 0:
            variance[0] = sample.variance_m2
            accept(state.line, RANGE, sample.stamp_ns, sample.values, variance)
        keep(log, state.rangefinder_count, state.rangefinder_sample)
        state.rangefinder_count += 1


@kernel
def is_due(period_ns: int, now_ns: int, imu_period_ns: int) -> bool:
    """Whether a sensor that is there samples at this IMU stamp."""
    return period_ns > 0 and due(period_ns, now_ns - imu_period_ns, now_ns)


@inlined_kernel
def sense(state: Any, setup: Any, scene: Any, white: Any, i: int, used: Any) -> None:
    """Take every sample that is due now.

    Args:
        state: STATE record.
        setup: SETUP record.
        scene: as of :func:`advance`.
        white: as of :func:`advance`.
        i: which vehicle it is.
        used: (kinds,) rows of its ``white`` that are used up; they grow.
    """
    imu_white, gnss_white, magnetometer_white, barometer_white, rangefinder_white, _, _ = white
    now_ns, period_ns = state.stamp_ns, setup.imu_period_ns
    sense_imu(state, setup, scene, imu_white[i, used[0]])
    used[0] += 1
    if is_due(setup.gnss_period_ns, now_ns, period_ns):
        sense_gnss(state, setup, scene, gnss_white[i, used[1]])
        used[1] += 1
    if is_due(setup.magnetometer_period_ns, now_ns, period_ns):
        sense_magnetic_field(state, setup, scene, magnetometer_white[i, used[2]])
        used[2] += 1
    if is_due(setup.barometer_period_ns, now_ns, period_ns):
        sense_pressure(state, setup, scene, barometer_white[i, used[3]])
        used[3] += 1
    if is_due(setup.rangefinder_period_ns, now_ns, period_ns):
        sense_range(state, setup, scene, rangefinder_white[i, used[4]])
        used[4] += 1


@kernel
def is_running(state: Any, linear: Any) -> bool:
    """Whether there is an estimate."""
    if linear.shape[0] > 0:
        return bool(linear[0].motion.running != 0)
    return bool(state.line[0].state.running != 0)


@inlined_kernel
def control(state: Any, setup: Any, linear: Any, use_truth: int) -> None:
    """Odometry, inner loop, and the motor command at the end of the queue."""
    line, true = state.line[0], state.truth[0]
    running = is_running(state, linear)
    odometry = state.odometry
    if running:
        estimate = state.estimate if use_truth != 0 else odometry
        if linear.shape[0] > 0:
            motion_odometry(linear[0].motion, estimate)
        else:
            eskf_odometry(line.state, line.params, estimate)
    if use_truth != 0:
        odometry.stamp_ns = true.stamp_ns
        for i in range(3):
            odometry.p_W[i], odometry.v_W[i] = true.p_W[i], true.v_W[i]
            odometry.w_B[i] = true.w_B[i]
        for i in range(4):
            odometry.q_WB[i] = true.q_WB[i]
    known = running or use_truth != 0
    now_ns = odometry.stamp_ns if known else state.stamp_ns
    command_age_s = np.inf
    if state.command.stamp_ns > 0:
        command_age_s = (now_ns - state.command.stamp_ns) * 1e-9
    for i in range(MAX_ROTORS):  # as motor_speed says in the graph
        state.inner.measured[i] = state.vehicle.x[ROTOR + i]
    inner_loop(
        state.inner,
        setup.autopilot,
        setup.airframe,
        odometry,
        0.0 if known else np.inf,
        state.command,
        command_age_s,
        (now_ns - state.controlled_ns) * 1e-9,
        state.pending[setup.delay],
    )
    state.controlled_ns = now_ns


@inlined_kernel
def log_row(state: Any, setup: Any, linear: Any, use_truth: int, row: Any) -> None:
    """Truth, estimate, speeds and command of the rotors at this instant."""
    estimate = state.estimate if use_truth != 0 else state.odometry
    row.stamp_ns = state.stamp_ns
    row.estimated = 1 if is_running(state, linear) else 0
    true = state.truth[0]
    for i in range(3):
        row.p_W[i], row.v_W[i], row.w_B[i] = true.p_W[i], true.v_W[i], true.w_B[i]
        row.estimate.p_W[i] = estimate.p_W[i]
        row.estimate.v_W[i] = estimate.v_W[i]
        row.estimate.w_B[i] = estimate.w_B[i]
        row.estimate.p_variance[i] = estimate.p_variance[i]
        row.estimate.v_variance[i] = estimate.v_variance[i]
        row.estimate.attitude_variance[i] = estimate.attitude_variance[i]
    row.estimate.stamp_ns = estimate.stamp_ns
    for i in range(4):
        row.q_WB[i] = true.q_WB[i]
        row.estimate.q_WB[i] = estimate.q_WB[i]
    for i in range(MAX_ROTORS):
        row.rotor_speed_radps[i] = state.vehicle.x[ROTOR + i]
        row.rotor_command_radps[i] = state.pending[setup.delay, i]


@inlined_kernel
def answer(
    state: Any, setup: Any, use_truth: int, linear: Any, attitude: Any, log: Any, samples: Any
) -> None:
    """Hand over what has arrived, estimate, control, and log, at one IMU stamp of a vehicle.

    Args:
        state: STATE record.
        setup: SETUP record.
        use_truth: 1 flies on the truth.
        linear: (1,) TIMELINE of the linear filter, or (0,).
        attitude: ATTITUDE_DEVICE, as many.
        log: (rows,) LOG_ROW records.
        samples: for each kind (rows,) records.
    """
    imu_log, gnss_log, magnetometer_log, barometer_log, rangefinder_log, attitude_log = samples
    arrived = take_imu(state, setup, linear, imu_log)
    if linear.shape[0] > 0:
        take_attitude(linear, attitude, state.stamp_ns, attitude_log)
    take_gnss(state, linear, gnss_log)
    take_magnetic_field(state, setup, linear, magnetometer_log)
    take_pressure(state, setup, linear, barometer_log)
    take_range(state, linear, rangefinder_log)
    if linear.shape[0] == 0:
        run(state.line[0])
    for k in range(setup.delay):
        for i in range(MAX_ROTORS):
            state.pending[k, i] = state.pending[k + 1, i]
    if arrived or use_truth != 0:
        control(state, setup, linear, use_truth)
    if is_due(setup.log_period_ns, state.stamp_ns, setup.imu_period_ns):
        log_row(state, setup, linear, use_truth, log[state.log_count])
        state.log_count += 1


@kernel
def advance(
    states: Any,
    setups: Any,
    scene: Any,
    until_ns: int,
    use_truth: Any,
    white: Any,
    used: Any,
    log: Any,
    samples: Any,
    linear: Any,
    attitude: Any,
) -> None:
    """One position-control step on the setpoints in the states, then the loop up to a stamp.

    Args:
        states: (N,) STATE records of the vehicles, at one stamp. A record goes into compiled code
            as an array of one: as a scalar, its description is written out anew at each call, which
            takes 20 us.
        setups: (N,) SETUP records: vehicles of one kind, whose IMUs have one rate.
        scene: what rays meet.
        until_ns: the next mission tick, a multiple of the IMU's period.
        use_truth: (N,) 1 flies on the truth instead of the estimate (which runs beside it).
        white: (N, rows, width) standard normal numbers for each kind in the order of SENSORS, a row
            for each sample; then those of the wind, a row for each IMU sample; then those of the
            attitude device.
        used: (N, kinds) rows of ``white`` that are used up, as many kinds; they grow.
        log: (N, rows) LOG_ROW records; ``log_count`` of a state are written and grow.
        samples: for each kind in the order of SENSORS, (N, rows) records of its samples as they are
            published; those that do not fit are not kept. Then those of the attitude device.
        linear: TIMELINE of the linear filter, if it is flown on: (N,), else (0,).
        attitude: ATTITUDE_DEVICE, as many.
    """
    for i in range(states.shape[0]):
        state = states[i]
        if state.odometry.stamp_ns > 0:
            position_control(
                state.position, setups[i].autopilot, state.odometry, state.setpoint,
                (until_ns - state.stamp_ns) * 1e-9, state.command,
            )  # fmt: skip
    while states[0].stamp_ns < until_ns:
        now_ns = states[0].stamp_ns + setups[0].imu_period_ns
        move(states, setups, scene, now_ns, white[5], used[0, 5])
        for i in range(states.shape[0]):
            used[i, 5] += 1
            state, setup = states[i], setups[i]
            filters, devices = linear[i : i + 1], attitude[i : i + 1]
            sense(state, setup, scene, white, i, used[i])
            if devices.shape[0] > 0:
                used[i, 6] = sense_attitude(
                    devices, setup, scene, state.truth, white[6][i], used[i, 6]
                )  # fmt: skip
            kept = (
                samples[0][i], samples[1][i], samples[2][i],
                samples[3][i], samples[4][i], samples[5][i],
            )  # fmt: skip
            answer(state, setup, use_truth[i], filters, devices, log[i], kept)


@block_kernel
def ticks(
    states: Any,
    setups: Any,
    scene: Any,
    until_ns: Any,
    use_truth: Any,
    white: Any,
    used: Any,
    log: Any,
    samples: Any,
    linear: Any,
    attitude: Any,
) -> Iterator[int]:
    """Call :func:`advance` each time that the next one is asked for: a compiled generator.

    It is handed its arguments once. To describe two dozen arrays to compiled code takes 10 us, a
    seventh of what it then does in a tick. While it computes, other threads of Python can go on;
    nobody may touch its arrays meanwhile.

    Args:
        states, setups, scene, use_truth, white, used, log, samples, linear, attitude: as of
            :func:`advance`.
        until_ns: (1,) up to which stamp, read anew each time.

    Yields:
        The stamp.
    """
    # before the loop: what lives across a yield and is counted is never given back
    of_all = (borrowed(states), borrowed(setups), borrowed(scene))
    numbers = (borrowed(white), borrowed(used))
    kept = (borrowed(log), borrowed(samples))
    filters = (borrowed(linear), borrowed(attitude))
    until, on_truth = borrowed(until_ns), borrowed(use_truth)
    while True:
        advance(
            of_all[0], of_all[1], of_all[2], until[0], on_truth, numbers[0], numbers[1],
            kept[0], kept[1], filters[0], filters[1],
        )  # fmt: skip
        yield until[0]
