"""What identification reads of a flight: IMU, odometry, rotor speeds, commands, wind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from quadsim.bag import topics
from quadsim.bag.log import JOINTS, ODOMETRY, read_track
from quadsim.bag.reading import Bag
from quadsim.base.errors import InputError, QuadsimError
from quadsim.sim.log import Array, Stamps, Track
from quadsim.wire.decode import decode
from quadsim.wire.joint_states import decode_joints
from quadsim.world.air.atmosphere import density_at, height_of

IMU_TYPE = "sensor_msgs/msg/Imu"
FLUID = "sensor_msgs/msg/FluidPressure"
WIND_TYPE = "geometry_msgs/msg/Vector3Stamped"
SPEED, COMMAND, WIND = "motor_speed", "command_motor_speed", "wind"
PRESSURE = "imu/static_pressure"


@dataclass(frozen=True)
class StampedValues:
    """Values over time; stamps rise strictly, values are finite.

    Attributes:
        stamp_ns: (N,) int64.
        values: (N, width).
    """

    stamp_ns: Stamps
    values: Array

    @staticmethod
    def none(width: int) -> StampedValues:
        """No values."""
        return StampedValues(np.zeros(0, np.int64), np.zeros((0, width)))

    def __len__(self) -> int:
        return len(self.stamp_ns)


@dataclass(frozen=True)
class FlightData:
    """A flight to identify a vehicle from.

    Attributes:
        source: where it comes from, for messages.
        imu: specific force in m/s^2 and rate in rad/s, sensor axes, (N, 6).
        odometry: attitude, velocity and rate of the body.
        exact: whether the odometry is measured from outside (the truth, motion capture), so that
            it can tell the scale of the IMU; an estimate has its rates from that IMU.
        motor_speed: of the rotors, (M, n) rad/s.
        command: speeds asked of them; empty where none were recorded.
        wind_W: velocity of the air in m/s; empty: not known.
        air_density_kg_m3: of the air; 0: not known.
    """

    source: str
    imu: StampedValues
    odometry: Track
    exact: bool
    motor_speed: StampedValues
    command: StampedValues
    wind_W: StampedValues = field(default_factory=lambda: StampedValues.none(3))
    air_density_kg_m3: float = 0.0
    notes: tuple[str, ...] = ()


def read_flight(bag: Bag, namespace: str, odometry: str = "") -> FlightData:
    """Read what identification needs.

    Args:
        odometry: topic in it, or a full name; empty: the truth, else the filter's.

    Raises:
        InputError: a topic is missing, has another type, or holds no numbers.
    """
    notes = list(bag.notes)
    truth = topics.topic(namespace, topics.TRUTH)
    name = odometry or (topics.TRUTH if bag.counts.get(truth) else topics.FILTERED)
    full = topics.require(bag, namespace, name, ODOMETRY)
    track = read_track(bag, full, notes)
    if not len(track):
        raise InputError(f"{bag.path}: {full}: no odometry in it is whole")
    if not (np.isfinite(track.v_W).all() and np.isfinite(track.w_B).all()):
        raise InputError(f"{bag.path}: {full}: poses without velocities or rates; add --flights")

    def signal(name: str, kind: str, reader: Reader, width: int = 0) -> StampedValues:
        """A topic's values; none of so many columns where there is none and need be none."""
        if width and not bag.counts.get(topics.topic(namespace, name)):
            return StampedValues.none(width)
        full = topics.require(bag, namespace, name, kind)
        _, stamp_ns, values = read_rows(bag, full, reader, notes)
        return StampedValues(stamp_ns, values)

    def rotor_speeds(payloads: Sequence[bytes]) -> tuple[Stamps, Array]:
        return decode_joints(payloads)[:2]

    imu = signal(topics.IMU, IMU_TYPE, fields_reader(IMU_TYPE, "f", "w"))
    speeds = signal(SPEED, JOINTS, rotor_speeds)
    rotors = speeds.values.shape[1]
    command = signal(COMMAND, JOINTS, rotor_speeds, rotors)
    if command.values.shape[1] != rotors:
        raise InputError(
            f"{bag.path}: {command.values.shape[1]} rotors in {COMMAND}, {rotors} in {SPEED}"
        )
    wind_W = signal(WIND, WIND_TYPE, fields_reader(WIND_TYPE, "v"), 3)
    pressure = signal(PRESSURE, FLUID, fields_reader(FLUID, "pressure"), 1)
    density = standard_density(float(np.median(pressure.values))) if len(pressure) else 0.0
    exact = full != topics.topic(namespace, topics.FILTERED)
    source = f"{bag.path}: {namespace}"
    return FlightData(source, imu, track, exact, speeds, command, wind_W, density, tuple(notes))


def standard_density(pressure_Pa: float) -> float:
    """Density of the air in kg/m^3 where the static pressure is this, in a standard atmosphere."""
    if not 1e4 < pressure_Pa < 1.2e5:
        return 0.0
    return float(density_at(height_of(pressure_Pa), pressure_Pa))


Reader = Callable[[Sequence[bytes]], tuple[Stamps, Array]]


def fields_reader(kind: str, *names: str) -> Reader:
    """Reads fields of a message, side by side."""

    def read(payloads: Sequence[bytes]) -> tuple[Stamps, Array]:
        block = decode(kind, payloads)
        columns = [np.asarray(block[name]).reshape(len(block.stamp_ns), -1) for name in names]
        return block.stamp_ns, np.hstack(columns)

    return read


def read_rows(
    bag: Bag, full: str, reader: Reader, notes: list[str], rising: bool = True
) -> tuple[Stamps, Stamps, Array]:
    """Log times, stamps, both ns, and values of a topic's messages.

    What is no number is left out and counted, and what jumps back in time where stamps are to be
    ``rising``.

    Raises:
        InputError: the messages cannot be decoded.
    """
    messages = list(bag.messages([full]))
    try:
        stamp_ns, values = reader([message.payload for message in messages])
    except QuadsimError as error:
        raise InputError(f"{bag.path}: {full}: {error}") from None
    log_ns = np.array([message.log_ns for message in messages], np.int64)
    stamp_ns, values = stamp_ns.astype(np.int64), np.asarray(values, np.float64)
    good = np.asarray(np.isfinite(values).all(axis=1))
    if rising:
        good[1:] &= stamp_ns[1:] > np.maximum.accumulate(stamp_ns)[:-1]
    if not good.all():
        notes.append(f"{full}: {int((~good).sum())} messages left out (NaN, or stamps not rising)")
    return log_ns[good], stamp_ns[good], values[good]
