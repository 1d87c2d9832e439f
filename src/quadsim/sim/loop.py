"""The closed loop between two mission ticks, as one compiled kernel.

Vehicles, sensors, estimators and inner control advance together, in the order in which the graph's
messages flow: physics to the next IMU stamp, the sensors that are due, the estimator, the inner
loop, whose motor command takes effect a fixed number of IMU samples later (as in the graph's
`lockstep`). Vehicles of one world feel each other's wakes and collide, as in a
:class:`~quadsim.vehicle.fleet.Fleet`; nothing else of them meets here. Everything of a vehicle that
changes is in one record, so a run can be compared, saved and digested whole.

The linear GPS/INS filter can be flown on instead of the error-state filter, and is told where it
starts. A loop that flies on the error-state filter carries none of this: an array of no records.

What is sensed, and what filters take of it, is in the table of sensors
(:data:`quadsim.sensors.SENSORS`), of which the kernels are made.

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

from quadsim.base.compiled import (
    Array,
    Record,
    Records,
    Vector,
    kernel,
    template,
    threaded,
)
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
from quadsim.estimation.eskf.layout import RANGE, ZERO_VELOCITY
from quadsim.estimation.eskf.measurement_buffer import CLOCK_JUMP, GAP, IMU, KINDS, OK, TIMELINE
from quadsim.estimation.eskf.outputs import eskf_odometry
from quadsim.estimation.eskf.standing import STANDING, say_standing, stands
from quadsim.estimation.reference_filters.fusion import motion_odometry
from quadsim.estimation.reference_filters.gps_ins import gps_ins_offer
from quadsim.geometry.vector import vec3
from quadsim.sensors import SECOND, SENSORS
from quadsim.sensors.error_terms import due
from quadsim.sensors.imu import ImuSample
from quadsim.sensors.model import Reading, SensorModel, never
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

#: Place of the wind in ``used``, behind the sensors.
WIND = len(SENSORS)

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


class LoopState(Record):
    """What changes over a run, but for the devices. What kernels take as arrays of one is one."""

    stamp_ns: int
    vehicle: Vehicle
    truth: Annotated[Records[Kinematics], 1]
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

#: For each kind in the order of SENSORS an array of N vehicles and their M devices of that kind.
OfDevices = tuple[Any, ...]


class LoopArrays(NamedTuple):
    """What the loop works on.

    Attributes:
        states: (N,) of the vehicles.
        setups: (N,).
        scene: what rays meet.
        use_truth: (N,) 1 flies on the truth instead of the estimate (which runs too).
        devices: for each kind (N, M) slots.
        white: for each kind (N, M, rows, width) standard normal numbers, a row for each sample.
        wind: (N, rows, width) those of the wind, a row for each IMU sample.
        used: for each kind, and at last the wind, (N, M) rows that are used up; they grow.
        log: (N, rows); ``log_count`` of a state are written and grow.
        samples: for each kind (N, M, rows) records of its samples as they are published; those that
            do not fit are dropped.
        linear: TIMELINE of the linear filter, if it is flown on: (N,), else (0,).
        work: working memory of the vehicles, of which the first is used.
    """

    states: Records[LoopState]
    setups: Records[Setup]
    scene: Scene
    use_truth: NDArray[np.int64]
    devices: OfDevices
    white: OfDevices
    wind: Array
    used: OfDevices
    log: Any
    samples: OfDevices
    linear: Any
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
    """Whether something of a period, 0 for never, is due at this IMU stamp."""
    return period_ns > 0 and due(period_ns, now_ns - imu_period_ns, now_ns)


def _sensing(k: int, model: SensorModel, then: Callable[..., None]) -> Callable[..., None]:
    """A kernel that lets the ``k``-th kind of sensors take its samples, and then does the rest."""
    step, count = model.step, model.white_count

    @template
    def sense_kind(
        state: LoopState,
        setup: Setup,
        world: SensorWorld,
        i: int,
        devices: OfDevices,
        white: OfDevices,
        used: OfDevices,
    ) -> None:
        for d in range(devices[k].shape[1]):
            period_ns = devices[k][i, d].period_ns
            if due(period_ns, state.stamp_ns - setup.imu_period_ns, state.stamp_ns):
                slots, row = devices[k][i, d : d + 1], white[k][i, d, used[k][i, d]]
                sense(step, slots, world, state.truth, state.stamp_ns, row, count)
                used[k][i, d] += 1
        then(state, setup, world, i, devices, white, used)

    return sense_kind


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
def take_imu_samples(
    state: LoopState, setup: Setup, slots: AnySlot, linear: Any, log: Records[ImuSample], d: int
) -> bool:
    """Hand samples of the ``d``-th IMU that have arrived to the estimator; whether it took one."""
    arrived = False
    while deliver(slots, state.stamp_ns, log):
        sample, covariance = slots[0].sample, slots[0].stated[:18]
        if linear.shape[0] > 0:
            gps_ins_offer(linear, IMU + d, sample.stamp_ns, sample.values, covariance)
        else:
            verdict = accept(state.line, IMU + d, sample.stamp_ns, sample.values, covariance)
            taken = verdict == OK or verdict == GAP or verdict == CLOCK_JUMP
            if taken and state.line[0].vote.used == d:
                take_standing(state, setup, sample)
        arrived |= d == 0 or state.line[0].vote.used == d
    return arrived


@template
def hand_nothing(state: LoopState, slots: AnySlot, linear: Any, d: int) -> None:
    """What a sample of no use is to the estimator."""


def _handing(
    model: SensorModel, reading: Reading, then: Callable[..., None]
) -> Callable[..., None]:
    """A kernel that hands a reading of a sample to the estimator, and then does the rest."""
    kind, values, variance = KINDS.index(reading.message), reading.values, reading.variance
    second = reading.message + SECOND
    kinds = (kind, KINDS.index(second) if second in KINDS else kind)
    size = reading.rows or model.sample[values].shape[0]
    linear_takes = reading.linear
    absent = never if kind == RANGE else reading.absent  # the filter hears that nothing is in range

    @template
    def covariance_of(state: LoopState, slots: AnySlot) -> Array:
        return slots[0].stated[: size * size]

    @template
    def covariance_in(state: LoopState, slots: AnySlot) -> Array:
        covariance = state.covariance[: size * size]
        covariance[:] = 0.0
        for i in range(size):
            covariance[i * (size + 1)] = slots[0].sample[variance][i]
        return covariance

    find_covariance = covariance_in if variance else covariance_of

    @template
    def hand(state: LoopState, slots: AnySlot, linear: Any, d: int) -> None:
        sample = slots[0].sample
        if not absent(sample[values][0]):
            covariance = find_covariance(state, slots)
            if linear.shape[0] == 0:
                accept(state.line, kinds[d], sample.stamp_ns, sample[values], covariance)
            elif linear_takes and d == 0:
                gps_ins_offer(linear, kind, sample.stamp_ns, sample[values], covariance)
        then(state, slots, linear, d)

    return hand


def _taking(k: int, hand: Callable[..., None], then: Callable[..., None]) -> Callable[..., None]:
    """A kernel that hands what has arrived of the ``k``-th kind, and then does the rest."""

    @template
    def take_kind(
        state: LoopState, i: int, devices: OfDevices, linear: Any, logs: OfDevices
    ) -> None:
        for d in range(devices[k].shape[1]):
            if devices[k][i, d].outbox.count > 0:
                slots = devices[k][i, d : d + 1]
                while deliver(slots, state.stamp_ns, logs[k][i, d]):
                    hand(state, slots, linear, d)
        then(state, i, devices, linear, logs)

    return take_kind


@template
def sense_rest(
    state: LoopState,
    setup: Setup,
    world: SensorWorld,
    i: int,
    devices: OfDevices,
    white: OfDevices,
    used: OfDevices,
) -> None:
    """What is left when all kinds have taken their samples."""


@template
def take_rest(state: LoopState, i: int, devices: OfDevices, linear: Any, logs: OfDevices) -> None:
    """What is left when all kinds have handed over what has arrived."""


def _starting(k: int, then: Callable[..., None]) -> Callable[..., None]:
    """A kernel that lets the ``k``-th kind of sensors begin in the true motion, then the rest."""

    @template
    def start_kind(state: LoopState, i: int, devices: OfDevices) -> None:
        for d in range(devices[k].shape[1]):
            devices[k][i, d].previous = state.truth[0]
        then(state, i, devices)

    return start_kind


@template
def start_rest(state: LoopState, i: int, devices: OfDevices) -> None:
    """What is left when all kinds have begun."""


def _slicing(k: int, then: Callable[..., OfDevices]) -> Callable[..., OfDevices]:
    """A kernel that takes some vehicles out of the arrays from the ``k``-th kind on."""

    @template
    def slice_kinds(arrays: OfDevices, first: int, last: int) -> OfDevices:
        return (arrays[k][first:last],) + then(arrays, first, last)  # noqa: RUF005

    return slice_kinds


@template
def slice_rest(arrays: OfDevices, first: int, last: int) -> OfDevices:
    """What is left when all kinds are taken."""
    return ()


def _of_table() -> tuple[Callable[..., None], ...]:
    """The kernels of all kinds: sense, hand over but for the IMU, deliver for somebody outside."""
    sense_kinds, take_kinds, take_outside = sense_rest, take_rest, take_rest
    for k, model in reversed([*enumerate(SENSORS.values())]):
        sense_kinds = _sensing(k, model, sense_kinds)
        take_outside = _taking(k, hand_nothing, take_outside)
        if model.name != "imu":
            hand = hand_nothing
            for reading in reversed(model.readings):
                hand = _handing(model, reading, hand)
            take_kinds = _taking(k, hand, take_kinds)
    return sense_kinds, take_kinds, take_outside


sense_all, take_others, take_nothing = _of_table()


def _chain(make: Callable[..., Callable[..., Any]], rest: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel that ``make`` makes for each kind, one after the other."""
    for k in reversed(range(len(SENSORS))):
        rest = make(k, rest)
    return rest


