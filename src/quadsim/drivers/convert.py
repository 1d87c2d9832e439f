"""Blocks of a driver's messages as ours: type, axes, units; whatever the driver file states."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from quadsim.base.errors import InputError, QuadsimError
from quadsim.base.parameters import Spec
from quadsim.drivers import bodies
from quadsim.wire import px4
from quadsim.wire.axes import BODY, WORLD, about, about_both, attitude, turned_rows
from quadsim.wire.decode import LAYOUTS, LITTLE_ENDIAN, STAMP_END, Block, Layout, decode
from quadsim.wire.definitions import check_standard, decode_fixed, fixed_dtype
from quadsim.wire.encode import cached_template
from quadsim.wire.standard import (
    BOOL,
    FIX,
    FLOW,
    GEO_POINT,
    IMU,
    MAGNETIC_FIELD,
    ODOMETRY,
    OURS,
    POSE,
    POSE_WITH_COVARIANCE,
    PRESSURE,
    RANGE,
    SCAN,
    TWIST,
    TWIST_STAMPED,
    our_type,
)

#: Names of topics, * for any text without a slash.
NAME = re.compile(r"/?[A-Za-z_*][\w*]*(/[\w*]+)*")
Fields = dict[str, Any]
Array = NDArray[Any]

#: Frames that our messages of a type name.
_FRAMES = {
    IMU: ("imu_link",),
    MAGNETIC_FIELD: ("imu_link",),
    PRESSURE: ("base_link",),
    FIX: ("gps_link",),
    TWIST: ("map",),
    RANGE: ("range_link",),
    POSE: ("map",),
    POSE_WITH_COVARIANCE: ("map",),
    ODOMETRY: ("map", "base_link"),
}
#: As mavros names them: PX4's, and ArduPilot's (mavros/src/lib/uas_stringify.cpp).
MODES = ("OFFBOARD", "GUIDED")
#: VehicleStatus.nav_state, NAVIGATION_STATE_OFFBOARD, in all releases of px4_msgs.
PX4_OFFBOARD = 14
_LENGTH = struct.Struct("<I")
#: Of State between its header and its mode: connected, armed, guided, manual_input.
_FLAGS = 4


def in_mavros_mode(payload: bytes) -> bool:
    """Of a serialised mavros_msgs/msg/State: header, four flags, mode, system_status.

    Raises:
        QuadsimError: it is none.
    """
    try:
        if payload[1] != LITTLE_ENDIAN:
            raise ValueError("not little-endian CDR")
        (length,) = _LENGTH.unpack_from(payload, STAMP_END)
        at = STAMP_END + _LENGTH.size + length + _FLAGS
        at += -at % 4  # lengths are aligned
        (length,) = _LENGTH.unpack_from(payload, at)
        mode = payload[at + _LENGTH.size : at + _LENGTH.size + length]
        if not mode.endswith(b"\0"):
            raise ValueError("its mode has no end")
    except (ValueError, IndexError, struct.error) as error:
        raise QuadsimError(f"no mavros_msgs/msg/State: {error}") from None
    return mode[:-1].decode(errors="replace") in MODES


def in_px4_mode(rows: NDArray[Any]) -> NDArray[np.bool_]:
    """(N,) of px4_msgs/msg/VehicleStatus."""
    return np.asarray(rows["nav_state"] == PX4_OFFBOARD)


def encode_bool(value: bool) -> bytes:
    """A serialised std_msgs/msg/Bool."""
    return bytes((0, LITTLE_ENDIAN, 0, 0, int(value)))


@dataclass(frozen=True, slots=True)
class DriverTopic:
    """One topic of a driver."""

    ours: Annotated[str, Spec("our topic, relative to the vehicle, or absolute")]
    names: Annotated[
        tuple[str, ...],
        Spec(
            "the driver's topic, relative to its namespace, or absolute; of several the first that"
            " is there; * stands for any text without a slash"
        ),
    ]
    type: Annotated[str, Spec("the driver's, package/msg/Type")]
    world: Annotated[
        str, Spec("axes of positions and velocities in the world", choices=tuple(WORLD))
    ] = "enu"
    body: Annotated[str, Spec("axes of the sensor or the vehicle, x y z", choices=tuple(BODY))] = (
        "flu"
    )
    scale: Annotated[
        float, Spec("times this, the value is in SI units; of an Imu the specific force", gt=0.0)
    ] = 1.0
    rate_scale: Annotated[
        float, Spec("of an Imu: times this, its angular velocity is in rad/s", gt=0.0)
    ] = 1.0
    quaternion: Annotated[
        str, Spec("of a pose: what its four numbers are in turn", choices=("xyzw", "wxyz"))
    ] = "xyzw"
    sigma: Annotated[
        tuple[float, ...],
        Spec(
            "deviations of the axes, SI, where the driver states none; not given: unknown", gt=0.0
        ),
    ] = ()
    covariance: Annotated[str, Spec("the driver's covariances", choices=("stated", "ignored"))] = (
        "stated"
    )
    reliability: Annotated[
        str, Spec("as the driver offers it", choices=("best_effort", "reliable"))
    ] = "best_effort"
    durability: Annotated[
        str, Spec("as the driver offers it", choices=("volatile", "transient_local"))
    ] = "volatile"
    depth: Annotated[int, Spec("messages that its queue keeps", ge=1)] = 10
    bags_only: Annotated[
        bool, Spec("whether it counts in a bag alone: what others send to the driver")
    ] = False
    frame: Annotated[
        str, Spec("that its headers name, where it is ours; not given: ours is written instead")
    ] = ""

    def __post_init__(self) -> None:
        for name in (self.ours, *self.names):
            if not NAME.fullmatch(name):
                raise InputError(f"{name!r} is not the name of a topic")
        if not self.names:
            raise InputError(f"{self.ours}: names is empty; give the driver's topic")
        if self.type.count("/") != 2:
            raise InputError(f"type: {self.type!r} is not package/msg/Type")
        if len(self.sigma) not in (0, 1, 3):
            raise InputError(f"sigma: {len(self.sigma)} numbers; allowed: none, 1 or 3")
        if self.type.startswith(px4.PACKAGE) and (self.world, self.body) != ("ned", "frd"):
            raise InputError(f"{self.type} is NED and FRD; give world: ned, body: frd")
        if not self.as_it_is and not can_convert(self.type, self.our_type):
            raise InputError(
                f"{self.ours}: {self.type} cannot become {self.our_type};"
                f" what can, apart from itself: {conversions(self.our_type)}"
            )
        if self.type not in OURS.values():  # they are; to look takes long
            check_standard(self.type)

    @property
    def our_type(self) -> str:
        """Type that messages have for us."""
        return our_type(self.ours, self.type)

    @property
    def as_it_is(self) -> bool:
        """Whether messages are passed on unchanged."""
        return (
            self.our_type == self.type
            and (self.world, self.body, self.covariance) == ("enu", "flu", "stated")
            and (self.scale, self.rate_scale, self.quaternion) == (1.0, 1.0, "xyzw")
            and not self.sigma
        )


def _stated(covariance: Array, topic: DriverTopic, wide: int = 3) -> Array:
    """Covariances as the file wants them: ignored, or filled in where they are unknown.

    A first element that is zero or below states unknown, or that there is no such measurement.
    """
    size = covariance.shape[-1]
    covariance = covariance.copy()
    unknown = covariance[:, 0, 0] <= 0.0
    if topic.covariance == "ignored":
        unknown[:] = True
    covariance[unknown] = 0.0
    if topic.sigma:
        sigma = np.zeros(size)
        sigma[:wide] = topic.sigma
        covariance[unknown] = np.diag(sigma**2)
    return covariance


def _imu(block: Block, topic: DriverTopic) -> Fields:
    """IMU; the scale is that of the specific force, as of one in multiples of g."""
    R = BODY[topic.body]
    q_covariance = np.zeros((3, 3))
    q_covariance[0, 0] = -1.0  # an attitude in the driver's axes is not passed on
    return {
        "q_xyzw": (0.0, 0.0, 0.0, 1.0),
        "q_covariance": q_covariance,
        "w": topic.rate_scale * turned_rows(R, block["w"]),
        "w_covariance": about(R, _stated(topic.rate_scale**2 * block["w_covariance"], topic)),
        "f": topic.scale * turned_rows(R, block["f"]),
        "f_covariance": about(R, _stated(topic.scale**2 * block["f_covariance"], topic)),
    }


def _magnetic_field(block: Block, topic: DriverTopic) -> Fields:
    R = BODY[topic.body]
    scaled = topic.scale**2 * about(R, block["covariance"])
    return {"m": topic.scale * turned_rows(R, block["m"]), "covariance": _stated(scaled, topic)}


def _pressure(block: Block, topic: DriverTopic) -> Fields:
    variance = topic.scale**2 * block["variance"].reshape(-1, 1, 1)
    return {
        "pressure": topic.scale * block["pressure"],
        "variance": _stated(variance, topic, 1)[:, 0, 0],
    }


def _fix(block: Block, topic: DriverTopic) -> Fields:
    covariance = block["covariance"]
    covariance[block["covariance_type"] == 0] = 0.0
    covariance = _stated(about(WORLD[topic.world], covariance), topic)
    stored = {n: block[n] for n in ("status", "service", "latitude_deg", "longitude_deg")}
    known = np.where(covariance[:, 0, 0] > 0, np.maximum(block["covariance_type"], 1), 0)
    return stored | {
        "height_m": topic.scale * block["height_m"],
        "covariance": covariance,
        "covariance_type": known,
    }


def _geo_point(block: Block, topic: DriverTopic) -> Fields:
    return {
        "latitude_deg": block["latitude_deg"],
        "longitude_deg": block["longitude_deg"],
        "height_m": topic.scale * block["height_m"],
    }


def _velocity(block: Block, topic: DriverTopic) -> Fields:
    R = WORLD[topic.world]
    if "covariance" in block.names:
        covariance = topic.scale**2 * about_both(R, block["covariance"])
    else:
        covariance = np.zeros((len(block), 6, 6))
    return {"v": topic.scale * turned_rows(R, block["v"]), "covariance": _stated(covariance, topic)}


def _range(block: Block, topic: DriverTopic) -> Fields:
    names = ("radiation_type", "field_of_view", "min_range", "max_range", "range")
    fields: Fields = {name: block[name] for name in names}
    for name in names[2:]:
        fields[name] = topic.scale * fields[name]
    variance = block["variance"] if "variance" in block.names else np.zeros(len(block))
    scaled = topic.scale**2 * variance.reshape(-1, 1, 1).astype(float)
    return fields | {"variance": _stated(scaled, topic, 1)[:, 0, 0]}


def _ray(block: Block, topic: DriverTopic) -> Fields:
    """A scan of one ray, which is how Gazebo measures a distance."""
    one = block["count"] == 1
    variance = _stated(np.zeros((len(block), 1, 1)), topic, 1)[:, 0, 0]
    return {
        "radiation_type": 1,
        "min_range": topic.scale * block["min_range"],
        "max_range": topic.scale * block["max_range"],
        "range": np.where(one, topic.scale * block["range"], np.nan),
        "variance": variance,
    }


def _pose(block: Block, topic: DriverTopic) -> Fields:
    w_first = np.roll(block["q_xyzw"], 1 if topic.quaternion == "xyzw" else 0, axis=1)
    q = attitude(topic.world, topic.body, w_first)
    fields: Fields = {
        "p": topic.scale * turned_rows(WORLD[topic.world], block["p"]),
        "q_xyzw": np.roll(q, -1, axis=1),
    }
    if "pose_covariance" in block.names:
        covariance = about_both(WORLD[topic.world], block["pose_covariance"])
        covariance[:, :3, :3] *= topic.scale**2
        fields["pose_covariance"] = _stated(covariance, topic)
    return fields


def _pose_with_covariance(block: Block, topic: DriverTopic) -> Fields:
    fields = _pose(block, topic)
    fields.setdefault("pose_covariance", _stated(np.zeros((len(block), 6, 6)), topic))
    return fields


def _odometry(block: Block, topic: DriverTopic) -> Fields:
    """Odometry; of a pose alone, the velocities are NaN: not known."""
    fields = _pose_with_covariance(block, topic)
    if "v" not in block.names:
        return fields | {"v": np.nan, "w": np.nan}
    R = BODY[topic.body]
    covariance = about_both(R, block["twist_covariance"])
    if topic.covariance == "ignored":
        covariance[:] = 0.0
    return fields | {
        "v": topic.scale * turned_rows(R, block["v"]),
        "w": turned_rows(R, block["w"]),
        "twist_covariance": covariance,
    }


#: (driver's type, our type): the conversion of a block.
_STANDARD: dict[tuple[str, str], Callable[[Block, DriverTopic], Fields]] = {
    (IMU, IMU): _imu,
    (MAGNETIC_FIELD, MAGNETIC_FIELD): _magnetic_field,
    (PRESSURE, PRESSURE): _pressure,
    (FIX, FIX): _fix,
    (GEO_POINT, FIX): _geo_point,
    (TWIST, TWIST): _velocity,
    (TWIST_STAMPED, TWIST): _velocity,
    (RANGE, RANGE): _range,
    (SCAN, RANGE): _ray,
    (POSE, POSE): _pose,
    (POSE_WITH_COVARIANCE, POSE): _pose,
    (ODOMETRY, POSE): _pose,
    (POSE, POSE_WITH_COVARIANCE): _pose_with_covariance,
    (POSE_WITH_COVARIANCE, POSE_WITH_COVARIANCE): _pose_with_covariance,
    (ODOMETRY, POSE_WITH_COVARIANCE): _pose_with_covariance,
    (POSE, ODOMETRY): _odometry,
    (POSE_WITH_COVARIANCE, ODOMETRY): _odometry,
    (ODOMETRY, ODOMETRY): _odometry,
}
_PX4: dict[tuple[str, str], Callable[[Array], Any]] = {
    ("px4_msgs/msg/SensorCombined", IMU): px4.imu,
    ("px4_msgs/msg/SensorGps", FIX): px4.fix,
    ("px4_msgs/msg/SensorGps", TWIST): px4.gnss_velocity,
    ("px4_msgs/msg/VehicleMagnetometer", MAGNETIC_FIELD): px4.magnetic_field,
    ("px4_msgs/msg/VehicleAirData", PRESSURE): px4.pressure,
    ("px4_msgs/msg/DistanceSensor", RANGE): px4.distance,
    ("px4_msgs/msg/VehicleOdometry", ODOMETRY): px4.odometry,
    ("px4_msgs/msg/VehicleOpticalFlow", FLOW): px4.optical_flow,
    ("px4_msgs/msg/SensorOpticalFlow", FLOW): px4.optical_flow,
}
#: Optical flow of mavros, in FLU already: rates, and angles over an interval.
_MAVROS_RATES, _MAVROS_ANGLES = (f"mavros_msgs/msg/OpticalFlow{kind}" for kind in ("", "Rad"))
LAYOUTS.update(
    {
        _MAVROS_RATES: Layout(  # in pixels, metres, and rad/s
            1, "pixels:2/i2 ways:2/f4 quality/u1 distance/f4 flow:2/f4"
        ),
        _MAVROS_ANGLES: Layout(
            1, "interval_us/u4 flow:2/f4 turn:3/f4 temperature/i2 quality/u1 late_us/u4 distance/f4"
        ),
    }
)
#: A longer time since the message before is a gap, over which no rate is formed.
_LONGEST_NS = 500_000_000
_MAVROS_STATE = ("mavros_msgs/msg/State", BOOL)
_PX4_STATE = ("px4_msgs/msg/VehicleStatus", BOOL)
_BODIES = tuple((a, b) for a in bodies.TYPES for b in (POSE, POSE_WITH_COVARIANCE, ODOMETRY))
_FLOWS = ((_MAVROS_RATES, FLOW), (_MAVROS_ANGLES, FLOW))
_ALL = (*_STANDARD, *_PX4, *_FLOWS, _MAVROS_STATE, _PX4_STATE, *_BODIES)


def can_convert(theirs: str, ours: str) -> bool:
    """Whether there is a conversion from a driver's type to one of ours."""
    return (theirs, ours) in _ALL


