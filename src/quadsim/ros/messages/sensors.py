"""Samples of sensors to messages, with the covariances of the device that made them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from geometry_msgs.msg import TwistWithCovarianceStamped
from numpy.typing import ArrayLike
from sensor_msgs.msg import (
    FluidPressure,
    Imu,
    MagneticField,
    NavSatFix,
    NavSatStatus,
    Range,
)

from quadsim.ros.messages.cdr import Writer
from quadsim.ros.messages.conversion import put_quaternion
from quadsim.ros.runtime import topics

#: First number of a covariance whose quantity is not measured (REP 145).
NO_ORIENTATION = -1.0

#: What a range finder sends, as its parameters and as its messages say it.
RADIATIONS = {"ultrasound": Range.ULTRASOUND, "infrared": Range.INFRARED}


class ImuWriter:
    """Imu messages, with the covariances of one device.

    Args:
        frame: name of the sensor's frame.
        accel_variance, gyro_variance: (3,) of one sample.
    """

    def __init__(self, frame: str, accel_variance: ArrayLike, gyro_variance: ArrayLike) -> None:
        template = Imu()
        template.header.frame_id = frame
        template.orientation_covariance[0] = NO_ORIENTATION
        self._writer = Writer(template, topics.IMU_RAW.type_name)
        fields = self._writer.fields
        np.fill_diagonal(fields["f_covariance"], accel_variance)
        np.fill_diagonal(fields["w_covariance"], gyro_variance)

    def payload(self, sample: Any) -> bytes:
        """Message of an IMU sample."""
        fields = self._writer.fields
        fields["f"][:] = sample["f_S"]
        fields["w"][:] = sample["w_S"]
        return self._writer.payload(int(sample["stamp_ns"]))


class OrientedImuWriter:
    """Imu messages passed on with an orientation."""

    def __init__(self, frame: str) -> None:
        template = Imu()
        template.header.frame_id = frame
        self._writer = Writer(template, topics.IMU.type_name)

    def payload(self, view: Any, q_WS: Any, orientation_covariance: Any, stamp_ns: int) -> bytes:
        """The message seen by ``view``, oriented; covariance (3, 3) about the world's axes."""
        fields = self._writer.fields
        for name in ("f", "w", "f_covariance", "w_covariance"):
            fields[name][:] = view[name]
        put_quaternion(fields["q_xyzw"], q_WS)
        fields["q_covariance"][:] = orientation_covariance
        return self._writer.payload(stamp_ns)


class MagneticFieldWriter:
    """MagneticField messages, with the variance of one device, (3,) T^2."""

    def __init__(self, frame: str, variance: ArrayLike) -> None:
        template = MagneticField()
        template.header.frame_id = frame
        self._writer = Writer(template, topics.MAGNETIC_FIELD.type_name)
        np.fill_diagonal(self._writer.fields["covariance"], variance)

    def payload(self, sample: Any) -> bytes:
        """Message of a magnetometer sample."""
        self._writer.fields["m"][:] = sample.m_S
        return self._writer.payload(int(sample.stamp_ns))


class PressureWriter:
    """FluidPressure messages, with the variance of one device in Pa^2."""

    def __init__(self, frame: str, variance: float) -> None:
        template = FluidPressure(variance=variance)
        template.header.frame_id = frame
        self._writer = Writer(template, topics.PRESSURE.type_name)

    def payload(self, sample: Any) -> bytes:
        """Message of a barometer sample."""
        self._writer.fields["pressure"][:] = sample.pressure_pa
        return self._writer.payload(int(sample.stamp_ns))


class RangeWriter:
    """Range messages of one device, with the variance of each reading."""

    def __init__(self, frame: str, params: Any) -> None:
        template = Range(
            radiation_type=RADIATIONS[params.radiation],
            field_of_view=math.radians(params.field_of_view_deg),
            min_range=params.range_min_m,
            max_range=params.range_max_m,
        )
        template.header.frame_id = frame
        self._writer = Writer(template, topics.RANGE.type_name)

    def payload(self, sample: Any) -> bytes:
        """Message of a range finder sample; -inf and inf mean too near and nothing there."""
        fields = self._writer.fields
        fields["range"][:] = sample.range_m
        if "variance" in fields:
            fields["variance"][:] = sample.variance_m2
        return self._writer.payload(int(sample.stamp_ns))


def has_fix(sample: Any) -> bool:
    """Whether a GNSS sample holds a position."""
    return bool(np.isfinite(sample["p_W"]).all())


class FixWriter:
    """NavSatFix messages about a datum, with the covariance of each fix."""

    def __init__(self, frame: str, datum: Any) -> None:
        template = NavSatFix(position_covariance_type=NavSatFix.COVARIANCE_TYPE_DIAGONAL_KNOWN)
        template.header.frame_id = frame
        template.status.service = NavSatStatus.SERVICE_GPS
        self._datum = datum
        self._writer = Writer(template, topics.GPS_FIX.type_name)
        self._covariance = np.einsum("ii->i", self._writer.fields["covariance"])  # a view

    def payload(self, sample: Any) -> bytes:
        """Message of a GNSS sample; NaN and STATUS_NO_FIX where it has no position."""
        fields = self._writer.fields
        position = (math.nan,) * 3
        fields["status"][:] = NavSatStatus.STATUS_NO_FIX
        if has_fix(sample):
            fields["status"][:] = sample["status"]
            position = self._datum.to_geodetic(sample["p_W"])
        fields["latitude_deg"][:], fields["longitude_deg"][:], fields["height_m"][:] = position
        self._covariance[:] = sample["p_variance"]
        return self._writer.payload(int(sample["stamp_ns"]))


class VelocityWriter:
    """TwistWithCovarianceStamped messages in ENU, with the covariance of each sample."""

    def __init__(self, frame: str) -> None:
        template = TwistWithCovarianceStamped()
        template.header.frame_id = frame
        template.twist.covariance[21] = NO_ORIENTATION  # no angular velocity
        self._writer = Writer(template, topics.GPS_VELOCITY.type_name)
        self._covariance = np.einsum("ii->i", self._writer.fields["covariance"])[:3]  # a view

    def payload(self, sample: Any) -> bytes:
        """Message of a GNSS sample."""
        self._writer.fields["v"][:] = sample["v_W"]
        self._covariance[:] = sample["v_variance"]
        return self._writer.payload(int(sample["stamp_ns"]))
