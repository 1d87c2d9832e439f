"""A flight of the closed loop as a bag: the messages that the graph would have published.

Topics, types, qualities of service, frames and rates are those of the graph, and so is the order of
log times: a sample lies where it arrived, a sensor's latency behind its stamp. What the closed loop
does not compute is not made up: no ``odometry/blind``, ``imu/data`` nor ``/diagnostics``, of
covariances the diagonals, ``ground_truth/accel`` at the 50 Hz of the mission ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.interfaces import Nodetype

from quadsim.bag.metadata import qos_yaml
from quadsim.bag.profiles import Recording, Thinning
from quadsim.bag.topics import topic as full_name
from quadsim.bag.writer import BagWriter
from quadsim.sensors import SENSORS, kind_of
from quadsim.sim.log import Event
from quadsim.sim.recorded import RecordedLoop
from quadsim.wire import samples
from quadsim.wire.axes import rotation_matrices
from quadsim.wire.definitions import standard_types
from quadsim.wire.encode import SECOND_NS, Template, attitude_template, joint_template
from quadsim.wire.samples import SampleMessages
from quadsim.wire.standard import FIX, NUMBERS, ODOMETRY, OWN_SENSORS, POSE, TWIST_STAMPED


def make_message(type_name: str, **fields: Any) -> Any:
    """A message of a standard type; fields that are not given are zero or empty.

    Args:
        type_name: ``package/msg/Type``.
        fields: by their names; nested messages are made by another call.
    """
    types = standard_types()
    values: dict[str, Any] = {}
    for field, (node, detail) in types.get_msgdef(type_name).fields:
        if field in fields:
            values[field] = fields[field]
        elif node == Nodetype.NAME:
            values[field] = make_message(str(detail))
        elif node == Nodetype.BASE:
            values[field] = "" if detail[0] == "string" else 0
        elif node == Nodetype.ARRAY:
            values[field] = np.zeros(detail[1])
        else:
            values[field] = _no_items(detail)
    return types.types[type_name](**values)


def _no_items(detail: Any) -> Any:
    (node, kind), _ = detail
    if node == Nodetype.BASE and kind[0] != "string":
        return np.zeros(0, "u1" if kind[0] in ("octet", "bool") else kind[0])
    return []


def header(frame: str = "", stamp_ns: int = 0) -> Any:
    """A Header message."""
    seconds, nanoseconds = divmod(int(stamp_ns), SECOND_NS)
    stamp = make_message("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)
    return make_message("std_msgs/msg/Header", frame_id=frame, stamp=stamp)


def serialise(type_name: str, **fields: Any) -> bytes:
    """A message of a standard type as little-endian CDR; arguments as of :func:`make_message`."""
    return bytes(standard_types().serialize_cdr(make_message(type_name, **fields), type_name))


Stamps = NDArray[np.int64]
Make = Callable[[slice], list[bytes]]

RELIABLE = qos_yaml("reliable", "volatile", 10)
FAST = qos_yaml("reliable", "volatile", 200)
LATCHED = qos_yaml("reliable", "transient_local", 1)
EVENTS = qos_yaml("reliable", "transient_local", 50)
CLOCK = qos_yaml("best_effort", "volatile", 10)

ATTITUDE = "trajectory_msgs/msg/MultiDOFJointTrajectory"
BATTERY = "sensor_msgs/msg/BatteryState"
JOINTS = "sensor_msgs/msg/JointState"
STATUS = "diagnostic_msgs/msg/DiagnosticStatus"
CLOCK_NS, MOTORS_NS, BATTERY_NS = 10_000_000, 10_000_000, 1_000_000_000
#: Messages are made for so much of the flight at once.
WINDOW_NS = 1_000_000_000


@dataclass(frozen=True)
class Stream:
    """One topic of a flight.

    Attributes:
        name: full name.
        short: as in the table of topics: relative to the vehicle, or absolute.
        type_name: ``package/msg/Type``.
        qos: ``offered_qos_profiles``.
        log_ns: (N,) rising log times.
        make: gives the messages of a slice of them.
    """

    name: str
    short: str
    type_name: str
    qos: str
    log_ns: Stamps
    make: Make


def _due(stamp_ns: Stamps, before_ns: Stamps, period_ns: int) -> NDArray[np.bool_]:
    """Where a multiple of a period lies in (before, stamp]."""
    return np.asarray(stamp_ns // period_ns > before_ns // period_ns)


def _is_new(stamp_ns: Stamps) -> NDArray[np.bool_]:
    return np.asarray(np.diff(stamp_ns, prepend=0) > 0)


class _Vehicle:
    """Topics of one vehicle."""

    def __init__(self, loop: RecordedLoop, events: Sequence[Event], alone: bool) -> None:
        self._loop, self._events, self._scenario = loop, events, loop.scenario
        self._namespace = f"/{loop.vehicle}"
        self._prefix = "" if alone else f"{loop.vehicle}/"
        self._rows, self._ticks = loop.all_rows(), loop.ticks()
        self._rotors = len(self._scenario.vehicle.commands)

    def streams(self) -> Iterator[Stream]:
        """All of them; of equal log times the first comes first."""
        yield from self._announced()
        yield from self._truth()
        # the loop estimates with all that has come by an IMU sample: a replay shall too
        last = ("imu_1", "imu")
        names = [name for name in self._scenario.sensors if name not in last]
        for kind in (*names, *(name for name in last if name in self._scenario.sensors)):
            yield from self._sensor(kind)
        yield from self._own_sensors()
        yield from self._estimate()
        yield from self._control()
        yield from self._reported()

    # ---- pieces --------------------------------------------------------------------------------

    def _stream(
        self, short: str, type_name: str, qos: str, log_ns: Stamps, make_slice: Make
    ) -> Stream:
        name = full_name(self._namespace, short)
        return Stream(name, short, type_name, qos, log_ns, make_slice)

    def _sampled(
        self,
        short: str,
        type_name: str,
        qos: str,
        messages: SampleMessages,
        rows: Any,
        log_ns: Stamps | None = None,
    ) -> Stream:
        """Messages of records that have a stamp; without log times it is that."""
        stamp_ns = rows["stamp_ns"]
        return self._stream(
            short, type_name, qos, stamp_ns if log_ns is None else log_ns,
            lambda part: messages.payloads(rows[part]),
        )  # fmt: skip

    def _columns(
        self,
        short: str,
        type_name: str,
        qos: str,
        template: Template,
        stamp_ns: Stamps,
        **columns: NDArray[Any],
    ) -> Stream:
        """Messages of columns of numbers."""
        return self._stream(
            short, type_name, qos, stamp_ns,
            lambda part: template.payloads(
                stamp_ns[part], **{name: column[part] for name, column in columns.items()}
            ),
        )  # fmt: skip

    def _single(
        self, short: str, type_name: str, qos: str, items: list[tuple[int, dict[str, Any]]]
    ) -> Stream:
        """A topic of few messages: pairs of log time and fields."""
        log_ns = np.array([stamp_ns for stamp_ns, _ in items], np.int64)
        payloads = [serialise(type_name, **fields) for _, fields in items]
        return self._stream(short, type_name, qos, log_ns, lambda part: payloads[part])

    # ---- what is true --------------------------------------------------------------------------

    def _announced(self) -> Iterator[Stream]:
        poses = [
            make_message(
                POSE,
                header=header("map"),
                pose=make_message(
                    "geometry_msgs/msg/Pose",
                    position=make_message("geometry_msgs/msg/Point", x=x, y=y, z=z),
                    orientation=make_message("geometry_msgs/msg/Quaternion", w=1.0),
                ),
            )
            for x, y, z in self._loop.waypoints.tolist()
        ]
        path = {"header": header("map"), "poses": poses}
        yield self._single("mission", "nav_msgs/msg/Path", LATCHED, [(0, path)])
        sources = [
            (stamp_ns, {"data": "truth" if true else "estimate"})
            for stamp_ns, true in self._loop.sources
        ]
        yield self._single("state_source", "std_msgs/msg/String", LATCHED, sources)

    def _truth(self) -> Iterator[Stream]:
        rows, ticks, body = self._rows, self._ticks, self._prefix + "base_link"
        stamp_ns, end_ns = rows["stamp_ns"], ticks["end_ns"]
        yield self._sampled(
            "ground_truth/odom", ODOMETRY, FAST, samples.odometry_messages(body), rows
        )
        R_WB = rotation_matrices(rows["q_WB"][np.searchsorted(stamp_ns, end_ns)])
        a_B = np.einsum("nji,nj->ni", R_WB, ticks["a_W"])
        accel = "geometry_msgs/msg/AccelStamped"
        yield self._columns(
            "ground_truth/accel", accel, FAST, Template.of(accel, body), end_ns,
            a=a_B, w_dot=ticks["w_dot_B"],
        )  # fmt: skip
        period_ns = stamp_ns[0] if len(stamp_ns) else MOTORS_NS
        if not self._scenario.imu.vibration.on:
            period_ns = MOTORS_NS
        chosen = rows[_due(stamp_ns, stamp_ns - self._loop.setup.imu_period_ns, int(period_ns))]
        yield self._motors("motor_speed", RELIABLE, chosen["stamp_ns"], chosen["rotor_speed_radps"])
        wind = "geometry_msgs/msg/Vector3Stamped"
        yield self._columns(
            "wind", wind, RELIABLE, Template.of(wind, "map"), end_ns, v=ticks["wind_W"]
        )
        if self._scenario.vehicle.load.rope_length_m > 0.0:
            load = "geometry_msgs/msg/PointStamped"
            yield self._columns(
                "ground_truth/load", load, RELIABLE, Template.of(load, "map"), end_ns,
                p=ticks["load_W"],
            )  # fmt: skip
        touch = np.flatnonzero(np.diff(ticks["contact"], prepend=-1))
        touches = [(int(end_ns[i]), {"data": bool(ticks["contact"][i])}) for i in touch]
        yield self._single("contact", "std_msgs/msg/Bool", LATCHED, touches)
        yield self._single("battery_state", BATTERY, RELIABLE, list(self._battery()))

    def _motors(self, short: str, qos: str, stamp_ns: Stamps, speeds: NDArray[Any]) -> Stream:
        template = joint_template(list(self._scenario.vehicle.commands))
        return self._columns(
            short, JOINTS, qos, template, stamp_ns, speeds=speeds[:, : self._rotors]
        )

    def _battery(self) -> Iterator[tuple[int, dict[str, Any]]]:
        ticks, capacity_Ah = self._ticks, self._scenario.vehicle.battery.capacity_Ah
        for row in ticks[_due(ticks["end_ns"], ticks["begin_ns"], BATTERY_NS)]:
            stamp_ns, charge = int(row["end_ns"]), float(row["charge"])
            yield stamp_ns, {
                "header": header("", stamp_ns), "voltage": float(row["battery_V"]),
                "current": -float(row["current_A"].sum()), "charge": charge * capacity_Ah,
                "capacity": capacity_Ah, "design_capacity": capacity_Ah, "percentage": charge,
                "temperature": math.nan, "power_supply_status": 2, "present": True,
            }  # fmt: skip

    # ---- what is sensed and estimated ----------------------------------------------------------

    def _sensor(self, kind: str) -> Iterator[Stream]:
        rows, arrived_ns = self._loop.samples(kind), self._loop.arrivals_ns(kind)
        params, environment = self._scenario.sensors[kind], self._scenario.environment
        outputs = SENSORS[kind_of(kind)].outputs(params, environment, self._prefix, kind)
        for topic, messages in outputs:
            there = messages.chosen(rows)
            yield self._sampled(
                topic.name, topic.type_name, FAST, messages, rows[there], arrived_ns[there]
            )

    def _own_sensors(self) -> Iterator[Stream]:
        """What own sensors gave, each as a row of numbers."""
        for name in self._loop.own.readings if self._loop.own is not None else ():
            rows = self._loop.samples(name)
            items = [(int(row["stamp_ns"]), {"data": row["values"]}) for row in rows]
            yield self._single(OWN_SENSORS + name, NUMBERS, FAST, items)

    def _estimate(self) -> Iterator[Stream]:
        rows = self._rows[self._rows["estimated"] != 0]
        # where no IMU sample came, the last estimate is repeated
        rows = rows[_is_new(rows["estimate"]["stamp_ns"])]
        messages = samples.odometry_messages(self._prefix + "base_link", stated=True)
        yield self._sampled(
            "odometry/filtered", ODOMETRY, FAST, messages, rows["estimate"], rows["stamp_ns"]
        )

    # ---- what is wanted ------------------------------------------------------------------------

    def _control(self) -> Iterator[Stream]:
        ticks, rows = self._ticks, self._rows
        wished = ticks[ticks["wished"] != 0]
        for short, type_name, messages in (
            ("reference", POSE, samples.reference_messages()),
            ("command_velocity", TWIST_STAMPED, samples.velocity_command_messages()),
        ):
            columns = messages.numbers(wished["setpoint"])
            yield self._columns(
                short, type_name, RELIABLE, messages.template, wished["begin_ns"], **columns
            )
        given = ticks[ticks["command"]["stamp_ns"] > 0]
        attitude = SampleMessages(
            attitude_template(self._prefix + "base_link"), samples.attitude_numbers
        )
        yield self._sampled(
            "command_attitude", ATTITUDE, RELIABLE, attitude, given["command"], given["begin_ns"]
        )
        answered = rows["stamp_ns"] > 0 if self._loop.use_truth else rows["estimated"] != 0
        commanded = rows[answered]
        motion = commanded if self._loop.use_truth else commanded["estimate"]
        new = _is_new(motion["stamp_ns"])
        motors = self._motors(
            "command_motor_speed",
            FAST,
            motion["stamp_ns"][new],
            commanded["rotor_command_radps"][new],
        )
        yield replace(motors, log_ns=commanded["stamp_ns"][new])

    def _reported(self) -> Iterator[Stream]:
        status = [
            (stamp_ns, _status(int(bool(values["reason"])), "mission", values["state"], values))
            for stamp_ns, values in self._loop.status
        ]
        yield self._single("mission/status", STATUS, LATCHED, status)
        events = []
        for event in sorted(self._events, key=lambda event: event.stamp_ns):
            values = {"stamp_s": f"{event.stamp_ns * 1e-9:.3f}"}
            status_of = _status(event.level, event.name, event.message, values)
            events.append((event.stamp_ns, status_of))
        yield self._single("events", STATUS, EVENTS, events)


def _status(level: int, name: str, message: str, values: dict[str, str]) -> dict[str, Any]:
    pairs = [
        make_message("diagnostic_msgs/msg/KeyValue", key=k, value=v) for k, v in values.items()
    ]
    return {"level": level, "name": name, "message": message, "values": pairs}


def _world(loops: Sequence[RecordedLoop]) -> Iterator[Stream]:
    """Topics of the world as a whole."""
    datum = loops[0].scenario.environment.datum
    place = serialise(
        FIX, header=header("map"), latitude=datum.latitude_deg, longitude=datum.longitude_deg,
        altitude=datum.height_m,
    )  # fmt: skip
    zero = np.zeros(1, np.int64)
    yield Stream("/datum", "/datum", FIX, LATCHED, zero, lambda part: [place][part])
    longest = max((loop.all_rows()["stamp_ns"] for loop in loops), key=len)
    ticks = longest[_due(longest, longest - loops[0].setup.imu_period_ns, CLOCK_NS)]
    kind = "rosgraph_msgs/msg/Clock"
    clock = Template.of(kind)
    yield Stream("/clock", "/clock", kind, CLOCK, ticks, lambda part: clock.payloads(ticks[part]))


def streams_of(loops: Sequence[RecordedLoop]) -> list[Stream]:
    """Every topic of a flight of one or several vehicles."""
    alone = len(loops) == 1
    vehicles = (_Vehicle(loop, loop.events, alone).streams() for loop in loops)
    return list(chain(_world(loops), *vehicles))


def write_flight(bag: BagWriter, loops: Sequence[RecordedLoop], recording: Recording) -> None:
    """Write what has been flown, in the order of log times.

    Args:
        bag: open, and empty.
    """
    profile = recording.profile()
    chosen = [stream for stream in streams_of(loops) if profile.keeps(stream.short)]
    thinned = [Thinning(profile.period_ns(stream.short)) for stream in chosen]
    for stream in chosen:
        bag.add_topic(stream.name, stream.type_name, stream.qos)
    last_ns = max((int(stream.log_ns[-1]) for stream in chosen if len(stream.log_ns)), default=0)
    done = [0] * len(chosen)
    for until_ns in range(WINDOW_NS, last_ns + WINDOW_NS + 1, WINDOW_NS):
        items = []
        for k, stream in enumerate(chosen):
            part = slice(done[k], int(np.searchsorted(stream.log_ns, until_ns, side="left")))
            done[k] = part.stop
            if part.stop > part.start:
                log_ns, payloads = stream.log_ns[part].tolist(), stream.make(part)
                items += [(at, k, payload) for at, payload in zip(log_ns, payloads, strict=True)]
        items.sort(key=lambda item: item[:2])
        for log_ns, k, payload in items:
            stream = chosen[k]
            if thinned[k].keeps(log_ns):
                bag.add(stream.name, stream.type_name, stream.qos, log_ns, payload)