start_all = _chain(_starting, start_rest)
slice_all = _chain(_slicing, slice_rest)


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
    for i in range(MAX_ROTORS):  # as motor_speed in the graph
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
    i: int,
    use_truth: int,
    devices: OfDevices,
    linear: Any,
    log: Records[LogRow],
    samples: OfDevices,
) -> None:
    """Hand over what has arrived, estimate, control, and log, at one IMU stamp of a vehicle.

    Args:
        state, setup: of the vehicle.
        i: which one it is.
        use_truth: 1 flies on the truth.
        devices, samples: as of :class:`LoopArrays`.
        linear: (1,) TIMELINE, or (0,).
        log: (rows,) of the vehicle.
    """
    arrived = False
    if setup.outside == ALL_OUTSIDE:
        take_nothing(state, i, devices, linear, samples)
    else:
        for back in range(devices[0].shape[1]):
            d = devices[0].shape[1] - 1 - back  # the first one last: with it the filter is taken on
            slots, imu_samples = devices[0][i, d : d + 1], samples[0][i, d]
            arrived |= take_imu_samples(state, setup, slots, linear, imu_samples, d)
        take_others(state, i, devices, linear, samples)
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
    (
        states, setups, scene, use_truth, devices, white, wind, used, log, samples, linear, work,
    ) = flight  # fmt: skip
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
        move_vehicles(states, setups, scene, now_ns, wind, used[WIND][0, 0], work[0])
        for i in range(states.shape[0]):
            used[WIND][i, 0] += 1
            state, setup = states[i], setups[i]
            world = SensorWorld(setup.environment, scene)
            sense_all(state, setup, world, i, devices, white, used)
            answer(state, setup, i, use_truth[i], devices, linear[i : i + 1], log[i], samples)


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
