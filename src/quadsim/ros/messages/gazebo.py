"""Gazebo's messages, as ros_gz_bridge passes them on, to those of the graph.

What they lack is added here: frames, covariances, the velocity of a fix; see docs/gazebo.md.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.base.compiled import new_record, plain
from quadsim.base.parameters import Vec3
from quadsim.base.records import KINEMATICS
from quadsim.geometry.rotation import quat, rotate
from quadsim.geometry.vector import add, cross, vec3
from quadsim.ros.messages.cdr import MessageError, Reader
from quadsim.ros.messages.conversion import OdometryReader, OdometryWriter, finite
from quadsim.ros.runtime import topics
from quadsim.sensors.gnss import GnssParams
from quadsim.sensors.imu import ImuParams
from quadsim.sensors.rangefinder import RangefinderParams, echo_variance
from quadsim.wire import samples
from quadsim.wire.encode import SECOND_NS, Template
from quadsim.world.air.atmosphere import height_of, pressure_at

#: So many odometries are stored for a fix that comes late.
KEPT_ODOMETRIES = 200


def with_header(payload: bytes, stamp_ns: int, frame: str) -> bytes:
    """A serialised message under another stamp and frame; the rest is not even looked at.

    Args:
        payload: a message that begins with a header and holds no number of eight bytes, as
            LaserScan, PointCloud2 and Image do: its fields need no other places then.
        stamp_ns: its new stamp.

    Raises:
        MessageError: not little-endian CDR, or cut.
    """
    if len(payload) < 16 or payload[:2] != b"\x00\x01":
        raise MessageError("not little-endian CDR")
    (length,) = struct.unpack_from("<I", payload, 12)
    end = 16 + length
    rest = end + -end % 4
    if rest > len(payload):
        raise MessageError("the message is cut")
    name = frame.encode() + b"\x00"
    head = payload[:4] + struct.pack("<iII", *divmod(stamp_ns, SECOND_NS), len(name)) + name
    return head + bytes(-len(head) % 4) + payload[rest:]


#: Takes a message of Gazebo and its stamp, and gives the message of the graph; it raises a
#: MessageError for what cannot be used.
Convert = Callable[[bytes, int], bytes]


def _conversion(
    given: topics.Topic, writer: samples.SampleMessages, read: Callable[[Any], dict[str, Any]]
) -> Convert:
    """Messages whose numbers are a sample's.

    Args:
        read: makes a sample of the view of a message.
    """
    reader = Reader(given.type_name)
    return lambda payload, stamp_ns: writer.payload(read(reader.read(payload)), stamp_ns)


def imu_conversion(frame: str, params: ImuParams) -> Convert:
    """Imu messages in the sensor's frame, with our covariances and no orientation."""
    writer = samples.imu_messages(frame, params.accel_variance(), params.gyro_variance())

    def read(view: Any) -> dict[str, Any]:
        f_S, w_S = finite(view["f"], "specific force"), finite(view["w"], "angular rate")
        return {"f_S": f_S, "w_S": w_S}

    return _conversion(topics.GAZEBO_IMU, writer, read)


def magnetic_conversion(frame: str, variance_T2: Any, check: Callable[[Vec3], None]) -> Convert:
    """MagneticField messages with our covariance; the model's field is in T, its axes FLU.

    Args:
        variance_T2: (3,) of a sample.
        check: takes each sample.
    """

    def read(view: Any) -> dict[str, Any]:
        m_S = finite(view["m"], "magnetic field")
        if max(map(abs, m_S)) > 1e-2:  # the Earth's is 7e-5 T at most
            raise MessageError(
                f"a field of {max(map(abs, m_S)):.3g}, which is in gauss: Gazebo Sim 8.6 or later"
                " with <use_units_gauss>false</use_units_gauss> in its Magnetometer plugin gives T"
            )
        check(m_S)
        return {"m_S": m_S}

    writer = samples.field_messages(frame, variance_T2)
    return _conversion(topics.GAZEBO_MAGNETIC_FIELD, writer, read)


def pressure_conversion(frame: str, variance_pa2: float, datum_height_m: float) -> Convert:
    """FluidPressure messages as at the datum's height, with our variance.

    Gazebo's sensor counts the height from z = 0 of the world as from the sea, and sends the root of
    its deviation as its variance.

    Args:
        datum_height_m: of the world's origin above the sea.
    """

    def read(view: Any) -> dict[str, Any]:
        found_pa = float(view["pressure"])
        if not 0.0 < found_pa < math.inf:
            raise MessageError(f"a pressure of {found_pa} Pa")
        return {"pressure_pa": pressure_at(height_of(found_pa) + datum_height_m)}

    return _conversion(topics.GAZEBO_PRESSURE, samples.pressure_messages(frame, variance_pa2), read)


