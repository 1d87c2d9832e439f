"""What the graph publishes of records: each message stated once, for the nodes and for bags.

A message of a device has its frames and covariances; ``numbers`` gives what changes, of one record
or of an array of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from quadsim.geometry.geodesy import Datum
from quadsim.wire.axes import rotation_matrices
from quadsim.wire.encode import Template
from quadsim.wire.standard import (
    FIX,
    FLOW,
    IMU,
    MAGNETIC_FIELD,
    ODOMETRY,
    POSE,
    PRESSURE,
    RANGE,
    TWIST,
    TWIST_STAMPED,
)

Numbers = dict[str, Any]
#: First number of a covariance whose quantity is not measured (REP 145).
NO_ORIENTATION = -1.0
#: Variance of an angle of which nothing is known, rad^2.
UNKNOWN_RAD2 = 1e3
#: NavSatFix: no fix; satellites of GPS; variances on the diagonal are known.
NO_FIX, GPS, DIAGONAL_KNOWN = -1, 1, 2
#: What a range finder sends, as its parameters and as its messages say it.
RADIATIONS = {"ultrasound": 0, "infrared": 1}


@dataclass(frozen=True)
class SampleMessages:
    """Messages of a device's samples, or of other records that have a ``stamp_ns``.

    Attributes:
        template: with frames and covariances.
        numbers: gives those of one record, or of an array of them.
        exist: tells of one record, or of each of many, whether it has a message; None: all have.
    """

    template: Template
    numbers: Callable[[Any], Numbers]
    exist: Callable[[Any], Any] | None = None

    def chosen(self, samples: Any) -> Any:
        """(N,) which of so many samples have a message."""
        return np.ones(len(samples), bool) if self.exist is None else self.exist(samples)

    def payload(self, sample: Any, stamp_ns: int | None = None) -> bytes:
        """Message of one sample, with its own stamp or another."""
        stamp_ns = int(sample["stamp_ns"]) if stamp_ns is None else stamp_ns
        return self.template.payload(stamp_ns, **self.numbers(sample))

    def payloads(self, samples: Any) -> list[bytes]:
        """Messages of (N,) samples."""
        return self.template.payloads(samples["stamp_ns"], **self.numbers(samples))


def diagonal(variance: Any, size: int = 3) -> NDArray[np.float64]:
    """(..., size, size) covariances with (..., K) variances on the diagonal, behind them zeros."""
    variance = np.asarray(variance, float)
    covariance = np.zeros((*variance.shape[:-1], size, size))
    axes = np.arange(variance.shape[-1])
    covariance[..., axes, axes] = variance
    return covariance


def imu_messages(frame: str, accel_variance: ArrayLike, gyro_variance: ArrayLike) -> SampleMessages:
    """Imu messages without an orientation; (3,) variances of one sample."""
    template = Template.of(
        IMU, frame, q_xyzw=(0.0, 0.0, 0.0, 1.0), q_covariance=diagonal([NO_ORIENTATION]),
        f_covariance=diagonal(accel_variance), w_covariance=diagonal(gyro_variance),
    )  # fmt: skip
    return SampleMessages(template, lambda sample: {"f": sample["f_S"], "w": sample["w_S"]})


def field_messages(frame: str, variance: ArrayLike) -> SampleMessages:
    """MagneticField messages; (3,) variances, T^2."""
    template = Template.of(MAGNETIC_FIELD, frame, covariance=diagonal(variance))
    return SampleMessages(template, lambda sample: {"m": sample["m_S"]})


def pressure_messages(frame: str, variance: float) -> SampleMessages:
    """FluidPressure messages; variance in Pa^2."""
    template = Template.of(PRESSURE, frame, variance=variance)
    return SampleMessages(template, lambda sample: {"pressure": sample["pressure_pa"]})


def range_messages(frame: str, params: Any) -> SampleMessages:
    """Range messages; -inf and inf mean too near and nothing there."""
    template = Template.of(
        RANGE, frame, radiation_type=RADIATIONS[params.radiation],
        field_of_view=math.radians(params.field_of_view_deg),
        min_range=params.range_min_m, max_range=params.range_max_m,
    )  # fmt: skip
    return SampleMessages(
        template, lambda sample: {"range": sample["range_m"], "variance": sample["variance_m2"]}
    )


def flow_messages(frame: str) -> SampleMessages:
    """Optical flow as TwistWithCovarianceStamped, for which ROS has no type of its own.

    ``linear`` is the flow about x and y in rad and the interval that ends at the stamp in s;
    ``angular`` the rotation over it by the device's own gyroscope in rad, NaN without one. The
    covariance has the variances of both flows in rad^2, and in the place of the third the quality
    from 0 to 1. Where nothing was seen the flow is NaN. Signs as of MAVLink's OPTICAL_FLOW_RAD:
    a turn of the sensor gives a flow of the same sign, in the axes of the frame, which looks along
    its -z.
    """

    def numbers(sample: Any) -> Numbers:
        covariance = diagonal(sample["variance_rad2"][..., None] * np.ones(2), 6)
        covariance[..., 2, 2] = sample["quality"]
        return {"v": sample["flow"], "w": sample["turn"], "covariance": covariance}

    return SampleMessages(Template.of(FLOW, frame), numbers)


def has_fix(sample: Any) -> Any:
    """Whether a GNSS sample, or each of many, holds a position."""
    return np.isfinite(sample["p_W"]).all(axis=-1)


def fix_messages(frame: str, datum: Datum) -> SampleMessages:
    """NavSatFix messages; NaN and no fix where a sample has no position."""
    template = Template.of(FIX, frame, service=GPS, status=NO_FIX, covariance_type=DIAGONAL_KNOWN)

    def numbers(sample: Any) -> Numbers:
        found = has_fix(sample)
        places = np.full(np.shape(sample["p_W"]), math.nan)
        for row in np.argwhere(found):
            places[tuple(row)] = datum.to_geodetic(sample["p_W"][tuple(row)])
        return {
            "status": np.where(found, sample["status"], NO_FIX),
            "latitude_deg": places[..., 0],
            "longitude_deg": places[..., 1],
            "height_m": places[..., 2],
            "covariance": diagonal(sample["p_variance"]),
        }

    return SampleMessages(template, numbers)


def heading_messages(frame: str) -> SampleMessages:
    """Imu messages whose yaw is the azimuth of two antennas' baseline, as u-blox's driver has it.

    Roll and pitch are not known, rate and force are not measured (REP 145).
    """
    not_measured = diagonal([NO_ORIENTATION])
    template = Template.of(IMU, frame, w_covariance=not_measured, f_covariance=not_measured)

    def numbers(sample: Any) -> Numbers:
        half = 0.5 * np.asarray(sample["heading_rad"])
        level = np.zeros_like(half)
        variance = np.asarray(sample["variance_rad2"])
        open_rad2 = np.full_like(half, UNKNOWN_RAD2)
        return {
            "q_xyzw": np.stack([level, level, np.sin(half), np.cos(half)], axis=-1),
            "q_covariance": diagonal(np.stack([open_rad2, open_rad2, variance], axis=-1)),
        }

    return SampleMessages(template, numbers, lambda sample: np.isfinite(sample["heading_rad"]))


def heading_of(q_xyzw: Any, q_covariance: Any) -> tuple[Any, Any]:
    """Yaw of an Imu, or of each of many, and its variance; NaN where there is no orientation.

    Nobody filled in a quaternion of zeros.
    """
    x, y, z, w = np.moveaxis(q_xyzw, -1, 0)
    yaw = np.arctan2(2.0 * (w * z + x * y), w * w + x * x - y * y - z * z)
    filled = w * w + x * x + y * y + z * z > 0.0
    there = filled & (q_covariance[..., 0, 0] != NO_ORIENTATION)
    return np.where(there, yaw, math.nan), q_covariance[..., 2, 2]


def velocity_messages() -> SampleMessages:
    """TwistWithCovarianceStamped messages, ENU, without an angular velocity."""
    template = Template.of(TWIST, "map")

    def numbers(sample: Any) -> Numbers:
        covariance = diagonal(sample["v_variance"], 6)
        covariance[..., 3, 3] = NO_ORIENTATION
        return {"v": sample["v_W"], "covariance": covariance}

    return SampleMessages(template, numbers, has_fix)


def own_frame_messages(frame: str) -> SampleMessages:
    """Odometry messages of poses in a frame of their own, without a twist; none where lost."""
    child = frame.removesuffix("visual_odom") + "base_link"
    unknown = diagonal([NO_ORIENTATION], 6)
    template = Template.of(ODOMETRY, frame, child, twist_covariance=unknown)

    def numbers(sample: Any) -> Numbers:
        return {
            "p": sample["p_F"],
            "q_xyzw": np.roll(sample["q_FB"], -1, axis=-1),
            "pose_covariance": diagonal(sample["variances"], 6),
        }

    return SampleMessages(template, numbers, lambda sample: np.isfinite(sample["p_F"][..., 0]))


def odometry_messages(child: str, stated: bool = False) -> SampleMessages:
    """Odometry messages of many records of motion at once; ``stated`` ones have variances."""
    return SampleMessages(
        Template.of(ODOMETRY, "map", child), lambda rows: motion_columns(rows, stated)
    )


def motion_columns(rows: NDArray[Any], stated: bool = False) -> Numbers:
    """Columns of Odometry messages: pose in the world, twist in the body.

    Args:
        rows: (M,) records of position, velocity, attitude and rate.
        stated: whether they state variances.
    """
    R_WB = rotation_matrices(rows["q_WB"])
    columns: Numbers = {
        "p": rows["p_W"],
        "q_xyzw": np.roll(rows["q_WB"], -1, axis=1),
        "v": np.einsum("nji,nj->ni", R_WB, rows["v_W"]),
        "w": rows["w_B"],
    }
    if stated:
        twist = np.zeros((len(rows), 6, 6))
        twist[:, :3, :3] = np.einsum("nki,nk,nkj->nij", R_WB, rows["v_variance"], R_WB)
        variances = np.concatenate([rows["p_variance"], rows["attitude_variance"]], axis=1)
        columns |= {"pose_covariance": diagonal(variances, 6), "twist_covariance": twist}
    return columns


def reference_messages() -> SampleMessages:
    """PoseStamped messages in ``map``: where setpoints want the vehicle."""

    def numbers(setpoint: Any) -> Numbers:
        half = 0.5 * np.asarray(setpoint["yaw"])
        level = np.zeros_like(half)
        q_xyzw = np.stack([level, level, np.sin(half), np.cos(half)], axis=-1)
        return {"p": setpoint["p_W"], "q_xyzw": q_xyzw}

    return SampleMessages(Template.of(POSE, "map"), numbers)


def velocity_command_messages() -> SampleMessages:
    """TwistStamped messages in ``map``: the velocity that setpoints want."""

    def numbers(setpoint: Any) -> Numbers:
        yaw_rate = np.asarray(setpoint["yaw_rate"])
        level = np.zeros_like(yaw_rate)
        w = np.stack([level, level, yaw_rate], axis=-1)
        return {"v": setpoint["v_W"], "w": w}

    return SampleMessages(Template.of(TWIST_STAMPED, "map"), numbers)


def attitude_numbers(command: Any) -> Numbers:
    """Of attitude commands; see :func:`quadsim.wire.encode.attitude_template`."""
    return {
        "q_xyzw": np.roll(command["q_WB"], -1, axis=-1),
        "yaw_rate": command["yaw_rate"],
        "thrust": command["thrust"],
    }
