"""A flight of the closed loop as a bag: the messages that the graph would have published.

Topics, types, qualities of service, frames and rates are those of the graph, and so is the order of
log times: a sample lies where it arrived, a sensor's latency behind its stamp. What the closed loop
does not compute is not made up: no ``odometry/blind``, ``imu/data`` nor ``/diagnostics``, of
covariances the diagonals, ``ground_truth/accel`` at the 50 Hz of the mission ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quadsim.bag.metadata import qos_yaml
from quadsim.bag.profiles import Recording, Thinning
from quadsim.bag.topics import topic as full_name
from quadsim.bag.writer import BagWriter
from quadsim.geometry.geodesy import Datum
from quadsim.sensors.imu import ImuParams
from quadsim.sim.log import Event
from quadsim.sim.recorded import RecordedLoop
from quadsim.wire.axes import rotation_matrices
from quadsim.wire.encode import (
    Template,
    header,
    make,
    motion_columns,
    serialise,
    time_of,
)

Stamps = NDArray[np.int64]

RELIABLE = qos_yaml("reliable", "volatile", 10)
FAST = qos_yaml("reliable", "volatile", 200)
LATCHED = qos_yaml("reliable", "transient_local", 1)
EVENTS = qos_yaml("reliable", "transient_local", 50)
CLOCK = qos_yaml("best_effort", "volatile", 10)

CLOCK_NS, MOTORS_NS = 10_000_000, 10_000_000
BATTERY_NS = 1_000_000_000
#: Messages are made for so much of the flight at once.
WINDOW_NS = 1_000_000_000
#: NavSatFix and Imu: variances on the diagonal are known; no orientation; no satellites used.
DIAGONAL_KNOWN, NO_ORIENTATION, NO_FIX, GPS = 2, -1.0, -1, 1


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
    make: Callable[[slice], list[bytes]]


def _due(stamp_ns: Stamps, before_ns: Stamps, period_ns: int) -> NDArray[np.bool_]:
    """Where a multiple of a period lies in (before, stamp]."""
    return np.asarray(stamp_ns // period_ns > before_ns // period_ns)


def _xyzw(q: NDArray[Any]) -> NDArray[np.float64]:
    return np.roll(q, -1, axis=1)


def _vector(name: str, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Any:
    return make(f"geometry_msgs/msg/{name}", x=x, y=y, z=z)


def _status(level: int, name: str, message: str, values: dict[str, str]) -> bytes:
    pairs = [make("diagnostic_msgs/msg/KeyValue", key=k, value=v) for k, v in values.items()]
    kind = "diagnostic_msgs/msg/DiagnosticStatus"
    return serialise(make(kind, level=level, name=name, message=message, values=pairs))


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
        for kind in sorted(self._scenario.sensors, key="imu".__eq__):
            yield from getattr(self, f"_{kind}")(self._loop.samples(kind))
        yield from self._estimate()
        yield from self._control()
        yield from self._said()

    # ---- pieces --------------------------------------------------------------------------------

    def _stream(
        self, short: str, type_name: str, qos: str, log_ns: Stamps, make_slice: Any
    ) -> Stream:
        name = full_name(self._namespace, short)
        return Stream(name, short, type_name, qos, log_ns, make_slice)

    def _columns(
        self,
        short: str,
        qos: str,
        template: Any,
        stamp_ns: Stamps,
        columns: Callable[[slice], dict[str, NDArray[Any]]],
        log_ns: Stamps | None = None,
        marks: dict[str, Any] | None = None,
    ) -> Stream:
        """A topic whose messages are copies of one, with columns of numbers."""
        copies = Template(template, marks)
        return self._stream(
            short, template.__msgtype__, qos, stamp_ns if log_ns is None else log_ns,
            lambda part: copies.payloads(stamp_ns[part], **columns(part)),
        )  # fmt: skip

    def _single(self, short: str, type_name: str, qos: str, items: list[Any]) -> Stream:
        """A topic of few messages: pairs of log time and bytes."""
        log_ns = np.array([stamp_ns for stamp_ns, _ in items], np.int64)
        payloads = [payload for _, payload in items]
        return self._stream(short, type_name, qos, log_ns, lambda part: payloads[part])

    def _frame(self, name: str) -> Any:
        return header(self._prefix + name)

    # ---- what is true --------------------------------------------------------------------------

    def _announced(self) -> Iterator[Stream]:
        loop = self._loop
        poses = []
        for x, y, z in loop.waypoints.tolist():
            point = make("geometry_msgs/msg/Pose", position=_vector("Point", x, y, z))
            point.orientation.w = 1.0
            poses.append(make("geometry_msgs/msg/PoseStamped", header=header("map"), pose=point))
        path = serialise(make("nav_msgs/msg/Path", header=header("map"), poses=poses))
        yield self._single("mission", "nav_msgs/msg/Path", LATCHED, [(0, path)])
        sources = [
            (stamp_ns, serialise(make("std_msgs/msg/String", data="truth" if true else "estimate")))
            for stamp_ns, true in loop.sources
        ]
        yield self._single("state_source", "std_msgs/msg/String", LATCHED, sources)

    def _truth(self) -> Iterator[Stream]:
        rows, ticks = self._rows, self._ticks
        stamp_ns = rows["stamp_ns"]
        yield self._motion("ground_truth/odom", rows, stamp_ns, stamp_ns)
        accel = make("geometry_msgs/msg/AccelStamped", header=self._frame("base_link"))
        at = np.searchsorted(stamp_ns, ticks["end_ns"])
        R_WB = rotation_matrices(rows["q_WB"][at])
        a_B = np.einsum("nji,nj->ni", R_WB, ticks["a_W"])
        yield self._columns(
            "ground_truth/accel", FAST, accel, ticks["end_ns"],
            lambda part: {"a": a_B[part], "w_dot": ticks["w_dot_B"][part]},
        )  # fmt: skip
        period_ns = stamp_ns[0] if len(stamp_ns) else MOTORS_NS
        if not self._scenario.imu.vibration.on:
            period_ns = MOTORS_NS
        chosen = rows[_due(stamp_ns, stamp_ns - self._loop.setup.imu_period_ns, int(period_ns))]
        yield self._motors("motor_speed", RELIABLE, chosen, "rotor_speed_radps", chosen["stamp_ns"])
        wind = make("geometry_msgs/msg/Vector3Stamped", header=header("map"))
        yield self._columns(
            "wind", RELIABLE, wind, ticks["end_ns"], lambda part: {"v": ticks["wind_W"][part]}
        )
        if self._scenario.vehicle.load.rope_length_m > 0.0:
            load = make("geometry_msgs/msg/PointStamped", header=header("map"))
            load.point = _vector("Point", *(marks := (-1.5, -2.5, -3.5)))
            yield self._columns(
                "ground_truth/load", RELIABLE, load, ticks["end_ns"],
                lambda part: {"p": ticks["load_W"][part]}, marks={"p": marks},
            )  # fmt: skip
        touch = np.flatnonzero(np.diff(ticks["contact"], prepend=-1))
        touches = [
            (int(ticks["end_ns"][i]), serialise(make("std_msgs/msg/Bool", data=bool(t))))
            for i, t in zip(touch, ticks["contact"][touch], strict=True)
        ]
        yield self._single("contact", "std_msgs/msg/Bool", LATCHED, touches)
        yield self._battery()

    def _motors(self, short: str, qos: str, rows: Any, column: str, stamp_ns: Stamps) -> Stream:
        speeds = [-1.0 - i for i in range(self._rotors)]
        names = list(self._scenario.vehicle.commands)
        joints = make("sensor_msgs/msg/JointState", name=names, velocity=np.array(speeds))
        return self._columns(
            short, qos, joints, stamp_ns,
            lambda part: {"speeds": rows[column][part, : self._rotors]},
            log_ns=rows["stamp_ns"], marks={"speeds": speeds},
        )  # fmt: skip

    def _battery(self) -> Stream:
        ticks, capacity_Ah = self._ticks, self._scenario.vehicle.battery.capacity_Ah
        items = []
        for row in ticks[_due(ticks["end_ns"], ticks["begin_ns"], BATTERY_NS)]:
            charge = float(row["charge"])
            message = make(
                "sensor_msgs/msg/BatteryState",
                header=header("", int(row["end_ns"])), voltage=float(row["battery_V"]),
                current=-float(row["current_A"].sum()), charge=charge * capacity_Ah,
                capacity=capacity_Ah, design_capacity=capacity_Ah, percentage=charge,
                temperature=math.nan, power_supply_status=2, present=True,
            )  # fmt: skip
            items.append((int(row["end_ns"]), serialise(message)))
        return self._single("battery_state", "sensor_msgs/msg/BatteryState", RELIABLE, items)

    def _motion(
        self, short: str, motion: Any, stamp_ns: Stamps, log_ns: Stamps, stated: bool = False
    ) -> Stream:
        """An odometry; ``stated`` ones have variances."""
        message = make("nav_msgs/msg/Odometry", header=header("map"))
        message.child_frame_id = self._prefix + "base_link"

        def columns(part: slice) -> dict[str, NDArray[Any]]:
            return motion_columns(motion[part], stated)

        return self._columns(short, FAST, message, stamp_ns, columns, log_ns)

    # ---- what is sensed ------------------------------------------------------------------------

    def _imu(self, samples: Any) -> Iterator[Stream]:
        params: ImuParams = self._scenario.imu
        message = make("sensor_msgs/msg/Imu", header=self._frame("imu_link"))
        message.orientation.w = 1.0
        message.orientation_covariance[0] = NO_ORIENTATION
        message.linear_acceleration_covariance[::4] = params.accel_variance()
        message.angular_velocity_covariance[::4] = params.gyro_variance()
        yield self._sampled(
            "imu", "imu/data_raw", message, samples,
            lambda part: {"f": samples["f_S"][part], "w": samples["w_S"][part]},
        )  # fmt: skip

    def _sampled(self, kind: str, short: str, message: Any, samples: Any, columns: Any) -> Stream:
        arrived_ns = self._loop.arrivals_ns(kind)
        return self._columns(short, FAST, message, samples["stamp_ns"], columns, arrived_ns)

    def _gnss(self, samples: Any) -> Iterator[Stream]:
        arrived_ns = self._loop.arrivals_ns("gnss")
        datum: Datum = self._scenario.environment.datum
        fix = make("sensor_msgs/msg/NavSatFix", header=self._frame("gps_link"))
        fix.position_covariance_type = DIAGONAL_KNOWN
        fix.status.service = GPS
        found = np.isfinite(samples["p_W"]).all(axis=1)
        places = np.full((len(samples), 3), math.nan)
        for i in np.flatnonzero(found):
            places[i] = datum.to_geodetic(samples["p_W"][i])

        def position(part: slice) -> dict[str, NDArray[Any]]:
            covariance = np.zeros((len(samples[part]), 9))
            covariance[:, ::4] = samples["p_variance"][part]
            return {
                "status": np.where(found, samples["status"], NO_FIX)[part],
                "latitude_deg": places[part, 0],
                "longitude_deg": places[part, 1],
                "height_m": places[part, 2],
                "covariance": covariance,
            }

        yield self._columns("gps/fix", FAST, fix, samples["stamp_ns"], position, arrived_ns)
        known = samples[found]
        twist = make("geometry_msgs/msg/TwistWithCovarianceStamped", header=header("map"))
        twist.twist.covariance[21] = NO_ORIENTATION

        def velocity(part: slice) -> dict[str, NDArray[Any]]:
            covariance = np.zeros((len(known[part]), 36))
            covariance[:, 21] = NO_ORIENTATION
            covariance[:, (0, 7, 14)] = known["v_variance"][part]
            return {"v": known["v_W"][part], "covariance": covariance}

        yield self._columns("gps/vel", FAST, twist, known["stamp_ns"], velocity, arrived_ns[found])

    def _magnetometer(self, samples: Any) -> Iterator[Stream]:
        message = make("sensor_msgs/msg/MagneticField", header=self._frame("imu_link"))
        message.magnetic_field_covariance[::4] = self._loop.setup.field_covariance[::4]
        yield self._sampled(
            "magnetometer", "imu/mag", message, samples, lambda part: {"m": samples["m_S"][part]}
        )

    def _barometer(self, samples: Any) -> Iterator[Stream]:
        message = make("sensor_msgs/msg/FluidPressure", header=self._frame("base_link"))
        message.variance = float(self._loop.setup.pressure_variance[0])
        yield self._sampled(
            "barometer", "imu/static_pressure", message, samples,
            lambda part: {"pressure": samples["pressure_pa"][part]},
        )  # fmt: skip

    def _rangefinder(self, samples: Any) -> Iterator[Stream]:
        params: Any = self._scenario.sensors["rangefinder"]
        message = make(
            "sensor_msgs/msg/Range",
            header=self._frame("range_link"),
            radiation_type={"ultrasound": 0, "infrared": 1}[params.radiation],
            field_of_view=math.radians(params.field_of_view_deg),
            min_range=params.range_min_m,
            max_range=params.range_max_m,
        )
        yield self._sampled(
            "rangefinder", "range/down", message, samples,
            lambda part: {
                "range": samples["range_m"][part], "variance": samples["variance_m2"][part]
            },
        )  # fmt: skip

    # ---- what is believed and wanted -----------------------------------------------------------

    def _estimate(self) -> Iterator[Stream]:
        rows = self._rows[self._rows["estimated"] != 0]
        stamp_ns = rows["estimate"]["stamp_ns"]
        new = np.diff(stamp_ns, prepend=0) > 0  # where no IMU sample came, the last one is told
        rows, stamp_ns = rows[new], stamp_ns[new]
        yield self._motion(
            "odometry/filtered", rows["estimate"], stamp_ns, rows["stamp_ns"], stated=True
        )

    def _control(self) -> Iterator[Stream]:
        ticks = self._ticks
        wished = ticks[ticks["wished"] != 0]
        goal, wish = wished["setpoint"], wished["begin_ns"]
        reference = make("geometry_msgs/msg/PoseStamped", header=header("map"))

        def pose(part: slice) -> dict[str, NDArray[Any]]:
            half, zero = 0.5 * goal["yaw"][part], np.zeros(len(goal[part]))
            q_xyzw = np.stack([zero, zero, np.sin(half), np.cos(half)], axis=1)
            return {"p": goal["p_W"][part], "q_xyzw": q_xyzw}

        yield self._columns("reference", RELIABLE, reference, wish, pose)
        velocity = make("geometry_msgs/msg/TwistStamped", header=header("map"))

        def twist(part: slice) -> dict[str, NDArray[Any]]:
            turn = np.zeros((len(goal[part]), 3))
            turn[:, 2] = goal["yaw_rate"][part]
            return {"v": goal["v_W"][part], "w": turn}

        yield self._columns("command_velocity", RELIABLE, velocity, wish, twist)
        given = ticks[ticks["command"]["stamp_ns"] > 0]
        yield self._attitude(given["command"], given["begin_ns"])
        rows = self._rows
        answered = rows["estimated"] != 0 if not self._loop.use_truth else rows["stamp_ns"] > 0
        commanded = rows[answered]
        stamp_ns = commanded["estimate"]["stamp_ns"]
        if self._loop.use_truth:
            stamp_ns = commanded["stamp_ns"]
        new = np.diff(stamp_ns, prepend=0) > 0
        yield self._motors(
            "command_motor_speed", FAST, commanded[new], "rotor_command_radps", stamp_ns[new]
        )

    def _attitude(self, command: Any, log_ns: Stamps) -> Stream:
        q, yaw_rate, thrust = (-1.5, -2.5, -3.5, -4.5), -5.5, -6.5
        turn = make("geometry_msgs/msg/Transform")
        turn.rotation = make("geometry_msgs/msg/Quaternion", x=q[0], y=q[1], z=q[2], w=q[3])
        rate, push = make("geometry_msgs/msg/Twist"), make("geometry_msgs/msg/Twist")
        rate.angular.z, push.linear.z = yaw_rate, thrust
        point = make("trajectory_msgs/msg/MultiDOFJointTrajectoryPoint")
        point.transforms, point.velocities, point.accelerations = [turn], [rate], [push]
        body = self._prefix + "base_link"
        message = make(
            "trajectory_msgs/msg/MultiDOFJointTrajectory",
            header=header(body), joint_names=[body], points=[point],
        )  # fmt: skip
        return self._columns(
            "command_attitude", RELIABLE, message, command["stamp_ns"],
            lambda part: {
                "q": _xyzw(command["q_WB"][part]),
                "yaw_rate": command["yaw_rate"][part],
                "thrust": command["thrust"][part],
            },
            log_ns, {"q": q, "yaw_rate": yaw_rate, "thrust": thrust},
        )  # fmt: skip

    # ---- what is said --------------------------------------------------------------------------

    def _said(self) -> Iterator[Stream]:
        kind = "diagnostic_msgs/msg/DiagnosticStatus"
        status = [
            (stamp_ns, _status(int(bool(values["reason"])), "mission", values["state"], values))
            for stamp_ns, values in self._loop.status
        ]
        yield self._single("mission/status", kind, LATCHED, status)
        events = [
            (
                event.stamp_ns,
                _status(
                    event.level, event.name, event.message,
                    {"stamp_s": f"{event.stamp_ns * 1e-9:.3f}"},
                ),
            )
            for event in sorted(self._events, key=lambda event: event.stamp_ns)
        ]  # fmt: skip
        yield self._single("events", kind, EVENTS, events)


def _world(loops: Sequence[RecordedLoop]) -> Iterator[Stream]:
    """Topics of the world as a whole."""
    datum = loops[0].scenario.environment.datum
    place = make(
        "sensor_msgs/msg/NavSatFix", header=header("map"), latitude=datum.latitude_deg,
        longitude=datum.longitude_deg, altitude=datum.height_m,
    )  # fmt: skip
    once = [serialise(place)]
    zero = np.zeros(1, np.int64)
    yield Stream("/datum", "/datum", place.__msgtype__, LATCHED, zero, lambda part: once[part])
    longest = max((loop.all_rows()["stamp_ns"] for loop in loops), key=len)
    ticks = longest[_due(longest, longest - loops[0].setup.imu_period_ns, CLOCK_NS)]
    clock = Template(make("rosgraph_msgs/msg/Clock", clock=time_of(0)))
    yield Stream(
        "/clock", "/clock", "rosgraph_msgs/msg/Clock", CLOCK, ticks,
        lambda part: clock.payloads(ticks[part]),
    )  # fmt: skip


def streams_of(loops: Sequence[RecordedLoop]) -> list[Stream]:
    """Every topic of a flight of one or several vehicles."""
    alone = len(loops) == 1
    vehicles = (_Vehicle(loop, loop.events, alone).streams() for loop in loops)
    return list(chain(_world(loops), *vehicles))


def write_flight(bag: BagWriter, loops: Sequence[RecordedLoop], recording: Recording) -> None:
    """Write what has been flown, in the order of log times.

    Args:
        bag: open, and empty.
        loops: the vehicles, flown.
        recording: which topics.
    """
    profile = recording.profile()
    kept = [stream for stream in streams_of(loops) if profile.keeps(stream.short)]
    thinned = [Thinning(profile.period_ns(stream.short)) for stream in kept]
    for stream in kept:
        bag.add_topic(stream.name, stream.type_name, stream.qos)
    last_ns = max((int(stream.log_ns[-1]) for stream in kept if len(stream.log_ns)), default=0)
    done = [0] * len(kept)
    for until_ns in range(WINDOW_NS, last_ns + WINDOW_NS + 1, WINDOW_NS):
        items = []
        for k, stream in enumerate(kept):
            part = slice(done[k], int(np.searchsorted(stream.log_ns, until_ns, side="left")))
            done[k] = part.stop
            if part.stop > part.start:
                log_ns, payloads = stream.log_ns[part].tolist(), stream.make(part)
                items += [(at, k, payload) for at, payload in zip(log_ns, payloads, strict=True)]
        items.sort(key=lambda item: item[:2])
        for log_ns, k, payload in items:
            stream = kept[k]
            if thinned[k].keeps(log_ns):
                bag.add(stream.name, stream.type_name, stream.qos, log_ns, payload)