def range_conversion(frame: str, params: RangefinderParams) -> Convert:
    """A LaserScan of one ray as Range; limits are the scan's (-inf, inf: too near, nothing there).

    Args:
        frame: name of the beam's frame, whose x axis is the ray.
        params: what the scan does not say.
    """
    reader = Reader(topics.GAZEBO_RANGE.type_name)

    @lru_cache(maxsize=1)
    def writer(range_min_m: float, range_max_m: float) -> samples.SampleMessages:
        beam = SimpleNamespace(
            radiation=params.radiation,
            field_of_view_deg=params.field_of_view_deg,
            range_min_m=range_min_m,
            range_max_m=range_max_m,
        )
        return samples.range_messages(frame, beam)

    def convert(payload: bytes, stamp_ns: int) -> bytes:
        view = reader.read(payload)
        if view["count"] != 1:
            raise MessageError(f"a scan of {view['count']} rays; a range finder has one")
        range_m, variance_m2 = float(view["range"]), 0.0
        if math.isnan(range_m):
            raise MessageError("the range is not a number")
        if math.isfinite(range_m):
            variance_m2 = plain(echo_variance)(params, range_m)
        sample = {"range_m": range_m, "variance_m2": variance_m2}
        return writer(float(view["min_range"]), float(view["max_range"])).payload(sample, stamp_ns)

    return convert


class TruthConversion:
    """Odometry of the model's OdometryPublisher as truth: in ``map``, twist in ``base_link``."""

    def __init__(self, body: str) -> None:
        self.record = new_record(KINEMATICS)
        self._reader = OdometryReader(self.record)
        self._writer = OdometryWriter("map", body, self.record)

    def __call__(self, payload: bytes, stamp_ns: int) -> bytes:
        """One message; the record holds it afterwards.

        Raises:
            MessageError: no odometry.
        """
        self._reader.read(payload)
        self.record["stamp_ns"] = stamp_ns
        return self._writer.payload()


class FixConversion:
    """NavSatFix messages with our covariance, and the velocity that the bridge has no message for.

    The velocity is that of the antenna by the model's odometry at the fix's stamp, with white noise
    of the receiver's deviation. A fix waits for an odometry of its time.
    """

    def __init__(self, frame: str, params: GnssParams, generator: np.random.Generator) -> None:
        sigma_m = params.position_sigma_m()
        self._reader = Reader(topics.GAZEBO_NAVSAT.type_name)
        self._template = Template.of(
            topics.GPS_FIX.type_name, frame, service=samples.GPS,
            covariance=samples.diagonal(np.square(sigma_m)),
            covariance_type=samples.DIAGONAL_KNOWN if any(sigma_m) else 0,
        )  # fmt: skip
        self._velocities = samples.velocity_messages()
        self._antenna_B, self._sigma_mps = params.position_B_m, params.velocity_sigma_mps()
        self._generator = generator
        self._odometries: deque[tuple[int, NDArray[np.float64]]] = deque(maxlen=KEPT_ODOMETRIES)
        self._waiting: tuple[int, bytes] | None = None

    def forget(self) -> None:
        """Drop what came before time went back."""
        self._odometries.clear()
        self._waiting = None

    def odometry(self, truth: Any) -> tuple[bytes, bytes | None] | None:
        """Take the truth's record; gives what waited for it, as :meth:`fix`."""
        q_WB, w_B = quat(truth.q_WB), vec3(truth.w_B)
        lever_W = rotate(q_WB, cross(w_B, self._antenna_B))
        self._odometries.append((int(truth.stamp_ns), np.array(add(vec3(truth.v_W), lever_W))))
        if self._waiting is None or self._waiting[0] > self._odometries[-1][0]:
            return None
        return self._release()

    def fix(self, payload: bytes, stamp_ns: int) -> list[tuple[bytes, bytes | None]]:
        """Take a fix; gives messages that are complete: fix and velocity.

        A fix that waited for an odometry that has not come goes without a velocity.

        Raises:
            MessageError: no position.
        """
        view = self._reader.read(payload)
        place = float(view["latitude_deg"]), float(view["longitude_deg"]), float(view["height_m"])
        if not (math.isfinite(sum(place)) and abs(place[0]) <= 90.0 and abs(place[1]) <= 180.0):
            raise MessageError(f"no position: {place}")
        late = [] if self._waiting is None else [(self._waiting[1], None)]
        names = ("status", "latitude_deg", "longitude_deg", "height_m")
        numbers = {name: view[name] for name in names}
        self._waiting = stamp_ns, self._template.payload(stamp_ns, **numbers)
        if self._odometries and self._odometries[-1][0] >= stamp_ns:
            return [*late, self._release()]
        return list(late)

    def _release(self) -> tuple[bytes, bytes | None]:
        """The fix that waits, with the velocity of the odometry nearest to it."""
        assert self._waiting is not None
        stamp_ns, payload = self._waiting
        self._waiting = None
        v_W = min(self._odometries, key=lambda stored: abs(stored[0] - stamp_ns))[1]
        noise_W = np.multiply(self._sigma_mps, self._generator.standard_normal(3))
        sample = {"v_W": v_W + noise_W, "v_variance": np.square(self._sigma_mps)}
        return payload, self._velocities.payload(sample, stamp_ns)


class ActuatorsWriter:
    """Actuators messages: speeds of the rotors by their numbers in the model.

    Args:
        kind: the class of actuator_msgs/msg/Actuators.
    """

    def __init__(self, kind: Any) -> None:
        self._message = kind()

    def message(self, stamp_ns: int, speeds_radps: Sequence[float]) -> Any:
        """Message of these speeds; the same object at each call.

        Raises:
            MessageError: a speed is not finite.
        """
        if not all(map(math.isfinite, speeds_radps)):
            raise MessageError("a rotor's speed is not finite")
        stamp = self._message.header.stamp
        stamp.sec, stamp.nanosec = divmod(stamp_ns, SECOND_NS)
        self._message.velocity = [float(speed) for speed in speeds_radps]
        return self._message
