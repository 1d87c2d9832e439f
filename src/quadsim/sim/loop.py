"""The closed loop between two mission ticks, as one compiled kernel.

Vehicles, sensors, estimators and inner control advance together, in the order in which the graph's
messages flow: physics to the next IMU stamp, the sensors that are due, the estimator, the inner
loop, whose motor command takes effect a fixed number of IMU samples later (as in the graph's
`lockstep`). Vehicles of one world feel each other's wakes and collide, as in a
:class:`~quadsim.vehicle.fleet.Fleet`; nothing else of them meets here. Everything of a vehicle that
changes is in one record, so a run can be compared, kept and digested whole.

The linear GPS/INS filter can be flown on instead of the error-state filter. It takes its attitude
from a device of its own (:mod:`quadsim.sensors.ahrs`) and is told where it starts. A loop that
flies on the error-state filter carries none of this: an array of no records.

Arrays that compiled code borrows: handed from kernel to kernel without being counted.

Numba counts who holds an array, up and down at each call, by atomic operations: for the dozen
arrays of a scene that is a tenth of the closed loop's time. Who borrows relies on somebody else,
here the generator that took them from Python, to hold them longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core.cgutils import get_null_value
from numba.extending import intrinsic
from numpy.typing import NDArray

from quadsim.base.compiled import Array, Over, Record, Records, Vector, kernel, template, threaded
from quadsim.base.parameters import dtype_of
from quadsim.base.records import (
    MAX_ROTORS,
    AttitudeCommand,
    Kinematics,
    Odometry,
    PerRotor,
    Setpoint,
)
from quadsim.control.airframe import AIRFRAME
from quadsim.control.inner_loop import INNER_LOOP, inner_loop
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import POSITION_CONTROL, position_control
from quadsim.estimation.eskf.driver import run_events
from quadsim.estimation.eskf.input_validation import accept
from quadsim.estimation.eskf.layout import (
    EXTERNAL_ATTITUDE,
    GNSS_POSITION,
    GNSS_VELOCITY,
    MAGNETIC_FIELD,
    RANGE,
    STATIC_PRESSURE,
    ZERO_VELOCITY,
)
from quadsim.estimation.eskf.measurement_buffer import CLOCK_JUMP, GAP, IMU, OK, TIMELINE
from quadsim.estimation.eskf.outputs import eskf_odometry
from quadsim.estimation.eskf.standing import STANDING, say_standing, stands
from quadsim.estimation.reference_filters.fusion import motion_odometry
from quadsim.estimation.reference_filters.gps_ins import gps_ins_offer
from quadsim.geometry.vector import vec3
from quadsim.sensors import SENSORS, ahrs
from quadsim.sensors.ahrs import AhrsSample, AhrsSlot, ahrs_step
from quadsim.sensors.barometer import BarometerSlot, barometer_step
from quadsim.sensors.error_terms import due
from quadsim.sensors.gnss import GnssSample, GnssSlot, gnss_step
from quadsim.sensors.imu import ImuSample, ImuSlot, imu_step
from quadsim.sensors.magnetometer import MagnetometerSlot, magnetometer_step
from quadsim.sensors.rangefinder import RangefinderSlot, rangefinder_step
from quadsim.sensors.slot import AnySlot, SensorWorld, deliver, sense
from quadsim.vehicle import fleet
from quadsim.vehicle.disturbances import DisturbanceTable
from quadsim.vehicle.multirotor import hold_air, write_kinematics
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.physics import PhysicsParams
from quadsim.vehicle.state import ROTOR, Vehicle, Workspace
from quadsim.world.environment import EnvironmentParams
from quadsim.world.scene.scene import Scene

_null: Any = get_null_value


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """The LLVM value of an array, or of a tuple with arrays in it, without their owners."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo = _null(array.meminfo.type)
        array.parent = _null(array.parent.type)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        for i in range(len(kinds)):
            part = _without_owner(context, builder, kinds[i], builder.extract_value(value, i))
            value = builder.insert_value(value, part, i)
    return value