def conversions(ours: str) -> str:
    """What can become one of our types, besides itself, for messages."""
    return ", ".join(a for a, b in _ALL if b == ours != a) or "nothing"


def frame_names(type_name: str, prefix: str = "") -> tuple[str, ...]:
    """Frames that our messages of a type name; none for a type that is passed on as it is.

    Args:
        prefix: of the vehicle's own frames.
    """
    return tuple(name if name == "map" else prefix + name for name in _FRAMES.get(type_name, ()))


class StrangeDefinition(QuadsimError):
    """A type whose messages cannot be converted, whatever is in them."""


class Converter:
    """Converts the messages of one topic of a bag.

    Args:
        prefix: of the frames that messages are to name.
        vehicle: its name, by which it is known among several bodies.
        alone: whether there is one vehicle.
    """

    def __init__(
        self,
        topic: DriverTopic,
        types: Callable[[], Typestore],
        prefix: str = "",
        vehicle: str = "",
        alone: bool = True,
    ) -> None:
        self._topic, self._vehicle, self._alone = topic, vehicle, alone
        self._types = types
        self._frames = frame_names(topic.our_type, prefix)
        if topic.ours == "flow/down":
            self._frames = (f"{prefix}flow_link",)
        self._last_ns = -1  # of rates, which hold since the message before
        self._dtype: np.dtype[np.void] | None = None

    def convert(self, payloads: list[bytes]) -> list[bytes | None]:
        """Our messages, one for each; None for one that is not for us.

        Raises:
            StrangeDefinition: the bag defines the type without a field that is needed.
            QuadsimError: a message does not fit its type, or the type is not known.
        """
        topic = self._topic
        kinds = (topic.type, topic.our_type)
        keep = None
        if topic.type in bodies.TYPES:
            return self._of_bodies(payloads)
        if kinds == _MAVROS_STATE:
            return [encode_bool(in_mavros_mode(payload)) for payload in payloads]
        if kinds == _PX4_STATE:
            rows = decode_fixed(self._layout(payloads[0]), payloads)
            return [encode_bool(inside) for inside in in_px4_mode(rows)]
        if kinds in _PX4:
            rows = decode_fixed(self._layout(payloads[0]), payloads)
            try:
                stamp_ns, fields = px4.stamps(rows), _PX4[kinds](rows)
            except ValueError as error:  # numpy names the field, or the shape
                raise StrangeDefinition(
                    f"{topic.type}, as the bag defines it, cannot be converted: {error}"
                ) from None
            if isinstance(fields, tuple):
                fields, keep = fields
        elif kinds in _FLOWS:
            block = decode(topic.type, payloads)
            stamp_ns, fields = block.stamp_ns, self._flow(block)
        else:
            block = decode(topic.type, payloads)
            stamp_ns, fields = block.stamp_ns, _STANDARD[kinds](block, topic)
        known = {name for name, _, _ in LAYOUTS[topic.our_type].fields}
        made = cached_template(topic.our_type, self._frames).payloads(
            stamp_ns, **{name: values for name, values in fields.items() if name in known}
        )
        if keep is None:
            return list(made)
        return [payload if stored else None for payload, stored in zip(made, keep, strict=True)]

    def _flow(self, block: Block) -> Fields:
        """Optical flows of mavros as :func:`quadsim.wire.samples.flow_messages`; NaN of no quality.

        Rates are taken times the time since the message before.
        """
        quality, flow = block["quality"], block["flow"].astype(float)
        if self._topic.type == _MAVROS_ANGLES:
            interval_s, turn = 1e-6 * block["interval_us"], block["turn"].astype(float)
        else:
            stamp_ns, turn = block.stamp_ns, np.full((len(block), 3), np.nan)
            first_ns = stamp_ns[0] if self._last_ns < 0 else self._last_ns
            step_ns, self._last_ns = np.diff(stamp_ns, prepend=first_ns), int(stamp_ns[-1])
            known = (step_ns > 0) & (step_ns <= _LONGEST_NS)
            interval_s = np.where(known, 1e-9 * step_ns, 0.0)
            flow = np.where(known[:, None], flow * interval_s[:, None], np.nan)
            flow[block["pixels"].any(axis=1) & ~flow.any(axis=1)] = np.nan  # of MAVLink 1: no rates
        flow[quality == 0] = np.nan
        R, covariance = BODY[self._topic.body], np.zeros((len(block), 6, 6))
        v = turned_rows(R, np.column_stack([flow, np.zeros(len(block))]))
        v[:, 2] = interval_s
        covariance[:, 2, 2] = quality / 255.0
        return {"v": v, "w": turned_rows(R, turn), "covariance": covariance}

    def _of_bodies(self, payloads: list[bytes]) -> list[bytes | None]:
        """Poses of the vehicle among other bodies; None where it is not seen."""
        topic = self._topic
        whose = self._vehicle, self._alone
        found = [bodies.pose_of(topic.type, payload, *whose) for payload in payloads]
        seen = [payload for payload in found if payload is not None]
        if not seen:
            return list(found)
        block = decode(POSE, seen)
        fields = _STANDARD[POSE, topic.our_type](block, topic)
        template = cached_template(topic.our_type, self._frames)
        made = iter(template.payloads(block.stamp_ns, **fields))
        return [None if payload is None else next(made) for payload in found]

    def resets(self, payload: bytes) -> int | None:
        """How often the estimator that sent a message has reset; None: that is not stated.

        Raises:
            QuadsimError: the message does not fit its type.
        """
        if self._topic.type != "px4_msgs/msg/VehicleOdometry":
            return None
        counted = px4.resets(decode_fixed(self._layout(payload), [payload]))
        return None if counted is None else int(counted[0])

    def _layout(self, payload: bytes) -> np.dtype[np.void]:
        if self._dtype is None:
            name = self._topic.type
            try:
                self._dtype = fixed_dtype(self._types(), name)
            except QuadsimError as error:  # not defined in the bag, or in a way that makes no sense
                if name not in px4.LEADING:
                    raise StrangeDefinition(str(error)) from None
                fits = [text for least, text in px4.LEADING[name].items() if len(payload) >= least]
                types = get_typestore(Stores.EMPTY)
                types.register(get_types_from_msg(fits[-1], name))
                self._dtype = fixed_dtype(types, name)
        return self._dtype
