"""Records to messages and back: frames, order of quaternions and covariances, here and only here.

Messages have ``pose`` in ``map``, ``twist`` in ``base_link`` and quaternions x, y, z, w; records
have velocities in the world and quaternions w first (:mod:`quadsim.base.records`).
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from quadsim.base.parameters import Vec3
from quadsim.geometry.rotation import Quat, quat, rotate, to_matrix, unrotate
from quadsim.ros.messages.cdr import MessageError, Reader, stamp_of
from quadsim.ros.runtime import topics
from quadsim.wire.encode import Template

Array = NDArray[np.float64]

#: Sizes of a motion, in SI units, beyond which nothing flies; their squares are numbers.
LARGEST = 1e8
#: In odometries: position and quaternion; linear and angular velocity.
_POSE, _TWIST = struct.Struct("<7d"), struct.Struct("<6d")
#: What :class:`MotionFields` holds, and how.
_NUMBERS = ("p_W", "v_W", "q_WB", "w_B")
_MOTION = struct.Struct("=13d")


def put_quaternion(field: Any, q: Any) -> None:
    """Write a quaternion, w first, into a field that has w last."""
    field[0], field[1], field[2], field[3] = q[1], q[2], q[3], q[0]


def unit_quaternion(field: Any) -> Quat:
    """Read a field that has w last into a quaternion, w first, made to length 1.

    Raises:
        MessageError: not a rotation (NaN, or far from length 1).
    """
    return _unit(*field.tolist())


def _unit(x: float, y: float, z: float, w: float) -> Quat:
    length = math.sqrt(x * x + y * y + z * z + w * w)
    if not 0.9 < length < 1.1:
        raise MessageError(f"quaternion of length {length:.3g}")
    return (w / length, x / length, y / length, z / length)


def finite(field: Any, what: str) -> Vec3:
    """Three numbers of a message.

    Raises:
        MessageError: one is NaN, infinite or larger than :data:`LARGEST`.
    """
    x, y, z = field.tolist()
    return _finite(x, y, z, what)


def _finite(x: float, y: float, z: float, what: str) -> Vec3:
    if not abs(x) + abs(y) + abs(z) <= LARGEST:
        if math.isfinite(x + y + z):
            raise MessageError(f"{what} of more than {LARGEST:g}")
        raise MessageError(f"{what} is not finite")
    return (x, y, z)


class MotionFields:
    """Fields of one KINEMATICS or ODOMETRY record, looked up once: each look-up takes 1 us.

    ``numbers`` is the memory of all but the stamp: they lie one behind the other.
    """

    __slots__ = ("numbers", "p_W", "q_WB", "record", "v_W", "w_B")

    def __init__(self, record: Any) -> None:
        self.record = record
        self.p_W, self.v_W = record["p_W"], record["v_W"]
        self.q_WB, self.w_B = record["q_WB"], record["w_B"]
        assert [record.dtype.fields[name][1] for name in _NUMBERS] == [8, 32, 56, 88]
        self.numbers = as_strided(self.p_W, (13,), (8,)).data


class OdometryWriter:
    """Odometry messages of one record: the truth's or an estimate's.

    Args:
        frame: name of the frame of the pose.
        child: name of the body's frame.
        record: KINEMATICS or ODOMETRY record; messages say what it holds at the time.
    """

    def __init__(self, frame: str, child: str, record: Any) -> None:
        self._motion = MotionFields(record)
        self._template = Template.of(topics.ODOMETRY.type_name, frame, child)
        fields = self._template.fields
        self._p, self._q = fields["p"], fields["q_xyzw"]
        self._v, self._w = fields["v"], fields["w"]
        self._pose_covariance = fields["pose_covariance"]
        self._twist_covariance = fields["twist_covariance"]

    def payload(self) -> bytes:
        """Message without covariance, or with the last one given (the truth has none)."""
        motion = self._motion
        q = tuple(motion.q_WB.tolist())
        self._p[:] = motion.p_W
        put_quaternion(self._q, q)
        self._v[:] = unrotate(q, tuple(motion.v_W.tolist()))
        self._w[:] = motion.w_B
        return self._template.payload(int(motion.record["stamp_ns"]))

    def estimate(self, pose_covariance: Array, twist_covariance: Array) -> bytes:
        """Message with (6, 6) covariances as nav_msgs wants them."""
        self._pose_covariance[:] = pose_covariance
        self._twist_covariance[:] = twist_covariance
        return self.payload()


class OdometryReader:
    """Odometry messages into one record.

    Args:
        record: KINEMATICS or ODOMETRY record that each message is read into.
    """

    def __init__(self, record: Any) -> None:
        self._motion = MotionFields(record)
        self._reader = Reader(topics.ODOMETRY.type_name)

    @property
    def frames(self) -> list[str]:
        """Names of the frames of pose and twist in the last message."""
        return self._reader.frames

    def read(self, payload: bytes) -> Any:
        """Read one message; gives the view of its fields, for :func:`read_variances`.

        Raises:
            MessageError: no odometry, or a number is missing; the record is as it was.
        """
        reader, motion = self._reader, self._motion
        payload = reader.checked(payload)
        px, py, pz, x, y, z, w = _POSE.unpack_from(payload, reader.places["p"])
        vx, vy, vz, wx, wy, wz = _TWIST.unpack_from(payload, reader.places["v"])
        _finite(px, py, pz, "position")
        v_B = _finite(vx, vy, vz, "velocity")
        w_B = _finite(wx, wy, wz, "angular velocity")
        q_WB = _unit(x, y, z, w)
        _MOTION.pack_into(motion.numbers, 0, px, py, pz, *rotate(q_WB, v_B), *q_WB, *w_B)
        motion.record["stamp_ns"] = stamp_of(payload)
        return reader.view(payload)


def read_variances(view: Any, record: Any) -> None:
    """Read the diagonals of an odometry's covariances, the velocity's rotated into the world."""
    pose = np.diagonal(view["pose_covariance"])
    R = np.array(to_matrix(quat(record.q_WB)))
    record.p_variance[:] = pose[:3]
    record.attitude_variance[:] = pose[3:]
    record.v_variance[:] = np.diagonal(R @ view["twist_covariance"][:3, :3] @ R.T)


class AccelWriter:
    """AccelStamped messages of the truth: second derivative of position, in ``base_link``."""

    def __init__(self, frame: str, record: Any) -> None:
        self._record = record
        self._a_W, self._w_dot_B, self._q_WB = record["a_W"], record["w_dot_B"], record["q_WB"]
        self._template = Template.of(topics.ACCEL.type_name, frame)
        self._a, self._w_dot = (self._template.fields[name] for name in ("a", "w_dot"))

    def payload(self) -> bytes:
        """Message of the KINEMATICS record as it is now."""
        self._a[:] = unrotate(tuple(self._q_WB.tolist()), tuple(self._a_W.tolist()))
        self._w_dot[:] = self._w_dot_B
        return self._template.payload(int(self._record["stamp_ns"]))


def read_accel(view: Any, record: Any) -> None:
    """Read an AccelStamped message into a KINEMATICS record that has the attitude of its stamp.

    Raises:
        MessageError: a number is missing.
    """
    a_B = finite(view["a"], "acceleration")
    record.w_dot_B[:] = finite(view["w_dot"], "angular acceleration")
    record.a_W[:] = rotate(quat(record.q_WB), a_B)
