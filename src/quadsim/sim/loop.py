"""The closed loop between two mission ticks, as one compiled kernel.

Vehicle, sensors, estimator and inner control advance together, in the order in which the graph's
messages flow: physics to the next IMU stamp, the sensors that are due, the estimator, the inner
loop, whose motor command takes effect a fixed number of IMU samples later (as in the graph's
`lockstep`). Everything that changes is in one record, so a run can be compared, kept and digested
whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.compiled import kernel, record_dtype
from quadsim.control.airframe import AIRFRAME
from quadsim.control.parameters import AutopilotParams
from quadsim.control.position import POSITION_CONTROL, position_control
from quadsim.control.watchdog import INNER_LOOP, inner_loop
from quadsim.estimation.eskf import eskf_odometry
from quadsim.estimation.layout import ESKF
from quadsim.estimation.measurements import (
    eskf_gnss_position,
    eskf_gnss_velocity,
    eskf_magnetic_field,
    eskf_pressure,
    eskf_range,
)
from quadsim.estimation.mechanisation import eskf_imu
from quadsim.estimation.parameters import EstimatorParams
from quadsim.geometry.vector import vec3
from quadsim.parameters import dtype_of
from quadsim.records import ATTITUDE_COMMAND, KINEMATICS, MAX_ROTORS, ODOMETRY, SETPOINT
from quadsim.sensors import SENSORS
from quadsim.sensors.barometer import barometer_step
from quadsim.sensors.gnss import gnss_step
from quadsim.sensors.imu import imu_step
from quadsim.sensors.magnetometer import magnetometer_step
from quadsim.sensors.model import due
from quadsim.sensors.rangefinder import rangefinder_step
from quadsim.vehicle.multirotor import ROTOR, VEHICLE, step, truth
from quadsim.vehicle.parameters import VehicleParams
from quadsim.world.environment import EnvironmentParams

Array = NDArray[np.float64]

#: Longest delay of a motor command, in IMU samples.
MAX_DELAY = 20

#: What stays the same over a run. A period of 0 means that the sensor is not there.
SETUP = record_dtype(
    [
        ("step_ns", np.int64),
        ("delay", np.int64),
        ("log_period_ns", np.int64),
        ("vehicle", dtype_of(VehicleParams)),
        ("environment", dtype_of(EnvironmentParams)),
        ("estimator", dtype_of(EstimatorParams)),
        ("autopilot", dtype_of(AutopilotParams)),
        ("airframe", AIRFRAME),
        *[(kind, dtype_of(model.params_type)) for kind, model in SENSORS.items()],
        *[(f"{kind}_period_ns", np.int64) for kind in SENSORS],
        # what the sensors' messages say of their noise
        ("accel_variance", np.float64, (3,)),
        ("gyro_variance", np.float64, (3,)),
        ("position_covariance", np.float64, (3, 3)),
        ("velocity_covariance", np.float64, (3, 3)),
        ("heading_variance", np.float64),
        ("pressure_variance", np.float64),
        ("range_variance", np.float64),
    ]
)

#: Everything that changes over a run.
STATE = record_dtype(
    [
        ("stamp_ns", np.int64),
        ("vehicle", VEHICLE),
        ("truth", KINEMATICS),
        *[(f"{kind}_previous", KINEMATICS) for kind in SENSORS],
        *[(f"{kind}_state", model.state) for kind, model in SENSORS.items()],
        *[(f"{kind}_sample", model.sample) for kind, model in SENSORS.items()],
        *[(f"{kind}_count", np.int64) for kind in SENSORS],
        ("eskf", ESKF),
        ("odometry", ODOMETRY),
        ("setpoint", SETPOINT),
        ("position", POSITION_CONTROL),
        ("command", ATTITUDE_COMMAND),
        ("inner", INNER_LOOP),
        ("pending", np.float64, (MAX_DELAY + 1, MAX_ROTORS)),
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
    ]
)


@kernel
def copy_kinematics(source: Any, target: Any) -> None:
    """Write one KINEMATICS record over another."""
    target.stamp_ns = source.stamp_ns
    for i in range(3):
        target.p_W[i] = source.p_W[i]
        target.v_W[i] = source.v_W[i]
        target.w_B[i] = source.w_B[i]
        target.a_W[i] = source.a_W[i]
        target.w_dot_B[i] = source.w_dot_B[i]
    for i in range(4):
        target.q_WB[i] = source.q_WB[i]


@kernel
def move(state: Any, setup: Any, until_ns: int) -> None:
    """Physics up to a stamp, under the oldest pending motor command."""
    dt_s = setup.step_ns * 1e-9
    for i in range(MAX_ROTORS):
        state.vehicle.inputs.rotor_command_radps[i] = state.pending[0, i]
    while state.stamp_ns < until_ns:
        step(state.vehicle, setup.vehicle, setup.environment, state.stamp_ns, dt_s)
        state.stamp_ns += setup.step_ns
    truth(state.vehicle, setup.vehicle, setup.environment, state.stamp_ns, state.truth)


@kernel
def sense_imu(state: Any, setup: Any, white: Array) -> None:
    """One IMU sample into the estimator."""
    imu_step(
        state.imu_state, setup.imu, setup.environment, state.imu_previous, state.truth, white,
        state.imu_sample,
    )  # fmt: skip
    copy_kinematics(state.truth, state.imu_previous)
    state.imu_count += 1
    eskf_imu(
        state.eskf, setup.estimator, state.stamp_ns,
        vec3(state.imu_sample.f_S), vec3(state.imu_sample.w_S),
        vec3(setup.accel_variance), vec3(setup.gyro_variance),
    )  # fmt: skip


@kernel
def sense_gnss(state: Any, setup: Any, white: Array) -> None:
    """One fix, position and velocity, into the estimator."""
    gnss_step(
        state.gnss_state, setup.gnss, setup.environment, state.gnss_previous, state.truth, white,
        state.gnss_sample,
    )  # fmt: skip
    copy_kinematics(state.truth, state.gnss_previous)
    state.gnss_count += 1
    sample = state.gnss_sample
    eskf_gnss_position(state.eskf, setup.estimator, vec3(sample.p_W), setup.position_covariance)
    eskf_gnss_velocity(state.eskf, setup.estimator, vec3(sample.v_W), setup.velocity_covariance)


@kernel
def sense_magnetic_field(state: Any, setup: Any, white: Array) -> None:
    """One sample of the field into the estimator."""
    magnetometer_step(
        state.magnetometer_state, setup.magnetometer, setup.environment,
        state.magnetometer_previous, state.truth, white, state.magnetometer_sample,
    )  # fmt: skip
    copy_kinematics(state.truth, state.magnetometer_previous)
    state.magnetometer_count += 1
    eskf_magnetic_field(
        state.eskf, setup.estimator, vec3(state.magnetometer_sample.m_S), setup.heading_variance
    )


@kernel
def sense_pressure(state: Any, setup: Any, white: Array) -> None:
    """One static pressure into the estimator."""
    barometer_step(
        state.barometer_state, setup.barometer, setup.environment, state.barometer_previous,
        state.truth, white, state.barometer_sample,
    )  # fmt: skip
    copy_kinematics(state.truth, state.barometer_previous)
    state.barometer_count += 1
    eskf_pressure(
        state.eskf, setup.estimator, state.barometer_sample.pressure_pa, setup.pressure_variance
    )


@kernel
def sense_range(state: Any, setup: Any, white: Array) -> None:
    """One range into the estimator."""
    rangefinder_step(
        state.rangefinder_state, setup.rangefinder, setup.environment,
        state.rangefinder_previous, state.truth, white, state.rangefinder_sample,
    )  # fmt: skip
    copy_kinematics(state.truth, state.rangefinder_previous)
    state.rangefinder_count += 1
    eskf_range(state.eskf, setup.estimator, state.rangefinder_sample.range_m, setup.range_variance)


@kernel
def is_due(period_ns: int, now_ns: int, imu_period_ns: int) -> bool:
    """Whether a sensor that is there samples at this IMU stamp."""
    return period_ns > 0 and due(period_ns, now_ns - imu_period_ns, now_ns)


@kernel
def control(state: Any, setup: Any, use_truth: int) -> None:
    """Odometry, inner loop, and the motor command at the end of the queue."""
    for k in range(setup.delay):
        for i in range(MAX_ROTORS):
            state.pending[k, i] = state.pending[k + 1, i]
    known = state.eskf.running != 0 or use_truth != 0
    if state.eskf.running != 0:
        eskf_odometry(state.eskf, setup.estimator, state.odometry)
    if use_truth != 0:
        odometry, true = state.odometry, state.truth
        odometry.stamp_ns = true.stamp_ns
        for i in range(3):
            odometry.p_W[i], odometry.v_W[i] = true.p_W[i], true.v_W[i]
            odometry.w_B[i] = true.w_B[i]
        for i in range(4):
            odometry.q_WB[i] = true.q_WB[i]
    command_age_s = np.inf
    if state.command.stamp_ns > 0:
        command_age_s = (state.stamp_ns - state.command.stamp_ns) * 1e-9
    inner_loop(
        state.inner,
        setup.autopilot,
        setup.airframe,
        state.odometry,
        0.0 if known else np.inf,
        state.command,
        command_age_s,
        setup.imu_period_ns * 1e-9,
        state.pending[setup.delay],
    )


@kernel
def log_row(state: Any, row: Any) -> None:
    """Truth, estimate and rotor speeds at this instant."""
    row.stamp_ns = state.stamp_ns
    row.estimated = state.eskf.running
    for i in range(3):
        row.p_W[i], row.v_W[i], row.w_B[i] = (
            state.truth.p_W[i], state.truth.v_W[i], state.truth.w_B[i],
        )  # fmt: skip
        row.estimate.p_W[i] = state.odometry.p_W[i]
        row.estimate.v_W[i] = state.odometry.v_W[i]
        row.estimate.w_B[i] = state.odometry.w_B[i]
        row.estimate.p_variance[i] = state.odometry.p_variance[i]
        row.estimate.v_variance[i] = state.odometry.v_variance[i]
        row.estimate.attitude_variance[i] = state.odometry.attitude_variance[i]
    row.estimate.stamp_ns = state.odometry.stamp_ns
    for i in range(4):
        row.q_WB[i] = state.truth.q_WB[i]
        row.estimate.q_WB[i] = state.odometry.q_WB[i]
    for i in range(MAX_ROTORS):
        row.rotor_speed_radps[i] = state.vehicle.x[ROTOR + i]


@kernel
def advance(
    states: Any,
    setups: Any,
    until_ns: int,
    use_truth: int,
    white: tuple[Array, ...],
    log: Any,
    fixes: Any,
) -> None:
    """One position-control step on the setpoint in the state, then the loop up to a stamp.

    Args:
        states: (1,) STATE record. A record goes into compiled code as an array of one: as a
            scalar, its description is written out anew at each call, which takes 20 us.
        setups: (1,) SETUP record.
        until_ns: the next mission tick, a multiple of the IMU's period.
        use_truth: 1 flies on the truth instead of the estimate (which runs beside it).
        white: standard normal numbers for each kind in the order of SENSORS, a row for each
            sample that is due.
        log: LOG_ROW records; ``state.log_count`` are written and grow.
        fixes: GNSS_SAMPLE records; ``state.gnss_count`` are written and grow.
    """
    state, setup = states[0], setups[0]
    imu_white, gnss_white, magnetometer_white, barometer_white, rangefinder_white = white
    if state.odometry.stamp_ns > 0:
        position_control(
            state.position, setup.autopilot, state.odometry, state.setpoint,
            (until_ns - state.stamp_ns) * 1e-9, state.command,
        )  # fmt: skip
    imu_row, gnss_row, magnetometer_row, barometer_row, rangefinder_row = 0, 0, 0, 0, 0
    while state.stamp_ns < until_ns:
        move(state, setup, state.stamp_ns + setup.imu_period_ns)
        now_ns = state.stamp_ns
        sense_imu(state, setup, imu_white[imu_row])
        imu_row += 1
        if is_due(setup.gnss_period_ns, now_ns, setup.imu_period_ns):
            fix = fixes[state.gnss_count]
            sense_gnss(state, setup, gnss_white[gnss_row])
            fix.stamp_ns = now_ns
            for i in range(3):
                fix.p_W[i], fix.v_W[i] = state.gnss_sample.p_W[i], state.gnss_sample.v_W[i]
            gnss_row += 1
        if is_due(setup.magnetometer_period_ns, now_ns, setup.imu_period_ns):
            sense_magnetic_field(state, setup, magnetometer_white[magnetometer_row])
            magnetometer_row += 1
        if is_due(setup.barometer_period_ns, now_ns, setup.imu_period_ns):
            sense_pressure(state, setup, barometer_white[barometer_row])
            barometer_row += 1
        if is_due(setup.rangefinder_period_ns, now_ns, setup.imu_period_ns):
            sense_range(state, setup, rangefinder_white[rangefinder_row])
            rangefinder_row += 1
        control(state, setup, use_truth)
        if is_due(setup.log_period_ns, now_ns, setup.imu_period_ns):
            log_row(state, log[state.log_count])
            state.log_count += 1