def _borrow(typing_context: Any, value: Any) -> Any:
    """Signature and code of :func:`borrowed`, for Numba."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], args[0])

    return value(value), generate


def _as_it_is(value: Any) -> Any:
    """What :func:`borrowed` is in plain Python, which counts in any case."""
    return value


_compiled: Any = intrinsic(_borrow)

#: An array, or a tuple with arrays in it, that is not counted; for kernels.
borrowed: Callable[[Any], Any] = _as_it_is if getattr(numba.config, "DISABLE_JIT") else _compiled  # noqa: B009


#: Longest delay of a motor command, in IMU samples.
MAX_DELAY = 20

#: Normal numbers of a sample, as constants of the kernels.
IMU_WHITE, GNSS_WHITE, MAGNETOMETER_WHITE, BAROMETER_WHITE, RANGEFINDER_WHITE, AHRS_WHITE = (
    model.white_count for model in (*SENSORS.values(), ahrs.MODEL)
)

#: Places behind the sensors: of wind and attitude device in ``white`` and ``used``, of the attitude
#: device in ``samples``.
WIND, AHRS = len(SENSORS), len(SENSORS) + 1
AHRS_LOG = len(SENSORS)

Covariance = Annotated[Array, 9]

#: What of a vehicle is flown by somebody outside (:mod:`quadsim.firmware`): nothing; rates and
#: motors, on our attitude command; estimation, position control and all that follows.
NOTHING_OUTSIDE, MOTORS_OUTSIDE, ALL_OUTSIDE = range(3)


class Setup(Record):
    """What stays the same over a run, but for the mean wind."""

    delay: int
    imu_period_ns: int
    log_period_ns: int
    landed_by_contact: int  # 1: contact tells the filter that the vehicle stands
    outside: int  # what is flown outside, MOTORS_OUTSIDE for example
    physics: PhysicsParams
    vehicle: VehicleParams
    disturbances: DisturbanceTable
    environment: Annotated[Records[EnvironmentParams], 1]
    autopilot: AutopilotParams
    airframe: Annotated[Any, AIRFRAME]
    # what the sensors' messages say of their noise, row-major
    accel_covariance: Covariance
    gyro_covariance: Covariance
    imu_covariance: Annotated[Array, 18, Over("accel_covariance")]  # both
    field_covariance: Covariance
    pressure_variance: Annotated[Array, 1]


class LoopState(Record):
    """Everything that changes over a run. What kernels take as arrays of one is one here."""

    stamp_ns: int
    vehicle: Vehicle
    truth: Annotated[Records[Kinematics], 1]
    imu: Annotated[Records[ImuSlot], 1]
    gnss: Annotated[Records[GnssSlot], 1]
    magnetometer: Annotated[Records[MagnetometerSlot], 1]
    barometer: Annotated[Records[BarometerSlot], 1]
    rangefinder: Annotated[Records[RangefinderSlot], 1]
    line: Annotated[Any, TIMELINE, 1]
    standing: Annotated[Any, STANDING]
    odometry: Odometry  # what is flown on
    estimate: Odometry  # the filter's, where the truth is flown on
    setpoint: Setpoint
    position: Annotated[Any, POSITION_CONTROL]
    command: AttitudeCommand
    inner: Annotated[Any, INNER_LOOP]
    controlled_ns: int  # stamp of the newest motor command
    pending: Annotated[Array, MAX_DELAY + 1, MAX_ROTORS]
    covariance: Annotated[Array, 36]  # working memory
    log_count: int


class LogRow(Record):
    """One row of the log."""

    stamp_ns: int
    p_W: Vector
    v_W: Vector
    q_WB: Annotated[Array, 4]
    w_B: Vector
    estimated: int
    estimate: Odometry
    rotor_speed_radps: PerRotor
    rotor_command_radps: PerRotor  # the newest


SETUP, STATE, LOG_ROW = dtype_of(Setup), dtype_of(LoopState), dtype_of(LogRow)

#: Samples of each kind as they are published: IMU, GNSS, magnetometer, barometer, range finder and
#: attitude device.
SampleLogs = tuple[Any, ...]
#: Normal numbers of the same devices; between range finder and attitude device those of the wind.
White = tuple[Array, ...]


class LoopArrays(NamedTuple):
    """What the loop works on.

    Attributes:
        states: (N,) of the vehicles.
        setups: (N,).
        scene: what rays meet.
        use_truth: (N,) 1 flies on the truth instead of the estimate (which runs beside it).
        white: (N, rows, width) standard normal numbers for each kind in the order of SENSORS, a row
            for each sample; then those of the wind, a row for each IMU sample; then those of the
            attitude device.
        used: (N, kinds) rows of ``white`` that are used up, as many kinds; they grow.
        log: (N, rows); ``log_count`` of a state are written and grow.
        samples: for each kind in the order of SENSORS, (N, rows) records of its samples as they are
            published; those that do not fit are not kept. Then those of the attitude device.
        linear: TIMELINE of the linear filter, if it is flown on: (N,), else (0,).
        attitude: their attitude devices, as many.
        work: working memory of the vehicles, of which the first is used.
    """

    states: Records[LoopState]
    setups: Records[Setup]
    scene: Scene
    use_truth: NDArray[np.int64]
    white: White
    used: NDArray[np.int64]
    log: Any
    samples: SampleLogs
    linear: Any
    attitude: Any
    work: Records[Workspace]


@kernel
def move_vehicles(
    states: Records[LoopState],
    setups: Records[Setup],
    scene: Scene,
    until_ns: int,
    white: Array,
    row: int,
    work: Workspace,
) -> None:
    """Physics of every vehicle up to a stamp, under the oldest pending motor commands.

    Args:
        states, setups, scene: as of :func:`advance_vehicles`.
        until_ns: the stamp.
        white: (N, rows, WIND_WHITE) standard normal numbers.
        row: of them, for this time.
        work: working memory.
    """
    for i in range(states.shape[0]):
        state = states[i]
        for k in range(MAX_ROTORS):
            state.vehicle.inputs.rotor_command_radps[k] = state.pending[0, k]
    setup, environment = setups[0], setups[0].environment[0]
    fleet.move(
        states["vehicle"], setup.vehicle, environment, scene, setup.physics,
        setups["disturbances"], states[0].stamp_ns, until_ns, white, row, work,
    )  # fmt: skip
    for i in range(states.shape[0]):
        state = states[i]
        state.stamp_ns = until_ns
        model = (state.vehicle, setup.vehicle, environment, setup.physics, work)
        hold_air(model, 1.0)
        write_kinematics(model, until_ns, state.truth[0])


@kernel
def is_due(period_ns: int, now_ns: int, imu_period_ns: int) -> bool:
    """Whether a sensor that is there samples at this IMU stamp."""
    return period_ns > 0 and due(period_ns, now_ns - imu_period_ns, now_ns)


@template
def sense_due(
    step: Callable[..., None],
    slots: AnySlot,
    state: LoopState,
    setup: Setup,
    world: SensorWorld,
    white: Array,
    used: NDArray[np.int64],
    k: int,
    count: int,
) -> None:
    """Take a device's sample, if one is due now; see :func:`quadsim.sensors.slot.sense`.

    Args:
        step, slots, scene, count: as there.
        state, setup: of the vehicle.
        white: (rows, width) standard normal numbers of the device.
        used: rows of each device's that are used up; they grow.
        k: which device it is.
    """
    if is_due(slots[0].period_ns, state.stamp_ns, setup.imu_period_ns):
        sense(step, slots, world, state.truth, state.stamp_ns, white[used[k]], count)
        used[k] += 1


@template
def sense_all(
    state: LoopState,
    setup: Setup,
    scene: Scene,
    attitude: Records[AhrsSlot],
    white: White,
    i: int,
    used: NDArray[np.int64],
) -> None:
    """Take every sample of the vehicle ``i`` that is due now."""
    world = SensorWorld(setup.environment, scene)
    sense_due(imu_step, state.imu, state, setup, world, white[0][i], used, 0, IMU_WHITE)
    sense_due(gnss_step, state.gnss, state, setup, world, white[1][i], used, 1, GNSS_WHITE)
    sense_due(
        magnetometer_step, state.magnetometer, state, setup, world, white[2][i], used, 2,
        MAGNETOMETER_WHITE,
    )  # fmt: skip
    sense_due(
        barometer_step, state.barometer, state, setup, world, white[3][i], used, 3, BAROMETER_WHITE
    )
    sense_due(
        rangefinder_step, state.rangefinder, state, setup, world, white[4][i], used, 4,
        RANGEFINDER_WHITE,
    )  # fmt: skip
    if attitude.shape[0] > 0:
        sense_due(ahrs_step, attitude, state, setup, world, white[AHRS][i], used, AHRS, AHRS_WHITE)


@kernel
def take_standing(state: LoopState, setup: Setup, sample: ImuSample) -> None:
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


@template
def take_imu_samples(state: LoopState, setup: Setup, linear: Any, log: Records[ImuSample]) -> bool:
    """Hand IMU samples that have arrived to the estimator; whether there was one."""
    arrived = False
    while deliver(state.imu, state.stamp_ns, log):
        arrived, sample = True, state.imu[0].sample
        if linear.shape[0] > 0:
            gps_ins_offer(linear, IMU, sample.stamp_ns, sample.values, setup.imu_covariance)
        else:
            verdict = accept(state.line, IMU, sample.stamp_ns, sample.values, setup.imu_covariance)
            if verdict == OK or verdict == GAP or verdict == CLOCK_JUMP:
                take_standing(state, setup, sample)
    return arrived


@kernel
def take_vector(
    state: LoopState, linear: Any, kind: int, stamp_ns: int, values: Array, variance: Array
) -> None:
    """Hand three independent numbers to the estimator."""
    covariance = state.covariance[:9]
    covariance[:] = 0.0
    for i in range(3):
        covariance[4 * i] = variance[i]
    if linear.shape[0] > 0:
        gps_ins_offer(linear, kind, stamp_ns, values, covariance)
    else:
        accept(state.line, kind, stamp_ns, values, covariance)


@template
def take_gnss(state: LoopState, linear: Any, log: Records[GnssSample]) -> None:
    """Hand fixes that have arrived to the estimator, position and velocity."""
    while deliver(state.gnss, state.stamp_ns, log):
        fix = state.gnss[0].sample
        if np.isfinite(fix.p_W[0]):  # else it is no fix
            take_vector(state, linear, GNSS_POSITION, fix.stamp_ns, fix.p_W, fix.p_variance)
            take_vector(state, linear, GNSS_VELOCITY, fix.stamp_ns, fix.v_W, fix.v_variance)


@template
def take_attitude(
    state: LoopState, slots: Records[AhrsSlot], linear: Any, log: Records[AhrsSample]
) -> None:
    """Hand attitudes that have arrived to the linear filter, as accurate as its file says."""
    while deliver(slots, state.stamp_ns, log):
        sample = slots[0].sample
        state.covariance[:] = 0.0
        gps_ins_offer(
            linear, EXTERNAL_ATTITUDE, sample.stamp_ns, sample.values, state.covariance
        )  # fmt: skip


@template
def take_rest(state: LoopState, setup: Setup, linear: Any, logs: SampleLogs) -> None:
    """Hand what else has arrived to the error-state filter; the linear one takes nothing of it."""
    used = linear.shape[0] == 0
    while deliver(state.magnetometer, state.stamp_ns, logs[2]):
        field = state.magnetometer[0].sample
        if used:
            accept(state.line, MAGNETIC_FIELD, field.stamp_ns, field.m_S, setup.field_covariance)
    while deliver(state.barometer, state.stamp_ns, logs[3]):
        pressure = state.barometer[0].sample
        if used:
            accept(
                state.line, STATIC_PRESSURE, pressure.stamp_ns, pressure.values,
                setup.pressure_variance,
            )  # fmt: skip
    variance = state.covariance[:1]
    while deliver(state.rangefinder, state.stamp_ns, logs[4]):
        reading = state.rangefinder[0].sample
        if used and not np.isinf(reading.range_m):  # infinite: nothing is in range
            variance[0] = reading.variance_m2
            accept(state.line, RANGE, reading.stamp_ns, reading.values, variance)


@template
def take_nothing(state: LoopState, logs: SampleLogs) -> None:
    """Deliver what has arrived, for an estimator outside."""
    while deliver(state.imu, state.stamp_ns, logs[0]):
        pass
    while deliver(state.gnss, state.stamp_ns, logs[1]):
        pass
    while deliver(state.magnetometer, state.stamp_ns, logs[2]):
        pass
    while deliver(state.barometer, state.stamp_ns, logs[3]):
        pass
    while deliver(state.rangefinder, state.stamp_ns, logs[4]):
        pass


@kernel
def is_running(state: LoopState, linear: Any) -> bool:
    """Whether there is an estimate."""
    if linear.shape[0] > 0:
        return bool(linear[0].motion.running != 0)
    return bool(state.line[0].state.running != 0)


@template
def take_odometry(state: LoopState, linear: Any, use_truth: int) -> bool:
    """Write the odometry that is flown on; whether there is one."""
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
    return running or use_truth != 0


@template
def control(state: LoopState, setup: Setup, known: bool) -> None:
    """Inner loop on the odometry, if there is one; the motor command at the end of the queue."""
    odometry = state.odometry
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


@template
def log_row(state: LoopState, setup: Setup, linear: Any, use_truth: int, row: LogRow) -> None:
    """Truth, estimate, speeds and command of the rotors at this instant."""
    estimate = state.estimate if use_truth != 0 else state.odometry
    row.stamp_ns = state.stamp_ns
    told = setup.outside == ALL_OUTSIDE and state.odometry.stamp_ns > 0
    row.estimated = 1 if told or is_running(state, linear) else 0
    true = state.truth[0]
    for i in range(3):
        row.p_W[i], row.v_W[i], row.w_B[i] = true.p_W[i], true.v_W[i], true.w_B[i]
    row.estimate = estimate
    for i in range(4):
        row.q_WB[i] = true.q_WB[i]
    for i in range(MAX_ROTORS):
        row.rotor_speed_radps[i] = state.vehicle.x[ROTOR + i]
        row.rotor_command_radps[i] = state.pending[setup.delay, i]


@template
def answer(
    state: LoopState,
    setup: Setup,
    use_truth: int,
    linear: Any,
    attitude: Records[AhrsSlot],
    log: Records[LogRow],
    samples: SampleLogs,
) -> None:
    """Hand over what has arrived, estimate, control, and log, at one IMU stamp of a vehicle.

    Args:
        state, setup: of the vehicle.
        use_truth: 1 flies on the truth.
        linear: (1,) TIMELINE, or (0,).
        attitude: the attitude device, as many.
        log: (rows,) of the vehicle.
        samples: for each kind (rows,) records.
    """
    arrived = False
    if setup.outside == ALL_OUTSIDE:
        take_nothing(state, samples)
    else:
        arrived = take_imu_samples(state, setup, linear, samples[0])
        if linear.shape[0] > 0:
            take_attitude(state, attitude, linear, samples[AHRS_LOG])
        take_gnss(state, linear, samples[1])
        take_rest(state, setup, linear, samples)
        if linear.shape[0] == 0:
            run_events(state.line[0])
    for k in range(setup.delay):
        for i in range(MAX_ROTORS):
            state.pending[k, i] = state.pending[k + 1, i]
    if setup.outside != ALL_OUTSIDE and (arrived or use_truth != 0):
        known = take_odometry(state, linear, use_truth)
        if setup.outside == NOTHING_OUTSIDE:
            control(state, setup, known)
    if is_due(setup.log_period_ns, state.stamp_ns, setup.imu_period_ns):
        log_row(state, setup, linear, use_truth, log[state.log_count])
        state.log_count += 1


@kernel
def advance_vehicles(flight: LoopArrays, until_ns: int, tick_ns: int) -> None:
    """One position-control step on the setpoints in the states, then the loop up to a stamp.

    Args:
        flight: states of the vehicles, at one stamp; setups of one kind, whose IMUs have one rate.
        until_ns: the next mission tick or a stamp before it, a multiple of the IMU's period.
        tick_ns: length of the mission tick that begins now; 0: none begins, and there is no
            position-control step.
    """
    states, setups, scene, use_truth, white, used, log, samples, linear, attitude, work = flight
    for i in range(states.shape[0]):
        state = states[i]
        begins = tick_ns > 0 and setups[i].outside != ALL_OUTSIDE
        if begins and state.odometry.stamp_ns > 0:
            position_control(
                state.position, setups[i].autopilot, state.odometry, state.setpoint,
                tick_ns * 1e-9, state.command,
            )  # fmt: skip
    while states[0].stamp_ns < until_ns:
        now_ns = states[0].stamp_ns + setups[0].imu_period_ns
        move_vehicles(states, setups, scene, now_ns, white[WIND], used[0, WIND], work[0])
        for i in range(states.shape[0]):
            used[i, WIND] += 1
            state, setup = states[i], setups[i]
            filters, devices = linear[i : i + 1], attitude[i : i + 1]
            sense_all(state, setup, scene, devices, white, i, used[i])
            kept = (
                samples[0][i], samples[1][i], samples[2][i],
                samples[3][i], samples[4][i], samples[AHRS_LOG][i],
            )  # fmt: skip
            answer(state, setup, use_truth[i], filters, devices, log[i], kept)


@threaded
def ticks(flight: LoopArrays, until_ns: NDArray[np.int64]) -> Iterator[int]:
    """Call :func:`advance_vehicles` each time that the next one is asked for: a compiled generator.

    It is handed its arguments once. To describe two dozen arrays to compiled code takes 10 us, a
    seventh of what it then does in a tick. While it computes, other threads of Python can go on;
    nobody may touch its arrays meanwhile.

    Args:
        flight: as of :func:`advance_vehicles`.
        until_ns: (2,) ``until_ns`` and ``tick_ns`` of it, read anew each time.

    Yields:
        The stamp.
    """
    # before the loop: what lives across a yield and is counted is never given back
    own, until = borrowed(flight), borrowed(until_ns)
    while True:
        advance_vehicles(own, until[0], until[1])
        yield until[0]
