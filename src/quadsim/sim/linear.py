"""The linear GPS/INS filter in the closed loop, flown on instead of the error-state filter.

It takes its attitude from a device of its own (:mod:`quadsim.sensors.ahrs`) and is told where it
starts. A loop that flies on the error-state filter carries none of this: an array of no records.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import kernel, record_dtype
from quadsim.base.parameters import dtype_of
from quadsim.base.records import KINEMATICS
from quadsim.estimation.eskf.layout import EXTERNAL_ATTITUDE, GNSS_POSITION, GNSS_VELOCITY
from quadsim.estimation.reference_filters.gps_ins import gps_ins_offer, gps_ins_offer_imu
from quadsim.sensors import ahrs
from quadsim.sensors.ahrs import AhrsParams, ahrs_step
from quadsim.sensors.delivery import collect, prepare, send
from quadsim.sensors.timing import due

#: Normal numbers of a sample, before those of its timing.
AHRS_WHITE = ahrs.MODEL.white_count

#: The device that gives the attitude, as the loop runs it.
ATTITUDE_DEVICE = record_dtype(
    [
        ("period_ns", np.int64),
        ("params", dtype_of(AhrsParams), (1,)),
        ("state", ahrs.MODEL.state, (1,)),
        ("previous", KINEMATICS, (1,)),
        ("sample", ahrs.MODEL.sample, (1,)),
        ("outbox", ahrs.MODEL.outbox, (1,)),
        ("count", np.int64),
        ("covariance", np.float64, (36,)),  # of a pose; zero: what the filter's file says
    ]
)


@kernel
def sense_attitude(
    devices: Any, setup: Any, scene: Any, truths: Any, white: NDArray[np.float64], row: int
) -> int:
    """Take an attitude, where one is due at the truth's stamp; the next row of ``white``."""
    device, now_ns = devices[0], truths[0].stamp_ns
    period_ns = device.period_ns
    if period_ns == 0 or not due(period_ns, now_ns - setup.imu_period_ns, now_ns):
        return row
    prepare(device.outbox, now_ns, white[row], AHRS_WHITE)
    ahrs_step(
        device.state, device.params, setup.environment, scene, device.previous, truths,
        white[row], device.sample,
    )  # fmt: skip
    device.previous[0] = truths[0]
    send(device.outbox, device.params, device.sample, now_ns, period_ns, white[row], AHRS_WHITE)
    return row + 1


@kernel
def take_attitude(lines: Any, devices: Any, now_ns: int, log: Any) -> None:
    """Hand attitudes that have arrived to the filter."""
    device = devices[0]
    while collect(device.outbox, now_ns, device.sample):
        sample = device.sample[0]
        if device.count < log.shape[0]:
            log[device.count] = sample
        device.count += 1
        gps_ins_offer(
            lines, EXTERNAL_ATTITUDE, sample.stamp_ns, sample.values, device.covariance
        )  # fmt: skip


@kernel
def linear_imu(lines: Any, setup: Any, sample: Any) -> None:
    """Predict with an IMU sample."""
    gps_ins_offer_imu(
        lines, sample.stamp_ns, sample.f_S, sample.w_S,
        setup.accel_covariance, setup.gyro_covariance,
    )  # fmt: skip


@kernel
def linear_fix(lines: Any, sample: Any, covariance: Any) -> None:
    """Fuse a fix; ``covariance`` (9,) is working memory, with zeros beside its diagonal."""
    for i in range(3):
        covariance[4 * i] = sample.p_variance[i]
    gps_ins_offer(lines, GNSS_POSITION, sample.stamp_ns, sample.p_W, covariance)
    for i in range(3):
        covariance[4 * i] = sample.v_variance[i]
    gps_ins_offer(lines, GNSS_VELOCITY, sample.stamp_ns, sample.v_W, covariance)
